"""The tables of a report: headers and rows of text, and of shares, which are numbers from 0 to 1."""

from __future__ import annotations

import inspect
import platform
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from dpgplvm.report.words import group_name, names
from dpgplvm.summary import groups_of, noise_of_columns, short, whose_noise
from dpgplvm.version import __version__

Cell = str | float

_LONGEST_VALUE = 80
_MOST_MOVED = 4
_MOST_NAMED = 6
_PACKAGES = ("jax", "numpy", "scipy", "scikit-learn")


class Table(NamedTuple):
    """A table of a page. The first cell of a row is what the row is about."""

    caption: str
    header: list[str]
    rows: list[list[Cell]]


def groups(model: Any) -> Table:
    """One row for every group."""
    found = groups_of(model)
    return Table(
        "Groups: what is explained of a column, on average, and by which latent",
        ["group", "columns", "noise", "explained", *_latent_names(model)],
        [
            [
                group_name(model, k),
                str(len(group.members)),
                f"{group.noise:.2g}",
                group.explained,
                *map(float, group.by_latent),
            ]
            for k, group in enumerate(found)
        ],
    )


def latents(model: Any) -> Table:
    """One row for every latent."""
    found, by_latent = groups_of(model), model.explained_by_latent_
    rows: list[list[Cell]] = []
    for q in range(model.n_latents_):
        listeners = [group_name(model, k) for k, group in enumerate(found) if q in group.heard]
        most = np.argsort(-by_latent[:, q], kind="stable")[:_MOST_MOVED]
        weight = by_latent[:, q] / np.maximum(model.relevance_[:, q], 1e-12)
        linear = (weight * model.linear_relevance_[:, q]).sum() / max(by_latent[:, q].sum(), 1e-12)
        rows.append(
            [
                f"latent {q}",
                ", ".join(listeners) or "no group as a whole",
                ", ".join(names(model, most)),
                float(by_latent[:, q].mean()),
                float(min(linear, 1.0)),
                f"{np.sqrt(model.latent_variance_[:, q].mean()):.2f}",
            ]
        )
    header = [
        "latent",
        "who listens",
        "columns that it moves most",
        "of the table",
        "in a straight line",
        "uncertainty",
    ]
    return Table("Latents: the one that explains most comes first", header, rows)


def columns(model: Any) -> Table:
    """One row for every column."""
    noise = noise_of_columns(model)
    sure = model.group_probabilities_.max(axis=1)
    return Table(
        "Columns, in the order of the table that went in",
        ["column", "group", "sure of it", "profile", "noise", "in units", "explained", *_latent_names(model)],
        [
            [
                name,
                group_name(model, int(model.groups_[d])),
                f"{sure[d]:.0%}",
                str(model.profiles_[d]),
                f"{noise[d]:.2g}",
                f"{noise[d] * model._scaling.scale[d]:.3g}",
                float(model.explained_[d]),
                *map(float, model.explained_by_latent_[d]),
            ]
            for d, name in enumerate(names(model, np.arange(len(model.groups_))))
        ],
    )


def profiles(model: Any) -> Table:
    """One row for every profile."""
    rows: list[list[Cell]] = []
    for number in range(model.n_profiles_):
        own = np.flatnonzero(model.profiles_ == number)
        shown = ", ".join(names(model, own[:_MOST_NAMED])) + ", \u2026" * (len(own) > _MOST_NAMED)
        of_groups = ", ".join(group_name(model, int(k)) for k in np.unique(model.groups_[own]))
        shares = model.explained_by_latent_[own].mean(axis=0)
        rows.append([f"Profile {number}", str(len(own)), of_groups, *map(float, shares), shown])
    return Table(
        "Profiles: what each latent explains of their columns, on average",
        ["profile", "columns", "in", *_latent_names(model), "which"],
        rows,
    )


def starts(model: Any) -> Table:
    """One row for every start."""
    kept = max(range(len(model.starts_)), key=lambda i: model.starts_[i].corrected, default=0)
    return Table(
        "Starts: the one with the highest corrected bound was kept",
        ["start", "groups", "bound", "corrected bound", "outcome"],
        [
            [
                f"{i + 1}{' (kept)' * (i == kept)}",
                str(start.n_groups),
                f"{start.elbo:.1f}",
                f"{start.corrected:.1f}",
                start.outcome.value,
            ]
            for i, start in enumerate(model.starts_)
        ],
    )


def moves(model: Any) -> Table:
    """One row for every move that was tried."""
    return Table(
        "Moves: what was tried to improve the grouping, in order",
        ["move", "groups before", "groups after", "corrected bound before", "after", "kept"],
        [
            [
                move.kind,
                str(move.groups_before),
                str(move.groups_after),
                f"{move.corrected_before:.1f}",
                "given up" if move.corrected_after is None else f"{move.corrected_after:.1f}",
                "yes" if move.accepted else "no",
            ]
            for move in model.moves_
        ],
    )


def bound(model: Any) -> Table:
    """The terms of the bound."""
    rows: list[list[Cell]] = [[name.replace("_", " "), f"{value:.1f}"] for name, value in model.elbo_terms_.items()]
    rows.append(["bound", f"{model.elbo_:.1f}"])
    if model.corrected_bound_ is not None:
        rows.append(["corrected bound", f"{model.corrected_bound_:.1f}"])
    return Table("The bound and its terms, in nats", ["term", "nats"], rows)


def given(model: Any) -> Table:
    """Parameters that are not what they are by default."""
    return Table("Parameters that were given", ["parameter", "value"], _parameters(model, default=False))


def defaults(model: Any) -> Table:
    """The other parameters."""
    return Table(
        "Parameters that were left at their defaults", ["parameter", "value"], _parameters(model, default=True)
    )


def chosen(model: Any) -> Table:
    """What the fit made of its parameters."""
    n_inducing, allowed = len(model.inducing_), model.state_.free.inducing.shape[1]
    rows: list[list[Cell]] = [
        ["kernel", short(model.kernel_, _LONGEST_VALUE)],
        ["noise and scale belong to", f"{whose_noise(model)}s"],
        ["latents in use", f"{model.n_latents_} of {allowed} allowed"],
        ["groups", f"{model.n_groups_} of {model.state_.phi.shape[1]} allowed"],
        ["inducing points", str(n_inducing)],
        ["iterations of the last climb", str(model.n_iter_)],
    ]
    if model.concentration_ is not None:
        rows.append(["concentration of the Dirichlet process", f"{model.concentration_:.3g}"])
    return Table("What the fit made of them", ["", "value"], rows)


def versions() -> Table:
    """What the page was written with."""
    used = {"dpgplvm": __version__, "Python": platform.python_version()}
    used |= {package: version(package) for package in _PACKAGES}
    return Table(
        "Versions with which this page was written", ["", "version"], [[name, text] for name, text in used.items()]
    )


def _parameters(model: Any, default: bool) -> list[list[Cell]]:
    usual = inspect.signature(type(model).__init__).parameters
    values = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    return [
        [name, short(value, _LONGEST_VALUE)]
        for name, value in values.items()
        if (value == repr(usual[name].default)) == default
    ]


def _latent_names(model: Any) -> list[str]:
    return [f"latent {q}" for q in range(model.n_latents_)]


def all_of(model: Any) -> dict[str, Table]:
    """Every table, by its name."""
    about_the_model = (groups, latents, columns, profiles, starts, moves, bound, given, defaults, chosen)
    return {table.__name__: table(model) for table in about_the_model} | {"versions": versions()}
