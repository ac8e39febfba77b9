"""Whoever waits for a fit can see where it is, and end it."""

from __future__ import annotations

import io
import logging
import os
import pickle
import pty
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from dpgplvm import DPGPLVM, MRD, Outcome, Progress
from dpgplvm.datasets import make_views
from dpgplvm.inference.moves import Move, note
from dpgplvm.inference.progress import Reporter
from dpgplvm.progress import Bar, shown

SMALL = {"n_latents": 2, "n_inducing": 8, "kernel": "linear", "random_state": 0}


def mrd(**changes):
    return MRD(**{**SMALL, "max_iter": 12, "views": ["legs"] * 3 + ["arms"] * 3, **changes})


def dpgplvm(**changes):
    return DPGPLVM(**{**SMALL, "max_iter": 5, "truncation": 3, **changes})


@pytest.fixture(scope="module")
def table():
    return make_views(30, latents=((0,), (1,)), columns=3, linear=True, noise_variance=0.01, random_state=1).Y


@pytest.fixture(scope="module")
def told(table):
    """A search, everything that its callback heard, and everything that it logged."""
    heard: list[Progress] = []
    lines: list[logging.LogRecord] = []
    logger = logging.getLogger("dpgplvm")
    handler = logging.Handler()
    handler.emit = lines.append
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        model = dpgplvm().fit(table, callback=heard.append)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    return model, heard, lines


@pytest.fixture
def hurry_elsewhere(monkeypatch):
    """The same for processes that are started."""
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


STAGES = ["one group", "one group, noise of columns", "clusters of columns", "moves", "finer groups", "last climb"]


def test_a_callback_hears_of_every_stage_in_order(told):
    model, heard, _ = told
    stages = list(dict.fromkeys(progress.stage for progress in heard))
    assert stages == [stage for stage in STAGES if stage in stages]
    assert {"one group", "moves", "last climb"} <= set(stages)
    assert all(np.diff([progress.iteration for progress in heard]) == 1)
    assert all(np.diff([progress.seconds for progress in heard]) >= 0.0)
    assert np.isfinite([progress.bound for progress in heard]).all()
    assert {type(progress.n_groups) for progress in heard} == {int}
    assert heard[0].n_groups == 1
    assert heard[-1].n_groups == model.n_groups_ == 2
    assert heard[-1].bound == pytest.approx(model.history_[-1], rel=1e-12)


def test_only_a_stage_with_a_budget_says_what_is_left_of_it(told):
    _, heard, _ = told
    last = [progress.iterations_left for progress in heard if progress.stage == "last climb"]
    assert last == list(range(4, 4 - len(last), -1))
    assert {progress.iterations_left for progress in heard if progress.stage != "last climb"} == {None}


def test_the_log_has_stages_moves_and_climbs(told):
    model, _, lines = told
    said = {(line.name, line.levelname): [] for line in lines}
    for line in lines:
        said[line.name, line.levelname].append(line.getMessage())
    assert said["dpgplvm.fit", "INFO"] == STAGES
    moves = [(move.kind, move.accepted) for move in model.moves_]
    kept, not_kept = said.get(("dpgplvm.search", "INFO"), []), said.get(("dpgplvm.search", "DEBUG"), [])
    assert [line.split(":")[0] for line in kept] == [kind for kind, accepted in moves if accepted]
    assert [line.split(":")[0] for line in not_kept] == [kind for kind, accepted in moves if not accepted]
    assert len(said["dpgplvm.climb", "DEBUG"]) >= len(STAGES)
    assert f"bound {model.elbo_:.3f}" in said["dpgplvm.climb", "DEBUG"][-1]


def test_iterations_of_given_groups_are_those_of_the_fit(table):
    heard = []
    model = mrd().fit(table, callback=heard.append)
    assert [progress.iteration for progress in heard] == list(range(1, len(heard) + 1))
    last = [progress for progress in heard if progress.stage == "last climb"]
    assert last == heard[-model.n_iter_ :]
    np.testing.assert_allclose([progress.bound for progress in last], model.history_[1:], rtol=1e-12)
    assert {progress.n_groups for progress in heard} == {2}
    assert {progress.stage for progress in heard} == {"beginnings", "last climb"}
    # The last climb goes on from the highest of the beginnings.
    assert model.history_[0] >= max(progress.bound for progress in heard[: -model.n_iter_]) - 1e-9


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_a_callback_can_end_a_search(told, table, share):
    whole, heard, _ = told
    last = 1 + int(share * (len(heard) - 1))
    calls = []

    def stop(progress):
        calls.append(progress)
        return progress.iteration == last

    model = clone(whole).fit(table, callback=stop)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert len(calls) == last
    assert np.isfinite(model.elbo_)
    # Moves raise the corrected bound, climbs the bound itself: what was cut off is not ahead in both.
    rounding = 1e-6 * abs(whole.elbo_)
    ahead = model.corrected_bound_ - whole.corrected_bound_, model.elbo_ - whole.elbo_
    assert min(ahead) <= rounding
    assert model.transform(table).shape == (30, model.n_latents_)


@pytest.mark.filterwarnings("ignore::dpgplvm.FitWarning")
@pytest.mark.parametrize("changes", [{}, {"optimiser": "paper", "max_iter": 100}], ids=str)
def test_a_callback_can_end_a_fit(table, changes):
    model = mrd(**changes).fit(table, callback=lambda progress: progress.iteration >= 4)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert model.n_iter_ < 20
    assert "by Ctrl-C or by its callback" in model.summary()


def test_what_a_callback_raises_comes_through_and_loses_nothing(table):
    model = mrd(max_iter=3).fit(table)
    before = model.elbo_, model.latents_

    def broken(progress):
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        model.set_params(random_state=1).fit(table, callback=broken)
    assert (model.elbo_, model.latents_) == before


def test_what_cannot_be_called_is_refused(table):
    with pytest.raises(TypeError, match="callback is a int: give a function of one argument"):
        mrd().fit(table, callback=3)


def test_other_processes_tell_when_a_start_has_ended(table, hurry_elsewhere):
    heard = []

    def stop(progress):
        heard.append(progress)
        return "has ended" in progress.stage

    model = dpgplvm(n_starts=2, n_jobs=2).fit(table, callback=stop)
    ended = [progress.stage for progress in heard if "start" in progress.stage]
    assert len(ended) == 1
    assert ended[0] in {f"start {number} of 2 has ended" for number in (1, 2)}
    assert model.outcome_ is Outcome.INTERRUPTED
    assert len(model.starts_) == 1


def test_starts_are_named(table):
    heard = []
    dpgplvm(n_starts=2).fit(table, callback=heard.append)
    starts = list(dict.fromkeys(progress.stage.split(",")[0] for progress in heard))
    assert starts == ["one group", "start 1 of 2", "start 2 of 2"]


def test_nothing_is_shown_unless_it_is_asked_for(table, capfd):
    mrd().fit(table)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [1, 2, True])
def test_without_a_terminal_there_are_lines_on_stderr(table, capfd, verbose):
    mrd(verbose=verbose).fit(table)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "beginnings\nlast climb\n"


IN_A_TERMINAL = """
import numpy as np
from dpgplvm import BayesianGPLVM
Y = np.random.default_rng(0).normal(size=(30, 1)) * np.ones(6) + 0.1 * np.random.default_rng(1).normal(size=(30, 6))
model = BayesianGPLVM(n_latents=1, n_inducing=5, max_iter=200, tol=0.0, kernel="linear", random_state=0, verbose=1)
model.fit(Y)
"""


def test_on_a_terminal_there_is_a_bar(hurry_elsewhere):
    """In a terminal of its own: the bar is drawn there, says what it should, and is gone at the end."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 160))
    command = [sys.executable, "-W", "ignore", "-c", IN_A_TERMINAL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as run:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        assert run.stdout.read() == ""
    os.close(ours)
    assert run.returncode == 0, shown.decode()
    drawn = shown.decode().split("\r")
    assert any("beginnings: " in line and "at most " in line and ", bound -" in line for line in drawn)
    assert all("1 group," in line for line in drawn if "bound" in line)
    assert drawn[-1].strip() == drawn[-2].strip() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_bar_says_what_is_left_only_where_that_is_known(monkeypatch, verbose):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown(verbose, None) as reporter:
        reporter.enter("moves")
        callback = reporter.of_climb(2)
        callback(1, -30.0)
        reporter.moved("split: 1 to 2 groups", accepted=True)
        reporter.moved("merge: 2 to 1 groups", accepted=False)
        reporter.enter("last climb", 100)
        callback = reporter.of_climb(1)
        callback(1, -20.0)
    text = terminal.getvalue()
    assert "moves: 1 iterations, bound -30.0, 2 groups, 0 s in all" in text or "moves: 0 iterations" in text
    assert "last climb:   0%|" in text or "last climb:   1%|" in text
    assert text.count("at most") == text.count("last climb: ")
    assert ("split: 1 to 2 groups\n" in text) == (verbose == 2)
    assert "merge" not in text


def test_a_bar_counts_within_its_stage(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Bar(1)
    bar.show(Progress("moves", 7, -1.0, 1, 0.0))
    assert (bar._bar.n, bar._bar.total) == (1, None)
    bar.show(Progress("moves", 9, -1.0, 1, 0.0))
    assert bar._bar.n == 3
    bar.show(Progress("last climb", 10, -1.0, 1, 0.0, 99))
    assert (bar._bar.n, bar._bar.total) == (1, 100)
    bar.show(Progress("last climb", 59, -1.0, 1, 0.0, 50))
    assert (bar._bar.n, bar._bar.total) == (50, 100)
    bar.close()


@pytest.mark.parametrize(("after", "accepted"), [(-90.04, True), (None, False)])
def test_moves_are_told(caplog, after, accepted):
    lines, log = [], []
    reporter = Reporter(on_line=[lines.append])
    with caplog.at_level(logging.DEBUG, "dpgplvm.search"):
        note(Move("split", 1, 2, -100.0, after, accepted), log, reporter)
    (record,) = caplog.records
    outcome = "-90.0" if accepted else "given up"
    assert record.getMessage() == f"split: 1 to 2 groups, corrected bound -100.0 to {outcome}"
    assert record.levelname == ("INFO" if accepted else "DEBUG")
    assert lines == ([record.getMessage()] if accepted else [])
    assert [move.kind for move in log] == ["split"]


def test_only_the_thread_of_the_fit_is_heard():
    heard = []
    reporter = Reporter([heard.append], [heard.append])
    with ThreadPoolExecutor(1) as other:
        other.submit(reporter.enter, "elsewhere").result()
        assert not other.submit(reporter.of_climb(1), 1, -1.0).result()
    assert heard == []
    assert not reporter.of_climb(1)(1, -1.0)
    assert len(heard) == 1


def test_a_copy_in_another_process_is_silent():
    reporter = Reporter([print], [print])
    assert pickle.loads(pickle.dumps(reporter))._on_progress == ()


def test_whoever_has_ended_a_fit_need_not_do_it_again():
    reporter = Reporter([lambda progress: progress.iteration == 2])
    callback = reporter.of_climb(1)
    assert [callback(iteration, -1.0) for iteration in (1, 2, 3)] == [False, True, True]
    assert reporter.of_climb(1)(1, -1.0)


def test_a_watch_can_end_a_climb_without_ending_the_fit():
    reporter = Reporter()
    assert reporter.of_climb(1, lambda iteration, bound: iteration > 1)(2, -1.0)
    assert not reporter.of_climb(1)(1, -1.0)
