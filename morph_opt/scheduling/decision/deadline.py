"""End of a round's time, which all steps of one decision share."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Function that returns the seconds since some moment."""


class Deadline:
    """Moment at which the time of a round ends.

    A step that is under way when it passes ends at its next look at the clock. Answers that a
    deadline cut short are not reproducible; all others do not depend on it.

    Parameters
    ----------
    time_s
        Seconds from now on.
    clock
        Clock that it goes by.
    """

    def __init__(self, time_s: float, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._at_s = clock() + time_s

    def left_s(self) -> float:
        """Return the seconds left; negative if it has passed."""
        return self._at_s - self._clock()

    def passed(self) -> bool:
        """Return whether it has passed."""
        return self._clock() >= self._at_s

    def after(self, share: float) -> Deadline:
        """Return the deadline after a share of the time left."""
        return Deadline(share * max(0.0, self.left_s()), self._clock)
