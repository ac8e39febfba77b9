"""What a kernel is to the rest of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.stats import norm, qmc

from dpgplvm.model.pairs import symmetric_matrix, upper_triangle

Parameters = dict[str, Array]
Features: TypeAlias = PyTree[Float[Array, "N _"]]  # of N rows, or sums of these; one array, or several


@dataclass(frozen=True)
class Parameter:
    """One positive hyperparameter of a kernel, one copy of it for every group.

    `role` decides which width of the hyperprior it gets: "relevance" for the weights that say how strongly a latent is
    listened to, "scale" for variances.
    """

    per_latent: bool
    role: Literal["relevance", "scale"]

    def __post_init__(self) -> None:
        if self.role == "relevance" and not self.per_latent:
            raise ValueError(
                'Parameter: role="relevance" with per_latent=False is a weight of no latent: give per_latent=True, '
                'or role="scale"'
            )

    def shape(self, n_latents: int) -> tuple[int, ...]:
        return (n_latents,) if self.per_latent else ()


class Kernel(ABC):
    """A covariance function k(x, x' | theta) and its expectations under independent Gaussians.

    A subclass names its positive hyperparameters in `parameters`, and gives `value` and `diagonal` as functions that
    JAX can differentiate. That is enough: the psi statistics below then come from fixed quasi-random draws of x. A
    kernel that has closed forms overrides `psi0`, `psi1`, `psi2` and `psi2_features`, the latter together with
    `psi2_of_features` where that is given already, and to be quick about new rows `slopes` (and nothing else in the
    library has to change).

    `bends` is False where all functions are linear: then nothing is laid out in folds, and rows unlike those learned
    from are looked for further out.

    `theta` holds the natural, positive values of one group, by name. Kernels are hashable constants, so an instance
    must not be changed once it is made; a frozen dataclass does that.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import jax.numpy as jnp
    >>> from dpgplvm import Kernel, Parameter
    >>> @dataclass(frozen=True)
    ... class Cauchy(Kernel):
    ...     parameters = {
    ...         "ard_weights": Parameter(per_latent=True, role="relevance"),
    ...         "signal_variance": Parameter(per_latent=False, role="scale"),
    ...     }
    ...     def value(self, theta, X, Z):
    ...         squared = (X[:, None] - Z[None]) ** 2 @ theta["ard_weights"]
    ...         return theta["signal_variance"] / (1 + squared)
    ...     def diagonal(self, theta, X):
    ...         return jnp.full(X.shape[0], theta["signal_variance"])
    """

    parameters: ClassVar[dict[str, Parameter]]
    n_draws: ClassVar[int] = 64
    bends: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Features of one kernel in the hands of another have the right shape often enough to go unnoticed.
        features, matrices = (
            next(parent for parent in cls.__mro__ if name in vars(parent))
            for name in ("psi2_features", "psi2_of_features")
        )
        if features is not matrices and matrices is not Kernel:
            raise TypeError(
                f"{cls.__name__} has psi2_features of {features.__name__} and psi2_of_features of "
                f"{matrices.__name__}, which belong together: give both"
            )

    @abstractmethod
    def value(self, theta: Parameters, X: Float[Array, "N Q"], Z: Float[Array, "M Q"]) -> Float[Array, "N M"]:
        """k(x_n, z_m)."""

    @abstractmethod
    def diagonal(self, theta: Parameters, X: Float[Array, "N Q"]) -> Float[Array, " N"]:
        """k(x_n, x_n)."""

    def rank(self, n_latents: int) -> int | None:
        """Inducing points beyond this many add nothing, because K is singular; None for a kernel with no such limit."""
        return None

    def psi0(self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> Float[Array, " N"]:
        """E[k(x_n, x_n)]."""
        draws = self._draws(mean, variance)
        return self.diagonal(theta, draws.reshape(-1, mean.shape[1])).reshape(self.n_draws, -1).mean(axis=0)

    def psi1(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "N M"]:
        """E[k(x_n, z_m)]."""
        return self._value_at_draws(theta, mean, variance, Z).mean(axis=0)

    def psi2(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Float[Array, "M M"]:
        """sum_n E[k(z_m, x_n) k(x_n, z_m')]."""
        flat = self._value_at_draws(theta, mean, variance, Z).reshape(-1, Z.shape[0])
        return flat.T @ flat / self.n_draws

    def psi2_features(
        self, theta: Parameters, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"], Z: Float[Array, "M Q"]
    ) -> Features:
        """What psi2 of every row alone is linear in; here all of it, E[k(z_m, x_n) k(x_n, z_m')] for m <= m'.

        Sums over rows, and products with matrices, are sums and products of these. Where E[k k] is made of numbers that
        are sooner computed, `psi2_of_features` says how.
        """
        values = self._value_at_draws(theta, mean, variance, Z)
        return upper_triangle(jnp.einsum("snm,snk->nmk", values, values) / self.n_draws)

    def psi2_of_features(self, theta: Parameters, Z: Float[Array, "M Q"], features: Features) -> Float[Array, "P M M"]:
        """E[k(z_m, x) k(x, z_m')], of features or of sums of them; linear in these."""
        if not jax.tree_util.all_leaves([features]):
            raise TypeError(
                f"psi2_features of {type(self).__name__} gives several arrays, which psi2_of_features cannot make a "
                "matrix of: override psi2_of_features as well, or give one array"
            )
        return symmetric_matrix(features)

    def weights_of_features(
        self, theta: Parameters, Z: Float[Array, "M Q"], matrices: Float[Array, "K M M"]
    ) -> Features:
        """What to multiply features with to get the elementwise product of their psi2 with each matrix, summed."""
        of_a_row = jax.eval_shape(self.psi2_features, theta, Z[:1], Z[:1], Z)
        nothing = jax.tree.map(lambda part: jnp.zeros((matrices.shape[0], part.shape[1])), of_a_row)
        return jax.vjp(partial(self.psi2_of_features, theta, Z), nothing)[1](matrices)[0]

    def slopes(
        self,
        theta: Parameters,
        X: Float[Array, "N Q"],
        Z: Float[Array, "M Q"],
        weights: Float[Array, "M K"],
        directions: Float[Array, "V Q"],
    ) -> Float[Array, "V N K"]:
        """Derivatives of the functions k(x, Z) weights along these directions."""

        def along(direction):
            value_at = partial(self.value, theta, Z=Z)
            return jax.jvp(value_at, (X,), (jnp.broadcast_to(direction, X.shape),))[1] @ weights

        return jax.vmap(along)(directions)

    def _draws(self, mean: Float[Array, "N Q"], variance: Float[Array, "N Q"]) -> Float[Array, "S N Q"]:
        standard = standard_normal_draws(self.n_draws, mean.shape[1])
        return mean + jnp.sqrt(variance) * standard[:, None, :]

    def _value_at_draws(self, theta, mean, variance, Z) -> Float[Array, "S N M"]:
        draws = self._draws(mean, variance)
        flat = self.value(theta, draws.reshape(-1, mean.shape[1]), Z)
        return flat.reshape(self.n_draws, mean.shape[0], Z.shape[0])


def standard_normal_draws(n_draws: int, n_latents: int) -> np.ndarray:
    """[n_draws, Q] quasi-random standard normals, always the same, in mirrored pairs so that odd moments vanish."""
    half = (n_draws + 1) // 2
    # Sobol points are balanced in powers of two; what is over is cut off.
    points = qmc.Sobol(n_latents, scramble=True, rng=np.random.default_rng(20)).random_base2((half - 1).bit_length())
    draws = norm.ppf(np.clip(points[:half], 1e-12, 1 - 1e-12))
    return np.concatenate([draws, -draws])[:n_draws]
