"""What the three models share: how a table becomes a fit, and what of the fit the user sees."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from dpgplvm import data, files
from dpgplvm.advice import advise, warn_user
from dpgplvm.arguments import check_callback, check_start
from dpgplvm.frames import Layout
from dpgplvm.inference import fit as fitting
from dpgplvm.inference.options import Options
from dpgplvm.inference.progress import OnProgress
from dpgplvm.model.bound import Model
from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import NAMED_KERNELS, Kernel
from dpgplvm.model.state import Free, State
from dpgplvm.model.sticks import Concentration
from dpgplvm.notebook import html
from dpgplvm.numerics import computing, forget_compiled_functions_if_many
from dpgplvm.pages import Pages
from dpgplvm.predictions import Predictions
from dpgplvm.progress import shown
from dpgplvm.result_frames import ResultFrames, result_frames
from dpgplvm.results import Results, results
from dpgplvm.summary import summary
from dpgplvm.warm_start import check_goes_on

# Latents where nobody says how many, and where a search for groups finds all of these used.
_DEFAULT_LATENTS, _MOST_LATENTS = 10, 20


class LatentModel(Predictions, Pages, BaseEstimator):
    """What the three models share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_latents": [Interval(Integral, 1, None, closed="left"), None],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions(set(NAMED_KERNELS)), Kernel],
        "noise": [StrOptions({"group", "column"})],
        "hyperprior": [Interval(Real, 0, None, closed="neither"), Hyperprior, None],
        "bound": [StrOptions({"grouped", "mixed"})],
        "optimiser": [StrOptions({"lbfgs", "paper"})],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "standardise": ["boolean"],
        "jitter": [Interval(Real, 0, 1e-2, closed="neither")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": [Interval(Integral, 0, 2, closed="both"), "boolean"],
    }

    def __init__(
        self,
        *,
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
        self.n_latents = n_latents
        self.n_inducing = n_inducing
        self.kernel = kernel
        self.noise = noise
        self.hyperprior = hyperprior
        self.bound = bound
        self.optimiser = optimiser
        self.max_iter = max_iter
        self.tol = tol
        self.standardise = standardise
        self.jitter = jitter
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, Y, y=None, *, start: Free | State | None = None, callback: OnProgress | None = None) -> Self:
        """Learn latents, groups and functions from the table Y.

        Parameters
        ----------
        Y : array or DataFrame [N, D]
            Rows are samples. Columns must be numbers and must vary; NaN is a gap.
        y : ignored
            For scikit-learn's pipelines.
        start : Free, State or None
            Free parameters to start from, in place of an embedding of the rows; or the state of a fit, `state_`, to go
            on from, its groups included.
        callback : function or None
            Called after every iteration with where the fit is: a `Progress` with `stage`, `iteration`, `bound`,
            `n_groups`, `seconds` and `iterations_left`. It ends the fit by returning True; the best state so far is
            kept. Starts that run in other processes (n_jobs) are reported when they have ended.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            self._fit(Y, start, callback)
        except BaseException:
            # Bad input loses nothing: a model that was fitted before still is.
            self.__dict__ = before
            raise
        for advice in advise(self):
            warn_user(advice)
        return self

    def _fit(self, Y: Any, start: Free | State | None, callback: OnProgress | None) -> None:
        self._check_combination(start)
        check_callback(callback)
        layout = Layout.of(Y)
        Y = data.read(self, Y)
        names = data.column_names(Y.shape[1], getattr(self, "feature_names_in_", None))
        data.check_values(Y, names)
        seen = ~np.isnan(Y).all(axis=1)
        Y = Y[seen]
        noise = self._noise()
        given, self._group_names = self._given_groups(names)
        n_groups = self._truncation(Y.shape[1]) if given is None else int(given.max()) + 1
        goes_on = start is None and self.warm_start and hasattr(self, "state_")
        start = self.state_ if goes_on else start
        n_latents = self._checked_n_latents(Y, start)
        model = self._make_model(given is None, start)
        if goes_on:
            check_goes_on(self, names, seen, model, n_latents, n_groups, noise)
        elif start is not None:
            check_start(start, model.kernel, len(Y), Y.shape[1], n_latents, n_groups, noise)
        self._scaling = data.Scaling.of(Y, self.standardise)
        self._names, self._layout, self._seen = names, layout, seen
        self._mixed = self.bound == "mixed"
        forget_compiled_functions_if_many()
        with computing(), shown(self.verbose, callback) as reporter:
            table = self._scaling.to_model(Y)
            ended = fitting.fit(
                model,
                table,
                Options(
                    n_latents=n_latents,
                    most_latents=min(_MOST_LATENTS, *Y.shape) if self.n_latents is None else n_latents,
                    n_inducing=self.n_inducing,
                    n_groups=n_groups,
                    noise=noise,
                    assignments=None if given is None else np.eye(n_groups)[given],
                    mixed=self._mixed,
                    optimiser=self.optimiser,
                    max_iter=self.max_iter,
                    tol=self.tol,
                    n_starts=getattr(self, "n_starts", 1),
                    n_jobs=getattr(self, "n_jobs", None),
                    kernels=self._kernels(),
                    enrich=self.kernel == "auto",
                    reporter=reporter,
                ),
                np.random.default_rng(data.seed(self.random_state)),
                start,
            )
            self._model = ended.model
            self._learned_from(Y)
            self._publish(results(self._model, ended, table))

    def _check_combination(self, start: Free | State | None) -> None:
        """Refuse parameters that do not go together."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def summary(self) -> str:
        """A compact table of the groups, their columns and noise, how the fit ended, and what is explained.

        `explained` is the mean over a group's columns of `explained_`, the share of a column's variance that is
        predicted; beside it stands what of it comes from each latent (`explained_by_latent_`). Noise is a standard
        deviation in units of the columns' own.
        """
        check_is_fitted(self)
        return summary(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which `dpgplvm.load` reads: numbers and text, no pickle.

        The file has the training table in it, which predictions need. It is written whole or not at all: whatever
        happens on the way, a file that was there before is still there. Parameters come back as they were, but for
        Series and Index of labels, which become lists.

        Parameters
        ----------
        path : str or path-like
            Usually ends in ``.dpgplvm``; a file of that name is replaced.

        Raises
        ------
        FileError
            Where the model holds code of your own, such as a kernel, which only pickle can keep.
        OSError
            Where the file cannot be written, such as `FileNotFoundError` for a folder that does not exist.
        """
        check_is_fitted(self)
        files.save(self, path)

    def to_frame(self) -> ResultFrames:
        """What `summary` says and more, as DataFrames.

        Returns
        -------
        ResultFrames
            `fit`, `groups`, `columns` and `rows`, each a DataFrame such as the model was fitted to; of pandas where it
            was fitted to an array.
        """
        check_is_fitted(self)
        return result_frames(self)

    def _html_repr(self) -> str:
        """What notebooks show."""
        parameters = super()._html_repr()
        return f"{parameters}{html(self)}" if hasattr(self, "state_") else parameters

    def _publish(self, found: Results) -> None:
        # Rows with nothing observed were left out of the fit: they have the prior.
        latents, variance = np.zeros((2, len(self._seen), found.n_latents))
        variance += 1.0
        latents[self._seen], variance[self._seen] = found.latents, found.latent_variance
        found = found._replace(latents=latents, latent_variance=variance)
        for name, value in found._asdict().items():
            setattr(self, f"{name}_", value)

    def _make_model(self, inferred_groups: bool, start: Free | State | None) -> Model:
        hyperprior = Hyperprior() if self.hyperprior is None else self.hyperprior
        if not isinstance(hyperprior, Hyperprior):
            hyperprior = Hyperprior(relevance=hyperprior, scale=hyperprior, noise=hyperprior)
        # A start says by its hyperparameters which of several kernels it is for.
        free = start.free if isinstance(start, State) else start
        given = free.log_theta.keys() if isinstance(free, Free) else None
        kernels = self._kernels()
        # A search ends with a kernel that it did not begin with where that is better.
        may_have_ended_with = NAMED_KERNELS.values() if self.kernel == "auto" else kernels
        kernel = next((kernel for kernel in may_have_ended_with if kernel.parameters.keys() == given), kernels[0])
        try:
            hash(kernel)
        except TypeError:
            raise ValueError(
                f"kernel is a {type(kernel).__name__}, which cannot be hashed: make it a frozen dataclass"
            ) from None
        return Model(
            kernel=kernel,
            hyperprior=hyperprior,
            concentration=self._concentration(),
            inferred_groups=inferred_groups,
            jitter=self.jitter,
        )

    def _kernels(self) -> tuple[Kernel, ...]:
        """The kernel, or those to choose from."""
        return (self.kernel if isinstance(self.kernel, Kernel) else NAMED_KERNELS[self.kernel],)

    def _checked_n_latents(self, Y: np.ndarray, start: Free | State | None) -> int:
        n_rows, n_columns = Y.shape
        most = min(n_rows, n_columns)
        if self.n_latents is None:
            given = start.free if isinstance(start, State) else start
            if isinstance(given, Free) and np.ndim(given.inducing) == 2 and np.shape(given.inducing)[1] <= most:
                return given.n_latents
            return min(_DEFAULT_LATENTS, most)
        if self.n_latents > most:
            raise ValueError(
                f"n_latents={self.n_latents} is more than the {n_rows} rows or the {n_columns} columns of Y: "
                f"use at most {most}"
            )
        return self.n_latents

    def _noise(self) -> Literal["group", "column"]:
        """Whose the noise is."""
        for name, value in {"bound": self.bound, "optimiser": self.optimiser}.items():
            if self.noise == "column" and value in ("mixed", "paper"):
                raise ValueError(
                    f'{name}="{value}" is the paper\'s, where noise belongs to groups: give noise="group" with it'
                )
        return self.noise

    def _given_groups(self, names: list[str]) -> tuple[np.ndarray | None, list[str] | None]:
        """One group number for every column where groups are given, and the groups' names; None where they are not."""
        raise NotImplementedError

    def _truncation(self, n_columns: int) -> int:
        return 1

    def _concentration(self) -> Concentration:
        return Concentration()
