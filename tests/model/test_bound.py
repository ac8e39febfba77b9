"""The whole bound: against the paper term by term, against exact evidence, and its gradient against everything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpgplvm.inference import objective as objectives
from dpgplvm.inference.objective import Objective
from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model, elbo_terms, other_terms
from dpgplvm.model.kernels import NAMED_KERNELS, RBF, Kernel
from dpgplvm.model.state import Free, State
from dpgplvm.model.table import Table
from dpgplvm.numerics import NumericalError

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, T = 6, 4, 2, 3
N_INDUCING = {"linear": Q, "rbf": 3, "rbf+linear": 3}  # more than Q, and the linear kernel's K would be singular
JITTER = 1e-6
seeds = st.integers(0, 2**32 - 1)


def terms_and_gradient(model, state, Y, mixed=False):
    """Both in one, and always of the same types, because compiling is what takes the time here."""
    return _terms_and_gradient(model, jax.tree.map(np.asarray, state), Table(Y), mixed)


@partial(jax.jit, static_argnames=("model", "mixed"))
def _terms_and_gradient(model, state, table, mixed):
    def total(free, phi):
        terms = elbo_terms(model, replace(state, free=free, phi=phi), table, mixed)
        return terms.total, terms

    gradient, terms = jax.grad(total, argnums=(0, 1), has_aux=True)(state.free, state.phi)
    return terms, gradient


class SampledRBF(RBF):
    """A user's kernel: no closed forms, though they are known."""

    psi0, psi1, psi2 = Kernel.psi0, Kernel.psi1, Kernel.psi2
    psi2_features, psi2_of_features = Kernel.psi2_features, Kernel.psi2_of_features


# Each with the name of its hyperparameters in the witness.
MODELS = {name: (Model(kernel, jitter=JITTER), name) for name, kernel in NAMED_KERNELS.items()}
MODELS["sampled"] = (Model(SampledRBF(), jitter=JITTER), "rbf")


def as_free(kernel, free):
    """The witness's free parameters as the library's."""
    free = {name: jnp.asarray(value) for name, value in free.items()}
    return Free(
        latents={"mean": free["mean"], "log_variance": free["log_variance"]},
        inducing=free["inducing"],
        log_theta={name: free[name] for name in witness.PARAMETERS[kernel]},
        log_noise_precision=free["log_noise_precision"],
    )


def as_witness(free):
    """The library's free parameters, or their gradient, as the witness's."""
    flat = {**free.latents, **free.log_theta, "inducing": free.inducing}
    return {
        name: np.asarray(value) for name, value in (flat | {"log_noise_precision": free.log_noise_precision}).items()
    }


def random_problem(seed, kernel):
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, N_INDUCING[kernel], T)
    return free, rng.normal(size=(N, D)), rng


def random_state(free, rng, kernel):
    phi = rng.dirichlet(np.full(T, 0.7), size=D)
    a, b = rng.uniform(0.5, 5.0, size=(2, T - 1))
    sticks = dp.Sticks(*map(jnp.asarray, (a, b, rng.uniform(0.5, 5.0), rng.uniform(0.5, 5.0))))
    return State(as_free(kernel, free), jnp.asarray(phi), sticks, in_play=jnp.ones(T))


def assert_terms(found, wanted):
    for name in ("likelihood", "latents", "hyperprior"):
        np.testing.assert_allclose(getattr(found, name), wanted[name], rtol=1e-8, err_msg=name)
    for name, value in found.dirichlet_process._asdict().items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-10, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.total, sum(wanted.values()), rtol=1e-8)


@pytest.mark.parametrize("mixed", [False, True], ids=["grouped", "mixed"])
@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_terms_match_the_paper(kernel, mixed, seed):
    free, Y, rng = random_problem(seed, kernel)
    state = random_state(free, rng, kernel)
    found, _ = terms_and_gradient(MODELS[kernel][0], state, Y, mixed=mixed)
    sticks = tuple(map(np.asarray, state.sticks))
    assert_terms(found, witness.elbo(kernel, free, np.asarray(state.phi), sticks, Y, mixed, JITTER))


@pytest.mark.parametrize("mixed", [False, True], ids=["grouped", "mixed"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_in_everything_and_in_the_assignments_match_the_paper(kernel, mixed):
    free, Y, rng = random_problem(11, kernel)
    state = random_state(free, rng, kernel)
    sticks = tuple(map(np.asarray, state.sticks))
    _, (of_free, of_phi) = terms_and_gradient(MODELS[kernel][0], state, Y, mixed)

    def in_paper(at):
        return sum(witness.elbo(kernel, at, at["phi"], sticks, Y, mixed, JITTER).values())

    wanted = witness.derivatives(in_paper, {**free, "phi": np.asarray(state.phi)})
    assert_gradients({**as_witness(of_free), "phi": of_phi}, wanted, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_certain_assignments_both_bounds_agree(kernel):
    free, Y, rng = random_problem(0, kernel)
    certain = jnp.asarray(np.eye(T)[rng.integers(T, size=D)])
    state = replace(random_state(free, rng, kernel), phi=certain)
    grouped, mixed = (terms_and_gradient(MODELS[kernel][0], state, Y, mixed=mixed)[0] for mixed in (False, True))
    np.testing.assert_allclose(grouped.total, mixed.total, rtol=1e-10)


def test_given_groups_leave_out_the_dirichlet_process():
    free, _, rng = random_problem(1, "rbf")
    state = random_state(free, rng, "rbf")
    inferred, _ = MODELS["rbf"]
    with_process, without = other_terms(inferred, state), other_terms(replace(inferred, inferred_groups=False), state)
    assert without[1] is None
    assert with_process[1] is not None
    assert (without[0], without[2]) == (with_process[0], with_process[2])


def assert_gradients(found, wanted, rtol=1e-8):
    for name, value in wanted.items():
        atol = rtol * np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_gradient_of_the_objective_is_that_of_the_bound(name):
    model, kernel = MODELS[name]
    free, Y, _ = random_problem(2, kernel)
    evaluation = Objective(model, Y).evaluate(as_free(kernel, free))
    terms, (gradient, _) = terms_and_gradient(model, evaluation.state, Y)
    np.testing.assert_allclose(evaluation.value, terms.total, rtol=1e-11)
    np.testing.assert_allclose(evaluation.terms.total, terms.total, rtol=1e-11)
    assert_gradients(as_witness(evaluation.gradient), as_witness(gradient))


@pytest.mark.parametrize("name", MODELS)
def test_gradient_of_the_objective_matches_differences_of_the_profiled_value(name):
    """Envelope theorem: the assignments move as well, but add nothing to the slope."""
    model, kernel = MODELS[name]
    free, Y, rng = random_problem(4, kernel)
    # Every column listens a little to each group, or else nothing would move.
    free |= {part: free[part][:1] + 0.1 * rng.normal(size=free[part].shape) for part in witness.PARAMETERS[kernel]}
    free["log_noise_precision"] = np.full(T, 0.5)
    direction = {part: rng.normal(size=value.shape) for part, value in free.items()}
    objective = Objective(model, Y)

    def evaluate(step):
        return objective.evaluate(as_free(kernel, {part: free[part] + step * direction[part] for part in free}))

    step = 1e-3
    here, *around = (evaluate(share * step) for share in (0, 1, -1, 2, -2))
    assert np.abs(around[0].state.phi - here.state.phi).max() > 1e-5
    slope = sum(np.vdot(value, direction[part]) for part, value in as_witness(here.gradient).items())
    one, minus_one, two, minus_two = (evaluation.value for evaluation in around)
    differences = (8.0 * (one - minus_one) - (two - minus_two)) / (12.0 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


@pytest.mark.parametrize("certain", [True, False], ids=["one-hot", "soft"])
def test_held_assignments_stay(certain):
    model, kernel = MODELS["rbf"]
    free, Y, rng = random_problem(5, kernel)
    phi = np.eye(T)[[0, 2, 0, 2]] if certain else rng.dirichlet(np.ones(T), size=D)
    evaluation = Objective(model, Y, assignments=phi).evaluate(as_free(kernel, free))
    np.testing.assert_array_equal(evaluation.state.phi, phi)
    sticks = tuple(map(np.asarray, evaluation.state.sticks))
    assert_terms(evaluation.terms, witness.elbo(kernel, free, phi, sticks, Y, jitter=JITTER))

    def in_paper(free):
        return sum(witness.elbo(kernel, free, phi, sticks, Y, jitter=JITTER).values())

    assert_gradients(as_witness(evaluation.gradient), witness.derivatives(in_paper, free), rtol=1e-6)


def test_small_blocks_of_rows_change_nothing(monkeypatch):
    model, kernel = MODELS["rbf"]
    free, Y, _ = random_problem(6, kernel)
    whole = Objective(model, Y).evaluate(as_free(kernel, free))
    monkeypatch.setattr(objectives, "rows_per_block", lambda *sizes: 4)
    in_blocks = Objective(model, Y).evaluate(as_free(kernel, free))
    np.testing.assert_allclose(in_blocks.value, whole.value, rtol=1e-11)
    assert_gradients(as_witness(in_blocks.gradient), as_witness(whole.gradient), rtol=1e-9)


def test_evaluating_again_gives_the_same():
    """Weights are guessed from the evaluation before: that must only save time."""
    model, kernel = MODELS["rbf"]
    free, Y, rng = random_problem(7, kernel)
    elsewhere = {name: value + 0.3 * rng.normal(size=value.shape) for name, value in free.items()}
    objective = Objective(model, Y)
    first = objective.evaluate(as_free(kernel, free))
    objective.evaluate(as_free(kernel, elsewhere))
    again = objective.evaluate(as_free(kernel, free))
    np.testing.assert_allclose(again.value, first.value, rtol=1e-12)
    assert_gradients(as_witness(again.gradient), as_witness(first.gradient), rtol=1e-7)


def test_groups_that_are_not_in_play_cost_nothing():
    model, kernel = MODELS["rbf"]
    free, Y, _ = random_problem(8, kernel)
    evaluation = Objective(model, Y, n_in_play=2).evaluate(as_free(kernel, free))
    np.testing.assert_array_equal(evaluation.state.phi[:, 2], 0.0)
    wanted = witness.elbo(
        kernel,
        free,
        np.asarray(evaluation.state.phi),
        tuple(map(np.asarray, evaluation.state.sticks)),
        Y,
        jitter=JITTER,
    )
    spare = {name: np.exp(free[name][2]) for name in witness.PARAMETERS[kernel]}
    wanted["hyperprior"] -= witness.log_hyperprior(kernel, spare, np.exp(free["log_noise_precision"][2]))
    assert_terms(evaluation.terms, wanted)
    gradient = as_witness(evaluation.gradient)
    for name in (*witness.PARAMETERS[kernel], "log_noise_precision"):
        np.testing.assert_array_equal(gradient[name][2], 0.0)


def test_a_point_without_a_bound_is_an_error():
    model, kernel = MODELS["rbf"]
    free, Y, _ = random_problem(9, kernel)
    with pytest.raises(NumericalError, match="not finite"):
        Objective(model, Y).evaluate(as_free(kernel, {**free, "mean": np.full((N, Q), np.nan)}))


def climbed(model, kernel, free, Y, moved):
    """The best bound of a few L-BFGS steps in the named parameters, the hyperparameters held."""
    objective = Objective(model, Y)
    shapes = {name: free[name].shape for name in moved}
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])[:-1]

    def negative(x):
        parts = zip(shapes.items(), np.split(x, cuts), strict=True)
        evaluation = objective.evaluate(
            as_free(kernel, {**free, **{name: part.reshape(s) for (name, s), part in parts}})
        )
        gradient = as_witness(evaluation.gradient)
        return -evaluation.value, -np.concatenate([gradient[name].ravel() for name in moved])

    x = np.concatenate([free[name].ravel() for name in moved])
    return -minimize(negative, x, jac=True, method="L-BFGS-B", options={"maxiter": 60}).fun


# How much a factorised q loses grows with the signal-to-noise ratio, and with the groups that columns must agree on.
@pytest.mark.parametrize(
    ("kernel", "n_rows", "n_columns", "n_groups", "log_noise_precision", "largest_gap"),
    [
        ("rbf", 3, 1, 1, -2.0, 0.1),
        ("rbf", 2, 2, 1, -2.0, 0.1),
        ("linear", 2, 2, 1, -2.0, 0.1),
        ("rbf+linear", 2, 2, 1, -2.0, 0.3),
        ("rbf", 2, 2, 2, -2.0, 0.8),
        ("rbf", 2, 2, 2, 0.0, 2.5),
    ],
)
def test_the_bound_is_below_the_exact_evidence_and_near_it(
    kernel, n_rows, n_columns, n_groups, log_noise_precision, largest_gap
):
    rng = np.random.default_rng(10 + n_rows)
    free = witness.random_free(kernel, rng, n_rows, 1, 1 if kernel == "linear" else 3, n_groups)
    free["log_noise_precision"] = log_noise_precision + np.linspace(0.0, 1.0, n_groups)
    Y = rng.normal(size=(n_rows, n_columns))
    thetas = [{name: np.exp(free[name][t]) for name in witness.PARAMETERS[kernel]} for t in range(n_groups)]
    betas = np.exp(free["log_noise_precision"])
    exact, coarser = (witness.exact_log_evidence(kernel, thetas, betas, Y, n_nodes=nodes) for nodes in (32, 24))
    assert abs(exact - coarser) < 1e-3  # the quadrature is good to far more than the gap
    exact += sum(witness.log_hyperprior(kernel, *group) for group in zip(thetas, betas, strict=True))
    model = Model(NAMED_KERNELS[kernel])
    start = Objective(model, Y).evaluate(as_free(kernel, free)).value
    best = climbed(model, kernel, free, Y, ("mean", "log_variance", "inducing"))
    assert start < best < exact
    assert best > exact - largest_gap
