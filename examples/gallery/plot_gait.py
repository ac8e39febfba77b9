"""
Who is who? Two walkers, one table
==================================

Two people walk, each at their own pace. A table has the elbows, wrists, knees and ankles of both, one frame a row. The
model is not told whose they are. It finds the two people, and for each of them a loop: the gait.
"""

# %%
# ``make_walkers`` simulates what a pose tracker sees. We take every twelfth frame, and measure from everyone's own
# hips, so that it is about how people move and not about where they are.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_walkers

video = make_walkers(n_samples=960, n_people=2, random_state=0)
joints = [name.removeprefix("0 ").removesuffix(" x") for name in video.names[:30:2]]
hips = video.skeleton[:, :, [joints.index("left hip"), joints.index("right hip")], :2].mean(axis=2)
places = video.Y.reshape(960, 2, 15, 2) - hips[:, :, None]
limbs = np.isin(video.part, ["arms", "legs"])
Y = pd.DataFrame(places.reshape(960, 60)[::12, limbs], columns=video.names[limbs])

model = DPGPLVM(n_latents=5, n_inducing=30, truncation=6, kernel="rbf", random_state=0).fit(Y)
print(model.summary())

# %%
# Which latents do the groups listen to, and what do they do? Every group has two latents of its own, in which its
# frames go round. Walking round the loop, we ask the model for the pose (``predict``): left limbs are light, right
# ones dark. Trunk and head, which are not in the table, are drawn in.


def draw_pose(axis: plt.Axes, pose: pd.Series, person: int, at: np.ndarray, colour: str) -> None:
    hip, shoulder, top = np.zeros(2), np.array([2.0, -58.0]), np.array([4.0, -82.0])

    def line(*points: np.ndarray, **style) -> None:
        x, y = (np.array(points) / 105).T
        axis.plot(at[0] + x, at[1] - y, solid_capstyle="round", **style)

    for side, strength in (("left", 0.45), ("right", 1.0)):
        for first, second, root in (("elbow", "wrist", shoulder), ("knee", "ankle", hip)):
            ends = (np.array([pose[f"{person} {side} {joint} {along}"] for along in "xy"]) for joint in (first, second))
            line(root, *ends, color=colour, linewidth=2.2, alpha=strength)
    line(hip, shoulder, color="black", linewidth=3)
    line(top, color="black", marker="o", markersize=6)


colours = ["#0072b2", "#d55e00"]
figure, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained", width_ratios=[0.75, 1, 1])
image = axes[0].imshow(model.relevance_, cmap="Greys", vmin=0, vmax=1, aspect="auto")
axes[0].set(title="who listens to what", xlabel="latent", xticks=range(model.n_latents_))
axes[0].set_yticks([3.5, 11.5, 19.5, 27.5], ["arms", "legs", "arms", "legs"])
axes[0].tick_params(axis="y", length=0, pad=12)
figure.colorbar(image, ax=axes[0], label="share of its predicted variance")
for d, group in enumerate(model.groups_):
    axes[0].plot([-0.65, -0.65], [d - 0.5, d + 0.5], color=colours[group], linewidth=7, clip_on=False)
axes[0].set(xlim=(-0.5, model.n_latents_ - 0.5))

for group, (axis, colour) in enumerate(zip(axes[1:], colours, strict=True)):
    person = int(Y.columns[model.groups_ == group][0][0])
    own = np.argsort(-model.relevance_[model.groups_ == group].mean(axis=0))[:2]
    axis.plot(*model.latents_[:, own].T, ".", color=colour, markersize=6, alpha=0.6)
    for angle in np.arange(8) * np.pi / 4:
        direction = np.array([np.cos(angle), np.sin(angle)])
        latents = np.zeros((1, model.n_latents_))
        latents[0, own] = 1.4 * direction
        draw_pose(axis, model.predict(latents).iloc[0], person, 2.9 * direction, colour)
    axis.set(title=f"group {group} (person {person}): frames, and poses")
    axis.set(xlabel=f"latent {own[0]}", ylabel=f"latent {own[1]}", aspect="equal", xlim=(-3.9, 3.9), ylim=(-4.1, 3.9))
plt.show()

# %%
# Nobody told the model that frames follow each other, how many people there are, or that walking repeats itself.
