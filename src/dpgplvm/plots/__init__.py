"""Pictures of a fitted model, with matplotlib: every function takes Axes, or makes some, and returns them.

Latents and groups are numbered as in `summary`. Colours can be told apart by colour-blind people. Columns come sorted
by group, with their names where these fit; groups are labelled in any case.
"""

from __future__ import annotations

try:
    import matplotlib as _matplotlib  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "dpgplvm.plots draws with matplotlib, which is not installed: pip install 'dpgplvm[plots]'"
    ) from None

from dpgplvm.plots.bodies import poses, skeleton
from dpgplvm.plots.fits import bound, explained
from dpgplvm.plots.latent_space import latents
from dpgplvm.plots.matrices import ard_weights, assignments, coassignment, relevance
from dpgplvm.plots.observed import gaps, predicted
from dpgplvm.plots.trees import dendrogram

__all__ = [
    "ard_weights",
    "assignments",
    "bound",
    "coassignment",
    "dendrogram",
    "explained",
    "gaps",
    "latents",
    "poses",
    "predicted",
    "relevance",
    "skeleton",
]
