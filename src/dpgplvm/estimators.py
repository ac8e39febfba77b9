"""The three models as scikit-learn estimators: thin, all of the work is in `inference` and `model`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from dpgplvm import data
from dpgplvm.latent_model import LatentModel
from dpgplvm.model.kernels import NAMED_KERNELS, Kernel
from dpgplvm.model.state import Free, State
from dpgplvm.model.sticks import Concentration

_KERNELS_TO_CHOOSE_FROM = ("rbf", "linear")  # the more flexible one first


class BayesianGPLVM(LatentModel):
    """Bayesian GP-LVM: one group, every column a function of the same latents in the same way.

    The other parameters, and the attributes, are those of :class:`DPGPLVM`; what is about the search for groups
    (`truncation`, `n_starts`, `n_jobs`, `concentration_prior`) is not there.

    Parameters
    ----------
    kernel : {"rbf", "linear", "rbf+linear"} or Kernel
    noise : {"group", "column"}
        Whether noise belongs to groups, as in the paper, or noise and scale belong to every column.

    Examples
    --------
    >>> from dpgplvm import BayesianGPLVM
    >>> from dpgplvm.datasets import make_views
    >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
    >>> BayesianGPLVM(n_latents=2, n_inducing=10, random_state=0).fit(Y).latents_.shape
    (30, 2)
    """

    def _given_groups(self, names: list[str]) -> tuple[np.ndarray, list[str]]:
        return np.zeros(len(names), dtype=int), ["all columns"]


class MRD(LatentModel):
    """Manifold relevance determination: groups of columns are given, the latents each depends on are learned.

    The other parameters, and the attributes, are those of :class:`BayesianGPLVM`; groups keep the order in which they
    are given.

    Parameters
    ----------
    views : one label for every column, dict of name to columns, or "columns"
        The groups; "columns" makes every column a group of its own. A dict's columns are names or positions.

    Examples
    --------
    >>> from dpgplvm import MRD
    >>> from dpgplvm.datasets import make_views
    >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
    >>> model = MRD(views=["arms"] * 3 + ["legs"] * 3, n_latents=3, n_inducing=10, random_state=0).fit(Y)
    >>> model.noise_precision_.shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "views": ["array-like", dict, str],
    }

    def __init__(
        self,
        *,
        views="columns",
        n_latents=None,
        n_inducing=50,
        kernel="rbf",
        noise="group",
        hyperprior=None,
        bound="grouped",
        optimiser="lbfgs",
        max_iter=1000,
        tol=1e-8,
        standardise=True,
        jitter=1e-6,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        super().__init__(
            n_latents=n_latents,
            n_inducing=n_inducing,
            kernel=kernel,
            noise=noise,
            hyperprior=hyperprior,
            bound=bound,
            optimiser=optimiser,
            max_iter=max_iter,
            tol=tol,
            standardise=standardise,
            jitter=jitter,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.views = views

    def _given_groups(self, names: list[str]) -> tuple[np.ndarray, list[str]]:
        return data.view_labels(self.views, names)


class DPGPLVM(LatentModel):
    """DP-GP-LVM: the groups of columns, and their number, are learned together with the latents.

    Parameters
    ----------
    n_latents : int or None
        Most latents Q that there can be, at most min(N, D). None takes 10, and where groups are searched for 20
        if all of them turn out to be used. Those that nothing depends on are left out of the results.
    n_inducing : int
        Inducing points M; no more than there are rows are used.
    truncation : int or None
        Most groups that there can be; None takes min(D, 20). No more than there are columns are used.
    n_starts : int
        Searches from different places, of which the best is kept; more of them, more certainty.
    n_jobs : int or None
        Processes for the starts, as in scikit-learn: None for one, -1 for all cores. Predictions use as many threads,
        with None one for each core. No answer depends on it.
    kernel : {"auto", "rbf", "linear", "rbf+linear"} or Kernel
        "auto" takes "rbf" where it gives a fit of one group by far the higher corrected bound; otherwise rows that were
        held out choose between "rbf" and "linear", by their density and by how well their gaps are filled. Where
        functions are straight for the most part, "rbf+linear" is tried in the end and judged in the same way; with it,
        groups are looked for once more.
    noise : {"auto", "group", "column"}
        Whether noise belongs to groups, as in the paper, or noise and scale belong to every column; "auto" is "column",
        or "group" with the paper's own bound or optimiser.
    hyperprior : float, Hyperprior or None
        Width of the log-Normal prior over hyperparameters: one for all, or one for each role. None is `Hyperprior()`.
    concentration_prior : (float, float)
        Shape and rate of the Gamma prior over the Dirichlet process's concentration.
    bound : {"grouped", "mixed"}
        "mixed" averages hyperparameters over groups, as the paper does; for comparison.
    optimiser : {"lbfgs", "paper"}
        "paper" is gradient ascent with momentum on every variable; for comparison.
    max_iter : int
        Iterations of the last climb; 0 evaluates the start.
    tol : float
        Stop when an iteration raises the bound by less than this share of it.
    standardise : bool
        Scale every column to mean 0 and variance 1 first.
    jitter : float
        Added to the covariance of the inducing points, as a share of its diagonal.
    random_state : int, RandomState or None
        Seed of all that is drawn at random: the same number, the same answer.
    warm_start : bool
        Go on from the last fit, groups included, when fitted again to the same rows and columns.
    verbose : {0, 1, 2}
        0 is silent; 1 shows a bar on stderr, with the stage, the bound and how long a stage can take at most where that
        is known; 2 also leaves a line for every stage and every move that is kept.

    Attributes
    ----------
    latents_, latent_variance_ : [N, Q]
        Posterior mean and variance of every row's latent coordinates. Latents come sorted by relevance, and those that
        nothing depends on are left out: Q is `n_latents_`, at most `n_latents`. `transform` infers them afresh, row by
        row, and finds the same where a fit has converged.
    relevance_, linear_relevance_ : [D, Q]
        Share of a column's predicted variance that varies with each latent, and what of it is linear.
    groups_ : [D]
        Group of every column, 0 for the largest; groups without columns are left out.
    group_probabilities_ : [D, K]
    n_groups_ : int
    profiles_, n_profiles_, profile_linkage_ : [D], int, [D - 1, 4]
        Columns clustered by which latents they listen to, whether or not they share a group (Ward's linkage, which
        SciPy's `dendrogram` draws). Their number, 20 at most, is the one with the largest mean silhouette among those
        whose clusters are at least 0.1 apart, and one where no silhouette exceeds 0.25.
    profile_strengths_ : [D, n_latents]
        What was clustered: how strongly each column listens, as directions of unit length, in the axes in which columns
        listen to as few latents as possible. These are not the axes of `latents_`.
    explained_ : [D]
        Share of a column's variance that is predicted: the variance over the rows of what is predicted for them,
        divided by the variance of the column, or by its own and the noise's where that is more. Never above 1.
    explained_by_latent_ : [D, Q]
        The same divided among the latents, in proportion to `relevance_` where that adds up to more than 1: what
        latents do together counts for each of them by its part. A row adds up to `explained_` at most.
    kernel_ : str
        Name of the kernel, the chosen one for kernel="auto".
    kernel_parameters_ : dict of arrays [K, ...]
        Hyperparameters of every group, by name.
    noise_precision_ : [K], or [D] with noise="column"
    column_scale_ : [D] or None
        Scale of every column's function, with noise="column".
    elbo_, elbo_terms_, outcome_, n_iter_, history_
        The bound, its terms, how the fit ended, iterations of the last climb, and the bound after each.
    concentration_ : float
        Posterior mean of the concentration.
    corrected_bound_ : float or None
        The bound with every group's hyperparameters integrated out (Laplace), by which groupings are compared.
    moves_ : list of Move
        What was tried to improve the grouping, and whether it did.
    starts_ : list of Start
        Bound, groups and outcome of every start.
    coassignment_ : [D, D]
        Probability that two columns share a group, averaged over the starts.

    Examples
    --------
    >>> from dpgplvm import DPGPLVM
    >>> from dpgplvm.datasets import make_views
    >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
    >>> DPGPLVM(n_latents=3, n_inducing=10, truncation=3, random_state=0).fit(Y).groups_.shape
    (6,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "kernel": [StrOptions({*NAMED_KERNELS, "auto"}), Kernel],
        "noise": [StrOptions({"group", "column", "auto"})],
        "truncation": [Interval(Integral, 1, None, closed="left"), None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Interval(Integral, None, -1, closed="right"), None],
        "concentration_prior": [tuple],
    }

    def __init__(
        self,
        *,
        n_latents=None,
        n_inducing=50,
        truncation=None,
        n_starts=1,
        n_jobs=None,
        kernel="auto",
        noise="auto",
        hyperprior=None,
        concentration_prior=(1.0, 1.0),
        bound="grouped",
        optimiser="lbfgs",
        max_iter=1000,
        tol=3e-8,
        standardise=True,
        jitter=1e-6,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        super().__init__(
            n_latents=n_latents,
            n_inducing=n_inducing,
            kernel=kernel,
            noise=noise,
            hyperprior=hyperprior,
            bound=bound,
            optimiser=optimiser,
            max_iter=max_iter,
            tol=tol,
            standardise=standardise,
            jitter=jitter,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.truncation = truncation
        self.n_starts = n_starts
        self.n_jobs = n_jobs
        self.concentration_prior = concentration_prior

    def _check_combination(self, start: Free | State | None) -> None:
        alone = {"start": start is not None, 'bound="mixed"': self.bound == "mixed"}
        alone['optimiser="paper"'] = self.optimiser == "paper"
        for name, given in alone.items():
            if self.n_starts > 1 and given:
                raise ValueError(f"n_starts={self.n_starts} does not go with {name}, which has one: give n_starts=1")

    def _given_groups(self, names: list[str]) -> tuple[None, None]:
        return None, None

    def _noise(self) -> Literal["group", "column"]:
        if self.noise != "auto":
            return super()._noise()
        return "group" if self.bound == "mixed" or self.optimiser == "paper" else "column"

    def _kernels(self) -> tuple[Kernel, ...]:
        if self.kernel != "auto":
            return super()._kernels()
        return tuple(NAMED_KERNELS[name] for name in _KERNELS_TO_CHOOSE_FROM)

    def _truncation(self, n_columns: int) -> int:
        return min(n_columns, self.truncation or 20)

    def _concentration(self) -> Concentration:
        prior = self.concentration_prior
        if len(prior) != 2 or not all(isinstance(value, Real) and 0 < float(value) < np.inf for value in prior):
            raise ValueError(
                f"concentration_prior={prior!r} is not a pair of positive numbers: "
                "give the shape and the rate of a Gamma"
            )
        return Concentration(*map(float, prior))
