"""
Fill gaps with honest intervals
===============================

A fifth of a table is missing, scattered all over it. Nothing is filled in before the fit; afterwards every gap has a
distribution.
"""

# %%
# The table bends, so straight lines do not get far. We know what is missing, and hide it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_views

whole = make_views(n_samples=100, columns=6, weights=0.5, noise_variance=0.02, random_state=0).Y
gaps = np.random.default_rng(0).random(whole.shape) < 0.2
Y = np.where(gaps, np.nan, whole)

model = DPGPLVM(n_latents=4, n_inducing=25, truncation=4, kernel="rbf", random_state=0).fit(Y)
filled, (low, high) = model.impute(quantiles=(0.025, 0.975))

# %%
# How far off is it? A column's own mean has an error of about 1 by this measure.

scale = whole.std(axis=0)


def squared_error(guess):
    return np.mean(((guess - whole) / scale)[gaps] ** 2)


held = np.mean((low <= whole)[gaps] & (whole <= high)[gaps])
print(f"squared error, column means:             {squared_error(np.broadcast_to(np.nanmean(Y, axis=0), Y.shape)):.2f}")
print(f"squared error, five nearest neighbours:  {squared_error(KNNImputer(n_neighbors=5).fit_transform(Y)):.2f}")
print(f"squared error, this model:               {squared_error(filled):.2f}")
print(f"95 % intervals hold {held:.0%} of {gaps.sum()} hidden values")

# %%
# Every gap with its interval, sorted by what is expected there. Some intervals are narrow and some are wide: where the
# rest of a row says little, the model says so.

order = np.argsort(filled[gaps])
expected, truth, below, above = (values[gaps][order] for values in (filled, whole, low, high))
inside = (below <= truth) & (truth <= above)
place = np.arange(len(order))
figure, axis = plt.subplots(figsize=(10, 4.5), layout="constrained")
axis.vlines(place, below, above, color="#9ecae1", linewidth=2, label="95 % interval")
axis.plot(place, expected, color="#08519c", linewidth=1.5, label="expected")
axis.plot(place[inside], truth[inside], ".", color="black", markersize=4, label="truth, inside")
axis.plot(place[~inside], truth[~inside], "x", color="#d55e00", markersize=7, markeredgewidth=2, label="truth, outside")
axis.set(xlabel="gaps, sorted by what is expected", ylabel="value", xlim=(-2, len(order) + 1))
axis.legend(frameon=False, ncols=4, loc="upper left")
plt.show()
