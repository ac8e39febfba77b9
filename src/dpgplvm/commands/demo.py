"""`dpgplvm demo`: a simulated table whose groups are known, from the table to a picture of what was found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgplvm.commands.console import Exit, InputError, add_command, note, show
from dpgplvm.commands.delimited import Style
from dpgplvm.commands.options import progress
from dpgplvm.commands.writing import write_table

if TYPE_CHECKING:
    from dpgplvm.datasets import Views
    from dpgplvm.estimators import DPGPLVM


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "demo",
        demo,
        purpose="a simulated example from beginning to end",
        about="""
            Simulate a table whose groups of columns are known, find them, and say where everything is: the table, the
            model and, where matplotlib is installed, a picture.
        """,
        examples="""
            dpgplvm demo
            dpgplvm demo --quick -o somewhere
        """,
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", default="demo", help="where to write (default: demo)")
    parser.add_argument("--quick", action="store_true", help="a small table, in seconds")


def demo(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm demo`."""
    folder = Path(arguments.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {folder} is no folder ({error.strerror}): give one that can be made") from None

    from sklearn.metrics import adjusted_rand_score

    from dpgplvm import DPGPLVM

    table = simulate(arguments.quick)
    n_rows, n_columns = table.Y.shape
    write_table(str(folder / "table.csv"), [f"column {d}" for d in range(n_columns)], table.Y, None, Style())
    note(arguments, f"a table of {n_rows} rows and {n_columns} columns in 3 groups is in {folder / 'table.csv'}")
    note(arguments, "fitting ...")
    quick = {"n_latents": 4, "n_inducing": 15, "truncation": 4, "kernel": "rbf", "max_iter": 50}
    settings: dict[str, Any] = progress(arguments) | (quick if arguments.quick else {})
    model = DPGPLVM(random_state=0, **settings).fit(table.Y)
    model.save(folder / "model.dpgplvm")
    show(model.summary())
    agreement = adjusted_rand_score(table.groups, model.groups_)
    print(f"\nagreement with the true groups (adjusted Rand index, 1 is perfect): {agreement:.2f}")
    print(f"table:   {folder / 'table.csv'}")
    print(f"model:   {folder / 'model.dpgplvm'}")
    try:
        print(f"picture: {draw(model, table, folder / 'groups.png')}")
    except ImportError:
        note(arguments, "no picture, for want of matplotlib: pip install 'dpgplvm[plots]'")
    print(f"next:    dpgplvm transform {folder / 'model.dpgplvm'} {folder / 'table.csv'}")
    return Exit.DONE


def simulate(quick: bool = False) -> Views:
    """Columns in three groups over four latents, in random order."""
    from dpgplvm.datasets import make_views

    rows, columns, weights = (60, 4, 0.2) if quick else (120, 10, 1.0)
    latents = [(0, 1), (1, 2), (0, 3)]
    table = make_views(n_samples=rows, latents=latents, columns=columns, weights=weights, random_state=1)
    order = np.random.default_rng(0).permutation(table.Y.shape[1])
    return table._replace(Y=table.Y[:, order], groups=table.groups[order])


def colours_of(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The number of the true group that each group found has most columns in common with; others follow."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    together = contingency_matrix(found, truth)
    rows, columns = linear_sum_assignment(-together)
    colours = np.arange(len(together)) + together.shape[1]
    colours[rows] = columns
    return colours


def draw(model: DPGPLVM, table: Views, file: Path) -> Path:
    """The groups found beside the true ones, and which latents their columns listen to."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    set2 = colormaps["Set2"]
    colours = colours_of(model.groups_, table.groups)
    order = np.lexsort((table.groups, model.groups_))
    used = model.relevance_.max(axis=0) > 0.05
    figure = Figure(figsize=(11, 5), layout="constrained")
    truth, heard, bars = figure.subplots(1, 3, width_ratios=[0.5, 2, 3])
    pair = np.stack([table.groups, colours[model.groups_]], axis=1)[order]
    truth.imshow(set2(pair), aspect="auto", interpolation="none")
    truth.set_xticks([0, 1], ["true", "found"], rotation=45)
    truth.set_ylabel("columns, sorted by the group found")
    truth.set_yticks([])
    truth.set_title("groups")
    image = heard.imshow(model.relevance_[order][:, used], aspect="auto", cmap="Blues", vmin=0, vmax=1)
    heard.set_xticks(range(used.sum()), [str(q) for q in np.flatnonzero(used)])
    heard.set_yticks([])
    heard.set_xlabel("latent")
    heard.set_title("which latents a column listens to")
    figure.colorbar(image, ax=heard, label="share of its predicted variance", shrink=0.8)
    width = 0.75 / model.n_groups_
    for k in range(model.n_groups_):
        mean_share = model.relevance_[model.groups_ == k].mean(axis=0)[used]
        places = np.arange(used.sum()) + k * width
        bars.bar(places, mean_share, width=0.9 * width, color=set2(colours[k]), label=f"group {k}")
    bars.set_xticks(np.arange(used.sum()) + 0.375 - width / 2, [str(q) for q in np.flatnonzero(used)])
    bars.set_xlabel("latent")
    bars.set_ylabel("mean share of predicted variance")
    bars.set_title("shared and private latents")
    bars.legend(frameon=False)
    figure.savefig(file, dpi=130)
    return file
