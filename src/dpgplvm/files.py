"""A fitted model in one file: a zip archive of a JSON text and NumPy arrays, without pickle.

`model.json` has the version of the format, the version of the library, the class, its parameters and what the fit left
behind (see `encoding`); the arrays in these are members of their own, so that `np.load(path)["latents_"]` reads one
without the library. Members are not compressed, and carry no time: the same model gives the same bytes.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from dpgplvm import atomic
from dpgplvm.atomic import text_of, trouble_told
from dpgplvm.encoding import FileError, UnknownNameError, decode, encode, reference
from dpgplvm.fitted import Fitted
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.results import Results
from dpgplvm.version import __version__

# To be raised when a file comes to mean something else than it did; `_read` then brings older ones up to date. A file
# that lacks a parameter of the model needs no such care, it gets the default.
FORMAT = 1
_REMEDY = "take a copy that is whole, or fit and save again"
_HEADER = "model.json"
_BEGINNING = b"PK\x03\x04"
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the first that an archive can have

# Without any of these a model is not whole.
_LEFT_BY_A_FIT = {f"{name}_" for name in Results._fields} | {*Fitted.__annotations__, "_names", "_group_names"}
_PARAMETERS = {name: parameter for kernel in NAMED_KERNELS.values() for name, parameter in kernel.parameters.items()}
_PER_LATENT = [name for name, parameter in _PARAMETERS.items() if parameter.per_latent]
_PER_GROUP = [name for name, parameter in _PARAMETERS.items() if not parameter.per_latent]
# Which arrays have which shape: N rows, R of them with something observed, D columns, Q latents in use out of L, K
# groups in use out of T, M inducing points, B sticks that were broken, H values of the bound.
_SHAPES = {
    "N": ["_seen"],
    "N Q": ["latents_", "latent_variance_"],
    "Q": ["latent_order_"],
    "R D": ["_learned"],
    "R L": ["state_/free/latents/mean", "state_/free/latents/log_variance"],
    "M Q": ["inducing_"],
    "M L": ["state_/free/inducing"],
    "D": [
        *("groups_", "profiles_", "explained_", "column_scale_"),
        *("_scaling/mean", "_scaling/scale", "state_/free/log_scale"),
    ],
    "D Q": ["relevance_", "linear_relevance_"],
    "D L": ["profile_strengths_"],
    "D K": ["group_probabilities_"],
    "D T": ["state_/phi"],
    "D D": ["coassignment_"],
    "K": [f"kernel_parameters_/{name}" for name in _PER_GROUP],
    "K Q": [f"kernel_parameters_/{name}" for name in _PER_LATENT],
    "K | D": ["noise_precision_"],
    "T": ["state_/in_play", *(f"state_/free/log_theta/{name}" for name in _PER_GROUP)],
    "T L": [f"state_/free/log_theta/{name}" for name in _PER_LATENT],
    "T | D": ["state_/free/log_noise_precision"],
    "B": ["state_/sticks/a", "state_/sticks/b"],
    "H": ["history_"],
}
_SHAPE_OF = {name: shape for shape, names in _SHAPES.items() for name in names}
_COUNTED = {"D": "n_features_in_", "Q": "n_latents_", "K": "n_groups_"}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; what was there before is replaced only by a file that is whole."""
    path = text_of(path)
    if reference(type(model)) != f"dpgplvm.{type(model).__name__}":
        raise FileError(
            f"the model is a {type(model).__name__}, a class of your own, and a file holds no code: keep it with pickle"
        )
    arrays: dict[str, np.ndarray] = {}
    parameters = model.get_params(deep=False)
    fitted = {name: value for name, value in sorted(model.__getstate__().items()) if name not in parameters}
    header = {
        "format": FORMAT,
        "library": __version__,
        "class": type(model).__name__,
        "parameters": {name: encode(value, name, arrays) for name, value in parameters.items()},
        "fitted": {name: encode(value, name, arrays) for name, value in fitted.items()},
    }
    atomic.write(path, lambda file: _write(file, header, arrays), done="saved")


def load(path: str | os.PathLike[str], models: Mapping[str, type]) -> Any:
    """The model in this file, which is one of `models`."""
    path = text_of(path)
    with trouble_told(path, "loaded", "there is no such file"):
        file = open(path, "rb")  # noqa: SIM115
    with file:
        try:
            return _read(file, models)
        except FileError as error:
            raise FileError(f"{path} {error}") from None
        except MemoryError:
            raise FileError(f"{path} is damaged, or needs more memory than this machine has") from None
        except Exception:  # what a damaged archive, array or text can raise has no end
            raise FileError(f"{path} is damaged or incomplete: {_REMEDY}") from None


def _write(file: IO[bytes], header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        with _new_member(archive, _HEADER) as member:
            member.write(json.dumps(header, allow_nan=False).encode())
        for name, array in arrays.items():
            with _new_member(archive, f"{name}.npy") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _new_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    info = zipfile.ZipInfo(name, _NO_TIME)
    # As on Linux everywhere, and readable when unpacked.
    info.create_system, info.external_attr = 3, 0o644 << 16
    return archive.open(info, "w", force_zip64=True)


def _read(file: IO[bytes], models: Mapping[str, type]) -> Any:
    if file.read(len(_BEGINNING)) != _BEGINNING:
        empty = file.tell() == 0
        raise FileError(f"{'is empty' if empty else 'is not a file that dpgplvm saved'}: give one that `save` made")
    with zipfile.ZipFile(file) as archive:
        if _HEADER not in archive.namelist():
            raise FileError("is an archive, but not one that dpgplvm saved: give one that `save` made")
        with _member(archive, _HEADER) as member:
            header = json.loads(member.read())
        _check_format(header)
        names = [name for name in archive.namelist() if name != _HEADER]
        arrays = {name.removesuffix(".npy"): _array(archive, name) for name in names}
    try:
        return _model(header, arrays, models)
    except UnknownNameError as error:
        raise FileError(
            f"was saved by dpgplvm {header['library']} and holds {error}, which dpgplvm {__version__} "
            "does not know: upgrade dpgplvm"
        ) from None


def _check_format(header: dict[str, Any]) -> None:
    if header["format"] > FORMAT:
        raise FileError(
            f"has format {header['format']} and was saved by dpgplvm {header['library']}, but dpgplvm "
            f"{__version__} reads formats up to {FORMAT}: upgrade dpgplvm"
        )


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A member to read from, which compares the checksum when it comes to the end."""
    info = archive.getinfo(name)
    # Nothing is unpacked, so that no file takes more memory than it has bytes.
    if info.compress_type != zipfile.ZIP_STORED:
        raise FileError(f"is damaged: its part {name!r} is compressed: {_REMEDY}")
    return archive.open(info)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with _member(archive, name) as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise FileError(f"is damaged: its part {name!r} goes on where it should end: {_REMEDY}")
    return array


def _model(header: dict[str, Any], arrays: Mapping[str, np.ndarray], models: Mapping[str, type]) -> Any:
    kind = models.get(header["class"])
    if kind is None:
        raise UnknownNameError(header["class"])
    parameters, fitted = ({k: decode(v, arrays) for k, v in header[of].items()} for of in ("parameters", "fitted"))
    unknown = parameters.keys() - kind._get_param_names()  # type: ignore[attr-defined]
    if unknown:
        raise UnknownNameError(min(unknown))
    missing = _LEFT_BY_A_FIT - fitted.keys()
    if missing:
        raise FileError(f"is damaged: it lacks {min(missing)}: {_REMEDY}")
    _check_shapes(arrays, {letter: fitted[name] for letter, name in _COUNTED.items()})
    model = kind(**parameters)
    vars(model).update(fitted)
    return model


def _check_shapes(arrays: Mapping[str, np.ndarray], sizes: dict[str, int]) -> None:
    """Refuse arrays that do not go together; `sizes` are by letter."""
    for name, wanted in _SHAPE_OF.items():
        if name not in arrays:  # this model has none
            continue
        shape = arrays[name].shape
        if not any(_fits(shape, letters.split(), sizes) for letters in wanted.split("|")):
            raise FileError(f"is damaged: {name} has shape {shape}, which does not go with the other parts: {_REMEDY}")


def _fits(shape: tuple[int, ...], letters: list[str], sizes: dict[str, int]) -> bool:
    """Whether it is this shape; letters that are met first take their size from it."""
    if len(shape) != len(letters):
        return False
    return all(sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True))
