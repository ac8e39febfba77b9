"""What rows that were held out say about a kernel.

Bounds of different kernels are not equally tight: one that has the higher bound, or nearly so, can still predict worse,
and better. Then what each says about rows that were held out decides, by their density; and where that is much the
same, by how well each fills one half of their columns from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.rounds import posterior_of_rows
from dpgplvm.numerics import NumericalError

# Nats an entry by which the bound of a flexible kernel is so far ahead that rows need not be asked, or the density of
# rows that were held out so far ahead that it does not matter with which their gaps are filled better.
_FAR_AHEAD = 0.05
# By how much smaller the error of a more flexible kernel must be where densities are much the same.
_WORTH_IT = 0.01
# Rows to learn from, as a share and at most; rows that are held out, at least and at most.
_SHARE_LEARNED, _MOST_LEARNED, _FEWEST_HELD_OUT, _MOST_HELD_OUT = 2 / 3, 1000, 10, 150
_ITERATIONS, _TOLERANCE = 60, 1e-7
# Of draws for rows that were held out: some chance in what is said of each does little to what is said of all.
_ROUNDS = 2
# Rows times squared inducing points from which on even these few iterations are worth compiling for speed.
_LARGE = 3e6


def which_kernel(bounds: Sequence[float], found: Sequence[Grouping], problem: Problem, rng: np.random.Generator) -> int:
    """The number of the kernel to go on with: the first, the most flexible, where its corrected bound is far ahead;
    otherwise the one that rows held out prefer, the last, the simplest, of those that are much the same to them; where
    they cannot say, the one with the highest bound."""
    entries = max(np.sum(~np.isnan(problem.Y)), 1)
    if bounds[0] > max(bounds[1:]) + _FAR_AHEAD * entries:
        return 0
    judged = judged_by_held_out_rows(found, problem, rng)
    if judged is None or not np.isfinite(judged.densities).any():
        return int(np.argmax(bounds))
    close = judged.densities >= judged.densities.max() - _FAR_AHEAD
    errors = np.where(close, judged.errors, np.inf)
    return int(np.flatnonzero(errors <= errors.min() / (1.0 - _WORTH_IT)).max())


class Judged(NamedTuple):
    """What each of several groupings says about some rows once it has forgotten them."""

    densities: np.ndarray  # nats an entry
    errors: np.ndarray  # mean squared, of either half of the columns given the other


def judged_by_held_out_rows(found: Sequence[Grouping], problem: Problem, rng: np.random.Generator) -> Judged | None:
    """All groupings on the same rows; None where there are too few rows to hold any out."""
    order = rng.permutation(len(problem.Y))
    n_learned = min(int(_SHARE_LEARNED * len(order)), _MOST_LEARNED)
    learned, held_out = order[:n_learned], order[n_learned:][:_MOST_HELD_OUT]
    known = problem.Y[learned]
    varies = np.nanmax(known, axis=0, initial=-np.inf) > np.nanmin(known, axis=0, initial=np.inf)
    if len(held_out) < _FEWEST_HELD_OUT or not varies.all():
        return None
    problem.reporter.enter("kernels, by rows held out")
    half = rng.permutation(problem.Y.shape[1]) < problem.Y.shape[1] // 2
    try:
        judged = [_judged(grouping, problem, learned, problem.Y[held_out], half) for grouping in found]
    except Interrupted:  # what was reached knows only some of the rows
        raise KeyboardInterrupt from None
    return Judged(*np.transpose(judged))


def _judged(
    grouping: Grouping, problem: Problem, learned: np.ndarray, unseen: np.ndarray, half: np.ndarray
) -> tuple[float, float]:
    """Log density and squared error of rows that were held out, after some iterations with the others alone."""
    mean, variance = (np.asarray(part)[learned] for part in marginals_of(grouping.model, grouping.free.latents))
    start = replace(grouping.free, latents=grouping.model.latent_prior.start(jnp.asarray(mean), jnp.asarray(variance)))
    brief = len(learned) * grouping.free.inducing.shape[0] ** 2 < _LARGE
    others = problem._replace(model=grouping.model, Y=problem.Y[learned], brief=brief)
    try:
        forgetful = others.fit(start, grouping.labels, 0, _ITERATIONS, _TOLERANCE)
        # A kernel that fits badly must not be excused by calling the rows unlike those that were learned from.
        predictor = Predictor.of(forgetful.model, forgetful.climb.state, others.Y, mixed=False).literally()
        density = sum(part.log_density.sum() for _, part in posterior_of_rows(predictor, unseen, _ROUNDS))
        filled = np.empty_like(unseen)
        for hidden in (half, ~half):
            for rows, part in posterior_of_rows(predictor, np.where(hidden, np.nan, unseen), _ROUNDS):
                filled[np.ix_(rows, hidden)] = part.moments()[0][:, hidden]
    except (NumericalError, np.linalg.LinAlgError):
        return -np.inf, np.inf
    error = np.nanmean((filled - unseen) ** 2)
    density /= max(np.sum(~np.isnan(unseen)), 1)
    return (float(density), float(error)) if np.isfinite([density, error]).all() else (-np.inf, np.inf)
