"""Runs of a benchmark: each with a core to itself, logged at once, and not repeated where the log has them already."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Task = Any  # a NamedTuple, whose fields tell runs apart in the log
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def done_and_new(
    tasks: Sequence[Task],
    work: Callable[[Task], Record],
    progress: Callable[[Record], str],
    arguments: argparse.Namespace,
) -> Iterator[Record]:
    """What the log has of these tasks, then the others as they finish, each logged at once. (With --logged no others.)

    Workers call `work`, a function that they can import, on one task after another; `progress` is a line about a run.
    """
    logged, digest = read_log(arguments.log, tasks), source_digest()
    done = [logged[task] for task in tasks if task in logged]
    others = sum(record.get("library") != digest for record in done)
    if others:
        print(f"{others} runs of {arguments.log} are of another version of the library", file=sys.stderr)
    yield from done
    new = [] if arguments.logged else [task for task in tasks if task not in logged]
    for i, record in enumerate(results(new, work, arguments.jobs), 1):
        record = _short(record) | {"library": digest}
        if arguments.log:
            Path(arguments.log).parent.mkdir(parents=True, exist_ok=True)
            with open(arguments.log, "a") as file:
                file.write(json.dumps(record) + "\n")
        print(f"[{i}/{len(new)}] {progress(record)}", file=sys.stderr, flush=True)
        yield record


def _short(numbers: Any) -> Any:
    """The same with six digits: a log of a thousand runs is not for rounding errors."""
    if isinstance(numbers, dict):
        return {name: _short(part) for name, part in numbers.items()}
    return float(f"{numbers:.6g}") if isinstance(numbers, float) else numbers


def read_log(file: str | None, tasks: Sequence[Task]) -> dict[Task, Record]:
    """Finished runs by their task; failed ones are left out, and so are tried again."""
    if file is None or not tasks or not Path(file).exists():
        return {}
    kind = type(tasks[0])
    records = [json.loads(line) for line in Path(file).read_text().splitlines() if line.strip()]
    return {kind(*(one[name] for name in kind._fields)): one for one in records if "error" not in one}


def results(tasks: Sequence[Task], work: Callable[[Task], Record], n_jobs: int) -> Iterator[Record]:
    """Records in the order in which they are finished."""
    # Workers inherit these before they load NumPy or JAX, which read them only once.
    os.environ.update(_ONE_THREAD)
    context = multiprocessing.get_context("spawn")
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    cores = context.Queue()
    for worker in range(n_jobs):
        cores.put(usable[worker % len(usable)])
    pool = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_start_worker, initargs=(cores,))
    try:
        for future in as_completed([pool.submit(_attempt, work, task) for task in tasks]):
            yield future.result()
    except BaseException:
        # What they are at is lost, but not what is in the log; left alone, they would finish two runs each first.
        for worker_process in multiprocessing.active_children():
            worker_process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(cores: Any) -> None:
    """Give this worker a core of its own; threads of any library that it loads later stay on it."""
    core = cores.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def _attempt(work: Callable[[Task], Record], task: Task) -> Record:
    """In a worker. A method that fails is a result too: the others go on."""
    try:
        return task._asdict() | work(task)
    except Exception as error:
        return task._asdict() | {"error": f"{type(error).__name__}: {error}"}


def source_digest() -> str:
    """Tells apart runs of different versions of the library, without importing it."""
    spec = importlib.util.find_spec("dpgplvm")
    package = Path(spec.origin).parent if spec and spec.origin else Path()
    sources = sorted(package.rglob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="n", help="workers (one a core)")
    parser.add_argument("--log", metavar="FILE", help="append each finished run to FILE, and skip those in it")
    parser.add_argument("--logged", action="store_true", help="tell what the log has, and run nothing")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to FILE")


def named(
    parser: argparse.ArgumentParser, given: str | None, known: Sequence[str], default: Sequence[str] | None = None
) -> list[str]:
    """The names that were given, in the order in which they are known."""
    chosen = set(given.split(",")) if given else set(default or known)
    if chosen - set(known):
        parser.error(f"there is no {', '.join(sorted(chosen - set(known)))}: choose from {', '.join(known)}")
    return [name for name in known if name in chosen]


def conclude(suite: Callable[[argparse.Namespace], dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Run it to the end or to an interruption, and write its numbers where that is asked for."""
    if arguments.logged and not (arguments.log and Path(arguments.log).exists()):
        sys.exit(f"--logged tells what a log has: give one that is there with --log, not {arguments.log}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        numbers = suite(arguments)
    except KeyboardInterrupt:
        sys.exit(f"interrupted; finished runs are in {arguments.log}" if arguments.log else "interrupted")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers, indent=1))
