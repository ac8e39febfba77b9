"""What a user should be told about a fit that may not be what they hoped for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpgplvm.inference.starts import agreement
from dpgplvm.summary import ALL_NOISE

_AGREE = 0.8


class FitWarning(UserWarning):
    """A fit ended with something that its user should look at."""


def advise(model: Any) -> Iterator[str]:
    """Sentences about a fitted model, each with what to do."""
    unseen = np.flatnonzero(~model._seen)
    if unseen.size:
        rows = ", ".join(map(str, unseen[:5])) + (", ..." if unseen.size > 5 else "")
        yield (
            f"{unseen.size} of the rows of Y have nothing observed (row {rows}): they add nothing, and their latents "
            "have the prior. Drop them, or fill in what is known"
        )
    if model.max_iter > 0 and model.explained_.max() < ALL_NOISE:
        remedies = ["fewer latents (n_latents)"]
        if hasattr(model, "n_starts"):
            remedies.insert(0, "more starts (n_starts)")
        if model.kernel_ != "linear":
            remedies.append('kernel="linear"')
        yield (
            f"everything is explained as noise: no column has more than {model.explained_.max():.0%} of its variance "
            f"predicted. Either the columns have nothing in common, or the fit is stuck: try {' or '.join(remedies)}"
        )
    if len(model.starts_) > 1 and agreement(model.starts_) < _AGREE:
        bounds = [start.corrected for start in model.starts_]
        yield (
            f"the {len(bounds)} starts disagree about the groups: their mean adjusted Rand index is "
            f"{agreement(model.starts_):.2f}, and their corrected bounds span {max(bounds) - min(bounds):.0f} nats. "
            "Look at coassignment_ for what is certain, and raise n_starts"
        )
