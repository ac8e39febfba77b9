"""The ARD RBF kernel, k(x, z) = sigma2 exp(-1/2 sum_q gamma_q (x_q - z_q)^2), the paper's kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.exponentials import exp, exponentials, sum_of_exponentials
from dpgplvm.model.kernels.base import Kernel, Parameter, Parameters
from dpgplvm.model.pairs import midpoints, symmetric_matrix, upper_triangle


@dataclass(frozen=True)
class RBF(Kernel):
    """ARD RBF kernel; `ard_weights` are inverse squared length-scales, zero for a latent that is not listened to.

    Every statistic is the exponential of a matrix product of features of the rows with features of the inducing points.
    Latents are centred first, so that expanding the squares costs no digits.
    """

    parameters: ClassVar[dict[str, Parameter]] = {
        "ard_weights": Parameter(per_latent=True, role="relevance"),
        "signal_variance": Parameter(per_latent=False, role="scale"),
    }

    def value(self, theta: Parameters, X: Float[Array, "N Q"], Z: Float[Array, "M Q"]) -> Float[Array, "N M"]:
        return theta["signal_variance"] * jnp.exp(-0.5 * _squared_distances(theta["ard_weights"], X, Z))

    def diagonal(self, theta: Parameters, X: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], theta["signal_variance"])

    def psi0(self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return jnp.full(mean.shape[0], theta["signal_variance"])

    def psi1(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N M"]:
        mean, Z = _centred(mean, Z)
        gamma = theta["ard_weights"]
        spread = gamma * variance + 1.0
        c = 0.5 * gamma / spread
        offset = -0.5 * jnp.log(spread).sum(axis=1) - (c * mean**2).sum(axis=1)
        rows = jnp.concatenate([2.0 * c * mean, -c], axis=1)
        points = jnp.concatenate([Z, Z**2], axis=1)
        return theta["signal_variance"] * exp(offset[:, None] + rows @ points.T)

    def psi2(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "M M"]:
        features = _features_of_pairs(theta["ard_weights"], *_centred(mean, Z), variance)
        return jnp.exp(_log_height(theta, Z)) * symmetric_matrix(sum_of_exponentials(*features))

    def psi2_features(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N F"]:
        offset, rows, pairs = _features_of_pairs(theta["ard_weights"], *_centred(mean, Z), variance)
        # One feature more is cheaper than another pass over rows and pairs.
        rows = jnp.concatenate([rows, jnp.ones((rows.shape[0], 1))], axis=1)
        return exponentials(
            offset, rows, jnp.concatenate([pairs, upper_triangle(_log_height(theta, Z))[:, None]], axis=1)
        )

    def slopes(
        self,
        theta: Parameters,
        X: Float[Array, "N Q"],
        Z: Float[Array, "M Q"],
        weights: Float[Array, "M K"],
        directions: Float[Array, "V Q"],
    ) -> Float[Array, "V N K"]:
        # dk/du = -k (x - z)'Gamma u: with the part of z in the weights, two matrix products for all directions.
        values = self.value(theta, X, Z)
        X, Z = _centred(X, Z)
        along = theta["ard_weights"] * directions
        of_inducing = jnp.einsum("vq,mq,mk->mvk", along, Z, weights)
        of_inducing = (values @ of_inducing.reshape(Z.shape[0], -1)).reshape(X.shape[0], *of_inducing.shape[1:])
        return jnp.swapaxes(of_inducing - (X @ along.T)[:, :, None] * (values @ weights)[:, None], 0, 1)


def _log_height(theta: Parameters, Z: Float[Array, "M Q"]) -> Float[Array, "M M"]:
    """The log of what psi2 of two inducing points is for a row that sits, certain, half way between them."""
    return 2.0 * jnp.log(theta["signal_variance"]) - 0.25 * _squared_distances(theta["ard_weights"], Z, Z)


def _features_of_pairs(
    weights: Float[Array, " Q"], mean: Float[Array, "N Q"], Z: Float[Array, "M Q"], variance: Float[Array, "N Q"]
) -> tuple[Float[Array, " N"], Float[Array, "N F"], Float[Array, "R F"]]:
    """Offsets and features of rows, and features of pairs of inducing points, whose products are the exponents."""
    spread = 2.0 * weights * variance + 1.0
    c = weights / spread
    offset = -0.5 * jnp.log(spread).sum(axis=1) - (c * mean**2).sum(axis=1)
    middle = midpoints(Z)
    return offset, jnp.concatenate([2.0 * c * mean, -c], axis=1), jnp.concatenate([middle, middle**2], axis=1)


def _squared_distances(
    weights: Float[Array, " Q"], X: Float[Array, "N Q"], Z: Float[Array, "M Q"]
) -> Float[Array, "N M"]:
    # By differences, not by the expanded square: K's smallest eigenvalues need every digit.
    return ((X[:, None, :] - Z[None, :, :]) ** 2 * weights).sum(axis=-1)


def _centred(mean: Float[Array, "N Q"], Z: Float[Array, "M Q"]) -> tuple[Array, Array]:
    middle = lax.stop_gradient(Z.mean(axis=0))
    return mean - middle, Z - middle
