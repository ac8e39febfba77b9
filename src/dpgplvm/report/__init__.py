"""A fitted model as one page of HTML, for someone who was not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

try:
    import matplotlib as _matplotlib  # noqa: F401
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
except ModuleNotFoundError as _error:
    raise ImportError(f"reports need {_error.name}, which is not installed: pip install 'dpgplvm[plots]'") from None

from dpgplvm import atomic
from dpgplvm.report import tables, words
from dpgplvm.report.pictures import draw, group_colours
from dpgplvm.sentences import counted
from dpgplvm.summary import relation
from dpgplvm.version import __version__

_HERE = Path(__file__).parent
_KINDS = {
    "DPGPLVM": "DP-GP-LVM: groups of columns, and hidden causes, both learned",
    "MRD": "Manifold relevance determination: groups of columns given, hidden causes learned",
    "BayesianGPLVM": "Bayesian GP-LVM: one group of columns, hidden causes learned",
}
# Longer lists are folded away.
_MOST_NAMES, _MOST_ROWS, _MOST_ROWS_ON_PAPER = 12, 40, 200


def write(
    model: Any, path: str | os.PathLike[str], skeleton: Any = None, sequence: Any = None, title: str | None = None
) -> None:
    """Write the report of a fitted model; whatever happens, a file that was there before stays until it is whole."""
    path = atomic.text_of(path)
    page = html(model, skeleton, sequence, title)
    atomic.write(path, lambda file: file.write(page.encode(errors="replace")))


def html(model: Any, skeleton: Any = None, sequence: Any = None, title: str | None = None) -> str:
    """The page. Names and titles come from users: the template escapes all that it is given."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    table = f"{counted(len(model.latents_), 'row')} and {counted(len(model.groups_), 'column')}"
    return environment.get_template("page.html.jinja").render(
        title=f"What was found in {table}" if title is None else title,
        kind=_KINDS.get(type(model).__name__, type(model).__name__),
        version=__version__,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        lead=words.lead(model),
        groups=words.groups(model),
        colours=group_colours(model),
        advice=words.advice(model),
        certainty=words.certainty(model),
        groups_and_profiles=words.groups_and_profiles(model),
        show_profiles=relation(model.groups_, model.profiles_) != "same",
        noise_units="as a multiple of the column's own" if model.standardise else "in the units of the table",
        tables=tables.all_of(model),
        pictures=draw(model, skeleton, sequence),
        most_names=_MOST_NAMES,
        most_rows=_MOST_ROWS,
        most_rows_on_paper=_MOST_ROWS_ON_PAPER,
    )
