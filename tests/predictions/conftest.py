"""A table, new rows, and a model of the table."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import mrd

from dpgplvm.datasets import make_views


@pytest.fixture(scope="module")
def table():
    return 5.0 + 3.0 * make_views(n_samples=110, latents=((0,), (1,)), columns=5, random_state=1).Y


@pytest.fixture(scope="module")
def new(table):
    """New rows, with gaps."""
    rows = table[80:].copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    return rows


@pytest.fixture(scope="module")
def model(table):
    return mrd().fit(table[:80])
