"""The methods of the missing-data suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.experimental import enable_iterative_imputer  # noqa: F401, without it there is no IterativeImputer
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor

_SMALLEST_VARIANCE = 1e-9  # of a component, of standardised columns
_GPY_LATENTS, _GPY_INDUCING, _GPY_ITERATIONS = 10, 50, 1000


class Filled(NamedTuple):
    """What a method expects in the gaps of a table, and how uncertain it is."""

    mean: np.ndarray  # [S, D]
    std: np.ndarray  # [S, D]
    interval: np.ndarray | None = None  # [2, S, D], where 95 % are expected to be by the model itself


class Fitted(NamedTuple):
    """A method that has seen the training rows."""

    fill: Callable[[np.ndarray], Filled]  # of rows [S, D] in which the same columns are NaN
    about: dict[str, Any] = {}


Fit = Callable[[np.ndarray, KFold, int], Fitted]  # of training rows [N, D], folds to choose by, and a seed
Point = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of training rows and rows with gaps: the latter, filled


class Method(NamedTuple):
    """A way to fill gaps."""

    title: str
    fit: Fit
    own_spread: bool = True  # or that of the residuals when folds of the training rows are held out
    is_baseline: bool = False
    is_ours: bool = False
    may_take_long: bool = False


def ours(name: str, **options: Any) -> Fit:
    def fit(training: np.ndarray, folds: KFold, seed: int) -> Fitted:
        import dpgplvm

        model = getattr(dpgplvm, name)(**options, random_state=seed).fit(training)

        def fill(rows: np.ndarray) -> Filled:
            return Filled(*model.impute(rows, return_std=True, quantiles=(0.025, 0.975)))

        about = {"outcome": model.outcome_.value, "kernel": model.kernel_}
        return Fitted(fill, about | {"n_groups": int(model.n_groups_), "n_latents": int(model.n_latents_)})

    return fit


def with_residuals(point: Point) -> Fit:
    """What `point` predictions get wrong in folds of the training rows that are held out is their spread."""

    def fit(training: np.ndarray, folds: KFold, seed: int) -> Fitted:
        def fill(rows: np.ndarray) -> Filled:
            hidden = np.isnan(rows[0])
            residuals = [
                training[held_out] - point(training[kept], np.where(hidden, np.nan, training[held_out]))
                for kept, held_out in folds.split(training)
            ]
            spread = np.sqrt(np.square(np.concatenate(residuals)).mean(axis=0))
            return Filled(point(training, rows), np.broadcast_to(spread, rows.shape))

        return Fitted(fill)

    return fit


def column_mean(training: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(rows), training.mean(axis=0), rows)


def regression(make: Callable[..., Any], **options: Any) -> Point:
    """Hidden columns as functions of the others."""

    def point(training: np.ndarray, rows: np.ndarray) -> np.ndarray:
        hidden = np.isnan(rows[0])
        filled = rows.copy()
        model = make(**options).fit(training[:, ~hidden], training[:, hidden])
        filled[:, hidden] = model.predict(rows[:, ~hidden]).reshape(len(rows), -1)
        return filled

    return point


def iterative_imputer(training: np.ndarray, rows: np.ndarray) -> np.ndarray:
    # Fitted to complete rows alone it would go round once, and fill later gaps in a single round as well.
    table = np.concatenate([training, rows])
    return IterativeImputer(skip_complete=True, random_state=0).fit_transform(table)[len(training) :]


def knn_imputer(training: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return KNNImputer().fit(training).transform(rows)


def probabilistic_pca(training: np.ndarray, folds: KFold, seed: int) -> Fitted:
    """As many components as held-out folds like best, and the Gaussian of the hidden columns given the others."""
    n_rows_to_learn_from = len(training) * (folds.get_n_splits() - 1) // folds.get_n_splits()
    n_that_vary = np.sum(PCA().fit(training).explained_variance_ > _SMALLEST_VARIANCE)
    # One component is left for the noise.
    counts = np.unique(np.geomspace(1, max(1, min(n_that_vary, n_rows_to_learn_from) - 1), 20).astype(int))
    scores = [cross_val_score(PCA(count, svd_solver="full"), training, cv=folds).mean() for count in counts]
    model = PCA(counts[np.argmax(scores)], svd_solver="full").fit(training)
    covariance = model.get_covariance()

    def fill(rows: np.ndarray) -> Filled:
        hidden = np.isnan(rows[0])
        slopes = np.linalg.solve(covariance[np.ix_(~hidden, ~hidden)], covariance[np.ix_(~hidden, hidden)])
        mean, std = rows.copy(), np.zeros_like(rows)
        mean[:, hidden] = model.mean_[hidden] + (rows - model.mean_)[:, ~hidden] @ slopes
        explained = np.einsum("sh,sh->h", covariance[np.ix_(~hidden, hidden)], slopes)
        # Never less than the noise, except for rounding.
        std[:, hidden] = np.sqrt(np.maximum(covariance.diagonal()[hidden] - explained, model.noise_variance_))
        return Filled(mean, std)

    return Fitted(fill, {"n_latents": int(model.n_components_)})


def gpy(training: np.ndarray, folds: KFold, seed: int) -> Fitted:
    """GPy's Bayesian GP-LVM, as large as ours.

    Training rows are complete, for which `BayesianGPLVMMiniBatch` with missing_data=True is the same model, but slower,
    and its `infer_newX` fails in GPy 1.15: it takes the posterior of every column for that of all of them.
    """
    import GPy

    np.random.seed(seed)  # noqa: NPY002, GPy draws from it
    model = GPy.models.BayesianGPLVM(training, min(_GPY_LATENTS, *training.shape), num_inducing=_GPY_INDUCING)
    model.optimize(max_iters=_GPY_ITERATIONS)

    def fill(rows: np.ndarray) -> Filled:
        # With gaps, only one at a time.
        found = [model.predict(model.infer_newX(row[None])[0]) for row in rows]
        mean, variance = (np.concatenate([np.broadcast_to(one[i], one[0].shape) for one in found]) for i in range(2))
        return Filled(mean, np.sqrt(variance))

    return Fitted(fill)


def baseline(title: str, point: Point) -> Method:
    return Method(title, with_residuals(point), own_spread=False, is_baseline=True)


METHODS = {
    "dpgplvm": Method("DPGPLVM", ours("DPGPLVM"), is_ours=True),
    "dpgplvm_group": Method("DPGPLVM, noise of groups", ours("DPGPLVM", noise="group"), is_ours=True),
    "bgplvm": Method("BayesianGPLVM", ours("BayesianGPLVM"), is_ours=True),
    "mrd": Method("MRD, a view a column", ours("MRD", views="columns"), may_take_long=True, is_ours=True),
    "gpy": Method("GPy BayesianGPLVM", gpy, may_take_long=True),
    "mean": baseline("column mean", column_mean),
    "3nn": baseline("3 nearest neighbours", regression(KNeighborsRegressor, n_neighbors=3)),
    "ridge": baseline("ridge", regression(RidgeCV, alphas=np.logspace(-3.0, 3.0, 13), alpha_per_target=True)),
    "iterative": baseline("IterativeImputer", iterative_imputer),
    "knn": baseline("KNNImputer", knn_imputer),
    "ppca": Method("probabilistic PCA", probabilistic_pca, is_baseline=True),
}
