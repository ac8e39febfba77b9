"""
Place new rows, and find those that do not belong
=================================================

A row can be odd although each of its values is ordinary: a heavy mouse with the length of a light one. The log density
of a row (``score_samples``) sees that, because it asks whether any latents explain all of the row at once.
"""

# %%
# Rows to learn from, new rows of the same kind, and new rows that do not belong: made of halves of two different rows.
# Each of their values is ordinary.

import matplotlib.pyplot as plt
import numpy as np

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_views

simulated = make_views(n_samples=160, latents=[(0, 1)], columns=12, weights=0.5, noise_variance=0.02, random_state=2)
training, new = simulated.Y[:100], simulated.Y[100:]
mixed = new.copy()
mixed[:, ::2] = np.roll(new[:, ::2], 1, axis=0)

model = DPGPLVM(n_latents=4, n_inducing=25, truncation=3, kernel="rbf", random_state=0).fit(training)

# %%
# Densities, and where the rows are. Rows that do not belong have to be put somewhere, and most end up among the others:
# the latents alone do not give them away, the density does.

figure, (densities, places) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
kinds = (("training", training, "0.6", "o"), ("new", new, "#0072b2", "o"), ("do not belong", mixed, "#d55e00", "x"))
scores = {name: model.score_samples(rows) for name, rows, _, _ in kinds}
lowest = np.quantile(scores["training"], 0.01)
bins = np.linspace(min(map(np.min, scores.values())), max(map(np.max, scores.values())), 40)
for name, rows, colour, marker in kinds:
    densities.hist(scores[name], bins, histtype="step", linewidth=2, color=colour, label=name)
    latents = model.transform(rows)
    places.plot(latents[:, 0], latents[:, 1], marker, color=colour, markersize=5, label=name)
densities.axvline(lowest, color="black", linestyle=":", label="1 % of training")
densities.set(xlabel="log density of a row", ylabel="rows")
densities.legend(frameon=False, loc="upper left")
places.set(xlabel="latent 0", ylabel="latent 1", aspect="equal")
plt.show()

# %%
# With the limit where one in a hundred training rows would be called odd:

for name in ("new", "do not belong"):
    print(f"{name}: {np.mean(scores[name] < lowest):.0%} below the limit")

# %%
# More than one in a hundred new rows are below the limit although they are of the same kind: training rows have higher
# densities, because the functions were fitted to them. If the limit has to be exact, set it with rows that were held
# out.
