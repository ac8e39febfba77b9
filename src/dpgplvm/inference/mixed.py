"""The paper's mixed bound as something to climb: its allocations have no closed form, so they are climbed as well."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.inference.compiling import runs_fast
from dpgplvm.inference.objective import Evaluation
from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model, elbo_terms
from dpgplvm.model.state import Free, State
from dpgplvm.model.table import Table
from dpgplvm.numerics import NumericalError, double_precision


class MixedVariables(NamedTuple):
    """What an optimiser of the mixed bound moves."""

    free: Free
    logits: Float[Array, "D T"]  # phi = softmax(logits)


class MixedObjective:
    """The mixed bound of `model` on the table Y; `assignments` holds the allocations."""

    def __init__(self, model: Model, Y: np.ndarray, assignments: np.ndarray | None = None) -> None:
        with double_precision():
            self.table = jax.tree.map(jnp.asarray, Table.of(np.asarray(Y, dtype=float)))
            self._held = None if assignments is None else jnp.asarray(assignments, dtype=float)
        self.model = model

    def evaluate(self, variables: MixedVariables) -> Evaluation:
        """Bound and gradient; raises NumericalError where the covariances are not positive definite."""
        with double_precision():
            variables = jax.tree.map(jnp.asarray, variables)
            value, state, terms, gradient = _evaluate(self.model, variables, self._held, self.table)
            if not np.isfinite(value):
                raise NumericalError(
                    "the covariance of the inducing points is not positive definite: "
                    "use fewer inducing points (n_inducing) or a larger jitter"
                )
            return Evaluation(float(value), gradient, state, terms)


@runs_fast("model")
def _evaluate(model: Model, variables: MixedVariables, held, table: Table):
    prior = model.concentration

    def bound(variables: MixedVariables):
        phi = jax.nn.softmax(variables.logits, axis=1) if held is None else held
        # At their optimum q(V) and q(alpha) add nothing to the gradient in phi beyond its partial one.
        sticks = dp.settle(jax.lax.stop_gradient(phi), dp.prior_sticks(phi.shape[1], prior), prior)
        state = State(variables.free, phi, sticks)
        terms = elbo_terms(model, state, table, mixed=True)
        return terms.total, (state, terms)

    (value, (state, terms)), gradient = jax.value_and_grad(bound, has_aux=True)(variables)
    return value, state, terms, gradient
