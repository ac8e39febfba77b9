"""Seconds of a default fit of the paper's toy: the first of a process, which compiles, and the best of the next ones.

    python benchmarks/toy_time.py [repeats]

Compare on cores that are otherwise idle: a fit is thousands of evaluations of a few milliseconds on two threads.
"""

from __future__ import annotations

import sys
import time

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_views
from dpgplvm.inference.objective import Objective


def timed(seed: int) -> tuple[float, int]:
    """Seconds and evaluations of one fit."""
    table = make_views(weights=((1.0, 1.0), (1.0, 2.0)), random_state=seed)
    evaluate, count = Objective.evaluate, 0

    def counted(self, free):
        nonlocal count
        count += 1
        return evaluate(self, free)

    Objective.evaluate = counted
    try:
        start = time.perf_counter()
        DPGPLVM(random_state=seed).fit(table.Y)
        return time.perf_counter() - start, count
    finally:
        Objective.evaluate = evaluate


def main(repeats: int) -> None:
    seconds, count = timed(0)
    print(f"cold: {seconds:.1f} s, {count} evaluations", flush=True)
    warm = [timed(seed) for seed in range(repeats)]
    for seed, (seconds, count) in enumerate(warm):
        print(f"warm, seed {seed}: {seconds:.1f} s, {count} evaluations, {1e3 * seconds / count:.1f} ms each")
    print(f"warm, best of {repeats}: {min(seconds for seconds, _ in warm):.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
