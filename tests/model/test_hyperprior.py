"""The log-Normal base measure against SciPy, its integral, and the paper's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import lognorm, norm

from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import NAMED_KERNELS, Linear
from dpgplvm.model.state import Free

pytestmark = pytest.mark.usefixtures("float64")

T, Q, D = 3, 2, 5
widths = st.floats(0.3, 5.0)


def random_logs(kernel, rng):
    log_theta = {
        name: rng.normal(scale=2.0, size=(T, Q) if name in witness.PER_LATENT else T)
        for name in witness.PARAMETERS[kernel]
    }
    return log_theta, rng.normal(scale=2.0, size=T)


def as_free(log_theta, log_noise, log_scale=None):
    """Hyperparameters alone: the prior does not look at anything else."""
    log_theta = {name: jnp.asarray(value) for name, value in log_theta.items()}
    return Free({}, None, log_theta, jnp.asarray(log_noise), None if log_scale is None else jnp.asarray(log_scale))


def found(hyperprior, kernel, log_theta, log_noise):
    return np.asarray(hyperprior.of_groups(kernel, as_free(log_theta, log_noise)))


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
@given(seed=st.integers(0, 2**32 - 1), relevance=widths, scale=widths, noise=widths)
def test_density_of_every_group_matches_scipy_and_the_paper(kernel, seed, relevance, scale, noise):
    log_theta, log_noise = random_logs(kernel, np.random.default_rng(seed))
    of_logs = norm.logpdf(log_noise, scale=noise)
    of_values = lognorm.logpdf(np.exp(log_noise), s=noise)
    for name, value in log_theta.items():
        width = relevance if name in witness.PER_LATENT else scale
        each = norm.logpdf(value, scale=width), lognorm.logpdf(np.exp(value), s=width)
        of_logs, of_values = (
            total + part.reshape(T, -1).sum(axis=1) for total, part in zip((of_logs, of_values), each, strict=True)
        )
    ours = NAMED_KERNELS[kernel]
    in_logs = found(Hyperprior(relevance, scale, noise, density="log"), ours, log_theta, log_noise)
    in_values = found(Hyperprior(relevance, scale, noise, density="value"), ours, log_theta, log_noise)
    np.testing.assert_allclose(in_logs, of_logs, rtol=1e-12)
    np.testing.assert_allclose(in_values, of_values, rtol=1e-10, atol=1e-10)
    for t in range(T):
        theta, beta = {name: np.exp(value[t]) for name, value in log_theta.items()}, np.exp(log_noise[t])
        for ours_t, of_value in ((in_logs[t], False), (in_values[t], True)):
            wanted = witness.log_hyperprior(kernel, theta, beta, (relevance, scale, noise), of_value)
            np.testing.assert_allclose(ours_t, wanted, rtol=1e-10, atol=1e-10)


def test_densities_integrate_to_one():
    hyperprior = Hyperprior(relevance=0.7, scale=1.0, noise=1.3, density="log")
    literal = Hyperprior(relevance=0.7, scale=1.0, noise=1.3, density="value")

    def of_noise(prior, log_noise):
        # The linear kernel's slopes sit at one, where their log-Normal density is that of a normal at zero.
        at = found(prior, Linear(), {"slope_variances": np.zeros((1, Q))}, np.array([log_noise]))[0]
        return np.exp(at - Q * norm.logpdf(0.0, scale=0.7))

    over_logs, _ = quad(lambda u: of_noise(hyperprior, u), -10.0, 10.0)
    over_values, _ = quad(
        lambda beta: of_noise(literal, np.log(beta)), 1e-12, 2000.0, points=[0.1, 1.0, 10.0], limit=200
    )
    np.testing.assert_allclose(over_logs, 1.0, atol=1e-7)
    np.testing.assert_allclose(over_values, 1.0, atol=1e-6)


def test_the_papers_base_measure_charges_for_a_switched_off_weight():
    papers = Hyperprior(relevance=1.0, scale=1.0, noise=1.0, density="value")
    kept, off = np.zeros((1, Q)), np.array([[0.0, -5.0]])
    noise = np.zeros(1)
    difference = found(papers, Linear(), {"slope_variances": off}, noise) - found(
        papers, Linear(), {"slope_variances": kept}, noise
    )
    np.testing.assert_allclose(difference, -12.5 + 5.0, rtol=1e-12)


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
@given(seed=st.integers(0, 2**32 - 1), relevance=widths, scale=widths, noise=widths)
def test_columns_pay_for_their_own_noise_and_scale_and_groups_for_no_noise(kernel, seed, relevance, scale, noise):
    rng = np.random.default_rng(seed)
    log_theta, group_noise = random_logs(kernel, rng)
    log_noise, log_scale = rng.normal(scale=2.0, size=(2, D))
    free = as_free(log_theta, log_noise, log_scale)
    in_logs = Hyperprior(relevance, scale, noise, density="log")
    in_values = Hyperprior(relevance, scale, noise, density="value")
    # The scale is priced as the signal variance that it stands for.
    of_logs = norm.logpdf(log_noise, scale=noise) + norm.logpdf(2.0 * log_scale, scale=scale)
    of_values = lognorm.logpdf(np.exp(log_noise), s=noise) + lognorm.logpdf(np.exp(2.0 * log_scale), s=scale)
    np.testing.assert_allclose(in_logs.of_columns(free), of_logs.sum(), rtol=1e-12)
    np.testing.assert_allclose(in_values.of_columns(free), of_values.sum(), rtol=1e-10, atol=1e-10)
    ours = NAMED_KERNELS[kernel]
    with_noise = found(in_logs, ours, log_theta, group_noise)
    without = with_noise - norm.logpdf(group_noise, scale=noise)
    np.testing.assert_allclose(in_logs.of_groups(ours, free), without, rtol=1e-10, atol=1e-10)


def test_columns_without_noise_of_their_own_cost_nothing():
    log_theta, log_noise = random_logs("rbf", np.random.default_rng(0))
    assert float(Hyperprior().of_columns(as_free(log_theta, log_noise))) == 0.0


@pytest.mark.parametrize("of_columns", [False, True], ids=["group", "column"])
@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
def test_numbers_come_in_the_order_of_the_kernel_and_add_up(kernel, of_columns):
    rng = np.random.default_rng(2)
    log_theta, log_noise = random_logs(kernel, rng)
    free = as_free(log_theta, *rng.normal(size=(2, D))) if of_columns else as_free(log_theta, log_noise)
    hyperprior, ours = Hyperprior(0.7, 1.1, 1.9), NAMED_KERNELS[kernel]
    numbers = np.hstack([log_theta[name].reshape(T, -1) for name in ours.parameters])
    widths = np.concatenate([[0.7] * Q if name in witness.PER_LATENT else [1.1] for name in ours.parameters])
    wanted = norm.logpdf(numbers, scale=widths)
    if not of_columns:
        wanted = np.hstack([wanted, norm.logpdf(log_noise, scale=1.9)[:, None]])
    np.testing.assert_allclose(hyperprior.of_numbers(ours, free), wanted, rtol=1e-12)
    np.testing.assert_allclose(hyperprior.of_groups(ours, free), wanted.sum(axis=1), rtol=1e-12)
