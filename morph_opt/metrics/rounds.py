"""Sums over the rounds of a replay."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.events.log import RoundDecided


@dataclass(slots=True)
class RoundSums:
    """What the decided rounds come to, so that a long replay keeps none of them.

    Parameters
    ----------
    count, fallbacks
        Decided rounds; those in which no solver answered.
    gap_max
        Largest gap that was stated; None if none was.
    """

    count: int = 0
    fallbacks: int = 0
    gap_max: float | None = None

    def add(self, decided: RoundDecided) -> None:
        """Take in the next round."""
        self.count += 1
        self.fallbacks += decided.status == "fallback"
        if decided.gap is not None:
            self.gap_max = decided.gap if self.gap_max is None else max(self.gap_max, decided.gap)
