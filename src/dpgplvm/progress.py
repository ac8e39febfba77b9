"""A bar for those who wait: on a terminal and in notebooks; lines of text where a bar cannot be redrawn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dpgplvm.inference.progress import OnProgress, Progress, Reporter

# Most stages end when nothing is left to gain, and nobody knows when that will be: their bar counts, and only a stage
# with a budget says how long it can take at most.
_COUNTING = "{desc}: {n_fmt} iterations{postfix}"
_WITHIN_A_BUDGET = "{desc}: {percentage:3.0f}%|{bar:20}| at most {remaining} left{postfix}"


@contextmanager
def shown(verbose: int, callback: OnProgress | None) -> Iterator[Reporter]:
    """What a fit reports to: nobody, a bar (`verbose`), a user's function, or both."""
    asked = [] if callback is None else [callback]
    if not verbose:
        yield Reporter(asked)
        return
    bar = Bar(verbose)
    try:
        yield Reporter([bar.show, *asked], [bar.line])
    finally:
        bar.close()


class Bar:
    """A bar on stderr, gone at the end; with verbose=2, and where there is no terminal, a line that stays for every
    stage and for every move that is kept."""

    def __init__(self, verbose: int) -> None:
        from tqdm.auto import tqdm  # only those who look at a bar wait for its import

        self._bar = tqdm(desc="starting", bar_format="{desc}", leave=False, disable=None, dynamic_ncols=True)
        self._has_lines = verbose > 1 or self._bar.disable
        self._stage, self._before = "", 0

    def show(self, progress: Progress) -> None:
        """The next iteration."""
        bar = self._bar
        groups = f"{progress.n_groups} group{'s' * (progress.n_groups != 1)}"
        bar.set_postfix_str(f"bound {progress.bound:.1f}, {groups}, {progress.seconds:.0f} s in all", refresh=False)
        if progress.stage != self._stage:
            self._stage, self._before = progress.stage, progress.iteration - 1
            bar.total = None if progress.iterations_left is None else progress.iterations_left + 1
            bar.bar_format = _COUNTING if bar.total is None else _WITHIN_A_BUDGET
            bar.set_description_str(progress.stage, refresh=False)
            bar.reset()
        bar.update(progress.iteration - self._before - bar.n)

    def line(self, text: str) -> None:
        """Something that stays to be read."""
        if self._has_lines:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Gone."""
        self._bar.close()
