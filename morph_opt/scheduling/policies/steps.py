"""Steps that settle rounds of the MILP: names in files, words in output, meanings on pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """Step that may settle a round.

    Parameters
    ----------
    words
        Words in the output of a run; ``{solver}`` is the name of the solver.
    meaning
        Explanation on pages and of figures.
    asks
        Whether the decision comes from a MIP solver.
    """

    words: str
    meaning: str
    asks: bool = False

    def text(self, name: str, solver: str) -> str:
        """Return the words, followed by the name in files if the words lack it."""
        words = self.words.format(solver=solver)
        return words if name in words else f"{words} ({name})"


STEPS: Mapping[str, Step] = {
    "stays": Step("nothing to do", "every job runs in its best option already"),
    "knapsack": Step(
        "tables",
        "a dynamic program over GPUs proves the decision; nodes are packed, rarely by a small MIP",
    ),
    "prices": Step("prices", "prices of GPUs prove a decision rounded from them"),
    "slots": Step("slots", "prices of the slots on nodes prove it"),
    "residual": Step(
        "residual rounds",
        "a MIP solver decides some jobs on some nodes anew; prices prove the whole",
        asks=True,
    ),
    "exact": Step(
        "exact by {solver}",
        "a MIP solver decides and proves the round, or what the bounds so far leave of it",
        asks=True,
    ),
}
"""Steps by their name in `RoundReport.step`, in the order in which a round tries them."""

SOLVING = tuple(name for name, step in STEPS.items() if step.asks)
"""Steps whose decision comes from a MIP solver."""


def settled_text(counts: Mapping[str, int], solver: str) -> str:
    """Return how many rounds each step settled, for example ``tables (knapsack) 1,056``.

    Parameters
    ----------
    counts
        Number of rounds by name of the step; names that are missing settled none.
    solver
        Name of the MIP solver.
    """
    return ", ".join(
        f"{step.text(name, solver)} {counts[name]:,}"
        for name, step in STEPS.items()
        if counts.get(name)
    )
