"""Columns against latents, groups and one another, as matrices with columns sorted by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import Normalize, PowerNorm
from sklearn.utils.validation import check_is_fitted

from dpgplvm.plots.style import (
    SHARES,
    by_group,
    canvas,
    colour_bar,
    group_names,
    height_for,
    label_blocks,
    name_lines,
    number_steps,
    room,
    width_for,
)

_WORTH_A_LINE = 8.0  # points for a group, on average
_UP_TO_ONE = Normalize(0.0, 1.0)


def relevance(model: Any, *, ax: Any = None) -> Any:
    """Which latents every column listens to: `relevance_`, columns by latents.

    Parameters
    ----------
    model : fitted model
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from dpgplvm import MRD, plots
    >>> from dpgplvm.datasets import make_views
    >>> table = make_views(n_samples=30, columns=3, random_state=0)
    >>> model = MRD(views=table.groups, n_latents=3, n_inducing=10, random_state=0).fit(table.Y)
    >>> ax = plots.relevance(model)
    >>> [tick.get_text() for tick in ax.get_yticklabels()][:2]
    ['column 0', 'column 1']
    """
    check_is_fitted(model)
    return _columns_by(model, model.relevance_, "latent", "relevance", _UP_TO_ONE, ax)


def ard_weights(model: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """The kernel's weight of every latent for every column, averaged over the column's groups, as the paper shows them.

    Weights of different kernels mean different things; `relevance` means the same for all. Colours follow the square
    root of a weight, which is one over the length-scale of an RBF kernel.

    Parameters
    ----------
    model : fitted model
    parameter : str or None
        One of `kernel_parameters_` that has a value for every latent; None takes the first of them.
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    every = {name: values for name, values in model.kernel_parameters_.items() if np.ndim(values) == 2}
    if not every:
        raise ValueError(f"the kernel {model.kernel_} has no weight for every latent: use relevance")
    name = next(iter(every)) if parameter is None else parameter
    if name not in every:
        raise ValueError(f"parameter={parameter!r} has no value for every latent: give one of {', '.join(every)}")
    weights = model.group_probabilities_ @ every[name]
    return _columns_by(
        model,
        weights,
        "latent",
        name.replace("_", " ").replace("ard", "ARD"),
        PowerNorm(0.5, vmin=0.0, vmax=weights.max()),
        ax,
    )


def assignments(model: Any, *, ax: Any = None) -> Any:
    """How probable it is that each column belongs to each group: `group_probabilities_`, columns by groups.

    Parameters
    ----------
    model : fitted model
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    return _columns_by(model, model.group_probabilities_, "group", "probability", _UP_TO_ONE, ax)


def coassignment(model: Any, *, ax: Any = None) -> Any:
    """How probable it is that two columns share a group, averaged over the starts: `coassignment_`, columns by columns.

    Parameters
    ----------
    model : fitted model
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    order, size = by_group(model), height_for(len(model.groups_), most=8.0)
    ax = canvas(ax, (size + 1.5 + width_for(model._names), size))
    together = model.coassignment_[np.ix_(order, order)]
    _draw(model, ax, together, "probability of one group", _UP_TO_ONE)
    ax.set_xticks([])
    n_starts = max(len(model.starts_), 1)
    ax.set_xlabel("the same columns" if n_starts == 1 else f"the same columns, {n_starts} starts")
    return ax


def _columns_by(model: Any, values: np.ndarray, what: str, meaning: str, norm: Normalize, ax: Any) -> Any:
    n_columns, n_steps = values.shape
    ax = canvas(ax, (min(2.6 + 0.35 * n_steps, 8.0) + width_for(model._names), height_for(n_columns)))
    _draw(model, ax, values[by_group(model)], meaning, norm)
    number_steps(ax, n_steps, what)
    return ax


def _draw(model: Any, ax: Any, values: np.ndarray, meaning: str, norm: Normalize) -> None:
    image = ax.imshow(values, cmap=SHARES, norm=norm, aspect="auto", interpolation="none")
    ax.spines[:].set_visible(False)
    name_lines(ax, [model._names[d] for d in by_group(model)], "columns")
    sizes = np.bincount(model.groups_, minlength=model.n_groups_)
    if room(ax, "y") > _WORTH_A_LINE * len(sizes):
        ax.hlines(np.cumsum(sizes)[:-1] - 0.5, *ax.get_xlim(), color="white", linewidth=1.5)
    label_blocks(ax, sizes, group_names(model))
    colour_bar(ax, image, meaning)
