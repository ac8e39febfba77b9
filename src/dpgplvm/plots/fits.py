"""What the fit has reached: how much is explained and by what, and how the bound rose."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpgplvm.plots.style import (
    FAINT,
    INK,
    PALE,
    canvas,
    colours,
    group_names,
    height_for,
    latent_colours,
    legend,
    name_lines,
    open_frame,
    room,
    whole_numbers,
)
from dpgplvm.summary import groups_of

_WIDE_ENOUGH_FOR_A_NUMBER = 0.045  # of the axes
_WORTH_A_GAP = 5.0  # points for a bar
_POINTS_OF_A_NUMBER = 12.0
_LEAST_RANGE = 1.0  # nats: less is no evidence of anything


def explained(model: Any, *, ax: Any = None) -> Any:
    """How much of every group's variance is explained, and how much of that by each latent.

    Means over a group's columns of `explained_by_latent_`, as in `summary`.

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
    groups = groups_of(model)
    ax = canvas(ax, (6.4, height_for(3 * len(groups), least=2.2)))
    shares = np.array([group.by_latent for group in groups])
    lefts = np.cumsum(shares, axis=1) - shares
    lines, palette = np.arange(len(groups)), latent_colours(model.n_latents_)
    thin = room(ax, "y") < _WORTH_A_GAP * len(groups)
    look = {"height": 1.0, "linewidth": 0.0} if thin else {"height": 0.7, "linewidth": 0.5}
    ax.barh(lines, 1.0, color="#f2f2f2", edgecolor=PALE, **look)
    for q, colour in enumerate(palette):
        ax.barh(lines, shares[:, q], left=lefts[:, q], color=colour, edgecolor="white", **look)
    name_lines(ax, group_names(model), "groups")
    if len(ax.get_yticks()):
        for k, q in np.argwhere(shares >= _WIDE_ENOUGH_FOR_A_NUMBER):
            pale = palette[q, :3] @ [0.3, 0.59, 0.11] > 0.55
            style = {"ha": "center", "va": "center", "fontsize": 8, "color": INK if pale else "white"}
            ax.text(lefts[k, q] + shares[k, q] / 2.0, k, str(q), **style)
    ax.set(xlim=(0.0, 1.0), ylim=(len(groups) - 0.5, -0.5))
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.set_xlabel("share of variance explained")
    squares = [{"marker": "s", "linestyle": "none", "color": colour, "markersize": 7} for colour in palette]
    legend(ax, [f"latent {q}" for q in range(model.n_latents_)], squares)
    open_frame(ax)
    return ax


def bound(model: Any, *, of: Literal["moves", "climb"] | None = None, ax: Any = None) -> Any:
    """How the bound rose: from move to move while groups were searched for, or over the iterations of the last climb.

    Moves are compared by the corrected bound. A cross is a move that was not kept, a small tick one that was given up
    on its way. Beside them are the bound in the end and, where there were several, those of the starts.

    Parameters
    ----------
    model : fitted model
    of : {"moves", "climb"} or None
        `moves_` or `history_`; None takes the moves where there are any.
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    if of not in ("moves", "climb", None):
        raise ValueError(f'of={of!r}: give "moves", "climb", or None')
    if of == "moves" and not model.moves_:
        raise ValueError('of="moves", but the model tried none: give of="climb"')
    ax = canvas(ax, (6.4, 4.0))
    if model.moves_ and of != "climb":
        _moves(model, ax)
    else:
        ax.plot(
            np.arange(len(model.history_)),
            model.history_,
            ".-",
            color=colours(1)[0],
            markersize=8 if len(model.history_) < 30 else 3,
        )
        _limits(ax, model.history_)
        ax.set(xlabel="iteration of the last climb", ylabel="bound in nats")
        whole_numbers(ax)
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    open_frame(ax)
    return ax


def _moves(model: Any, ax: Any) -> None:
    moves = model.moves_
    steps = np.arange(1, len(moves) + 1)
    before = np.array([move.corrected_before for move in moves])
    after = np.array([np.nan if move.corrected_after is None else move.corrected_after for move in moves])
    kept, given_up = np.array([move.accepted for move in moves]), np.isnan(after)
    best = np.append(before, max(before[-1], after[-1] if kept[-1] else -np.inf))
    ax.step(np.append(steps - 0.5, steps[-1] + 0.5), best, where="post", color=FAINT, linewidth=1.2)
    kinds = list(dict.fromkeys(move.kind for move in moves if move.accepted))
    for kind, colour in zip(kinds, colours(len(kinds)), strict=True):
        own = kept & np.array([move.kind == kind for move in moves])
        ax.plot(steps[own], after[own], "o", color=colour, markersize=11, label=f"{kind}, kept")
    tried = ~kept & ~given_up
    ax.plot(steps[tried], after[tried], "x", color=FAINT, markersize=6, label="not kept")
    ax.plot(steps[given_up], before[given_up], "|", color=INK, markersize=7, label="given up on its way")
    starts = [start.corrected for start in model.starts_ if len(model.starts_) > 1]
    ends = [] if model.corrected_bound_ is None else [model.corrected_bound_]
    beyond = steps[-1] + 1.5
    if starts:
        ax.plot(np.full(len(starts), beyond), starts, "D", color="none", markeredgecolor=INK, label="starts")
    ax.plot(np.full(len(ends), beyond), ends, "*", color=INK, markersize=8, label="in the end")
    # The number of groups that it led to, as far as there is room.
    apart = _POINTS_OF_A_NUMBER * (len(moves) + 2) / room(ax, "x")
    named = [-np.inf]
    for number in np.flatnonzero(kept):
        if steps[number] - named[-1] >= apart:
            style = {"ha": "center", "va": "center_baseline", "fontsize": 7, "color": "white"}
            ax.text(steps[number], after[number], str(moves[number].groups_after), **style)
            named.append(steps[number])
    ax.set(xlabel="move (in the dots: groups that it led to)" if kept.any() else "move")
    ax.set_ylabel("corrected bound in nats")
    _limits(ax, np.concatenate([best, after, starts, ends]))
    whole_numbers(ax)
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _limits(ax: Any, values: np.ndarray) -> None:
    low, high = np.nanmin(values), np.nanmax(values)
    margin = 0.08 * max(high - low, _LEAST_RANGE) + 0.5 * max(_LEAST_RANGE - (high - low), 0.0)
    ax.set_ylim(low - margin, high + margin)
