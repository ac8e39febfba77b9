"""Bounds and gradients of GPflow's Bayesian GP-LVM on small drawn problems, written to gpflow.json beside this file.

GPflow needs NumPy below 2, so it runs in an environment of its own, never in that of the tests:

    python3.11 -m venv gpflow-venv
    gpflow-venv/bin/pip install "gpflow==2.11.2" "numpy<2" tensorflow-cpu
    gpflow-venv/bin/python tests/golden/make_gpflow.py

One thing of GPflow's is replaced: its jitter is a constant, here it is a share of the mean diagonal of K as in dpgplvm,
so that gradients can be compared as well.
"""

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

if __name__ == "__main__":  # pytest imports this file too, in search of doctests, and there is no GPflow there
    import gpflow
    import tensorflow as tf
    from gpflow.kernels import Constant, Linear, SquaredExponential

JITTER = 1e-6
# Rows, columns, latents, inducing points, seed, and a factor on the ARD weights. Of each size one problem is smooth.
PROBLEMS = [(12, 3, 2, 5, 0, 1.0), (12, 3, 2, 5, 1, 0.1), (40, 6, 3, 10, 2, 1.0), (40, 6, 3, 10, 3, 0.1)]


def draw(n_rows, n_columns, n_latents, n_inducing, seed, smoothness):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(n_rows, n_latents))
    return {
        "mean": mean,
        "variance": rng.uniform(0.05, 0.9, size=(n_rows, n_latents)),
        "inducing": 1.5 * rng.normal(size=(n_inducing, n_latents)),
        "Y": np.sin(mean @ rng.normal(size=(n_latents, n_columns))) + 0.3 * rng.normal(size=(n_rows, n_columns)) + 0.5,
        "noise_precision": rng.uniform(1.0, 10.0),
        "ard_weights": smoothness * rng.uniform(0.3, 2.0, size=n_latents),
        "signal_variance": rng.uniform(0.5, 2.0),
        "slope_variances": rng.uniform(0.2, 1.5, size=n_latents),
        "bias_variance": rng.uniform(0.2, 1.5),
    }


def kernels(problem):
    """Every kernel, and for every hyperparameter of ours the parameter of GPflow and d log(theirs) / d log(ours)."""
    rbf = SquaredExponential(problem["signal_variance"], problem["ard_weights"] ** -0.5)
    linear, bias = Linear(problem["slope_variances"]), Constant(problem["bias_variance"])
    of_rbf = {"signal_variance": (rbf.variance, 1.0), "ard_weights": (rbf.lengthscales, -0.5)}
    of_linear, of_bias = {"slope_variances": (linear.variance, 1.0)}, {"bias_variance": (bias.variance, 1.0)}
    made = {
        "rbf": (rbf, of_rbf),
        "linear": (linear, of_linear),
        "rbf+linear": (rbf + linear, {**of_rbf, **of_linear}),
    }
    # Closed forms so far. For a constant GPflow has only quadrature, 100 nodes a latent: good to 1e-11 here, but with
    # three latents it does not fit the memory.
    if len(problem["ard_weights"]) == 2:
        made["rbf+linear+bias"] = rbf + linear + bias, {**of_rbf, **of_linear, **of_bias}
    return made


def evaluate(problem, kernel, hyperparameters):
    """The bound, and its gradient in our parametrisation: means, inducing points, logs of all that is positive."""
    # The linear kernel's covariance has rank Q: with more points than that only the jitter keeps it invertible.
    points = problem["inducing"][: problem["mean"].shape[1]] if isinstance(kernel, Linear) else problem["inducing"]
    model = gpflow.models.BayesianGPLVM(
        problem["Y"], problem["mean"], problem["variance"], kernel, inducing_variable=points
    )
    model.likelihood.variance.assign(1.0 / problem["noise_precision"])
    parameters = {
        "mean": (model.X_data_mean, None),
        "variance": (model.X_data_var, 1.0),
        "inducing": (model.inducing_variable.Z, None),
        "noise_precision": (model.likelihood.variance, -1.0),
        **hyperparameters,
    }
    gpflow.models.gplvm.default_jitter = lambda: (
        JITTER * tf.reduce_mean(kernel(model.inducing_variable.Z, full_cov=False))
    )
    with tf.GradientTape() as tape:
        bound = model.elbo()
    slopes = tape.gradient(bound, [parameter.unconstrained_variable for parameter, _ in parameters.values()])
    gradient = {}
    for (name, (parameter, power)), slope in zip(parameters.items(), slopes, strict=True):
        if power is not None:
            # From the unconstrained variable to the parameter, and from there to the logarithm of ours.
            with tf.GradientTape() as tape:
                unconstrained = tf.convert_to_tensor(parameter.unconstrained_variable)
                tape.watch(unconstrained)
                value = parameter.transform.forward(unconstrained)
            slope = power * parameter.numpy() * slope / tape.gradient(value, unconstrained)
        gradient[name] = np.asarray(slope).tolist()
    return {"bound": float(bound), "gradient": gradient}


def main():
    problems = []
    for size in PROBLEMS:
        problem = draw(*size)
        answers = {name: evaluate(problem, *kernel) for name, kernel in kernels(problem).items()}
        problems.append({name: np.asarray(value).tolist() for name, value in problem.items()} | {"answers": answers})
    written = {"gpflow": gpflow.__version__, "jitter": JITTER, "problems": problems}
    Path(__file__).with_name("gpflow.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
