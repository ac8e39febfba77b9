"""Which kernel to search with, where there are several to choose from.

Each is fitted with one group. Where a linear kernel has the higher bound, that does not say that it is better, because
bounds of flexible kernels are less tight: it can still predict worse. Then what each says about rows that were held out
decides; and where that does not settle it either, groups are searched for with both and judged in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.climb import Callback, Climb
from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.particles import posterior_of_rows
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.search import one_group, with_enough_latents, with_own_noise
from dpgplvm.inference.start import finest_precision
from dpgplvm.model.bound import Model
from dpgplvm.numerics import NumericalError, double_precision

# Nats an entry of rows that were held out by which a kernel is so far ahead that others are not worth a search.
_CLEARLY_AHEAD = 0.02
# Rows to learn from, as a share and at most; rows that are held out, at least and at most.
_SHARE_LEARNED, _MOST_LEARNED, _FEWEST_HELD_OUT, _MOST_HELD_OUT = 2 / 3, 1000, 10, 150
_ITERATIONS, _TOLERANCE = 60, 1e-7


def close_kernels(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator
) -> list[tuple[Problem, Climb]]:
    """Kernels worth a search, best first, and the fit of one group with each, with the noise still common to all
    columns: that of columns can make a flexible kernel look good by what it does to a few of them.

    It is the most flexible one where that has the highest corrected bound. Otherwise they are those that say nearly as
    much about rows held out as the best does. After Ctrl-C there is one, the first that got anywhere.
    """
    ceiling = finest_precision(Y, options.noise)
    problems = [
        Problem(replace(model, kernel=kernel), Y, ceiling, options.reporter)
        for kernel in options.kernels or (model.kernel,)
    ]
    singles = _side_by_side(problems, options, rng.spawn(len(problems)))
    pairs = zip(problems, singles, strict=True)
    reached = [(problem, single) for problem, single in pairs if isinstance(single, Climb)]
    if not reached:
        raise next(failure for failure in singles if isinstance(failure, NumericalError))
    if reached[0][1].outcome is Outcome.INTERRUPTED:
        return reached[:1]
    try:
        reached = _close(reached, options, rng)
        return [(problem, with_enough_latents(problem, single, options, rng)) for problem, single in reached]
    except (Interrupted, KeyboardInterrupt):
        problem, single = reached[0]
        return [(problem, single._replace(outcome=Outcome.INTERRUPTED))]


def _close(
    reached: list[tuple[Problem, Climb]], options: Options, rng: np.random.Generator
) -> list[tuple[Problem, Climb]]:
    if len(reached) == 1:
        return reached
    best = int(np.argmax([_corrected(problem, single) for problem, single in reached]))
    if best == 0:
        return reached[:1]
    found = [with_own_noise(problem, single, options) for problem, single in reached]
    densities = densities_of_held_out_rows(found, reached[0][0], rng)
    if densities is None:
        return [reached[best], *reached[:best]]
    order = np.argsort(densities)[::-1]
    return [reached[i] for i in order if densities[i] >= densities.max() - _CLEARLY_AHEAD]


def _corrected(problem: Problem, single: Climb) -> float:
    try:
        return problem.judge(single).corrected
    except NumericalError:
        return -np.inf


def best_by_held_out_rows(found: Sequence[Grouping], problem: Problem, rng: np.random.Generator) -> int:
    """The number of the grouping that says most about some rows once it has forgotten them; where no rows can be held
    out, the one with the highest corrected bound."""
    densities = None
    if len(found) > 1 and not any(grouping.climb.outcome is Outcome.INTERRUPTED for grouping in found):
        with suppress(Interrupted, KeyboardInterrupt):
            densities = densities_of_held_out_rows(found, problem, rng)
    return int(np.argmax([grouping.corrected for grouping in found] if densities is None else densities))


def densities_of_held_out_rows(
    found: Sequence[Grouping], problem: Problem, rng: np.random.Generator
) -> np.ndarray | None:
    """Nats an entry that each grouping gives to some rows once it has forgotten them; None where there are too few rows
    to hold any out."""
    order = rng.permutation(len(problem.Y))
    n_learned = min(int(_SHARE_LEARNED * len(order)), _MOST_LEARNED)
    learned, held_out = order[:n_learned], order[n_learned:][:_MOST_HELD_OUT]
    known = problem.Y[learned]
    varies = np.nanmax(known, axis=0, initial=-np.inf) > np.nanmin(known, axis=0, initial=np.inf)
    if len(held_out) < _FEWEST_HELD_OUT or not varies.all():
        return None
    problem.reporter.enter("kernels, by rows held out")
    n_entries = np.sum(~np.isnan(problem.Y[held_out]))
    return np.array([_density(grouping, problem, learned, held_out) for grouping in found]) / max(n_entries, 1)


def _density(grouping: Grouping, problem: Problem, learned: np.ndarray, held_out: np.ndarray) -> float:
    """Log density of the rows that were held out, after some iterations with the others alone."""
    mean, variance = (np.asarray(part)[learned] for part in marginals_of(grouping.model, grouping.free.latents))
    start = replace(grouping.free, latents=grouping.model.latent_prior.start(jnp.asarray(mean), jnp.asarray(variance)))
    others = problem._replace(model=grouping.model, Y=problem.Y[learned])
    try:
        forgetful = others.fit(start, grouping.labels, 0, _ITERATIONS, _TOLERANCE)
        predictor = Predictor.of(forgetful.model, forgetful.climb.state, others.Y, mixed=False)
        density = sum(part.log_density.sum() for _, part in posterior_of_rows(predictor, problem.Y[held_out]))
        return float(density) if np.isfinite(density) else -np.inf
    except (NumericalError, np.linalg.LinAlgError):
        return -np.inf


def _side_by_side(
    problems: list[Problem], options: Options, seeds: list[np.random.Generator]
) -> list[Climb | NumericalError | None]:
    """The first stage with each kernel, on threads of their own: one group keeps one core busy. Ctrl-C ends all of them
    and leaves only the first, as far as it got."""
    stop = Event()

    def stage(problem: Problem, seed: np.random.Generator, callback: Callback | None = None) -> Climb | NumericalError:
        try:
            with double_precision():
                return one_group(problem, options, seed, callback=callback)
        except NumericalError as error:
            return error

    with ThreadPoolExecutor(len(problems)) as threads:
        rest = zip(problems[1:], seeds[1:], strict=True)
        others = [threads.submit(stage, problem, seed, lambda *_: stop.is_set()) for problem, seed in rest]
        first: Climb | NumericalError | None = None
        try:
            first = stage(problems[0], seeds[0])
            if not (isinstance(first, Climb) and first.outcome is Outcome.INTERRUPTED):
                return [first, *(other.result() for other in others)]
        except KeyboardInterrupt:
            if not isinstance(first, Climb):
                raise
            first = first._replace(outcome=Outcome.INTERRUPTED)
        finally:
            stop.set()
        return [first, *(None for _ in others)]
