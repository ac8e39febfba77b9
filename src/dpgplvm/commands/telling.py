"""`dpgplvm summary`: what a saved model has found, for people and for machines."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, is_dataclass
from typing import Any

import dpgplvm
from dpgplvm.commands.console import Exit, add_command, needed, show
from dpgplvm.commands.reading import add_model, load_model
from dpgplvm.commands.writing import STDOUT, check_frame, write_frame


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "summary",
        summary,
        purpose="print what a model has found",
        about="Print the groups of a model, the latents they listen to, and how the fit ended.",
        examples="""
            dpgplvm summary model.dpgplvm
            dpgplvm summary model.dpgplvm --columns columns.csv
            dpgplvm summary model.dpgplvm --json | jq .groups
        """,
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    parser.add_argument(
        "--columns",
        metavar="FILE",
        help='also write a table with the group, the profile and what is explained of every column; "-" prints it '
        "in place of the summary",
    )


def summary(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm summary`."""
    check_frame(arguments.columns, [arguments.model])
    model = load_model(arguments.model)
    if arguments.columns is not None:
        write_frame(arguments.columns, _of_columns(model))
    if arguments.columns != STDOUT:
        show(json.dumps(_for_machines(model), indent=2, default=_plain) if arguments.json else model.summary())
    return Exit.DONE


def _of_columns(model: Any) -> Any:
    """One row for every column, as a DataFrame of pandas whatever the model was fitted to."""
    import narwhals as nw

    needed("pandas", "a table of the columns")
    frame = nw.from_native(model.to_frame().columns).to_pandas()
    return frame.set_index("column") if "column" in frame else frame


def _for_machines(model: Any) -> dict[str, Any]:
    """What `summary` prints, and what it leaves out for lack of room."""
    group_names = model._group_names or [str(k) for k in range(model.n_groups_)]
    columns = [
        {
            "name": name,
            "group": int(model.groups_[d]),
            "group_probability": float(model.group_probabilities_[d].max()),
            "profile": int(model.profiles_[d]),
            "explained": float(model.explained_[d]),
            "relevance": [float(share) for share in model.relevance_[d]],
        }
        for d, name in enumerate(model._names)
    ]
    return {
        "model": type(model).__name__,
        "version": dpgplvm.__version__,
        "parameters": model.get_params(),
        "rows": len(model.latents_),
        "latents": int(model.n_latents_),
        "kernel": model.kernel_,
        "bound": float(model.elbo_),
        "corrected_bound": None if model.corrected_bound_ is None else float(model.corrected_bound_),
        "outcome": str(model.outcome_),
        "iterations": int(model.n_iter_),
        "groups": [
            {"name": name, "columns": [column["name"] for column in columns if column["group"] == k]}
            for k, name in enumerate(group_names)
        ],
        "columns": columns,
    }


def _plain(value: Any) -> Any:
    """A parameter that JSON has no type for."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else repr(value)
