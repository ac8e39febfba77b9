"""Many minimisations at once: each row ends where it would have ended alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, rosen, rosen_der

from dpgplvm.inference.side_by_side import minimise


def rosenbrock(rows, at):
    return rosen(at.T), rosen_der(at.T).T


def run(function, start, max_rounds=500, tol=1e-12):
    return minimise(function, start, np.ones_like(start), np.full(start.shape[1], 1.0), max_rounds, tol)


def test_every_row_gets_to_the_bottom_of_a_bent_valley():
    start = np.random.default_rng(0).uniform(-2.0, 2.0, size=(30, 2))
    at, value = run(rosenbrock, start)
    np.testing.assert_allclose(at, 1.0, atol=1e-4)
    np.testing.assert_allclose(value, rosen(at.T))


@given(seed=st.integers(0, 2**32 - 1))
def test_bowls_of_any_shape_are_left_at_their_bottom(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(8, 3, 3)) * np.exp(rng.uniform(-1.5, 1.5, size=(8, 1, 3)))
    A, bottom = root @ root.swapaxes(1, 2) + 1e-2 * np.eye(3), rng.normal(size=(8, 3))

    def bowls(rows, at):
        apart = at - bottom[rows]
        pulled = np.einsum("skl,sl->sk", A[rows], apart)
        return 0.5 * (apart * pulled).sum(axis=1), pulled

    at, value = run(bowls, rng.normal(size=(8, 3)))
    assert (value < 1e-8).all()
    np.testing.assert_allclose(np.einsum("skl,sl->sk", A, at - bottom), 0.0, atol=1e-3)


def test_rows_do_not_disturb_each_other():
    start = np.random.default_rng(1).uniform(-2.0, 2.0, size=(10, 4))
    together = run(rosenbrock, start, max_rounds=40)
    for n in range(10):
        alone = run(rosenbrock, start[[n]], max_rounds=40)
        np.testing.assert_allclose(alone[0][0], together[0][n], rtol=1e-9)


def test_it_takes_about_as_many_rounds_as_one_row_alone_does_elsewhere():
    start = np.random.default_rng(2).uniform(-2.0, 2.0, size=(20, 3))
    rounds = []

    def counted(rows, at):
        rounds.append(len(rows))
        return rosenbrock(rows, at)

    run(counted, start, tol=1e-10)
    elsewhere = max(minimize(rosen, one, jac=rosen_der, method="BFGS").nfev for one in start)
    assert len(rounds) < 3 * elsewhere
    assert rounds[-1] < 20  # rows that have arrived are no longer evaluated


def test_a_wall_of_nan_is_stepped_back_from():
    def walled(rows, at):
        value, slope = rosenbrock(rows, at)
        beyond = at[:, 0] > 1.2
        return np.where(beyond, np.nan, value), np.where(beyond[:, None], np.nan, slope)

    at, value = run(walled, np.array([[-1.0, 1.0], [0.5, -0.5]]))
    assert np.isfinite(value).all()
    np.testing.assert_allclose(at, 1.0, atol=1e-4)
