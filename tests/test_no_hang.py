"""Nothing that can hang: no batched LAPACK call in any compiled function, and a soak that has to come to an end. Nor
an M x M matrix for every row.

On a CPU, jaxlib runs a batched factorisation or solve on the same thread pool that waits for it; with as many of them
in flight as there are threads, the program waits for ever. Whether it does is a matter of luck, so the compiled
functions are searched for such calls instead.
"""

import ast
import importlib
import inspect
import itertools
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import jax.lax.linalg
import jax.numpy as jnp
import numpy as np
import pytest

import dpgplvm
from dpgplvm.inference import compiling
from dpgplvm.inference.compiling import Compiled
from dpgplvm.inference.mixed import MixedVariables
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.latents import Marginals
from dpgplvm.model.per_column import Columns
from dpgplvm.model.posterior import Diagonal, Functions
from dpgplvm.model.rows import RowCoefficients
from dpgplvm.model.state import Free, State
from dpgplvm.model.sticks import Concentration, Sticks
from dpgplvm.model.table import Table
from dpgplvm.numerics import double_precision

N, D, Q, M, T = 7, 4, 3, 5, 2
LAPACK = {primitive.name for name, primitive in vars(jax.lax.linalg).items() if name.endswith("_p")}
COMPILERS = {"jit", "pjit", "pmap", "filter_jit", "runs_fast", "compiles_fast"}


def modules():
    names = [found.name for found in pkgutil.walk_packages(dpgplvm.__path__, "dpgplvm.")]
    return [importlib.import_module(name) for name in ["dpgplvm", *names] if not name.endswith("__main__")]


def compiled_functions():
    """Every function of the package that was compiled where it is defined, by its full name."""
    found = {}
    for module in modules():
        classes = [value for value in vars(module).values() if inspect.isclass(value)]
        for holder in (module, *classes):
            if getattr(holder, "__module__", module.__name__) == module.__name__:
                for name, value in vars(holder).items():
                    if isinstance(value, Compiled) and value.__module__ == module.__name__:
                        found[f"{module.__name__}.{name}"] = value.jitted
    return found


COMPILED = compiled_functions()


TABLES = {
    "complete": Table.of(np.zeros((N, D))),
    "gaps": Table.of(np.where(np.eye(N, D, dtype=bool), np.nan, 0.0)),
}


def samples(kernel, noise):
    """A small value for every name that a parameter of a compiled function goes by; a list where there is a choice."""
    of_columns = noise == "column"
    log_theta = {name: np.zeros((T, *parameter.shape(Q))) for name, parameter in kernel.parameters.items()}
    latents = {"mean": np.zeros((N, Q)), "log_variance": np.zeros((N, Q))}
    log_noise, log_scale = (np.zeros(D), np.zeros(D)) if of_columns else (np.zeros(T), None)
    free = Free(latents, np.zeros((M, Q)), log_theta, log_noise, log_scale)
    marginals = Marginals(np.zeros((N, Q)), np.ones((N, Q)))
    sticks = Sticks(np.ones(T - 1), np.ones(T - 1), np.ones(()), np.ones(()))
    phi = np.full((D, T), 1.0 / T)
    every_variable = {"free": free, "logits": phi} | dict.fromkeys(("log_a", "log_b"), np.zeros(T - 1))
    every_variable |= dict.fromkeys(("log_shape", "log_rate"), np.zeros(()))
    one_group = {name: value[0] for name, value in log_theta.items()}
    with double_precision():
        features = jax.eval_shape(kernel.psi2_features, one_group, *marginals, free.inducing)
    squares, quadratic = (jax.tree.map(lambda part, n=n: np.zeros((n, part.shape[1])), features) for n in (D, N))
    functions = Functions(np.zeros((M, D)), squares, np.ones(D))
    diagonal = Diagonal(np.zeros((1, M, M)), np.zeros((D, M)), np.zeros((D, M)), np.ones(D), np.zeros(D, dtype=int))
    coefficients = RowCoefficients(np.zeros((N, M)), quadratic, np.zeros(N), np.zeros(N))
    noise_of_columns = Columns(np.ones(D), np.ones(D)) if of_columns else np.ones(())
    shared = {
        "model": Model(kernel),
        "free": free,
        "latents": latents,
        "state": State(free, phi, sticks),
        "marginals": marginals,
        "inducing": free.inducing,
        "table": list(TABLES.values()),
        "F": np.zeros((D, T)),
        "phi": phi,
        "held": None,
        "start": sticks,
        "prior": Concentration(),
        "jitter": 1e-6,
        "step": 1e-3,
        "adjoints": (log_theta, log_noise, log_scale, free.inducing, marginals),
        "block": [None, 3],
        "theta": {name: np.exp(value) for name, value in one_group.items()},
        "noise": noise_of_columns,
        "functions": functions,
        "diagonal": diagonal,
        "coefficients": coefficients,
        "rows": marginals,
        "X": np.zeros((N, Q)),
        "directions": np.eye(Q),
        "places": np.zeros((N, 2 * Q)),
        "shares": np.ones(D),
        "noise_precision": np.ones(D),
        "values": np.zeros((N, D)),
        "observed": np.ones((N, D)),
        "mixed": [False] if of_columns else [False, True],
        "whereabouts": Whereabouts.anywhere(np.ones(Q, dtype=bool)),
        "points": np.zeros((N, Q)),
        "scales": np.ones(2),
    }
    of_group = {"log_theta": one_group, "log_noise": free.log_noise(0), "weights": np.ones(D)}
    own = {
        "dpgplvm.inference.objective._for_many_evaluations": of_group,
        "dpgplvm.inference.objective._for_a_few_evaluations": of_group,
        "dpgplvm.inference.axes._slopes": {"weights": np.ones((T, M, D))},
        "dpgplvm.results._relevance": {"weights": np.ones((T, M, D))},
        "dpgplvm.inference.mixed._evaluate": {"variables": MixedVariables(free, phi)},
        "dpgplvm.inference.paper._steps": {"variables": every_variable, "velocity": every_variable},
    }
    return shared, own


# The paper's bound and the paper's optimiser, where noise belongs to groups.
ONLY_OF_GROUPS = {"dpgplvm.inference.mixed._evaluate", "dpgplvm.inference.paper._steps"}


def traces(name, kernel):
    """The function's jaxpr, for every combination of what its arguments can be."""
    for noise in ("group",) if name in ONLY_OF_GROUPS else ("group", "column"):
        yield from traces_with(noise, name, kernel)


def traces_with(noise, name, kernel, **chosen):
    shared, own = samples(kernel, noise)
    parameters = inspect.signature(COMPILED[name]).parameters
    known = {**shared, **own.get(name, {}), **chosen}
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        pytest.fail(f"{name} is compiled, but has no sample for {', '.join(unknown)}: add it to samples() in this file")
    choices = [
        known[parameter] if isinstance(known[parameter], list) else [known[parameter]] for parameter in parameters
    ]
    for chosen in itertools.product(*choices):
        with double_precision():
            yield COMPILED[name].trace(**dict(zip(parameters, chosen, strict=True))).jaxpr


def equations(jaxpr):
    """Everything that is computed, however deep inside."""
    if hasattr(jaxpr, "jaxpr"):  # with its constants
        yield from equations(jaxpr.jaxpr)
    elif hasattr(jaxpr, "eqns"):
        for equation in jaxpr.eqns:
            yield equation
            yield from equations(equation.params)
    elif isinstance(jaxpr, dict):
        yield from equations(tuple(jaxpr.values()))
    elif isinstance(jaxpr, tuple | list):
        for part in jaxpr:
            yield from equations(part)


def lapack_calls(jaxpr):
    """(name, largest number of dimensions of an operand) of every LAPACK call."""
    for equation in equations(jaxpr):
        if equation.primitive.name in LAPACK:
            yield equation.primitive.name, max(operand.aval.ndim for operand in equation.invars)


@pytest.mark.parametrize("kernel", NAMED_KERNELS)
@pytest.mark.parametrize("name", sorted(COMPILED))
def test_no_compiled_function_batches_lapack_or_has_a_matrix_for_every_row(name, kernel):
    for jaxpr in traces(name, NAMED_KERNELS[kernel]):
        batched = [call for call, dimensions in lapack_calls(jaxpr) if dimensions > 2]
        assert not batched, f"{name} calls {', '.join(batched)} in a batch: loop with lax.map or lax.scan instead"
        shapes = {getattr(value.aval, "shape", ()) for equation in equations(jaxpr) for value in equation.outvars}
        assert (N, M, M) not in shapes, f"{name} has N x M x M numbers: see Kernel.psi2_features"


@pytest.mark.parametrize(
    ("noise", "table", "wanted"),
    [
        ("group", "complete", {"cholesky": 2, "triangular_solve": 2}),
        ("column", "complete", {"cholesky": 1, "triangular_solve": 1, "eigh": 1}),
        (
            "group",
            "gaps",
            {"cholesky": 3, "triangular_solve": 3},
        ),  # of columns, once for the value, once for the adjoint
        ("column", "gaps", {"cholesky": 3, "triangular_solve": 3}),
    ],
)
def test_search_sees_the_factorisations_that_are_there(noise, table, wanted):
    name = "dpgplvm.inference.objective._for_many_evaluations"
    for jaxpr in traces_with(noise, name, NAMED_KERNELS["rbf"], table=TABLES[table]):
        calls = Counter(lapack_calls(jaxpr))
        assert all(calls[call, 2] >= times for call, times in wanted.items())


def test_search_sees_into_everything():
    """A batch in a scan, a branch, a loop, a custom gradient, a recomputation, each inside a compiled function."""
    batched = jax.vmap(jnp.linalg.cholesky)
    custom = jax.custom_vjp(batched)
    custom.defvjp(lambda x: (batched(x), x), lambda x, cotangent: (jax.vmap(jnp.linalg.inv)(x) * cotangent,))
    hiding = {
        "scan": lambda x: jax.lax.scan(lambda carry, _: (batched(carry), None), x, None, length=2)[0],
        "cond": lambda x: jax.lax.cond(x[0, 0, 0] > 0, batched, lambda x: x, x),
        "while": lambda x: jax.lax.while_loop(lambda x: x[0, 0, 0] > 0, batched, x),
        "custom_vjp": custom,
        "remat": jax.checkpoint(batched),
        "jit": jax.jit(batched),
    }
    stack = jnp.stack([jnp.eye(2)] * 3)
    for where, function in hiding.items():
        assert ("cholesky", 3) in set(lapack_calls(jax.jit(function).trace(stack).jaxpr)), where
    slope = jax.jit(jax.grad(lambda x: custom(x).sum())).trace(stack).jaxpr
    assert {call for call, dimensions in lapack_calls(slope) if dimensions == 3} >= {
        "cholesky",
        "lu",
        "triangular_solve",
    }


def test_search_knows_every_compiled_function():
    """What the source compiles, it compiles where it defines it: inside another function it would escape the search."""
    assert COMPILED
    for module in modules():
        if module is compiling:  # what all others compile with
            continue
        tree = ast.parse(Path(module.__file__).read_text())
        named = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in COMPILERS]
        named += [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in COMPILERS]
        found = [value for value in COMPILED.values() if value.__module__ == module.__name__]
        assert len(named) == len(found), (
            f"{module.__name__} compiles on lines {named}, but of these were found: {found}"
        )


SOAK = """
import sys

import jax
import numpy as np
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.start import start_from_embedding
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF
from dpgplvm.numerics import computing

rng = np.random.default_rng(0)
Y = np.sin(rng.normal(size=(300, 10)) @ rng.normal(size=(10, 60))) + 0.1 * rng.normal(size=(300, 60))
with computing():
    model = Model(RBF())
    objective = Objective(model, Y)
    start = start_from_embedding(model, Y, n_latents=10, n_inducing=50, n_groups=10, rng=rng, noise=sys.argv[1])
    for _ in range(int(sys.argv[2])):
        here = jax.tree.map(lambda value: np.asarray(value) + 0.01 * rng.normal(size=np.shape(value)), start)
        found = objective.evaluate(here)
        assert np.isfinite(found.value)
        assert all(np.isfinite(slope).all() for slope in jax.tree.leaves(found.gradient))
print("done")
"""


LONG = [pytest.param(noise, times, marks=pytest.mark.slow) for noise, times in (("group", 200), ("column", 100))]


@pytest.mark.parametrize(("noise", "times"), [("group", 50), ("column", 30), *LONG])
def test_many_evaluations_come_to_an_end(noise, times):
    """Ten groups, ten latents, fifty inducing points: the size at which batched factorisations hung every time."""
    command = [sys.executable, "-W", "error", "-c", SOAK, noise, str(times)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout == "done\n", run.stderr
