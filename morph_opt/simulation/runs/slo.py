"""Service-level objective: a statistic of one run and its limit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.nearest import unknown
from morph_opt.simulation.runs.jobs import JobRow

PER_JOB = ("jct_s", "queued_s", "waiting_s", "stretch", "finish_time_ratio")
"""Metrics of a job, by the names of ``docs/metrics.md``: fields of `JobRow`."""

FLOORED = ("jct_s", "queued_s", "waiting_s")
"""Metrics of a job with a lower bound from its shortest time or its first boundary."""

PER_RUN = ("makespan_s", "gpu_utilization", "slo_attainment", "cost_usd")
"""Metrics of a run: keys of the summary; they take no statistic."""

RANGES = {
    "stretch": (1.0, math.inf),
    "gpu_utilization": (0.0, 1.0),
    "slo_attainment": (0.0, 1.0),
}
"""Range of a metric's possible values, if it is not from 0 up; a target outside is refused."""

STATISTICS = ("avg", "median", "max")
FIGURE = re.compile(r"\s*(?:(avg|mean|median|max|p\d{1,2}(?:\.\d{1,3})?)\s+)?([a-z_]+)\s*")
"""Pattern of the left side of an objective."""
_TEXT = re.compile(FIGURE.pattern + r"(<=|>=)\s*(\S+)\s*")


class UnfinishedError(InputError):
    """Error: unfinished jobs, so that the workload has no such figure."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Limit on a statistic of a run.

    >>> Slo.parse("p90 queued_s <= 900")
    Slo(metric='queued_s', statistic='p90', at_most=900.0, at_least=None)

    Parameters
    ----------
    metric
        A name of `PER_JOB` or `PER_RUN`.
    statistic
        ``avg``, ``median``, ``max`` or a quantile such as ``p90`` over the jobs; empty for a
        metric of the run.
    at_most, at_least
        Target; exactly one of them is given.

    Raises
    ------
    InputError
        If metric or statistic are unknown, do not go together, or there is no one target.
    """

    metric: str
    statistic: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        require_type("metric", self.metric, str)
        require_type("statistic", self.statistic, str)
        require_type("at_most", self.at_most, float, None)
        require_type("at_least", self.at_least, float, None)
        if self.metric not in PER_JOB and self.metric not in PER_RUN:
            raise InputError(unknown("metric", self.metric, (*PER_JOB, *PER_RUN)), field="slo")
        if self.metric in PER_RUN and self.statistic:
            raise InputError(f"{self.metric} is one figure of a run, not of a job", field="slo")
        if self.metric in PER_JOB:
            self._require_statistic()
        if (self.at_most is None) == (self.at_least is None):
            raise InputError("needs one target, at most or at least", field="slo")
        if not math.isfinite(self.target):
            raise InputError(f"needs a finite target, got {self.target!r}", field="slo")
        low, high = RANGES.get(self.metric, (0.0, math.inf))
        if not (self.at_most is None or self.at_most >= low):
            rule = f"nothing reaches it: {self.metric} is never below {low:g}"
            raise InputError(rule, field="slo")
        if not (self.at_least is None or self.at_least <= high):
            rule = f"nothing reaches it: {self.metric} is never above {high:g}"
            raise InputError(rule, field="slo")

    def _require_statistic(self) -> None:
        number = self.statistic[1:] if self.statistic.startswith("p") else ""
        try:
            good = self.statistic in STATISTICS or 0.0 < float(number) < 100.0
        except ValueError:
            good = False
        if not good:
            rule = f"needs avg, median, max or p1 to p99.9 before {self.metric}"
            raise InputError(f"{rule}, got {self.statistic!r}", field="slo")

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Return the SLO of a text such as ``"p90 queued_s <= 900"``.

        Raises
        ------
        InputError
            If it does not look like that.
        """
        found = _TEXT.fullmatch(require_type("text", text, str))
        if found is None:
            rule = f"must look like 'p90 queued_s <= 900' or 'avg jct_s <= 1800', got {text!r}"
            raise InputError(rule, field="slo")
        statistic, metric, way, number = found.groups()
        try:
            target = float(number)
        except ValueError:
            raise InputError(f"must end in a number, got {number!r}", field="slo") from None
        if "_" in number:
            raise InputError(f"must end in a number, got {number!r}", field="slo")
        statistic = "avg" if statistic == "mean" else statistic or ""
        if way == "<=":
            return cls(metric, statistic, at_most=target)
        return cls(metric, statistic, at_least=target)

    @property
    def target(self) -> float:
        """Limit, whichever side it is on."""
        return float(self.at_least if self.at_most is None else self.at_most)  # type: ignore[arg-type]

    def __str__(self) -> str:
        way = ">=" if self.at_most is None else "<="
        return f"{self.statistic} {self.metric} {way} {self.target:g}".strip()

    def met_by(self, value: float) -> bool:
        """Return whether a value reaches the target; NaN does not."""
        return value <= self.at_most if self.at_most is not None else value >= self.target

    def value(self, summary: Mapping[str, Any], jobs: Callable[[], Sequence[JobRow]]) -> float:
        """Return the statistic of a run.

        Parameters
        ----------
        summary
            Figures of ``summary.json``.
        jobs
            Function that returns the rows of jobs, called only for metrics of jobs.

        Raises
        ------
        UnfinishedError
            If jobs are unfinished: the times of the others alone would be too small.
        InputError
            If the run has no such figure: GPUs have no price, or jobs no deadline.
        """
        if summary["completed"] < summary["jobs"]:
            left = summary["jobs"] - summary["completed"]
            raise UnfinishedError(
                f"{left} of {summary['jobs']} jobs are unfinished: {self.metric} of the others is "
                "no figure of the workload",
                field="slo",
            )
        if self.metric in PER_RUN:
            found = summary.get(self.metric)
            if found is None or math.isnan(found):
                what = {"cost_usd": "GPUs have no price", "slo_attainment": "no job has a deadline"}
                rule = f"{self.metric} is not known: {what.get(self.metric, 'the run has none')}"
                raise InputError(rule, field="slo")
            return float(found)
        sample = np.asarray([getattr(row, self.metric) for row in jobs()], dtype=np.float64)
        return self.statistic_of(sample)

    @property
    def bounded_by(self) -> str | None:
        """Name of the certified bound on the statistic; None if there is none.

        ``jct`` for the mean JCT and ``makespan``; ``floors`` for other statistics: the statistic of
        every job alone, as none falls when a job takes longer.
        """
        if self.at_most is None:
            return None
        if self.metric == "makespan_s":
            return "makespan"
        if (self.metric, self.statistic) == ("jct_s", "avg"):
            return "jct"
        return "floors" if self.metric in FLOORED else None

    @property
    def to_the_end(self) -> bool:
        """Whether the metric depends on completions of jobs."""
        return self.metric in ("jct_s", "makespan_s")

    def statistic_of(self, sample: NDArray[np.float64]) -> float:
        """Return the statistic of one value per job."""
        if self.statistic == "avg":
            return float(sample.mean())
        if self.statistic == "max":
            return float(sample.max())
        share = 0.5 if self.statistic == "median" else float(self.statistic[1:]) / 100.0
        return float(np.quantile(sample, share))
