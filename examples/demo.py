"""Find the groups of columns in a simulated table whose groups are known, and draw what was found.

make demo
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from dpgplvm import DPGPLVM
from dpgplvm.datasets import Views, make_views

FOLDER = Path("demo")


def simulate() -> Views:
    """Thirty columns in three groups over four latents, the columns in random order."""
    table = make_views(n_samples=120, latents=[(0, 1), (1, 2), (0, 3)], columns=10, random_state=1)
    order = np.random.default_rng(0).permutation(table.Y.shape[1])
    return table._replace(Y=table.Y[:, order], groups=table.groups[order])


def colours_of(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The number of the true group that each group found has most columns in common with; others follow."""
    together = contingency_matrix(found, truth)
    rows, columns = linear_sum_assignment(-together)
    colours = np.arange(len(together)) + together.shape[1]
    colours[rows] = columns
    return colours


def draw(model: DPGPLVM, table: Views) -> Path:
    colours = colours_of(model.groups_, table.groups)
    order = np.lexsort((table.groups, model.groups_))
    used = model.relevance_.max(axis=0) > 0.05
    figure, (truth, heard, bars) = plt.subplots(1, 3, figsize=(11, 5), width_ratios=[0.5, 2, 3], layout="constrained")
    pair = np.stack([table.groups, colours[model.groups_]], axis=1)[order]
    truth.imshow(plt.cm.Set2(pair), aspect="auto", interpolation="none")
    truth.set_xticks([0, 1], ["true", "found"], rotation=45)
    truth.set_ylabel("columns, sorted by the group found")
    truth.set_yticks([])
    truth.set_title("groups")
    image = heard.imshow(model.relevance_[order][:, used], aspect="auto", cmap="Blues", vmin=0, vmax=1)
    heard.set_xticks(range(used.sum()), [str(q) for q in np.flatnonzero(used)])
    heard.set_yticks([])
    heard.set_xlabel("latent")
    heard.set_title("which latents a column listens to")
    figure.colorbar(image, ax=heard, label="share of its predicted variance", shrink=0.8)
    width = 0.75 / model.n_groups_
    for k in range(model.n_groups_):
        mean_share = model.relevance_[model.groups_ == k].mean(axis=0)[used]
        bars.bar(
            np.arange(used.sum()) + k * width,
            mean_share,
            width=0.9 * width,
            color=plt.cm.Set2(colours[k]),
            label=f"group {k}",
        )
    bars.set_xticks(np.arange(used.sum()) + 0.375 - width / 2, [str(q) for q in np.flatnonzero(used)])
    bars.set_xlabel("latent")
    bars.set_ylabel("mean share of predicted variance")
    bars.set_title("shared and private latents")
    bars.legend(frameon=False)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "groups.png"
    figure.savefig(file, dpi=130)
    return file


def main() -> None:
    table = simulate()
    print(f"A table of {table.Y.shape[0]} rows and {table.Y.shape[1]} columns in 3 groups. Fitting ...", flush=True)
    model = DPGPLVM(random_state=0).fit(table.Y)
    print(model.summary())
    agreement = adjusted_rand_score(table.groups, model.groups_)
    print(f"\nagreement with the true groups (adjusted Rand index, 1 is perfect): {agreement:.2f}")
    print(f"picture: {draw(model, table)}")


if __name__ == "__main__":
    main()
