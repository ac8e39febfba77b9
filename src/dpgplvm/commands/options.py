"""The estimators' parameters as options of the command line.

Their names and defaults are read from the signatures, their types and descriptions from the docstrings, all of them in
the source, because importing it takes seconds that neither `--help` nor a slip of the pen should cost. Whether a value
is allowed is for the estimators to say.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

MODELS = {"dpgplvm": "DPGPLVM", "bgplvm": "BayesianGPLVM", "mrd": "MRD"}
_MODULE = "dpgplvm.estimators"
# A file has the views, and a process fits once.
_NOT_OPTIONS = ("views", "warm_start")
_PAIR = "(float, float)"


class Described(NamedTuple):
    """A parameter as its docstring has it."""

    type: str
    description: str


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Options for the parameters of all models; those that are not given are left to the estimators' defaults."""
    group = parser.add_argument_group("parameters of the model")
    for name in parameters():
        described = [_described(model)[name] for model in MODELS if name in _described(model)]
        types = " or ".join(part.type for part in described)
        text = next((part.description for part in described if part.description), "")
        options: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
        options["help"] = f"{text} ({_default_of(name)})".strip().replace("%", "%%")
        if types.startswith("bool"):
            options["action"] = argparse.BooleanOptionalAction
        else:
            options |= {"type": _converter(types), "metavar": _metavar(types)}
        group.add_argument(f"--{name.replace('_', '-')}", **options)


def given_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were given on the command line."""
    return {name: getattr(arguments, name) for name in parameters() if hasattr(arguments, name)}


def progress(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameter that makes a fit show how far it is, where the models have one."""
    return {"verbose": 0 if arguments.quiet else 1} if "verbose" in parameters() else {}


@cache
def parameters() -> dict[str, dict[str, str]]:
    """Every parameter, with its default in each of the models that have it."""
    found: dict[str, dict[str, str]] = {}
    for model, name in MODELS.items():
        for parameter, default in _signature(_MODULE, name).items():
            if parameter not in _NOT_OPTIONS:
                found.setdefault(parameter, {})[model] = default
    return found


def _default_of(name: str) -> str:
    """The default in words, with the models that differ or that have the parameter alone."""
    defaults = parameters()[name]
    if name == "verbose":
        return "default: 1, or 0 with --quiet"
    by_value: dict[str, list[str]] = {}
    for model, default in defaults.items():
        by_value.setdefault(default, []).append(model)
    if len(by_value) == 1:
        only = "" if len(defaults) == len(MODELS) else f"{' and '.join(defaults)} only; "
        return f"{only}default: {next(iter(by_value))}"
    return "default: " + ", ".join(f"{value} for {' and '.join(models)}" for value, models in by_value.items())


def _metavar(types: str) -> str:
    if _choices(types):
        return f"{{{','.join(_choices(types))}}}"
    return "NUMBER,NUMBER" if _PAIR in types else "NUMBER" if _words(types) & {"int", "float"} else "VALUE"


def _choices(types: str) -> dict[str, Any]:
    """Values by their text, from a list such as {"rbf", "linear"} or {0, 1}."""
    lists = re.findall(r"\{(.*?)\}", types)
    return {str(value): value for inside in lists for value in ast.literal_eval(f"[{inside}]")}


def _words(types: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"\{.*?\}", "", types)))


def _converter(types: str) -> Callable[[str], Any]:
    """From text to a value of one of the types that a docstring names."""
    choices, words = _choices(types), _words(types)
    numbers = [number for number in (int, float) if number.__name__ in words]
    length = 2 if _PAIR in types else 1
    wanted = [", ".join(choices)] if choices else []
    if numbers:
        what = "a whole number" if numbers == [int] else "a number"
        wanted.append("two numbers with a comma between them" if length == 2 else what)
    if "None" in words:
        wanted.append("none")

    def convert(text: str) -> Any:
        if text in choices or not wanted:
            return choices.get(text, text)
        if "None" in words and text.lower() == "none":
            return None
        parts = text.split(",")
        for number in numbers if len(parts) == length else []:
            with suppress(ValueError):
                values = tuple(number(part) for part in parts)
                return values if length == 2 else values[0]
        raise argparse.ArgumentTypeError(f"{text!r} is not {' or '.join(wanted)}")

    return convert


@cache
def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    source = spec.loader.get_source(module)  # type: ignore[union-attr]
    return ast.parse(source)


def _definition(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """A class and the module that defines it, wherever `module` has it from."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return _definition(node.module, name) if node.module.startswith("dpgplvm.") else None
    return None


def _signature(module: str, name: str) -> dict[str, str]:
    """The keywords of a class and their defaults as a user would read them: its own, or those of a class above it."""
    found = _definition(module, name)
    if found is None:
        return {}
    home, node = found
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            keywords = zip(item.args.kwonlyargs, item.args.kw_defaults, strict=True)
            return {argument.arg: _readable(default) for argument, default in keywords}
    bases = (_signature(home, base.id) for base in node.bases if isinstance(base, ast.Name))
    return next(filter(None, bases), {})


def _readable(default: ast.expr | None) -> str:
    """A default as it would be typed after an option."""
    if default is None:
        return ""
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return ast.unparse(default)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@cache
def _described(model: str) -> dict[str, Described]:
    """The parameters that a class documents itself, by name."""
    found = _definition(_MODULE, MODELS[model])
    document = inspect.cleandoc(ast.get_docstring(found[1]) or "") if found else ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", document, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w+) : (.+)\n((?:[ ]+.+\n?)*)", f"{section[1]}\n" if section else "", re.MULTILINE)
    return {name: Described(type, " ".join(text.split())) for name, type, text in entries}
