"""Priors and posteriors of the latent points X.

The rest of the model sees a posterior of the latents only through the marginal mean and variance of every x_nq, and
through its divergence from the prior. A prior that couples rows, such as a Gaussian process over time, is another class
with the same methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

LatentParameters = dict[str, Array]


class Marginals(NamedTuple):
    """Mean and variance of every latent coordinate of every row under q(X)."""

    mean: Float[Array, "N Q"]
    variance: Float[Array, "N Q"]


@runtime_checkable
class LatentPrior(Protocol):
    """A prior p(X) together with the family of q(X) that approximates its posterior."""

    def start(self, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> LatentParameters:
        """Free parameters of the q(X) with these marginals, or as near to them as the family comes."""
        ...

    def marginals(self, parameters: LatentParameters) -> Marginals:
        """What the kernels' statistics need of q(X)."""
        ...

    def divergence(self, parameters: LatentParameters) -> Float[Array, ""]:
        """KL(q(X) || p(X)) in nats."""
        ...

    def divergence_of_rows(self, parameters: LatentParameters) -> Float[Array, " N"]:
        """The same for every row, where rows are independent of each other: then new ones can be added."""
        ...


@dataclass(frozen=True)
class StandardNormal:
    """p(x_n) = N(0, I), q(x_n) = N(mu_n, diag S_n): the paper's equations (model_factor_x) and q(X)."""

    def start(self, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> LatentParameters:
        return {"mean": jnp.asarray(mean), "log_variance": jnp.log(variance)}

    def marginals(self, parameters: LatentParameters) -> Marginals:
        return Marginals(parameters["mean"], jnp.exp(parameters["log_variance"]))

    def divergence(self, parameters: LatentParameters) -> Float[Array, ""]:
        return self.divergence_of_rows(parameters).sum()

    def divergence_of_rows(self, parameters: LatentParameters) -> Float[Array, " N"]:
        mean, variance = self.marginals(parameters)
        return 0.5 * (mean**2 + variance - parameters["log_variance"] - 1.0).sum(axis=1)
