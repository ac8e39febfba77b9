"""A fitted model in plain words, for people who have never heard of one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpgplvm.advice import advise
from dpgplvm.inference.starts import agreement
from dpgplvm.sentences import counted, enumerated
from dpgplvm.summary import ALL_NOISE, Group, groups_of, relation, short

_LONGEST_NAME = 60
_MOST_NAMES = 12
# A column that is less sure of its group than this is named.
SURE = 0.95


class Told(NamedTuple):
    """A set of columns in words."""

    title: str
    sentences: list[str]
    columns: list[str]
    shares: list[tuple[int, float]]  # the latents that it listens to, and what of it each explains


def lead(model: Any) -> list[str]:
    """What came in and what was found, in a paragraph or two."""
    n_rows, n_columns = len(model.latents_), len(model.groups_)
    latents = counted(model.n_latents_, "latent")
    table = f"A table of {counted(n_rows, 'row')} and {counted(n_columns, 'column')} went in"
    gaps = gaps_of(model)
    if gaps:
        table += f", of whose entries {share(gaps)} {'were' if n_rows * n_columns > 1 else 'was'} missing"
    searched = (
        f"{table}. The model looks for latents: hidden causes, never measured themselves, that move several columns at "
        f"once. It found {latents}, and places every row among them. On average they predict "
        f"{share(model.explained_.mean())} of how a column varies."
    )
    if model._group_names is None and model.n_groups_ > 1:
        found = (
            f"It also sorted the columns into {model.n_groups_} groups. Columns of one group listen to the same "
            "latents: they change with them, and in the same way."
        )
    elif model._group_names is None:
        found = (
            "It could have sorted the columns into groups, but the rows give no reason to: all are in one. What "
            "columns listen to, that is, which latents they change with, may still differ within it."
        )
    elif model.n_groups_ > 1:
        found = (
            f"The {model.n_groups_} groups of columns were given. What was learned is which latents each of them "
            "listens to, that is, changes with, and so what they have in common and what is their own."
        )
    else:
        found = "All columns were taken for one group. Each may listen to any latent, that is, change with it."
    return [searched, found]


def groups(model: Any) -> list[Told]:
    """Every group: which latents it listens to, with whom it shares them, what they explain, and its noise."""
    found = groups_of(model)
    return [
        Told(
            title=group_name(model, k),
            sentences=[_listening(model, found, k), _explained(model, group)],
            columns=names(model, group.members),
            shares=[(q, float(group.by_latent[q])) for q in group.heard],
        )
        for k, group in enumerate(found)
    ]


def groups_and_profiles(model: Any) -> list[str]:
    """What profiles are, and what they add to the groups."""
    there_are = f"Here there {'are' if model.n_profiles_ > 1 else 'is'} {counted(model.n_profiles_, 'profile')}"
    groups = "the groups" if model.n_groups_ > 1 else "the one group"
    ends = {
        "same": f"the same as {groups}: both ways of sorting agree.",
        "finer": f"which divide {groups} further. That describes the columns, but the rows do not prove it.",
        "coarser": "made of whole groups: groups of one profile listen to the same latents, but in different ways.",
        "across": "which cut across the groups. Look at the columns one by one before you rely on either.",
    }
    return [
        "Profiles are a second, simpler way to sort the columns: by which latents they listen to, and how loudly, "
        "without asking whether the rows give evidence for separate groups.",
        f"{there_are}, {ends[relation(model.groups_, model.profiles_)]}",
    ]


def certainty(model: Any) -> list[str]:
    """How the fit ended, and how far it can be relied on."""
    told = [f"How the fit ended: {model.outcome_.value}. {model.outcome_.sentence}"]
    if model._group_names is None:
        told.append(_starts(model))
        if model.n_groups_ > 1:
            sure = model.group_probabilities_.max(axis=1)
            doubtful = np.flatnonzero(sure < SURE)
            told.append(
                f"Given all the rest, {_sure(model, doubtful, sure)}. This does not say whether another search would "
                "find the same groups."
            )
    hardly = np.flatnonzero(model.explained_ < ALL_NOISE)
    if len(hardly):
        told.append(
            f"Hardly predicted at all (less than {ALL_NOISE:.0%}), so that their group and profile mean little: "
            f"{_some(model, hardly)}."
        )
    return told


def advice(model: Any) -> list[str]:
    """What someone should look at before they rely on the result."""
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in advise(model)]


def group_name(model: Any, k: int) -> str:
    """As a heading has it."""
    if model._group_names is None:
        return f"Group {k}"
    name = short(model._group_names[k], _LONGEST_NAME)
    return name if model.n_groups_ > 1 else "All columns"


def names(model: Any, columns: np.ndarray) -> list[str]:
    """Names of columns, each on one line."""
    return [short(model._names[d], _LONGEST_NAME) for d in columns]


def gaps_of(model: Any) -> float:
    """The share of the table's entries that were missing, rows with nothing in them included."""
    observed = np.count_nonzero(~np.isnan(model._learned))
    return 1.0 - observed / (len(model._seen) * model._learned.shape[1])


def share(part: float) -> str:
    """As a percentage that never says 0 or 100 where there is more or less."""
    percent = f"{part:.0%}"
    return {"0%": "less than 1%", "100%": "more than 99%"}.get(percent, percent) if 0.0 < part < 1.0 else percent


def _listening(model: Any, found: list[Group], k: int) -> str:
    """Which latents, and who else listens to them."""
    group = found[k]
    if not group.heard or len(found) == 1:
        return f"{_columns(group)} {_latents(group.heard)}."
    others: dict[tuple[int, ...], list[int]] = {}
    for q in group.heard:
        others.setdefault(tuple(j for j in range(len(found)) if j != k and q in found[j].heard), []).append(q)
    own = others.pop((), [])
    shared = [f"{_latents(latents)} with {_groups(model, whom)}" for whom, latents in others.items()]
    told = [f"Shared: {'; '.join(shared) or 'none'}.", f"Private: {_latents(own) if own else 'none'}."]
    return " ".join([f"{_columns(group)} {_latents(group.heard)}.", *told])


def _explained(model: Any, group: Group) -> str:
    """What is predicted, and the noise that comes on top."""
    noise = f"the noise on top has a standard deviation of {group.noise:.2g} "
    noise += "(that of a column itself is 1)" if model.standardise else "in the units of the table"
    if not group.heard:
        return f"What they do is taken for noise: {noise}."
    return f"The latents explain {share(group.explained)} of how a column varies, on average; {noise}."


def _starts(model: Any) -> str:
    n_starts = len(model.starts_)
    if n_starts < 2:
        return (
            "The groups were searched for once. Whether a search from another start finds the same is not known: "
            "n_starts=4, say, would show it."
        )
    found = sorted({start.n_groups for start in model.starts_})
    return (
        f"The groups were searched for from {n_starts} starts, which found {enumerated(found)} "
        f"group{'s' * (found != [1])}. How far they agree (adjusted Rand index: 1 is the same groups, 0 is chance): "
        f"{agreement(model.starts_):.2f}."
    )


def _sure(model: Any, doubtful: np.ndarray, sure: np.ndarray) -> str:
    if not len(doubtful):
        return f"every column belongs to its group with a probability of {SURE:.0%} or more"
    order = doubtful[np.argsort(sure[doubtful])]
    return (
        f"{counted(len(doubtful), 'column')} {'is' if len(doubtful) == 1 else 'are'} less than {SURE:.0%} sure of "
        f"{'its' if len(doubtful) == 1 else 'their'} group: {_some(model, order)}"
    )


def _columns(group: Group) -> str:
    n = len(group.members)
    return f"{counted(n, 'column')} that listen{'s' * (n == 1)} to"


def _latents(latents: list[int]) -> str:
    return f"latent{'s' * (len(latents) > 1)} {enumerated(sorted(latents))}" if latents else "no latent"


def _groups(model: Any, groups: tuple[int, ...]) -> str:
    if model._group_names is not None:
        return enumerated([f"\u201c{group_name(model, k)}\u201d" for k in groups])
    return f"group{'s' * (len(groups) > 1)} {enumerated(groups)}"


def _some(model: Any, columns: np.ndarray) -> str:
    shown = names(model, columns[:_MOST_NAMES])
    rest = len(columns) - len(shown)
    return enumerated([*shown, *([f"{rest} more"] if rest else [])])
