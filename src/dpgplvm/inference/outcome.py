"""How a fit ended, as a value with a sentence."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a fit ended."""

    CONVERGED = "converged"
    BUDGET_SPENT = "budget spent"
    MOVES_SPENT = "moves spent"
    INTERRUPTED = "interrupted"
    NUMERICAL_TROUBLE = "numerical trouble"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Outcome.CONVERGED: "The bound stopped rising.",
    Outcome.BUDGET_SPENT: "The bound was still rising: raise max_iter, or go on with warm_start=True.",
    Outcome.MOVES_SPENT: (
        "The bound stopped rising, but the search for groups had tried as many moves as it may while there were others "
        "left: more starts (n_starts) may find better groups."
    ),
    Outcome.INTERRUPTED: "The fit was ended early, by Ctrl-C or by its callback; this is the best state it reached.",
    Outcome.NUMERICAL_TROUBLE: (
        "The bound could not be evaluated any further; this is the best state that was reached. "
        "Fewer inducing points (n_inducing) or a larger jitter help."
    ),
}
