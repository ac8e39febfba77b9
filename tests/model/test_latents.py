"""q(X) and its divergence from a standard normal, against SciPy and quadrature."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from dpgplvm.model.latents import StandardNormal

pytestmark = pytest.mark.usefixtures("float64")

PRIOR = StandardNormal()


def parameters(mean, variance):
    return PRIOR.start(jnp.asarray(mean), jnp.asarray(variance))


def random_marginals(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=2.0, size=(4, 3)), np.exp(rng.uniform(np.log(1e-6), np.log(3.0), size=(4, 3)))


@given(seed=st.integers(0, 2**32 - 1))
def test_divergence_matches_the_paper(seed):
    mean, variance = random_marginals(seed)
    divergence = PRIOR.divergence(parameters(mean, variance))
    np.testing.assert_allclose(divergence, witness.divergence(mean, variance), rtol=1e-12)
    assert divergence >= 0.0


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.5, 0.01), (-0.3, 3.0), (4.0, 1e-4)])
def test_divergence_matches_quadrature(mean, variance):
    q, p = norm(mean, np.sqrt(variance)), norm(0.0, 1.0)
    width = 12.0 * np.sqrt(variance)
    wanted, _ = quad(
        lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), mean - width, mean + width, epsabs=1e-12, points=[mean]
    )
    np.testing.assert_allclose(PRIOR.divergence(parameters([[mean]], [[variance]])), wanted, rtol=1e-9, atol=1e-10)


def test_divergence_matches_sampling():
    mean, variance = random_marginals(0)
    rng = np.random.default_rng(1)
    X = mean + np.sqrt(variance) * rng.normal(size=(50_000, *mean.shape))
    ratios = (norm.logpdf(X, mean, np.sqrt(variance)) - norm.logpdf(X)).sum(axis=(1, 2))
    standard_error = ratios.std() / np.sqrt(len(ratios))
    assert abs(float(PRIOR.divergence(parameters(mean, variance))) - ratios.mean()) < 5.0 * standard_error


def test_divergence_vanishes_only_at_the_prior():
    at_prior = parameters(np.zeros((2, 2)), np.ones((2, 2)))
    value, gradient = jax.value_and_grad(PRIOR.divergence)(at_prior)
    assert float(value) == 0.0
    assert all((part == 0.0).all() for part in gradient.values())


def test_marginals_are_what_q_was_started_with():
    mean, variance = random_marginals(2)
    found = PRIOR.marginals(parameters(mean, variance))
    np.testing.assert_array_equal(found.mean, mean)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-14)
