"""A fitted model in a few lines of text."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.starts import agreement

_LISTENS_FROM = 0.05
_MOST_COLUMNS_SHOWN = 6
# Shares of variance below which a column is called noise.
ALL_NOISE = 0.05


def summary(model: Any) -> str:
    """Groups with their columns, the latents each listens to, noise, bound and outcome."""
    n_rows, n_latents = model.latents_.shape
    lines = [
        f"{type(model).__name__}: {n_rows} rows, {len(model.groups_)} columns, {_counted(n_latents, 'latent')}, "
        f"{_counted(model.n_groups_, 'group')}; kernel {model.kernel_}, noise of {_whose(model)}s",
        f"bound {model.elbo_:.1f} nats after {model.n_iter_} iterations: {model.outcome_.value}. "
        f"{model.outcome_.sentence}",
        "",
        f"{'group':>12} {'columns':>8} {'noise':>7}  latents (share of predicted variance)",
    ]
    for k in range(model.n_groups_):
        members = np.flatnonzero(model.groups_ == k)
        name = str(k) if model._group_names is None else _short(model._group_names[k], 12)
        own = members if _whose(model) == "column" else k
        noise = np.sqrt(np.mean(1.0 / model.noise_precision_[own]))
        listens = model.relevance_[members].mean(axis=0)
        heard = [q for q in np.argsort(-listens) if listens[q] >= _LISTENS_FROM]
        told = ", ".join(f"{q} ({listens[q]:.0%})" for q in heard) or "none: all noise"
        lines.append(f"{name:>12} {len(members):>8} {noise:>7.3f}  {told}")
        lines.append(f"{'':>12} {'':>8} {'':>7}  {_listed(model, members)}")
    lines += ["", *_remarks(model)]
    return "\n".join(lines)


def _remarks(model: Any) -> list[str]:
    """What the table does not say: profiles beside groups, columns of noise, and how far starts agree."""
    found = [_relation(model.groups_, model.profiles_)]
    noise = np.flatnonzero(model.explained_ < ALL_NOISE)
    if len(noise):
        found.append(f"Hardly predicted at all, whatever their group: {_listed(model, noise)}.")
    if len(model.starts_) > 1:
        found.append(
            f"{len(model.starts_)} starts: corrected bounds from {min(s.corrected for s in model.starts_):.1f} to "
            f"{max(s.corrected for s in model.starts_):.1f}, mean agreement of their groups (adjusted Rand index) "
            f"{agreement(model.starts_):.2f}."
        )
    return found


def _relation(groups: np.ndarray, profiles: np.ndarray) -> str:
    """How profiles relate to groups, in a sentence."""
    n_groups, n_profiles = len(np.unique(groups)), len(np.unique(profiles))
    n_both = len(np.unique(np.stack([groups, profiles]), axis=1).T)
    start = f"By which latents they listen to, columns fall into {_counted(n_profiles, 'profile')}"
    if n_both == n_groups == n_profiles:
        return f"{start}: the same as the groups."
    if n_both == n_profiles:
        return f"{start}, which divide the groups further than the evidence pays for (see profiles_)."
    if n_both == n_groups:
        return f"{start}, each of whole groups: groups of one profile differ in how, not in what they listen to."
    return (
        f"{start}, which cut across the groups (adjusted Rand index {adjusted_rand_score(groups, profiles):.2f}; "
        "see profiles_)."
    )


def _whose(model: Any) -> str:
    return "group" if model.column_scale_ is None else "column"


def _counted(n: int, word: str) -> str:
    return f"{n} {word}{'s' * (n != 1)}"


def _listed(model: Any, columns: np.ndarray) -> str:
    shown = ", ".join(_short(model._names[d], 16) for d in columns[:_MOST_COLUMNS_SHOWN])
    return shown if len(columns) <= _MOST_COLUMNS_SHOWN else f"{shown}, ... ({len(columns)})"


def _short(name: str, most: int) -> str:
    """One line, printable, at most so many characters: the beginning and the end."""
    name = "".join(c if c.isprintable() else " " for c in name)
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}\u2026{name[-half:]}"
