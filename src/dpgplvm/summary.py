"""A fitted model in a few lines of text."""

from __future__ import annotations

from typing import Any

import numpy as np

_LISTENS_FROM = 0.05
_MOST_COLUMNS_SHOWN = 6


def summary(model: Any) -> str:
    """Groups with their columns, the latents each listens to, noise, bound and outcome."""
    n_rows, n_latents = model.latents_.shape
    lines = [
        f"{type(model).__name__}: {n_rows} rows, {len(model.groups_)} columns, {n_latents} latents, "
        f"{model.n_groups_} group{'s' * (model.n_groups_ != 1)}",
        f"bound {model.elbo_:.1f} nats after {model.n_iter_} iterations: {model.outcome_.value}. "
        f"{model.outcome_.sentence}",
        "",
        f"{'group':>12} {'columns':>8} {'noise':>7}  latents (share of predicted variance)",
    ]
    for k in range(model.n_groups_):
        members = np.flatnonzero(model.groups_ == k)
        name = str(k) if model._group_names is None else _short(model._group_names[k], 12)
        own = members if model.noise == "column" else k
        noise = np.sqrt(np.mean(1.0 / model.noise_precision_[own]))
        listens = model.relevance_[members].mean(axis=0)
        heard = [q for q in np.argsort(-listens) if listens[q] >= _LISTENS_FROM]
        told = ", ".join(f"{q} ({listens[q]:.0%})" for q in heard) or "none: all noise"
        shown = ", ".join(_short(model._names[d], 16) for d in members[:_MOST_COLUMNS_SHOWN])
        more = "" if len(members) <= _MOST_COLUMNS_SHOWN else f", ... ({len(members)})"
        lines.append(f"{name:>12} {len(members):>8} {noise:>7.3f}  {told}")
        lines.append(f"{'':>12} {'':>8} {'':>7}  {shown}{more}")
    return "\n".join(lines)


def _short(name: str, most: int) -> str:
    """One line, printable, at most so many characters: the beginning and the end."""
    name = "".join(c if c.isprintable() else " " for c in name)
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}\u2026{name[-half:]}"
