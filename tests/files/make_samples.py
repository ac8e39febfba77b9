"""Writes the models of every class that later versions of the library must still be able to read.

python tests/files/make_samples.py

A file, once released, is never made again: a new format gets files of its own beside those of the old one.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Hyperprior
from dpgplvm.files import FORMAT

HERE = Path(__file__).parent
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


def fitted(model, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits as short as these have much to warn of
        return model.fit(Y)


if __name__ == "__main__":
    answers = {}
    for name, (model, Y) in samples().items():
        fitted(model, Y).save(HERE / f"format-{FORMAT}-{name}.dpgplvm")
        mean, std = model.predict(np.zeros((1, model.n_latents_)), return_std=True)
        answers[name] = {"mean": np.asarray(mean).tolist(), "std": np.asarray(std).tolist()}
    (HERE / f"format-{FORMAT}.json").write_text(json.dumps(answers, indent=1))
