"""The pictures of a report: drawn by `dpgplvm.plots`, kept as data in the page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from dpgplvm import plots
from dpgplvm.plots.style import colours, height_for
from dpgplvm.report.words import SURE, gaps_of, names, share
from dpgplvm.sentences import enumerated
from dpgplvm.skeleton import Skeleton
from dpgplvm.summary import groups_of

_WIDE, _MARGIN = 9.0, 0.1  # inches
_PIXELS_AN_INCH = 96  # as browsers count
_MOST_PAIRS = 4
_LARGEST_DRAWING, _DOTS_AN_INCH = 250_000, 160
# Text stays text, so that the browser finds a font for every letter; the same model gives the same bytes.
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "dpgplvm"}
_NO_LETTER = "Glyph .* missing from font"


class Picture(NamedTuple):
    """A picture of a page."""

    source: str  # the picture itself, as the address of an image
    width: int
    height: int
    alt: str  # what is to be seen, for those who do not see it
    caption: str  # how to read it


class _Album:
    """Pictures by their name, in the order in which they are drawn."""

    def __init__(self) -> None:
        self.pictures: dict[str, list[Picture]] = {}

    def add(
        self,
        name: str,
        alt: str,
        caption: str,
        size: tuple[float, float],
        onto: Callable[..., Any],
        space: bool = False,
    ) -> None:
        """Draw a picture with a function of axes; in space, these have three dimensions."""
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NO_LETTER)
            figure = Figure(figsize=size, layout="constrained")
            onto(ax=figure.add_subplot(projection="3d" if space else None))
            figure.draw_without_rendering()  # which lays it out
            box = figure.get_tightbbox().padded(_MARGIN)
            source = _address(figure, box)
        width, height = (round(_PIXELS_AN_INCH * inches) for inches in box.size)
        self.pictures.setdefault(name, []).append(Picture(source, width, height, alt, caption))


def group_colours(model: Any) -> list[str]:
    """As pictures have them, for every group."""
    return [to_hex(colour) for colour in colours(model.n_groups_)]


def draw(model: Any, skeleton: Skeleton | None, sequence: Any) -> dict[str, list[Picture]]:
    """All pictures that there is something to see in."""
    album = _Album()
    _draw_groups(model, album)
    _draw_latents(model, album, skeleton, sequence)
    _draw_certainty(model, album)
    _draw_fit(model, album)
    return album.pictures


def _draw_groups(model: Any, album: _Album) -> None:
    tall = height_for(len(model.groups_))
    if model.n_groups_ > 1:
        album.add(
            "explained",
            "A bar for every group, divided among the latents.",
            "How much of a column's variance is explained, on average over every group. The parts of a bar are "
            "latents; what is missing to 100% is not explained.",
            (_WIDE, height_for(3 * model.n_groups_, least=2.2)),
            lambda ax: plots.explained(model, ax=ax),
        )
    album.add(
        "relevance",
        f"A matrix of {len(model.groups_)} columns by {model.n_latents_} latents, darker where a column listens more.",
        "Which latents every column listens to: the darker, the more of what is predicted of the column varies with "
        "the latent. Columns are sorted by group.",
        (_WIDE, tall),
        lambda ax: plots.relevance(model, ax=ax),
    )
    if model.n_profiles_ > 1:
        album.add(
            "dendrogram",
            f"A tree of {len(model.groups_)} columns, cut into {model.n_profiles_} profiles.",
            "The sooner columns are joined, the more alike they listen. Colours are profiles, not groups.",
            (_WIDE, tall),
            lambda ax: plots.dendrogram(model, ax=ax),
        )


def _draw_latents(model: Any, album: _Album, skeleton: Skeleton | None, sequence: Any) -> None:
    path = (
        " Lines join rows that follow each other; a ring marks where they begin."
        if sequence is not None and sequence is not False
        else ""
    )
    for pair in _pairs(model):
        title = f"latent{'s' * (len(pair) > 1)} {enumerated(pair)}"
        others = ", the other latents being where rows are on average" if model.n_latents_ > len(pair) else ""
        album.add(
            "latents",
            f"The rows as dots among {title}.",
            f"Rows among {title}: a dot is a row, and the pale disc round it how uncertain its place is. The darker "
            f"the background, the less the model knows what to expect there.{path}",
            (_WIDE, 5.4),
            lambda ax, pair=pair: plots.latents(model, latents=pair, sequence=sequence, ax=ax),
        )
        if skeleton is not None:
            album.add(
                "latents",
                f"Bodies as the model predicts them over {title}.",
                f"Poses that the model predicts over {title}{others}. The paler a pose, the less the model knows about "
                "it.",
                (_WIDE, 7.0 if len(pair) > 1 else 2.8),
                lambda ax, pair=pair: plots.poses(model, skeleton, latents=pair, ax=ax),
            )
    if skeleton is not None:
        album.add(
            "skeleton",
            "A body whose joints have the colours of their groups.",
            "The groups on the body: joints have the colours of the groups that their columns are in, and lines are "
            "the paths that they take over all rows.",
            (_WIDE, 5.4),
            lambda ax: plots.skeleton(model, skeleton, ax=ax),
            space=skeleton.n_axes == 3,
        )


def _pairs(model: Any) -> list[list[int]]:
    """The two loudest latents of every group, as long as there is one among them that was not shown before."""
    found: list[list[int]] = []
    for group in groups_of(model):
        pair = sorted(group.heard[:2])
        if len(pair) == 2 and not set(pair) <= {q for other in found for q in other}:
            found.append(pair)
    return found[:_MOST_PAIRS] or [list(range(min(2, model.n_latents_)))]


def _draw_certainty(model: Any, album: _Album) -> None:
    tall = height_for(len(model.groups_), most=7.5)
    if model.group_probabilities_.max(axis=1).min() < SURE:
        album.add(
            "assignments",
            f"A matrix of columns by {model.n_groups_} groups, darker where a column more probably belongs.",
            "How probable it is that each column belongs to each group, given all the rest.",
            (_WIDE, tall),
            lambda ax: plots.assignments(model, ax=ax),
        )
    if len(model.starts_) > 1:
        album.add(
            "coassignment",
            "A matrix of columns by columns, darker where two columns share a group in more of the starts.",
            "How probable it is that two columns share a group, averaged over the starts. Clear dark blocks mean that "
            "the starts agree.",
            (tall + 2.0, tall),
            lambda ax: plots.coassignment(model, ax=ax),
        )
    for rank, d in _most_to_least(model).items():
        name = names(model, np.array([d]))[0]
        album.add(
            "predicted",
            f"Predicted against observed values of {name}.",
            f"{name}: {share(model.explained_[d])} explained, {rank}.",
            (4.4, 4.6),
            lambda ax, d=d: plots.predicted(model, d, ax=ax),
        )
    if gaps_of(model):
        most = int(np.argmax(np.isnan(model._learned).sum(axis=0)))
        album.add(
            "gaps",
            f"Values of {names(model, np.array([most]))[0]} over the rows, with what fills its gaps.",
            "The column with most gaps, over the rows, and what the model expects in the gaps. Nineteen out of twenty "
            "of the true values should be within their interval.",
            (_WIDE, 3.6),
            lambda ax: plots.gaps(model, most, ax=ax),
        )


def _most_to_least(model: Any) -> dict[str, int]:
    """Columns of which most, a middling share and least is explained."""
    order = np.argsort(-model.explained_, kind="stable")
    middle = {"in the middle": int(order[len(order) // 2])} if len(order) > 2 else {}
    return {"the most": int(order[0])} | middle | {"the least": int(order[-1])}


def _draw_fit(model: Any, album: _Album) -> None:
    searched = bool(model.moves_)
    album.add(
        "bound",
        "The bound over the moves that were tried." if searched else "The bound over the iterations.",
        "How the score rose while groups were searched for."
        if searched
        else "How the score rose while the model was fitted. It should have become flat.",
        (_WIDE, 3.8),
        lambda ax: plots.bound(model, ax=ax),
    )
    if any(np.ndim(values) == 2 for values in model.kernel_parameters_.values()):
        album.add(
            "ard_weights",
            f"A matrix of columns by {model.n_latents_} latents, darker where the weight is larger.",
            "The kernel's weights of the latents, for those who know the model.",
            (_WIDE, height_for(len(model.groups_))),
            lambda ax: plots.ard_weights(model, ax=ax),
        )


def _address(figure: Figure, box: Bbox) -> str:
    """The drawing as SVG, or as PNG where that would be too large."""
    drawing = io.BytesIO()
    figure.savefig(drawing, format="svg", bbox_inches=box, metadata={"Date": None})
    kind = "svg+xml"
    if drawing.tell() > _LARGEST_DRAWING:
        drawing, kind = io.BytesIO(), "png"
        figure.savefig(drawing, format="png", bbox_inches=box, dpi=_DOTS_AN_INCH)
    return f"data:image/{kind};base64,{base64.b64encode(drawing.getvalue()).decode()}"
