"""Models back from their files."""

from __future__ import annotations

import os

from dpgplvm import files
from dpgplvm.estimators import DPGPLVM, MRD, BayesianGPLVM
from dpgplvm.latent_model import LatentModel


def load(path: str | os.PathLike[str]) -> LatentModel:
    """The model that `save` wrote to this file, as it was: the same attributes, the same predictions to the bit.

    Files of older versions of the library can be read. Nothing in a file is run, so one from a stranger does no harm.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    FileError
        Where the file is damaged, is of a newer version, or is no model's.
    OSError
        Where the file cannot be opened, such as `FileNotFoundError`.

    Examples
    --------
    >>> import os, tempfile
    >>> from dpgplvm import BayesianGPLVM, load
    >>> from dpgplvm.datasets import make_views
    >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
    >>> model = BayesianGPLVM(n_latents=2, n_inducing=10, random_state=0).fit(Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "walk.dpgplvm")
    ...     model.save(path)
    ...     load(path).summary() == model.summary()
    True
    """
    return files.load(path, {model.__name__: model for model in (BayesianGPLVM, MRD, DPGPLVM)})
