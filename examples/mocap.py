"""Which latents do legs, arms and trunk listen to? A gallery of recorded motion.

    python examples/mocap.py DATA [NAME ...]

DATA is a folder with the recordings as .npz files: a table `Y` of frames by joint coordinates, the `columns`, and the
body part of every column in `groups` (or `body_part`), named in `groups_name` (or `body_part_name`). One picture for
each recording, and what it shows in words, go to the folder `gallery`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpgplvm import DPGPLVM, plots

FOLDER = Path("gallery")
RECORDINGS = ("cmu07_walk_angles", "dog_walk", "cmu_duo_sync_walk", "osu_run1")


class Recording(NamedTuple):
    name: str
    Y: pd.DataFrame
    part_of: np.ndarray  # [D]
    parts: list[str]
    trial_of: np.ndarray  # [N]


def read(path: Path) -> Recording:
    with np.load(path, allow_pickle=False) as file:
        part, names = ("body_part", "body_part_name") if "body_part" in file.files else ("groups", "groups_name")
        parts, part_of = [str(name).replace("_", " ") for name in file[names]], file[part]
        if part == "body_part":  # several people: each has parts of their own
            people = [str(name).replace("_", " ") for name in file["groups_name"]]
            part_of = file["groups"] * len(parts) + part_of
            parts = [f"{part}, {person}" for person in people for part in parts]
        trials = file["row_trial"] if "row_trial" in file.files else np.zeros(len(file["Y"]), dtype=int)
        return Recording(path.stem, pd.DataFrame(file["Y"], columns=file["columns"]), part_of, parts, trials)


def heard_by_part(model: DPGPLVM, recording: Recording) -> np.ndarray:
    """[parts, latents] mean share of the predicted variance of a part's columns."""
    return np.array([model.relevance_[recording.part_of == p].mean(axis=0) for p in range(len(recording.parts))])


def _heat_map(axes, values, parts, colours, what, title, share_of) -> None:
    image = axes.imshow(values, aspect="auto", cmap=colours, vmin=0, vmax=1)
    axes.set_yticks(range(len(parts)), parts)
    axes.set_xticks(range(0, values.shape[1], 1 + values.shape[1] // 12))  # legible with many latents
    axes.set_xlabel(what)
    axes.set_title(title)
    axes.figure.colorbar(image, ax=axes, label=f"share of {share_of}")


def draw(model: DPGPLVM, recording: Recording) -> Path:
    heard = heard_by_part(model, recording)
    figure, (shares, groups, paths) = plt.subplots(1, 3, figsize=(15, 5), width_ratios=[3, 3, 3], layout="constrained")
    figure.suptitle(f"{recording.name}: {len(recording.Y)} frames, {len(recording.part_of)} columns")

    _heat_map(shares, heard, recording.parts, "Blues", "latent", "what each part listens to", "predicted variance")
    counts = np.array(
        [
            [(model.groups_[recording.part_of == p] == k).mean() for k in range(model.n_groups_)]
            for p in range(len(heard))
        ]
    )
    _heat_map(
        groups, counts, recording.parts, "Greens", "group", "which groups its columns are in", "the part's columns"
    )

    plots.latents(model, sequence=recording.trial_of, ax=paths).set_title("frames in order")
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{recording.name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def in_words(model: DPGPLVM, recording: Recording) -> str:
    lines = [model.summary(), ""]
    for part, heard in zip(recording.parts, heard_by_part(model, recording), strict=True):
        loudest = [f"{q} ({heard[q]:.0%})" for q in np.argsort(-heard)[:3] if heard[q] >= 0.05]
        lines.append(f"{part}: {'latents ' + ', '.join(loudest) if loudest else 'no latent much'}")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit(__doc__)
    folder, *names = arguments
    for name in names or RECORDINGS:
        path = Path(folder) / f"{name}.npz"
        if not path.exists():
            print(f"{path} is not there: skipped")
            continue
        recording = read(path)
        model = DPGPLVM(random_state=0).fit(recording.Y)
        picture = draw(model, recording)
        words = in_words(model, recording)
        picture.with_suffix(".txt").write_text(words + "\n")
        print(f"{words}\nPicture: {picture}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
