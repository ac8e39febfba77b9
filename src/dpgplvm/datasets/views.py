"""Simulated tables of columns in groups, each of which listens to some of the latents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Views(NamedTuple):
    """A simulated table and the truth behind it.

    Attributes
    ----------
    Y : [N, D]
        The table.
    groups : [D]
        The true group of every column.
    latents : [N, Q]
        The true latents.
    listens : [K, Q] of bool
        Which latents each group depends on.
    """

    Y: np.ndarray
    groups: np.ndarray
    latents: np.ndarray
    listens: np.ndarray


def make_views(
    n_samples: int = 100,
    latents: Sequence[Sequence[int]] = ((0, 1), (0, 2)),
    columns: int | Sequence[int] = 10,
    weights: Sequence[Sequence[float]] | float = 1.0,
    noise_variance: float | Sequence[float] = 0.01,
    linear: bool = False,
    n_noise_columns: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Views:
    """Draw a table whose columns fall into groups, each a GP function of its own few latents.

    The default is the paper's toy: twenty columns, ten of latents 0 and 1, ten of latents 0 and 2.

    Parameters
    ----------
    n_samples : int
        Rows.
    latents : sequence of sequences of int
        The latents that each group listens to.
    columns : int or one int for each group
        Columns in a group.
    weights : float or one sequence for each group
        ARD weights (inverse squared length-scales) along the group's latents.
    noise_variance : float or one float for each group
        Variance of the noise on columns of unit signal variance.
    linear : bool
        Linear functions with random slopes in place of GP draws.
    n_noise_columns : int
        Columns of pure noise to append, in a group of their own that listens to nothing.
    random_state : int, Generator or None

    Returns
    -------
    Views
        `Y`, `groups`, `latents` and `listens`.

    Examples
    --------
    >>> from dpgplvm.datasets import make_views
    >>> table = make_views(random_state=0)
    >>> table.Y.shape, table.groups.tolist()
    ((100, 20), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    _check_arguments(n_samples, latents, columns, weights, noise_variance, n_noise_columns)
    rng = np.random.default_rng(random_state)
    n_groups = len(latents)
    sizes = _one_for_each(columns, n_groups)
    noises = _one_for_each(noise_variance, n_groups)
    if not len(sizes) == len(noises) == n_groups:
        raise ValueError(
            f"latents describes {n_groups} groups, columns {len(sizes)} and noise_variance {len(noises)}: "
            "give one entry for each group, or a single number"
        )
    X = rng.normal(size=(n_samples, 1 + max(max(group) for group in latents)))
    own_weights = _one_for_each(weights, n_groups)
    blocks, listens = [], np.zeros((n_groups + bool(n_noise_columns), X.shape[1]), dtype=bool)
    for k, group in enumerate(latents):
        own = X[:, list(group)]
        along = np.asarray(
            own_weights[k] * np.ones(len(group)) if np.isscalar(own_weights[k]) else own_weights[k], dtype=float
        )
        if len(along) != len(group):
            raise ValueError(
                f"weights[{k}] has {len(along)} entries, but group {k} listens to {len(group)} latents: "
                "give one for each"
            )
        signal = own @ rng.normal(size=(len(group), sizes[k])) if linear else _gp_draws(own, along, sizes[k], rng)
        blocks.append(signal + np.sqrt(noises[k]) * rng.normal(size=signal.shape))
        listens[k, list(group)] = True
    blocks.append(rng.normal(size=(n_samples, n_noise_columns)))
    groups = np.repeat(np.arange(n_groups + 1), [*sizes, n_noise_columns])
    return Views(np.concatenate(blocks, axis=1), groups, X, listens)


def _one_for_each(value: Any, n_groups: int) -> list[Any]:
    return [value] * n_groups if np.isscalar(value) else list(value)


def _check_arguments(n_samples, latents, columns, weights, noise_variance, n_noise_columns) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples={n_samples} is too small: give at least 1")
    if n_noise_columns < 0:
        raise ValueError(f"n_noise_columns={n_noise_columns} is negative: give 0 or more")
    if not len(latents) or not all(len(group) and min(group) >= 0 for group in latents):
        raise ValueError(f"latents={latents!r}: give every group at least one latent, numbered from 0")
    for name, value in (("columns", columns), ("noise_variance", noise_variance), ("weights", weights)):
        flat = np.concatenate([np.ravel(part) for part in _one_for_each(value, 1)] or [np.zeros(0)])
        if (flat < 0).any():
            raise ValueError(f"{name}={value!r} is negative somewhere: give numbers that are 0 or more")
    if not np.isscalar(weights) and len(weights) != len(latents):
        raise ValueError(f"weights has {len(weights)} entries for {len(latents)} groups: give one for each")


def _gp_draws(X: np.ndarray, weights: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """[N, n_draws] functions of X from a unit-variance ARD RBF process."""
    squared = ((X[:, None] - X[None]) ** 2 * weights).sum(axis=-1)
    eigenvalues, vectors = np.linalg.eigh(np.exp(-0.5 * squared))
    return vectors @ (np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * rng.normal(size=(len(X), n_draws)))
