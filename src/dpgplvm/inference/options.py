"""What a fit is asked to do."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from dpgplvm.inference.progress import SILENT, Reporter
from dpgplvm.inference.start import Beginning
from dpgplvm.model.kernels import Kernel


class Options(NamedTuple):
    """All sizes resolved, all names checked."""

    n_latents: int
    n_inducing: int
    n_groups: int  # the truncation, where groups are inferred
    noise: Literal["group", "column"] = "group"
    assignments: np.ndarray | None = None  # [D, T], given groups
    mixed: bool = False
    optimiser: Literal["lbfgs", "paper"] = "lbfgs"
    max_iter: int = 1000
    tol: float = 1e-7
    n_starts: int = 1
    n_jobs: int | None = None
    most_latents: int = 0  # to how many they may be raised where all of `n_latents` are used
    kernels: tuple[Kernel, ...] = ()  # to choose from; empty: the model's own
    enrich: bool = False  # whether the sum of the two that there are may take the place of the one that was chosen
    beginning: Beginning | None = None  # what scattered starts are scattered around; None: the plain one
    reporter: Reporter = SILENT

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.n_latents, self.n_inducing, self.n_groups
