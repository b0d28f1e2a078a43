"""Plan of starts of one round: what is told of it, and what it leaves to the round's decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Ints
from formulations.round.rules import with_rows
from formulations.round.tables import RoundProblem


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """Planned start of a job that waits.

    Parameters
    ----------
    job
        Name of the job.
    start_s
        Instant of the start.
    by_s
        Latest start that the job is promised; None without promises.
    later_s
        Seconds by which a promise that was made before moved; 0 if it did not.
    why
        Reason for that, as a clause; "" if it did not.
    """

    job: str
    start_s: float
    by_s: float | None = None
    later_s: float = 0.0
    why: str = ""

    @property
    def line(self) -> str:
        """The start as a line of text."""
        text = f"planned: {self.job} starts at {self.start_s:.0f} s"
        if self.by_s is not None:
            text += f", by {self.by_s:.0f} s at the latest"
        if self.later_s > 0.0:
            text += f" ({self.later_s:.0f} s later than promised: {self.why})"
        return text


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Plan of starts of one round.

    Parameters
    ----------
    starts
        Starts that the round before did not have, in the order of the instants.
    jobs
        Number of jobs with a planned start.
    cost_s
        Cost of the plan: seconds of waiting from now on, more for those after a due instant.
    bound_s
        Lower bound on the cost of every plan; None if nothing is proven.
    """

    starts: tuple[PlannedStart, ...]
    jobs: int
    cost_s: float
    bound_s: float | None

    @property
    def lines(self) -> list[str]:
        """The plan as lines of text."""
        proven = "" if self.gap is None else f", no plan costs over {100 * self.gap:.1f} % less"
        head = f"plan: {self.jobs} starts at a cost of {self.cost_s:,.0f} s of waiting{proven}"
        return [head, *(one.line for one in self.starts)]

    @property
    def gap(self) -> float | None:
        """Certified gap: largest possible saving, relative to the cost; None without a bound."""
        if self.bound_s is None:
            return None
        return max(0.0, self.cost_s - self.bound_s) / self.cost_s if self.cost_s > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Part of a plan that concerns its first round.

    Parameters
    ----------
    jobs, options
        Jobs that wait, and options in which they may not start now, shape (E,).
    told
        The plan; None if the round before has the same starts.
    barred
        Jobs that cannot start now for another reason than GPUs, and the reasons.
    """

    jobs: Ints
    options: Ints
    told: StartPlan | None
    barred: Mapping[int, str]

    def applied(self, problem: RoundProblem) -> RoundProblem:
        """Return the round with a row ``ahead[j]`` per job that may not start in every way."""
        label, row = np.unique(self.jobs, return_inverse=True)
        if not label.size:
            return problem
        least = np.zeros(label.size)
        return with_rows(problem, "ahead", label, least, row.reshape(-1), self.options, -1.0)
