"""Statistics of a group from the witness's psi, and what every adjoint of a bound is held against."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.model.statistics import Statistics


def as_statistics(psi, Y):
    psi0, psi1, psi2 = psi
    return jax.tree.map(jnp.asarray, Statistics(float(len(Y)), psi0, psi1.T @ Y, psi2, (Y**2).sum(axis=0)))


def in_names_of_the_paper(d_statistics, Y):
    return {
        "psi0": d_statistics.psi0,
        "psi1": Y @ d_statistics.psi1_y.T,  # the chain rule through Psi1'Y
        "psi2": d_statistics.psi2,
    }


def assert_derivatives(found, wanted):
    """Of the same names, to eight digits of the largest."""
    for name, value in found.items():
        size = np.abs(wanted[name]).max()
        np.testing.assert_allclose(value, wanted[name], rtol=1e-7, atol=1e-8 * size, err_msg=name)


def assert_adjoint_matches_differences(bounds, inputs, rng):
    """Along a random direction of every input; matrices stay symmetric, and what is positive moves by its own size."""
    weights = jnp.asarray(rng.normal(size=len(bounds(*inputs))))
    _, pull_back = jax.vjp(bounds, *inputs)
    leaves, structure = jax.tree.flatten(inputs)
    compiled = jax.jit(bounds)
    for i, slope in enumerate(jax.tree.leaves(pull_back(weights))):
        shape = leaves[i].shape
        direction = rng.normal(size=shape)
        is_square = len(shape) == 2 and shape[0] == shape[1]
        direction = direction + direction.T if is_square else direction * np.abs(leaves[i])
        step = 1e-4 * float(jnp.abs(leaves[i]).max()) / np.abs(direction).max()

        def moved(share, i=i, direction=direction, step=step):
            changed = [*leaves[:i], leaves[i] + share * step * direction, *leaves[i + 1 :]]
            return weights @ compiled(*jax.tree.unflatten(structure, changed))

        differences = (8.0 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12.0 * step)
        np.testing.assert_allclose(jnp.vdot(slope, direction), differences, rtol=1e-5, err_msg=str(i))
