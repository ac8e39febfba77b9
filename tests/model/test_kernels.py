"""Psi statistics against quadrature, sampling and the paper's formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from jaxtyping import TypeCheckError
from psi_statistics import (
    KERNELS,
    M,
    N,
    Q,
    by_quadrature,
    combined,
    in_pairs,
    in_paper,
    random_latents,
    random_theta,
    random_weights,
    seeds,
    statistics,
    weighted_statistics,
)

from dpgplvm.model.kernels import NAMED_KERNELS, RBF, Kernel

pytestmark = pytest.mark.usefixtures("float64")


def trapezoids(theta, variance):
    """A product grid on which sums of Gaussian bumps integrate to rounding error.

    The trapezoid rule converges as exp(-2 pi^2 (width/step)^2). Gauss-Hermite would need thousands of nodes where an
    ARD weight of 30 meets a variance of 3.
    """
    weights = theta.get("ard_weights", np.ones(variance.shape[1]))
    axes, densities = [], []
    for narrowest in 1.0 / np.sqrt(1.0 + 2.0 * weights * variance.max(axis=0)):
        t = np.arange(-9.0, 9.0, 0.6 * narrowest)
        axes.append(t)
        densities.append(0.6 * narrowest * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi))
    return tuple(
        np.stack([part.ravel() for part in np.meshgrid(*parts, indexing="ij")], axis=1) for parts in (axes, densities)
    )


def assert_statistics(found, wanted, rtol=1e-9):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


def check_against_quadrature(kernel, theta, mean, variance, Z):
    grid, densities = trapezoids(theta, variance)
    wanted = by_quadrature(*in_paper(kernel, theta), mean, variance, Z, grid, densities.prod(axis=1))
    assert_statistics(statistics(NAMED_KERNELS[kernel], theta, mean, variance, Z), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_statistics_match_quadrature(kernel, seed):
    rng = np.random.default_rng(seed)
    check_against_quadrature(kernel, random_theta(kernel, rng), *random_latents(rng))


@pytest.mark.parametrize("variance", [1e-6, 3.0])
@pytest.mark.parametrize("weight", [0.01, 30.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_quadrature_at_the_extremes(kernel, weight, variance):
    rng = np.random.default_rng(1)
    mean, _, Z = random_latents(rng)
    theta = {
        name: np.full(Q, weight) if name in witness.PER_LATENT else value
        for name, value in random_theta(kernel, rng).items()
    }
    check_against_quadrature(kernel, theta, mean, np.full((N, Q), variance), Z)


@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_gauss_hermite_in_three_latents(kernel):
    rng = np.random.default_rng(2)
    theta = random_theta(kernel, rng, n_latents=3, smallest=0.05, largest=0.5)
    latents = random_latents(rng, largest=0.5, n_latents=3)
    wanted = by_quadrature(*in_paper(kernel, theta), *latents, *witness.normal_grid(24, 3))
    assert_statistics(statistics(NAMED_KERNELS[kernel], theta, *latents), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_sampling(kernel):
    rng = np.random.default_rng(3)
    theta, (mean, variance, Z) = random_theta(kernel, rng, largest=3.0), random_latents(rng, smallest=0.05)
    n_draws = 100_000
    X = mean + np.sqrt(variance) * rng.normal(size=(n_draws, N, Q))
    value, diagonal = in_paper(kernel, theta)
    k = value(X.reshape(-1, Q), Z).reshape(n_draws, N, M)
    squares = np.einsum("snm,snk->snmk", k, k)[..., *np.triu_indices(M)]
    sampled = diagonal(X.reshape(-1, Q)).reshape(n_draws, N), k, np.einsum("snm,snk->smk", k, k), squares
    for found, draws in zip(statistics(NAMED_KERNELS[kernel], theta, mean, variance, Z), sampled, strict=True):
        draws = np.ascontiguousarray(np.moveaxis(draws, 0, -1))  # NumPy adds up in pairs only along the last axis
        standard_error = draws.std(axis=-1) / np.sqrt(n_draws)
        assert (np.abs(found - draws.mean(axis=-1)) <= 5.0 * standard_error + 1e-12).all()


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_statistics_and_gradients_match_the_paper(kernel, seed):
    rng = np.random.default_rng(seed)
    mean, variance, Z = random_latents(rng, smallest=1e-3)
    at = {**random_theta(kernel, rng), "mean": mean, "variance": variance, "Z": Z}
    weights = random_weights(rng)

    def in_paper(at):
        rows = at["mean"], at["variance"]
        found = witness.prior_variance(kernel, at, *rows), witness.psi1(kernel, at, *rows, at["Z"])
        alone = [witness.psi2(kernel, at, *(part[[n]] for part in rows), at["Z"]) for n in range(N)]
        found += sum(alone), in_pairs(alone)
        return combined(found, weights)

    value, gradient = weighted_statistics(NAMED_KERNELS[kernel], jax.tree.map(jnp.asarray, at), weights)
    np.testing.assert_allclose(value, in_paper(at), rtol=1e-9)
    for name, wanted in witness.derivatives(in_paper, at).items():
        np.testing.assert_allclose(gradient[name], wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_and_diagonal_match_the_paper(kernel):
    rng = np.random.default_rng(4)
    theta, (X, _, Z) = random_theta(kernel, rng), random_latents(rng)
    value, diagonal = in_paper(kernel, theta)
    ours = NAMED_KERNELS[kernel]
    theta = jax.tree.map(jnp.asarray, theta)
    np.testing.assert_allclose(ours.value(theta, jnp.asarray(X), jnp.asarray(Z)), value(X, Z), rtol=1e-13)
    np.testing.assert_allclose(ours.diagonal(theta, jnp.asarray(X)), diagonal(X), rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_slopes_are_those_of_the_values(kernel, seed):
    """Far from the origin too; the witness differentiates the values automatically."""
    rng = np.random.default_rng(seed)
    theta, kernel = random_theta(kernel, rng), NAMED_KERNELS[kernel]
    X, Z = 20.0 + rng.normal(size=(N, Q)), 20.0 + rng.normal(size=(M, Q))
    weights, directions = rng.normal(size=(M, 5)), rng.normal(size=(3, Q))
    at = jax.tree.map(jnp.asarray, (theta, X, Z, weights, directions))
    found, wanted = kernel.slopes(*at), Kernel.slopes(kernel, *at)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


def test_shapes_are_enforced_while_testing():
    rng = np.random.default_rng(10)
    theta, (mean, variance, Z) = jax.tree.map(jnp.asarray, (random_theta("rbf", rng), random_latents(rng)))
    with pytest.raises(TypeCheckError, match="variance"):
        RBF().psi1(theta, mean, variance[:, :1], Z)


def test_far_from_the_origin_no_digits_are_lost():
    rng = np.random.default_rng(5)
    theta, (mean, variance, Z) = random_theta("rbf", rng), random_latents(rng)
    here = statistics(RBF(), theta, mean, variance, Z)
    there = statistics(RBF(), theta, mean + 1024.0, variance, Z + 1024.0)
    assert_statistics(there, here)
