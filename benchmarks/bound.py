"""How long one evaluation of the bound and its gradient takes, beside GPy's and beside the limit of the machine.

    python benchmarks/bound.py [--quick] [--json FILE]

The full model with T groups is compared with GPy's BayesianGPLVM, which has one group, and with the limit: one pass of
exponentials and the three matrix products of psi2 and its adjoint for all T groups, each timed alone. Beside it, for
every kernel, the same with a quarter of the table missing at random, and the latents of a thousand new rows. All
timings are the minimum of repeats taken in turn, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from dpgplvm.inference.objective import Objective
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.rows import infer_rows
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS, RBF, Kernel
from dpgplvm.model.state import Free
from dpgplvm.numerics import computing, double_precision

SIZES = {
    "W1": {"N": 100, "D": 20, "Q": 10, "M": 25, "T": 8},
    "W2": {"N": 300, "D": 60, "Q": 10, "M": 50, "T": 10},
    "W3": {"N": 1000, "D": 100, "Q": 8, "M": 50, "T": 10},
}
GPY_ONE, GPY_DEFAULT = "GPy, one thread", "GPy, default threads"
GOAL_OF_GAPS = 4.0
GOALS = {"W1": (1.0, None), "W2": (1.2, None), "W3": (0.8, 1.5)}


def problem(
    N: int, D: int, Q: int, M: int, T: int, settled: bool = True, kernel: Kernel = RBF(), of_columns: bool = False
) -> tuple[Free, np.ndarray]:
    """A table and a state in which every group has columns.

    Settled, each column is certain of its group, as in nearly all of a fit: groups differ in their noise, and columns
    are made with the noise of one of them. Not settled, groups are nearly alike, and every column belongs a little to
    each.
    """
    rng = np.random.default_rng(0)
    apart = np.linspace(-4.0, 4.0, T) if settled else 1e-5 * rng.normal(size=T)
    own = apart[np.arange(D) % T]
    latents = {"mean": rng.normal(size=(N, Q)), "log_variance": np.log(0.3) + 0.1 * rng.normal(size=(N, Q))}
    inducing = rng.normal(size=(M, Q))
    weights = np.tile(rng.normal(-1.0, 0.5, size=Q), (T, 1))
    free = Free(
        latents=latents,
        inducing=inducing[: kernel.rank(Q)],
        log_theta={
            name: weights if parameter.per_latent else -2.0 - apart for name, parameter in kernel.parameters.items()
        },
        log_noise_precision=own if of_columns else apart,
        log_scale=np.zeros(D) if of_columns else None,
    )
    return free, rng.normal(size=(N, D)) * np.exp(-0.5 * own)


def ours(
    size: dict[str, int],
    settled: bool = True,
    missing: float = 0.0,
    kernel: Kernel = RBF(),
    of_columns: bool = False,
) -> Callable[[], object]:
    """Evaluations at a few points in turn, near each other as the steps of an optimiser are."""
    free, Y = problem(**size, settled=settled, kernel=kernel, of_columns=of_columns)
    rng = np.random.default_rng(1)
    Y = with_gaps(Y, missing)
    points = [jax.tree.map(lambda value: value + 1e-3 * rng.normal(size=value.shape), free) for _ in range(5)]
    objective = Objective(Model(kernel), Y)
    turn = itertools.cycle(points)
    return lambda: objective.evaluate(next(turn)).value


def with_gaps(Y: np.ndarray, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(2).random(Y.shape) < share, np.nan, Y)


def seconds_for_new_rows(size: dict[str, int], kernel: Kernel, n_rows: int = 1000) -> dict[str, float]:
    """To find the latents of so many new rows, complete and with a quarter missing; compiling left out."""
    free, Y = problem(**size, kernel=kernel)
    rng = np.random.default_rng(3)
    rows = Y[rng.integers(len(Y), size=n_rows)] + 0.3 * Y.std(axis=0) * rng.normal(size=(n_rows, size["D"]))
    seconds = {}
    with computing():
        state = Objective(Model(kernel), Y).evaluate(free).state
        predictor = Predictor.of(Model(kernel), state, Y, mixed=False)
        for name, table in {"complete": rows, "a quarter missing": with_gaps(rows, 0.25)}.items():
            infer_rows(predictor, table[:300])
            start = time.perf_counter()
            infer_rows(predictor, table)
            seconds[name] = time.perf_counter() - start
    return seconds


def with_every_kernel(size: dict[str, int], repeats: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Milliseconds of an evaluation with every kernel and either noise, complete and with a quarter missing."""
    found = {}
    for kernel in NAMED_KERNELS:
        for noise in ("groups", "columns"):
            own = {"kernel": NAMED_KERNELS[kernel], "of_columns": noise == "columns"}
            best = best_of({"complete": ours(size, **own), "gaps": ours(size, missing=0.25, **own)}, repeats)
            found[kernel, noise] = best["complete"], best["gaps"]
    return found


def gpys(size: dict[str, int]) -> Callable[[], object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import GPy

        free, Y = problem(**size)
        model = GPy.models.BayesianGPLVM(
            Y,
            size["Q"],
            X=free.latents["mean"],
            X_variance=np.exp(free.latents["log_variance"]),
            Z=free.inducing,
            kernel=GPy.kern.RBF(size["Q"], ARD=True),
        )
    at = model.optimizer_array.copy()
    moved = iter(range(10**9))

    return lambda: model._objective_grads(at + 1e-9 * next(moved))  # GPy remembers the last point


def limits(size: dict[str, int]) -> dict[str, Callable[[], object]]:
    """The four parts that no exact evaluation can do without, for one group, each alone."""
    with double_precision():
        n_pairs, width = size["M"] * (size["M"] + 1) // 2, 2 * size["Q"] + 1
        rng = np.random.default_rng(0)
        rows = jnp.asarray(0.2 * rng.normal(size=(size["N"], width)))
        pairs = jnp.asarray(0.2 * rng.normal(size=(n_pairs, width)))
        exponents = rows @ pairs.T

    def part(function, *arguments):
        compiled = jax.jit(function)

        def run():
            with double_precision():
                jax.block_until_ready(compiled(*arguments))

        return run

    return {
        "exponents": part(lambda a, b: a @ b.T, rows, pairs),
        "exponentials": part(jnp.exp, exponents),
        "by row": part(lambda p, b: p @ b, exponents, pairs),
        "by pair": part(lambda a, p: a.T @ p, rows, exponents),
    }


def best_of(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Milliseconds: minimum over repeats, the functions taken in turn, five at a time.

    Several in a row, because another function's threads go on spinning for a while after its last call.
    """
    best = dict.fromkeys(functions, np.inf)
    for _ in range(repeats // 5 + 1):
        for name, function in functions.items():
            with threadpool_limits(None if name == GPY_DEFAULT else 1, user_api="blas"):
                for _ in range(6):
                    start = time.perf_counter()
                    function()
                    best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def compile_seconds(size: dict[str, int]) -> float:
    """First evaluation in a fresh process: tracing and compiling."""
    return _in_new_process(size, "first")[0]


def peak_megabytes(size: dict[str, int]) -> tuple[float, float]:
    """Seconds for one warm evaluation, and peak resident memory of the whole process, a fresh one."""
    return _in_new_process(size, "peak")


def _in_new_process(size: dict[str, int], what: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--child", what, json.dumps(size)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
    seconds, megabytes = printed.split()
    return float(seconds), float(megabytes)


def child(what: str, size: dict[str, int]) -> None:
    with computing():
        evaluate = ours(size)
        times = []
        for _ in range(1 if what == "first" else 3):
            start = time.perf_counter()
            evaluate()
            times.append(time.perf_counter() - start)
    print(min(times), _peak_of_this_process())


def _peak_of_this_process() -> float:
    """Megabytes; not from getrusage, whose peak a new process inherits from the one that started it."""
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and a smaller large table")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers to FILE")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], json.loads(arguments.child[1]))
        return

    repeats = 20 if arguments.quick else 60
    results: dict[str, object] = {}
    print(
        "size   ours  unsettled  gaps GPy x1  GPy def  limit | to GPy  goal | to limit goal | gaps goal | compile s  MB"
    )
    for name, size in SIZES.items():
        functions = {
            "ours": ours(size),
            "unsettled": ours(size, settled=False),
            "gaps": ours(size, missing=0.25),
            GPY_ONE: gpys(size),
            GPY_DEFAULT: gpys(size),
        }
        parts = limits(size)
        best = best_of(functions | parts, repeats)
        limit = size["T"] * sum(best[part] for part in parts)
        gpy = min(best[GPY_ONE], best[GPY_DEFAULT])
        to_gpy, to_limit = best["ours"] / gpy, best["ours"] / limit
        seconds, (_, megabytes) = compile_seconds(size), peak_megabytes(size)
        goal_gpy, goal_limit = GOALS[name]
        print(
            f"{name}   {best['ours']:6.2f} {best['unsettled']:9.2f} {best['gaps']:6.1f} {best[GPY_ONE]:6.2f} "
            f"{best[GPY_DEFAULT]:8.2f} {limit:6.2f} | {to_gpy:6.2f} {goal_gpy:5.1f} | {to_limit:8.2f} "
            f"{goal_limit or '':>4} | {best['gaps'] / best['ours']:4.1f} {GOAL_OF_GAPS:4.1f} | "
            f"{seconds:9.1f} {megabytes:8.0f}",
            flush=True,
        )
        results[name] = best | {"limit": limit, "to_gpy": to_gpy, "to_limit": to_limit}
        results[name] |= {"compile_seconds": seconds, "peak_megabytes": megabytes}

    print("\nW2                            complete    gaps  gaps goal")
    for (kernel, noise), (complete, gaps) in with_every_kernel(SIZES["W2"], repeats).items():
        print(
            f"{kernel:>10}, noise of {noise:<8} {complete:7.1f} {gaps:7.1f} {gaps / complete:5.1f} {GOAL_OF_GAPS:4.1f}",
            flush=True,
        )
        results[f"W2, {kernel}, noise of {noise}"] = {"complete": complete, "gaps": gaps}
    for kernel in NAMED_KERNELS:
        for name, seconds in seconds_for_new_rows(SIZES["W2"], NAMED_KERNELS[kernel]).items():
            print(f"1,000 new rows at W2, {kernel}, {name}: {seconds:.1f} s (goal: 10)", flush=True)
            results[f"new rows, {kernel}, {name}"] = seconds
    print("\nrows (D=20 Q=5 M=50 T=8)   seconds   peak MB   microseconds a row")
    for n_rows in (5_000, 20_000) if arguments.quick else (10_000, 30_000, 100_000):
        seconds, megabytes = peak_megabytes({"N": n_rows, "D": 20, "Q": 5, "M": 50, "T": 8})
        print(f"{n_rows:>26,} {seconds:9.2f} {megabytes:9.0f} {1e6 * seconds / n_rows:12.1f}", flush=True)
        results[f"N={n_rows}"] = {"seconds": seconds, "peak_megabytes": megabytes}
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
