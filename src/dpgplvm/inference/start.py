"""Where a climb starts: latents from principal components, inducing points among them, groups nearly alike."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free

START_LATENT_VARIANCE = 0.3
START_NOISE_SHARE = 0.1


def principal_components(Y: np.ndarray, n_latents: int) -> np.ndarray:
    """[N, Q] scores of the first Q principal components, each of unit variance."""
    centred = Y - Y.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    scores = left[:, :n_latents] * np.sqrt(len(Y))
    # A component without variance has an arbitrary direction; as a latent it starts switched off.
    return np.where(sizes[:n_latents] > 1e-8 * sizes[0], scores, 0.0)


def from_principal_components(
    model: Model, Y: np.ndarray, n_latents: int, n_inducing: int, n_groups: int, rng: np.random.Generator
) -> Free:
    """Principal components as latents, k-means centres of them as inducing points, a tenth of the variance as noise."""
    mean = principal_components(Y, n_latents)
    variance = np.full(mean.shape, START_LATENT_VARIANCE)
    theta = {
        name: np.ones((n_groups, *parameter.shape(n_latents))) for name, parameter in model.kernel.parameters.items()
    }
    # The first components are the important ones; equal weights would spread the kernel over all of them.
    spread = np.sqrt(np.maximum(np.var(Y - Y.mean(axis=0), axis=0).sum(), 1e-300))
    share = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False)[:n_latents] / np.sqrt(len(Y)) / spread
    for name, parameter in model.kernel.parameters.items():
        if parameter.role == "relevance":
            theta[name] = theta[name] * np.maximum(share / share[0], 1e-2)
    log_theta = {
        name: jnp.asarray(np.log(values) + 0.1 * rng.normal(size=values.shape) * (n_groups > 1))
        for name, values in theta.items()
    }
    noise_precision = 1.0 / (START_NOISE_SHARE * np.mean(np.var(Y, axis=0)))
    return Free(
        latents=model.latent_prior.start(jnp.asarray(mean), jnp.asarray(variance)),
        inducing=jnp.asarray(inducing_points(mean, n_inducing, rng)),
        log_theta=log_theta,
        log_noise_precision=jnp.full(n_groups, jnp.log(noise_precision)),
    )


def inducing_points(mean: np.ndarray, n_inducing: int, rng: np.random.Generator) -> np.ndarray:
    """k-means centres of the latents: spread over all of them, and no two alike."""
    distinct = np.unique(mean, axis=0)
    if n_inducing >= len(mean):
        centres = mean.copy()
    elif n_inducing >= len(distinct):
        centres = np.resize(distinct, (n_inducing, mean.shape[1]))
    else:
        seed = int(rng.integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # points that coincide get moved apart below
            centres = KMeans(n_inducing, n_init=1, random_state=seed).fit(mean).cluster_centers_
    return centres + 1e-3 * rng.normal(size=centres.shape)
