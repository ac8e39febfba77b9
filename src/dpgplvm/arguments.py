"""Arguments of predictions in: what a user asks for, or one sentence that says what is wrong."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array


def read_latents(values: Any, name: str, n_latents: int) -> np.ndarray:
    """A float matrix with one column for every latent that the model uses."""
    try:
        values = check_array(values, dtype=np.float64, input_name=name)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name} cannot be read as latents: {' '.join(str(error).split())}") from None
    if values.shape[1] != n_latents:
        raise ValueError(
            f"{name} has {values.shape[1]} columns, but the model uses {n_latents} latents: give one column for each, "
            "as in latents_"
        )
    return values


def read_variances(variance: Any, X: np.ndarray) -> np.ndarray:
    """One variance, zero or more, for every entry of the latents X."""
    variance = read_latents(variance, "variance", X.shape[1])
    if variance.shape != X.shape or (variance < 0.0).any():
        raise ValueError(
            f"variance has shape {variance.shape} and minimum {variance.min():g}, X has shape {X.shape}: "
            "give one variance, zero or more, for every entry of X"
        )
    return variance


def read_probabilities(quantiles: Any) -> np.ndarray:
    """Which quantiles are wanted."""
    wanted = f"quantiles is {quantiles!r}: give numbers between 0 and 1, both excluded"
    try:
        probabilities = np.atleast_1d(np.asarray(quantiles, dtype=float))
    except (TypeError, ValueError):
        raise ValueError(wanted) from None
    if probabilities.ndim != 1 or not ((probabilities > 0.0) & (probabilities < 1.0)).all():
        raise ValueError(wanted)
    return probabilities


def check_count(count: Any, name: str) -> None:
    """Refuse what is no number of draws."""
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"{name} is {count!r}: give a whole number, 1 or more")


def check_method(method: str) -> None:
    """Refuse what is no way to a density."""
    if method not in ("sampled", "bound", "joint"):
        raise ValueError(f'method is {method!r}: give "sampled", "bound" or "joint"')
