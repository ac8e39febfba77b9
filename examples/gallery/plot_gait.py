"""
Who is who? Two walkers, one table
==================================

Two people walk, each at their own pace. A table has the elbows, wrists, knees and ankles of both, one frame a row,
without saying whose they are. The model finds the two people, and for each of them a loop: the gait.
"""

# %%
# ``make_walkers`` simulates what a pose tracker sees. We take every twelfth frame, and measure from everyone's own hips, so
# that it is about how people move and not about where they are.

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
# Which latents do the groups listen to, and what do they do? Every group has two latents of its own, in which its frames
# go round. Walking round the loop, we ask the model for the pose (``predict``).


def bones(pose: pd.Series, person: int) -> list[np.ndarray]:
    """Arms and legs, each from the trunk outwards."""
    found = []
    for first, second, root in (("elbow", "wrist", (0, -58)), ("knee", "ankle", (0, 0))):
        for side in ("left", "right"):
            ends = [[pose[f"{person} {side} {joint} {axis}"] for axis in "xy"] for joint in (first, second)]
            found.append(np.array([root, *ends]))
    return found


colours = ["#0072b2", "#d55e00"]
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", width_ratios=[0.9, 1, 1])
image = axes[0].imshow(model.relevance_, cmap="Greys", vmin=0, vmax=1, aspect="auto")
axes[0].set(title="what each column listens to", xlabel="latent", xticks=range(model.n_latents_))
axes[0].set_yticks([4, 12, 20, 28], ["arms", "legs", "arms", "legs"])
figure.colorbar(image, ax=axes[0], label="relevance")
for d, group in enumerate(model.groups_):
    axes[0].plot([-0.62, -0.62], [d - 0.5, d + 0.5], color=colours[group], linewidth=6, clip_on=False)

for group, (axis, colour) in enumerate(zip(axes[1:], colours, strict=True)):
    person = int(Y.columns[model.groups_ == group][0][0])
    own = np.argsort(-model.relevance_[model.groups_ == group].mean(axis=0))[:2]
    axis.plot(*model.latents_[:, own].T, ".", color=colour, markersize=6, alpha=0.6)
    for angle in np.arange(8) * np.pi / 4:
        around = np.array([np.cos(angle), np.sin(angle)])
        latents = np.zeros((1, model.n_latents_))
        latents[0, own] = 1.4 * around
        pose = model.predict(latents).iloc[0]
        for bone in bones(pose, person):
            x, y = (bone - (0, 20)).T / 190
            axis.plot(2.35 * around[0] + x, 2.35 * around[1] - y, color="black", linewidth=1.3)
    axis.set(title=f"group {group}: frames, and poses round the loop", xlabel=f"latent {own[0]}", ylabel=f"latent {own[1]}")
    axis.set(aspect="equal", xlim=(-3, 3), ylim=(-3, 3))
plt.show()
