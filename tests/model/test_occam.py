"""The Occam factor against Hessians of the paper's bound, taken number by number."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness

from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import corrected_bound, group_curvatures
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.state import Free

pytestmark = pytest.mark.usefixtures("float64")

N, D, Q, T = 10, 5, 2, 3
IN_PLAY = 2
WIDTHS = (3.0, 2.0, 3.0)  # of relevance, scale, noise: the library's own


@pytest.fixture(scope="module", params=list(product(sorted(NAMED_KERNELS), ("group", "column"))), ids="-".join)
def place(request, float64):
    """A kernel, a table, and the bound where nothing is special: two groups of three in play, both in use."""
    kernel, noise = request.param
    rng = np.random.default_rng(3)
    free = witness.random_free(kernel, rng, N, Q, Q if kernel == "linear" else 3, T)
    free |= {name: 0.3 * free[name] for name in witness.PARAMETERS[kernel]}
    n_noises = D if noise == "column" else T
    free = Free(
        latents={name: jnp.asarray(free[name]) for name in ("mean", "log_variance")},
        inducing=jnp.asarray(free["inducing"]),
        log_theta={name: jnp.asarray(free[name]) for name in witness.PARAMETERS[kernel]},
        log_noise_precision=jnp.asarray(rng.uniform(0.0, 1.0, size=n_noises)),
        log_scale=jnp.asarray(rng.normal(scale=0.3, size=D)) if noise == "column" else None,
    )
    Y = rng.normal(size=(N, D))
    phi = np.array([[0.9, 0.1, 0], [0.8, 0.2, 0], [0.3, 0.7, 0], [0, 1, 0], [1, 0, 0]])
    return kernel, Y, Objective(Model(NAMED_KERNELS[kernel]), Y, phi, n_in_play=IN_PLAY).evaluate(free)


def own_numbers(kernel, free, t):
    """The logs of what a group has for itself: the kernel's hyperparameters in their order, then the noise."""
    parts = [np.ravel(free.log_theta[name][t]) for name in NAMED_KERNELS[kernel].parameters]
    return np.concatenate(parts if free.of_columns else [*parts, np.ravel(free.log_noise_precision[t])])


def bound_of_group(kernel, Y, state, t, own):
    """What of the bound depends on one group's own numbers, by the paper; complex numbers go through."""
    free, theta, at = jax.tree.map(np.asarray, state.free), {}, 0
    log_prior = 0.0
    for name in NAMED_KERNELS[kernel].parameters:
        width = Q if name in witness.PER_LATENT else 1
        part = own[at : at + width]
        theta[name] = np.exp(part) if name in witness.PER_LATENT else np.exp(part[0])
        log_prior -= 0.5 * (part**2).sum() / (WIDTHS[0] if name in witness.PER_LATENT else WIDTHS[1]) ** 2
        at += width
    if free.of_columns:
        noise, scale = np.exp(free.log_noise_precision), np.exp(free.log_scale)
    else:
        noise, scale = np.exp(own[-1]) * np.ones(D), np.ones(D)
        log_prior -= 0.5 * own[-1] ** 2 / WIDTHS[2] ** 2
    mean, S, Z = free.latents["mean"], np.exp(free.latents["log_variance"]), free.inducing
    K = witness.covariance(kernel, theta, Z, Z)
    K = K + 1e-6 * np.trace(K) / len(Z) * np.eye(len(Z))
    psi = (
        witness.psi0(kernel, theta, mean, S),
        witness.psi1(kernel, theta, mean, S, Z),
        witness.psi2(kernel, theta, mean, S, Z),
    )
    phi = np.asarray(state.phi)[:, t]
    bounds = [
        witness.column_bound(K, noise[d] * scale[d] ** 2, *psi, Y[:, d] / scale[d]) - N * np.log(scale[d])
        for d in range(D)
    ]
    return phi @ np.array(bounds) + log_prior


def negative_hessian(function, at, step=1e-4):
    """Differences of exact slopes."""
    n = len(at)

    def slopes(at):
        return np.array([np.imag(function(at + 1e-30j * np.eye(n)[i])) / 1e-30 for i in range(n)])

    columns = [(slopes(at - step * np.eye(n)[i]) - slopes(at + step * np.eye(n)[i])) / (2.0 * step) for i in range(n)]
    return np.array(columns)


def hessian_in_paper(kernel, Y, state, t):
    own = own_numbers(kernel, jax.tree.map(np.asarray, state.free), t)
    return negative_hessian(lambda own: bound_of_group(kernel, Y, state, t, own), own)


def test_curvatures_are_the_hessian_of_the_bound(place):
    kernel, Y, here = place
    found = group_curvatures(Model(NAMED_KERNELS[kernel]), Y, here, IN_PLAY)
    for t in range(IN_PLAY):
        wanted = hessian_in_paper(kernel, Y, here.state, t)
        np.testing.assert_allclose(found[t], wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    np.testing.assert_array_equal(found[IN_PLAY:], 0.0)


def laplace_evidence(hessian, log_prior):
    # Where the likelihood curves the wrong way, half of the widest prior's own curvature is the least there is.
    curvatures = np.maximum(np.linalg.eigvalsh(hessian), 0.5 / max(WIDTHS) ** 2)
    return log_prior + 0.5 * np.log(2.0 * np.pi / curvatures).sum()


def test_groups_are_compared_by_their_laplace_evidence(place):
    kernel, Y, here = place
    model = Model(NAMED_KERNELS[kernel])
    log_prior = np.asarray(model.hyperprior.of_groups(model.kernel, here.state.free))
    evidence = [laplace_evidence(hessian_in_paper(kernel, Y, here.state, t), log_prior[t]) for t in range(IN_PLAY)]
    wanted = here.value - log_prior[:IN_PLAY].sum() + sum(evidence)
    assert corrected_bound(model, Y, here, IN_PLAY) == pytest.approx(wanted, abs=1e-2)


def test_an_empty_group_costs_nothing(place):
    kernel, Y, here = place
    model, free = Model(NAMED_KERNELS[kernel]), here.state.free
    phi = np.eye(T)[np.zeros(D, dtype=int)]
    alone, with_empty = (
        corrected_bound(model, Y, Objective(model, Y, phi, n_in_play=n).evaluate(free), n) for n in (1, 2)
    )
    assert with_empty == pytest.approx(alone, abs=1e-6)


def test_a_latent_that_is_at_its_prior_costs_groups_nothing(place):
    """Its weight is worth the same to every grouping, whatever the prior says of it."""
    kernel, Y, here = place
    model, free = Model(NAMED_KERNELS[kernel]), here.state.free
    unused = np.array([False, True])
    latents = {name: jnp.where(unused, 0.0, values) for name, values in free.latents.items()}
    free = replace(free, latents=latents)
    here = Objective(model, Y, np.asarray(here.state.phi), n_in_play=IN_PLAY).evaluate(free)
    names = list(NAMED_KERNELS[kernel].parameters)
    kept = np.concatenate([[True, False] if name in witness.PER_LATENT else [True] for name in names])
    kept = kept if free.of_columns else np.append(kept, True)
    numbers = np.asarray(model.hyperprior.of_numbers(model.kernel, free))[:IN_PLAY]
    curvatures = group_curvatures(model, Y, here, IN_PLAY)
    evidence = [laplace_evidence(curvatures[t][np.ix_(kept, kept)], numbers[t, kept].sum()) for t in range(IN_PLAY)]
    wanted = here.value - numbers.sum() + sum(evidence)
    assert corrected_bound(model, Y, here, IN_PLAY) == pytest.approx(wanted, abs=1e-6)
