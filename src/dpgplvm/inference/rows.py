"""Latents of rows that were not in training: the best Gaussian for each, all rows side by side."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.compiled import chunks, padded, size_for
from dpgplvm.inference.compiling import compiles_fast, runs_fast
from dpgplvm.inference.modes import Cloud, find_modes
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.side_by_side import minimise
from dpgplvm.inference.threads import Threads
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Parameters
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import Functions
from dpgplvm.model.rows import RowCoefficients, row_coefficients, row_likelihoods

_SIZES = (32, 256)  # rows evaluated together: few sizes, so that few functions are compiled
# Peaks to start from, rounds for each, and for the best of them; nats that are not worth another step.
_PEAKS, _EARLY_ROUNDS, _LATE_ROUNDS, _TOLERANCE = 2, 10, 300, 1e-6
_LONGEST_MEAN, _LONGEST_LOG_VARIANCE = 1.0, 2.0


class Rows(NamedTuple):
    """q(x) of some rows, and the lower bound on the log density of each under it, if its scale is one."""

    mean: np.ndarray  # [S, Q]
    variance: np.ndarray  # [S, Q]
    bound: np.ndarray  # [S]


def infer_rows(predictor: Predictor, Y: np.ndarray) -> Rows:
    """The best q(x) of every row of the scaled table Y, with NaN for what is missing."""
    predictor = predictor.literally()
    cloud = Cloud.of(predictor)
    parts = Threads(predictor.n_threads).map(lambda rows: _infer(predictor, cloud, Y[rows]), chunks(len(Y), _SIZES[-1]))
    return Rows(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _infer(predictor: Predictor, cloud: Cloud, Y: np.ndarray) -> Rows:
    n_rows, n_latents = len(Y), predictor.training.mean.shape[1]
    Y = padded(Y, size_for(n_rows, _SIZES))
    observed = (~np.isnan(Y)).astype(float)
    values = np.where(np.isnan(Y), 0.0, Y)
    climbing = _Climbing(predictor, values, observed)
    longest = np.repeat([_LONGEST_MEAN, _LONGEST_LOG_VARIANCE], n_latents)

    def climb(at: np.ndarray, max_rounds: int) -> tuple[np.ndarray, np.ndarray]:
        # The inverse Fisher information of a Gaussian: steps in its own units.
        metric = np.concatenate([np.exp(at[:, n_latents:]), np.full((len(at), n_latents), 2.0)], axis=1)
        climbing.begin()
        return minimise(climbing, at, metric, longest, max_rounds, _TOLERANCE)

    modes = find_modes(predictor, cloud, cloud.starts(values, observed), values, observed, _PEAKS)
    # Of all Gaussians with independent coordinates, the nearest to a Gaussian has its conditional variances.
    starts = np.concatenate([modes.at, -np.log(np.einsum("spqq->spq", modes.information))], axis=2)
    best, lowest = np.zeros((len(Y), 2 * n_latents)), np.full(len(Y), np.inf)
    for start in starts.swapaxes(0, 1):
        at, value = climb(start, _EARLY_ROUNDS)
        better = value < lowest
        best[better], lowest[better] = at[better], value[better]
    best, lowest = climb(best, _LATE_ROUNDS)
    return Rows(best[:n_rows, :n_latents], np.exp(best[:n_rows, n_latents:]), -lowest[:n_rows])


class _Climbing:
    """Minus the bound of rows, for `minimise`: rows that have arrived are dropped once a smaller size will do for the
    others."""

    def __init__(self, predictor: Predictor, values: np.ndarray, observed: np.ndarray) -> None:
        self._predictor = predictor
        members, shares = predictor.groups.members, predictor.groups.shares
        groups = zip(predictor.functions, members, shares, predictor.noise_precision, strict=True)
        self._all = [
            jax.tree.map(np.asarray, _coefficients(functions, share, noise, values[:, own], observed[:, own]))
            for functions, own, share, noise in groups
        ]
        self.begin()

    def begin(self) -> None:
        """All rows are on their way."""
        self._kept, self._coefficients = np.arange(len(self._all[0].constant)), self._all

    def __call__(self, rows: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = size_for(len(rows), _SIZES)
        if size < len(self._kept):
            self._kept = padded(rows, size)
            self._coefficients = jax.tree.map(lambda of_all: of_all[self._kept], self._all)
        position = np.searchsorted(self._kept, rows)
        places = np.zeros((len(self._kept), at.shape[1]))
        places[position] = at
        value, slope = map(np.asarray, _divergences(self._predictor.model, places))
        for theta, coefficients in zip(self._predictor.theta, self._coefficients, strict=True):
            part = _likelihoods(self._predictor.model, theta, self._predictor.inducing, coefficients, places)
            value, slope = value - np.asarray(part[0]), slope - np.asarray(part[1])
        return value[position], slope[position]


@compiles_fast()
def _coefficients(functions: Functions, shares, noise_precision, values, observed) -> RowCoefficients:
    return row_coefficients(functions, shares, noise_precision, values, observed)


@runs_fast("model")
def _likelihoods(model: Model, theta: Parameters, inducing, coefficients: RowCoefficients, places):
    """The likelihood of every row for one group's columns, and its slope in the row's means and log variances."""

    def likelihoods(places):
        mean, log_variance = jnp.split(places, 2, axis=1)
        return row_likelihoods(model, theta, inducing, coefficients, Marginals(mean, jnp.exp(log_variance)))

    value, pull_back = jax.vjp(likelihoods, places)
    return value, pull_back(jnp.ones_like(value))[0]


@compiles_fast("model")
def _divergences(model: Model, places):
    """KL(q(x) || p(x)) of every row, and its slope in the row's means and log variances."""

    def divergences(places):
        mean, log_variance = jnp.split(places, 2, axis=1)
        return model.latent_prior.divergence_of_rows(model.latent_prior.start(mean, jnp.exp(log_variance)))

    value, pull_back = jax.vjp(divergences, places)
    return value, pull_back(jnp.ones_like(value))[0]
