"""A fitted model as plain values and arrays: all that the page shows, and all that it needs to predict.

What predictions are made of stays in double precision. What is only looked at has single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgplvm.arguments import one_for_every_row
from dpgplvm.inference.predictor import Predictor
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.numerics import computing
from dpgplvm.sentences import listed
from dpgplvm.skeleton import Skeleton
from dpgplvm.summary import noise_of_columns

# Of a longer table every second row is shown, or every third, and so on: the page has to open, and to move at once.
_MOST_ROWS, _MOST_VALUES = 20_000, 4_000_000
_SPREAD = (0.0, 0.1, 0.9, 1.0)  # quantiles of a column's training values


def exported(model: Any, skeleton: Skeleton | None, sequence: Any) -> dict[str, Any]:
    """Everything the page is told."""
    _check_kernel(model)
    rows = _rows(model, sequence)
    body = None if skeleton is None else _skeleton(skeleton, model._names)
    with computing():
        posterior = _posterior(model)
    return {
        "posterior": posterior,
        "model": {"kind": type(model).__name__, "rows": len(model.latents_), "kernel": model.kernel_},
        "groups": _group_names(model),
        "columns": {
            "names": model._names,
            "group": model.groups_.astype(np.int32),
            "inGroup": _single(model.group_probabilities_),
            "byLatent": _single(model.explained_by_latent_),
            "noise": noise_of_columns(model) * model._scaling.scale,
            "spread": np.nanquantile(model._learned, _SPREAD, axis=0).T,
        },
        "rows": rows,
        "skeleton": body,
    }


def _check_kernel(model: Any) -> None:
    kernel = model._model.kernel
    if kernel not in NAMED_KERNELS.values():
        raise ValueError(
            f"kernel is a {type(kernel).__name__}, a kernel of your own, which the page cannot compute: "
            f"fit with one of {listed(list(NAMED_KERNELS))} to explore"
        )


def _posterior(model: Any) -> dict[str, Any]:
    """What `predict` computes with for latents that are certain, in the model's units, and the way to the user's."""
    predictor: Predictor = model._predictor()
    return {
        "fixed": predictor.training.mean.mean(axis=0),  # where latents are that are not used, as for `predict`
        "used": model.latent_order_.astype(np.int32),
        "inducing": predictor.inducing,
        "groups": [_functions(predictor, t) for t in range(len(predictor.theta))],
        "mean": model._scaling.mean,
        "scale": model._scaling.scale,
    }


def _functions(predictor: Predictor, t: int) -> dict[str, Any]:
    diagonal, real = predictor.diagonal[t], predictor.groups.shares[t] > 0.0
    patterns, pattern = np.unique(diagonal.pattern[real], return_inverse=True)
    return {
        "theta": {name: np.asarray(values) for name, values in predictor.theta[t].items()},
        "whiten": diagonal.whiten[patterns],
        "pattern": pattern.astype(np.int32),
        "weights": diagonal.weights[real],
        "shrinkage": diagonal.shrinkage[real],
        "prior": diagonal.prior[real],
        "noise": 1.0 / predictor.noise_precision[t, real],
        "members": predictor.groups.members[t, real].astype(np.int32),
        "shares": predictor.groups.shares[t, real],
    }


def _rows(model: Any, sequence: Any) -> dict[str, Any]:
    """Rows in which something was observed."""
    several = not (sequence is None or isinstance(sequence, bool))
    labels = one_for_every_row(sequence, "sequence", len(model.latents_)) if several else None
    step = max(-(-len(model._learned) // _MOST_ROWS), -(-model._learned.size // _MOST_VALUES))
    seen = np.flatnonzero(model._seen)[::step]
    index = model._layout.index
    kinds, which = (None, None) if labels is None else np.unique(labels[seen], return_inverse=True)
    return {
        "names": [str(n if index is None else index[n]) for n in seen],
        "latents": model.latents_[seen],
        "deviation": _single(np.sqrt(model.latent_variance_[seen])),
        "values": _single(model._learned[::step]),
        "sequences": [] if kinds is None else [str(kind) for kind in kinds],
        "sequence": None if which is None else which.ravel().astype(np.int32),
        "joined": several or sequence is True,
    }


def _skeleton(skeleton: Skeleton, names: list[str]) -> dict[str, Any]:
    position = {joint: j for j, joint in enumerate(skeleton.joints)}
    return {
        "joints": list(map(str, skeleton.joints)),
        "columns": skeleton.columns(names).astype(np.int32),
        "bones": [[position[end] for end in bone] for bone in skeleton.bones],
        "turning": skeleton.turning,
    }


def _group_names(model: Any) -> list[str]:
    return [f"group {k}" for k in range(model.n_groups_)] if model._group_names is None else model._group_names


def _single(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)
