"""The missing-data suite in short: how our models compare, one line a table, with what that adds up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
from missing_methods import METHODS
from missing_report import Cell, Record, Scores, holds_enough, marked, times_as_long
from missing_sets import COLUMN_SHARES, TITLES

Cells = dict[Cell, Scores]
BySeed = dict[int, dict[str, float]]
_KERNELS = {"rbf": "RBF", "linear": "linear", "rbf+linear": "RBF + linear"}


def overview(cells: Cells, records: list[Record]) -> Iterator[str]:
    """Of the cells and runs with one split and share of rows: every number is a mean over the seeds of DPGPLVM, and
    there are three of them, for the shares of columns that are hidden."""
    heads = ["table (rows learned from x columns)", "seeds", "`DPGPLVM`", "`BayesianGPLVM`", "best of the others"]
    heads += ["intervals of `DPGPLVM` hold", "of `BayesianGPLVM`", "negative log density, `DPGPLVM`"]
    heads += ["`BayesianGPLVM`", "kernel; groups"]
    yield from _head(heads)
    for name in TITLES:
        own = {cell: scores for cell, scores in cells.items() if cell.set == name and "dpgplvm" in scores}
        if not own:
            continue
        runs = [one for one in records if (one["set"], one["method"]) == (name, "dpgplvm") and "shape" in one]
        best, names = _best_of_the_others(own.values())
        columns = [_title(name, runs), str(max(len(scores["dpgplvm"]) for scores in own.values()))]
        columns += [_three(own, model, "mse", _error) for model in ("dpgplvm", "bgplvm")]
        columns += [f"{', '.join(best)} ({', '.join(names)})" if best else ""]
        held = [_three(own, model, "quantile_coverage", _percent) for model in ("dpgplvm", "bgplvm")]
        columns += [f"{text} %" if text else "" for text in held]
        columns += [_three(own, model, "nlpd", "{:.2f}".format) for model in ("dpgplvm", "bgplvm")]
        yield _row([*columns, _structures(runs)])
    yield ""


def ahead(cells: Cells) -> Iterator[str]:
    """In how many cells our models have smaller errors and higher densities than each of the methods, on the seeds that
    both have, and what the intervals of all of them hold; of the cells that DPGPLVM has been run in."""
    cells = {cell: scores for cell, scores in cells.items() if "dpgplvm" in scores}
    names = [name for name in METHODS if any(name in scores for scores in cells.values())]
    models = [name for name in ("dpgplvm", "bgplvm") if name in names]
    what = [(f"`{METHODS[name].title}` has the smaller error", "the higher density") for name in models]
    yield from _head(["than", *chain(*what), "its 95 % intervals hold 92 to 98 %", "least and most"])
    for name in names:
        counts = [_count(cells, model, name, metric) for model in models for metric in ("mse", "nlpd")]
        held = [_held(scores[name]) for scores in cells.values() if name in scores]
        n_held, least, most = sum(map(holds_enough, held)), *map(_percent, (min(held), max(held)))
        yield _row([title_of(name), *counts, f"{n_held} of {len(held)}", f"{least}, {most} %"])
    yield ""


def title_of(name: str) -> str:
    """That of a method, with the mark of one that has no spread of its own."""
    return marked(METHODS[name]).replace("*", "\\*")


def _count(cells: Cells, model: str, other: str, metric: str) -> str:
    pairs = [_paired(scores, model, other) for scores in cells.values()]
    pairs = [pair for pair in pairs if pair[0]]
    smaller = sum(_mean(ours, metric) < _mean(theirs, metric) for ours, theirs in pairs)
    return f"{smaller} of {len(pairs)}" if pairs and model != other else ""


def _held(by_seed: BySeed) -> float:
    """By quantiles, or by deviations where a method has no quantiles."""
    by_quantiles = all("quantile_coverage" in scores for scores in by_seed.values())
    return _mean(by_seed, "quantile_coverage" if by_quantiles else "coverage")


def against_mrd(cells: Cells, records: list[Record]) -> Iterator[str]:
    """The same cells where MRD has been run, on the seeds that it has been run with, and how long it took."""
    yield from _head(["table", "seeds", "`DPGPLVM`", "`MRD`", "times as long to fit"])
    for name in TITLES:
        pairs = {cell: _paired(scores, "dpgplvm", "mrd") for cell, scores in cells.items() if cell.set == name}
        own = {cell: {"dpgplvm": ours, "mrd": theirs} for cell, (ours, theirs) in pairs.items()}
        runs = {(one["method"], one["seed"]): one for one in records if one["set"] == name and "error" not in one}
        both = sorted(seed for method, seed in runs if method == "mrd" and ("dpgplvm", seed) in runs)
        if not both:
            continue
        theirs, ours = ([runs[method, seed] for seed in both] for method in ("mrd", "dpgplvm"))
        given_up = [f"given up after {one['given_up']:.0f} s" for one in theirs if "given_up" in one]
        errors = filter(None, [_three(own, "mrd", "mse", _error), *given_up[:1]])
        columns = [TITLES[name], str(len(both)), _three(own, "dpgplvm", "mse", _error), ", ".join(errors)]
        yield _row([*columns, ", ".join(filter(None, map(_ratio, theirs, ours)))])
    yield ""


def _ratio(theirs: Record, ours: Record) -> str:
    ratio = times_as_long(theirs, ours)
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if "fit_seconds" in theirs else f"more than {ratio:.1f}"


def _paired(scores: Scores, model: str, other: str) -> tuple[BySeed, BySeed]:
    """Both on the seeds that both have."""
    ours, theirs = scores.get(model, {}), scores.get(other, {})
    both = sorted(set(ours) & set(theirs))
    return {seed: ours[seed] for seed in both}, {seed: theirs[seed] for seed in both}


def _best_of_the_others(scores: Iterable[Scores]) -> tuple[list[str], list[str]]:
    """Errors of the best baselines that have all seeds, and their names."""
    best, names = [], []
    for own in scores:
        errors = {
            METHODS[name].title: _mean(by_seed, "mse")
            for name, by_seed in own.items()
            if METHODS[name].is_baseline and set(own["dpgplvm"]) <= set(by_seed)
        }
        if errors:
            name = min(errors, key=errors.__getitem__)
            best.append(_error(errors[name]))
            names.append(name)
    return best, list(dict.fromkeys(names))


def _three(cells: Cells, method: str, metric: str, form: Callable[[float], str]) -> str:
    """What a method has in the cells of one table, as far as it has come; in brackets where some seeds are missing."""
    texts = []
    for share in COLUMN_SHARES:
        (scores,) = (own for cell, own in cells.items() if cell.column_share == share)
        if scores.get(method):
            text = form(_mean(scores[method], metric))
            texts.append(text if len(scores[method]) == len(scores["dpgplvm"]) else f"({text})")
    return ", ".join(texts)


def _mean(by_seed: BySeed, metric: str) -> float:
    return float(np.mean([scores[metric] for scores in by_seed.values()]))


def _error(value: float) -> str:
    return f"{value:.3f}" if value >= 0.1 else f"{value:#.2g}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _title(name: str, runs: list[Record]) -> str:
    return f"{TITLES[name]} ({' x '.join(map(str, runs[0]['shape']))})" if runs else TITLES[name]


def _structures(runs: list[Record]) -> str:
    """Kernels and numbers of groups, seed by seed where they differ."""
    runs = sorted((one for one in runs if "kernel" in one), key=lambda one: one["seed"])
    if not runs:
        return ""
    kernels, groups = ([str(one[key]) for one in runs] for key in ("kernel", "n_groups"))
    kernels = [_KERNELS[kernel] for kernel in kernels]
    return "; ".join(", ".join(own[:1] if len(set(own)) == 1 else own) for own in (kernels, groups))


def _head(names: list[str]) -> Iterator[str]:
    yield from [_row(names), "|" + " --- |" * len(names)]


def _row(columns: list[str]) -> str:
    return f"| {' | '.join(columns)} |"
