"""Whether a fit can go on from the one before."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgplvm.inference.start import useful_inducing
from dpgplvm.model.bound import Model
from dpgplvm.sentences import listed


def check_goes_on(
    last: Any, names: list[str], seen: np.ndarray, model: Model, n_latents: int, n_groups: int, noise: str
) -> None:
    """Refuse to go on from the fit that `last` has with other rows, other columns or a model of another size: every row
    has latents of its own, and every group hyperparameters."""
    if len(seen) != len(last._seen) or names != last._names:
        raise ValueError(
            f"Y has {len(seen)} rows and {len(names)} columns, but warm_start=True goes on from a fit to "
            f"{len(last._seen)} rows and the columns {listed(last._names)}: give those, or set warm_start=False"
        )
    if not np.array_equal(seen, last._seen):
        raise ValueError(
            "Y has nothing observed in other rows than the table that warm_start=True goes on from: "
            "leave out rows without values, or set warm_start=False"
        )
    free = last.state_.free
    n_inducing = useful_inducing(model, last.n_inducing, int(seen.sum()), n_latents)
    compared = {
        "n_latents": (free.inducing.shape[1], n_latents),
        "kernel": (last._model.kernel, model.kernel),
        "n_inducing": (free.inducing.shape[0], n_inducing),
        "noise": ("column" if free.of_columns else "group", noise),
        "truncation" if model.inferred_groups else "number of views": (free.n_groups, n_groups),
    }
    for name, (had, asked) in compared.items():
        if had != asked:
            raise ValueError(
                f"{name} is {asked!r}, but warm_start=True goes on from a fit in which it was {had!r}: "
                "set it back, or set warm_start=False"
            )
