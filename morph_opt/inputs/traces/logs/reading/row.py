"""Row of a log, and the reasons for which a row is no job."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from morph_opt.core.domain.options import settings
from morph_opt.inputs.traces.options import ReadingOptions

Gpus = int | Fraction
"""GPUs of a row; a fraction if a log shares them."""

Outcome = Literal["completed", "failed", "cancelled", "unknown"]

REASONS = (
    "malformed", "step", "partial-line", "duplicate", "unknown-status", "no-task-rows", "no-gpu",
    "not-started", "still-running", "no-duration", "mig-slice", "fractional-gpu",
    "resource-claims", "mixed-gpu-types", "negative-duration", "zero-duration", "not-completed",
    "outside-window",
)  # fmt: skip
"""Reasons for which a row is no job; the first that applies counts. The last two are the user's
choice (``--only``, a window).
"""

RANK = {reason: rank for rank, reason in enumerate(REASONS)}


class LogRow(NamedTuple):
    """Job of a log, or one attempt before attempts are folded.

    Parameters
    ----------
    name
        The log's id.
    line
        Its line in the file, from 1.
    submit_s
        Submission: seconds since 1970 for absolute clocks, since the log's own 0 for relative ones.
    start_s, end_s
        First start and last end on the same clock; None if the log does not state them.
    run_s
        Seconds for which it held its GPUs, recomputed from start and end wherever both exist (of
        attempts: their sum); None if unknown.
    recorded_s
        The duration that the log claims; None if it claims none.
    gpus
        GPUs held at once (of attempts: the most).
    gpu_s
        GPU-seconds held, where attempts differ in GPUs; None for ``gpus * run_s``.
    gpu_type
        Type if the log names one.
    nodes, cpus
        Nodes and CPU threads held; None if unknown.
    status
        As in the log.
    outcome
        Meaning of the status.
    tenant, user
        Virtual cluster, account, queue or organisation; user. "" where the log has none.
    kind
        Kind of job: workload type, application, priority class; None if unknown.
    limit_s
        Time limit; None if unknown.
    attempts
        Number of attempts folded into it.
    hosts
        Names of the nodes that it held, as the log writes them; None if unknown.
    eligible_s
        Instant from which only GPUs were missing: infinite for a job that was held to its end;
        None if the log does not state it.
    parts
        Attempts and components that were folded into it, each with its own GPUs and times.
    key
        Identity of the job among all rows, if names are not unique; "" if they are.
    pool
        Partition, queue or virtual cluster whose nodes it may use; "" where the log has none.
    array
        Identity of the array of which it is a task; "" if it is of none.
    tasks, at_once
        Jobs of the row (a pending array), and how many of them may run at a time; None for no such
        limit.
    deadline_s
        Instant by which it was to be complete; None without one.
    qos
        Quality of service; "" where the log has none.
    priority
        Priority: larger goes first; 0 where the log has none.
    checkpoint_s
        Seconds between two checkpoints; None if they are not known.
    waited_s
        Seconds for which it waited in all, where it ran more than once; None if it ran once or
        the log does not state it.
    evictions
        Reasons for which its scheduler ended it so that it queued again, with their numbers.
    """

    name: str
    line: int
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    run_s: float | None = None
    recorded_s: float | None = None
    gpus: Gpus = 0
    gpu_s: float | None = None
    gpu_type: str | None = None
    nodes: int | None = None
    cpus: int | None = None
    status: str = ""
    outcome: Outcome = "unknown"
    tenant: str = ""
    user: str = ""
    kind: str | None = None
    limit_s: float | None = None
    attempts: int = 1
    hosts: str | None = None
    eligible_s: float | None = None
    parts: tuple[LogRow, ...] = ()
    key: str = ""
    pool: str = ""
    array: str = ""
    tasks: int = 1
    at_once: int | None = None
    deadline_s: float | None = None
    qos: str = ""
    priority: float = 0.0
    checkpoint_s: float | None = None
    waited_s: float | None = None
    evictions: tuple[tuple[str, int], ...] = ()

    @property
    def ready_s(self) -> float:
        """Instant from which it waited for GPUs alone: submission, or Eligible if that is later.

        A requeue makes a job eligible once more, after its first start; infinite for a job on hold.
        """
        if self.eligible_s is None:
            return self.submit_s
        ready_s = self.eligible_s if self.start_s is None else min(self.eligible_s, self.start_s)
        return max(self.submit_s, ready_s)

    @property
    def gpu_seconds(self) -> float | None:
        """GPU-seconds that it held; None if its run time is unknown."""
        if self.gpu_s is not None or self.run_s is None:
            return self.gpu_s
        return float(self.gpus * self.run_s)

    @property
    def rows(self) -> tuple[LogRow, ...]:
        """Attempts or components that held GPUs; the row itself if it has no parts."""
        return self.parts or (self,)

    @property
    def queue_s(self) -> float | None:
        """Seconds from submission to the first start; None if that is unknown."""
        return None if self.start_s is None else self.start_s - self.submit_s


def span_s(start_s: float | None, end_s: float | None) -> float | None:
    """Return the seconds between two instants; None if one is not known."""
    return None if start_s is None or end_s is None else end_s - start_s


@dataclass(frozen=True, slots=True)
class Reading(ReadingOptions):
    """Options of how a log is read, and which part of it.

    Parameters
    ----------
    window
        ``"from..to"``: keep jobs submitted from the first instant on and before the second; either
        may be left out.
    """

    window: str | None = None

    def given(self) -> dict[str, str | int]:
        """Return the options that differ from the default, by name."""
        values = {name: getattr(self, name) for name in settings(Reading)}
        return {name: value for name, value in values.items() if value is not None}
