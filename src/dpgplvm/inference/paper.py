"""The paper's own recipe, for comparison: gradient ascent with momentum on every variable at once (its section 3.2).

Everything starts as the paper says: latents at the principal components with unit variance, pseudo inputs a random
subset of them, stick parameters from a standard log-Normal, allocations from a standard normal through a softmax,
hyperparameters from their log-Normal priors, and q(alpha) at its prior.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.climb import Callback, Climb
from dpgplvm.inference.compiling import compiles_fast, runs_fast
from dpgplvm.inference.embeddings import principal_components
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.start import useful_inducing
from dpgplvm.model.bound import Model, elbo_terms
from dpgplvm.model.state import Free, State
from dpgplvm.model.sticks import Sticks
from dpgplvm.model.table import Table
from dpgplvm.numerics import NumericalError, double_precision

_STEPS_PER_CALL = 10
_MOMENTUM = 0.9


def start(
    model: Model, Y: np.ndarray, n_latents: int, n_inducing: int, n_groups: int, rng: np.random.Generator
) -> dict[str, object]:
    """Initial values of every variable, all unconstrained."""
    mean = principal_components(Y, n_latents).places
    n_inducing = useful_inducing(model, n_inducing, *mean.shape)
    hyperprior = model.hyperprior
    widths = {"relevance": hyperprior.relevance, "scale": hyperprior.scale}
    log_theta = {
        name: jnp.asarray(widths[parameter.role] * rng.normal(size=(n_groups, *parameter.shape(n_latents))))
        for name, parameter in model.kernel.parameters.items()
    }
    return {
        "free": Free(
            latents=model.latent_prior.start(jnp.asarray(mean), jnp.ones(mean.shape)),
            inducing=jnp.asarray(mean[rng.choice(len(mean), n_inducing, replace=False)]),
            log_theta=log_theta,
            log_noise_precision=jnp.asarray(hyperprior.noise * rng.normal(size=n_groups)),
        ),
        "logits": rng.normal(size=(Y.shape[1], n_groups)),
        "log_a": rng.normal(size=n_groups - 1),
        "log_b": rng.normal(size=n_groups - 1),
        "log_shape": np.log(model.concentration.shape),
        "log_rate": np.log(model.concentration.rate),
    }


def variables_of(state: State) -> dict[str, object]:
    """The same variables where a fit has left them."""
    log = jnp.log
    return {
        "free": state.free,
        "logits": log(state.phi + 1e-300),
        "log_a": log(state.sticks.a),
        "log_b": log(state.sticks.b),
        "log_shape": log(state.sticks.shape),
        "log_rate": log(state.sticks.rate),
    }


def ascend(
    model: Model,
    Y: np.ndarray,
    variables: dict[str, object],
    max_iter: int,
    mixed: bool,
    held: np.ndarray | None = None,
    step: float = 1e-3,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Climb:
    """Gradient ascent with momentum; `held` fixes the allocations (given groups).

    The step is for the bound divided by the number of entries of Y, and halves whenever the bound is not finite.
    """
    with double_precision():
        table = jax.tree.map(jnp.asarray, Table.of(np.asarray(Y, dtype=float)))
        given = None if held is None else jnp.asarray(held, dtype=float)
        here = best = jax.tree.map(jnp.asarray, variables)
        velocity = jax.tree.map(jnp.zeros_like, here)
        history: list[float] = []
        best_value, outcome = -np.inf, Outcome.BUDGET_SPENT
        try:
            for iteration in range(0, max_iter // _STEPS_PER_CALL * _STEPS_PER_CALL + 1, _STEPS_PER_CALL):
                ahead, ahead_velocity, value = _steps(model, here, velocity, table, given, step, mixed)
                value = float(value)
                if not np.isfinite(value):
                    here, velocity, step = best, jax.tree.map(jnp.zeros_like, here), 0.5 * step
                    if step < 1e-9:
                        outcome = Outcome.NUMERICAL_TROUBLE
                        break
                    continue
                if value > best_value:
                    best, best_value = here, value
                history.append(value)
                here, velocity = ahead, ahead_velocity
                if callback is not None and callback(iteration, value):
                    outcome = Outcome.INTERRUPTED
                    break
                recent = history[-10:]
                if len(history) > 20 and max(recent) - min(recent) < tol * abs(value):
                    outcome = Outcome.CONVERGED
                    break
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        if not history:
            raise NumericalError("the bound is not finite at the start: standardise the columns, or start elsewhere")
        state = _state(best, given)
        terms = _terms(model, state, table, mixed)
        return Climb(state, terms, float(terms.total), outcome, _STEPS_PER_CALL * (len(history) - 1), history)


def _state(variables, held) -> State:
    exp = jnp.exp
    sticks = Sticks(*(exp(variables[name]) for name in ("log_a", "log_b", "log_shape", "log_rate")))
    phi = jax.nn.softmax(variables["logits"], axis=1) if held is None else held
    return State(variables["free"], phi, sticks)


@compiles_fast("model", "mixed")
def _terms(model: Model, state: State, table: Table, mixed: bool):
    return elbo_terms(model, state, table, mixed)


@runs_fast("model", "mixed")
def _steps(model: Model, variables, velocity, table: Table, held, step, mixed: bool):
    """Some steps, and the bound where they started."""

    def bound(variables):
        return elbo_terms(model, _state(variables, held), table, mixed).total

    def one_step(carry, _):
        variables, velocity = carry
        value, gradient = jax.value_and_grad(bound)(variables)
        velocity = jax.tree.map(lambda v, g: _MOMENTUM * v + step * g / table.values.size, velocity, gradient)
        return (jax.tree.map(jnp.add, variables, velocity), velocity), value

    (ahead, velocity), values = jax.lax.scan(one_step, (variables, velocity), None, length=_STEPS_PER_CALL)
    return ahead, velocity, jnp.where(jnp.isfinite(values).all(), values[0], jnp.nan)
