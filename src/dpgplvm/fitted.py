"""What the answers of a fitted model are made of: the rows that it learned from, the user's units and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from dpgplvm import data
from dpgplvm.arguments import read_latents, read_variances
from dpgplvm.frames import Layout, filled_like, read_frame
from dpgplvm.inference.distribution import draw_entries, quantiles_of_entries
from dpgplvm.inference.joint import JointBound
from dpgplvm.inference.particles import Particles, predicted_at
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.rounds import posterior_of_rows
from dpgplvm.inference.rows import Rows, infer_rows
from dpgplvm.model.bound import Model
from dpgplvm.model.state import State
from dpgplvm.numerics import computing, forget_compiled_functions_if_many


class Hidden(NamedTuple):
    """What is expected in the gaps of a table, in the user's units; elsewhere it means nothing."""

    mean: np.ndarray  # [S, D]
    std: np.ndarray  # [S, D]
    quantiles: np.ndarray  # [K, S, D]


class Kept:
    """What was computed when it was first asked for; a copy has to compute it again."""

    def __init__(self) -> None:
        self.predictor: Predictor | None = None

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()


class Fitted(ClassNamePrefixFeaturesOutMixin):
    """A model that has been fitted, as its own methods see it."""

    # A fit leaves these behind.
    n_features_in_: int
    n_latents_: int
    latent_order_: np.ndarray
    state_: State
    _model: Model
    _scaling: data.Scaling
    _seen: np.ndarray  # [N] rows in which something was observed
    _layout: Layout
    _mixed: bool
    _learned: np.ndarray  # the table, without the rows that were not seen
    _kept: Kept

    @property
    def _n_features_out(self) -> int:
        return self.n_latents_

    def _learned_from(self, Y: np.ndarray) -> None:
        """Keep the rows of the fit; what predictions need of them is computed when it is first asked for."""
        self._learned, self._kept = Y, Kept()

    def _predictor(self) -> Predictor:
        n_jobs = getattr(self, "n_jobs", None)
        n_threads = None if n_jobs is None else effective_n_jobs(n_jobs)
        if self._kept.predictor is None:
            forget_compiled_functions_if_many()
            table = self._scaling.to_model(self._learned)
            self._kept.predictor = Predictor.of(self._model, self.state_, table, self._mixed, n_threads)
        return self._kept.predictor._replace(n_threads=n_threads)

    def _infer(self, Y: np.ndarray) -> Rows:
        return infer_rows(self._predictor(), self._scaling.to_model(Y))

    def _posterior(self, Y: np.ndarray, may_drift: bool) -> Iterator[tuple[np.ndarray, Particles]]:
        return posterior_of_rows(self._predictor(), self._scaling.to_model(Y), may_drift=may_drift)

    def _hidden(self, Y: np.ndarray, probabilities: np.ndarray) -> Hidden:
        """What the gaps of Y hide."""
        gaps, mean, variance = np.isnan(Y), np.zeros(Y.shape), np.zeros(Y.shape)
        quantiles = np.zeros((len(probabilities), *Y.shape))
        with computing():
            n_threads = self._predictor().n_threads
            for rows, particles in self._posterior_of_gaps(Y):
                mean[rows], variance[rows] = particles.moments()
                quantiles[:, rows] = quantiles_of_entries(particles, probabilities, gaps[rows], n_threads)
        to_user = self._scaling.to_user
        return Hidden(to_user(mean), np.sqrt(variance) * self._scaling.scale, to_user(quantiles))

    def _posterior_of_gaps(self, Y: np.ndarray) -> Iterator[tuple[np.ndarray, Particles]]:
        """Of the rows that have any, by their numbers."""
        holed = np.flatnonzero(np.isnan(Y).any(axis=1))
        for rows, particles in self._posterior(Y[holed], may_drift=True):
            yield holed[rows], particles

    def _joint(self) -> JointBound:
        if self._mixed:
            raise ValueError('method="joint" is not there for bound="mixed": give method="sampled"')
        return JointBound(self._model, self.state_, self._scaling.to_model(self._learned))

    def _rows(self, Y: Any) -> tuple[Any, np.ndarray]:
        """The table as it was given, and its values in the order of training; for None those of training."""
        if Y is not None:
            return Y, data.read_rows(self, Y)
        table = np.full((len(self._seen), self.n_features_in_), np.nan)
        table[self._seen] = self._learned
        return None, table

    def _moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of every entry, in the model's units."""
        predictor, is_uncertain = self._predictor(), variance.any(axis=1)
        certain, others = np.flatnonzero(~is_uncertain), np.flatnonzero(is_uncertain)
        moments, squared = np.empty((2, len(mean), self.n_features_in_))
        if certain.size:
            moments[certain], squared[certain] = predictor.at_points(mean[certain])
        for rows, mixture in predictor.mixtures(mean[others], variance[others]):
            moments[others[rows]], squared[others[rows]] = mixture.moments()
        return moments, np.sqrt(squared)

    def _draw(self, mean: np.ndarray, spread: np.ndarray, random_state: Any) -> np.ndarray:
        """A row for each of these latents [..., Q], with this standard deviation; in the user's units."""
        rng = np.random.default_rng(data.seed(random_state))
        X = mean + spread * rng.normal(size=mean.shape)
        points = X.reshape(-1, 1, X.shape[-1])
        one = np.ones((len(points), 1))
        certain = Particles(one, np.zeros(len(points)), *predicted_at(self._predictor(), points), one)
        return self._scaling.to_user(draw_entries(certain, 1, rng).reshape(*X.shape[:-1], -1))

    def _latents(self, X: Any, variance: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all latents of the state: those that are not used are where rows are on average."""
        names = list(self.get_feature_names_out())
        X = read_latents(X, "X", names)
        mean = np.repeat(self._predictor().training.mean.mean(axis=0, keepdims=True), len(X), axis=0)
        mean[:, self.latent_order_] = X
        spread = np.zeros_like(mean)
        if variance is not None:
            spread[:, self.latent_order_] = read_variances(variance, X, names)
        return mean, spread

    def _log_units(self, Y: np.ndarray) -> np.ndarray:
        """What turns a log density in the model's units into one in the user's, for what is observed in each row."""
        return (~np.isnan(Y)) @ np.log(self._scaling.scale)

    def _table(self, values: np.ndarray, index: Any = None) -> Any:
        """As the table that the model was fitted to: a DataFrame where that was one, with an index of its own."""
        return self._layout.dressed(values, index)

    def _as_given(self, given: Any, values: np.ndarray, changed: np.ndarray) -> Any:
        """`values` in the container of `given`, its own order of columns and its own types where nothing `changed`."""
        if given is None:
            return self._table(values, self._layout.index)
        return filled_like(given, values, changed, self._layout.columns)

    def _all_as_given(self, given: Any, values: np.ndarray, changed: np.ndarray) -> Any:
        """Several tables [K, S, D]: an array of them, or a list where `given` is a DataFrame."""
        frames = self._layout.columns if given is None else read_frame(given)
        return values if frames is None else [self._as_given(given, one, changed) for one in values]

    def _all_tables(self, values: np.ndarray, index: Any) -> Any:
        """The same, as the table that the model was fitted to."""
        return values if self._layout.columns is None else [self._table(one, index) for one in values]
