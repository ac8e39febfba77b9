"""How well are gaps filled? The paper's Table 1 on simulated walkers and on real tables, beside other methods.

    python benchmarks/missing_data.py [--quick] [--seeds n] [--only name,name] [--methods name,name]
                                      [--splits random,block] [--row-shares 25,50] [--peer-seconds n] [--jobs n]
                                      [--log FILE] [--logged] [--json FILE] [--page FILE]

A quarter or half of the rows are unseen: rows anywhere, or one block of them. In all of these the same 10 %, 25 % or
50 % of the columns are hidden. A method is fitted once to the other rows, which are complete, and fills each share of
columns. Errors are of columns standardised by the training rows. Where a method gives no spread of its own (marked *),
it gets that of its residuals when five folds of the training rows are held out, folds of neighbours for a block.

Our models run with their defaults. Every run has one core: seconds are those that it has computed for, and the first
run of a shape in a worker includes compiling. Finished runs go to the log at once, and runs that are in it already are
not repeated, so a long run can be resumed. `results/missing_data.jsonl` is the log behind the numbers of the
documentation; with `--logged --page FILE` they are written from it alone.
"""

from __future__ import annotations

import argparse
import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

from missing_methods import METHODS
from missing_page import page
from missing_report import Record, block, goal_lines, goals, summarise
from missing_sets import ROW_SHARES, SHARED, SPLITS, WALKERS, is_there, load
from missing_trial import Task, run
from runner import add_options, conclude, done_and_new, named

HOW = "python benchmarks/missing_data.py --log benchmarks/results/missing_data.jsonl --logged --page FILE"
_QUICK_SETS = ("walkers2", "holzinger_swineford")


def tasks_of_suite(names: list[str], arguments: argparse.Namespace) -> list[Task]:
    """All runs, the longest first, so that no worker is left with a long one at the end."""
    costs: dict[Task, float] = {}
    for name in names:
        n_rows, n_columns = load(name, 0).shape if is_there(name) else (0, 0)
        # Roughly: a kernel for each of some groups, or for each column.
        n_kernels = {"dpgplvm": 20, "dpgplvm_group": 20, "mrd": n_columns, "bgplvm": 1, "gpy": 1}
        for split in arguments.splits:
            for row_share in arguments.row_shares:
                for seed in range(arguments.seeds):
                    for method in arguments.methods:
                        task = Task(name, split, row_share, seed, method)
                        costs[task] = n_rows * (1 - row_share / 100) * n_columns * n_kernels.get(method, 0)
    return sorted(costs, key=lambda task: -costs[task])


def progress(record: Record) -> str:
    """One line about one run."""
    about = f"{record['set']} {record['split']} {record['row_share']} % seed {record['seed']} {record['method']}: "
    if "error" in record:
        return about + record["error"]
    if "given_up" in record:
        return about + f"given up after {record['given_up']:.0f} s"
    cells = record["cells"]
    errors = ", ".join(f"{cell['mse']:#.3g} ({share} %)" for share, cell in cells.items())
    filling = sum(cell["impute_seconds"] for cell in cells.values())
    return about + f"MSE {errors}; {record['fit_seconds']:.1f} s to fit, {filling:.1f} s to fill"


def suite(arguments: argparse.Namespace) -> dict[str, Any]:
    """Print the tables of every set and split as soon as their last run is done, then the goals."""
    names = [name for name in arguments.only if arguments.logged or is_there(name)]
    for name in sorted(set(arguments.only) - set(names)):
        print(f"{name}: skipped, {name}.npz is not in ../shared/data")
    if "gpy" in arguments.methods and not arguments.logged and importlib.util.find_spec("GPy") is None:
        arguments.methods.remove("gpy")
        print("gpy: skipped, GPy is not installed")
    tasks = tasks_of_suite(names, arguments)
    left = {
        (name, split): sum(task[:2] == (name, split) for task in tasks) for name in names for split in arguments.splits
    }
    if not arguments.logged:
        print(f"{len(tasks)} runs, each on a single core, {arguments.jobs} side by side\n")
    records: list[Record] = []
    for record in done_and_new(tasks, partial(run, longest=arguments.peer_seconds), progress, arguments):
        records.append(record)
        left[record["set"], record["split"]] -= 1
        if not left[record["set"], record["split"]]:
            print(_block_of(records, record["set"], record["split"]), flush=True)
    for where in dict.fromkeys((record["set"], record["split"]) for record in records):
        if left[where]:  # the log does not have all of it
            print(_block_of(records, *where))
    reached = goals(records)
    if reached:
        print(goal_lines(reached))
    if arguments.page:
        Path(arguments.page).write_text(page(records, reached, HOW), encoding="utf-8")
    return {"runs": records, "summary": summarise(records), "goals": [goal._asdict() for goal in reached]}


def _block_of(records: list[Record], name: str, split: str) -> str:
    return block([one for one in records if (one["set"], one["split"]) == (name, split)])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets, slow = [*WALKERS, *SHARED], [name for name, method in METHODS.items() if method.may_take_long]
    parser.add_argument(
        "--quick", action="store_true", help=f"two sets, one seed, half of the rows unseen; not {', '.join(slow)}"
    )
    parser.add_argument("--seeds", type=int, metavar="n", help="parts and starts (3)")
    parser.add_argument("--only", metavar="name,name", help=f"of {', '.join(sets)}")
    parser.add_argument("--methods", metavar="name,name", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--splits", metavar="name,name", help=f"of {', '.join(SPLITS)}")
    parser.add_argument("--row-shares", metavar="n,n", help="percent of the rows that are unseen (25,50)")
    parser.add_argument(
        "--peer-seconds",
        type=float,
        default=600.0,
        metavar="n",
        help="give up peers and mrd after n of processor time, for good where there is a log (600)",
    )
    parser.add_argument("--page", metavar="FILE", help="also write all tables to FILE, as Markdown")
    add_options(parser)
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.seeds = (1 if quick else 3) if arguments.seeds is None else arguments.seeds
    shares = [str(share) for share in ROW_SHARES]
    arguments.row_shares = list(map(int, named(parser, arguments.row_shares, shares, shares[-1:] if quick else None)))
    arguments.only = named(parser, arguments.only, sets, _QUICK_SETS if quick else None)
    arguments.splits = named(parser, arguments.splits, SPLITS, SPLITS[:1] if quick else None)
    fast = [name for name in METHODS if name not in slow]
    arguments.methods = named(parser, arguments.methods, list(METHODS), fast if quick else None)
    return arguments


if __name__ == "__main__":
    conclude(suite, parsed())
