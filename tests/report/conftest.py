"""Models to report on, and their reports."""

from __future__ import annotations

import pytest
from pages import Page
from saved_models import sample, samples

import dpgplvm
from dpgplvm.report import html


@pytest.fixture(scope="module")
def models():
    """One group of an array, given groups of a polars frame, and groups searched for from two starts in a pandas frame
    with gaps."""
    return {kind: dpgplvm.load(sample(kind)) for kind in samples()}


@pytest.fixture(scope="module", params=list(samples()))
def model(request, models):
    return models[request.param]


@pytest.fixture(scope="module")
def page(model):
    return Page(html(model))


@pytest.fixture(scope="module")
def searched(models):
    return models["DPGPLVM"]
