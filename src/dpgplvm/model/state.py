"""Everything that a fit moves, in one immutable tree, named as users meet it, with the paper's letters beside it."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.model.kernels import Parameters
from dpgplvm.model.latents import LatentParameters
from dpgplvm.model.sticks import Sticks


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Free:
    """What an optimiser moves: the parameters with no closed-form optimum. All unconstrained."""

    latents: LatentParameters  # of q(X)
    inducing: Float[Array, "M Q"]  # X_u
    log_theta: Parameters  # log of gamma, sigma^2, ...: each [T, ...]
    log_noise_precision: Float[Array, " T"]  # log beta


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
