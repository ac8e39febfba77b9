"""Models that are soon fitted."""

from __future__ import annotations

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM

SMALL = {"n_latents": 2, "n_inducing": 12, "random_state": 0}


def gplvm(**changes):
    return BayesianGPLVM(**{**SMALL, **changes})


def mrd(**changes):
    return MRD(**{**SMALL, "views": ["legs"] * 5 + ["arms"] * 5, "noise": "column", **changes})


def dpgplvm(**changes):
    return DPGPLVM(**{**SMALL, "truncation": 3, "kernel": "rbf", **changes})
