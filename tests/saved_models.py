"""Fitted models for the tests of files, and what these tests share.

python tests/saved_models.py

writes those that later versions of the library must still be able to read to tests/files. A file, once released, is
never made again: a new format gets files of its own beside those of the old one.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import dpgplvm
from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Hyperprior
from dpgplvm.files import FORMAT

FILES = Path(__file__).parent / "files"
NAMES = ["hip", "knee", "ankle", "shoulder", "elbow", "wrist"]


def table(with_gaps=False):
    rng = np.random.default_rng(5)
    latents = rng.normal(size=(12, 2))
    Y = np.sin(latents[:, [0, 0, 0, 1, 1, 1]] * [1.0, 0.7, 1.3, 1.0, 0.5, 1.2]) + 0.1 * rng.normal(size=(12, 6))
    if with_gaps:
        Y[2, 1] = Y[7, :4] = Y[9] = np.nan
    return 10.0 * Y + 3.0


def samples():
    """Models to fit, and their tables."""
    small = {"n_latents": 2, "n_inducing": 4, "random_state": 0}
    return {
        "BayesianGPLVM": (BayesianGPLVM(kernel="linear", max_iter=0, **small), table()),
        "MRD": (
            MRD(views={"leg": NAMES[:3], "arm": range(3, 6)}, hyperprior=2.5, max_iter=0, **small),
            pl.DataFrame(table(), schema=NAMES, orient="row"),
        ),
        "DPGPLVM": (
            DPGPLVM(
                kernel="rbf+linear", truncation=2, n_starts=2, hyperprior=Hyperprior(scale=1.5), max_iter=1, **small
            ),
            pd.DataFrame(table(with_gaps=True), columns=NAMES),
        ),
    }


def fitted(model, Y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits as short as these have much to warn of
        return model.fit(Y, **options)


def sample(name="BayesianGPLVM"):
    return FILES / f"format-1-{name}.dpgplvm"


def through_a_file(model, folder):
    model.save(folder / "model.dpgplvm")
    return dpgplvm.load(folder / "model.dpgplvm")


def assert_same(one, other, where="model"):
    """The same types all the way down, and the same bits at the end."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray) and one.dtype != object:
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        # Layout too: products of matrices can depend on it in their last digits.
        assert one.flags.f_contiguous == other.flags.f_contiguous, where
        assert one.tobytes() == other.tobytes(), where
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple | np.ndarray):
        assert len(one) == len(other), where
        for number, (part, other_part) in enumerate(zip(one, other, strict=True)):
            assert_same(part, other_part, f"{where}[{number}]")
    elif isinstance(one, pd.Index):
        assert one.identical(other), where
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state(), where)
    elif hasattr(one, "__dict__") and not isinstance(one, type | str):
        assert_same(vars(one), vars(other), where)
    else:
        assert one == other or one != one, where


def contents(model):
    """All that a model is, in an order of its own; what it would compute again is no part of it."""
    return dict(sorted((vars(model) | {"_kept": None}).items()))


if __name__ == "__main__":
    answers = {}
    for name, (model, Y) in samples().items():
        fitted(model, Y).save(FILES / f"format-{FORMAT}-{name}.dpgplvm")
        mean, std = model.predict(np.zeros((1, model.n_latents_)), return_std=True)
        answers[name] = {"mean": np.asarray(mean).tolist(), "std": np.asarray(std).tolist()}
    (FILES / f"format-{FORMAT}.json").write_text(json.dumps(answers, indent=1))
