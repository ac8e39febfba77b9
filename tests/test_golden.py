"""Our bound and its gradient against GPflow's, kept in golden/gpflow.json (golden/make_gpflow.py says how it was made).

GPflow's bound is the likelihood and latents terms of ours, with no constant left out; the prior over hyperparameters is
ours alone. Its closed forms for sums of kernels are exact, which makes it the witness for the RBF plus linear kernel.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from dpgplvm import Hyperprior
from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.state import Free

GOLDEN = json.loads((Path(__file__).parent / "golden" / "gpflow.json").read_text())
# So wide that the prior's gradient is below rounding.
FLAT = Hyperprior(relevance=1e10, scale=1e10, noise=1e10)
LOG_OF_NOTHING = -60.0

CASES = [
    pytest.param(problem, kernel, id=f"{kernel} {number}")
    for number, problem in enumerate(GOLDEN["problems"])
    for kernel in problem["answers"]
]


@pytest.mark.parametrize("brief", [False, True], ids=["compiled to run fast", "compiled fast"])
@pytest.mark.parametrize(("problem", "kernel"), CASES)
def test_bound_and_gradient_are_gpflows(problem, kernel, brief):
    answer = problem["answers"][kernel]
    found = evaluate(problem, kernel, brief)
    assert found.terms.likelihood + found.terms.latents == pytest.approx(answer["bound"], rel=1e-10)
    ours = in_gpflows_names(found.gradient)
    for name, wanted in answer["gradient"].items():
        wanted = np.asarray(wanted)
        np.testing.assert_allclose(ours[name], wanted, rtol=0, atol=1e-6 * np.abs(wanted).max(), err_msg=name)


def evaluate(problem, kernel, brief):
    given = {name: np.asarray(value) for name, value in problem.items() if name != "answers"}
    ours = NAMED_KERNELS[kernel.removesuffix("+bias")]
    log_theta = {name: np.log(given[name])[None] for name in ours.parameters}
    if kernel == "rbf+linear":
        log_theta["bias_variance"] = np.array([LOG_OF_NOTHING])
    free = Free(
        latents={"mean": given["mean"], "log_variance": np.log(given["variance"])},
        inducing=given["inducing"][: ours.rank(given["mean"].shape[1])],
        log_theta=log_theta,
        log_noise_precision=np.log(given["noise_precision"])[None],
    )
    model = Model(ours, hyperprior=FLAT, inferred_groups=False, jitter=GOLDEN["jitter"])
    return Objective(model, given["Y"], np.ones((given["Y"].shape[1], 1)), brief=brief).evaluate(free)


def in_gpflows_names(gradient):
    slopes = {
        "mean": gradient.latents["mean"],
        "variance": gradient.latents["log_variance"],
        "inducing": gradient.inducing,
        "noise_precision": gradient.log_noise_precision[0],
        **{name: slope[0] for name, slope in gradient.log_theta.items()},
    }
    return {name: np.asarray(slope) for name, slope in slopes.items()}
