"""Does the library find the groups? Simulated and real tables, beside methods that are told the number of groups.

    python benchmarks/structure.py [--quick] [--seeds n] [--only name,name] [--methods name,name]
                                   [--jobs n] [--log FILE] [--logged] [--json FILE] [--picture FILE] [--linear-test]

DPGPLVM runs with its defaults, and is never told the number of groups. Every run has one core to itself: seconds are
those of a single core, and the first run of a shape in a worker includes compiling. Finished runs go to the log at
once, and runs that are in it already are not repeated, so a long run can be resumed.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
import structure_linear
from runner import add_options, conclude, done_and_new, named
from structure_methods import METHODS, SLOW_PEERS, run
from structure_picture import draw
from structure_report import Record, block, goal_lines, goals, summarise
from structure_sets import REAL, SIMULATED, is_there, load

_QUICK_SETS = ("toy_equal", "three_groups", "one_group", "holzinger_swineford")
_MOST_COLUMNS_OF_PEERS = 70
_LINEAR_TEST = "linear_test"


class Task(NamedTuple):
    """One run, to be done by a worker."""

    set: str
    seed: int
    method: str  # or the kernel, in the linear test


def tasks_of_suite(names: list[str], arguments: argparse.Namespace) -> list[Task]:
    """All runs, the longest first, so that no worker is left with a long one at the end."""
    costs: dict[Task, float] = {}
    for name in names:
        n_rows, n_columns = load(name, 0).Y.shape
        # Roughly: a kernel for each of some groups, or for each column.
        n_kernels = {"dpgplvm": 20, "paper": 20, "mrd": n_columns}
        for method in arguments.methods:
            for seed in range(arguments.seeds if name in SIMULATED else arguments.real_seeds):
                if method in SLOW_PEERS and (seed >= arguments.peer_seeds or n_columns > _MOST_COLUMNS_OF_PEERS):
                    continue
                costs[Task(name, seed, method)] = n_rows * n_columns * n_kernels.get(method, 0)
    return sorted(costs, key=lambda task: -costs[task])


def work(task: Task) -> Record:
    return structure_linear.trial(task.seed, task.method) if task.set == _LINEAR_TEST else run(*task)


def progress(record: Record) -> str:
    """One line about one run."""
    about = f"{record['set']} seed {record['seed']} {record['method']}: "
    if "error" in record:
        return about + record["error"]
    if "answers" not in record:
        return about + f"{record['n_right']} of {record['n_decisions']} right"
    answers = [f"{kind} {one['n_groups']}, ARI {one['ari']:.2f}" for kind, one in record["answers"].items()]
    return about + f"{'; '.join(answers)}; {record['seconds']:.1f} s"


def suite(arguments: argparse.Namespace) -> dict[str, Any]:
    """Print the table of every set as soon as its last run is done, then the goals, and draw the picture."""
    names = [name for name in arguments.only if is_there(name)]
    for name in sorted(set(arguments.only) - set(names)):
        print(f"{name}: skipped, {name}.npz is not in ../shared/data")
    tasks = tasks_of_suite(names, arguments)
    left = {name: sum(task.set == name for task in tasks) for name in names}
    print(f"{len(tasks)} runs; seconds are the median over seeds, on a single core, {arguments.jobs} side by side\n")
    records: list[Record] = []
    for record in done_and_new(tasks, work, progress, arguments):
        records.append(record)
        name = record["set"]
        left[name] -= 1
        if not left[name]:
            print(block_of(name, [one for one in records if one["set"] == name], arguments), flush=True)
    summary = summarise(records)
    reached = goals(summary)
    if reached:
        print(goal_lines(reached) + "\n")
    draw(records, arguments.picture)
    print(f"picture: {arguments.picture}")
    return {"runs": records, "summary": summary, "goals": [goal._asdict() for goal in reached]}


def block_of(name: str, records: list[Record], arguments: argparse.Namespace) -> str:
    table = load(name, 0)
    counts = " or ".join(str(len(np.unique(labels))) for labels in table.groupings.values())
    if table.Y.shape[1] > _MOST_COLUMNS_OF_PEERS:
        notes = [f"{', '.join(SLOW_PEERS)}: not run on more than {_MOST_COLUMNS_OF_PEERS} columns"]
    else:
        notes = [] if arguments.peer_seeds else [f"{', '.join(SLOW_PEERS)}: not run (--peer-seeds 0)"]
    return block(name, table.Y.shape, counts, records, notes)


def linear_test(arguments: argparse.Namespace) -> dict[str, Any]:
    """The test of linear, nonlinear and irrelevant effects, in place of the tables."""
    tasks = [Task(_LINEAR_TEST, seed, kernel) for kernel in structure_linear.KERNELS for seed in range(arguments.seeds)]
    records = list(done_and_new(tasks, work, progress, arguments))
    summary = structure_linear.summarise(records)
    print(structure_linear.lines(summary))
    return {"runs": records, "summary": summary}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seeds of four sets, without the slow peers")
    parser.add_argument("--seeds", type=int, metavar="n", help="seeds of a simulated set (20)")
    parser.add_argument("--real-seeds", type=int, default=1, metavar="n", help="starts on a real table (1)")
    parser.add_argument("--peer-seeds", type=int, metavar="n", help="seeds of the paper's recipe and of MRD (3)")
    parser.add_argument("--only", metavar="name,name", help=f"of {', '.join([*SIMULATED, *REAL])}")
    parser.add_argument("--methods", metavar="name,name", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--linear-test", action="store_true", help="linear, nonlinear and irrelevant effects instead")
    add_options(parser)
    parser.add_argument("--picture", default="structure.png", metavar="FILE", help="draw to FILE (structure.png)")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.seeds = (2 if quick else 20) if arguments.seeds is None else arguments.seeds
    arguments.peer_seeds = (0 if quick else 3) if arguments.peer_seeds is None else arguments.peer_seeds
    arguments.only = named(parser, arguments.only, [*SIMULATED, *REAL], _QUICK_SETS if quick else None)
    arguments.methods = named(parser, arguments.methods, list(METHODS))
    return arguments


def main() -> None:
    arguments = parsed()
    conclude(linear_test if arguments.linear_test else suite, arguments)


if __name__ == "__main__":
    main()
