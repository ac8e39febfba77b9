"""A fitted model in a few lines of text."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.starts import agreement
from dpgplvm.sentences import counted

# A group listens to latents with this share of what is explained of it, if that is anything to speak of.
_LISTENS_FROM, _NEXT_TO_NOTHING = 0.05, 0.005
# Names stand beside what is said about them, on so many lines of text at most; the last has room for their number.
_WIDTH, _MOST_LINES = 120, 5
_ROOM_FOR_NUMBER = len("... (10000)")
_MOST_IN_A_SENTENCE = 6
# Shares of variance below which a column is called noise.
ALL_NOISE = 0.05


class Group(NamedTuple):
    """What there is to read about a group of columns."""

    name: str
    members: np.ndarray  # columns, by number
    noise: float  # root mean square of the columns' noise, in the units of the model: standard deviations of a column
    explained: float  # mean share of its columns' variances
    by_latent: np.ndarray  # [Q] of which each latent has this

    @property
    def heard(self) -> list[int]:
        """The latents that it listens to, loudest first."""
        least = max(_LISTENS_FROM * self.explained, _NEXT_TO_NOTHING)
        return [int(q) for q in np.argsort(-self.by_latent, kind="stable") if self.by_latent[q] >= least]


def groups_of(model: Any) -> list[Group]:
    """The groups in their order."""
    noise = noise_of_columns(model)
    found = []
    for k in range(model.n_groups_):
        own = np.flatnonzero(model.groups_ == k)
        found.append(
            Group(
                name=str(k) if model._group_names is None else model._group_names[k],
                members=own,
                noise=float(np.sqrt(np.mean(noise[own] ** 2))),
                explained=float(model.explained_[own].mean()),
                by_latent=model.explained_by_latent_[own].mean(axis=0),
            )
        )
    return found


def noise_of_columns(model: Any) -> np.ndarray:
    """[D] standard deviations, in the units of the model."""
    precision = model.noise_precision_
    return 1.0 / np.sqrt(precision if whose_noise(model) == "column" else precision[model.groups_])


def whose_noise(model: Any) -> str:
    """Group or column."""
    return "group" if model.column_scale_ is None else "column"


def summary(model: Any) -> str:
    """Groups with their columns, noise, what is explained and by which latents, bound and outcome."""
    lines = [*headlines(model), "", f"{'group':>12} {'columns':>8} {'noise':>7} {'explained':>10}  by latent"]
    for group in groups_of(model):
        told = ", ".join(f"{q} ({group.by_latent[q]:.0%})" for q in group.heard) or "none: all noise"
        name, size = short(group.name, 12), len(group.members)
        lines.append(f"{name:>12} {size:>8} {group.noise:>7.3f} {group.explained:>10.0%}  {told}")
        lines += _beside(42, _names_of(model, group.members))
    about_profiles, *others = remarks(model)
    listed = _profiles(model)
    return "\n".join([*lines, "", about_profiles, *listed, *([""] if listed and others else []), *others])


def _profiles(model: Any) -> list[str]:
    """The columns of every profile, where the groups do not say them."""
    if relation(model.groups_, model.profiles_) in ("same", "coarser"):
        return []
    lines = [f"{'profile':>12} {'columns':>8}"]
    for p in range(model.n_profiles_):
        own = np.flatnonzero(model.profiles_ == p)
        first, *more = _beside(23, _names_of(model, own))
        lines += [f"{p:>12} {len(own):>8}  {first.lstrip()}", *more]
    return lines


def _names_of(model: Any, columns: np.ndarray) -> list[str]:
    return [short(model._names[d], 16) for d in columns]


def _beside(indent: int, names: list[str]) -> list[str]:
    """Lines of names from this place on; where there are too many names, their number at the end."""
    lines = [""]
    for n, name in enumerate(names):
        is_last = n == len(names) - 1
        word = name if is_last else f"{name}, "
        room = _WIDTH - indent - (_ROOM_FOR_NUMBER if len(lines) == _MOST_LINES and not is_last else 0)
        if len(lines[-1]) + len(word) > room:
            if len(lines) == _MOST_LINES:
                lines[-1] += f"... ({len(names)})"
                break
            lines.append("")
        lines[-1] += word
    return [" " * indent + line.rstrip() for line in lines]


def headlines(model: Any) -> list[str]:
    """Sizes, bound and outcome."""
    n_rows, n_latents = model.latents_.shape
    return [
        f"{type(model).__name__}: {n_rows} rows, {len(model.groups_)} columns, {counted(n_latents, 'latent')}, "
        f"{counted(model.n_groups_, 'group')}; kernel {model.kernel_}, noise of {whose_noise(model)}s",
        f"bound {model.elbo_:.1f} nats: {model.outcome_.value}. {model.outcome_.sentence}",
    ]


def remarks(model: Any) -> list[str]:
    """What the table does not say: profiles beside groups, columns of noise, and how far starts agree."""
    found = [_relation_told(model.groups_, model.profiles_)]
    noise = np.flatnonzero(model.explained_ < ALL_NOISE)
    if len(noise):
        found.append(f"Hardly predicted at all, whatever their group: {listed_columns(model, noise)}.")
    if len(model.starts_) > 1:
        found.append(
            f"{len(model.starts_)} starts: corrected bounds from {min(s.corrected for s in model.starts_):.1f} to "
            f"{max(s.corrected for s in model.starts_):.1f}, mean agreement of their groups (adjusted Rand index) "
            f"{agreement(model.starts_):.2f}."
        )
    return found


def listed_columns(model: Any, columns: np.ndarray, most: int = _MOST_IN_A_SENTENCE) -> str:
    """The first few names, for a sentence."""
    shown = ", ".join(_names_of(model, columns[:most]))
    return shown if len(columns) <= most else f"{shown}, ... ({len(columns)})"


def short(name: str, most: int) -> str:
    """One line, printable, at most so many characters: the beginning and the end."""
    name = "".join(c if c.isprintable() else " " for c in name)
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}\u2026{name[-half:]}"


def relation(groups: np.ndarray, profiles: np.ndarray) -> Literal["same", "finer", "coarser", "across"]:
    """What profiles are beside the groups."""
    n_groups, n_profiles = len(np.unique(groups)), len(np.unique(profiles))
    n_both = len(np.unique(np.stack([groups, profiles]), axis=1).T)
    if n_both == n_groups == n_profiles:
        return "same"
    if n_both == n_profiles:
        return "finer"
    return "coarser" if n_both == n_groups else "across"


def _relation_told(groups: np.ndarray, profiles: np.ndarray) -> str:
    """How profiles relate to groups, in a sentence."""
    start = f"By which latents they listen to, columns fall into {counted(len(np.unique(profiles)), 'profile')}"
    ends = {
        "same": ": the same as the groups.",
        "finer": ", which divide the groups further than the evidence pays for (see profiles_).",
        "coarser": ", each of whole groups: groups of one profile differ in how, not in what they listen to.",
        "across": (
            f", which cut across the groups (adjusted Rand index {adjusted_rand_score(groups, profiles):.2f}; "
            "see profiles_)."
        ),
    }
    return start + ends[relation(groups, profiles)]
