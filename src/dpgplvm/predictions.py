"""What a fitted model says: places for new rows, predictions, gaps filled, densities, samples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpgplvm import data
from dpgplvm.arguments import check_count, check_method, read_probabilities
from dpgplvm.fitted import Fitted
from dpgplvm.frames import index_of
from dpgplvm.inference.distribution import draw_entries, quantiles_of_entries
from dpgplvm.inference.particles import around
from dpgplvm.inference.rows import Rows
from dpgplvm.numerics import computing


class Inferred(NamedTuple):
    """Latents of some rows."""

    mean: np.ndarray  # [S, Q]
    variance: np.ndarray  # [S, Q]
    bound: np.ndarray  # [S] lower bound on the log density of what is observed in rows like those learned from


class Predictions(Fitted, TransformerMixin):
    """Methods of every fitted model. Tables are in the user's units; NaN is a gap."""

    def infer(self, Y) -> Inferred:
        """Latents of rows, new or not, whatever is missing in them.

        Parameters
        ----------
        Y : array or DataFrame [S, D]
            Columns as in `fit`; those of a DataFrame are found by their names. NaN is a gap.

        Returns
        -------
        Inferred
            `mean` and `variance` [S, Q], and `bound` [S], a lower bound on each row's log density, in the user's
            units, for rows like those that were learned from.
        """
        check_is_fitted(self)
        Y = data.read_rows(self, Y)
        with computing():
            rows = self._infer(Y)
        used = self.latent_order_
        return Inferred(rows.mean[:, used], rows.variance[:, used], rows.bound - self._log_units(Y))

    def transform(self, Y) -> np.ndarray:
        """Latent means [S, Q] of rows, new or not, whatever is missing in them."""
        return self.infer(Y).mean

    def predict(self, X, *, variance=None, return_std: bool = False, return_cov: bool = False):
        """What the columns are expected to be for rows with latents X.

        Parameters
        ----------
        X : array or DataFrame [S, Q]
            Latents, as in `latents_` or from `transform`; columns with the names of `get_feature_names_out` may be in
            any order.
        variance : array [S, Q], float or None
            How uncertain they are; None: not at all.
        return_std : bool
            Also return the standard deviation of every entry, noise included.
        return_cov : bool
            Also return the covariance [S, S, D] of the rows for every column, noise included; for certain latents.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
            Tables [S, D], as DataFrames where the model was fitted to one, with the index of X where it has one.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std=True and return_cov=True are both given: give one of them")
        if return_cov and variance is not None:
            raise ValueError("variance is given with return_cov=True, which is for certain latents: leave it out")
        with computing():
            latents = self._latents(X, variance)
            mean, spread = self._moments(*latents)
            table = self._table(self._scaling.to_user(mean), index_of(X, "X"))
            if return_cov:
                return table, self._predictor().covariance(latents[0]) * self._scaling.scale**2
        return (table, self._table(spread * self._scaling.scale, index_of(X, "X"))) if return_std else table

    def inverse_transform(self, X):
        """The table [S, D] that the latents X are expected to come with."""
        return self.predict(X)

    def predict_quantiles(self, X, quantiles=(0.025, 0.5, 0.975), *, variance=None):
        """Quantiles of what the columns will be for rows with latents X: arguments as in `predict`. An array [K, S, D],
        or a list of DataFrames where the model was fitted to one."""
        check_is_fitted(self)
        probabilities = read_probabilities(quantiles)
        with computing():
            predictor, latents = self._predictor(), self._latents(X, variance)
            every = np.ones((len(latents[0]), self.n_features_in_), dtype=bool)
            parts = [
                quantiles_of_entries(particles, probabilities, every[rows], predictor.n_threads)
                for rows, particles in around(predictor, *latents)
            ]
        return self._all_tables(self._scaling.to_user(np.concatenate(parts, axis=1)), index_of(X, "X"))

    def impute(self, Y=None, *, return_std: bool = False, quantiles=None):
        """The table with its gaps filled by what is expected there.

        A row is looked for where training rows are, and may be unlike them; one in which nothing was observed has the
        prior of the model.

        Parameters
        ----------
        Y : array or DataFrame [S, D], or None
            Rows, new or not; None: the table that the model was fitted to.
        return_std : bool
            Also return the standard deviation of every entry: zero where it was observed.
        quantiles : sequence of K probabilities, or None
            Also return a table for each of these quantiles, as `impute_quantiles` does; asking for all at once takes
            half the time.

        Returns
        -------
        filled, or a tuple of filled, std and quantiles, of those that are asked for
            As Y came, columns with gaps as float64 (for None, as the table of the fit came, all columns as float64);
            what was observed is as it was, to the bit, numbers that float64 cannot hold in such columns excepted.
        """
        check_is_fitted(self)
        given, Y = self._rows(Y)
        gaps = np.isnan(Y)
        hidden = self._hidden(Y, np.zeros(0) if quantiles is None else read_probabilities(quantiles))
        answer = [self._as_given(given, np.where(gaps, hidden.mean, Y), gaps)]
        if return_std:
            answer.append(self._as_given(given, np.where(gaps, hidden.std, 0.0), np.ones_like(gaps)))
        if quantiles is not None:
            answer.append(self._all_as_given(given, np.where(gaps, hidden.quantiles, Y), gaps))
        return answer[0] if len(answer) == 1 else tuple(answer)

    def impute_quantiles(self, Y=None, quantiles=(0.025, 0.5, 0.975)):
        """Quantiles of what the gaps of Y hide; where an entry was observed, all of them are that value. They are an
        array [K, S, D], or a list of DataFrames where Y is one."""
        check_is_fitted(self)
        given, Y = self._rows(Y)
        gaps = np.isnan(Y)
        found = np.where(gaps, self._hidden(Y, read_probabilities(quantiles)).quantiles, Y)
        return self._all_as_given(given, found, gaps)

    def sample_imputations(self, Y=None, n_draws: int = 10, *, random_state=None):
        """`n_draws` tables with the gaps of Y drawn from what they may hide, row by row: for multiple imputation. They
        are an array [n_draws, S, D], or a list of DataFrames where Y is one."""
        check_is_fitted(self)
        check_count(n_draws, "n_draws")
        given, Y = self._rows(Y)
        rng = np.random.default_rng(data.seed(random_state))
        drawn = np.zeros((n_draws, *Y.shape))
        with computing():
            for rows, particles in self._posterior_of_gaps(Y):
                drawn[:, rows] = draw_entries(particles, n_draws, rng)
        gaps = np.isnan(Y)
        return self._all_as_given(given, np.where(gaps, self._scaling.to_user(drawn), Y), gaps)

    def sample(self, n_samples: int = 1, *, random_state=None):
        """New rows [n_samples, D] from the model: latents from their prior, then values, each row for itself."""
        check_is_fitted(self)
        check_count(n_samples, "n_samples")
        nowhere = np.zeros((n_samples, self.state_.free.inducing.shape[1]))
        with computing():
            return self._table(self._draw(nowhere, np.ones_like(nowhere), random_state))

    def sample_at(self, X, n_draws: int = 1, *, variance=None, random_state=None):
        """Draws of rows with latents X, noise included, each row for itself: arguments as in `predict`. An array
        [n_draws, S, D], or a list of DataFrames where the model was fitted to one."""
        check_is_fitted(self)
        check_count(n_draws, "n_draws")
        with computing():
            mean, spread = self._latents(X, variance)
            drawn = self._draw(np.repeat(mean[None], n_draws, axis=0), np.sqrt(spread), random_state)
        return self._all_tables(drawn, index_of(X, "X"))

    def score_samples(self, Y, *, method: Literal["sampled", "bound", "joint"] = "sampled") -> np.ndarray:
        """Log density [S] of what is observed in each row, in the user's units.

        Parameters
        ----------
        Y : array or DataFrame [S, D]
        method : {"sampled", "bound", "joint"}
            "sampled" integrates over the row's latents by weighted draws, given the functions that the fit has learned,
            and over how unlike the training rows it is, but for a drift; latents are where those of training rows are.
            "bound" is a lower bound for a row that is like them and anywhere under the prior, with one Gaussian for the
            latents. "joint" is the paper's difference of two bounds L(Y, y) - L(Y), in which the row teaches the
            functions too: one optimisation a row.
        """
        check_method(method)
        if method == "bound":
            return self.infer(Y).bound
        check_is_fitted(self)
        Y = data.read_rows(self, Y)
        with computing():
            if method == "joint":
                joint, rows, scaled = self._joint(), self._infer(Y), self._scaling.to_model(Y)
                each = (Rows(*(part[[n]] for part in rows)) for n in range(len(Y)))
                found = np.array([joint.gain(row, scaled[[n]]) for n, row in enumerate(each)])
            else:
                found = np.empty(len(Y))
                for numbers, particles in self._posterior(Y, may_drift=False):
                    found[numbers] = particles.log_density
        return found - self._log_units(Y)

    def score(self, Y, y=None, *, method: Literal["sampled", "bound", "joint"] = "sampled") -> float:
        """Mean log density of the rows of Y; with method="joint", all of them added to the training table at once."""
        if method != "joint":
            return float(self.score_samples(Y, method=method).mean())
        check_is_fitted(self)
        Y = data.read_rows(self, Y)
        with computing():
            gain = self._joint().gain(self._infer(Y), self._scaling.to_model(Y))
        return float(gain - self._log_units(Y).sum()) / len(Y)
