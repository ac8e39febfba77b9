"""Value and gradient of the bound, a bundle of groups at a time.

Groups are independent given q(X). A bundle of them is one call of a compiled function, and several bundles run side by
side on threads, so the number of groups is not compiled in.

The adjoint of a group needs the weights of its columns, phi, which follow from the bounds of all groups. So each bundle
computes its bounds and its adjoint in one go with the weights of the evaluation before, and only the bundles whose
weights turn out to have changed are computed again. Assignments settle early in a fit, or are given: then every bundle
is computed once, and nothing of size N x M^2 outlives a call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model, Terms, group_bounds, other_terms
from dpgplvm.model.latents import Marginals
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError, double_precision

_LARGEST_JITTER = 1e-2
# Weights that changed by less than this leave the gradient as it is, to eight digits; the value is exact in any case.
_SAME_WEIGHT = 1e-8


class Evaluation(NamedTuple):
    """The bound at one point, its gradient, and the state with every closed-form factor at its optimum."""

    value: float
    gradient: Any  # the same tree as the variables
    state: State
    terms: Terms


class Plan(NamedTuple):
    """How an evaluation is cut up."""

    groups_at_once: int
    rows_at_once: int | None  # None: all of them

    @classmethod
    def for_size(cls, n_rows: int, n_columns: int, n_inducing: int, n_groups: int) -> Plan:
        """Bundles large enough to be worth a call, few enough to compile fast, as many as there are cores if possible;
        blocks of rows small enough for the memory."""
        bytes_per_row = 8 * (n_inducing * (n_inducing + 1) // 2 + n_inducing + n_columns)
        worth_a_call, worth_a_block = 2 * 2**20, 32 * 2**20
        small_enough = max(1, min(4, worth_a_call // (n_rows * bytes_per_row)))
        n_bundles = max(-(-n_groups // small_enough), min(n_groups, os.cpu_count() or 1))
        rows_at_once = max(1, worth_a_block // bytes_per_row)
        return cls(-(-n_groups // n_bundles), None if n_rows <= rows_at_once else rows_at_once)


class Objective:
    """The bound of `model` on the table Y, as a function of the free parameters alone.

    Parameters
    ----------
    model : Model
    Y : array [N, D]
    assignments : array [D, T] or None
        Held assignments (given groups); None infers them, in closed form inside every evaluation.
    n_threads : int or None
        Bundles of groups evaluated at once; None takes one for each core.
    """

    def __init__(
        self, model: Model, Y: np.ndarray, assignments: np.ndarray | None = None, n_threads: int | None = None
    ) -> None:
        with double_precision():
            self.Y = jnp.asarray(Y, dtype=float)
        self.model = model
        self._held = assignments is not None
        self._phi = None if assignments is None else np.asarray(assignments, dtype=float)
        self._sticks: dp.Sticks | None = None
        self._threads = ThreadPoolExecutor(n_threads or os.cpu_count() or 1, thread_name_prefix="dpgplvm")

    def evaluate(self, free: Free) -> Evaluation:
        """Bound and gradient; raises NumericalError where no jitter makes the covariances positive definite."""
        with double_precision():
            free = jax.tree.map(jnp.asarray, free)
            marginals = _marginals(self.model, free)
            (n_rows, n_columns), n_groups = self.Y.shape, free.log_noise_precision.shape[0]
            plan = Plan.for_size(n_rows, n_columns, free.inducing.shape[0], n_groups)
            bundles = _bundles(n_groups, plan.groups_at_once)
            compute = partial(_with_enough_jitter, self.model, free, marginals, self.Y, plan)

            guess = np.full((n_columns, n_groups), 1.0 / n_groups) if self._phi is None else self._phi
            guessed = _weights_by_bundle(guess, bundles)
            parts = self._on_threads(compute, zip(bundles, guessed, strict=True))
            F = np.concatenate([bounds for bounds, _ in parts])[:n_groups].T
            phi, sticks = self._assign(F)
            weights = _weights_by_bundle(phi, bundles)
            changed = np.flatnonzero(np.abs(weights - guessed).max(axis=(1, 2)) > _SAME_WEIGHT)
            again = self._on_threads(compute, [(bundles[b], weights[b]) for b in changed])
            for b, part in zip(changed, again, strict=True):
                parts[b] = part

            state = State(free, jnp.asarray(phi), sticks)
            terms, value, gradient = _finish(self.model, state, F, [adjoint for _, adjoint in parts])
            return Evaluation(float(value), gradient, state, terms)

    def _assign(self, F: np.ndarray) -> tuple[np.ndarray, dp.Sticks]:
        """q(Z), q(V), q(alpha): at their joint optimum, climbed from the last one, unless groups are given."""
        prior = self.model.concentration
        start = self._sticks or dp.prior_sticks(F.shape[1], prior)
        if self._held and self._phi is not None:
            return self._phi, start
        phi, self._sticks = _profile(F, start, prior)
        self._phi = np.asarray(phi)
        return self._phi, self._sticks

    def _on_threads(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        def in_double_precision(item):
            with double_precision():
                return function(item)

        return list(self._threads.map(in_double_precision, items))


def _bundles(n_groups: int, at_once: int) -> np.ndarray:
    """Indices of the groups, `at_once` in a row; the last row is filled up with the last group."""
    n_bundles = -(-n_groups // at_once)
    return np.minimum(np.arange(n_bundles * at_once), n_groups - 1).reshape(n_bundles, at_once)


def _weights_by_bundle(phi: np.ndarray, bundles: np.ndarray) -> np.ndarray:
    """phi as [bundle, group in the bundle, D]; what fills up the last bundle has no weight."""
    weights = np.zeros((bundles.size, phi.shape[0]))
    weights[: phi.shape[1]] = phi.T
    return weights.reshape(*bundles.shape, -1)


def _with_enough_jitter(model, free, marginals, Y, plan, bundle):
    """Bounds and adjoint of a bundle of groups, with as much jitter as it takes."""
    groups, weights = bundle
    jitter = np.full(len(groups), model.jitter)
    while True:
        bounds, adjoint = _bounds_and_adjoint(model, free, marginals, Y, groups, weights, jitter, plan.rows_at_once)
        bounds = np.asarray(bounds)
        failed = ~np.isfinite(bounds).all(axis=1)
        if not failed.any():
            return bounds, adjoint
        jitter[failed] *= 10.0
        if jitter.max() > _LARGEST_JITTER:
            raise NumericalError(
                f"the covariance of the inducing points is not positive definite, even with {_LARGEST_JITTER:g} of its "
                "diagonal added: scale the columns, or use fewer inducing points (n_inducing)"
            )


def _moved_by_likelihood(free: Free, marginals: Marginals):
    return free.log_theta, free.log_noise_precision, free.inducing, marginals


@partial(jax.jit, static_argnames=("model", "block"))
def _bounds_and_adjoint(model, free, marginals, Y, groups, weights, jitter, block):
    """F[t, d] of the groups with these indices, and the adjoint of sum_{t,d} weights[t,d] F[t,d]."""

    def bounds(log_theta, log_noise_precision, inducing, marginals):
        def of_group(t, share):
            theta, noise_precision = jax.tree.map(lambda value: jnp.exp(value[t]), (log_theta, log_noise_precision))
            return group_bounds(model, theta, noise_precision, marginals, inducing, Y, share, block)

        # Unrolled: no factorisation is batched, and XLA can work on one group while another waits.
        return jnp.stack([of_group(groups[i], jitter[i]) for i in range(len(groups))])

    F, pull_back = jax.vjp(bounds, *_moved_by_likelihood(free, marginals))
    return F, pull_back(weights)


@partial(jax.jit, static_argnames="model")
def _marginals(model: Model, free: Free) -> Marginals:
    return model.latent_prior.marginals(free.latents)


@partial(jax.jit, static_argnames="prior")
def _profile(F: Array, start: dp.Sticks, prior: dp.Concentration) -> tuple[Array, dp.Sticks]:
    return dp.profile(F, start, prior)


@partial(jax.jit, static_argnames="model")
def _finish(model: Model, state: State, F, adjoints):
    """All terms, and the gradient: the likelihood's adjoints pulled back to the free parameters, plus the other
    terms'."""

    def of_free(free: Free):
        others = other_terms(model, State(free, state.phi, state.sticks))
        moved = _moved_by_likelihood(free, model.latent_prior.marginals(free.latents))
        likelihood = jax.tree.map(lambda value, *parts: jnp.vdot(sum(parts), value), moved, *adjoints)
        return sum(jax.tree.leaves((others, likelihood))), others

    gradient, others = jax.grad(of_free, has_aux=True)(state.free)
    terms = Terms((state.phi * F).sum(), *others)
    return terms, terms.total, gradient
