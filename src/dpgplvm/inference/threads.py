"""Work dealt out to threads: compiled functions run side by side there, each on one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib

from dpgplvm.numerics import double_precision

_NAME = "dpgplvm"


class Threads:
    """Threads to deal work to: `n_threads` of them, or one for each core that the process may use."""

    def __init__(self, n_threads: int | None = None) -> None:
        self._n_threads = n_threads or joblib.cpu_count()
        self._pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix=_NAME)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """The function of every item, in their order; this thread takes a share as well, and all of it where it is
        itself one of these threads."""
        items = list(items)
        n_shares = 1 if threading.current_thread().name.startswith(_NAME) else self._n_threads

        def share(first: int) -> list[Any]:
            with double_precision():
                return [function(item) for item in items[first::n_shares]]

        elsewhere = [self._pool.submit(share, first) for first in range(1, min(n_shares, len(items)))]
        results = [None] * len(items)
        results[::n_shares] = share(0)
        for first, future in enumerate(elsewhere, start=1):
            results[first::n_shares] = future.result()
        return results
