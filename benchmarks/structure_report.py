"""What the structure suite prints: a table for every set, and the goals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from structure_methods import RIGHT

Record = dict[str, Any]


class Row(NamedTuple):
    """One line of the table: an answer of a method, its name in print, its colour and marker in the picture."""

    method: str
    answer: str
    title: str
    colour: str  # Okabe and Ito's, which colour-blind readers can tell apart
    marker: str


ROWS = (
    Row("dpgplvm", "groups", "DPGPLVM groups", "#0072B2", "o"),
    Row("dpgplvm", "profiles", "DPGPLVM profiles", "#D55E00", "o"),
    Row("paper", "groups", "paper's recipe", "#000000", "x"),
    Row("mrd", "groups", "MRD weights, told K", "#CC79A7", "v"),
    Row("average linkage", "groups", "average linkage, told K", "#009E73", "s"),
    Row("spectral", "groups", "spectral, told K", "#E69F00", "D"),
    Row("FeatureAgglomeration", "groups", "FeatureAgglomeration, told K", "#56B4E9", "^"),
)
_HEADER = f"{'runs':>5} {'ARI':>6} {'>=0.99':>7} {'homog.':>7} {'compl.':>7} {'groups':>7} {'seconds':>8}"
_NAME_WIDTH = 38


def answering(records: Iterable[Record], row: Row) -> list[Record]:
    """The runs that give this row's answer; a run that failed gives none."""
    return [record for record in records if record["method"] == row.method and row.answer in record.get("answers", {})]


def failed(records: Iterable[Record], row: Row) -> int:
    """How many runs of this row's method failed: they count as wrong."""
    return sum(record["method"] == row.method and "error" in record for record in records)


def aggregate(records: Iterable[Record], row: Row) -> dict[str, float] | None:
    """One row of numbers over the seeds of a set; None where the method was not run or gives no such answer."""
    records = list(records)
    own = answering(records, row)
    if not own:
        return None
    n_runs = len(own) + failed(records, row)
    answers = [record["answers"][row.answer] for record in own]

    def mean(name: str) -> float:
        return float(np.mean([answer[name] for answer in answers]))

    numbers = {
        "runs": n_runs,
        "ari": mean("ari"),
        "share_right": sum(answer["ari"] >= RIGHT for answer in answers) / n_runs,
        "homogeneity": mean("homogeneity"),
        "completeness": mean("completeness"),
        "n_groups": mean("n_groups"),
        "most_groups": max(answer["n_groups"] for answer in answers),
        "seconds": float(np.median([record["seconds"] for record in own])),
    }
    if "signal_ari" in answers[0]:
        numbers["signal_ari"] = mean("signal_ari")
        numbers["share_signal_right"] = sum(answer["signal_ari"] >= RIGHT for answer in answers) / n_runs
        numbers["noise_in_groups"] = mean("noise_in_groups")
        numbers["most_noise_groups"] = max(answer["noise_in_groups"] for answer in answers)
    return numbers


def summarise(records: Iterable[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """The numbers of every set and row, by their names."""
    by_set: dict[str, list[Record]] = {}
    for record in records:
        by_set.setdefault(record["set"], []).append(record)
    rows = {name: {row.title: aggregate(own, row) for row in ROWS} for name, own in by_set.items()}
    return {name: {title: one for title, one in own.items() if one is not None} for name, own in rows.items()}


def block(name: str, shape: tuple[int, int], n_groups: str, records: list[Record], notes: Iterable[str]) -> str:
    """The lines of one set: a row for every answer, then what there is to say about the runs that went astray."""
    lines = [f"{f'{name} ({shape[0]} x {shape[1]}; {n_groups})':<{_NAME_WIDTH}} {_HEADER}"]
    for row in ROWS:
        numbers = aggregate(records, row)
        if numbers is None:
            continue
        seconds = f"{numbers['seconds']:8.1f}" if row.answer == "groups" else " " * 8
        lines.append(
            f"  {row.title:<{_NAME_WIDTH - 2}} {numbers['runs']:5d} {numbers['ari']:6.2f} "
            f"{numbers['share_right']:7.0%} {numbers['homogeneity']:7.2f} {numbers['completeness']:7.2f} "
            f"{numbers['n_groups']:7.1f} {seconds}"
        )
        if "signal_ari" in numbers:
            lines.append(
                f"    noise columns in {numbers['noise_in_groups']:.1f} groups (most: {numbers['most_noise_groups']}); "
                f"the other columns alone: ARI {numbers['signal_ari']:.2f}, {numbers['share_signal_right']:.0%} >= 0.99"
            )
    lines += [f"  {note}" for note in [*notes, *_better_described(records), *_diagnoses(records), *_failures(records)]]
    return "\n".join(lines) + "\n"


def _better_described(records: list[Record]) -> list[str]:
    """Which known grouping the groups found fit best, where the columns have more than one."""
    own = [record["answers"]["groups"] for record in records if record["method"] == "dpgplvm" and "answers" in record]
    return [
        f"DPGPLVM groups are nearer to `{answer['fits']}`: "
        + ", ".join(f"{name} ARI {scores['ari']:.2f}" for name, scores in answer["agreement"].items())
        for answer in own
        if "agreement" in answer
    ]


def _diagnoses(records: list[Record]) -> list[str]:
    astray = [record for record in records if "bound_from_truth" in record]
    lines = []
    for record in sorted(astray, key=lambda one: one["seed"]):
        bounds = [record["bound"], record["bound_from_truth"]]
        found, from_truth = ("not available" if bound is None else f"{bound:.1f}" for bound in bounds)
        lines.append(
            f"seed {record['seed']}: ARI {record['answers']['groups']['ari']:.2f}, corrected bound found {found}, "
            f"from the truth {from_truth}: {record.get('limit') or record.get('diagnosis_error', 'no diagnosis')}"
        )
    return lines


def _failures(records: list[Record]) -> list[str]:
    return [f"seed {one['seed']} {one['method']} failed: {one['error']}" for one in records if "error" in one]


class Goal(NamedTuple):
    """Something that must be shown, what was seen, and whether that is enough."""

    text: str
    seen: str
    met: bool


_RECOVERED = ("toy_equal", "toy_weights", "three_groups", "hard_toy", "linear", "toy_n500")
_BETTER_OF_TWO = {"bfi": 0.80, "holzinger_swineford": 0.65}


def goals(summary: dict[str, dict[str, dict[str, float]]]) -> list[Goal]:
    """The goals of the sets that were run."""
    found = {name: rows["DPGPLVM groups"] for name, rows in summary.items() if "DPGPLVM groups" in rows}
    told = []
    for name in _RECOVERED:
        if name in found:
            share = found[name]["share_right"]
            told.append(Goal(f"{name}: ARI >= 0.99 in 95 % of seeds", f"{share:.0%}", share >= 0.95))
    if "noise_columns" in found:
        share, most = found["noise_columns"]["share_signal_right"], found["noise_columns"]["most_noise_groups"]
        text = "noise_columns: the other columns ARI >= 0.99 in 95 % of seeds, noise never in more than 2 groups"
        told.append(Goal(text, f"{share:.0%}, {most:.0f}", share >= 0.95 and most <= 2))
    if "one_group" in found:
        share = found["one_group"]["share_right"]
        told.append(Goal("one_group: one group in all seeds", f"{share:.0%}", share == 1.0))
    if "independent_sources" in found:
        own = found["independent_sources"]
        met = own["homogeneity"] > 0.995 and own["most_groups"] <= 8
        seen = f"{own['homogeneity']:.2f}, {own['most_groups']:.0f} groups"
        told.append(Goal("independent_sources: homogeneity 1.00, at most 8 groups", seen, met))
    for name, least in _BETTER_OF_TWO.items():
        if name in found:
            groups, profiles = found[name]["ari"], summary[name].get("DPGPLVM profiles", {}).get("ari")
            best = max(groups, -1.0 if profiles is None else profiles)
            seen = f"{groups:.2f}, {'no profiles' if profiles is None else f'{profiles:.2f}'}"
            told.append(Goal(f"{name}: better ARI of groups and profiles >= {least:.2f}", seen, best >= least))
    return told


def goal_lines(told: list[Goal]) -> str:
    width = max((len(goal.text) for goal in told), default=0)
    seen = max((len(goal.seen) for goal in told), default=0)
    lines = [f"  {one.text:<{width}}  {one.seen:<{seen}}  {'met' if one.met else 'missed'}" for one in told]
    return "\n".join(["Goals (DPGPLVM with its defaults)", *lines])
