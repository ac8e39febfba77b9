"""Functions of the model, each compiled once for everything that calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.inference.compiling import compiles_fast
from dpgplvm.model.bound import Model
from dpgplvm.model.latents import LatentParameters, Marginals
from dpgplvm.model.posterior import inducing_weights
from dpgplvm.model.state import State
from dpgplvm.model.table import Table

_BLOCK_BYTES = 32 * 2**20
LARGEST_JITTER = 1e-2


def rows_per_block(n_rows: int, n_columns: int, n_inducing: int) -> int | None:
    """How many rows at a time keep the memory small; None for all of them."""
    bytes_per_row = 8 * (n_inducing * (n_inducing + 1) // 2 + n_inducing + n_columns)
    block = max(1, _BLOCK_BYTES // bytes_per_row)
    return None if n_rows <= block else block


def chunks(n_rows: int, size: int) -> list[slice]:
    """Rows in runs of at most `size`."""
    return [slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size)]


def size_for(n_rows: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the sizes that will do."""
    return next(size for size in sizes if n_rows <= size)


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """`size` rows, the last one as often as it takes."""
    return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])


@compiles_fast("model")
def marginals_of(model: Model, latents: LatentParameters) -> Marginals:
    """Mean and variance of every latent coordinate of every row."""
    return model.latent_prior.marginals(latents)


def weights_of(model: Model, state: State, Y: np.ndarray) -> Float[Array, "T M D"]:
    """What the mean functions of all columns are made of, with as much jitter as it takes."""
    block = rows_per_block(Y.shape[0], Y.shape[1], state.free.inducing.shape[0])
    return with_enough_jitter(lambda model: _weights(model, state, Table.of(Y), block), model)


def with_enough_jitter(function: Callable[[Model], Any], model: Model) -> Any:
    """The function of the model, or of the same model with more jitter where that is not finite."""
    found = function(model)
    while not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found)) and 10.0 * model.jitter <= LARGEST_JITTER:
        model = replace(model, jitter=10.0 * model.jitter)
        found = function(model)
    return found


@compiles_fast("model", "block")
def _weights(model: Model, state: State, table: Table, block: int | None) -> Array:
    return inducing_weights(model, state, table, block)
