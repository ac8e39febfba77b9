"""A fitted model as DataFrames."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from dpgplvm.frames import as_frame
from dpgplvm.summary import groups_of, noise_of_columns, whose_noise


class ResultFrames(NamedTuple):
    """What `summary` says and more, as DataFrames of the kind that the model was fitted to, of pandas for arrays.

    Noise is a standard deviation in units of the column's own (with standardise=True); `noise_in_units` is in those of
    the table. `explained` is a share of variance, and `latent_0`, `latent_1`, ... say how much of it comes from each
    latent; those of a group are means over its columns.
    """

    fit: Any  # one row: sizes, kernel, bound, iterations, outcome
    groups: Any  # one row for every group
    columns: Any  # one row for every column of the table
    rows: Any  # one row for every row of the table: latents and their standard deviations


def result_frames(model: Any) -> ResultFrames:
    """The frames of a fitted model."""
    groups, noise = groups_of(model), noise_of_columns(model)
    names = range(model.n_groups_) if model._group_names is None else model._group_names

    def frame(columns: dict[str, Any], by: str | None = None, index: Any = None) -> Any:
        made = nw.from_native(as_frame(model._layout.backend, columns, index))
        return (made if by is None else nw.maybe_set_index(made, by)).to_native()

    return ResultFrames(
        fit=frame(
            {
                "model": [type(model).__name__],
                "n_rows": [len(model.latents_)],
                "n_columns": [len(model.groups_)],
                "n_latents": [model.n_latents_],
                "n_groups": [model.n_groups_],
                "n_profiles": [model.n_profiles_],
                "kernel": [model.kernel_],
                "noise_of": [whose_noise(model)],
                "bound": [model.elbo_],
                "corrected_bound": [np.nan if model.corrected_bound_ is None else model.corrected_bound_],
                "n_iter": [model.n_iter_],
                "outcome": [model.outcome_.value],
            }
        ),
        groups=frame(
            {
                "group": list(names),
                "n_columns": [len(group.members) for group in groups],
                "noise": [group.noise for group in groups],
                "explained": [group.explained for group in groups],
                **_numbered("latent", np.array([group.by_latent for group in groups])),
                "columns": [", ".join(model._names[d] for d in group.members) for group in groups],
            },
            by="group",
        ),
        columns=frame(
            {
                "column": model._names,
                "group": [names[k] for k in model.groups_],
                "probability": model.group_probabilities_.max(axis=1),
                "profile": model.profiles_,
                "noise": noise,
                "noise_in_units": noise * model._scaling.scale,
                "explained": model.explained_,
                **_numbered("latent", model.explained_by_latent_),
            },
            by="column",
        ),
        rows=frame(
            _numbered("latent", model.latents_) | _numbered("std", np.sqrt(model.latent_variance_)),
            index=model._layout.index,
        ),
    )


def _numbered(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """`name_0`, `name_1`, ... for the columns of `values`."""
    return {f"{name}_{q}": column for q, column in enumerate(values.T)}
