"""Which kernel a search is to have, where there are several to choose from.

Each is fitted with one group. Where their bounds are close, they do not say which kernel is better, because they are
not equally tight: a linear kernel can have the higher bound and predict worse. What a fit to some of the rows says
about the others does.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import NamedTuple

import numpy as np

from dpgplvm.inference.climb import Callback, Climb
from dpgplvm.inference.enrich import enriched
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.particles import posterior_of_rows
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.search import one_group, with_own_noise
from dpgplvm.inference.start import finest_precision
from dpgplvm.model.bound import Model
from dpgplvm.numerics import NumericalError, double_precision

# Nats an entry by which a kernel is so far ahead by its bound that nothing else need be asked, and by which one that is
# behind by its bound has to be ahead in what it says about rows that were held out.
_CLEARLY_AHEAD, _AHEAD = 0.2, 0.01
# Rows to learn from, as a share and at most, and rows that are held out, at least and at most.
_SHARE_LEARNED, _MOST_LEARNED, _FEWEST_HELD, _MOST_HELD = 2 / 3, 300, 10, 150


class Choice(NamedTuple):
    """A kernel, as that of the problem's model, and the fit of one group with it, with noise common to all columns."""

    problem: Problem
    single: Climb
    richer: bool | None = None  # whether linear groups get the sum of both kernels; None: by the corrected bound


def choose_kernel(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> Choice:
    """The kernel with the highest corrected bound of one group if it is far ahead, otherwise the one that says most
    about rows that were held out. After Ctrl-C it is the first that got anywhere."""
    ceiling = finest_precision(Y, options.noise)
    problems = [
        Problem(replace(model, kernel=kernel), Y, ceiling, options.reporter)
        for kernel in options.kernels or (model.kernel,)
    ]
    singles = _side_by_side(problems, options, rng.spawn(len(problems)))
    pairs = zip(problems, singles, strict=True)
    reached = [Choice(problem, single) for problem, single in pairs if isinstance(single, Climb)]
    if not reached:
        raise next(failure for failure in singles if isinstance(failure, NumericalError))
    if len(reached) == 1:
        return reached[0]
    try:
        # With common noise: that of columns can make a flexible kernel look good by what it does to a few of them.
        bounds = [choice.problem.judge(choice.single).corrected for choice in reached]
        close = max(bounds) - _CLEARLY_AHEAD * np.sum(~np.isnan(Y))
        ranked = [reached[i] for i in np.argsort(bounds)[::-1] if bounds[i] >= close]
        return ranked[0] if len(ranked) == 1 else _by_held_out_rows(ranked, options, rng)
    except (Interrupted, KeyboardInterrupt):
        return reached[0]._replace(single=reached[0].single._replace(outcome=Outcome.INTERRUPTED))


def _by_held_out_rows(ranked: list[Choice], options: Options, rng: np.random.Generator) -> Choice:
    """The one that says most about rows that were held out; the first of them, unless another is ahead by more than
    chance."""
    Y = ranked[0].problem.Y
    order = rng.permutation(len(Y))
    n_learned = min(int(_SHARE_LEARNED * len(Y)), _MOST_LEARNED)
    learned, held_out = Y[order[:n_learned]], Y[order[n_learned:][:_MOST_HELD]]
    varies = np.nanmax(learned, axis=0, initial=-np.inf) > np.nanmin(learned, axis=0, initial=np.inf)
    if len(held_out) < _FEWEST_HELD or n_learned <= options.n_latents or not varies.all():
        return ranked[0]
    learned = learned[~np.isnan(learned).all(axis=1)]
    options.reporter.enter("kernels, by rows held out")
    parts = [choice.problem._replace(Y=learned) for choice in ranked]
    said: list[tuple[float, Choice]] = []
    for choice, part, single in zip(ranked, parts, _side_by_side(parts, options, rng.spawn(len(parts))), strict=True):
        if not isinstance(single, Climb):
            continue
        if single.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        reached = with_own_noise(part, single, options)
        said.append((_density(reached, learned, held_out), choice._replace(richer=False)))
        if options.enrich and part.is_linear:
            sum_of_both = enriched(part, reached, options.n_inducing, rng)
            said.append((_density(sum_of_both, learned, held_out), choice._replace(richer=True)))
    best = max((density for density, _ in said), default=-np.inf)
    return next((choice for density, choice in said if density >= best - _AHEAD), ranked[0])


def _density(grouping: Grouping | None, learned: np.ndarray, held_out: np.ndarray) -> float:
    """Mean log density of the observed entries of rows that were held out."""
    if grouping is None:
        return -np.inf
    try:
        predictor = Predictor.of(grouping.model, grouping.climb.state, learned, mixed=False)
        rows = posterior_of_rows(predictor, held_out)
        return float(sum(particles.log_density.sum() for _, particles in rows) / np.sum(~np.isnan(held_out)))
    except NumericalError:
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
