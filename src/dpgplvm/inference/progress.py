"""How far a fit is: every stage and every iteration comes by here, for whoever listens and for the log.

Loggers: `dpgplvm.fit` has the stages (INFO), `dpgplvm.search` the moves that were kept (INFO) or not (DEBUG), and
`dpgplvm.climb` the end of every climb (DEBUG).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpgplvm.inference.climb import Callback

_of_fit, _of_search = logging.getLogger("dpgplvm.fit"), logging.getLogger("dpgplvm.search")


class Progress(NamedTuple):
    """Where a fit is, for its callback.

    Attributes
    ----------
    stage : str
        What is being done, in words.
    iteration : int
        Of the whole fit, from 1.
    bound : float
        Here and now: a move that is being tried begins below the best so far.
    n_groups : int
        Groups that columns may be in, here and now.
    seconds : float
        Since the fit began.
    iterations_left : int or None
        Of this stage, at most; None where nobody knows.
    """

    stage: str
    iteration: int
    bound: float
    n_groups: int
    seconds: float
    iterations_left: int | None = None


# What listeners are: of iterations, who may end the fit by returning True, and of lines of text.
OnProgress = Callable[[Progress], bool | None]
OnLine = Callable[[str], None]


class Reporter:
    """Hears of stages, iterations and moves, and tells them to its listeners.

    Only the thread that made it is heard: a fit may try several things at once, and listeners hear of one. A copy in
    another process has no listeners.
    """

    def __init__(self, on_progress: Sequence[OnProgress] = (), on_line: Sequence[OnLine] = ()) -> None:
        self._on_progress, self._on_line = on_progress, on_line
        self._began, self._thread = time.monotonic(), threading.get_ident()
        self._part = self._stage = ""
        self._iteration = self._entered = 0
        self._budget: int | None = None
        self._stopped = False

    def __reduce__(self) -> tuple[type[Reporter], tuple[()]]:
        return Reporter, ()

    def part(self, name: str) -> None:
        """What the stages that follow are part of, such as one of several starts."""
        self._part = f"{name}, "

    def enter(self, stage: str, budget: int | None = None) -> None:
        """A stage begins; `budget` is the most iterations that it can take, where that is known."""
        if self._is_heard():
            self._stage, self._budget, self._entered = self._part + stage, budget, self._iteration
            self._say(_of_fit, self._stage)

    def of_climb(self, n_groups: int, watch: Callback | None = None) -> Callback:
        """A callback for one climb, which asks `watch` first."""
        before = self._iteration

        def callback(iteration: int, bound: float) -> bool:
            stop = watch is not None and bool(watch(iteration, bound))
            return self.reached(before + iteration, bound, n_groups) or stop

        return callback

    def reached(self, iteration: int, bound: float, n_groups: int) -> bool:
        """Tell where the fit is; True if someone wants it to end here."""
        if not self._is_heard():
            return False
        self._iteration = iteration
        left = None if self._budget is None else max(0, self._budget - (iteration - self._entered))
        progress = Progress(self._stage, iteration, bound, int(n_groups), time.monotonic() - self._began, left)
        for listener in self._on_progress:
            self._stopped |= bool(listener(progress))
        return self._stopped

    def ended(self, part: str, bound: float, n_groups: int) -> bool:
        """Something that ran in another process has ended; True if someone wants no more of it."""
        self.enter(f"{part} has ended")
        return self.reached(self._iteration, bound, n_groups)

    def moved(self, line: str, accepted: bool) -> None:
        """A move was tried."""
        if accepted:
            self._say(_of_search, line)
        else:
            _of_search.debug(line)

    def _say(self, logger: logging.Logger, line: str) -> None:
        logger.info(line)
        for listener in self._on_line:
            listener(line)

    def _is_heard(self) -> bool:
        return threading.get_ident() == self._thread


SILENT = Reporter()
