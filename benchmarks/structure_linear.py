"""Can a linear effect of a latent be told from a nonlinear one, and from none at all?

Four groups of columns, given to the model, over three latents. What each group does with each latent is read off a fit
with the sum kernel through `relevance_` and `linear_relevance_`. Beside it stands what ARD weights can tell, where a
linear effect and no effect both end in a small one: with the best threshold that there is for all seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

EFFECTS = (
    ("nonlinear", "linear", "irrelevant"),
    ("nonlinear", "irrelevant", "nonlinear"),
    ("irrelevant", "nonlinear", "linear"),
    ("linear", "irrelevant", "linear"),
)
KERNELS = ("rbf+linear", "rbf")
# Groups differ in their noise, as columns of real tables do. How small the ARD weight of an irrelevant latent gets
# depends on the noise, so with equal noise one threshold would do.
_NOISE_VARIANCES = (0.05, 0.5, 0.3, 0.01)
_N_ROWS, _N_COLUMNS, _N_LATENTS = 150, 8, 5
_IRRELEVANT_BELOW, _LINEAR_ABOVE = 0.05, 0.8
_GOAL = 0.95


class Mixture(NamedTuple):
    """A table whose columns are nonlinear in some latents, linear in others and deaf to the rest."""

    Y: np.ndarray  # [N, D]
    groups: np.ndarray  # [D]
    latents: np.ndarray  # [N, Q]


def simulate(seed: int) -> Mixture:
    """Columns of group k do with latent q what EFFECTS[k][q] says; GP draws and slopes have unit variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(_N_ROWS, len(EFFECTS[0])))
    blocks = []
    for effects, noise_variance in zip(EFFECTS, _NOISE_VARIANCES, strict=True):
        curved, straight = (X[:, [effect == kind for effect in effects]] for kind in ("nonlinear", "linear"))
        block = straight @ rng.normal(size=(straight.shape[1], _N_COLUMNS))
        if curved.shape[1]:
            block += _gp_draws(curved, rng)
        blocks.append(block + np.sqrt(noise_variance) * rng.normal(size=block.shape))
    return Mixture(np.concatenate(blocks, axis=1), np.repeat(np.arange(len(EFFECTS)), _N_COLUMNS), X)


def _gp_draws(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N, columns] functions of X from a unit-variance RBF process with all weights 1."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    eigenvalues, vectors = np.linalg.eigh(np.exp(-0.5 * squared))
    return vectors @ (np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * rng.normal(size=(len(X), _N_COLUMNS)))


def trial(seed: int, kernel: str) -> dict[str, Any]:
    """One fit: what it says about every group and true latent, and the ARD weights beside that."""
    from dpgplvm import MRD

    table = simulate(seed)
    model = MRD(views=table.groups, kernel=kernel, n_latents=_N_LATENTS, random_state=seed).fit(table.Y)
    found, agreement = _matched(model.latents_, table.latents)
    members = [table.groups == k for k in range(len(EFFECTS))]
    total, straight = (
        np.array([shares[own].mean(axis=0) for own in members])[:, found]
        for shares in (model.relevance_, model.linear_relevance_)
    )
    decisions = np.where(straight > _LINEAR_ABOVE * total, "linear", "nonlinear")
    decisions = np.where(total < _IRRELEVANT_BELOW, "irrelevant", decisions)
    # A weight is a length only together with the spread of its latent.
    weights = model.kernel_parameters_["ard_weights"] * model.latents_.var(axis=0)
    return {
        "agreement": agreement.tolist(),
        "decisions": decisions.tolist(),
        "n_right": int((decisions == np.array(EFFECTS)).sum()),
        "n_decisions": decisions.size,
        "relevance": total.tolist(),
        "linear_relevance": straight.tolist(),
        "log_ard_weights": np.log(weights[:, found]).tolist(),
    }


def _matched(found: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every true latent the one found that agrees with it best, no two the same, and their rank correlation."""
    n_true = true.shape[1]
    correlation = np.abs(spearmanr(true, found).statistic[:n_true, n_true:])
    rows, columns = linear_sum_assignment(-correlation)
    return columns, correlation[rows, columns]


def summarise(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For every kernel, how often relevance was right and how well a threshold on ARD weights could do."""
    own: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in KERNELS}
    for record in records:
        own[record["method"]].append(record)
    answering = {kernel: [run for run in runs if "decisions" in run] for kernel, runs in own.items()}
    return {kernel: _of_kernel(runs, len(own[kernel])) for kernel, runs in answering.items() if runs}


def _of_kernel(runs: list[dict[str, Any]], n_seeds: int) -> dict[str, Any]:
    """Runs that failed are among the seeds, and count as wrong."""
    effects = np.array(EFFECTS)
    right = np.array([np.array(run["decisions"]) == effects for run in runs])
    weights = np.array([run["log_ard_weights"] for run in runs])
    return {
        "seeds": n_seeds,
        "seeds_all_right": int(right.all(axis=(1, 2)).sum()),
        "share_right": float(right.mean()),
        "worst_latent_agreement": float(min(min(run["agreement"]) for run in runs)),
        "ard_weights": best_threshold(weights[:, effects == "linear"], weights[:, effects == "irrelevant"]),
    }


def best_threshold(linear: np.ndarray, irrelevant: np.ndarray) -> dict[str, Any]:
    """How well one threshold on log ARD weights [seeds, effects] tells linear effects from irrelevant latents."""
    values = np.unique(np.concatenate([linear.ravel(), irrelevant.ravel()]))
    thresholds = np.concatenate([[values[0] - 1.0], 0.5 * (values[1:] + values[:-1])])
    heard, unheard = linear[..., None] > thresholds, irrelevant[..., None] <= thresholds
    accuracy = 0.5 * (heard.mean(axis=(0, 1)) + unheard.mean(axis=(0, 1)))
    seeds_right = (heard.all(axis=1) & unheard.all(axis=1)).sum(axis=0)
    return {
        "separable": bool(linear.min() > irrelevant.max()),
        "balanced_accuracy": float(accuracy.max()),
        "threshold": float(thresholds[accuracy.argmax()]),
        "most_seeds_right": int(seeds_right.max()),
        "linear_range": [float(linear.min()), float(linear.max())],
        "irrelevant_range": [float(irrelevant.min()), float(irrelevant.max())],
    }


def lines(summary: dict[str, dict[str, Any]]) -> str:
    """The summary as aligned text, with the goal beneath."""
    told = [
        f"Linear, nonlinear and irrelevant effects: {np.size(EFFECTS)} decisions in each seed, groups given",
        f"\n{'kernel':<12} {'read from':<32} {'all right in':>12} {'decisions right':>16}",
    ]
    for kernel, own in summary.items():
        told.append(f"{kernel:<12} {'relevance_, linear_relevance_':<32} {_seeds(own):>12} {own['share_right']:>16.1%}")
    told.append(
        f"\n{'kernel':<12} {'linear from irrelevant by':<32} {'all right in':>12} {'balanced':>16}  log weights"
    )
    for kernel, own in summary.items():
        weights = own["ard_weights"]
        low, high = weights["linear_range"], weights["irrelevant_range"]
        told.append(
            f"{kernel:<12} {'best threshold on ARD weights':<32} {_seeds(own, weights['most_seeds_right']):>12} "
            f"{weights['balanced_accuracy']:>16.1%}  linear {low[0]:.1f} to {low[1]:.1f}, "
            f"irrelevant {high[0]:.1f} to {high[1]:.1f}: {'' if weights['separable'] else 'not '}separable"
        )
    if "rbf+linear" in summary:
        own = summary["rbf+linear"]
        met = own["seeds_all_right"] >= _GOAL * own["seeds"]
        told.append(f"\nGoal: sum kernel, all right in 95 % of seeds: {_seeds(own)}: {'met' if met else 'missed'}")
    if "rbf" in summary:
        own = summary["rbf"]
        alone = own["ard_weights"]["most_seeds_right"]
        met = alone < _GOAL * own["seeds"]
        told.append(f"Goal: ARD weights of the RBF alone do not: {_seeds(own, alone)}: {'met' if met else 'missed'}")
    return "\n".join(told)


def _seeds(own: dict[str, Any], right: int | None = None) -> str:
    return f"{own['seeds_all_right'] if right is None else right} of {own['seeds']}"
