"""The numerical ground rules: float64, and one BLAS thread beneath XLA's own threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
from threadpoolctl import threadpool_limits


class NumericalError(ArithmeticError):
    """The bound could not be evaluated, even with the largest jitter allowed."""


@contextmanager
def double_precision() -> Iterator[None]:
    """Compute in float64 inside the block, in this thread alone; the caller's JAX settings come back after it."""
    with jax.enable_x64(True):
        yield


@contextmanager
def computing() -> Iterator[None]:
    """Wrap a fit or a prediction: float64, and no BLAS threads that would fight XLA's for the same cores.

    JAX calls the LAPACK that ships with SciPy. With that library's own threads an evaluation takes several times as
    long, so they are limited here rather than through environment variables that a user would have to know.
    """
    with threadpool_limits(limits=1, user_api="blas"), double_precision():
        yield
