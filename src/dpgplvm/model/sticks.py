"""The Dirichlet process over columns: stick breaking truncated at T groups, concentration alpha ~ Gamma(s1, s2).

q(v_t) = Beta(a_t, b_t) for t < T, q(alpha) = Gamma(w1, w2), q(z_d) = phi_d. Given the columns' bounds F[d, t] every
factor has a closed-form optimum, so the whole of it is solved inside each evaluation of the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float


class Concentration(NamedTuple):
    """The Gamma prior of alpha: shape s1 and rate s2."""

    shape: float = 1.0
    rate: float = 1.0


class Sticks(NamedTuple):
    """q(V) and q(alpha); S = T - 1 sticks are broken, the last group takes what is left."""

    a: Float[Array, " S"]
    b: Float[Array, " S"]
    shape: Float[Array, ""]  # w1
    rate: Float[Array, ""]  # w2

    @property
    def mean_concentration(self) -> Float[Array, ""]:
        return self.shape / self.rate


class StickTerms(NamedTuple):
    """The six terms of the DP bound, equation (dp_bound); with one group they add up to zero."""

    assignments: Float[Array, ""]  # sum_d E[log p(z_d | V)]
    sticks: Float[Array, ""]  # E[log p(V | alpha)]
    concentration: Float[Array, ""]  # E[log p(alpha)]
    entropy_sticks: Float[Array, ""]  # H[q(V)]
    entropy_assignments: Float[Array, ""]  # H[q(Z)]
    entropy_concentration: Float[Array, ""]  # H[q(alpha)]


def prior_sticks(truncation: int, prior: Concentration) -> Sticks:
    """q(V) = p(V | E[alpha]) and q(alpha) = p(alpha): where every profile may start."""
    ones = jnp.ones(truncation - 1)
    # An explicit type: weakly typed numbers here would have everything compiled a second time.
    shape, rate = jnp.asarray(prior.shape, dtype=float), jnp.asarray(prior.rate, dtype=float)
    return Sticks(ones, ones * shape / rate, shape, rate)


def expected_log_sticks(sticks: Sticks) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """E[log v_t] and E[log(1 - v_t)]."""
    # One call: the function is long, and is compiled once for every call.
    of_a, of_b, of_both = digamma(jnp.stack([sticks.a, sticks.b, sticks.a + sticks.b]))
    return of_a - of_both, of_b - of_both


def expected_log_weights(sticks: Sticks) -> Float[Array, " T"]:
    """E[log pi_t]; the last stick takes what is left."""
    log_v, log_rest = expected_log_sticks(sticks)
    zero = jnp.zeros(1)
    return jnp.concatenate([log_v, zero]) + jnp.concatenate([zero, jnp.cumsum(log_rest)])


def update(phi: Float[Array, "D T"], sticks: Sticks, prior: Concentration) -> Sticks:
    """The optimal q(V) given q(Z) and q(alpha), then the optimal q(alpha) given that."""
    counts = phi.sum(axis=0)
    later = jnp.cumsum(counts[::-1])[::-1][1:]  # sum_{s>t} n_s
    a, b = 1.0 + counts[:-1], sticks.mean_concentration + later
    _, log_rest = expected_log_sticks(sticks._replace(a=a, b=b))
    return Sticks(a, b, jnp.asarray(prior.shape + a.shape[0], dtype=float), prior.rate - log_rest.sum())


def terms(phi: Float[Array, "D T"], sticks: Sticks, prior: Concentration) -> StickTerms:
    """The DP bound term by term (appendix D of the paper, where alpha is misprinted as sigma^2)."""
    a, b, w1, w2 = sticks
    s1, s2 = prior
    log_v, log_rest = expected_log_sticks(sticks)
    log_alpha = digamma(w1) - jnp.log(w2)
    of_a, of_b, of_both = gammaln(jnp.stack([a, b, a + b]))
    log_beta_function = of_a + of_b - of_both
    return StickTerms(
        assignments=(phi * expected_log_weights(sticks)).sum(),
        sticks=a.shape[0] * log_alpha + (w1 / w2 - 1.0) * log_rest.sum(),
        concentration=s1 * jnp.log(s2) - gammaln(s1) + (s1 - 1.0) * log_alpha - s2 * w1 / w2,
        # Over t < T: the last stick is certain (the paper's sum runs one too far).
        entropy_sticks=(log_beta_function - (a - 1.0) * log_v - (b - 1.0) * log_rest).sum(),
        entropy_assignments=-(phi * jnp.log(jnp.where(phi > 0.0, phi, 1.0))).sum(),
        entropy_concentration=w1 - jnp.log(w2) + gammaln(w1) + (1.0 - w1) * digamma(w1),
    )


def assign(F: Float[Array, "D T"], sticks: Sticks) -> Float[Array, "D T"]:
    """The optimal q(Z): phi_d = softmax(F_d + E[log pi])."""
    return jax.nn.softmax(F + expected_log_weights(sticks), axis=1)


def profile(
    F: Float[Array, "D T"], start: Sticks, prior: Concentration, tolerance: float = 1e-13, max_sweeps: int = 5000
) -> tuple[Float[Array, "D T"], Sticks]:
    """Climb q(Z), q(V) and q(alpha) to their joint optimum for these column bounds, from `start`.

    At the optimum the gradient of the bound in everything else is its partial gradient (envelope theorem), so an
    optimiser never sees these factors.
    """
    return _sweep(lambda sticks: assign(F, sticks), start, prior, tolerance, max_sweeps)


def settle(
    phi: Float[Array, "D T"], start: Sticks, prior: Concentration, tolerance: float = 1e-13, max_sweeps: int = 5000
) -> Sticks:
    """The optimal q(V) and q(alpha) for assignments that are held."""
    return _sweep(lambda _: phi, start, prior, tolerance, max_sweeps)[1]


def _sweep(
    assigned: Callable[[Sticks], Array], start: Sticks, prior: Concentration, tolerance: float, max_sweeps: int
) -> tuple[Array, Sticks]:
    """Update q(V) and q(alpha), then q(Z), until none of them moves."""

    def sweep(carry):
        _, phi, sticks, count = carry
        new_sticks = update(phi, sticks, prior)
        new_phi = assigned(new_sticks)
        moved = jnp.abs(new_phi - phi).max() + jnp.abs(new_sticks.rate / sticks.rate - 1.0)
        return moved, new_phi, new_sticks, count + 1

    def unsettled(carry):
        return (carry[0] > tolerance) & (carry[3] < max_sweeps)

    first = (jnp.asarray(jnp.inf, dtype=float), assigned(start), start, jnp.asarray(0, dtype=int))
    _, phi, sticks, _ = lax.while_loop(unsettled, sweep, first)
    return phi, sticks
