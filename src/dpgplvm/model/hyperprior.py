"""The base measure of the Dirichlet process: independent log-Normals over a group's hyperparameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from dpgplvm.model.kernels import Kernel
from dpgplvm.model.state import Free


@dataclass(frozen=True)
class Hyperprior:
    """log theta ~ N(0, width^2), one width for each role a hyperparameter can have.

    `density` says of what: "log", the density of log theta, which is what a Laplace approximation in log space
    integrates; or "value", that of theta itself, which has an extra -log theta and is the paper's literal base measure.
    """

    relevance: float = 3.0
    scale: float = 2.0
    noise: float = 3.0
    density: Literal["log", "value"] = "log"

    def __post_init__(self) -> None:
        for role in ("relevance", "scale", "noise"):
            width = getattr(self, role)
            if not isinstance(width, Real) or not 0.0 < float(width) < math.inf:
                raise ValueError(f"Hyperprior: {role}={width!r} is not a positive, finite width: give one such as 3.0")
        if self.density not in ("log", "value"):
            raise ValueError(f'Hyperprior: density={self.density!r} is not one of "log" and "value": give one of these')

    def of_groups(self, kernel: Kernel, free: Free) -> Float[Array, " T"]:
        """log p(theta_t, beta_t) of every group; without the noise where that belongs to the columns."""
        return self.of_numbers(kernel, free).sum(axis=1)

    def of_numbers(self, kernel: Kernel, free: Free) -> Float[Array, "T n"]:
        """The same, number by number: the kernel's hyperparameters in their order, then the noise."""
        widths = {"relevance": self.relevance, "scale": self.scale}
        parts = [
            self._log_normal(free.log_theta[name], widths[parameter.role]).reshape(free.n_groups, -1)
            for name, parameter in kernel.parameters.items()
        ]
        if not free.of_columns:
            parts.append(self._log_normal(free.log_noise_precision, self.noise)[:, None])
        return jnp.concatenate(parts, axis=1)

    def of_columns(self, free: Free) -> Float[Array, ""]:
        """log p(beta_d, s_d^2) of all columns; 0 where noise and scale belong to the groups."""
        if free.log_scale is None:
            return jnp.zeros(())
        own = self._log_normal(free.log_noise_precision, self.noise) + self._log_normal(2 * free.log_scale, self.scale)
        return own.sum()

    def _log_normal(self, log_value: Array, width: float) -> Array:
        of_log = -0.5 * (log_value / width) ** 2 - jnp.log(width) - 0.5 * jnp.log(2.0 * jnp.pi)
        return of_log if self.density == "log" else of_log - log_value
