"""The methods of the structure suite, and one run of one of them: labels, scores, seconds, and a diagnosis."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import AgglomerativeClustering, FeatureAgglomeration, SpectralClustering
from sklearn.metrics import adjusted_rand_score, completeness_score, homogeneity_score
from sklearn.preprocessing import StandardScaler
from structure_sets import Table, load

RIGHT = 0.99  # an ARI from which on a grouping counts as recovered
_SAME_BOUND = 0.5  # nats
_SILENT, _VARIANCE_OF_KNOWN = -6.0, 0.05


class Answer(NamedTuple):
    """What a method says about the columns."""

    labels: np.ndarray  # [D]
    profiles: np.ndarray | None = None  # [D]
    model: Any = None


class Method(NamedTuple):
    """A way to group columns; one that is told the number of groups gets it, the others ignore it."""

    answer: Callable[[np.ndarray, int, int], Answer]  # of Y, the number of groups and a seed
    told: bool


def dpgplvm(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    from dpgplvm import DPGPLVM

    model = DPGPLVM(random_state=seed).fit(Y)
    return Answer(model.groups_, getattr(model, "profiles_", None), model)


def paper(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    """Its bound, its prior, its optimiser."""
    from dpgplvm import DPGPLVM, Hyperprior

    prior = Hyperprior(relevance=1.0, scale=1.0, noise=1.0, density="value")
    model = DPGPLVM(optimiser="paper", bound="mixed", kernel="rbf", hyperprior=prior, random_state=seed)
    return Answer(model.fit(Y).groups_)


def mrd(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    """One kernel for every column, and columns clustered by their ARD weights: the alternative the paper describes."""
    from dpgplvm import MRD

    weights = MRD(views="columns", random_state=seed).fit(Y).kernel_parameters_["ard_weights"]
    shares = weights / weights.max(axis=1, keepdims=True)
    return Answer(AgglomerativeClustering(n_groups, linkage="ward").fit_predict(shares))


def average_linkage(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    tree = AgglomerativeClustering(n_groups, metric="precomputed", linkage="average")
    return Answer(tree.fit_predict(1.0 - _absolute_correlation(Y)))


def spectral(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    if n_groups == 1:
        return Answer(np.zeros(Y.shape[1], dtype=int))
    cut = SpectralClustering(n_groups, affinity="precomputed", random_state=seed)
    return Answer(cut.fit_predict(_absolute_correlation(Y)))


def feature_agglomeration(Y: np.ndarray, n_groups: int, seed: int) -> Answer:
    return Answer(FeatureAgglomeration(n_groups).fit(StandardScaler().fit_transform(Y)).labels_)


def _absolute_correlation(Y: np.ndarray) -> np.ndarray:
    return np.abs(np.corrcoef(Y, rowvar=False))


METHODS = {
    "dpgplvm": Method(dpgplvm, told=False),
    "paper": Method(paper, told=False),
    "mrd": Method(mrd, told=True),
    "average linkage": Method(average_linkage, told=True),
    "spectral": Method(spectral, told=True),
    "FeatureAgglomeration": Method(feature_agglomeration, told=True),
}
SLOW_PEERS = ("paper", "mrd")


def run(set_name: str, seed: int, method_name: str) -> dict[str, Any]:
    """One method on one table, as a record for the log.

    A method that is told the number of groups answers once for each known grouping of the columns.
    """
    table, method = load(set_name, seed), METHODS[method_name]
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        first, *others = table.groupings
        answers = {first: method.answer(table.Y, _count(table.groupings[first]), seed)}
        seconds = time.perf_counter() - start
        for name in others:
            told_again = method.told and _count(table.groupings[name]) != _count(table.groupings[first])
            answers[name] = (
                method.answer(table.Y, _count(table.groupings[name]), seed) if told_again else answers[first]
            )
    given = {"groups": {name: answer.labels for name, answer in answers.items()}}
    profiles = answers[first].profiles
    if profiles is not None:
        given["profiles"] = dict.fromkeys(answers, profiles)
    record: dict[str, Any] = {
        "seconds": seconds,
        "warnings": sorted({str(one.message) for one in warned}),
        "answers": {kind: scored(table, labels) for kind, labels in given.items()},
    }
    if method_name == "dpgplvm":
        record |= diagnosed(answers[first].model, table, record["answers"]["groups"])
    return record


def scored(table: Table, labels: dict[str, np.ndarray]) -> dict[str, Any]:
    """Agreement with the known grouping that these labels fit best; agreement with every one is kept beside it."""
    agreement = {name: agreement_with(truth, labels[name]) for name, truth in table.groupings.items()}
    best = max(agreement, key=lambda name: agreement[name]["ari"])
    chosen = np.asarray(labels[best])
    scores = {"fits": best, **agreement[best], "n_groups": _count(chosen), "labels": chosen.tolist()}
    if len(agreement) > 1:
        scores["agreement"] = agreement
    if table.noise.any():
        signal = ~table.noise
        scores["noise_in_groups"] = _count(chosen[table.noise])
        scores["signal_ari"] = float(adjusted_rand_score(table.groupings[best][signal], chosen[signal]))
    return scores


def agreement_with(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {
        "ari": float(adjusted_rand_score(truth, labels)),
        "homogeneity": float(homogeneity_score(truth, labels)),
        "completeness": float(completeness_score(truth, labels)),
    }


def diagnosed(model: Any, table: Table, scores: dict[str, Any]) -> dict[str, Any]:
    """How the fit ended, its corrected bound and, where the groups are not the known ones, the bound from those.

    A higher bound from the truth means that the search ended in a local optimum; a lower one, that the model or its
    prior prefers what was found.
    """
    found = getattr(model, "corrected_bound_", None)
    told: dict[str, Any] = {"outcome": model.outcome_.value, "bound": None if found is None else float(found)}
    if scores["ari"] >= RIGHT:
        return told
    start = time.perf_counter()
    try:
        told["bound_from_truth"] = bound_from_truth(model, table, table.groupings[scores["fits"]])
    except Exception as error:
        # The fit itself is worth keeping.
        told |= {"bound_from_truth": None, "diagnosis_error": f"{type(error).__name__}: {error}"}
    told["diagnosis_seconds"] = time.perf_counter() - start
    if told["bound"] is not None and told["bound_from_truth"] is not None:
        told["limit"] = "search" if told["bound_from_truth"] > told["bound"] + _SAME_BOUND else "model"
    return told


def bound_from_truth(model: Any, table: Table, truth: np.ndarray) -> float:
    """The corrected bound with the columns held in the true groups: the best of what is reached from the latents found
    and, where they are known, from the true ones."""
    from dpgplvm.inference.climb import climb
    from dpgplvm.inference.grouping import Problem, start_from_labels
    from dpgplvm.inference.objective import Objective
    from dpgplvm.inference.occam import corrected_bound
    from dpgplvm.inference.profiles import canonical
    from dpgplvm.inference.start import finest_precision
    from dpgplvm.numerics import computing

    labels = canonical(truth)
    with computing():
        problem = Problem(model._model, model._scaling.to_model(table.Y))
        found = start_from_labels(
            problem.model, model.state_.free, model.n_groups_, labels, problem.slopes(model.state_)
        )
        starts = [found] if table.latents is None else [found, _with_latents(problem.model, found, table.latents)]
        objective = Objective(problem.model, problem.Y, np.eye(found.n_groups)[labels], labels.max() + 1)
        ceiling = finest_precision(problem.Y, "column" if found.of_columns else "group")
        reached = [climb(objective, start, model.max_iter, model.tol, ceiling=ceiling) for start in starts]
        return max(
            corrected_bound(problem.model, problem.Y, objective.evaluate(one.state.free), labels.max() + 1)
            for one in reached
        )


def _with_latents(model: Any, free: Any, latents: np.ndarray) -> Any:
    """The same start at other latents, which all groups listen to alike; whatever latents are over are silent."""
    from dpgplvm.inference.start import inducing_points

    n_true, n_latents = latents.shape[1], free.inducing.shape[1]
    mean = np.zeros((len(latents), n_latents))
    mean[:, :n_true] = StandardScaler().fit_transform(latents)
    used = np.arange(n_latents) < n_true
    log_theta = dict(free.log_theta)
    for name, parameter in model.kernel.parameters.items():
        if parameter.role == "relevance":
            log_theta[name] = np.tile(np.where(used, 0.0, _SILENT), (free.n_groups, 1))
    return replace(
        free,
        latents=model.latent_prior.start(mean, np.tile(np.where(used, _VARIANCE_OF_KNOWN, 1.0), (len(mean), 1))),
        inducing=inducing_points(mean, len(free.inducing), np.random.default_rng(0)),
        log_theta=log_theta,
    )


def _count(labels: np.ndarray) -> int:
    return len(np.unique(labels))
