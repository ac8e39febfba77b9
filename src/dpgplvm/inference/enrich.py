"""A richer kernel for groups that were found with an RBF or with a linear one.

Searching with the sum of both kernels costs several times as much as with either. So groups are searched for with one
of them first, and the sum starts where that ended: it has to earn its place by the corrected bound, or rows held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.held_out import which_kernel
from dpgplvm.inference.moves import Move, at_rest, note
from dpgplvm.inference.start import inducing_points, useful_inducing
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBFLinear
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# What is new and faint has this share of the noise as its variance, and listens as what there was does.
_FAINT, _LEAST_WEIGHT = 0.1, 1e-3
# Functions of which less than this share is linear in the latents have nothing to gain from a kernel that says so.
_LEAST_STRAIGHT = 0.5
# What is new has to find its size first, so a slow beginning is no reason to give up.
_ITERATIONS, _TOLERANCE = 200, 1e-7


def enrich(
    problem: Problem, best: Grouping, n_inducing: int, rng: np.random.Generator, log: list[Move]
) -> Iterator[Grouping]:
    """The same groups at rest, then with RBF plus linear as their kernel, where that raises the corrected bound by far,
    or a little and rows held out agree; logged as a move. Nothing where functions are bent for the most part."""
    slopes = problem.slopes(best.climb.state)
    if slopes.straight.sum() < _LEAST_STRAIGHT * slopes.predicted.sum():
        return
    # At rest first, as for every move: it must not get the credit for iterations that its origin had not made yet.
    best = at_rest(problem, best)
    yield best
    richer = problem._replace(model=replace(problem.model, kernel=RBFLinear()))
    try:
        found = richer.fit(_start(richer.model, best, n_inducing, rng), best.labels, 0, _ITERATIONS, _TOLERANCE)
    except NumericalError:
        note(Move("enrich", best.n_groups, best.n_groups, best.corrected, None, False), log, problem.reporter)
        return
    except Interrupted:  # rows have not been asked about it
        raise KeyboardInterrupt from None
    before, after = best.corrected, found.corrected
    helped = after > before and which_kernel([after, before], [found, best], problem, rng) == 0
    note(Move("enrich", best.n_groups, found.n_groups, before, after, helped), log, problem.reporter)
    if helped:
        yield found


def _start(model: Model, best: Grouping, n_inducing: int, rng: np.random.Generator) -> Free:
    free = best.free
    own = {name: np.asarray(values) for name, values in free.log_theta.items()}
    # In units of the functions, which columns of noise and scale of their own are multiples of.
    precision = np.asarray(free.log_noise_precision)
    precision = precision[: best.n_groups] if free.log_scale is None else precision + 2.0 * np.asarray(free.log_scale)
    faint = np.log(_FAINT) - np.median(precision)
    log_theta = _straightened(own, faint) if "ard_weights" in own else _bent(own["slope_variances"], faint)
    # A linear kernel, of finite rank, made do with few inducing points.
    mean = np.asarray(marginals_of(model, free.latents).mean)
    n_useful = useful_inducing(model, n_inducing, *mean.shape)
    enough = n_useful == free.inducing.shape[0]
    return replace(
        free,
        log_theta={name: jnp.asarray(log_theta[name]) for name in model.kernel.parameters},
        inducing=free.inducing if enough else jnp.asarray(inducing_points(mean, n_useful, rng)),
    )


def _bent(slopes: np.ndarray, faint: float) -> dict[str, np.ndarray]:
    """A linear kernel, all in logs, and an RBF that is faint and listens in the same proportions."""
    level = np.full(len(slopes), faint)
    return {
        "slope_variances": slopes,
        "ard_weights": _proportions(slopes),
        "signal_variance": level,
        "bias_variance": level,
    }


def _straightened(own: Mapping[str, np.ndarray], faint: float) -> dict[str, np.ndarray]:
    """An RBF, all in logs, and a linear kernel: faint where the RBF bends, and otherwise what the RBF is to first order
    in x'z, sigma2 (1 + sum_q gamma_q x_q z_q).

    An RBF so smooth that it does hardly more is large, and K and psi2 lose their digits. What it keeps is as large as
    the next order is, and bends within the range of the latents.
    """
    weights, variance = own["ard_weights"], own["signal_variance"]
    smoothness = np.minimum(0.0, logsumexp(weights, axis=1))
    smooth = smoothness < 0.0
    return {
        "slope_variances": np.where(smooth[:, None], variance[:, None] + weights, faint + _proportions(weights)),
        "bias_variance": np.where(smooth, variance, faint),
        "ard_weights": weights - smoothness[:, None],
        "signal_variance": variance + np.where(smooth, 2.0 * smoothness - np.log(2.0), 0.0),
    }


def _proportions(heard: np.ndarray) -> np.ndarray:
    """Logs, with 0 for the latent that is heard most."""
    return np.maximum(heard - heard.max(axis=1, keepdims=True), np.log(_LEAST_WEIGHT))
