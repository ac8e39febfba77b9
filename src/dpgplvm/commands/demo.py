"""`dpgplvm demo`: two simulated people who walk, from a table to pages that show what was found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgplvm.commands.console import Exit, InputError, add_command, needed, note, show
from dpgplvm.commands.delimited import Style
from dpgplvm.commands.options import progress
from dpgplvm.commands.writing import write_table
from dpgplvm.sentences import enumerated

if TYPE_CHECKING:
    from dpgplvm.datasets import Walkers
    from dpgplvm.estimators import DPGPLVM

_HIPS = slice(5, 7)  # among the joints
_APART = 120.0  # pixels, so that the two do not hide each other in pictures
_SETTINGS = {"n_latents": 6, "n_inducing": 30, "truncation": 6, "kernel": "rbf", "random_state": 0}
_QUICK = {"n_inducing": 12, "truncation": 3, "max_iter": 20}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "demo",
        demo,
        purpose="a simulated example from beginning to end",
        about="""
            Simulate two people who walk before a camera, find out which of their joints move together, and say where
            everything is: the table, the model, a report and an explorer.
        """,
        examples="""
            dpgplvm demo
            dpgplvm demo --quick -o somewhere
        """,
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", default="demo", help="where to write (default: demo)")
    parser.add_argument("--quick", action="store_true", help="few rows and a short search, in seconds; finds less")


def demo(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm demo`."""
    folder = Path(arguments.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {folder} is no folder ({error.strerror}): give one that can be made") from None
    pandas = needed("pandas", "the demo")

    from dpgplvm import DPGPLVM, Skeleton

    video, Y = simulate(arguments.quick)
    n_rows, n_columns = Y.shape
    write_table(str(folder / "table.csv"), video.names.tolist(), Y, None, Style())
    note(arguments, f"two walkers, {n_rows} rows (frames) and {n_columns} columns (joints), in {folder / 'table.csv'}")
    note(arguments, "fitting ...")
    settings: dict[str, Any] = _SETTINGS | (_QUICK if arguments.quick else {}) | progress(arguments)
    model = DPGPLVM(**settings).fit(pandas.DataFrame(Y, columns=video.names))
    model.save(folder / "model.dpgplvm")
    show(model.summary())
    print("\nThe model was not told what the columns are. These are in its groups:")
    for k in range(model.n_groups_):
        print(f"group {k}: {made_of(model, video, k)}")
    note(arguments, "drawing ...")
    skeleton = Skeleton.from_names(video.names, video.bones, up="-y")
    about: dict[str, Any] = {"skeleton": skeleton, "sequence": True, "title": "Two people walk before a camera"}
    print(f"\ntable:    {folder / 'table.csv'}\nmodel:    {folder / 'model.dpgplvm'}")
    try:
        model.report(folder / "report.html", **about)
        print(f"report:   {folder / 'report.html'}")
    except ImportError as error:
        note(arguments, f"no report: {error}")
    model.explore(folder / "explorer.html", **about)
    print(f"explorer: {folder / 'explorer.html'}\nOpen the last two with a browser.")
    return Exit.DONE


def simulate(quick: bool = False) -> tuple[Walkers, np.ndarray]:
    """What a camera sees that goes along at a steady pace: both hurry and dawdle together, and swing their own limbs.

    Every fifth frame, so that gaits are not followed from row to row; heights are above the ground, which slopes.
    """
    from dpgplvm.datasets import make_walkers

    n_frames = 150 if quick else 600
    video = make_walkers(n_samples=n_frames, n_people=2, noise=1.0, random_state=0)
    x, y = video.skeleton[:, :, _HIPS, :2].mean(axis=(1, 2)).T
    frames = np.arange(n_frames)
    camera = np.polyval(np.polyfit(frames, x, 1), frames)
    ground = np.polyval(np.polyfit(x, y, 1), x)
    places = video.Y.reshape(n_frames, 2, -1, 2) - np.stack([camera, ground], axis=1)[:, None, None]
    places[:, 1, :, 0] += _APART
    return video, places.reshape(n_frames, -1)[::5]


def made_of(model: DPGPLVM, video: Walkers, k: int) -> str:
    """Whose joints the columns of a group are, which parts of the body, and in which direction."""
    own = model.groups_ == k
    people = [f"{n} of person {person}" for person, n in enumerate(np.bincount(video.person[own])) if n]
    parts = [part for part in dict.fromkeys(video.part.tolist()) if part in video.part[own]]
    across = {"x": "forwards and back", "y": "up and down"}
    directions = [across[axis] for axis in sorted({name[-1] for name in video.names[own]})]
    return f"{enumerated(people)}; {enumerated(parts)}; {enumerated(directions)}"
