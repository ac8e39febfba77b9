"""Columns clustered by which latents they listen to."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from scipy.cluster.hierarchy import leaves_list
from sklearn.utils.validation import check_is_fitted

from dpgplvm.plots.style import FAINT, canvas, colours, height_for, label_blocks, name_lines, open_frame, width_for


def dendrogram(model: Any, *, ax: Any = None) -> Any:
    """The tree of columns by which latents they listen to (`profile_linkage_`), and the profiles that it was cut into.

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
    n_columns = len(model.profiles_)
    if n_columns < 2:
        raise ValueError("the model has one column, and a tree needs two: there is nothing to draw")
    ax = canvas(ax, (5.0 + width_for(model._names), height_for(n_columns)))
    tree = model.profile_linkage_
    leaves = leaves_list(tree)
    place = np.append(np.argsort(leaves).astype(float), np.zeros(len(tree)))
    height, profile = np.zeros(n_columns + len(tree)), np.append(model.profiles_, np.zeros(len(tree), dtype=int))
    branches, looks, palette = [], [], colours(model.n_profiles_)
    for node, (one, other, apart, _) in enumerate(tree, start=n_columns):
        a, b = int(one), int(other)
        place[node], height[node] = (place[a] + place[b]) / 2.0, apart
        profile[node] = profile[a] if profile[a] == profile[b] else -1
        branches.append([(height[a], place[a]), (apart, place[a]), (apart, place[b]), (height[b], place[b])])
        looks.append(FAINT if profile[node] < 0 else palette[profile[node]])
    ax.add_collection(LineCollection(branches, colors=looks, linewidths=1.2))
    reach = height.max() or 1.0
    ax.set(xlim=(-0.02 * reach, 1.03 * reach), ylim=(n_columns - 0.5, -0.5))
    ax.set_xlabel("how differently columns listen")
    name_lines(ax, [model._names[d] for d in leaves], "columns")
    # Profiles are whole branches, so that each of them is one block of leaves.
    order = list(dict.fromkeys(model.profiles_[leaves].tolist()))
    label_blocks(
        ax,
        [int((model.profiles_ == k).sum()) for k in order],
        [f"profile {k}" for k in order],
        [palette[k] for k in order],
    )
    open_frame(ax)
    ax.spines["left"].set_visible(False)
    return ax
