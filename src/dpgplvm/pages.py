"""A fitted model as pages to look at in a browser. What makes them is imported when a page is asked for."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dpgplvm.skeleton import Skeleton, check_skeleton


class Pages:
    """Methods of every fitted model."""

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        skeleton: Skeleton | None = None,
        sequence: Any = None,
        title: str | None = None,
    ) -> None:
        """Write one page of HTML that tells what was found, to someone who was not there.

        It has the groups in plain words, pictures, tables, how sure it all is, warnings, how it was made, and what the
        words mean. It is one file that needs no network, and prints well. It is written whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Usually ends in ``.html``; a file of that name is replaced.
        skeleton : Skeleton or None
            Where columns are coordinates of joints: which, and the bones between them. Groups are drawn on the body.
        sequence : True, one label for every row, or None
            Rows that follow one another, which are drawn as paths: all of them, or those with the same label.
        title : str or None
            Of the page; None says how large the table is.

        Raises
        ------
        ImportError
            Where matplotlib or Jinja2 is not installed, which ``pip install 'dpgplvm[plots]'`` does.
        OSError
            Where the file cannot be written, such as `FileNotFoundError` for a folder that does not exist.

        Examples
        --------
        >>> import os, tempfile
        >>> from dpgplvm import BayesianGPLVM
        >>> from dpgplvm.datasets import make_views
        >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
        >>> model = BayesianGPLVM(n_latents=2, n_inducing=10, random_state=0).fit(Y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = os.path.join(folder, "views.html")
        ...     model.report(page, title="Six columns")
        ...     os.path.exists(page)
        True
        """
        check_is_fitted(self)
        _check(skeleton, title)
        from dpgplvm import report

        report.write(self, path, skeleton, sequence, title)

    def explore(
        self,
        path: str | os.PathLike[str],
        *,
        skeleton: Skeleton | None = None,
        sequence: Any = None,
        title: str | None = None,
    ) -> None:
        """Write one page to walk through the latents in: drag a point, and see what the columns are predicted to be.

        The page is one file that works by itself: it predicts as `predict` does, without Python, a server or the
        network. It has the training rows in it. It is written whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Usually ends in ``.html``; a file of that name is replaced.
        skeleton : Skeleton or None
            Which columns are joints, and the bones between them: draws the body that moves.
        sequence : True, one label for every row, or None
            Rows that follow each other are joined, and played one after another: True for all of them, labels for
            several sequences.
        title : str or None
            Of the page; None says which kind of model it is.

        Raises
        ------
        ValueError
            Where the kernel is one of your own, which the page cannot compute.
        OSError
            Where the file cannot be written, such as `FileNotFoundError` for a folder that does not exist.

        Examples
        --------
        >>> import os, tempfile
        >>> from dpgplvm import BayesianGPLVM
        >>> from dpgplvm.datasets import make_views
        >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
        >>> model = BayesianGPLVM(n_latents=2, n_inducing=10, random_state=0).fit(Y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = os.path.join(folder, "views.html")
        ...     model.explore(page, sequence=True)
        ...     os.path.exists(page)
        True
        """
        check_is_fitted(self)
        _check(skeleton, title)
        from dpgplvm.explorer import explore

        explore(self, path, skeleton, sequence, title)


def _check(skeleton: Any, title: Any) -> None:
    if skeleton is not None:
        check_skeleton(skeleton)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title is a {type(title).__name__}: give a str, or None for one that fits")
