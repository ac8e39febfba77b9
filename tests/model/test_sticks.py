"""The Dirichlet process: its six terms against sampling and the paper, and its updates as what they claim to be."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution
from scipy.stats import gamma as gamma_distribution

from dpgplvm.model import sticks as dp

pytestmark = pytest.mark.usefixtures("float64")

D, T = 6, 4
PRIOR = dp.Concentration(1.7, 0.8)
seeds = st.integers(0, 2**32 - 1)

profile = partial(jax.jit, static_argnames="prior")(dp.profile)
settle = partial(jax.jit, static_argnames="prior")(dp.settle)
update = partial(jax.jit, static_argnames="prior")(dp.update)
assign = jax.jit(dp.assign)
terms = partial(jax.jit, static_argnames="prior")(dp.terms)


def random_phi(rng, concentration=1.0):
    return rng.dirichlet(np.full(T, concentration), size=D)


def random_sticks(rng):
    a, b = rng.uniform(0.5, 6.0, size=(2, T - 1))
    return jax.tree.map(jnp.asarray, dp.Sticks(a, b, rng.uniform(0.5, 5.0), rng.uniform(0.5, 5.0)))


def total_bound(F, phi, sticks, prior=PRIOR):
    return float((F * phi).sum() + sum(terms(phi, sticks, prior)))


@given(seed=seeds)
def test_terms_match_the_paper(seed):
    rng = np.random.default_rng(seed)
    phi, sticks = random_phi(rng), random_sticks(rng)
    found = terms(phi, sticks, PRIOR)
    wanted = witness.stick_terms(phi, *map(np.asarray, sticks), *PRIOR)
    assert set(found._fields) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-11, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", [0, 1])
def test_terms_match_sampling_from_q(seed):
    rng = np.random.default_rng(seed)
    phi, sticks = random_phi(rng), random_sticks(rng)
    a, b, w1, w2 = map(np.asarray, sticks)
    n_draws = 100_000
    V = rng.beta(a, b, size=(n_draws, T - 1))
    alpha = rng.gamma(w1, 1.0 / w2, size=n_draws)
    z = np.stack([rng.choice(T, p=p, size=n_draws) for p in phi], axis=1)
    weights = np.concatenate([V, np.ones((n_draws, 1))], axis=1)
    weights[:, 1:] *= np.cumprod(1.0 - V, axis=1)
    log_q_z = np.log(np.take_along_axis(phi, z.T, axis=1)).sum(axis=0)
    sampled = {
        "assignments": np.log(np.take_along_axis(weights, z, axis=1)).sum(axis=1),
        "sticks": beta_distribution.logpdf(V, 1.0, alpha[:, None]).sum(axis=1),
        "concentration": gamma_distribution.logpdf(alpha, PRIOR.shape, scale=1.0 / PRIOR.rate),
        "entropy_sticks": -beta_distribution.logpdf(V, a, b).sum(axis=1),
        "entropy_assignments": -log_q_z,
        "entropy_concentration": -gamma_distribution.logpdf(alpha, w1, scale=1.0 / w2),
    }
    found = terms(phi, sticks, PRIOR)
    for name, draws in sampled.items():
        standard_error = draws.std() / np.sqrt(n_draws)
        assert abs(float(getattr(found, name)) - draws.mean()) < 5.0 * standard_error, name


def test_expected_log_weights_match_sampling():
    rng = np.random.default_rng(2)
    sticks = random_sticks(rng)
    V = rng.beta(sticks.a, sticks.b, size=(100_000, T - 1))
    weights = np.concatenate([V, np.ones((len(V), 1))], axis=1)
    weights[:, 1:] *= np.cumprod(1.0 - V, axis=1)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
    draws = np.log(weights)
    standard_error = draws.std(axis=0) / np.sqrt(len(V))
    assert (np.abs(dp.expected_log_weights(sticks) - draws.mean(axis=0)) < 5.0 * standard_error).all()


def slopes_of_the_bound(F, phi, sticks, prior=PRIOR):
    """Gradient of sum phi F + L_DP in logits, a, b, w1 and w2, from the paper's formulas."""
    at = {"logits": np.log(phi), **{name: np.asarray(value) for name, value in sticks._asdict().items()}}

    def bound(at):
        phi = np.exp(at["logits"]) / np.exp(at["logits"]).sum(axis=1, keepdims=True)
        terms = witness.stick_terms(phi, at["a"], at["b"], at["shape"], at["rate"], *prior)
        return (phi * F).sum() + sum(terms.values())

    return witness.derivatives(bound, at)


@given(seed=seeds, spread=st.floats(0.1, 3.0))
def test_profile_ends_where_the_bound_is_stationary(seed, spread):
    rng = np.random.default_rng(seed)
    F = spread * rng.normal(size=(D, T))
    phi, sticks = profile(F, dp.prior_sticks(T, PRIOR), PRIOR)
    np.testing.assert_allclose(phi.sum(axis=1), 1.0, rtol=1e-12)
    for name, slope in slopes_of_the_bound(F, np.asarray(phi), sticks).items():
        np.testing.assert_allclose(slope, 0.0, atol=1e-9, err_msg=name)


@given(seed=seeds)
def test_every_update_is_a_coordinate_optimum_and_raises_the_bound(seed):
    rng = np.random.default_rng(seed)
    F, sticks = rng.normal(size=(D, T)), random_sticks(rng)
    phi, bound = random_phi(rng), -np.inf
    for _ in range(4):
        sticks = update(phi, sticks, PRIOR)
        before_phi = total_bound(F, phi, sticks)
        assert before_phi >= bound - 1e-10
        phi = np.asarray(assign(F, sticks))
        np.testing.assert_allclose(slopes_of_the_bound(F, phi, sticks)["logits"], 0.0, atol=1e-11)
        bound = total_bound(F, phi, sticks)
        assert bound >= before_phi - 1e-10
    ended = profile(F, sticks, PRIOR)
    assert total_bound(F, *ended) >= bound - 1e-10


@given(seed=seeds)
def test_profile_does_not_lower_the_bound_of_its_start(seed):
    rng = np.random.default_rng(seed)
    F, start = 3.0 * rng.normal(size=(D, T)), random_sticks(rng)
    assert total_bound(F, *profile(F, start, PRIOR)) >= total_bound(F, np.asarray(assign(F, start)), start) - 1e-10


@given(seed=seeds)
def test_settled_sticks_are_stationary_for_held_assignments(seed):
    phi = random_phi(np.random.default_rng(seed))
    slopes = slopes_of_the_bound(0.0, phi, settle(phi, dp.prior_sticks(T, PRIOR), PRIOR))
    for name in ("a", "b", "shape", "rate"):
        np.testing.assert_allclose(slopes[name], 0.0, atol=1e-9, err_msg=name)


def one_group_of_many(truncation, n_columns=30):
    return np.eye(truncation)[np.zeros(n_columns, dtype=int)]


@pytest.mark.parametrize("truncation", [10, 20])
def test_settled_sticks_are_stationary_with_many_empty_groups(truncation):
    prior, phi = dp.Concentration(), one_group_of_many(truncation)
    sticks = settle(phi, dp.prior_sticks(truncation, prior), prior)
    slopes = slopes_of_the_bound(0.0, np.maximum(phi, 1e-300), sticks, prior)
    for name in ("a", "b", "shape", "rate"):
        np.testing.assert_allclose(slopes[name], 0.0, atol=1e-7, err_msg=name)


def test_profile_settles_with_many_empty_groups():
    truncation, prior = 20, dp.Concentration()
    F = 100.0 * one_group_of_many(truncation)
    phi, sticks = profile(F, dp.prior_sticks(truncation, prior), prior)
    slopes = slopes_of_the_bound(F, np.asarray(phi), sticks, prior)
    for name in ("a", "b", "shape", "rate"):
        np.testing.assert_allclose(slopes[name], 0.0, atol=1e-9, err_msg=name)


def test_one_group_costs_nothing():
    F = jnp.asarray(np.random.default_rng(3).normal(size=(D, 1)))
    phi, sticks = dp.profile(F, dp.prior_sticks(1, PRIOR), PRIOR)
    np.testing.assert_array_equal(phi, 1.0)
    np.testing.assert_allclose(sum(dp.terms(phi, sticks, PRIOR)), 0.0, atol=1e-15)


def bound_and_exact(sizes):
    """The DP bound of certain groups with these sizes, and the log probability that it is a bound of."""
    phi = np.eye(len(sizes))[np.repeat(np.arange(len(sizes)), sizes)]
    settled = settle(phi, dp.prior_sticks(len(sizes), PRIOR), PRIOR)
    return total_bound(0.0, phi, settled), np.log(witness.assignment_probability(np.array(sizes), *PRIOR))


def test_sorting_groups_by_size_raises_the_bound():
    bounds = {sizes: bound_and_exact((*sizes, 0)) for sizes in itertools.permutations((6, 3, 1))}
    assert max(bounds, key=lambda sizes: bounds[sizes][0]) == (6, 3, 1)
    assert max(bounds, key=lambda sizes: bounds[sizes][1]) == (6, 3, 1)


def test_sorting_can_lower_the_bound_when_every_group_is_in_use():
    # The last stick takes what is left and pays for no break, so that a large group is cheap there.
    sorted_bound, sorted_exact = bound_and_exact((6, 3, 1))
    other_bound, other_exact = bound_and_exact((3, 1, 6))
    assert other_bound > sorted_bound
    assert other_exact > sorted_exact


@pytest.mark.parametrize("sizes", [(4, 2, 0, 0), (6, 0, 0, 0), (2, 2, 1, 1)])
def test_the_dp_bound_is_below_the_probability_of_the_assignment_and_near_it(sizes):
    bound, exact = bound_and_exact(sizes)
    assert exact - 1.0 < bound < exact  # mean-field loses most where many empty sticks share one alpha


def test_certain_assignments_have_no_entropy_and_finite_slopes():
    phi = jnp.asarray(np.eye(T)[[0, 1, 1, 3]])
    sticks = random_sticks(np.random.default_rng(4))
    assert float(dp.terms(phi, sticks, PRIOR).entropy_assignments) == 0.0
    slopes = jax.jit(jax.grad(lambda phi, sticks: sum(dp.terms(phi, sticks, PRIOR)), argnums=(0, 1)))(phi, sticks)
    assert all(np.isfinite(slope).all() for slope in jax.tree.leaves(slopes))
