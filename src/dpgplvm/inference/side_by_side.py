"""Many small minimisations at once: BFGS for every row of a matrix, all rows evaluated together.

Rows are independent, so each has its own metric and its own step. A round evaluates one trial point of every row that
is still on its way: a row whose trial went down takes it and steps again, a row whose trial did not halves its step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-6

# Values [S] and gradients [S, K] of the rows with these numbers at these points [S, K].
RowFunction = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def minimise(
    function: RowFunction, start: np.ndarray, metric: np.ndarray, longest: np.ndarray, max_rounds: int, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points [S, K] and values [S] at the end, row by row.

    `metric` [S, K] is the diagonal of the first guess of every inverse Hessian, `longest` [K] the largest step along
    each coordinate. A row ends when the next step promises less than `tol`.
    """
    n_rows, n_coordinates = start.shape
    at = start.copy()
    value, slope = function(np.arange(n_rows), at)
    inverse = metric[:, :, None] * np.eye(n_coordinates)
    step = _newton_steps(inverse, slope, metric, longest)
    length = np.ones(n_rows)
    on_the_way = np.flatnonzero(-_dot(slope, step) > tol)
    for _ in range(max_rounds):
        if not on_the_way.size:
            break
        rows = on_the_way
        taken = length[rows, None] * step[rows]
        here, slope_here = function(rows, at[rows] + taken)
        enough = here <= value[rows] + _SUFFICIENT * length[rows] * _dot(slope[rows], step[rows])
        enough &= np.isfinite(slope_here).all(axis=1)

        down = rows[enough]
        inverse[down] = _updated(inverse[down], taken[enough], slope_here[enough] - slope[down])
        at[down], value[down], slope[down] = at[down] + taken[enough], here[enough], slope_here[enough]
        step[down] = _newton_steps(inverse[down], slope[down], metric[down], longest)
        length[down] = 1.0
        length[rows[~enough]] *= 0.5

        left = -_dot(slope[rows], step[rows]) > tol
        on_the_way = rows[left & (length[rows] > _SMALLEST_STEP)]
    return at, value


def _newton_steps(inverse: np.ndarray, slope: np.ndarray, metric: np.ndarray, longest: np.ndarray) -> np.ndarray:
    step = -np.einsum("skl,sl->sk", inverse, slope)
    uphill = _dot(step, slope) >= 0.0
    step[uphill] = -metric[uphill] * slope[uphill]
    return step / np.maximum(np.abs(step / longest).max(axis=1, keepdims=True), 1.0)


def _updated(inverse: np.ndarray, taken: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The BFGS update of every inverse Hessian; none where the slope did not grow along the step."""
    curvature = _dot(taken, change)
    curved = curvature > 1e-12 * np.sqrt(_dot(taken, taken) * _dot(change, change))
    safe = np.where(curved, curvature, 1.0)
    moved = np.einsum("skl,sl->sk", inverse, change)
    stretch = (1.0 + _dot(change, moved) / safe) / safe
    cross = taken[:, :, None] * moved[:, None, :] / safe[:, None, None]
    update = stretch[:, None, None] * taken[:, :, None] * taken[:, None, :] - cross - cross.transpose(0, 2, 1)
    return inverse + np.where(curved[:, None, None], update, 0.0)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("sk,sk->s", a, b)
