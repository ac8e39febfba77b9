"""Can a picture be read? What was drawn is asked for its text and its ink, not for its pixels one by one."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import combinations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.text import Text

_TOUCHING = 1.0  # pixels by which boxes of text may overlap: there is air in them
_LEAST_INK = 2e-4  # of the pixels within the frame of axes


def assert_legible(figure) -> None:
    """Fail where text is cut off by the edge of the figure or lies on other text, and where axes are empty."""
    canvas = FigureCanvasAgg(figure)
    with _texts_drawn() as texts:
        canvas.draw()
    boxes = [(text, text.get_window_extent(canvas.get_renderer())) for text in texts]
    assert boxes, "there is no text at all"
    for text, box in boxes:
        inside = box.x0 >= -_TOUCHING and box.y0 >= -_TOUCHING
        inside &= box.x1 <= figure.bbox.x1 + _TOUCHING and box.y1 <= figure.bbox.y1 + _TOUCHING
        assert inside, f"{text.get_text()!r} is cut off: {box} in {figure.bbox}"
    for (one, here), (other, there) in combinations(boxes, 2):
        across = min(here.x1, there.x1) - max(here.x0, there.x0)
        along = min(here.y1, there.y1) - max(here.y0, there.y0)
        overlap = across > _TOUCHING and along > _TOUCHING
        assert not overlap, f"{one.get_text()!r} lies on {other.get_text()!r}: {here} and {there}"
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    for ax in figure.axes:
        assert ink_in(ax, pixels) > _LEAST_INK, f"the axes {ax} are empty"


def ink_in(ax, pixels: np.ndarray) -> float:
    """The share of pixels within the frame of the axes that differ from their background."""
    box, height = ax.get_window_extent(), len(pixels)
    frame = 3  # pixels, of lines and ticks that even empty axes have
    rows = slice(int(height - box.y1) + frame, int(height - box.y0) - frame)
    within = pixels[rows, int(box.x0) + frame : int(box.x1) - frame]
    background = ax.get_facecolor() if ax.axison else to_rgba(ax.figure.get_facecolor())
    return float((np.abs(within - 255 * np.array(background[:3])).max(axis=-1) > 4).mean())


@contextmanager
def _texts_drawn():
    """Texts that are really drawn: axes keep many that are not, such as ticks beyond their limits."""
    drawn: list[Text] = []
    draw = Text.draw

    def drawing(self, renderer, *arguments, **options):
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        return draw(self, renderer, *arguments, **options)

    Text.draw = drawing
    try:
        yield drawn
    finally:
        Text.draw = draw
