"""A slow, literal NumPy transcription of the paper, to hold the library's numbers against.

No JAX, and nothing from dpgplvm. Sums run over explicit rows and pairs, inverses are dense. Every function is analytic,
and given complex numbers it returns complex numbers: so a step of 1e-30 i yields exact derivatives (`derivatives`).

Letters are the paper's: mu and S of q(X), Z for the inducing points X_u, beta for the noise precision. `theta` holds
the hyperparameters of one group by the library's names; `kernel` is "rbf", "linear" or "rbf+linear".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, digamma, loggamma
from scipy.stats import gamma as gamma_distribution

PARAMETERS = {
    "rbf": ("ard_weights", "signal_variance"),
    "linear": ("slope_variances",),
    "rbf+linear": ("ard_weights", "signal_variance", "slope_variances", "bias_variance"),
}
PER_LATENT = ("ard_weights", "slope_variances")


def covariance(kernel: str, theta: dict, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """k(x, z) for every pair."""
    K = 0.0
    if "rbf" in kernel:
        squared = ((X[:, None] - Z[None]) ** 2 * theta["ard_weights"]).sum(axis=-1)
        K = K + theta["signal_variance"] * np.exp(-0.5 * squared)
    if "linear" in kernel:
        K = K + (X[:, None] * theta["slope_variances"] * Z[None]).sum(axis=-1)
    if kernel == "rbf+linear":
        K = K + theta["bias_variance"]
    return K


def prior_variance(kernel: str, theta: dict, X: np.ndarray, S: np.ndarray | float = 0.0) -> np.ndarray:
    """E[k(x, x)] for every row x ~ N(X_n, S_n); k(X_n, X_n) itself without S."""
    result = np.zeros(len(X))
    if "rbf" in kernel:
        result = result + theta["signal_variance"]
    if "linear" in kernel:
        result = result + ((X**2 + S) * theta["slope_variances"]).sum(axis=1)
    if kernel == "rbf+linear":
        result = result + theta["bias_variance"]
    return result


def psi0(kernel: str, theta: dict, mu: np.ndarray, S: np.ndarray):
    """sum_i E[k(x_i, x_i)]."""
    return prior_variance(kernel, theta, mu, S).sum()


def psi1(kernel: str, theta: dict, mu: np.ndarray, S: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """E[k(x_i, z_j)]."""
    values = [[_expected_value(kernel, theta, mu[i], S[i], z) for z in Z] for i in range(len(mu))]
    return np.array(values).reshape(len(mu), len(Z))


def psi2(kernel: str, theta: dict, mu: np.ndarray, S: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """sum_i E[k(x_i, z_j) k(z_j', x_i)].

    Appendix C prints log Psi2 as a sum over i of the log of each row's term. That would be the log of a product; what
    the integral above it defines is the sum over i of the exponentials.
    """
    return np.array(
        [[sum(_expected_product(kernel, theta, mu[i], S[i], z, w) for i in range(len(mu))) for w in Z] for z in Z]
    )


def _expected_value(kernel, theta, mu, S, z):
    total = 0.0
    if "rbf" in kernel:
        total = total + _expected_rbf(theta, mu, S, z)
    if "linear" in kernel:
        total = total + (theta["slope_variances"] * mu * z).sum()
    if kernel == "rbf+linear":
        total = total + theta["bias_variance"]
    return total


def _expected_product(kernel, theta, mu, S, z, w):
    """E[k(x, z) k(x, w)]: every part of the first kernel with every part of the second."""
    total = 0.0
    if "rbf" in kernel:
        total = total + _expected_rbf_squared(theta, mu, S, z, w)
    if "linear" in kernel:
        second_moment = np.outer(mu, mu) + np.diag(S)
        total = total + (theta["slope_variances"] * z) @ second_moment @ (theta["slope_variances"] * w)
    if kernel == "rbf+linear":
        b = theta["bias_variance"]
        rbf_z, rbf_w = _expected_rbf(theta, mu, S, z), _expected_rbf(theta, mu, S, w)
        slopes_z, slopes_w = theta["slope_variances"] * z, theta["slope_variances"] * w
        total = total + rbf_z * (slopes_w * _tilted_mean(theta, mu, S, z)).sum()
        total = total + rbf_w * (slopes_z * _tilted_mean(theta, mu, S, w)).sum()
        total = total + b * (rbf_z + rbf_w + (slopes_z * mu).sum() + (slopes_w * mu).sum()) + b**2
    return total


def _expected_rbf(theta, mu, S, z):
    gamma, result = theta["ard_weights"], theta["signal_variance"]
    for q in range(len(mu)):
        spread = gamma[q] * S[q] + 1.0
        result = result * np.exp(-gamma[q] * (mu[q] - z[q]) ** 2 / (2.0 * spread)) / np.sqrt(spread)
    return result


def _expected_rbf_squared(theta, mu, S, z, w):
    gamma, log_value = theta["ard_weights"], 2.0 * np.log(theta["signal_variance"])
    for q in range(len(mu)):
        spread = 2.0 * gamma[q] * S[q] + 1.0
        log_value = log_value - 0.5 * np.log(spread) - 0.25 * gamma[q] * (z[q] - w[q]) ** 2
        log_value = log_value - gamma[q] / spread * (mu[q] - 0.5 * (z[q] + w[q])) ** 2
    return np.exp(log_value)


def _tilted_mean(theta, mu, S, z):
    """Mean of the Gaussian that is proportional to N(x | mu, S) k_rbf(x, z): precisions add."""
    return (mu / S + theta["ard_weights"] * z) / (1.0 / S + theta["ard_weights"])


def column_bound(K, beta, psi0, psi1, psi2, y):
    """F_d of equation (f_d), with dense inverses."""
    N = len(y)
    posterior_precision = beta * psi2 + K
    W = beta * np.eye(N) - beta**2 * psi1 @ np.linalg.inv(posterior_precision) @ psi1.T
    return (
        0.5 * N * np.log(beta)
        + 0.5 * log_determinant(K)
        + 0.5 * beta * np.trace(np.linalg.inv(K) @ psi2)
        - 0.5 * N * np.log(2.0 * np.pi)
        - 0.5 * log_determinant(posterior_precision)
        - 0.5 * beta * psi0
        - 0.5 * y @ W @ y
    )


def log_determinant(A):
    sign, log_size = np.linalg.slogdet(A)
    return log_size + np.log(sign)


def group_bounds(kernel, theta, beta, mu, S, Z, Y, jitter=1e-6, scale=1.0):
    """F[:, t]; a column with gaps (NaN) has the bound of the rows that it was observed in, and of no others.

    The jitter is the library's: a share of K's mean diagonal. The paper has none. Neither has it noise and scale of
    columns: the density of y is that of y / s, with a precision that is s^2 as large, divided by s for every row.
    """
    K = jittered_covariance(kernel, theta, Z, jitter)
    columns = zip(Y.T, *np.broadcast_arrays(beta, scale, np.empty(Y.shape[1]))[:2], strict=True)
    statistics, bounds = {}, []
    for y, beta_d, s in columns:
        rows = ~np.isnan(y)
        if rows.tobytes() not in statistics:  # they do not depend on the values of y
            statistics[rows.tobytes()] = psi_statistics(kernel, theta, mu[rows], S[rows], Z)
        psi = statistics[rows.tobytes()]
        bounds.append(column_bound(K, beta_d * s**2, *psi, y[rows] / s) - rows.sum() * np.log(s))
    return np.array(bounds)


def jittered_covariance(kernel, theta, Z, jitter=1e-6):
    K = covariance(kernel, theta, Z, Z)
    return K + jitter * np.trace(K) / len(Z) * np.eye(len(Z))


def psi_statistics(kernel, theta, mu, S, Z):
    return psi0(kernel, theta, mu, S), psi1(kernel, theta, mu, S, Z), psi2(kernel, theta, mu, S, Z)


def divergence(mu, S):
    """KL(q(X) || p(X)). Appendix B ends by adding it to F; a lower bound subtracts it, as equation (fd_kl_x) does."""
    N, Q = mu.shape
    return 0.5 * sum((mu[n] ** 2 + S[n] - np.log(S[n])).sum() for n in range(N)) - 0.5 * N * Q


def stick_terms(phi, a, b, w1, w2, s1=1.0, s2=1.0) -> dict:
    """The six terms of the DP bound. Appendix D prints sigma^2 where the concentration alpha is meant."""
    D, T = phi.shape
    log_v, log_rest = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
    log_alpha = digamma(w1) - np.log(w2)
    assignments = 0.0
    for d in range(D):
        for t in range(T - 1):
            assignments = assignments + phi[d, t] * log_v[t] + sum(phi[d, s] for s in range(t + 1, T)) * log_rest[t]
    entropy_sticks = 0.0
    # The paper's sum runs to T, but q(v_T = 1) = 1 has no a_T, no b_T and no entropy.
    for t in range(T - 1):
        entropy_sticks = entropy_sticks + loggamma(a[t]) + loggamma(b[t]) - loggamma(a[t] + b[t])
        entropy_sticks = entropy_sticks - (a[t] - 1.0) * digamma(a[t]) - (b[t] - 1.0) * digamma(b[t])
        entropy_sticks = entropy_sticks + (a[t] + b[t] - 2.0) * digamma(a[t] + b[t])
    return {
        "assignments": assignments,
        "sticks": (T - 1) * log_alpha + sum((w1 / w2 - 1.0) * log_rest[t] for t in range(T - 1)),
        "concentration": -loggamma(s1) + s1 * np.log(s2) - s2 * w1 / w2 + (s1 - 1.0) * log_alpha,
        "entropy_sticks": entropy_sticks,
        "entropy_assignments": -sum(p * np.log(p) for p in phi.ravel() if p != 0.0),
        "entropy_concentration": w1 - np.log(w2) + loggamma(w1) + (1.0 - w1) * digamma(w1),
    }


def log_hyperprior(kernel, theta, beta, widths=(3.0, 2.0, 3.0), of_value=False):
    """log p(theta, beta) of one group: log-Normals with widths for (relevance, scale, noise).

    The paper has width one, and writes I_{Q+1} where a group has Q+2 numbers: Q weights, a variance, a noise precision.
    `of_value` is the density of theta, as in the paper; without it, that of log theta. `beta` is None where noise is
    the columns' own.
    """
    relevance, scale, noise = widths
    numbers = [] if beta is None else [(beta, noise)]
    for name in PARAMETERS[kernel]:
        numbers += [(value, relevance if name in PER_LATENT else scale) for value in np.ravel(theta[name])]
    return sum(_log_normal(value, width, of_value) for value, width in numbers)


def _log_normal(value, width, of_value=False):
    of_log = -0.5 * np.log(2.0 * np.pi) - np.log(width) - 0.5 * (np.log(value) / width) ** 2
    return of_log - np.log(value) if of_value else of_log


def elbo(kernel, free: dict, phi, sticks, Y, mixed=False, jitter=1e-6) -> dict:
    """Every term of the bound. `free` holds mean and inducing, and the logs of variance, beta and all of theta.

    With a `log_scale` in it, noise and scale are the columns' own, and the scale is priced as the signal variance that
    it stands for. Y may have gaps, as in `group_bounds`.
    """
    S, beta = np.exp(free["log_variance"]), np.exp(free["log_noise_precision"])
    theta = {name: np.exp(free[name]) for name in PARAMETERS[kernel]}
    latents = (free["mean"], S, free["inducing"])
    D, T = phi.shape
    of_columns = "log_scale" in free
    groups = [({name: values[t] for name, values in theta.items()}, None if of_columns else beta[t]) for t in range(T)]
    hyperprior = sum(log_hyperprior(kernel, *group) for group in groups)
    likelihood, scale = 0.0, 1.0
    if of_columns:
        scale = np.exp(free["log_scale"])
        hyperprior = hyperprior + sum(
            _log_normal(b, 3.0) + _log_normal(s**2, 2.0) for b, s in zip(beta, scale, strict=True)
        )
    if mixed:
        for d in range(D):
            theta_d = {name: sum(phi[d, t] * values[t] for t in range(T)) for name, values in theta.items()}
            likelihood = likelihood + group_bounds(kernel, theta_d, phi[d] @ beta, *latents, Y[:, [d]], jitter)[0]
    else:
        for t, (theta_t, beta_t) in enumerate(groups):
            bounds = group_bounds(kernel, theta_t, beta if of_columns else beta_t, *latents, Y, jitter, scale)
            likelihood = likelihood + (phi[:, t] * bounds).sum()
    return {
        "likelihood": likelihood,
        "latents": -divergence(free["mean"], S),
        **stick_terms(phi, *sticks),
        "hyperprior": hyperprior,
    }


def random_free(kernel: str, rng: np.random.Generator, N=6, Q=2, M=4, T=3) -> dict:
    """A point at which nothing is special, as `elbo` takes it."""
    free = {
        "mean": rng.normal(size=(N, Q)),
        "log_variance": rng.uniform(-4.0, 0.5, size=(N, Q)),
        "inducing": 1.5 * rng.normal(size=(M, Q)),
        "log_noise_precision": rng.uniform(-1.0, 2.0, size=T),
    }
    for name in PARAMETERS[kernel]:
        free[name] = rng.normal(scale=0.7, size=(T, Q) if name in PER_LATENT else T)
    return free


def derivatives(function: Callable[[dict], complex], at: dict[str, np.ndarray], step: float = 1e-30) -> dict:
    """The gradient of an analytic function in every entry of every array of `at`, by complex steps."""
    gradient = {name: np.zeros(np.shape(value)) for name, value in at.items()}
    for name, value in at.items():
        for index in np.ndindex(np.shape(value)):
            moved = np.array(value, dtype=complex)
            moved[index] += 1j * step
            gradient[name][index] = np.imag(function({**at, name: moved})) / step
    return gradient


def normal_grid(n_nodes: int, n_dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite product grid for a standard normal: points [n_nodes**n_dims, n_dims] and weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    points = np.array(list(itertools.product(nodes, repeat=n_dims)))
    return points, np.array(list(itertools.product(weights / weights.sum(), repeat=n_dims))).prod(axis=1)


def exact_log_evidence(kernel, thetas, betas, Y, n_latents=1, n_nodes=32, s1=1.0, s2=1.0) -> float:
    """log p(Y | theta, beta) with X on a grid, every assignment of columns to the T groups, and alpha by quadrature."""
    N, D = Y.shape
    T = len(betas)
    points, weights = normal_grid(n_nodes, N * n_latents)
    density = np.empty((T, D, len(points)))
    for t in range(T):
        K = np.array([covariance(kernel, thetas[t], X, X) for X in points.reshape(-1, N, n_latents)])
        K = K + np.eye(N) / betas[t]
        squares = np.einsum("nd,gnm,md->dg", Y, np.linalg.inv(K), Y)
        density[t] = np.exp(-0.5 * (squares + np.linalg.slogdet(2.0 * np.pi * K)[1]))
    total = 0.0
    for z in itertools.product(range(T), repeat=D):
        given_z = weights @ np.prod([density[t, d] for d, t in enumerate(z)], axis=0)
        total += assignment_probability(np.bincount(z, minlength=T), s1, s2) * given_z
    return float(np.log(total))


def assignment_probability(counts, s1=1.0, s2=1.0) -> float:
    """p(z) of one assignment with these group sizes: sticks integrated by hand, alpha ~ Gamma(s1, s2) numerically."""
    later = np.cumsum(counts[::-1])[::-1][1:]

    def given_alpha(alpha):
        log_sticks = np.log(alpha) + betaln(1.0 + np.asarray(counts[:-1]), alpha + later)
        return gamma_distribution.pdf(alpha, s1, scale=1.0 / s2) * np.exp(log_sticks.sum())

    return quad(given_alpha, 0.0, np.inf, epsabs=1e-12)[0]


def random_group(kernel, rng, N, Q, M):
    """K, the psi statistics and the free parameters of one random group."""
    free = random_free(kernel, rng, N, Q, M, T=1)
    theta = {name: np.exp(free[name][0]) for name in PARAMETERS[kernel]}
    latents, Z = (free["mean"], np.exp(free["log_variance"])), free["inducing"]
    K = covariance(kernel, theta, Z, Z) + 1e-2 * np.eye(M)
    return K, (psi0(kernel, theta, *latents), psi1(kernel, theta, *latents, Z), psi2(kernel, theta, *latents, Z)), free
