"""Where a climb starts: latents from an embedding, inducing points among them, groups nearly alike."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dpgplvm.inference.climb import Ceiling
from dpgplvm.inference.embeddings import Embedded, embeddings_for, filled, principal_components
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

START_LATENT_VARIANCE = 0.05
SCATTER = 0.5


class FirstNoise(NamedTuple):
    """How much of the table is noise when a climb begins."""

    share: float  # of the variance of the columns, on average
    is_held: bool  # for a while


# With nothing explained at first, latents are taken up one after the other, as they pay; where rows lie on a surface it
# is laid out with fewest folds. But what is small may stay noise. With all but a hundredth to be explained, and no way
# out, it does not; but a table with much noise is learned by heart. Which is better depends on the table: both are
# tried.
ALL_IS_NOISE, LITTLE_IS_NOISE = FirstNoise(1.0, is_held=False), FirstNoise(0.01, is_held=True)


class Beginning(NamedTuple):
    """Where rows are at first, and how much noise there is."""

    embedded: Embedded
    noise: FirstNoise

    def embedded_again(self, Y: np.ndarray, n_latents: int) -> Beginning:
        """The same with another number of latents."""
        return self._replace(embedded=self.embedded.by(Y, n_latents))


def plain_beginning(Y: np.ndarray, n_latents: int) -> Beginning:
    """Rows at their principal components, and little noise."""
    return Beginning(principal_components(Y, n_latents), LITTLE_IS_NOISE)


def beginnings(Y: np.ndarray, n_latents: int, bends: bool) -> list[Beginning]:
    """All that are worth a try; a kernel that does not bend is of a plane, which principal components find."""
    whole = filled(Y, n_latents)
    found = []
    for embedding in embeddings_for(len(whole)) if bends else [principal_components]:
        with suppress(NumericalError):
            embedded = embedding(whole, n_latents)
            found += [Beginning(embedded, noise) for noise in (ALL_IS_NOISE, LITTLE_IS_NOISE)]
    return found


def start_from_embedding(
    model: Model,
    Y: np.ndarray,
    n_latents: int,
    n_inducing: int,
    n_groups: int,
    rng: np.random.Generator,
    noise: str = "group",
    scattered: bool = False,
    beginning: Beginning | None = None,
) -> Free:
    """Embedded rows as latents, k-means centres of them as inducing points.

    Rows are at their principal components, and little is noise, where nothing else is said. Scattered, every row is
    moved by a random step: another place to start from.
    """
    (mean, sizes, _), first_noise = beginning or plain_beginning(Y, n_latents)
    if scattered:
        mean = (mean + SCATTER * rng.normal(size=mean.shape)) / np.sqrt(1.0 + SCATTER**2)
    variance = np.full(mean.shape, START_LATENT_VARIANCE)
    theta = {
        name: np.ones((n_groups, *parameter.shape(n_latents))) for name, parameter in model.kernel.parameters.items()
    }
    # The first components are the important ones; equal weights would spread the kernel over all of them.
    share = np.maximum(sizes / sizes[0], 1e-2) ** 2
    log_theta = {}
    for name, parameter in model.kernel.parameters.items():
        own = np.log(theta[name] * share if parameter.role == "relevance" else theta[name])
        apart = 0.1 if n_groups > 1 else 0.0  # groups that are exactly alike would stay alike
        log_theta[name] = jnp.asarray(own + apart * rng.normal(size=own.shape))
    noise_precision = 1.0 / (first_noise.share * np.mean(np.nanvar(Y, axis=0)))
    n_columns = Y.shape[1]
    return Free(
        latents=model.latent_prior.start(jnp.asarray(mean), jnp.asarray(variance)),
        inducing=jnp.asarray(inducing_points(mean, useful_inducing(model, n_inducing, *mean.shape), rng)),
        log_theta=log_theta,
        log_noise_precision=jnp.full(n_columns if noise == "column" else n_groups, jnp.log(noise_precision)),
        log_scale=jnp.zeros(n_columns) if noise == "column" else None,
    )


def finest_precision(Y: np.ndarray, noise: str) -> Ceiling:
    """The largest noise precision with which a density does not see that values come in steps.

    A Gaussian whose standard deviation is half a step or more adds up to one over the values that there are, to a
    hundredth; a narrower one gains by sitting on them, and a flexible kernel then learns rows by heart. A column of two
    or three values must still be predictable: noise of a quarter of its variance is always allowed.
    """
    steps = np.array([_step(column[~np.isnan(column)]) for column in Y.T])
    with np.errstate(divide="ignore"):
        log_precision = -np.log(0.25 * np.minimum(steps**2, np.nanvar(Y, axis=0)))
    return {"log_noise_precision": log_precision if noise == "column" else log_precision.max()}


def _step(values: np.ndarray) -> float:
    """The step in which values are given, 0 where most of them are different: the smallest difference that is more than
    a rounding error of floats."""
    distinct = np.unique(values)
    if len(distinct) > len(values) / 2:
        return 0.0
    gaps = np.diff(distinct)
    return float(gaps[gaps > 1e-9 * np.ptp(values)].min(initial=np.ptp(values)))


def useful_inducing(model: Model, n_inducing: int, n_rows: int, n_latents: int) -> int:
    """As many inducing points as asked for, but no more than there are rows or than the kernel's rank."""
    return min(n_inducing, n_rows, model.kernel.rank(n_latents) or n_rows)


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
