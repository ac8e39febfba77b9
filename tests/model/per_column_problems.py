"""Random groups and states whose columns have noise and scale of their own, and the paper's bound of one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import witness
from adjoints import as_statistics
from hypothesis import strategies as st

from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.per_column import Columns
from dpgplvm.model.state import Free

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, M, T = 6, 5, 2, 4, 3
JITTER = 1e-6
seeds = st.integers(0, 2**32 - 1)


def random_group(seed, kernel="rbf"):
    """K and psi statistics of a group, from the witness, a table, and noise and scale of its columns."""
    rng = np.random.default_rng(seed)
    K, psi, _ = witness.random_group(kernel, rng, N, Q, M)
    columns = Columns(np.exp(rng.uniform(-2.0, 4.0, size=D)), np.exp(rng.uniform(-1.5, 1.5, size=D)))
    return K, psi, rng.normal(size=(N, D)), columns, rng


def as_arrays(K, columns, psi, Y):
    return jnp.asarray(K), jax.tree.map(jnp.asarray, columns), as_statistics(psi, Y)


def in_paper(K, beta, scale, psi, y):
    """The density of y is that of y / s, with a precision that is s^2 as large, divided by s for every row."""
    return witness.column_bound(K, beta * scale**2, *psi, y / scale) - len(y) * np.log(scale)


def random_problem(seed, kernel):
    rng = np.random.default_rng(seed)
    n_inducing = Q if kernel == "linear" else 3  # more, and the linear kernel's K would be singular
    free = witness.random_free(kernel, rng, N, Q, n_inducing, T)
    free = Free(
        latents={name: jnp.asarray(free[name]) for name in ("mean", "log_variance")},
        inducing=jnp.asarray(free["inducing"]),
        log_theta={name: jnp.asarray(free[name]) for name in witness.PARAMETERS[kernel]},
        log_noise_precision=jnp.asarray(rng.uniform(-1.0, 2.0, size=D)),
        log_scale=jnp.asarray(rng.normal(scale=0.5, size=D)),
    )
    return free, rng.normal(size=(N, D))
