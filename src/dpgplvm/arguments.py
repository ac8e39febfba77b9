"""Arguments in: what a user asks for, or one sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from dpgplvm.frames import in_order, read_frame
from dpgplvm.model.kernels import Kernel
from dpgplvm.model.state import Free, State
from dpgplvm.sentences import listed, what_is_wrong


def read_latents(values: Any, name: str, latents: Sequence[str]) -> np.ndarray:
    """A float matrix with one column for every latent that the model uses: those of a DataFrame are found by their
    names where it has these."""
    frame = read_frame(values, name)
    known = set() if frame is None else set(frame.columns) & set(latents)
    if known and known == set(latents):
        values = in_order(values, latents)
    elif known:
        raise ValueError(
            f"{name} has columns {listed(sorted(known))} and not the other latents of {listed(list(latents))}: "
            "give all of them, or other names to go by position"
        )
    try:
        values = check_array(values, dtype=np.float64, input_name=name)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name} cannot be read as latents: {what_is_wrong(error)}") from None
    if values.shape[1] != len(latents):
        raise ValueError(
            f"{name} has {values.shape[1]} columns, but the model uses {len(latents)} latents: "
            "give one column for each, as in latents_"
        )
    return values


def read_variances(variance: Any, X: np.ndarray, latents: Sequence[str]) -> np.ndarray:
    """One variance, zero or more, for every entry of the latents X; a number is that of all of them."""
    variance = read_latents(np.full(X.shape, variance) if isinstance(variance, Real) else variance, "variance", latents)
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


def one_for_every_row(values: Any, name: str, n_rows: int) -> np.ndarray:
    """[N] Numbers as they are, and anything else as text."""
    found = np.asarray(values)
    if found.shape != (n_rows,):
        also = ", or True where all rows follow one another" if name == "sequence" else ""
        raise ValueError(f"{name} has shape {found.shape}: give one value for each of the {n_rows} rows{also}")
    return found if found.dtype.kind in "fiu" else found.astype(str)


def check_count(count: Any, name: str) -> None:
    """Refuse what is no number of draws."""
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name} is {count!r}: give a whole number, 1 or more")


def check_method(method: str) -> None:
    """Refuse what is no way to a density."""
    if method not in ("sampled", "bound", "joint"):
        raise ValueError(f'method is {method!r}: give "sampled", "bound" or "joint"')


def check_callback(callback: Any) -> None:
    """Refuse what cannot be called."""
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback is a {type(callback).__name__}: give a function of one argument, which says where the fit is"
        )


def check_start(
    start: Any, kernel: Kernel, n_rows: int, n_columns: int, n_latents: int, n_groups: int, noise: str
) -> None:
    """Refuse a start that was made for another table or another model."""
    if not isinstance(start, Free | State):
        raise TypeError(f"start is a {type(start).__name__}: give state_ of a fitted model, or a Free such as its free")
    free = start.free if isinstance(start, State) else start
    missing = kernel.parameters.keys() - free.log_theta.keys()
    if missing:
        raise ValueError(f"start.log_theta lacks {sorted(missing)}: give every hyperparameter of the kernel")
    wanted: dict[str, tuple[Any, tuple[int, ...]]]
    wanted = {name: (values, (n_rows, n_latents)) for name, values in free.latents.items()}
    wanted["inducing"] = (free.inducing, (free.inducing.shape[0], n_latents))
    of_columns = noise == "column"
    if free.of_columns != of_columns:
        has = "columns" if free.of_columns else "groups"
        raise ValueError(f'start has noise of {has}, but noise="{noise}" is asked for: make it for this model')
    wanted["log_noise_precision"] = (free.log_noise_precision, (n_columns if of_columns else n_groups,))
    if of_columns:
        wanted["log_scale"] = (free.log_scale, (n_columns,))
    for name, parameter in kernel.parameters.items():
        wanted[name] = (free.log_theta[name], (n_groups, *parameter.shape(n_latents)))
    if isinstance(start, State):
        wanted["phi"] = (start.phi, (n_columns, n_groups))
    for name, (values, shape) in wanted.items():
        if np.shape(values) != shape:
            raise ValueError(
                f"start: {name} has shape {np.shape(values)}, but {shape} is wanted: make it for this table"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"start: {name} is not finite: mend it, or fit without start")
