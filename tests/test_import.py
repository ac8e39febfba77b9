"""A user's settings of JAX and BLAS are the same after a fit as before it, and fits do not get in each other's way."""

import ast
import inspect
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import dpgplvm
from dpgplvm import MRD, RBF, BayesianGPLVM
from dpgplvm.numerics import computing

IN_A_PROCESS_OF_ITS_OWN = """
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

jax.config.update("jax_enable_x64", sys.argv[1] == "float64")
settings = dict(jax.config.values)

import dpgplvm

dpgplvm.DPGPLVM
assert dict(jax.config.values) == settings, "changed by the import"
rng = np.random.default_rng(0)
Y = np.sin(rng.normal(size=(15, 2)) @ rng.normal(size=(2, 5))) + 0.1 * rng.normal(size=(15, 5))
with threadpool_limits(limits=3, user_api="blas"):
    model = dpgplvm.BayesianGPLVM(n_latents=2, n_inducing=5, max_iter=5, random_state=0).fit(Y)
    blas_threads = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
assert dict(jax.config.values) == settings, "changed by the fit"
ones = str(jnp.ones(1).dtype)
with jax.enable_x64(True):
    again = dpgplvm.BayesianGPLVM(n_latents=2, n_inducing=5, max_iter=5, random_state=0).fit(Y)
    inside = str(jnp.ones(1).dtype)
attributes = jax.tree.leaves([value for name, value in vars(model).items() if name.endswith("_")])
print(
    json.dumps(
        {
            "ones": ones,
            "x64": jax.config.jax_enable_x64,
            "ones in a block": inside,
            "blas threads": blas_threads,
            "bound": model.elbo_,
            "bound in a block": again.elbo_,
            "results": sorted({str(value.dtype) for value in attributes if isinstance(value, np.ndarray)}),
            "left on a device": [str(type(value)) for value in attributes if isinstance(value, jax.Array)],
        }
    )
)
"""


BEFORE_A_MODEL_IS_NEEDED = """
import pickle
import sys

import dpgplvm

assert not {"jax", "sklearn", "scipy", "pandas", "numpy"} & set(sys.modules), "imported without need"
assert set(dpgplvm.__all__) <= set(dir(dpgplvm))
assert not hasattr(dpgplvm, "no_such_name") and not hasattr(dpgplvm, "__wrapped__")
everything = {}
exec("from dpgplvm import *", everything)
assert set(dpgplvm.__all__) <= set(everything)
assert dpgplvm.advice.FitWarning is sys.modules["dpgplvm.advice"].FitWarning
assert dpgplvm.datasets.make_views
model = pickle.loads(pickle.dumps(dpgplvm.MRD(n_latents=3)))
assert type(model) is dpgplvm.MRD is dpgplvm.estimators.MRD and model.n_latents == 3
"""


def test_the_package_imports_what_it_needs_when_it_is_asked():
    command = [sys.executable, "-W", "error", "-c", BEFORE_A_MODEL_IS_NEEDED]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr


def test_type_checkers_are_told_the_same_names():
    tree = ast.parse(inspect.getsource(dpgplvm))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {f"{node.module}.{alias.name}" for node in block.body for alias in node.names}
    assert told == {f"dpgplvm.{home}.{name}" for home, names in dpgplvm._HOMES.items() for name in names}
    assert {place.rpartition(".")[2] for place in told} | {"__version__"} == set(dpgplvm.__all__)


@pytest.fixture(scope="module")
def after_a_fit():
    """What the user's side of a process sees after an import and a fit, in float32 (JAX's default) and in float64."""
    seen = {}
    for setting in ("float32", "float64"):
        quiet = ["-W", "error", "-W", "ignore:the bound was still rising"]
        command = [sys.executable, *quiet, "-c", IN_A_PROCESS_OF_ITS_OWN, setting]
        run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert run.returncode == 0, run.stderr
        seen[setting] = json.loads(run.stdout)
    return seen


@pytest.mark.parametrize("setting", ["float32", "float64"])
def test_settings_of_jax_are_untouched(after_a_fit, setting):
    assert after_a_fit[setting]["ones"] == setting
    assert after_a_fit[setting]["x64"] == (setting == "float64")
    assert after_a_fit[setting]["ones in a block"] == "float64"


@pytest.mark.parametrize("setting", ["float32", "float64"])
def test_results_are_numpys_in_float64(after_a_fit, setting):
    assert after_a_fit[setting]["results"] == ["float64", "int64"]
    assert after_a_fit[setting]["left on a device"] == []


@pytest.mark.parametrize("setting", ["float32", "float64"])
def test_blas_threads_come_back_after_a_fit(after_a_fit, setting):
    assert set(after_a_fit[setting]["blas threads"]) == {3}


def test_bound_does_not_depend_on_settings_of_jax(after_a_fit):
    bounds = [seen[which] for seen in after_a_fit.values() for which in ("bound", "bound in a block")]
    assert bounds == pytest.approx([bounds[0]] * 4, rel=1e-12)


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    return np.sin(rng.normal(size=(15, 2)) @ rng.normal(size=(2, 5))) + 0.1 * rng.normal(size=(15, 5))


@pytest.fixture
def three_blas_threads():
    """A number that is neither what a fit sets nor, most likely, what the machine has."""
    # From threads that are gone: while the thread that set the limit is alive, threadpoolctl lets no other set it.
    limits = in_another_thread(lambda: threadpool_limits(limits=3, user_api="blas"))
    assert blas_threads() == {3}
    yield
    in_another_thread(limits.restore_original_limits)


def in_another_thread(function):
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@dataclass(frozen=True)
class Broken(RBF):
    """A kernel that notes what it finds when it is called, which is inside a fit, and fails."""

    def value(self, theta, X, Z):
        FOUND.append((blas_threads(), jnp.ones(1).dtype))
        raise RuntimeError("broken")


FOUND = []


@pytest.mark.usefixtures("three_blas_threads")
def test_settings_are_a_fits_own_and_come_back_when_it_fails(table):
    with pytest.raises(RuntimeError, match="broken"):
        BayesianGPLVM(n_latents=2, n_inducing=5, max_iter=1, kernel=Broken(), random_state=0).fit(table)
    assert FOUND
    assert all(found == ({1}, jnp.float64) for found in FOUND)
    assert blas_threads() == {3}
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.usefixtures("three_blas_threads")
def test_overlapping_fits_share_the_limit_and_give_it_back():
    """The limit is the process's, not the thread's: the first fit to end must not lift it for the one still running."""
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with computing():
            first_is_in.set()
            assert second_is_in.wait(timeout=30)
        first_is_out.set()

    def second():
        assert first_is_in.wait(timeout=30)
        with computing():
            second_is_in.set()
            assert first_is_out.wait(timeout=30)
            seen.append(blas_threads())

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(task) for task in (first, second)]
    for task in running:
        task.result()
    assert seen == [{1}]
    assert blas_threads() == {3}


def test_fits_in_two_threads_agree_with_fits_in_turn(table):
    estimators = [
        BayesianGPLVM(n_latents=2, n_inducing=5, max_iter=10, random_state=0),
        MRD(views=[0, 0, 1, 1, 1], n_latents=2, n_inducing=5, max_iter=10, random_state=0),
    ]

    def fit(number):
        return clone(estimators[number % 2]).fit(table), jnp.ones(1).dtype

    with ThreadPoolExecutor(2) as threads:
        # Twice each, so that the second pair overlaps in its evaluations and not only in its compilation.
        together = list(threads.map(fit, range(4)))
    in_turn = [fit(number)[0] for number in range(2)]
    for number, (model, dtype) in enumerate(together):
        assert dtype == jnp.float32
        assert model.elbo_ == pytest.approx(in_turn[number % 2].elbo_, rel=1e-10)
        np.testing.assert_allclose(model.latents_, in_turn[number % 2].latents_, rtol=0, atol=1e-8)
