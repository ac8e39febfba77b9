"""RBF plus linear plus bias, the kernel that tells a linear effect from none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.kernels.base import Kernel, Parameter, Parameters
from dpgplvm.model.kernels.linear import Linear
from dpgplvm.model.kernels.rbf import RBF

_RBF = RBF()
_LINEAR = Linear()


@dataclass(frozen=True)
class RBFLinear(Kernel):
    """k(x, z) = sigma2 exp(-1/2 sum_q gamma_q (x_q - z_q)^2) + sum_q a_q x_q z_q + b.

    A small ARD weight of the RBF alone has two causes, an effect that is linear and no effect at all (section 2.1 of
    the paper); here the first has a large slope variance and the second has not. The cross terms of psi2 are exact.
    """

    parameters: ClassVar[dict[str, Parameter]] = {
        **_RBF.parameters,
        **_LINEAR.parameters,
        "bias_variance": Parameter(per_latent=False, role="scale"),
    }

    def value(self, theta: Parameters, X: Float[Array, "N Q"], Z: Float[Array, "M Q"]) -> Float[Array, "N M"]:
        return _RBF.value(theta, X, Z) + _LINEAR.value(theta, X, Z) + theta["bias_variance"]

    def diagonal(self, theta: Parameters, X: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return _RBF.diagonal(theta, X) + _LINEAR.diagonal(theta, X) + theta["bias_variance"]

    def slopes(
        self,
        theta: Parameters,
        X: Float[Array, "N Q"],
        Z: Float[Array, "M Q"],
        weights: Float[Array, "M K"],
        directions: Float[Array, "V Q"],
    ) -> Float[Array, "V N K"]:
        return _RBF.slopes(theta, X, Z, weights, directions) + _LINEAR.slopes(theta, X, Z, weights, directions)

    def psi0(self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> Float[Array, " N"]:
        return _RBF.psi0(theta, mean, variance) + _LINEAR.psi0(theta, mean, variance) + theta["bias_variance"]

    def psi1(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N M"]:
        linear = _LINEAR.psi1(theta, mean, variance, Z)
        return _RBF.psi1(theta, mean, variance, Z) + linear + theta["bias_variance"]

    def psi2(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "M M"]:
        bias = theta["bias_variance"]
        rbf = _RBF.psi1(theta, mean, variance, Z)
        linear_rows = _LINEAR.psi1(theta, mean, variance, Z).sum(axis=0)
        # Under q(x) tilted by k_rbf(., z_m), x_q has mean (mu_q + gamma_q S_q z_mq) / (1 + gamma_q S_q).
        spread = 1.0 + theta["ard_weights"] * variance
        tilted = rbf.T @ (mean / spread) + Z * (rbf.T @ (theta["ard_weights"] * variance / spread))
        rbf_linear = tilted @ (Z * theta["slope_variances"]).T
        with_bias = bias * (rbf.sum(axis=0) + linear_rows)
        cross = rbf_linear + with_bias[:, None]
        squares = _RBF.psi2(theta, mean, variance, Z) + _LINEAR.psi2(theta, mean, variance, Z)
        return squares + cross + cross.T + mean.shape[0] * bias**2

    def psi2_features(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N F"]:
        rbf = _RBF.psi1(theta, mean, variance, Z)
        spread = 1.0 + theta["ard_weights"] * variance
        tilted = (mean / spread)[:, None, :] + (theta["ard_weights"] * variance / spread)[:, None, :] * Z
        parts = [
            _RBF.psi2_features(theta, mean, variance, Z),
            _LINEAR.psi2_features(theta, mean, variance, Z),
            (rbf[:, :, None] * tilted).reshape(mean.shape[0], -1),
            rbf,
            mean,
            jnp.ones((mean.shape[0], 1)),
        ]
        return jnp.concatenate(parts, axis=1)

    def psi2_of_features(
        self, theta: Parameters, Z: Float[Array, "M Q"], features: Float[Array, "P F"]
    ) -> Float[Array, "P M M"]:
        n_points, n_latents = Z.shape
        sizes = (n_points * (n_points + 1) // 2, n_latents * (n_latents + 1) // 2, n_points * n_latents, n_points)
        ends = np.cumsum([*sizes, n_latents])
        bias, slopes = theta["bias_variance"], Z * theta["slope_variances"]

        def one_matrix(features):
            of_rbf, of_linear, tilted, rbf, mean, one = jnp.split(features[None], ends, axis=1)
            cross = tilted.reshape(Z.shape) @ slopes.T + bias * (rbf + mean @ slopes.T).T
            squares = _RBF.psi2_of_features(theta, Z, of_rbf) + _LINEAR.psi2_of_features(theta, Z, of_linear)
            return squares[0] + cross + cross.T + bias**2 * one

        # One after the other: with a pattern for every column of a wide table, all at once would be held several times.
        return lax.map(one_matrix, features)
