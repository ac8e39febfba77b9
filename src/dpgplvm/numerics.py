"""The numerical ground rules: float64, and one BLAS thread beneath XLA's own threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import threadpoolctl
from threadpoolctl import threadpool_limits

# Every compiled function takes memory maps, a fit a few thousand. Linux allows a process 65,530 of them, where nobody
# has set another limit, and one more is a crash.
_SHARE_OF_MEMORY_MAPS = 0.4


class NumericalError(ArithmeticError):
    """The bound could not be evaluated, even with the largest jitter allowed."""


@contextmanager
def double_precision() -> Iterator[None]:
    """Compute in float64 inside the block, in this thread alone; the caller's JAX settings come back after it."""
    with jax.enable_x64(True):
        yield


class _OneBlasThread:
    """Limits BLAS to one thread while at least one block is inside; the limit belongs to the whole process.

    JAX calls the LAPACK that ships with SciPy. With that library's own threads an evaluation takes several times as
    long, so they are limited here rather than through environment variables that a user would have to know. Fits on
    several threads overlap: the first one in sets the limit, the last one out takes it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                _allow_any_thread()
                self._limits = threadpool_limits(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limits is not None:
                _allow_any_thread()
                self._limits.restore_original_limits()
                _allow_any_thread()
                self._limits = None


def _allow_any_thread() -> None:
    """Let this thread set OpenBLAS's limit: threadpoolctl ignores all but the one that did so first."""
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(controller, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_one_blas_thread = _OneBlasThread()


@contextmanager
def computing() -> Iterator[None]:
    """Wrap a fit or a prediction: float64, and no BLAS threads that would fight XLA's for the same cores."""
    with _one_blas_thread, double_precision():
        yield


def forget_compiled_functions_if_many() -> None:
    """For a process that fits again and again: what was compiled for tables of other shapes is not kept for ever."""
    try:
        taken = Path("/proc/self/maps").read_bytes().count(b"\n")
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    except OSError:  # not Linux, or it does not tell
        return
    if taken > _SHARE_OF_MEMORY_MAPS * allowed:
        jax.clear_caches()
