"""Unit of time for all charts of a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Axis of time with its unit.

    Parameters
    ----------
    unit
        ``min``, ``h`` or ``d``.
    unit_s
        Length of the unit in seconds.
    """

    unit: str
    unit_s: float

    @classmethod
    def until(cls, end_s: float) -> TimeAxis:
        """Choose the unit in which the end is a number of readable size.

        >>> TimeAxis.until(7e4).unit
        'h'
        """
        if end_s < 2.0 * 3600.0:
            return cls("min", 60.0)
        return cls("h", 3600.0) if end_s < 20.0 * 86400.0 else cls("d", 86400.0)

    @property
    def title(self) -> str:
        """Title of the axis."""
        return f"simulated time ({self.unit})"

    def of(self, seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Convert seconds to the unit."""
        return np.asarray(seconds, dtype=np.float64) / self.unit_s
