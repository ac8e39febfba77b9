"""The ARD linear kernel, k(x, z) = sum_q a_q x_q z_q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from dpgplvm.model.kernels.base import Kernel, Parameter, Parameters
from dpgplvm.model.pairs import congruent, symmetric_matrix, upper_triangle


@dataclass(frozen=True)
class Linear(Kernel):
    """ARD linear kernel; `slope_variances` are the prior variances of a column's slope along each latent."""

    parameters: ClassVar[dict[str, Parameter]] = {"slope_variances": Parameter(per_latent=True, role="relevance")}
    bends: ClassVar[bool] = False

    def value(self, theta: Parameters, X: Float[Array, "N Q"], Z: Float[Array, "M Q"]) -> Float[Array, "N M"]:
        return (X * theta["slope_variances"]) @ Z.T

    def diagonal(self, theta: Parameters, X: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return X**2 @ theta["slope_variances"]

    def rank(self, n_latents: int) -> int:
        return n_latents

    def slopes(
        self,
        theta: Parameters,
        X: Float[Array, "N Q"],
        Z: Float[Array, "M Q"],
        weights: Float[Array, "M K"],
        directions: Float[Array, "V Q"],
    ) -> Float[Array, "V N K"]:
        everywhere = (directions * theta["slope_variances"]) @ Z.T @ weights
        return jnp.broadcast_to(everywhere[:, None], (directions.shape[0], X.shape[0], weights.shape[1]))

    def psi0(self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return (mean**2 + variance) @ theta["slope_variances"]

    def psi1(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N M"]:
        return self.value(theta, mean, Z)

    def psi2(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "M M"]:
        second_moment = mean.T @ mean + jnp.diag(variance.sum(axis=0))
        scaled = Z * theta["slope_variances"]
        return scaled @ second_moment @ scaled.T

    def psi2_features(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N F"]:
        second_moment = mean[:, :, None] * mean[:, None, :] + variance[:, :, None] * jnp.eye(mean.shape[1])
        return upper_triangle(second_moment)

    def psi2_of_features(
        self, theta: Parameters, Z: Float[Array, "M Q"], features: Float[Array, "P F"]
    ) -> Float[Array, "P M M"]:
        return congruent(Z * theta["slope_variances"], symmetric_matrix(features))
