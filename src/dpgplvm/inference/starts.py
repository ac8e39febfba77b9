"""Several searches from different places, side by side, and how far they agree."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from threading import Event
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.climb import Climb
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical
from dpgplvm.inference.search import Found, one_group, search
from dpgplvm.model.bound import Model
from dpgplvm.numerics import computing, double_precision


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
    singles = [single] + [None] * (options.n_starts - 1)
    found: list[tuple[int, Found]] = []
    if options.n_jobs in (None, 1) or options.n_starts == 1:
        for number, (seed, start) in enumerate(zip(seeds, singles, strict=True)):
            try:
                found.append((number, search(problem, options, seed, start)))
            except KeyboardInterrupt:
                if not found:
                    raise
                break
            if found[-1][1].best.climb.outcome is Outcome.INTERRUPTED:
                break
    else:
        jobs = (
            delayed(_in_a_worker)(problem, options, seed, start, number)
            for number, (seed, start) in enumerate(zip(seeds, singles, strict=True))
        )
        try:
            found.extend(Parallel(options.n_jobs, return_as="generator_unordered")(jobs))
        except KeyboardInterrupt:
            if not found:
                raise
    found.sort(key=lambda numbered: numbered[0])
    every = [one for _, one in found]
    best = max(every, key=lambda one: one.best.corrected)
    together = np.mean([one.best.climb.state.phi @ one.best.climb.state.phi.T for one in every], axis=0)
    return Searched(problem.model, best, [_start(one) for one in every], together)


def agreement(starts: list[Start]) -> float:
    """Mean adjusted Rand index between the groupings of all pairs of starts; 1 for a single start."""
    pairs = [adjusted_rand_score(one.groups, other.groups) for one, other in combinations(starts, 2)]
    return float(np.mean(pairs)) if pairs else 1.0


def choose_kernel(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> tuple[Problem, Climb]:
    """The kernel whose fit of one group has the highest corrected bound, and that fit.

    It is chosen while the noise is common to all columns: free noise of columns can make a flexible kernel look good by
    what it does to a few of them.
    """
    problems = [Problem(replace(model, kernel=kernel), Y) for kernel in options.kernels or (model.kernel,)]
    singles = _side_by_side(problems, options, rng.spawn(len(problems)))
    if len(singles) == 1:
        return problems[0], singles[0]
    judged = [problem.judge(single).corrected for problem, single in zip(problems, singles, strict=True)]
    best = int(np.argmax(judged))
    return problems[best], singles[best]


def _side_by_side(problems: list[Problem], options: Options, seeds: list[np.random.Generator]) -> list[Climb]:
    """The first stage with each kernel, on threads of their own: one group keeps one core busy. Only the first, as far
    as it got, when Ctrl-C ends them."""
    stop = Event()

    def in_background(problem: Problem, seed: np.random.Generator) -> Climb:
        with double_precision():
            return one_group(problem, options, seed, callback=lambda *_: stop.is_set())

    with ThreadPoolExecutor(len(problems)) as threads:
        others = [threads.submit(in_background, *own) for own in zip(problems[1:], seeds[1:], strict=True)]
        try:
            first = one_group(problems[0], options, seeds[0])
            try:
                if first.outcome is not Outcome.INTERRUPTED:
                    return [first, *(other.result() for other in others)]
            except KeyboardInterrupt:
                pass
            return [first._replace(outcome=Outcome.INTERRUPTED)]
        finally:
            stop.set()


def _in_a_worker(
    problem: Problem, options: Options, rng: np.random.Generator, single: Climb | None, number: int
) -> tuple[int, Found]:
    with computing():
        return number, search(problem, options, rng, single)


def _start(found: Found) -> Start:
    climb = found.best.climb
    return Start(climb.value, found.best.corrected, found.best.n_groups, canonical(found.best.labels), climb.outcome)
