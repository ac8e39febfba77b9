"""A fit as something to predict with: the functions of its occupied groups, ready for rows in any number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from dpgplvm.inference.compiled import (
    chunks,
    marginals_of,
    padded,
    rows_per_block,
    size_for,
    with_enough_jitter,
)
from dpgplvm.inference.compiling import compiles_fast, runs_fast
from dpgplvm.inference.components import Components
from dpgplvm.inference.grouping import reordered
from dpgplvm.inference.row_scales import ALIKE, MAYBE_UNLIKE, RowScales
from dpgplvm.inference.threads import Threads
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Parameters
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import (
    Diagonal,
    Functions,
    covariances_at_points,
    diagonal_functions,
    functions,
    moments_at,
    moments_at_points,
    slopes_at_points,
)
from dpgplvm.model.state import State
from dpgplvm.model.table import Table
from dpgplvm.numerics import NumericalError

_LEAST_SHARE = 1e-9
STILL = 1e-3  # latents that vary less than this over the training rows are at their prior
_SIZES = (16, 64, 256)  # rows evaluated together: few sizes, so that few functions are compiled


class Groups(NamedTuple):
    """Which columns each group has: K of them at most, with probability zero where a group has fewer. And which groups
    each column may be in."""

    members: np.ndarray  # [T, K]
    shares: np.ndarray  # [T, K]
    n_columns: int
    components: Components

    @classmethod
    def of(cls, phi: np.ndarray) -> Groups:
        """All but those with next to no probability."""
        own = [np.flatnonzero(column > _LEAST_SHARE) for column in phi.T]
        shape = len(own), max(map(len, own))
        members, shares = np.zeros(shape, dtype=int), np.zeros(shape)
        for t, columns in enumerate(own):
            members[t, : len(columns)], shares[t, : len(columns)] = columns, phi[columns, t]
        return cls(members, shares, len(phi), Components.of(members, shares))

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """[S, D] from [T, S, K]: over the groups of every column, weighed with their probabilities."""
        total = np.zeros((values.shape[1], self.n_columns))
        for members, shares, own in zip(self.members, self.shares, values, strict=True):
            total[:, members[shares > 0.0]] += (shares * own)[:, shares > 0.0]
        return total


class Mixture(NamedTuple):
    """What every entry of a table is predicted to be: one Gaussian for each group that its column may be in."""

    groups: Groups
    means: np.ndarray  # [T, S, K]
    variances: np.ndarray  # [T, S, K], noise included

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D]."""
        mean = self.groups.add_up(self.means)
        apart = self.means - mean[:, self.groups.members].swapaxes(0, 1)
        return mean, self.groups.add_up(self.variances + apart**2)

    def by_column(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances [S, E] of the components of the columns."""
        n_rows, places = self.means.shape[1], self.groups.components.places
        means, variances = (part.swapaxes(0, 1).reshape(n_rows, -1) for part in (self.means, self.variances))
        return means[:, places], variances[:, places]


class Predictor(NamedTuple):
    """What predictions need of a fit. Groups that no column uses are gone."""

    model: Model
    theta: list[Parameters]  # of every group
    inducing: np.ndarray  # [M, Q]
    groups: Groups
    noise_precision: np.ndarray  # [T, K]
    diagonal: list[Diagonal]  # of every group's columns
    functions: list[Functions]  # the same for uncertain latents
    training: Marginals
    whereabouts: Whereabouts  # of rows whose posterior is asked for
    n_threads: int | None = None  # None: one for each core
    row_scales: RowScales = MAYBE_UNLIKE  # of the same rows

    @classmethod
    def of(cls, model: Model, state: State, Y: np.ndarray, mixed: bool, n_threads: int | None = None) -> Predictor:
        """The functions that `state` has learned from the scaled table Y."""
        phi, free = np.asarray(state.phi), jax.tree.map(np.asarray, state.free)
        if mixed:  # every column has hyperparameters of its own
            own = jax.tree.map(lambda values: np.log(phi @ np.exp(values)), (free.log_theta, free.log_noise_precision))
            free, phi = replace(free, log_theta=own[0], log_noise_precision=own[1]), np.eye(len(phi))
        occupied = np.flatnonzero(phi.max(axis=0) > _LEAST_SHARE)
        free = jax.tree.map(np.asarray, reordered(free, occupied))
        groups = Groups.of(phi[:, occupied] / phi[:, occupied].sum(axis=1, keepdims=True))
        training = jax.tree.map(np.asarray, marginals_of(model, free.latents))
        theta = [{name: np.exp(values[t]) for name, values in free.log_theta.items()} for t in range(free.n_groups)]
        tables = Table.of(Y).of_groups(groups.members)
        block = rows_per_block(len(Y), groups.members.shape[1], free.inducing.shape[0])

        def of_group(t: int) -> tuple[Diagonal, Functions]:
            noise = jax.tree.map(np.exp, free.of(groups.members[t]).log_noise(t))
            arguments = theta[t], noise, training, free.inducing, tables[t], block
            found = with_enough_jitter(lambda model: _functions(model, *arguments), model)
            if not all(np.isfinite(part).all() for part in jax.tree.leaves(found)):
                raise NumericalError(
                    "the posterior of the functions is not finite: fit with fewer inducing points (n_inducing)"
                )
            return jax.tree.map(np.asarray, found)

        diagonal, found = map(list, zip(*Threads(n_threads).map(of_group, range(free.n_groups)), strict=True))
        noise = np.exp(free.log_noise_precision)
        noise = noise[groups.members] if free.of_columns else np.repeat(noise[:, None], groups.members.shape[1], axis=1)
        whereabouts = Whereabouts.learned(training, _used(training), not model.kernel.bends)
        return cls(model, theta, free.inducing, groups, noise, diagonal, found, training, whereabouts, n_threads)

    @property
    def used(self) -> np.ndarray:
        """[Q] which latents the training rows use."""
        return _used(self.training)

    @property
    def bends(self) -> bool:
        """Whether functions can be other than linear."""
        return self.model.kernel.bends

    def literally(self) -> Predictor:
        """As the model has it: new rows are like those learned from, and anywhere under the prior."""
        return self._replace(row_scales=ALIKE, whereabouts=Whereabouts.anywhere(self.whereabouts.stretches))

    def mixtures(self, mean: np.ndarray, variance: np.ndarray) -> list[tuple[slice, Mixture]]:
        """The prediction for rows with these latents, in runs of rows."""

        def of_rows(rows: slice) -> tuple[slice, Mixture]:
            size = size_for(rows.stop - rows.start, _SIZES)
            latents = Marginals(padded(mean[rows], size), padded(variance[rows], size))  # type: ignore[arg-type]
            return rows, self._mixture(_moments, self.functions, latents, rows.stop - rows.start)

        return Threads(self.n_threads).map(of_rows, chunks(len(mean), _SIZES[-1]))

    def at_points(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D], noise included, where latents are certain."""
        return self._asked_at_points(X, Mixture.moments)

    def components_at(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances [S, E] of the components of the columns, noise included, where latents are certain."""
        return self._asked_at_points(X, Mixture.by_column)

    def _asked_at_points(
        self, X: np.ndarray, question: Callable[[Mixture], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        def of_rows(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            points = padded(X[rows], size_for(rows.stop - rows.start, _SIZES))
            return question(self._mixture(_moments_at_points, self.diagonal, points, rows.stop - rows.start))

        first, second = zip(*Threads(self.n_threads).map(of_rows, chunks(len(X), _SIZES[-1])), strict=True)
        return np.concatenate(first), np.concatenate(second)

    def slopes_at(self, X: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Derivatives [V, S, D] of the mean of every entry along directions [V, Q]."""

        def of_rows(rows: slice) -> np.ndarray:
            n_rows = rows.stop - rows.start
            points = padded(X[rows], size_for(n_rows, _SIZES))
            found = np.array(
                [
                    _slopes_at_points(self.model, theta, self.inducing, functions, points, directions)
                    for theta, functions in zip(self.theta, self.functions, strict=True)
                ]
            )
            return np.array([self.groups.add_up(along[:, :n_rows]) for along in found.swapaxes(0, 1)])

        return np.concatenate(Threads(self.n_threads).map(of_rows, chunks(len(X), _SIZES[-1])), axis=1)

    def _mixture(self, moments: Callable[..., Any], functions: list[Any], latents: Any, n_rows: int) -> Mixture:
        found = [
            [np.asarray(part)[:n_rows] for part in moments(self.model, theta, self.inducing, own, latents)]
            for theta, own in zip(self.theta, functions, strict=True)
        ]
        means, variances = map(np.array, zip(*found, strict=True))
        return Mixture(self.groups, means, variances + 1.0 / self.noise_precision[:, None, :])

    def covariance(self, X: np.ndarray) -> np.ndarray:
        """[S, S, D] of the rows at certain latents X, noise included, for every column."""
        mean, total = self.at_points(X)[0], np.zeros((self.groups.n_columns, len(X), len(X)))
        for t, (members, shares) in enumerate(zip(self.groups.members, self.groups.shares, strict=True)):
            found = _covariances_at_points(self.model, self.theta[t], self.inducing, self.diagonal[t], X)
            means, covariances = map(np.asarray, found)
            for k in np.flatnonzero(shares > 0.0):
                apart = means[:, k] - mean[:, members[k]]
                own = covariances[k] + np.eye(len(X)) / self.noise_precision[t, k]
                total[members[k]] += shares[k] * (own + np.outer(apart, apart))
        return np.moveaxis(total, 0, 2)


def _used(training: Marginals) -> np.ndarray:
    used = np.asarray(training.mean).std(axis=0) > STILL
    return used if used.any() else np.ones_like(used)


@compiles_fast("model", "block")
def _functions(model: Model, theta: Parameters, noise, marginals: Marginals, inducing, table: Table, block):
    diagonal = diagonal_functions(model, theta, noise, marginals, inducing, table, block)
    return diagonal, functions(model, theta, inducing, diagonal)


@compiles_fast("model")
def _moments(model: Model, theta: Parameters, inducing, functions: Functions, rows: Marginals):
    return moments_at(model, theta, inducing, functions, rows)


@compiles_fast("model")
def _covariances_at_points(model: Model, theta: Parameters, inducing, diagonal: Diagonal, X):
    return covariances_at_points(model, theta, inducing, diagonal, X)


@runs_fast("model")
def _moments_at_points(model: Model, theta: Parameters, inducing, diagonal: Diagonal, X):
    return moments_at_points(model, theta, inducing, diagonal, X)


@runs_fast("model")
def _slopes_at_points(model: Model, theta: Parameters, inducing, functions: Functions, X, directions):
    return slopes_at_points(model, theta, inducing, functions, X, directions)
