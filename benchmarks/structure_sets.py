"""Tables for the structure suite: simulated ones, and real ones whose columns have a known grouping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpgplvm.datasets import Views

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
N_NOISE_COLUMNS = 6
_TOY = ((0, 1), (0, 2))
_PAIRS_OF_SIX = ((0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (1, 5), (2, 4), (3, 5))


class Table(NamedTuple):
    """A table, and what is known about its columns."""

    Y: np.ndarray  # [N, D]
    groupings: dict[str, np.ndarray]  # each [D]; motion data can be described in more than one way
    noise: np.ndarray  # [D] bool, columns that listen to nothing
    latents: np.ndarray | None = None  # [N, Q] those that a simulated table was made from


def _simulated(**options: Any) -> Callable[[int], Views]:
    def draw(seed: int) -> Views:
        # Imported late: a worker settles how many threads there are before JAX counts them.
        from dpgplvm.datasets import make_views

        return make_views(**options, random_state=seed)

    return draw


SIMULATED: dict[str, Callable[[int], Views]] = {
    "toy_equal": _simulated(latents=_TOY),
    "toy_weights": _simulated(latents=_TOY, weights=((1.0, 1.0), (1.0, 2.0))),
    "three_groups": _simulated(latents=((0, 1), (1, 2), (0, 3))),
    "hard_toy": _simulated(
        latents=((0, 1), (0, 2), (1, 3), (0, 3)), columns=15, noise_variance=(0.01, 0.02, 0.05, 0.1)
    ),
    "linear": _simulated(latents=_TOY, linear=True),
    "one_group": _simulated(latents=((0, 1),), columns=20),
    "eight_groups": _simulated(latents=_PAIRS_OF_SIX, columns=8, n_samples=200),
    "noise_columns": _simulated(latents=_TOY, n_noise_columns=N_NOISE_COLUMNS),
    "toy_n50": _simulated(latents=_TOY, n_samples=50),
    "toy_n500": _simulated(latents=_TOY, n_samples=500),
}
REAL = (
    "independent_sources",
    "bfi",
    "holzinger_swineford",
    "mfeat_views",
    "cmu07_walk_angles",
    "dog_walk",
    "cmu_duo_sync_walk",
    "osu_run1",
)
_GROUPINGS = ("groups", "body_part")


def is_there(name: str) -> bool:
    return name in SIMULATED or (DATA / f"{name}.npz").exists()


def load(name: str, seed: int) -> Table:
    """The table of that name; a real one is the same for every seed."""
    if name in SIMULATED:
        return _shuffled(SIMULATED[name](seed), seed)
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
        groupings = {key: stored[key] for key in _GROUPINGS if key in stored.files}
        return Table(stored["Y"], groupings, np.zeros(stored["Y"].shape[1], dtype=bool))


def _shuffled(views: Views, seed: int) -> Table:
    """Columns in random order, so that no method profits from how ties are broken."""
    order = np.random.default_rng(seed).permutation(len(views.groups))
    deaf = np.logical_not(views.listens.any(axis=1))
    return Table(views.Y[:, order], {"groups": views.groups[order]}, deaf[views.groups][order], views.latents)
