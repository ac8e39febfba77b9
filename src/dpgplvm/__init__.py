"""DP-GP-LVM: learn which columns of a table share which hidden causes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpgplvm.version import __version__

if TYPE_CHECKING:
    from dpgplvm.advice import FitWarning
    from dpgplvm.encoding import FileError
    from dpgplvm.estimators import DPGPLVM, MRD, BayesianGPLVM
    from dpgplvm.inference.outcome import Outcome
    from dpgplvm.inference.progress import Progress
    from dpgplvm.loading import load
    from dpgplvm.model.hyperprior import Hyperprior
    from dpgplvm.model.kernels import RBF, Kernel, Linear, Parameter, RBFLinear
    from dpgplvm.numerics import NumericalError
    from dpgplvm.skeleton import Skeleton

__all__ = [
    "DPGPLVM",
    "MRD",
    "RBF",
    "BayesianGPLVM",
    "FileError",
    "FitWarning",
    "Hyperprior",
    "Kernel",
    "Linear",
    "NumericalError",
    "Outcome",
    "Parameter",
    "Progress",
    "RBFLinear",
    "Skeleton",
    "__version__",
    "load",
]

# JAX and scikit-learn take seconds to import: what needs them is imported when it is first asked for.
_HOMES = {
    "advice": ("FitWarning",),
    "encoding": ("FileError",),
    "estimators": ("DPGPLVM", "MRD", "BayesianGPLVM"),
    "inference.outcome": ("Outcome",),
    "inference.progress": ("Progress",),
    "loading": ("load",),
    "model.hyperprior": ("Hyperprior",),
    "model.kernels": ("RBF", "Kernel", "Linear", "Parameter", "RBFLinear"),
    "numerics": ("NumericalError",),
    "skeleton": ("Skeleton",),
}


def __getattr__(name: str) -> Any:
    """A public name from the module it lives in, or a module of the package."""
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return globals()[name]
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
