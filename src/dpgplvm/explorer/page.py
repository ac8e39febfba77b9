"""One HTML file out of the parts in `static`, and what it is told. Nothing of what users name can run in it."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

# In the order in which they need each other.
_SCRIPTS = (
    "arrays.js",
    "posterior.js",
    "state.js",
    "colours.js",
    "shading.js",
    "map.js",
    "columns.js",
    "body.js",
    "player.js",
    "controls.js",
    "main.js",
)


def page(told: dict[str, Any], title: str) -> str:
    """The page. Its policy lets nothing run but the script that it was written with, and nothing be fetched."""
    style, script = _static("explorer.css"), "\n".join(map(_static, _SCRIPTS))
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'"
    return Template(_static("explorer.html")).substitute(
        policy=policy, title=escape(title), style=style, script=script, told=_as_json(told)
    )


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _as_json(told: Any) -> str:
    """In ASCII, and without any character that HTML has a meaning for."""
    text = json.dumps(told, default=_array, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _array(values: Any) -> dict[str, Any]:
    """Little-endian bytes in base64; other numbers than these have no place in the page."""
    kinds = {"float64": "<f8", "float32": "<f4", "int32": "<i4"}
    data = np.ascontiguousarray(values, dtype=kinds[values.dtype.name])
    return {"type": values.dtype.name, "shape": values.shape, "data": base64.b64encode(data.tobytes()).decode()}
