"""Several searches from different places, side by side, and how far they agree."""

from __future__ import annotations

import warnings
from contextlib import suppress
from itertools import combinations
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.held_out import which_kernel
from dpgplvm.inference.kernel_choice import with_best_kernel
from dpgplvm.inference.one_group import OneGroup
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical
from dpgplvm.inference.search import Found, search
from dpgplvm.model.bound import Model
from dpgplvm.numerics import NumericalError, computing, forget_compiled_functions_if_many


class Start(NamedTuple):
    """What became of one start."""

    elbo: float
    corrected: float  # the bound with the Occam factor, by which starts are compared
    n_groups: int
    groups: np.ndarray  # [D]
    outcome: Outcome


class Searched(NamedTuple):
    """The best of several starts, and all of them."""

    best: Found
    starts: list[Start]
    coassignment: np.ndarray  # [D, D] probability that two columns share a group, averaged over starts


def search_from_several_starts(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> Searched:
    """Search from as many places as asked for; the first is the plain one, the others scatter the latents.

    Every start has its own random numbers, so the answer is the same for any number of workers. All begin with
    the kernel that is best for the plain one. Ctrl-C keeps the best of what has been reached.
    """
    first = with_best_kernel(model, Y, options, rng.spawn(1)[0])
    names = [f"start {i + 1} of {options.n_starts}" if options.n_starts > 1 else "" for i in range(options.n_starts)]
    jobs = [_Job(name, first.problem, own) for name, own in zip(names, rng.spawn(options.n_starts), strict=True)]
    jobs[0] = jobs[0]._replace(first=first)
    if first.is_interrupted:
        jobs = jobs[:1]
    found, interrupted = _run(jobs, _like(first, options))
    # Starts that were cut off say little about how far starts agree.
    compared = [one for one in found if one.best.climb.outcome is not Outcome.INTERRUPTED] or found
    together = np.mean([one.best.climb.state.phi @ one.best.climb.state.phi.T for one in compared], axis=0)
    best = max(found, key=lambda one: one.best.corrected)
    if interrupted:
        best = best._replace(best=best.best.ended(Outcome.INTERRUPTED))
    else:
        best = _best_of_kernels(found, first.problem, rng.spawn(1)[0])
    return Searched(best, [_start(one) for one in compared], together)


def _best_of_kernels(found: list[Found], problem: Problem, rng: np.random.Generator) -> Found:
    """The highest corrected bound of starts that ended with the same kernel. Where some ended with a richer one, rows
    held out are asked as they were in each start, so that more starts do not mean more chances for it."""
    ascending = sorted(found, key=lambda one: one.best.corrected)
    plain, richer = ([one for one in ascending if (one.best.model == problem.model) is same] for same in (True, False))
    if not plain or not richer:
        return ascending[-1]
    rivals = [richer[-1], plain[-1]]
    groupings = [one.best for one in rivals]
    with suppress(KeyboardInterrupt):
        return rivals[which_kernel([one.corrected for one in groupings], groupings, problem, rng)]
    return ascending[-1]


def _like(first: OneGroup, options: Options) -> Options:
    """Other starts have as many latents as the plain one turned out to need, and are scattered around its rows."""
    return options._replace(n_latents=first.common.state.free.n_latents, beginning=first.beginning)


class _Job(NamedTuple):
    """One search."""

    name: str
    problem: Problem
    rng: np.random.Generator
    first: OneGroup | None = None  # None: from scattered latents

    def run(self, options: Options) -> Found | NumericalError:
        try:
            return search(self.problem, options, self.rng, self.first)
        except NumericalError as error:
            return error


def _run(jobs: list[_Job], options: Options) -> tuple[list[Found], bool]:
    """What the searches found, those that failed left out, and whether Ctrl-C ended them."""
    run = _one_after_the_other if options.n_jobs in (None, 1) or len(jobs) == 1 else _in_processes
    ended, interrupted = run(jobs, options)
    found = [one for one in ended if isinstance(one, Found)]
    if not found:
        raise next((one for one in ended if isinstance(one, NumericalError)), KeyboardInterrupt())
    return found, interrupted


def _one_after_the_other(jobs: list[_Job], options: Options) -> tuple[list[Found | NumericalError], bool]:
    ended: list[Found | NumericalError] = []
    for job in jobs:
        if job.name:
            options.reporter.part(job.name)
        try:
            ended.append(job.run(options))
        except KeyboardInterrupt:
            return ended, True
        last = ended[-1]
        if isinstance(last, Found) and last.best.climb.outcome is Outcome.INTERRUPTED:
            return ended, True
    return ended, False


def _in_processes(jobs: list[_Job], options: Options) -> tuple[list[Found | NumericalError], bool]:
    """The same, side by side."""
    ended: dict[int, Found | NumericalError] = {}
    workers = Parallel(options.n_jobs, return_as="generator_unordered")
    results = workers(delayed(_in_a_worker)(number, job, options) for number, job in enumerate(jobs))
    interrupted = False
    try:
        for number, one in results:
            ended[number] = one
            if isinstance(one, Found):
                grouping = one.best
                if options.reporter.ended(jobs[number].name, grouping.climb.value, grouping.n_groups):
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        interrupted = True
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of what it need not finish
            results.close()
    found = [one for _, one in sorted(ended.items())]
    if interrupted and jobs[0].first is not None and not any(isinstance(one, Found) for one in found):
        # What there was before the workers began.
        cut_off = jobs[0]._replace(first=jobs[0].first.interrupted())
        found.append(cut_off.run(options))
    return found, interrupted


def agreement(starts: list[Start]) -> float:
    """Mean adjusted Rand index between the groupings of all pairs of starts; 1 for a single start."""
    pairs = [adjusted_rand_score(one.groups, other.groups) for one, other in combinations(starts, 2)]
    return float(np.mean(pairs)) if pairs else 1.0


def _in_a_worker(number: int, job: _Job, options: Options) -> tuple[int, Found | NumericalError]:
    forget_compiled_functions_if_many()
    with computing():
        return number, job.run(options)


def _start(found: Found) -> Start:
    climb = found.best.climb
    return Start(climb.value, found.best.corrected, found.best.n_groups, canonical(found.best.labels), climb.outcome)
