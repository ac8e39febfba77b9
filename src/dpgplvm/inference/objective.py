"""Value and gradient of the bound, group by group.

Groups are independent given q(X). Each is one call of one compiled function, and several run side by side on threads;
groups that are not in play are not computed at all.

The adjoint of a group needs the weights of its columns, phi, which follow from the bounds of all groups. So each group
computes its bounds and its adjoint in one go with the weights of the evaluation before, and only the groups whose
weights turn out to have changed are computed again. Assignments settle early in a fit, or are given: then every group
is computed once, and nothing of size N x M^2 outlives a call.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dpgplvm.inference.compiled import LARGEST_JITTER, marginals_of, rows_per_block
from dpgplvm.inference.compiling import compiles_fast, runs_fast
from dpgplvm.inference.threads import Threads
from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model, Terms, group_bounds, other_terms
from dpgplvm.model.latents import Marginals
from dpgplvm.model.state import Free, State
from dpgplvm.model.table import Table
from dpgplvm.numerics import NumericalError, double_precision

# Weights that changed by less than this leave the gradient as it is, to eight digits; the value is exact in any case.
_SAME_WEIGHT = 1e-8
# The bound of a column under a group that it may not use: no weight at all, and no NaN.
_NOT_IN_PLAY = -1e30


class Evaluation(NamedTuple):
    """The bound at one point, its gradient, and the state with every closed-form factor at its optimum."""

    value: float
    gradient: Any  # the same tree as the variables
    state: State
    terms: Terms
    bounds: np.ndarray | None = None  # F [D, T]; the mixed bound has none


class Objective:
    """The bound of `model` on the table Y, as a function of the free parameters alone.

    Parameters
    ----------
    model : Model
    Y : array [N, D]
        NaN where nothing was observed.
    assignments : array [D, T] or None
        Held assignments (given groups); None infers them, in closed form inside every evaluation.
    n_in_play : int or None
        Columns may use only the first so many groups; None: all. The others are spare, and cost nothing.
    n_threads : int or None
        Groups evaluated at once; None takes one for each core that the process may use.
    brief : bool
        There will be some dozens of evaluations, not hundreds: compiling for speed would take longer than it saves.
    """

    def __init__(
        self,
        model: Model,
        Y: np.ndarray,
        assignments: np.ndarray | None = None,
        n_in_play: int | None = None,
        n_threads: int | None = None,
        brief: bool = False,
    ) -> None:
        with double_precision():
            self.table = jax.tree.map(jnp.asarray, Table.of(np.asarray(Y, dtype=float)))
        self.model = model
        self._held = assignments is not None
        self._phi = None if assignments is None else np.asarray(assignments, dtype=float)
        self._sticks: dp.Sticks | None = None
        self.n_in_play = n_in_play
        self._threads = Threads(n_threads)
        # Matrices of a kernel that does not bend are so small that there is little to gain by speed.
        self._bounds_and_adjoint = _for_a_few_evaluations if brief or not model.kernel.bends else _for_many_evaluations

    def evaluate(self, free: Free) -> Evaluation:
        """Bound and gradient; raises NumericalError where no jitter makes the covariances positive definite."""
        with double_precision():
            (n_rows, n_columns), n_groups = self.table.values.shape, free.n_groups
            n_in_play = n_groups if self.n_in_play is None else self.n_in_play
            marginals = marginals_of(self.model, free.latents)
            # NumPy arrays go into compiled functions as they are; jnp.asarray would take longer than the copy.
            host = jax.tree.map(np.asarray, free)
            block = rows_per_block(n_rows, n_columns, host.inducing.shape[0])

            def compute(group: tuple[int, np.ndarray]) -> tuple[np.ndarray, Any]:
                t, weights = group
                own = {name: values[t] for name, values in host.log_theta.items()}, host.log_noise(t)
                return self._with_enough_jitter(own, host.inducing, marginals, weights, block)

            guess = np.full((n_columns, n_groups), 1.0 / n_in_play) if self._phi is None else self._phi
            parts = self._threads.map(compute, enumerate(guess.T[:n_in_play]))
            F = np.full((n_columns, n_groups), _NOT_IN_PLAY)
            F[:, :n_in_play] = np.stack([bounds for bounds, _ in parts], axis=1)
            phi, sticks = self._assign(F)
            changed = np.flatnonzero(np.abs(phi - guess)[:, :n_in_play].max(axis=0) > _SAME_WEIGHT)
            for t, part in zip(changed, self._threads.map(compute, [(t, phi[:, t]) for t in changed]), strict=True):
                parts[t] = part

            state = State(free, phi, sticks, np.where(np.arange(n_groups) < n_in_play, 1.0, 0.0))
            terms, value, gradient = _finish(self.model, state, F, _collect([adjoint for _, adjoint in parts], host))
            if not np.isfinite(value):
                raise NumericalError(
                    "the bound is not finite, because latents or hyperparameters are out of range: "
                    "standardise the columns, or start elsewhere"
                )
            return Evaluation(float(value), gradient, state, terms, F)

    def _with_enough_jitter(self, own, inducing, marginals, weights, block) -> tuple[np.ndarray, Any]:
        """Bounds and adjoint of one group, with as much jitter as it takes."""
        jitter = self.model.jitter
        while True:
            bounds, adjoint = self._bounds_and_adjoint(
                self.model, *own, inducing, marginals, self.table, weights, jitter, block
            )
            bounds = np.asarray(bounds)
            if np.isfinite(bounds).all():
                return bounds, adjoint
            jitter *= 10.0
            if jitter > LARGEST_JITTER:
                raise NumericalError(
                    f"the bound is not finite, even with {LARGEST_JITTER:g} of the diagonal of the inducing points' "
                    "covariance added: scale the columns, or use fewer inducing points (n_inducing)"
                )

    def _assign(self, F: np.ndarray) -> tuple[np.ndarray, dp.Sticks]:
        """q(Z), q(V), q(alpha): at their joint optimum, climbed from the last one, unless groups are given."""
        prior = self.model.concentration
        start = self._sticks or dp.prior_sticks(F.shape[1], prior)
        if self._held and self._phi is not None:
            self._sticks = self._sticks or _settle(self._phi, start, prior)
            return self._phi, self._sticks
        phi, self._sticks = _profile(F, start, prior)
        self._phi = np.asarray(phi)
        return self._phi, self._sticks


def _bounds_and_adjoint(model, log_theta, log_noise, inducing, marginals, table, weights, jitter, block):
    """F[d] of one group, and the adjoint of sum_d weights[d] F[d]."""

    def bounds(log_theta, log_noise, inducing, marginals):
        theta, noise = jax.tree.map(jnp.exp, (log_theta, log_noise))
        return group_bounds(model, theta, noise, marginals, inducing, table, jitter, block)

    F, pull_back = jax.vjp(bounds, log_theta, log_noise, inducing, marginals)
    return F, pull_back(weights)


_for_many_evaluations = runs_fast("model", "block")(_bounds_and_adjoint)
_for_a_few_evaluations = compiles_fast("model", "block")(_bounds_and_adjoint)


def _collect(adjoints: list[Any], free: Free) -> tuple[Any, Any, Any, Any, Any]:
    """Adjoints of all groups: stacked for what a group owns, added up for what groups share."""
    d_theta = {name: np.zeros(np.shape(values)) for name, values in free.log_theta.items()}
    d_noise = np.zeros(np.shape(free.log_noise_precision))
    shared = []
    for t, (d_own_theta, d_own_noise, d_inducing, d_marginals) in enumerate(adjoints):
        for name, part in d_own_theta.items():
            d_theta[name][t] = part
        if not free.of_columns:
            d_noise[t] = d_own_noise
        of_columns = map(np.asarray, d_own_noise if free.of_columns else ())
        shared.append((np.asarray(d_inducing), *map(np.asarray, d_marginals), *of_columns))
    d_inducing, d_mean, d_variance, *d_columns = (reduce(np.add, parts) for parts in zip(*shared, strict=True))
    d_scale = None
    if free.of_columns:
        d_noise, d_scale = d_columns
    return d_theta, d_noise, d_scale, d_inducing, Marginals(d_mean, d_variance)


@compiles_fast("prior")
def _profile(F: Array, start: dp.Sticks, prior: dp.Concentration) -> tuple[Array, dp.Sticks]:
    return dp.profile(F, start, prior)


@compiles_fast("prior")
def _settle(phi: Array, start: dp.Sticks, prior: dp.Concentration) -> dp.Sticks:
    return dp.settle(phi, start, prior)


@compiles_fast("model")
def _finish(model: Model, state: State, F, adjoints):
    """All terms, and the gradient: the likelihood's adjoints pulled back to the free parameters, plus the others'."""

    def of_free(free: Free):
        others = other_terms(model, State(free, state.phi, state.sticks, state.in_play))
        marginals = model.latent_prior.marginals(free.latents)
        moved = (free.log_theta, free.log_noise_precision, free.log_scale, free.inducing, marginals)
        likelihood = jax.tree.map(jnp.vdot, adjoints, moved)
        return sum(jax.tree.leaves((others, likelihood))), others

    gradient, others = jax.grad(of_free, has_aux=True)(state.free)
    terms = Terms((state.phi * F).sum(), *others)
    return terms, terms.total, gradient
