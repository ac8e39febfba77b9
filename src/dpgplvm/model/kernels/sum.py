"""RBF plus linear plus bias, the kernel that tells a linear effect from none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from dpgplvm.model.kernels.base import Kernel, Parameter, Parameters
from dpgplvm.model.kernels.linear import Linear
from dpgplvm.model.kernels.rbf import RBF
from dpgplvm.model.pairs import symmetric_matrix

_RBF = RBF()
_LINEAR = Linear()


class _Features(NamedTuple):
    """What psi2 is linear in. Parts, because to copy that of the RBF next to the others takes as long as these do."""

    rbf: Float[Array, "N R"]
    linear: Float[Array, "N L"]
    tilted: Float[Array, "N K"]  # E[k_rbf(x, z_m) x_q], for all m within each q


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
        rbf = _RBF.psi1(theta, mean, variance, Z)
        still, moving = _tilted(theta, mean, variance)
        points, slopes = _with_one(Z), _slope_variances(theta)
        cross = (rbf.T @ still + points * (rbf.T @ moving)) @ (points * slopes).T
        linear = _LINEAR.psi2({"slope_variances": slopes}, _with_one(mean), _with_none(variance), points)
        return _RBF.psi2(theta, mean, variance, Z) + linear + cross + cross.T

    def psi2_features(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> _Features:
        rbf = _RBF.psi1(theta, mean, variance, Z)
        still, moving = _tilted(theta, mean, variance)
        points = _with_one(Z)
        tilted = rbf[:, None, :] * (still[:, :, None] + moving[:, :, None] * points.T)
        return _Features(
            _RBF.psi2_features(theta, mean, variance, Z),
            _LINEAR.psi2_features(theta, _with_one(mean), _with_none(variance), points),
            tilted.reshape(mean.shape[0], -1),
        )

    def psi2_of_features(self, theta: Parameters, Z: Float[Array, "M Q"], features: _Features) -> Float[Array, "P M M"]:
        n_points, n_slopes = Z.shape[0], Z.shape[1] + 1
        slopes = _with_one(Z) * _slope_variances(theta)
        # With half of what is linear added to what is tilted, the other half comes with the transpose. Products are of
        # all patterns at once: one after the other, or as a batch, they take several times as long.
        half = (0.5 * symmetric_matrix(features.linear)).reshape(-1, n_slopes) @ slopes.T
        half = (half + features.tilted.reshape(half.shape)).reshape(-1, n_slopes, n_points)
        cross = jnp.swapaxes(half, 1, 2).reshape(-1, n_slopes) @ slopes.T
        cross = cross.reshape(-1, n_points, n_points)
        return _RBF.psi2_of_features(theta, Z, features.rbf) + cross + jnp.swapaxes(cross, 1, 2)


# The bias is the slope along one latent more, which is one for certain and which the RBF does not listen to.


def _with_one(values: Float[Array, "N Q"]) -> Float[Array, "N Q+1"]:
    return jnp.pad(values, ((0, 0), (0, 1)), constant_values=1.0)


def _with_none(variance: Float[Array, "N Q"]) -> Float[Array, "N Q+1"]:
    return jnp.pad(variance, ((0, 0), (0, 1)))


def _slope_variances(theta: Parameters) -> Float[Array, " K"]:
    return jnp.append(theta["slope_variances"], theta["bias_variance"])


def _tilted(
    theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]
) -> tuple[Float[Array, "N Q+1"], Float[Array, "N Q+1"]]:
    """Under q(x) tilted by k_rbf(., z), x has mean (mu + gamma S z) / (1 + gamma S): without z, and its share in z."""
    pull = theta["ard_weights"] * variance
    return _with_one(mean / (1.0 + pull)), _with_none(pull / (1.0 + pull))
