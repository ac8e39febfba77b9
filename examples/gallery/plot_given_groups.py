"""
Groups given or groups found
============================

``MRD`` takes the groups from you, ``DPGPLVM`` finds them, ``BayesianGPLVM`` has one for all. If you know the groups,
say so. If you are not sure, compare by rows that were held out.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM
from dpgplvm.datasets import make_views

# %%
# Twelve columns: six listen to latents 0 and 1, six to latents 0 and 2. One MRD is told so, another is told something
# wrong: every other column.

simulated = make_views(n_samples=200, columns=6, weights=0.5, noise_variance=0.02, random_state=0)
training, test = simulated.Y[:80], simulated.Y[80:]
settings = {"n_latents": 4, "n_inducing": 25, "kernel": "rbf", "noise": "column", "random_state": 0}
models = {
    "groups found": DPGPLVM(truncation=4, **settings),
    "right groups given": MRD(views=simulated.groups, **settings),
    "wrong groups given": MRD(views=np.arange(12) % 2, **settings),
    "one group": BayesianGPLVM(**settings),
}
for model in models.values():
    model.fit(training)
scores = {name: model.score(test) for name, model in models.items()}

# %%
# What each model says the columns listen to, and how well it predicts new rows.

figure, axes = plt.subplots(1, 4, figsize=(11, 3.8), layout="constrained", sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    image = axis.imshow(model.relevance_, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set(title=f"{name}\nscore {scores[name]:.2f}", xlabel="latent", xticks=range(model.n_latents_))
axes[0].set(ylabel="column", yticks=[0, 5, 6, 11])
figure.colorbar(image, ax=axes, label="relevance")
plt.show()

# %%
# The score is the mean log density of a new row: higher is better. The groups that were found are the right ones, and
# the model that found them predicts as well as the one that was told. Wrong groups are no better than none.

print(models["groups found"].groups_)
