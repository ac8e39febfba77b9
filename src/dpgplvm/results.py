"""A fitted state as users read it: groups by size, latents by relevance, unused ones left out, everything in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from dpgplvm.inference.climb import Climb
from dpgplvm.inference.compiled import marginals_of, weights_of
from dpgplvm.inference.compiling import compiles_fast
from dpgplvm.inference.fit import Fit
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.moves import Move
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical, profiles
from dpgplvm.inference.starts import Start
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.relevance import Relevance, relevance
from dpgplvm.model.state import State

# A latent is left out when it moves no column by more than this share of the column's variance.
_UNUSED = 0.005


class Results(NamedTuple):
    """The fitted attributes of an estimator, without their trailing underscore."""

    latents: np.ndarray  # [N, Q]
    latent_variance: np.ndarray  # [N, Q]
    n_latents: int  # Q, those that are used
    latent_order: np.ndarray  # [Q] which latent of `state` each of them is
    inducing: np.ndarray  # [M, Q]
    groups: np.ndarray  # [D]
    group_probabilities: np.ndarray  # [D, K]
    n_groups: int
    profiles: np.ndarray  # [D]
    n_profiles: int
    profile_linkage: np.ndarray  # [D - 1, 4]
    profile_strengths: np.ndarray  # [D, n_latents] how strongly each column listens, in the axes of the profiles
    relevance: np.ndarray  # [D, Q]
    linear_relevance: np.ndarray  # [D, Q]
    explained: np.ndarray  # [D]
    explained_by_latent: np.ndarray  # [D, Q]
    kernel: str  # its name
    kernel_parameters: dict[str, np.ndarray]  # each [K, ...]
    noise_precision: np.ndarray  # [K] or [D]
    column_scale: np.ndarray | None  # [D]
    concentration: float | None
    elbo: float
    elbo_terms: dict[str, float]
    corrected_bound: float | None
    outcome: Outcome
    n_iter: int
    history: np.ndarray
    moves: list[Move]
    starts: list[Start]
    coassignment: np.ndarray  # [D, D]
    state: State


def results(model: Model, ended: Fit, Y: np.ndarray) -> Results:
    """Read off everything a user meets."""
    climb = ended.climb
    state = climb.state
    free = state.free
    marginals = marginals_of(model, free.latents)
    phi = np.asarray(state.phi)
    total, linear = map(np.asarray, _relevance(model, state, weights_of(model, state, Y)))
    slopes = Problem(model, Y).slopes(state)
    explained = _explained(state, slopes.predicted, Y)
    # What latents do together counts for each of them: divided up, so that their shares add up to the whole.
    by_latent = explained[:, None] * total / np.maximum(total.sum(axis=1, keepdims=True), 1.0)
    used = _latents_by_relevance(total * explained[:, None])
    seen = _groups_by_size(phi) if model.inferred_groups else np.arange(phi.shape[1])
    position = np.empty(phi.shape[1], dtype=int)
    position[seen] = np.arange(len(seen))
    clustered = profiles(slopes.moments)
    return Results(
        latents=np.asarray(marginals.mean)[:, used],
        latent_variance=np.asarray(marginals.variance)[:, used],
        n_latents=len(used),
        latent_order=used,
        inducing=np.asarray(free.inducing)[:, used],
        groups=position[phi.argmax(axis=1)],
        group_probabilities=phi[:, seen] / phi[:, seen].sum(axis=1, keepdims=True),
        n_groups=len(seen),
        profiles=clustered.labels,
        n_profiles=int(clustered.labels.max()) + 1,
        profile_linkage=clustered.tree,
        profile_strengths=clustered.strengths,
        relevance=total[:, used],
        linear_relevance=linear[:, used],
        explained=explained,
        explained_by_latent=by_latent[:, used],
        kernel=next((name for name, kernel in NAMED_KERNELS.items() if kernel == model.kernel), repr(model.kernel)),
        kernel_parameters={
            name: np.exp(np.asarray(free.log_theta[name]))[np.ix_(seen, used) if parameter.per_latent else seen]
            for name, parameter in model.kernel.parameters.items()
        },
        noise_precision=np.exp(np.asarray(free.log_noise_precision))[slice(None) if free.of_columns else seen],
        column_scale=None if free.log_scale is None else np.exp(np.asarray(free.log_scale)),
        concentration=float(state.sticks.shape / state.sticks.rate) if model.inferred_groups else None,
        elbo=climb.value,
        elbo_terms=_named_terms(climb),
        corrected_bound=ended.corrected,
        outcome=climb.outcome,
        n_iter=climb.n_iterations,
        history=np.asarray(climb.history),
        moves=ended.moves,
        starts=ended.starts,
        coassignment=phi @ phi.T if ended.coassignment is None else ended.coassignment,
        state=jax.tree.map(np.asarray, state),
    )


@compiles_fast("model")
def _relevance(model: Model, state: State, weights: Array) -> Relevance:
    return relevance(model, state, weights)


def _explained(state: State, predicted: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """[D] the variance over the rows of what is predicted for them, as a share of the column's variance, or of itself
    and the noise where that is more: it leaves room for the noise, and never exceeds one."""
    noise = np.exp(-np.asarray(state.free.log_noise_precision))
    noise = noise if state.free.of_columns else np.asarray(state.phi) @ noise
    return predicted / np.maximum(np.nanvar(Y, axis=0), predicted + noise)


def _latents_by_relevance(heard: np.ndarray) -> np.ndarray:
    """Latents that move some column, those that move most of the table first; one at least."""
    order = np.argsort(-heard.sum(axis=0), kind="stable")
    used = order[heard[:, order].max(axis=0) > _UNUSED]
    return used if len(used) else order[:1]


def _groups_by_size(phi: np.ndarray) -> np.ndarray:
    """Groups that some column belongs to more than to any other, most columns first, ties by their first column."""
    labels = phi.argmax(axis=1)
    rank = canonical(labels)
    return np.array([labels[rank == k][0] for k in range(rank.max() + 1)])


def _named_terms(climb: Climb) -> dict[str, float]:
    named = climb.terms._asdict()
    sticks = named.pop("dirichlet_process")
    named |= {} if sticks is None else sticks._asdict()
    return {name: float(value) for name, value in named.items()}
