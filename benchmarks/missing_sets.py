"""Tables for the missing-data suite, which of their rows are unseen, and which columns are hidden in those."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from structure_sets import DATA

WALKERS = {"walkers2": 2, "walkers4": 4}  # people
TITLES = {
    "independent_sources": "three independent recordings",
    "osu_run1": "a runner",
    "dog_walk": "walking dog",
    "cmu07_walk_angles": "ten walks as joint angles",
    "cmu_duo_sync_walk": "two people in step",
    "guo_qpcr": "48 genes",
    "holzinger_swineford": "24 ability tests",
    "bfi": "25 personality items",
    "oil_flow": "oil flow",
    "mfeat_views": "handwritten digits",
    "walkers2": "two simulated walkers",
    "walkers4": "four simulated walkers",
}
SHARED = tuple(name for name in TITLES if name not in WALKERS)
SPLITS = ("random", "block")
ROW_SHARES = (25, 50)  # percent
COLUMN_SHARES = (10, 25, 50)


class Rows(NamedTuple):
    """Rows to learn from and rows to fill, in units of the former's mean and standard deviation."""

    training: np.ndarray  # [N, D]
    unseen: np.ndarray  # [S, D]


def is_there(name: str) -> bool:
    return name in WALKERS or (DATA / f"{name}.npz").exists()


def load(name: str, seed: int) -> np.ndarray:
    """The table [N, D] of that name; a real one is the same for every seed."""
    if name in WALKERS:
        # Imported late: a worker settles how many threads there are before JAX counts them.
        from dpgplvm.datasets import make_walkers

        return make_walkers(n_samples=150, n_people=WALKERS[name], random_state=seed).Y
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
        return stored["Y"]


def parted(Y: np.ndarray, split: str, row_share: int, seed: int) -> Rows:
    """Unseen rows are anywhere in the table, or one block of it."""
    rng = np.random.default_rng([seed, row_share, SPLITS.index(split)])
    n_unseen = round(len(Y) * row_share / 100)
    first = rng.integers(len(Y) - n_unseen + 1)
    unseen = rng.permutation(len(Y))[:n_unseen] if split == "random" else np.arange(first, first + n_unseen)
    training = np.delete(Y, unseen, axis=0)
    mean, spread = training.mean(axis=0), training.std(axis=0)
    varies = spread > 1e-12 * np.abs(training).max(axis=0)
    scaled = (Y - mean)[:, varies] / spread[varies]
    return Rows(np.delete(scaled, unseen, axis=0), scaled[unseen])


def hidden_columns(n_columns: int, row_share: int, column_share: int, seed: int) -> np.ndarray:
    """[D] bool, at least one of each."""
    rng = np.random.default_rng([seed, row_share, column_share])
    n_hidden = np.clip(round(n_columns * column_share / 100), 1, n_columns - 1)
    return np.isin(np.arange(n_columns), rng.permutation(n_columns)[:n_hidden])
