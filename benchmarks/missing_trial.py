"""One run of the missing-data suite: a method is fitted once, and asked about three shares of columns."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from missing_methods import METHODS, Fitted
from missing_sets import COLUMN_SHARES, hidden_columns, load, parted
from scipy.stats import norm
from sklearn.model_selection import KFold

_WITHIN = norm.ppf(0.975)


class Task(NamedTuple):
    """One fit, to be done by a worker."""

    set: str
    split: str
    row_share: int
    seed: int
    method: str


def run(task: Task, longest: float) -> dict[str, Any]:
    """One method on one part of one table, as a record for the log.

    A peer, and any other method that may take long, is given up after `longest` seconds, which is a result. Whatever
    else goes wrong is an error, to be tried again; columns that were filled before it are kept. Seconds are those that
    the process has computed, so that it does not matter what else the machine is doing.
    """
    training, unseen = parted(load(task.set, task.seed), task.split, task.row_share, task.seed)
    in_blocks = task.split == "block"
    folds = KFold(5) if in_blocks else KFold(5, shuffle=True, random_state=task.seed)
    method = METHODS[task.method]
    record: dict[str, Any] = {"shape": training.shape, "cells": {}, "clock": "cpu"}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with time_limit(longest if method.may_take_long or not method.is_ours else None):
                fitted, record["fit_seconds"] = timed(lambda: method.fit(training, folds, task.seed))
                record |= fitted.about
                for share in COLUMN_SHARES:
                    hidden = hidden_columns(unseen.shape[1], task.row_share, share, task.seed)
                    record["cells"][str(share)] = evaluated(fitted, unseen, hidden)
        except TooLong:
            record["given_up"] = longest
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"
    return record | {"warnings": sorted({str(one.message) for one in warned})}


def evaluated(fitted: Fitted, unseen: np.ndarray, hidden: np.ndarray) -> dict[str, float]:
    """How far what a method says about hidden columns is from what is there."""
    filled, seconds = timed(lambda: fitted.fill(np.where(hidden, np.nan, unseen)))
    truth, mean, std = (table[:, hidden] for table in (unseen, filled.mean, filled.std))
    if not np.isfinite([mean, std]).all():
        raise ValueError("some of the gaps are filled with values that are not finite")
    scores = {
        "mse": np.mean((truth - mean) ** 2),
        "nlpd": -np.mean(norm.logpdf(truth, mean, std)),
        "coverage": np.mean(np.abs(truth - mean) <= _WITHIN * std),
        "impute_seconds": seconds,
    }
    if filled.interval is not None:
        low, high = filled.interval[:, :, hidden]
        scores["quantile_coverage"] = np.mean((low <= truth) & (truth <= high))
    return {name: float(value) for name, value in scores.items()}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return call(), time.process_time() - start


class TooLong(BaseException):
    """Time is up; not for a method's own `except Exception`."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Of processor time; and ten times as long by the clock on the wall, for what hangs."""

    def ring(*_: Any) -> None:
        raise TooLong

    if seconds is None:
        yield
        return
    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, 10.0 * seconds)}
    before = {alarm: signal.signal(alarm, ring) for alarm, _ in timers.values()}
    for timer, (_, longest) in timers.items():
        signal.setitimer(timer, longest)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0.0)
        for alarm, handler in before.items():
            signal.signal(alarm, handler)
