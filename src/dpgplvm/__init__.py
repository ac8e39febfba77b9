"""DP-GP-LVM: learn which columns of a table share which hidden causes."""

from dpgplvm.advice import FitWarning
from dpgplvm.estimators import DPGPLVM, MRD, BayesianGPLVM
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.progress import Progress
from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import RBF, Kernel, Linear, Parameter, RBFLinear
from dpgplvm.numerics import NumericalError

__version__ = "0.1.0"

__all__ = [
    "DPGPLVM",
    "MRD",
    "RBF",
    "BayesianGPLVM",
    "FitWarning",
    "Hyperprior",
    "Kernel",
    "Linear",
    "NumericalError",
    "Outcome",
    "Parameter",
    "Progress",
    "RBFLinear",
]
