"""Our bounds and gradients against GPy's, at parameters that are given to both.

GPy's bound is the likelihood and latents terms of ours, with no constant left out; the prior over hyperparameters is
ours alone. GPy adds a constant to the diagonal of K, ours is a share of K's mean diagonal, so GPy is given the same
number, and what our share's own dependence on the parameters adds to a gradient is added to GPy's.

Of sums of kernels GPy has exact statistics only for one kernel plus a bias. With an RBF and a linear part it turns to a
quadrature whose psi2 is wrong by several percent even where the two parts read different latents (ours agrees with a
fine quadrature to 1e-15), so the full sum is not compared here: GPflow is its witness, in test_golden.py.
"""

import warnings

import numpy as np
import pytest

from dpgplvm import MRD, BayesianGPLVM, Hyperprior
from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.state import Free

pytest.importorskip("GPy")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import GPy
    from GPy.inference.latent_function_inference import InferenceMethodList, VarDTC

# So wide that the prior's gradient is below rounding.
FLAT = Hyperprior(relevance=1e10, scale=1e10, noise=1e10)
JITTER = 1e-6
NOTHING = np.exp(-60.0)
# Rows, columns, latents, inducing points: small, larger, more columns than rows. The first two are those of
# test_golden.py, which saves compiling them twice.
SIZES = [(12, 3, 2, 5), (40, 6, 3, 10), (15, 20, 3, 8)]


class Problem:
    """A table and a place to evaluate the bound at, for one group or several."""

    def __init__(self, size, seed, smoothness=1.0, n_groups=1):
        n_rows, n_columns, n_latents, n_inducing = size
        rng = np.random.default_rng(seed)
        self.mean = rng.normal(size=(n_rows, n_latents))
        self.variance = rng.uniform(0.05, 0.9, size=(n_rows, n_latents))
        self.inducing = 1.5 * rng.normal(size=(n_inducing, n_latents))
        signal = np.sin(self.mean @ rng.normal(size=(n_latents, n_columns)))
        self.Y = signal + 0.3 * rng.normal(size=(n_rows, n_columns)) + 0.5
        self.noise_precision = rng.uniform(1.0, 10.0, size=n_groups)
        self.theta = {
            "ard_weights": smoothness * rng.uniform(0.3, 2.0, size=(n_groups, n_latents)),
            "signal_variance": rng.uniform(0.5, 2.0, size=n_groups),
            "slope_variances": rng.uniform(0.2, 1.5, size=(n_groups, n_latents)),
            "bias_variance": rng.uniform(0.2, 1.5, size=n_groups),
        }

    def free(self, kernel):
        return Free(
            latents={"mean": self.mean, "log_variance": np.log(self.variance)},
            inducing=self.inducing,
            log_theta={name: np.log(self.theta[name]) for name in NAMED_KERNELS[kernel].parameters},
            log_noise_precision=np.log(self.noise_precision),
        )

    def rbf(self, group=0):
        lengthscale = self.theta["ard_weights"][group] ** -0.5
        return GPy.kern.RBF(len(lengthscale), self.theta["signal_variance"][group], lengthscale, ARD=True)

    def linear(self):
        variances = self.theta["slope_variances"][0]
        return GPy.kern.Linear(len(variances), variances, ARD=True)

    def bias(self):
        return GPy.kern.Bias(self.mean.shape[1], self.theta["bias_variance"][0])

    def gpy(self, kernel):
        return GPy.models.BayesianGPLVM(
            self.Y,
            self.mean.shape[1],
            X=self.mean,
            X_variance=self.variance,
            Z=self.inducing,
            kernel=kernel,
            likelihood=GPy.likelihoods.Gaussian(variance=1.0 / self.noise_precision[0]),
            inference_method=self.inference(kernel),
        )

    def inference(self, kernel):
        method = VarDTC()
        method.const_jitter = JITTER * np.mean(kernel.Kdiag(self.inducing))
        return method

    def estimated_bound(self, kernel, estimator=BayesianGPLVM, **options):
        model = estimator(
            n_latents=self.mean.shape[1],
            kernel=kernel,
            hyperprior=FLAT,
            max_iter=0,
            standardise=False,
            jitter=JITTER,
            **options,
        ).fit(self.Y, start=self.free(kernel))
        terms = model.elbo_terms_
        assert set(terms) == {"likelihood", "latents", "hyperprior"}
        assert model.elbo_ == pytest.approx(sum(terms.values()), rel=1e-14)
        return terms["likelihood"] + terms["latents"]

    def gradient(self, kernel, assignments=None):
        model = Model(NAMED_KERNELS[kernel], hyperprior=FLAT, inferred_groups=False, jitter=JITTER)
        assignments = np.ones((self.Y.shape[1], 1)) if assignments is None else assignments
        found = Objective(model, self.Y, assignments).evaluate(self.free(kernel)).gradient
        slopes = {
            "mean": found.latents["mean"],
            "log variance": found.latents["log_variance"],
            "inducing": found.inducing,
            "noise_precision": found.log_noise_precision,
            **found.log_theta,
        }
        return {name: np.asarray(slope) for name, slope in slopes.items()}


def bound_of(model):
    return np.asarray(model.log_likelihood()).item()


def through_jitter(model):
    """d bound / d(mean diagonal of K) by way of our jitter, which GPy holds constant."""
    return JITTER * np.trace(model.grad_dict["dL_dKmm"])


def slopes_of_rbf(rbf, extra):
    """GPy's slopes of one RBF part, in the logarithms of our hyperparameters."""
    return {
        "ard_weights": -0.5 * rbf.lengthscale.gradient * rbf.lengthscale.values,
        "signal_variance": rbf.variance.values * (rbf.variance.gradient + extra),
    }


def slopes_of_q(model, problem):
    return {
        "mean": model.X.mean.gradient,
        "log variance": model.X.variance.gradient * problem.variance,
        "inducing": model.Z.gradient,
    }


def slope_of_noise(likelihood):
    return -likelihood.variance.gradient * likelihood.variance.values


def assert_same_gradient(ours, gpys, close):
    """Every block of the gradient to `close` of its largest entry."""
    for name, wanted in gpys.items():
        np.testing.assert_allclose(
            ours[name].reshape(wanted.shape), wanted, rtol=0, atol=close * np.abs(wanted).max(), err_msg=name
        )


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("seed", "smoothness"), [(0, 1.0), (1, 1.0), (2, 0.1)])
def test_rbf(size, seed, smoothness):
    problem = Problem(size, seed, smoothness)
    gpy = problem.gpy(problem.rbf())
    assert problem.estimated_bound("rbf") == pytest.approx(bound_of(gpy), rel=1e-9)
    wanted = slopes_of_q(gpy, problem) | slopes_of_rbf(gpy.rbf, through_jitter(gpy))
    wanted["noise_precision"] = slope_of_noise(gpy.likelihood)
    assert_same_gradient(problem.gradient("rbf"), wanted, close=1e-6)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_very_smooth_rbf(size):
    """ARD weights of a hundredth: K is nearly singular, and an adjoint that forms its inverse loses digits."""
    problem = Problem(size, seed=3, smoothness=0.01)
    gpy = problem.gpy(problem.rbf())
    assert problem.estimated_bound("rbf") == pytest.approx(bound_of(gpy), rel=1e-9)
    wanted = slopes_of_q(gpy, problem) | slopes_of_rbf(gpy.rbf, through_jitter(gpy))
    wanted["noise_precision"] = slope_of_noise(gpy.likelihood)
    assert_same_gradient(problem.gradient("rbf"), wanted, close=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_rbf_in_the_mixed_bound(seed):
    """With one group nothing is averaged, so the paper's bound is this one too."""
    problem = Problem(SIZES[0], seed)
    bound = problem.estimated_bound("rbf", bound="mixed")
    assert bound == pytest.approx(bound_of(problem.gpy(problem.rbf())), rel=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_inducing", [2, 5])
def test_linear(n_inducing, seed):
    """With as many inducing points as latents, and with more, where only the jitter makes K invertible."""
    problem = Problem((12, 3, 2, n_inducing), seed)
    gpy = problem.gpy(problem.linear())
    assert problem.estimated_bound("linear") == pytest.approx(bound_of(gpy), rel=1e-9)
    slopes, extra = problem.theta["slope_variances"][0], through_jitter(gpy) / n_inducing
    wanted = slopes_of_q(gpy, problem)
    wanted["inducing"] = wanted["inducing"] + 2.0 * extra * slopes * problem.inducing
    wanted["slope_variances"] = slopes * (gpy.linear.variances.gradient + extra * (problem.inducing**2).sum(axis=0))
    wanted["noise_precision"] = slope_of_noise(gpy.likelihood)
    if n_inducing > 2:
        # The bound does not depend on where the points are: both gradients are what rounding leaves of zero.
        del wanted["inducing"]
    assert_same_gradient(problem.gradient("linear"), wanted, close=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("part", ["rbf", "linear"])
def test_sum_with_bias(part, seed):
    """The sums for which GPy is exact, as our full sum with the third part switched off."""
    problem = Problem(SIZES[0], seed)
    gpy = problem.gpy((problem.rbf() if part == "rbf" else problem.linear()) + problem.bias())
    off = "slope_variances" if part == "rbf" else "signal_variance"
    problem.theta[off] = np.full_like(problem.theta[off], NOTHING)
    assert problem.estimated_bound("rbf+linear") == pytest.approx(bound_of(gpy), rel=1e-9)
    extra = through_jitter(gpy)
    wanted = {name: slope for name, slope in slopes_of_q(gpy, problem).items() if name != "inducing" or part == "rbf"}
    wanted["bias_variance"] = gpy.sum.bias.variance.values * (gpy.sum.bias.variance.gradient + extra)
    wanted["noise_precision"] = slope_of_noise(gpy.likelihood)
    if part == "rbf":
        wanted |= slopes_of_rbf(gpy.sum.rbf, extra)
    assert_same_gradient(problem.gradient("rbf+linear"), wanted, close=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_manifold_relevance_determination(seed):
    views = np.arange(20) % 3 // 2  # every third column is in the second view
    problem = Problem((15, 20, 3, 8), seed, n_groups=2)
    kernels = [problem.rbf(group) for group in range(2)]
    gpy = GPy.models.MRD(
        [problem.Y[:, views == group] for group in range(2)],
        3,
        X=problem.mean,
        X_variance=problem.variance,
        num_inducing=len(problem.inducing),
        kernel=kernels,
        inference_method=InferenceMethodList([problem.inference(kernel) for kernel in kernels]),
        likelihoods=[GPy.likelihoods.Gaussian(variance=1.0 / noise) for noise in problem.noise_precision],
    )
    gpy.Z[:] = problem.inducing
    # GPy's views do not hear that the inducing points, which they share, were moved.
    for part in (*gpy.bgplvms, gpy):
        part.parameters_changed()

    bound = problem.estimated_bound("rbf", MRD, views=views)
    assert bound == pytest.approx(bound_of(gpy), rel=1e-9)
    wanted = slopes_of_q(gpy, problem)
    by_view = [slopes_of_rbf(part.kern, through_jitter(part)) for part in gpy.bgplvms]
    wanted |= {name: np.stack([slopes[name] for slopes in by_view]) for name in by_view[0]}
    wanted["noise_precision"] = np.stack([slope_of_noise(part.likelihood) for part in gpy.bgplvms])
    assert_same_gradient(problem.gradient("rbf", np.eye(2)[views]), wanted, close=1e-6)
