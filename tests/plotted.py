"""Small fitted models to draw, with names that are hard to draw."""

from __future__ import annotations

import copy
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, FitWarning, Skeleton

HARD_NAMES = (
    "a rather long name that goes on and on, even further",
    "$x_1$ and $\\frac{1}{2$",
    "under_score_$",
    "<b>bold</b> & \"quoted\" 'twice'",
    "two\nlines\tand a tab",
    "größer ≥ 0",
    "",
)


def table(n_rows, n_columns, seed=0):
    rng = np.random.default_rng(seed)
    bent = np.sin(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns)))
    return bent + 0.1 * rng.normal(size=(n_rows, n_columns))


def hard_names(n_columns, n_axes=2):
    """Names of joints' axes, all different."""
    joints = [f"{HARD_NAMES[j % len(HARD_NAMES)]}{j}" for j in range(-(-n_columns // n_axes))]
    return [f"{joint} {axis}" for joint in joints for axis in "xyz"[:n_axes]][:n_columns]


def fitted(model, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return model.fit(Y)


@cache
def five_columns():
    """One group, one latent, an array."""
    settings = {"n_latents": 1, "n_inducing": 5, "max_iter": 5, "random_state": 0}
    return fitted(BayesianGPLVM(**settings), table(20, 5))


@cache
def thirty_columns():
    """Groups that were found, gaps, hard names; the last row was never observed."""
    Y = table(25, 30)
    Y[np.random.default_rng(1).random(Y.shape) < 0.1] = np.nan
    Y[-1] = np.nan
    settings = {"n_latents": 3, "n_inducing": 6, "truncation": 3, "max_iter": 2, "kernel": "rbf", "random_state": 0}
    return fitted(DPGPLVM(**settings), pd.DataFrame(Y, columns=hard_names(30)))


@cache
def five_hundred_columns():
    """Three named views of very different sizes, three latents."""
    labels = np.array(HARD_NAMES[:3])[np.repeat([0, 1, 2], [350, 147, 3])]
    frame = pd.DataFrame(table(12, 500), columns=hard_names(500))
    return fitted(MRD(views=list(labels), n_latents=3, n_inducing=5, max_iter=0, random_state=0), frame)


def every_column_a_group(model):
    """The same model with as many groups as columns, as with views="columns"."""
    crowded, n_columns = copy.copy(model), len(model.groups_)
    crowded.groups_, crowded.n_groups_ = np.arange(n_columns), n_columns
    crowded.group_probabilities_ = crowded.coassignment_ = np.eye(n_columns)
    crowded.kernel_parameters_ = {
        name: np.repeat(values[:1], n_columns, axis=0) for name, values in model.kernel_parameters_.items()
    }
    crowded.noise_precision_ = np.ones(n_columns)
    crowded._group_names = list(model._names)
    return crowded


def with_long_history(model):
    """The same model after a search with many moves, most of them kept, from several starts."""
    searched, move, start = copy.copy(model), model.moves_[0], model.starts_[0]
    kinds = ("merge", "split", "smooth")
    searched.moves_ = [
        move._replace(
            kind=kinds[n % 3],
            groups_after=n % 15,
            corrected_before=float(n),
            corrected_after=None if n % 5 == 0 else n + 1.0,
            accepted=n % 5 > 1,
        )
        for n in range(90)
    ]
    searched.starts_ = [start._replace(corrected=value) for value in (80.0, 85.0, 91.0)]
    return searched


def skeleton_of(model, n_axes=2):
    """Joints of neighbouring columns, in a chain."""
    n_joints = len(model._names) // n_axes
    joints = {f"joint {j}": tuple(range(n_axes * j, n_axes * (j + 1))) for j in range(n_joints)}
    names = list(joints)
    return Skeleton(joints, list(pairwise(names)), up="-y")
