"""Kernels and their psi statistics."""

from dpgplvm.model.kernels.base import Features, Kernel, Parameter, Parameters
from dpgplvm.model.kernels.linear import Linear
from dpgplvm.model.kernels.rbf import RBF
from dpgplvm.model.kernels.sum import RBFLinear

NAMED_KERNELS: dict[str, Kernel] = {"rbf": RBF(), "linear": Linear(), "rbf+linear": RBFLinear()}

__all__ = ["NAMED_KERNELS", "RBF", "Features", "Kernel", "Linear", "Parameter", "Parameters", "RBFLinear"]
