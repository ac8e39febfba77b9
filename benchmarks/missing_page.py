"""The missing-data suite as a page of the documentation: every table, every method, every number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from missing_methods import METHODS
from missing_overview import against_mrd, ahead, overview, title_of
from missing_report import (
    METRICS,
    UNSEEN,
    Cell,
    Goal,
    Metric,
    Record,
    Scores,
    in_words,
    scores_by_cell,
    written,
)

# By how a table is shown best: smallest is bold, or nothing is.
_BEST_IS_SMALLEST = ("mse", "nlpd")


def page(records: list[Record], told: list[Goal], how: str) -> str:
    """All numbers of these runs as Markdown; `how` is the command that writes it."""
    cells = {cell: _on_our_seeds(scores) for cell, scores in scores_by_cell(records).items()}
    lines = [
        "# Gaps: all numbers",
        "",
        f"Written by `{how}`; [](missing_results.md) says what is measured, and what follows.",
        "Every line is a table and the percent of its columns that are hidden in the rows that are unseen. Numbers are",
        "means over the seeds that `DPGPLVM` has been run with, with the standard deviation over these where there are",
        "several, and in brackets where a method has not been run with all of them. Methods marked * have no spread of",
        "their own and get that of their residuals in folds of the training rows. Seconds to fill are those of means,",
        "deviations and quantiles together; runs with `quantile_seconds` in the log asked for quantiles once more.",
        "",
        *_goals(told),
        *_versions(records),
    ]
    for split, row_share in sorted({(cell.split, cell.row_share) for cell in cells}, reverse=True):
        own = {cell: scores for cell, scores in cells.items() if (cell.split, cell.row_share) == (split, row_share)}
        runs = [one for one in records if (one["split"], one["row_share"]) == (split, row_share)]
        lines += [f"## {UNSEEN[split].capitalize()}, {row_share} % of all, unseen", ""]
        if any("dpgplvm" in scores for scores in own.values()):
            lines += ["### In short", "", *_part(f"in short, {split} {row_share}", overview(own, runs))]
            lines += ["### Who is ahead", "", *_part(f"who is ahead, {split} {row_share}", ahead(own))]
            if any(one["method"] == "mrd" for one in runs):
                lines += ["### Beside MRD", "", *_part(f"beside MRD, {split} {row_share}", against_mrd(own, runs))]
        for metric in METRICS:
            lines += _table(own, metric)
    notes = [f"- {note}" for note in sorted(set(in_words(records)))]
    return "\n".join([*lines, *(["## What did not end", "", *notes, ""] if notes else [])])


def _part(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Marked, so that another page can include it."""
    yield from [f"<!-- {name} -->", "", *lines, f"<!-- end of {name} -->", ""]


def _on_our_seeds(scores: Scores) -> Scores:
    """What is compared is compared on the same rows."""
    seeds = scores.get("dpgplvm")
    if not seeds:
        return scores
    return {name: {seed: own[seed] for seed in own if seed in seeds} for name, own in scores.items()}


def _goals(told: list[Goal]) -> Iterator[str]:
    if told:
        yield from ["| goal | seen | |", "| --- | --- | --- |"]
        yield from (f"| {goal.text} | {goal.seen} | {'met' if goal.met else 'missed'} |" for goal in told)
        yield ""
        misses = [f"- {goal.text}; not in {'; '.join(goal.misses)}." for goal in told if goal.misses]
        yield from [*misses, ""] if misses else []


def _versions(records: list[Record]) -> Iterator[str]:
    """Which sources made which runs: only ours depend on them."""
    ours = [one.get("library", "unknown") for one in records if METHODS[one["method"]].is_ours]
    if ours:
        told = ", ".join(f"{n} runs of `{digest}`" for digest, n in sorted(Counter(ours).items(), key=_largest_first))
        yield from [f"Our models, by a digest of the library's sources: {told}.", ""]


def _largest_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _table(cells: dict[Cell, Scores], metric: Metric) -> Iterator[str]:
    """One metric of every method that has it, a line for every table and share of columns."""
    names = [name for name in METHODS if any(written(scores.get(name, {}), metric) for scores in cells.values())]
    if not names:
        return
    titles = " | ".join(map(title_of, names))
    yield from [f"### {metric.title.capitalize()}", "", f"| table | hidden | {titles} |"]
    yield "| --- | --- |" + " ---: |" * len(names)
    for cell, scores in cells.items():
        most = max(map(len, scores.values()))
        whole = [len(scores.get(name, {})) == most for name in names]
        row = [written(scores.get(name, {}), metric) for name in names]
        if metric.name in _BEST_IS_SMALLEST:
            means = {i: float(text.split()[0]) for i, text in enumerate(row) if text and whole[i]}
            best = min(means.values(), default=None)
            row = [f"**{text}**" if i in means and means[i] == best else text for i, text in enumerate(row)]
        row = [text if is_whole or not text else f"({text})" for text, is_whole in zip(row, whole, strict=True)]
        yield f"| {cell.set} | {cell.column_share} % | {' | '.join(row)} |"
    yield ""
