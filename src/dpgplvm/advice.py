"""What a user should be told about a fit that may not be what they hoped for."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

from dpgplvm.inference.moves import n_between_groups
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.starts import agreement
from dpgplvm.summary import ALL_NOISE

_AGREE = 0.8
_NOT_THE_USERS = tuple(f"{Path(package).parent}{os.sep}" for package in (__file__, sklearn.__file__, joblib.__file__))


class FitWarning(ConvergenceWarning):
    """A fit ended with something that its user should look at."""


def warn_user(advice: str) -> None:
    """Warn at the line of the user's own code that led here, through `fit`, `fit_transform` or a pipeline."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(advice, FitWarning, stacklevel=level)


def advise(model: Any) -> Iterator[str]:
    """Sentences about a fitted model, each with what to do."""
    unseen = np.flatnonzero(~model._seen)
    if unseen.size:
        rows = ", ".join(map(str, unseen[:5])) + (", ..." if unseen.size > 5 else "")
        yield (
            f"{unseen.size} of the rows of Y have nothing observed (row {rows}): they add nothing, and their latents "
            "have the prior. Drop them, or fill in what is known"
        )
    if model.outcome_ is Outcome.MOVES_SPENT:
        yield (
            f"the search for groups ended after {n_between_groups(model.moves_)} moves, the most that it tries, "
            "while there were others left: better groups may be there, and more starts (n_starts) may find them"
        )
    if model.max_iter > 0 and model.outcome_ is Outcome.BUDGET_SPENT:
        yield (
            f"the bound was still rising after max_iter={model.max_iter} iterations: raise max_iter, or go on with "
            "warm_start=True and another fit"
        )
    if model.max_iter > 0 and model.explained_.max() < ALL_NOISE:
        remedies = ["fewer latents (n_latents)"]
        if hasattr(model, "n_starts"):
            remedies.insert(0, "more starts (n_starts)")
        if model.kernel_ != "linear":
            remedies.append('kernel="linear"')
        yield (
            f"everything is explained as noise: no column has more than {model.explained_.max():.0%} of its variance "
            f"predicted. Either the columns have nothing in common, or the fit is stuck: try {' or '.join(remedies)}"
        )
    if len(model.starts_) > 1 and agreement(model.starts_) < _AGREE:
        bounds = [start.corrected for start in model.starts_]
        yield (
            f"the {len(bounds)} starts disagree about the groups: their mean adjusted Rand index is "
            f"{agreement(model.starts_):.2f}, and their corrected bounds span {max(bounds) - min(bounds):.0f} nats. "
            "Look at coassignment_ for what is certain, and raise n_starts"
        )
