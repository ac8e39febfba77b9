"""A fitted state as users read it: groups by size, empty ones left out, everything in NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.climb import Climb
from dpgplvm.inference.fit import Fit
from dpgplvm.inference.moves import Move
from dpgplvm.inference.objective import rows_per_block
from dpgplvm.inference.outcome import Outcome
from dpgplvm.model.bound import Model
from dpgplvm.model.relevance import Relevance, relevance
from dpgplvm.model.state import State


class Results(NamedTuple):
    """The fitted attributes of an estimator, without their trailing underscore."""

    latents: np.ndarray  # [N, Q]
    latent_variance: np.ndarray  # [N, Q]
    inducing: np.ndarray  # [M, Q]
    groups: np.ndarray  # [D]
    group_probabilities: np.ndarray  # [D, K]
    n_groups: int
    relevance: np.ndarray  # [D, Q]
    linear_relevance: np.ndarray  # [D, Q]
    kernel_parameters: dict[str, np.ndarray]  # each [K, ...]
    noise_precision: np.ndarray  # [K]
    concentration: float | None
    elbo: float
    elbo_terms: dict[str, float]
    outcome: Outcome
    n_iter: int
    history: np.ndarray
    moves: list[Move]
    state: State


def results(model: Model, ended: Fit, Y: np.ndarray) -> Results:
    """Read off everything a user meets."""
    climb = ended.climb
    state = climb.state
    free = state.free
    marginals = model.latent_prior.marginals(jax.tree.map(jnp.asarray, free.latents))
    phi = np.asarray(state.phi)
    n_rows, n_columns = Y.shape
    block = rows_per_block(n_rows, n_columns, free.inducing.shape[0])
    listens = _relevance_with_enough_jitter(model, state, Y, block)
    seen = _groups_by_size(phi) if model.inferred_groups else np.arange(phi.shape[1])
    position = np.empty(phi.shape[1], dtype=int)
    position[seen] = np.arange(len(seen))
    return Results(
        latents=np.asarray(marginals.mean),
        latent_variance=np.asarray(marginals.variance),
        inducing=np.asarray(free.inducing),
        groups=position[phi.argmax(axis=1)],
        group_probabilities=phi[:, seen] / phi[:, seen].sum(axis=1, keepdims=True),
        n_groups=len(seen),
        relevance=np.asarray(listens.total),
        linear_relevance=np.asarray(listens.linear),
        kernel_parameters={name: np.exp(np.asarray(values))[seen] for name, values in free.log_theta.items()},
        noise_precision=np.exp(np.asarray(free.log_noise_precision))[seen],
        concentration=float(state.sticks.shape / state.sticks.rate) if model.inferred_groups else None,
        elbo=climb.value,
        elbo_terms=_named_terms(climb),
        outcome=climb.outcome,
        n_iter=climb.n_iterations,
        history=np.asarray(climb.history),
        moves=ended.moves,
        state=jax.tree.map(np.asarray, state),
    )


@partial(jax.jit, static_argnames=("model", "block"))
def _relevance(model, state, Y, block):
    return relevance(model, state, Y, block=block)


def _relevance_with_enough_jitter(model: Model, state: State, Y: np.ndarray, block: int | None) -> Relevance:
    """The bound may have needed more jitter than the model's own; so does what is read off it."""
    while True:
        found = _relevance(model, state, Y, block)
        if np.isfinite(found.total).all() or model.jitter > 1e-2:
            return found
        model = replace(model, jitter=10.0 * model.jitter)


def _groups_by_size(phi: np.ndarray) -> np.ndarray:
    """Groups that some column belongs to more than to any other, most columns first."""
    counts = np.bincount(phi.argmax(axis=1), minlength=phi.shape[1])
    order = np.argsort(-counts, kind="stable")
    return order[counts[order] > 0]


def _named_terms(climb: Climb) -> dict[str, float]:
    named = climb.terms._asdict()
    sticks = named.pop("dirichlet_process")
    named |= {} if sticks is None else sticks._asdict()
    return {name: float(value) for name, value in named.items()}
