"""How much may be done for an explanation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rounds may be solved again for an explanation.

    Parameters
    ----------
    jobs
        Jobs whose best option is forced, at most.
    rules
        Rules that are left out one at a time, at most.
    nodes
        Whether the round is solved with one more node of every kind.
    named
        Jobs whose best option is forced in any case.
    """

    jobs: int = 5
    rules: int = 20
    nodes: bool = False
    named: tuple[str, ...] = ()
