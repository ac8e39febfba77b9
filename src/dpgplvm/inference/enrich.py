"""A richer kernel for groups that were found with a linear one.

Searching with the sum of both kernels costs several times as much as with either. So where a linear kernel does better
than an RBF, groups are searched for with that, and the sum starts where it ended, with what is new in it faint: it has
to earn its place by the corrected bound.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.grouping import Grouping, Problem
from dpgplvm.inference.moves import Move
from dpgplvm.inference.start import inducing_points, useful_inducing
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBFLinear
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# What is new has this share of the noise as its variance, and weights in proportion to the slopes.
_FAINT, _LEAST_WEIGHT = 0.1, 1e-3
# What is new has to find its size first, so a slow beginning is no reason to give up.
_ITERATIONS, _TOLERANCE = 200, 1e-7


def enrich(problem: Problem, best: Grouping, n_inducing: int, rng: np.random.Generator, log: list[Move]) -> Grouping:
    """The same groups with RBF plus linear as their kernel, where that raises the corrected bound; logged as a move."""
    richer = problem._replace(model=replace(problem.model, kernel=RBFLinear()))
    start = _with_faint_parts(richer.model, best, n_inducing, rng)
    try:
        found = richer.fit(start, best.labels, 0, _ITERATIONS, _TOLERANCE)
    except NumericalError:
        found = None
    helped = found is not None and found.corrected > best.corrected
    n_groups, corrected = (best.n_groups, None) if found is None else (found.n_groups, found.corrected)
    log.append(Move("enrich", best.n_groups, n_groups, best.corrected, corrected, helped))
    return found if found is not None and helped else best


def _with_faint_parts(model: Model, best: Grouping, n_inducing: int, rng: np.random.Generator) -> Free:
    free = best.free
    slopes = np.asarray(free.log_theta["slope_variances"])
    faint = np.full(len(slopes), np.log(_FAINT) - np.median(np.asarray(free.log_noise_precision)))
    weights = np.maximum(slopes - slopes.max(axis=1, keepdims=True), np.log(_LEAST_WEIGHT))
    fresh = {"ard_weights": weights, "signal_variance": faint, "bias_variance": faint}
    # The linear kernel, of finite rank, made do with few inducing points.
    mean = np.asarray(marginals_of(model, free.latents).mean)
    inducing = inducing_points(mean, useful_inducing(model, n_inducing, *mean.shape), rng)
    return replace(
        free,
        log_theta=free.log_theta | {name: jnp.asarray(values) for name, values in fresh.items()},
        inducing=jnp.asarray(inducing),
    )
