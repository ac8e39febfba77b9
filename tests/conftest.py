"""What every test shares: checked shapes, float64 on request, and few but repeatable random examples."""

from __future__ import annotations

import os
import threading
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from browser import browser, visits  # noqa: F401
from jaxtyping import install_import_hook

# Modules of dpgplvm.model in which annotations cannot be enforced, and why.
_UNCHECKED = {
    "state",  # its dataclasses are trees that JAX rebuilds around leaves of any kind: NumPy arrays, axes, names
}


def _check_shapes() -> None:
    """Enforce the shapes in the signatures of dpgplvm.model; must run before anything imports dpgplvm."""
    # Not find_spec("dpgplvm.model"), which would import the package to find the folder in it.
    package = Path(find_spec("dpgplvm").origin).parent
    names = {path.stem for path in (package / "model").iterdir() if not path.name.startswith("_")}
    install_import_hook([f"dpgplvm.model.{name}" for name in sorted(names - _UNCHECKED)], "beartype.beartype")


_check_shapes()

# What one process has compiled, the others need not compile again: workers, commands, and the next run.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
# What runs a few times is not worth optimising: half of the time that tests took was compiling.
if "COMPILE_AS_FOR_USERS" not in os.environ:
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    hurry = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {hurry}"
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are drawn, not shown

hypothesis.settings.register_profile("repeatable", max_examples=15, deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="module", autouse=True)
def few_memory_maps():
    """As a fit does before it starts; some modules compile much without one."""
    from dpgplvm.numerics import forget_compiled_functions_if_many

    yield
    forget_compiled_functions_if_many()


@pytest.fixture(scope="module")
def float64():
    """Compute as a fit does. For a whole module, because hypothesis runs many examples within one test."""
    from dpgplvm.numerics import computing

    with computing():
        yield


@pytest.fixture
def failing(monkeypatch):
    """Let evaluations of the main thread, where Ctrl-C arrives, fail by their number and how many groups are held;
    returns the latter of every call."""

    def install(fails, trouble):
        from dpgplvm.inference.objective import Objective

        evaluate, calls = Objective.evaluate, []

        def evaluating(self, free):
            if threading.current_thread() is not threading.main_thread():
                return evaluate(self, free)
            calls.append(len(set(self._phi.argmax(axis=1).tolist())) if self._held else 0)
            if fails(len(calls), calls[-1]):
                raise trouble
            return evaluate(self, free)

        monkeypatch.setattr(Objective, "evaluate", evaluating)
        return calls

    return install
