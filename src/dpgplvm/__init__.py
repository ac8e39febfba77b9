"""DP-GP-LVM: learn which columns of a table share which hidden causes."""

from dpgplvm.encoding import FileError
from dpgplvm.estimators import DPGPLVM, MRD, BayesianGPLVM, load
from dpgplvm.inference.outcome import Outcome
from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import RBF, Kernel, Linear, Parameter, RBFLinear
from dpgplvm.numerics import NumericalError
from dpgplvm.version import __version__

__all__ = [
    "DPGPLVM",
    "MRD",
    "RBF",
    "BayesianGPLVM",
    "FileError",
    "Hyperprior",
    "Kernel",
    "Linear",
    "NumericalError",
    "Outcome",
    "Parameter",
    "RBFLinear",
    "__version__",
    "load",
]
