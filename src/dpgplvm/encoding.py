"""What a fitted model holds, as JSON and named arrays, and back again.

JSON's own values stand for themselves. Everything else is an object with one key, the name of what it is, and the parts
that make it: `{"tuple": [1.0, 1.0]}`, `{"array": "state_/free/inducing"}`, `{"Hyperprior": {"relevance": 3.0, ...}}`.
The tables below say all that a file can hold. Whatever else is met, in a model or in a file, is refused: no name in a
file is ever imported, and nothing in it is run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dpgplvm.data import Scaling
from dpgplvm.fitted import Kept
from dpgplvm.frames import Layout
from dpgplvm.inference.moves import Move
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.starts import Start
from dpgplvm.model.bound import Model
from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import RBF, Kernel, Linear, RBFLinear
from dpgplvm.model.latents import StandardNormal
from dpgplvm.model.state import Free, State
from dpgplvm.model.sticks import Concentration, Sticks


class FileError(ValueError):
    """A file that cannot be read as a model, or a model that cannot be written to one."""


class UnknownNameError(LookupError):
    """A name in a file that this version of the library has no meaning for."""


class Kind(NamedTuple):
    """How one type of value is taken apart into simpler ones, and put together again."""

    type: str  # its package and name: what is not installed need not be imported
    apart: Callable[[Any], Any]
    together: Callable[[Any], Any]


_JSON = {type(None), bool, int, str}
_NUMBERS_AND_TEXT = "biufcmMSU"  # kinds of NumPy's types that need no pickle

# Stored field by field.
_RECORDS: dict[str, type] = {
    record.__name__: record
    for record in (
        *(State, Free, Sticks, Model, StandardNormal, Hyperprior, Concentration),
        *(RBF, Linear, RBFLinear),
        *(Scaling, Layout, Move, Start),
    )
}


def reference(kind: type) -> str:
    """A type by its package and its name."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _named(name: str) -> Any:
    """What this name stands for, of a package that need not be installed."""
    package, _, attribute = name.partition(".")
    try:
        return getattr(import_module(package), attribute)
    except ImportError:
        raise FileError(f"holds a model of a table of {package}, which is not installed: install {package}") from None


def _index_apart(index: Any) -> list[Any]:
    is_range = type(index).__name__ == "RangeIndex"
    return [range(index.start, index.stop, index.step) if is_range else index.to_list(), list(index.names)]


def _index_together(parts: list[Any]) -> Any:
    values, names = parts
    if len(names) > 1:
        return _named("pandas.MultiIndex").from_tuples(values, names=names)
    return _named("pandas.Index")(values, name=names[0])


def _state_of_generator(generator: np.random.RandomState) -> list[Any]:
    name, *numbers = generator.get_state(legacy=False).values()
    if name != "MT19937":
        raise FileError(f"random_state draws from {name}, which cannot be saved: set it to an int or None")
    return numbers


def _generator(numbers: list[Any]) -> np.random.RandomState:
    generator = np.random.RandomState(0)
    names = generator.get_state(legacy=False).keys()
    generator.set_state(dict(zip(names, ["MT19937", *numbers], strict=True)))
    return generator


def _objects(parts: list[Any]) -> np.ndarray:
    shape, values = parts
    return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)


_KINDS = {
    "float": Kind("builtins.float", repr, float),  # one that JSON has no word for: the others are JSON's own
    "tuple": Kind("builtins.tuple", list, tuple),
    "set": Kind("builtins.set", lambda value: sorted(value, key=repr), set),
    "range": Kind("builtins.range", lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    "date": Kind("datetime.date", date.isoformat, date.fromisoformat),
    "datetime": Kind("datetime.datetime", datetime.isoformat, datetime.fromisoformat),
    "scalar": Kind("numpy.generic", np.asarray, lambda array: array[()]),
    "objects": Kind("numpy.object", lambda array: [list(array.shape), array.ravel().tolist()], _objects),
    "RandomState": Kind("numpy.RandomState", _state_of_generator, _generator),
    "Timestamp": Kind(  # a time zone comes back as its distance from UTC
        "pandas.Timestamp",
        lambda value: [value.isoformat(), value.unit],
        lambda parts: _named("pandas.Timestamp")(parts[0]).as_unit(parts[1]),
    ),
    "index": Kind("pandas.Index", _index_apart, _index_together),
    "Kept": Kind("dpgplvm.Kept", lambda kept: None, lambda nothing: Kept()),  # is computed when it is asked for
    "Outcome": Kind("dpgplvm.Outcome", lambda outcome: outcome.value, Outcome),
}
_KIND_OF_TYPE = {kind.type: (name, kind) for name, kind in _KINDS.items()}
# Labels of columns, which come back as a list: that says the same.
_LISTED = {"pandas.Series", "polars.Series"}


def encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for `value`; the arrays in it are added to `arrays`, under names that begin with `name`."""
    own = type(value)
    if own in _JSON or (own is float and math.isfinite(value)):
        return value
    if reference(own) in _LISTED:
        value, own = value.to_list(), list
    if own is list:
        return [encode(part, f"{name}/{number}", arrays) for number, part in enumerate(value)]
    if own is dict:
        return {"dict": [_encode_item(item, name, number, arrays) for number, item in enumerate(value.items())]}
    if own is np.ndarray and value.dtype.kind in _NUMBERS_AND_TEXT:
        arrays[name] = value
        return {"array": name}
    if own in _RECORDS.values():
        parts = {field: encode(getattr(value, field), f"{name}/{field}", arrays) for field in _fields(own)}
        return {own.__name__: parts}
    kind = _KIND_OF_TYPE.get(_type_of(value))
    if kind is None:
        raise FileError(_refusal(value, name))
    return {kind[0]: encode(kind[1].apart(value), name, arrays)}


def decode(stored: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What `encode` made JSON of."""
    if isinstance(stored, list):
        return [decode(part, arrays) for part in stored]
    if not isinstance(stored, dict):
        return stored
    ((name, parts),) = stored.items()
    if name == "array":
        return arrays[parts]
    if name == "dict":
        return {decode(key, arrays): decode(value, arrays) for key, value in parts}
    if name in _RECORDS:
        unknown = parts.keys() - _fields(_RECORDS[name])
        if unknown:
            raise UnknownNameError(f"{name}.{min(unknown)}")
        return _RECORDS[name](**{field: decode(part, arrays) for field, part in parts.items()})
    if name not in _KINDS:
        raise UnknownNameError(name)
    return _KINDS[name].together(decode(parts, arrays))


def _encode_item(item: tuple[Any, Any], name: str, number: int, arrays: dict[str, np.ndarray]) -> list[Any]:
    """A key and its value; arrays are named by keys that can be part of a name, and by numbers where they cannot."""
    key, value = item
    own = key if isinstance(key, str) and key.isidentifier() else number
    return [encode(key, f"{name}/{number}-key", arrays), encode(value, f"{name}/{own}", arrays)]


def _fields(record: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(record):
        return tuple(field.name for field in dataclasses.fields(record))
    return record._fields  # type: ignore[attr-defined]


def _type_of(value: Any) -> str:
    if isinstance(value, np.generic):
        return "numpy.generic"
    if type(value) is np.ndarray and value.dtype.kind in "OT":
        return "numpy.object"
    if "pandas.Index" in map(reference, type(value).__mro__):
        return "pandas.Index"
    return reference(type(value))


def _refusal(value: Any, name: str) -> str:
    name, own = name.replace("/", "."), type(value).__name__
    if isinstance(value, Kernel):
        return (
            f"{name} is a {own}, a class of your own, and a file holds no code: fit with one of the library's kernels, "
            "or keep this model with pickle"
        )
    return (
        f"{name} is of type {own}, which a file cannot hold: replace it by numbers, text, lists, dicts or arrays of "
        "these, or keep this model with pickle"
    )
