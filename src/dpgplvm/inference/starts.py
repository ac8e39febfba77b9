"""Several searches from different places, side by side, and how far they agree."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from threading import Event
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.climb import Callback, Climb
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical
from dpgplvm.inference.search import Found, one_group, search
from dpgplvm.inference.start import finest_precision
from dpgplvm.model.bound import Model
from dpgplvm.numerics import NumericalError, computing, double_precision


class Start(NamedTuple):
    """What became of one start."""

    elbo: float
    corrected: float  # the bound with the Occam factor, by which starts are compared
    n_groups: int
    groups: np.ndarray  # [D]
    outcome: Outcome


class Searched(NamedTuple):
    """The best of several starts, and all of them."""

    model: Model
    best: Found
    starts: list[Start]
    coassignment: np.ndarray  # [D, D] probability that two columns share a group, averaged over starts


def search_from_several_starts(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> Searched:
    """Search from as many places as asked for; the first is the plain one, the others scatter the latents.

    Every start has its own random numbers, so the answer is the same for any number of workers. Ctrl-C keeps the best
    of what has been reached.
    """
    problem, single = choose_kernel(model, Y, options, rng.spawn(1)[0])
    seeds = rng.spawn(options.n_starts)
    if single.outcome is Outcome.INTERRUPTED:
        seeds = seeds[:1]
    run = _one_after_the_other if options.n_jobs in (None, 1) or len(seeds) == 1 else _in_processes
    found, interrupted = run(problem, options, seeds, single)
    # Starts that were cut off say little about how far starts agree.
    compared = [one for one in found if one.best.climb.outcome is not Outcome.INTERRUPTED] or found
    together = np.mean([one.best.climb.state.phi @ one.best.climb.state.phi.T for one in compared], axis=0)
    best = max(found, key=lambda one: one.best.corrected)
    if interrupted:
        best = best._replace(best=best.best.ended(Outcome.INTERRUPTED))
    return Searched(problem.model, best, [_start(one) for one in compared], together)


def _one_after_the_other(
    problem: Problem, options: Options, seeds: list[np.random.Generator], single: Climb
) -> tuple[list[Found], bool]:
    """What the starts found, those that failed left out, and whether Ctrl-C ended them."""
    found: list[Found] = []
    failure: NumericalError | None = None
    for number, seed in enumerate(seeds):
        if len(seeds) > 1:
            problem.reporter.part(_name(number, seeds))
        try:
            found.append(search(problem, options, seed, None if number else single))
        except NumericalError as error:
            failure = error
        except KeyboardInterrupt:
            if not found:
                raise
            return found, True
        if found and found[-1].best.climb.outcome is Outcome.INTERRUPTED:
            return found, True
    if failure and not found:
        raise failure
    return found, False


def _in_processes(
    problem: Problem, options: Options, seeds: list[np.random.Generator], single: Climb
) -> tuple[list[Found], bool]:
    """The same, side by side."""
    jobs = (
        delayed(_in_a_worker)(number, problem, options, seed, None if number else single)
        for number, seed in enumerate(seeds)
    )
    ended: dict[int, Found | NumericalError] = {}
    interrupted = False
    results = Parallel(options.n_jobs, return_as="generator_unordered")(jobs)
    try:
        for number, one in results:
            ended[number] = one
            if isinstance(one, Found):
                grouping = one.best
                if problem.reporter.ended(_name(number, seeds), grouping.climb.value, grouping.n_groups):
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        interrupted = True
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of what it need not finish
            results.close()
    found = [one for _, one in sorted(ended.items()) if isinstance(one, Found)]
    if interrupted and not found:
        found = [search(problem, options, seeds[0], single._replace(outcome=Outcome.INTERRUPTED))]
    if not found:
        raise next(one for one in ended.values() if isinstance(one, NumericalError))
    return found, interrupted


def _name(number: int, seeds: list[np.random.Generator]) -> str:
    return f"start {number + 1} of {len(seeds)}"


def agreement(starts: list[Start]) -> float:
    """Mean adjusted Rand index between the groupings of all pairs of starts; 1 for a single start."""
    pairs = [adjusted_rand_score(one.groups, other.groups) for one, other in combinations(starts, 2)]
    return float(np.mean(pairs)) if pairs else 1.0


def choose_kernel(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> tuple[Problem, Climb]:
    """The kernel whose fit of one group has the highest corrected bound, and that fit.

    It is chosen while the noise is common to all columns: free noise of columns can make a flexible kernel look good by
    what it does to a few of them. After Ctrl-C it is the first that got anywhere.
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
    if len(reached) == 1:
        return reached[0]
    try:
        return max(reached, key=lambda pair: pair[0].judge(pair[1]).corrected)
    except KeyboardInterrupt:
        problem, single = reached[0]
        return problem, single._replace(outcome=Outcome.INTERRUPTED)


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


def _in_a_worker(
    number: int, problem: Problem, options: Options, rng: np.random.Generator, single: Climb | None
) -> tuple[int, Found | NumericalError]:
    try:
        with computing():
            return number, search(problem, options, rng, single)
    except NumericalError as error:
        return number, error


def _start(found: Found) -> Start:
    climb = found.best.climb
    return Start(climb.value, found.best.corrected, found.best.n_groups, canonical(found.best.labels), climb.outcome)
