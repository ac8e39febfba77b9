"""Which kernel to search with, where there are several to choose from.

Each is fitted with one group from several beginnings, of which the best is kept. Their bounds decide, or rows that were
held out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event

import joblib
import numpy as np

from dpgplvm.inference.climb import Callback
from dpgplvm.inference.embeddings import principal_components
from dpgplvm.inference.grouping import Interrupted, Problem
from dpgplvm.inference.held_out import which_kernel
from dpgplvm.inference.one_group import OneGroup, begin, finish, start_of, with_enough_latents
from dpgplvm.inference.options import Options
from dpgplvm.inference.start import beginnings, finest_precision
from dpgplvm.model.bound import Model
from dpgplvm.numerics import NumericalError, double_precision

_Stage = Callable[..., OneGroup]  # takes a callback


def with_best_kernel(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> OneGroup:
    """A fit of one group with the kernel that is worth a search.

    It is the most flexible one where that has by far the highest corrected bound while the noise is still common to all
    columns: that of columns can make a flexible kernel look good by what it does to a few of them. Otherwise rows that
    were held out choose; where there are too few of them, the bound. After Ctrl-C it is the best so far of the first.
    """
    ceiling = finest_precision(Y, options.noise)
    problems = [
        Problem(replace(model, kernel=kernel), Y, ceiling, options.reporter)
        for kernel in options.kernels or (model.kernel,)
    ]
    reached = _first_stages(problems, options, rng)
    if reached[0].is_interrupted:
        return reached[0]
    best = reached[0]
    try:
        best = _best(reached, rng)
        return with_enough_latents(best, options, rng)
    except (Interrupted, KeyboardInterrupt):
        return best.interrupted()


def _best(reached: list[OneGroup], rng: np.random.Generator) -> OneGroup:
    if len(reached) == 1:
        return reached[0]
    bounds = [_corrected(first) for first in reached]
    return reached[which_kernel(bounds, [first.ended for first in reached], reached[0].problem, rng)]


def _corrected(first: OneGroup) -> float:
    try:
        return first.problem.judge(first.common).corrected
    except NumericalError:
        return -np.inf


def _first_stages(problems: list[Problem], options: Options, rng: np.random.Generator) -> list[OneGroup]:
    """The first stage with each kernel, from the beginning that leads furthest; kernels that fail are left out.

    How much noise there is at first is chosen by what it leads to in a few iterations, for each embedding; the
    embedding by where the stage ends.
    """
    options.reporter.enter("one group")
    # What is the same is compiled twice when two threads ask for it at once: other beginnings come after it is.
    plain, others = _beginnings(problems, options, rng)
    ended = _side_by_side(plain)
    begun = [one for one in ended if isinstance(one, OneGroup)]
    try:
        if not any(one.is_interrupted for one in begun):
            ended += _side_by_side(others)
        begun = _successes(ended)
    except KeyboardInterrupt:  # before any of these had gone anywhere
        if not begun:
            raise
        begun = [one.interrupted() for one in begun]
    if any(one.is_interrupted for one in begun):
        return [max((one for one in begun if one.problem is begun[0].problem), key=_bound).interrupted()]
    furthest = _best_of_embeddings(begun)
    try:
        finished = _successes(_side_by_side([partial(finish, one, options) for one in furthest]))
    except KeyboardInterrupt:
        return [furthest[0].interrupted()]
    if finished[0].is_interrupted:
        return finished[:1]
    of_kernels = [[one for one in finished if one.problem is problem] for problem in problems]
    return [_best_and_second(own) for own in of_kernels if own]


def _bound(begun: OneGroup) -> float:
    return begun.common.value


def _best_of_embeddings(begun: list[OneGroup]) -> list[OneGroup]:
    """Of all with the same kernel and the same embedding, the furthest; for every kernel the best of these first."""
    best: dict[tuple[int, int], OneGroup] = {}
    for one in begun:
        key = id(one.problem), id(one.beginning.embedded)
        best[key] = max(best.get(key, one), one, key=_bound)
    kernels = {id(one.problem): None for one in begun}
    return [
        one
        for kernel in kernels
        for one in sorted(best.values(), key=_bound, reverse=True)
        if id(one.problem) == kernel
    ]


def _best_and_second(finished: list[OneGroup]) -> OneGroup:
    best, *others = sorted(finished, key=lambda one: -one.ended.corrected)
    return best._replace(second=others[0] if others else None)


def _beginnings(
    problems: list[Problem], options: Options, rng: np.random.Generator
) -> tuple[list[_Stage], list[_Stage]]:
    """The first beginning of each kernel, and all others."""
    bends = [problem.model.kernel.bends for problem in problems]
    every = beginnings(problems[0].Y, options.n_latents, any(bends))
    plain, others = list[_Stage](), list[_Stage]()
    for problem, seed, own in zip(problems, rng.spawn(len(problems)), bends, strict=True):
        of_kernel = [one for one in every if own or one.embedded.by is principal_components]
        first, *rest = [
            partial(begin, problem, options, start_of(problem, options, seed, one), one) for one in of_kernel
        ]
        plain.append(first)
        others += rest
    return plain, others


def _successes(ended: Sequence[OneGroup | NumericalError]) -> list[OneGroup]:
    """Those that did not fail; where all did, so does this."""
    reached = [one for one in ended if isinstance(one, OneGroup)]
    if not reached:
        raise next(failure for failure in ended if isinstance(failure, NumericalError))
    return reached


def _side_by_side(stages: Sequence[_Stage]) -> list[OneGroup | NumericalError]:
    """All of these, on threads of their own: one group keeps one core busy. Ctrl-C ends all of them and leaves only the
    first, as far as it got."""
    if not stages:
        return []
    stop = Event()

    def run(stage: _Stage, callback: Callback | None = None) -> OneGroup | NumericalError:
        try:
            with double_precision():
                return stage(callback=callback)
        except NumericalError as error:
            return error

    threads = ThreadPoolExecutor(joblib.cpu_count())
    first: OneGroup | NumericalError | None = None
    try:
        others = [threads.submit(run, stage, lambda *_: stop.is_set()) for stage in stages[1:]]
        first = run(stages[0])
        if isinstance(first, OneGroup) and first.is_interrupted:
            return [first]
        return [first, *(other.result() for other in others)]
    except KeyboardInterrupt:
        if not isinstance(first, OneGroup):
            raise
        return [first.interrupted()]
    finally:
        stop.set()
        threads.shutdown(cancel_futures=True)
