"""Every picture, of tables narrow and wide, with names that are hard to draw, can be read."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from legible import assert_legible
from matplotlib.figure import Figure
from plotted import (
    every_column_a_group,
    five_columns,
    five_hundred_columns,
    skeleton_of,
    thirty_columns,
    with_long_history,
)
from sklearn.exceptions import NotFittedError

from dpgplvm import BayesianGPLVM, plots

SIZES = ("five columns", "thirty columns", "five hundred columns")
KINDS = np.array(["one", "$two", "<b>three</b>"])


@pytest.fixture(scope="module")
def models():
    five, thirty, wide = five_columns(), thirty_columns(), five_hundred_columns()
    crowded, searched = every_column_a_group(wide), with_long_history(thirty)
    sizes = dict(zip(SIZES, (five, thirty, wide), strict=True))
    return sizes | {"every column a group": crowded, "long history": searched}


def rows_of(model):
    return np.arange(len(model.latents_))


PICTURES = {
    "relevance": lambda model, ax: plots.relevance(model, ax=ax),
    "ard_weights": lambda model, ax: plots.ard_weights(model, ax=ax),
    "assignments": lambda model, ax: plots.assignments(model, ax=ax),
    "coassignment": lambda model, ax: plots.coassignment(model, ax=ax),
    "explained": lambda model, ax: plots.explained(model, ax=ax),
    "bound": lambda model, ax: plots.bound(model, ax=ax),
    "climb": lambda model, ax: plots.bound(model, of="climb", ax=ax),
    "dendrogram": lambda model, ax: plots.dendrogram(model, ax=ax),
    "latents": lambda model, ax: plots.latents(model, ax=ax),
    "one latent": lambda model, ax: plots.latents(model, latents=0, ax=ax),
    "paths": lambda model, ax: plots.latents(model, colour=rows_of(model) / 7, sequence=rows_of(model) // 10, ax=ax),
    "kinds": lambda model, ax: plots.latents(model, colour=KINDS[rows_of(model) % 3], sequence=True, ax=ax),
    "predicted": lambda model, ax: plots.predicted(model, 2, ax=ax),
    "gaps": lambda model, ax: plots.gaps(model, model._names[3], ax=ax),
    "skeleton": lambda model, ax: plots.skeleton(model, skeleton_of(model), ax=ax),
    "skeleton of a latent": lambda model, ax: plots.skeleton(model, skeleton_of(model), latent=0, span=3, ax=ax),
    "skeleton in space": lambda model, ax: plots.skeleton(model, skeleton_of(model, 3), row=0, ax=ax),
    "poses": lambda model, ax: plots.poses(model, skeleton_of(model), steps=3, ax=ax),
    "poses in space": lambda model, ax: plots.poses(model, skeleton_of(model, 3), latents=[0], steps=4, ax=ax),
}


SHOW_GROUPS = ("relevance", "assignments", "coassignment", "explained", "skeleton", "poses")
CASES = [
    *((name, picture) for name in SIZES for picture in PICTURES),
    *(("every column a group", picture) for picture in SHOW_GROUPS),
    ("long history", "bound"),
]


@pytest.mark.parametrize(("name", "picture"), CASES)
def test_picture_is_legible(models, name, picture):
    ax = PICTURES[picture](models[name], None)
    assert_legible(ax.figure)
    plt.close(ax.figure)


@pytest.mark.parametrize("picture", PICTURES)
def test_picture_is_legible_on_axes_that_were_given(models, picture):
    figure = Figure(figsize=(12, 4), layout="constrained")
    given = figure.subplots(1, 2)
    for ax, model in zip(given, (models["five columns"], models["thirty columns"]), strict=True):
        assert PICTURES[picture](model, ax) is ax
    assert_legible(figure)


def test_latents_and_bodies_in_space_are_legible(models):
    figure = Figure(figsize=(12, 5), layout="constrained")
    first, second = figure.subplots(1, 2, subplot_kw={"projection": "3d"})
    wide = models["five hundred columns"]
    plots.latents(wide, latents=(0, 1, 2), colour=KINDS[rows_of(wide) % 3], sequence=True, ax=first)
    plots.skeleton(wide, skeleton_of(wide, 3), ax=second)
    assert_legible(figure)


def test_no_state_of_pyplot_is_left_when_axes_are_given(models):
    before = plt.get_fignums()
    plots.relevance(models["five columns"], ax=Figure().add_subplot())
    assert plt.get_fignums() == before


def bad_figures():
    empty, cut, crowded = Figure(), Figure(), Figure(layout="constrained")
    empty.subplots().set_title("nothing to see")
    cut.subplots().plot([0, 1])
    cut.axes[0].set_ylabel("a label that is far too long for an axis of this size, and runs out of the figure" * 2)
    crowded.subplots().plot([0, 1])
    crowded.axes[0].set_yticks(np.linspace(0, 1, 200), [f"name {d}" for d in range(200)])
    return {"are empty": empty, "is cut off": cut, "lies on": crowded}


@pytest.mark.parametrize("said", bad_figures())
def test_a_figure_that_cannot_be_read_is_noticed(said):
    with pytest.raises(AssertionError, match=said):
        assert_legible(bad_figures()[said])


WITHOUT_MATPLOTLIB = """
import sys

sys.modules["matplotlib"] = None
import dpgplvm

try:
    dpgplvm.plots
except ImportError as error:
    print(error)
"""


def test_without_matplotlib_there_is_a_sentence():
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert run.stdout.strip().endswith("not installed: pip install 'dpgplvm[plots]'")


SIMPLE = (plots.relevance, plots.ard_weights, plots.assignments, plots.coassignment, plots.explained, plots.bound)


@pytest.mark.parametrize("picture", [*SIMPLE, plots.dendrogram, plots.latents], ids=lambda picture: picture.__name__)
def test_a_model_that_is_not_fitted_is_refused(picture):
    with pytest.raises(NotFittedError):
        picture(BayesianGPLVM())
