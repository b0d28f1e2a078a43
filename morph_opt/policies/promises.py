"""What a decision leaves of the promises to guaranteed jobs."""

from __future__ import annotations

import numpy as np

from formulations.objectives import relative_speed
from formulations.round.tables import RoundProblem, Selection
from formulations.tolerances import SAME_SPEED


def shortfall_of(problem: RoundProblem, selection: Selection) -> tuple[int, float]:
    """Guaranteed jobs below their promised speed, and the sum of the missing fractions."""
    promised = np.flatnonzero(problem.jobs.guaranteed)
    if not promised.size:
        return 0, 0.0
    members = problem.options.members
    mine = members.chosen(selection.choice)
    granted = np.zeros(problem.jobs.count)
    granted[members.job[mine]] = relative_speed(problem)[mine]
    granted = granted[promised]
    missing = np.where(granted >= 1.0 - SAME_SPEED, 0.0, 1.0 - granted)
    return int((missing > 0).sum()), float(missing.sum())
