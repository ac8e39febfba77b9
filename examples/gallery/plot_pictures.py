"""
Pictures of a model
===================

``dpgplvm.plots`` has a picture for each question that one asks of a fit. Every function takes a model, and Axes if you
have some; it returns Axes.
"""

# %%
# Somebody walks through a picture. A tracker sees fifteen joints of theirs, x and y, one frame a row. The left ankle is
# hidden for a while.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpgplvm import DPGPLVM, Skeleton, plots
from dpgplvm.datasets import make_walkers

video = make_walkers(n_samples=60, n_people=1, random_state=3)
Y = pd.DataFrame(video.Y, columns=video.names)
Y.loc[25:34, ["0 left ankle x", "0 left ankle y"]] = np.nan

model = DPGPLVM(n_latents=3, n_inducing=20, truncation=4, kernel="rbf", random_state=0).fit(Y)
print(model.summary())

# %%
# Which latents does each column listen to? Columns are sorted by group. Beside it, how much of each group is explained,
# and by which latents.

figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained", width_ratios=[1, 1.2])
plots.relevance(model, ax=axes[0])
plots.explained(model, ax=axes[1])
plt.show()

# %%
# The frames among the latents, in the order in which they were taken: a ring marks the first. The background says where
# the model knows what to expect (light) and where it does not (dark).

plots.latents(model, colour=np.arange(60), sequence=True)
plt.show()

# %%
# The groups on the body. A ``Skeleton`` says which columns are a joint's, here from their names. A joint whose x and y
# are in different groups has two colours.

body = Skeleton.from_names(video.names, video.bones, up="-y")
plots.skeleton(model, body)
plt.show()

# %%
# What do the latents do? The poses that the model predicts for them, paler where it is not sure.

plots.poses(model, body)
plt.show()

# %%
# How good is it, for one column? What is predicted against what was observed, and the gap filled.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1, 1.8])
plots.predicted(model, "0 left ankle y", ax=axes[0])
plots.gaps(model, "0 left ankle y", ax=axes[1])
plt.show()

# %%
# How was it found? The bound from move to move; which columns share a group in how many of the starts (here there was
# one); and the columns clustered by what they listen to.

figure, axes = plt.subplots(1, 3, figsize=(14, 5), layout="constrained")
plots.bound(model, ax=axes[0])
plots.coassignment(model, ax=axes[1])
plots.dendrogram(model, ax=axes[2])
plt.show()
