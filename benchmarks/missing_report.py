"""What the missing-data suite prints: tables for every set and split, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from missing_methods import METHODS, Method
from missing_sets import SHARED

Record = dict[str, Any]
Scores = dict[str, dict[int, dict[str, float]]]  # by method and seed

UNSEEN = {"random": "rows anywhere", "block": "a block of rows"}
_NAME_WIDTH, _CELL_WIDTH = 27, 21
_HARDEST = (50, 50)
_LEAST_COVERAGE, _MOST_COVERAGE = 0.92, 0.98
_LEAST_TIME_RATIO = 2.0


class Metric(NamedTuple):
    """A number of every cell, its name in print, and how it is written."""

    name: str
    title: str
    format: str


METRICS = (
    Metric("mse", "mean squared error", "#.3g"),
    Metric("nlpd", "mean negative log density", ".3f"),
    Metric("coverage", "within 1.96 deviations", ".1%"),
    Metric("quantile_coverage", "within 95 % by quantiles", ".1%"),
    Metric("fit_seconds", "seconds to fit", ".1f"),
    Metric("impute_seconds", "seconds to fill", ".1f"),
)


class Cell(NamedTuple):
    """A set, a split, and the percent of its rows that are unseen and of its columns that are hidden there."""

    set: str
    split: str
    row_share: int
    column_share: int

    def __str__(self) -> str:
        return f"{self.set} {self.split} {self.row_share} % x {self.column_share} %"


def scores_by_cell(records: Iterable[Record]) -> dict[Cell, Scores]:
    cells: dict[Cell, Scores] = {}
    for one in records:
        for share, scores in one.get("cells", {}).items():
            cell = Cell(one["set"], one["split"], one["row_share"], int(share))
            own = cells.setdefault(cell, {}).setdefault(one["method"], {})
            own[one["seed"]] = scores | {"fit_seconds": one["fit_seconds"]}
    return {cell: cells[cell] for cell in sorted(cells)}


def summarise(records: Iterable[Record]) -> list[Record]:
    """Mean and standard deviation over seeds of every number, for every cell and method."""
    return [
        cell._asdict() | {"method": method, "seeds": len(by_seed)} | dict(_moments(by_seed))
        for cell, scores in scores_by_cell(records).items()
        for method, by_seed in scores.items()
    ]


def _moments(by_seed: dict[int, dict[str, float]]) -> Iterator[tuple[str, dict[str, float | None]]]:
    for metric in METRICS:
        values = _values(by_seed, metric.name)
        if len(values):
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            yield metric.name, {"mean": float(values.mean()), "std": spread}


def block(records: list[Record]) -> str:
    """The tables of one set and split, and what went wrong there."""
    cells, first = scores_by_cell(records), records[0]
    unseen = UNSEEN[first["split"]]
    n_seeds = len({one["seed"] for one in records})
    heads = [f"{cell.row_share} % x {cell.column_share} %" for cell in cells]
    lines = [f"{first['set']}, {unseen} unseen, {n_seeds} seed{'s' * (n_seeds > 1)}: rows unseen x columns hidden"]
    for metric in METRICS:
        rows = {name: [written(scores.get(name, {}), metric) for scores in cells.values()] for name in METHODS}
        rows = {name: row for name, row in rows.items() if any(row)}
        if rows:
            lines.append(_line(metric.title, heads))
            lines += [_line(f"  {marked(METHODS[name])}", row) for name, row in rows.items()]
    return "\n".join([*lines, *(f"  {note}" for note in in_words(records))]) + "\n"


def marked(method: Method) -> str:
    """Its title, with a mark where it has no spread of its own."""
    return method.title if method.own_spread else f"{method.title} *"


def _line(title: str, cells: list[str]) -> str:
    return f"  {title:<{_NAME_WIDTH}}" + "".join(f"{cell:>{_CELL_WIDTH}}" for cell in cells)


def written(by_seed: dict[int, dict[str, float]], metric: Metric) -> str:
    """Mean and standard deviation over seeds; nothing where there is none."""
    values = _values(by_seed, metric.name)
    if not len(values):
        return ""
    spread = f" ± {values.std(ddof=1):{metric.format}}" if len(values) > 1 else ""
    return f"{values.mean():{metric.format}}{spread}"


def _values(by_seed: dict[int, dict[str, float]], metric: str) -> np.ndarray:
    return np.array([scores[metric] for scores in by_seed.values() if metric in scores])


def in_words(records: list[Record]) -> list[str]:
    """What went wrong, run by run."""
    notes = []
    for one in records:
        about = f"{METHODS[one['method']].title}, {one['set']}, {one['split']}, {one['row_share']} % of the rows, "
        about += f"seed {one['seed']}: "
        if "error" in one:
            notes.append(about + one["error"])
        if "given_up" in one:
            notes.append(about + f"given up after {one['given_up']:.0f} s")
    return notes


class Goal(NamedTuple):
    """Something that must be shown, what was seen, whether that is enough, and where it is not."""

    text: str
    seen: str
    met: bool
    misses: list[str]


def goals(records: list[Record]) -> list[Goal]:
    """The goals of whatever was run."""
    cells = scores_by_cell(records)
    told = [
        _against(
            "bgplvm", "DPGPLVM's error is that of BayesianGPLVM or less, within a standard error", cells, _no_worse
        ),
        _against("mrd", "DPGPLVM's error is less than that of MRD with a view a column", cells, _better),
        *(_against_baselines(cells, split) for split in sorted({cell.split for cell in cells})),
        _coverage(cells),
        _time_ratio(records),
    ]
    return [goal for goal in told if goal is not None]


def _no_worse(differences: np.ndarray) -> bool:
    one_error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return bool(differences.mean() <= one_error)


def _better(differences: np.ndarray) -> bool:
    return bool(differences.mean() < 0.0)


def _pairs(scores: Scores, other: str) -> np.ndarray:
    """[seeds, 2] Squared errors of DPGPLVM and another method, for the seeds that both have."""
    ours, theirs = scores.get("dpgplvm", {}), scores.get(other, {})
    return np.array([[ours[seed]["mse"], theirs[seed]["mse"]] for seed in ours if seed in theirs]).reshape(-1, 2)


def _against(other: str, text: str, cells: dict[Cell, Scores], enough: Callable[[np.ndarray], bool]) -> Goal | None:
    pairs = {cell: _pairs(scores, other) for cell, scores in cells.items()}
    pairs = {cell: own for cell, own in pairs.items() if len(own)}
    misses = [
        f"{cell}: {own[:, 0].mean():#.3g}, {METHODS[other].title} {own[:, 1].mean():#.3g}"
        for cell, own in pairs.items()
        if not enough(own[:, 0] - own[:, 1])
    ]
    return _in_all(text, len(pairs), "cells", misses)


def _in_all(text: str, n: int, things: str, misses: list[str]) -> Goal | None:
    return Goal(text, f"{n - len(misses)} of {n} {things}", not misses, misses) if n else None


def _against_baselines(cells: dict[Cell, Scores], split: str) -> Goal | None:
    names = [name for name, method in METHODS.items() if method.is_baseline]
    compared, misses = 0, []
    for cell, scores in cells.items():
        pairs = {name: _pairs(scores, name) for name in names}
        pairs = {name: own for name, own in pairs.items() if len(own)}
        if cell[1:] != (split, *_HARDEST) or cell.set not in SHARED or not pairs:
            continue
        compared += 1
        ahead = [name for name, own in pairs.items() if not _better(own[:, 0] - own[:, 1])]
        if ahead:
            ours = _values(scores["dpgplvm"], "mse").mean()
            others = ", ".join(f"{METHODS[name].title} {pairs[name][:, 1].mean():#.3g}" for name in ahead)
            misses.append(f"{cell}: {ours:#.3g}, {others}")
    if not compared:
        return None
    text = f"DPGPLVM's error is less than that of every baseline on 7 of 10 sets, 50 % x 50 %, {split}"
    return Goal(text, f"{compared - len(misses)} of {compared} sets", compared - len(misses) >= 0.7 * compared, misses)


def holds_enough(share: float) -> bool:
    """Whether intervals that hold this share of the entries are what 95 % intervals are to be."""
    return _LEAST_COVERAGE <= share <= _MOST_COVERAGE


def _coverage(cells: dict[Cell, Scores]) -> Goal | None:
    seen = {cell: _values(scores.get("dpgplvm", {}), "quantile_coverage") for cell, scores in cells.items()}
    shares = {cell: values.mean() for cell, values in seen.items() if len(values)}
    misses = [f"{cell}: {share:.1%}" for cell, share in shares.items() if not holds_enough(share)]
    text = "DPGPLVM's 95 % intervals (quantiles) hold between 92 % and 98 % of the entries"
    return _in_all(text, len(shares), "cells", misses)


def times_as_long(theirs: Record, ours: Record) -> float | None:
    """How long they took to fit, in units of ours; at least that, where they were given up while fitting. None where
    one was timed by the clock on the wall, and the other by that of the processor."""
    if theirs.get("clock") != ours.get("clock"):
        return None
    return theirs.get("fit_seconds", theirs.get("given_up")) / ours["fit_seconds"]


def _time_ratio(records: list[Record]) -> Goal | None:
    runs = {
        (one["set"], one["split"], one["row_share"], one["seed"], one["method"]): one
        for one in records
        if "error" not in one
    }
    ratios: dict[str, list[float]] = {}
    for (*run, method), ours in runs.items():
        theirs = runs.get((*run, "mrd"))
        if method == "dpgplvm" and theirs and (ratio := times_as_long(theirs, ours)) is not None:
            ratios.setdefault(run[0], []).append(ratio)
    medians = {name: float(np.median(own)) for name, own in ratios.items()}
    misses = [f"{name}: {median:.1f}" for name, median in sorted(medians.items()) if median < _LEAST_TIME_RATIO]
    return _in_all(
        "MRD takes at least twice as long to fit as DPGPLVM (median over runs)", len(medians), "sets", misses
    )


def goal_lines(told: list[Goal]) -> str:
    lines = ["Goals (DPGPLVM with its defaults)"]
    for goal in told:
        lines.append(f"  {'met   ' if goal.met else 'missed'}  {goal.text}: {goal.seen}")
        lines += [f"            {miss}" for miss in goal.misses]
    return "\n".join(lines)
