"""Rotating the latents to axes in which every column listens to as few of them as possible.

With one group the latents are identified only up to a rotation. What each column's function does along any direction is
in the second moment of its gradient, G_d; the axes to choose are those in which the G_d are as sparse as they can be
made.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model
from dpgplvm.model.posterior import inducing_weights, mean_at
from dpgplvm.model.relevance import spread_of_latents
from dpgplvm.model.state import Free, State

_ANGLES = np.linspace(0.0, np.pi / 2, 31)[:-1]
_SOFTENING = 1e-4


@partial(jax.jit, static_argnames=("model", "block"))
def gradient_moments(
    model: Model, state: State, Y: Float[Array, "N D"], block: int | None = None
) -> Float[Array, "D Q Q"]:
    """Second moments over the rows of the gradient of every column's mean function, in units of the latents' spread."""
    marginals = model.latent_prior.marginals(state.free.latents)
    weights = inducing_weights(model, state, Y, block)
    _, spread = spread_of_latents(marginals)

    def along(direction):
        tangent = jnp.broadcast_to(direction * spread, marginals.mean.shape)
        return jax.jvp(lambda X: mean_at(model, state, weights, X), (marginals.mean,), (tangent,))[1]

    slopes = jax.lax.map(along, jnp.eye(spread.shape[0]))  # [Q, N, D]
    return jnp.einsum("qnd,rnd->dqr", slopes, slopes) / Y.shape[0]


def axes_for_groups(moments: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rotation R [Q, Q] in which every group of columns listens to as few latents as possible: that a column of it
    happens to listen to one only does not count."""
    traces = np.maximum(np.trace(moments, axis1=1, axis2=2), 1e-300)
    shares = moments / traces[:, None, None]
    sizes = np.bincount(labels).astype(float)
    of_groups = np.array([shares[labels == t].mean(axis=0) for t in range(len(sizes))])
    return _sparsest(of_groups, sizes, rng, n_starts=3)


def sparse_axes(moments: np.ndarray, rng: np.random.Generator, n_starts: int = 6) -> np.ndarray:
    """The rotation R [Q, Q] that minimises sum_d w_d sum_q sqrt((R' G_d R)_qq / tr G_d + eps), from several starts.

    Columns weigh as much as they are predicted at all. Planes are rotated in turn, each to the best of a grid of
    angles, so a step is never caught in a plane's own local optimum.
    """
    traces = np.trace(moments, axis1=1, axis2=2)
    weights = traces / (traces + np.median(traces) + 1e-300)
    shares = moments / np.maximum(traces, 1e-300)[:, None, None]
    return _sparsest(shares, weights, rng, n_starts)


def _sparsest(shares: np.ndarray, weights: np.ndarray, rng: np.random.Generator, n_starts: int) -> np.ndarray:
    """The best rotation of several descents: from the axes as they are, and from random ones."""
    n_latents = shares.shape[1]
    starts = [np.eye(n_latents)]
    starts += [np.linalg.qr(rng.normal(size=(n_latents, n_latents)))[0] for _ in range(n_starts - 1)]
    return min((_descend(shares, weights, start) for start in starts), key=lambda pair: pair[0])[1]


def _descend(shares: np.ndarray, weights: np.ndarray, R: np.ndarray) -> tuple[float, np.ndarray]:
    n_latents, R = R.shape[0], R.copy()
    turned = R.T @ shares @ R
    cost = _cost(turned, weights)
    for _ in range(100):
        for p in range(n_latents - 1):
            for q in range(p + 1, n_latents):
                angle = _best_angle(turned[:, p, p], turned[:, q, q], turned[:, p, q], weights)
                if angle:
                    plane = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                    R[:, [p, q]] = R[:, [p, q]] @ plane
                    turned[:, :, [p, q]] = turned[:, :, [p, q]] @ plane
                    turned[:, [p, q], :] = plane.T @ turned[:, [p, q], :]
        before, cost = cost, _cost(turned, weights)
        if before - cost < 1e-7 * before:
            break
    return cost, R


def _cost(turned: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ np.sqrt(np.diagonal(turned, axis1=1, axis2=2) + _SOFTENING).sum(axis=1))


def _best_angle(pp: np.ndarray, qq: np.ndarray, pq: np.ndarray, weights: np.ndarray) -> float:
    """The angle in [0, pi/2) that makes the two diagonals sparsest, on a grid and then once more on a finer one."""

    def costs(angles: np.ndarray) -> np.ndarray:
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        one = cos**2 * pp + sin**2 * qq + 2 * sin * cos * pq
        other = sin**2 * pp + cos**2 * qq - 2 * sin * cos * pq
        return (np.sqrt(np.maximum(one, 0) + _SOFTENING) + np.sqrt(np.maximum(other, 0) + _SOFTENING)) @ weights

    coarse = costs(_ANGLES)
    best = _ANGLES[coarse.argmin()]
    fine = best + np.linspace(-1, 1, 21) * (_ANGLES[1] - _ANGLES[0])
    fine_costs = costs(fine)
    if fine_costs.min() >= coarse[0] - 1e-12:
        return 0.0
    return float(fine[fine_costs.argmin()])


def rotate(model: Model, free: Free, R: np.ndarray) -> Free:
    """The same latents in other axes, each of unit spread: q(X) and the inducing points turned."""
    marginals = model.latent_prior.marginals(jax.tree.map(jnp.asarray, free.latents))
    mean, variance = (np.asarray(part) for part in marginals)
    centre, spread = (np.asarray(part) for part in spread_of_latents(marginals))
    turned_mean = (mean - centre) / spread @ R
    turned_variance = variance / spread**2 @ R**2
    return replace(
        free,
        latents=model.latent_prior.start(jnp.asarray(turned_mean), jnp.asarray(turned_variance)),
        inducing=jnp.asarray((np.asarray(free.inducing) - centre) / spread @ R),
    )
