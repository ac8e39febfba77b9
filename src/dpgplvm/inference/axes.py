"""Rotating the latents to axes in which every column listens to as few of them as possible.

With one group the latents are identified only up to a rotation. What each column's function does along any direction is
in the second moment of its gradient, G_d; the axes to choose are those in which the G_d are as sparse as they can be
made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve
from jaxtyping import Array, Float

from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.compiling import compiles_fast
from dpgplvm.model.bound import Model
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import mean_at
from dpgplvm.model.relevance import spread_of_latents
from dpgplvm.model.state import Free, State

_SOFTENING = 1e-4
_MOST_SWEEPS = 100
_COARSE = np.pi / 32
_GRIDS = (_COARSE * np.arange(16), _COARSE / 6 * np.arange(-6, 7), _COARSE / 36 * np.arange(-6, 7))


class Slopes(NamedTuple):
    """How the columns' mean functions change along the latents, in units of the latents' spread."""

    moments: np.ndarray  # [D, Q, Q] second moments of the gradients over the rows, G_d
    predicted: np.ndarray  # [D] variances of the functions themselves
    straight: np.ndarray  # [D] of these, what linear functions of the latents have

    def along(self, R: np.ndarray) -> Slopes:
        """The same in other axes."""
        return self._replace(moments=R.T @ self.moments @ R)


def slopes(model: Model, state: State, weights: Float[Array, "T M D"]) -> Slopes:
    """The slopes of all columns; `weights` are those of their mean functions."""
    return Slopes(*map(np.asarray, _slopes(model, state, weights)))


@compiles_fast("model")
def _slopes(
    model: Model, state: State, weights: Float[Array, "T M D"]
) -> tuple[Float[Array, "D Q Q"], Float[Array, " D"], Float[Array, " D"]]:
    marginals = model.latent_prior.marginals(state.free.latents)
    _, spread = spread_of_latents(marginals)

    def along(direction):
        tangent = jnp.broadcast_to(direction * spread, marginals.mean.shape)
        return jax.jvp(lambda X: mean_at(model, state, weights, X), (marginals.mean,), (tangent,))

    values, gradients = jax.lax.map(along, jnp.eye(spread.shape[0]))  # [Q, N, D]
    moments = jnp.einsum("qnd,rnd->dqr", gradients, gradients) / marginals.mean.shape[0]
    predicted = values[0] - values[0].mean(axis=0)
    X = (marginals.mean - marginals.mean.mean(axis=0)) / spread
    # Latents that nothing uses do not vary: without the little that is added there would be no solution.
    covariance = X.T @ X + 1e-9 * X.shape[0] * jnp.eye(X.shape[1])
    straight = X @ solve(covariance, X.T @ predicted, assume_a="pos")
    return moments, (predicted**2).mean(axis=0), (straight**2).mean(axis=0)


def axes_for_groups(moments: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rotation R [Q, Q] in which every group of columns listens to as few latents as possible: that a column of it
    happens to listen to one only does not count."""
    traces = np.maximum(np.trace(moments, axis1=1, axis2=2), 1e-300)
    shares = moments / traces[:, None, None]
    sizes = np.bincount(labels).astype(float)
    of_groups = np.array([shares[labels == t].mean(axis=0) for t in range(len(sizes))])
    return _sparsest(of_groups, sizes, rng, n_starts=3)


def sparse_axes(
    moments: np.ndarray, rng: np.random.Generator, n_starts: int = 6, softening: float = _SOFTENING
) -> np.ndarray:
    """The rotation R [Q, Q] that minimises sum_d w_d sum_q sqrt((R' G_d R)_qq / tr G_d + eps), from several starts;
    shares below the softening eps are not worth making any smaller.

    Columns weigh as much as they are predicted at all. Planes are turned, each to the best of a grid of angles, so a
    step is never caught in a plane's own local optimum.
    """
    traces = np.trace(moments, axis1=1, axis2=2)
    weights = traces / (traces + np.median(traces) + 1e-300)
    shares = moments / np.maximum(traces, 1e-300)[:, None, None]
    return _sparsest(shares, weights, rng, n_starts, softening)


def _sparsest(
    shares: np.ndarray, weights: np.ndarray, rng: np.random.Generator, n_starts: int, softening: float = _SOFTENING
) -> np.ndarray:
    """The best rotation of several descents side by side: from the axes as they are, and from random ones.

    Planes that have no axis in common are turned at once, as in a tournament where all play at the same time.
    """
    n_latents = shares.shape[1]
    random = [np.linalg.qr(rng.normal(size=(n_latents, n_latents)))[0] for _ in range(n_starts - 1)]
    R = np.array([np.eye(n_latents), *random])
    turned = _in_axes(shares, R)
    costs = _costs(turned, weights, softening)
    rounds = _rounds(n_latents)
    for _ in range(_MOST_SWEEPS):
        for p, q in rounds:
            angles = _best_angles(turned[..., p, p], turned[..., q, q], turned[..., p, q], weights, softening)
            turn = np.tile(np.eye(n_latents), (n_starts, 1, 1))
            turn[:, p, p] = turn[:, q, q] = np.cos(angles)
            turn[:, q, p] = np.sin(angles)
            turn[:, p, q] = -turn[:, q, p]
            R = R @ turn
            turned = _in_axes(turned, turn)
        before, costs = costs, _costs(turned, weights, softening)
        if (before - costs < 1e-6 * before).all():
            break
    return R[costs.argmin()]


def _in_axes(shares: np.ndarray, R: np.ndarray) -> np.ndarray:
    """[S, D, Q, Q] moments in the axes of S rotations."""
    return R.transpose(0, 2, 1)[:, None] @ shares @ R[:, None]


def _costs(turned: np.ndarray, weights: np.ndarray, softening: float) -> np.ndarray:
    heard = np.maximum(np.diagonal(turned, axis1=2, axis2=3), 0.0)
    return np.sqrt(heard + softening).sum(axis=2) @ weights


def _rounds(n_axes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """All pairs of axes, in rounds in which no axis is in two pairs."""
    players = list(range(n_axes + n_axes % 2))
    half = len(players) // 2
    rounds = []
    for _ in range(len(players) - 1):
        pairs = [pair for pair in zip(players[:half], players[: -half - 1 : -1], strict=True) if max(pair) < n_axes]
        first, second = np.array(pairs, dtype=int).reshape(-1, 2).T
        rounds.append((first, second))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def _best_angles(pp: np.ndarray, qq: np.ndarray, pq: np.ndarray, weights: np.ndarray, softening: float) -> np.ndarray:
    """The angles in [0, pi/2) that make the two diagonals of every plane sparsest, on ever finer grids; from [S, D, n]
    to [S, n]. No turn where none helps."""
    middle, half = 0.5 * (pp + qq)[..., None], 0.5 * (pp - qq)[..., None]

    def costs(angles: np.ndarray) -> np.ndarray:
        swing = half * np.cos(2.0 * angles)[:, None] + pq[..., None] * np.sin(2.0 * angles)[:, None]
        both = np.sqrt(np.maximum(middle + swing, 0.0) + softening)
        both += np.sqrt(np.maximum(middle - swing, 0.0) + softening)
        return np.einsum("d,sdna->sna", weights, both)

    best = np.zeros((pp.shape[0], pp.shape[2]))
    still = costs(best[..., None])[..., 0]
    for grid in _GRIDS:
        angles = best[..., None] + grid
        tried = costs(angles)
        choice = tried.argmin(axis=-1)[..., None]
        best = np.take_along_axis(angles, choice, axis=-1)[..., 0]
    return np.where(tried.min(axis=-1) < still - 1e-12, best, 0.0)


@compiles_fast()
def _spread(marginals: Marginals) -> tuple[Array, Array]:
    return spread_of_latents(marginals)


def rotate(model: Model, free: Free, R: np.ndarray) -> Free:
    """The same latents in other axes, each of unit spread: q(X) and the inducing points turned."""
    marginals = marginals_of(model, free.latents)
    mean, variance = map(np.asarray, marginals)
    centre, spread = map(np.asarray, _spread(marginals))
    turned_mean = (mean - centre) / spread @ R
    turned_variance = variance / spread**2 @ R**2
    return replace(
        free,
        latents=model.latent_prior.start(jnp.asarray(turned_mean), jnp.asarray(turned_variance)),
        inducing=jnp.asarray((np.asarray(free.inducing) - centre) / spread @ R),
    )
