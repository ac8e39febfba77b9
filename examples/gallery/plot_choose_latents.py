"""
Choose the number of latents
============================

``n_latents`` is an upper limit: latents that explain nothing are switched off. The score of rows that were held out
shows it. It rises until there are enough latents, and then stays.
"""

import matplotlib.pyplot as plt

from dpgplvm import BayesianGPLVM
from dpgplvm.datasets import make_views

# %%
# Twelve columns of three latents. A hundred rows to learn from, a hundred to test.

Y = make_views(n_samples=200, latents=[(0, 1, 2)], columns=12, weights=0.2, noise_variance=0.02, random_state=0).Y
training, test = Y[:100], Y[100:]

offered = [1, 2, 3, 5]
models = [BayesianGPLVM(n_latents=n, n_inducing=30, random_state=0).fit(training) for n in offered]
scores = [model.score(test) for model in models]
used = [model.n_latents_ for model in models]

figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
axis.plot(offered, scores, "o-", color="#0072b2")
for n, score, count in zip(offered, scores, used, strict=True):
    axis.annotate(f"{count} used", (n, score), xytext=(10, -12), textcoords="offset points")
axis.margins(0.2)
axis.set(xlabel="latents offered (n_latents)", ylabel="mean log density of a held-out row", xticks=offered)
plt.show()

# %%
# With five on offer, the model takes the three that there are. With exactly three it does worse, although it uses as
# many: with room to spare, the search finds a better layout. The rule that follows: offer more than you expect to need,
# and look at ``n_latents_``.
