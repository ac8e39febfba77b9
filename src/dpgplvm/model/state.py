"""Everything that a fit moves, in one immutable tree, named as users meet it, with the paper's letters beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.model.kernels import Parameters
from dpgplvm.model.latents import LatentParameters
from dpgplvm.model.per_column import Columns
from dpgplvm.model.sticks import Sticks


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Free:
    """What an optimiser moves: the parameters with no closed-form optimum. All unconstrained."""

    latents: LatentParameters  # of q(X)
    inducing: Float[Array, "M Q"]  # X_u
    log_theta: Parameters  # log of gamma, sigma^2, ...: each [T, ...]
    log_noise_precision: Float[Array, " T"] | Float[Array, " D"]  # log beta, of groups or of columns
    log_scale: Float[Array, " D"] | None = None  # log s, where columns have noise and scale of their own

    @property
    def n_groups(self) -> int:
        return next(iter(self.log_theta.values())).shape[0]

    @property
    def n_latents(self) -> int:
        return self.inducing.shape[1]

    @property
    def of_columns(self) -> bool:
        """Whether noise and scale belong to the columns; otherwise, as in the paper, they belong to the groups."""
        return self.log_scale is not None

    def log_noise(self, t: int) -> Any:
        """What the bound of group t needs to know of noise: its own, or that of all columns."""
        return (
            self.log_noise_precision[t] if self.log_scale is None else Columns(self.log_noise_precision, self.log_scale)
        )

    def of(self, columns: Any) -> Free:
        """The same for some of the columns only."""
        if self.log_scale is None:
            return self
        return replace(self, log_noise_precision=self.log_noise_precision[columns], log_scale=self.log_scale[columns])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The whole variational posterior and the hyperparameters."""

    free: Free
    phi: Float[Array | np.ndarray, "D T"]  # q(Z)
    sticks: Sticks  # q(V), q(alpha)
    in_play: Float[Array | np.ndarray, " T"] | None = (
        None  # 1 for groups that columns may use, 0 for spare ones; None: all may
    )
