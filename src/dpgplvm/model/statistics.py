"""What the model keeps of the rows: sums of statistics, and nothing else.

Because rows enter only through these sums, blocks of rows, mini-batches and rows spread over devices are all the same
computation: add up the statistics, then evaluate the bound on M x M matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.kernels import Kernel, Parameters
from dpgplvm.model.table import Table


class Statistics(NamedTuple):
    """Sums over rows for one group's kernel and every column of the table.

    What does not depend on the values of a column is the same for all columns that were observed in the same rows: with
    gaps there is one of it for each of the P patterns, without there is one (*P is nothing).
    """

    n_rows: Float[Array, "*P"]
    psi0: Float[Array, "*P"]  # sum_n E[k(x_n, x_n)]
    psi1_y: Float[Array, "M D"]  # Psi1' Y
    psi2: Float[Array, "*P M M"]  # sum_n E[k(z, x_n) k(x_n, z')]
    y_squared: Float[Array, " D"]  # y_d' y_d


def gather(
    kernel: Kernel,
    theta: Parameters,
    mean: Float[Array, "N Q"],
    variance: Float[Array, "N Q"],
    inducing: Float[Array, "M Q"],
    table: Table,
    block: int | None = None,
) -> Statistics:
    """Statistics of all rows; with `block`, that many rows at a time.

    In blocks nothing of size N x M^2 is kept between value and adjoint: the adjoint computes each block again. Without,
    it is kept, which is faster while it fits the memory.
    """

    def of_rows(mean, variance, Y, observed=None) -> Statistics:
        psi0 = kernel.psi0(theta, mean, variance)
        if observed is None:
            n_rows, psi0 = jnp.asarray(float(Y.shape[0])), psi0.sum()
            psi2 = kernel.psi2(theta, mean, variance, inducing)
        else:
            n_rows, psi0 = observed.sum(axis=0), psi0 @ observed
            features = kernel.psi2_features(theta, mean, variance, inducing)
            of_patterns = jax.tree.map(lambda part: observed.T @ part, features)
            psi2 = kernel.psi2_of_features(theta, inducing, of_patterns)
        psi1_y = kernel.psi1(theta, mean, variance, inducing).T @ Y
        return Statistics(n_rows, psi0, psi1_y, psi2, (Y**2).sum(axis=0))

    rows = (mean, variance, *table.row_blocks())
    n_rows = mean.shape[0]
    if block is None or n_rows <= block:
        return of_rows(*rows)

    in_blocks = n_rows - n_rows % block
    recomputed = jax.checkpoint(of_rows)

    def add_block(total: Statistics, rows) -> tuple[Statistics, None]:
        return jax.tree.map(jnp.add, total, recomputed(*rows)), None

    blocks = [a[:in_blocks].reshape(-1, block, a.shape[1]) for a in rows]
    nothing = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_rows, *(a[0] for a in blocks))
    )
    total, _ = lax.scan(add_block, nothing, blocks)
    if in_blocks < n_rows:
        total, _ = add_block(total, tuple(a[in_blocks:] for a in rows))
    return total
