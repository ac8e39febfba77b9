"""
Find the groups of a table
==========================

Twenty-four columns in three groups, in random order. The model is not told how many groups there are.
"""

# %%
# Groups listen to two latents each: the first to latents 0 and 1, the second to 1 and 2, the third to 0 and 3. Latents
# 0 and 1 are shared, 2 and 3 are not.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from dpgplvm import DPGPLVM, plots
from dpgplvm.datasets import make_views

simulated = make_views(n_samples=80, latents=[(0, 1), (1, 2), (0, 3)], columns=8, weights=0.5, random_state=0)
order = np.random.default_rng(0).permutation(24)
Y, truth = simulated.Y[:, order], simulated.groups[order]

model = DPGPLVM(n_latents=6, n_inducing=30, truncation=6, kernel="rbf", random_state=0).fit(Y)
print(model.summary())
print(f"agreement with the truth (adjusted Rand index): {adjusted_rand_score(truth, model.groups_):.2f}")

# %%
# Columns as they came are on the left, sorted by the group found on the right. Correlations alone hardly show the
# groups, because the columns bend.

by_group = np.argsort(model.groups_, kind="stable")
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", width_ratios=[1, 1, 0.8])
for axis, columns, title in (
    (axes[0], np.arange(24), "correlation, columns as they came"),
    (axes[1], by_group, "correlation, sorted by group"),
):
    image = axis.imshow(np.corrcoef(Y[:, columns].T), cmap="PuOr", vmin=-1, vmax=1)
    axis.set(title=title, xlabel="column", ylabel="column", xticks=[], yticks=[])
figure.colorbar(image, ax=axes[:2], shrink=0.8, label="correlation")

plots.relevance(model, ax=axes[2]).set_title("what columns listen to")
plt.show()

# %%
# Latents come in another order and with other signs than those that the table was made from: both are arbitrary. What
# counts is which groups share them. Here are the correlations of the latents found (rows) with the true ones (columns).
# Each of the first four follows one of the true latents, by a curve where the correlation is lower. The last one is
# hardly used.

together = np.abs(np.corrcoef(model.latents_.T, simulated.latents.T)[: model.n_latents_, model.n_latents_ :])
print(together.round(2))
