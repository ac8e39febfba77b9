"""Random hyperparameters and latents, and psi statistics of them: the library's, and those of any kernel on a grid."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import witness
from hypothesis import strategies as st

from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.pairs import upper_triangle

KERNELS = sorted(NAMED_KERNELS)
N, M, Q = 3, 4, 2
seeds = st.integers(0, 2**32 - 1)


def random_theta(kernel, rng, n_latents=Q, smallest=0.01, largest=30.0):
    def log_uniform(low, high, *shape):
        return np.exp(rng.uniform(np.log(low), np.log(high), size=shape))

    return {
        name: log_uniform(smallest, largest, n_latents) if name in witness.PER_LATENT else log_uniform(0.1, 5.0)
        for name in witness.PARAMETERS[kernel]
    }


def random_latents(rng, smallest=1e-6, largest=3.0, n_latents=Q):
    variance = np.exp(rng.uniform(np.log(smallest), np.log(largest), size=(N, n_latents)))
    return rng.normal(size=(N, n_latents)), variance, 1.5 * rng.normal(size=(M, n_latents))


def statistics(kernel, theta, mean, variance, Z):
    """psi0, psi1, psi2 and psi2 of every row of the library, from and to NumPy."""
    theta, *rows_and_points = jax.tree.map(jnp.asarray, (theta, mean, variance, Z))
    found = kernel.psi0(theta, *rows_and_points[:2]), kernel.psi1(theta, *rows_and_points)
    found += kernel.psi2(theta, *rows_and_points), psi2_of_rows(kernel, theta, *rows_and_points)
    return [np.asarray(value) for value in found]


def psi2_of_rows(kernel, theta, mean, variance, Z):
    """E[k(z_m, x_n) k(x_n, z_m')] of every row, for m <= m', from its features."""
    features = kernel.psi2_features(theta, mean, variance, Z)
    return upper_triangle(kernel.psi2_of_features(theta, Z, features))


def by_quadrature(value, diagonal, mean, variance, Z, grid, weights):
    """The statistics of any kernel, row by row, on a grid for the standard normal."""
    psi0, psi1, psi2 = [], [], []
    for mu, S in zip(mean, variance, strict=True):
        X = mu + np.sqrt(S) * grid
        k = value(X, Z)
        psi0.append(weights @ diagonal(X))
        psi1.append(weights @ k)
        psi2.append((weights[:, None] * k).T @ k)
    return np.array(psi0), np.array(psi1), sum(psi2), in_pairs(psi2)


def in_pairs(matrices):
    """Of every symmetric matrix its entries m <= m', row by row."""
    return np.array([[matrix[m, k] for m in range(len(matrix)) for k in range(m, len(matrix))] for matrix in matrices])


def in_paper(kernel, theta):
    """k and its diagonal, from the witness."""
    return (lambda X, Z: witness.covariance(kernel, theta, X, Z)), (lambda X: witness.prior_variance(kernel, theta, X))


def random_weights(rng):
    return [rng.normal(size=shape) for shape in ((N,), (N, M), (M, M), (N, M * (M + 1) // 2))]


def combined(found, weights):
    """One number made of all statistics."""
    return sum((weight * value).sum() for weight, value in zip(weights, found, strict=True))


@partial(jax.jit, static_argnames="kernel")
def weighted_statistics(kernel, at, weights):
    """That number, and its gradient in everything."""

    def of_kernel(at):
        rows = at["mean"], at["variance"]
        found = kernel.psi0(at, *rows), kernel.psi1(at, *rows, at["Z"])
        found += kernel.psi2(at, *rows, at["Z"]), psi2_of_rows(kernel, at, *rows, at["Z"])
        return combined(found, weights)

    return jax.value_and_grad(of_kernel)(at)
