"""Event log of a replay: typed events, one JSON object per line.

Metrics are functions of the log alone, and an interrupted run is finished from it. It holds
simulated time only, never wall time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from morph_opt.core.documents import parse_json, structure
from morph_opt.core.domain import Assignment, ExecutionPlan, InputError, Placement

LOG_VERSION = 1


class StartKind(StrEnum):
    """Reason for which a job was given GPUs."""

    FIRST = "first"
    """First start after submission."""
    RESUME = "resume"
    """Start of a job that was preempted."""
    CHANGE = "change"
    """Change of a running job to another shape, plan, node or GPU."""
    HELD = "held"
    """No start: the job held its GPUs in the state from which the replay began."""


class StopCause(StrEnum):
    """Reason for which a running job lost its GPUs before completion."""

    POLICY = "policy"
    NODE_FAILURE = "node-failure"


class NodeStatus(StrEnum):
    """Availability of a node."""

    UP = "up"
    DRAINED = "drained"
    """State of a node that takes no new job but may keep its running ones."""
    FAILED = "failed"
    """State of a failed node, whose jobs stop at once."""


class SloChange(StrEnum):
    """Decision of a policy about a deadline."""

    DROPPED = "dropped"
    """Drop of a deadline that has passed or cannot be kept together with others."""
    RESTORED = "restored"
    """Renewed pursuit of a dropped deadline."""


class EndReason(StrEnum):
    """Reason for which the replay ended."""

    COMPLETE = "complete"
    HORIZON = "horizon"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class Begun:
    """First line of the log: the replay's inputs; ``config`` is a digest of all settings."""

    time_s: float
    trace: str
    trace_sha256: str
    policy: str
    jobs: int
    nodes: int
    gpus: int
    interval_s: float
    config: str
    version: int = LOG_VERSION


@dataclass(frozen=True, slots=True)
class Submitted:
    """Arrival of a job."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class InitialJob:
    """Job of the state from which the replay began.

    ``executed_s``, ``starts`` and ``first_start_s`` count from before the replay; see
    `morph_opt.core.domain.JobState`. Follows the job's ``Submitted``, which has its own instant;
    what it holds follows as ``Started`` of the kind ``held``.
    """

    time_s: float
    job: str
    iterations_done: float
    executed_s: float
    starts: int
    first_start_s: float | None


@dataclass(frozen=True, slots=True)
class Started:
    """Start of a job on GPUs: ``restart_s`` of start-up, then progress at ``iteration_s``.

    ``iterations_done`` is the progress that it starts from.
    """

    time_s: float
    job: str
    kind: StartKind
    plan: ExecutionPlan
    placement: Placement
    iteration_s: float
    restart_s: float
    iterations_done: float

    @property
    def assignment(self) -> Assignment:
        """Plan and GPUs that the job was given."""
        return Assignment(self.job, self.plan, self.placement)


@dataclass(frozen=True, slots=True)
class Preempted:
    """Stop of a running job, which loses ``iterations_lost`` of its progress."""

    time_s: float
    job: str
    cause: StopCause
    iterations_done: float
    iterations_lost: float


@dataclass(frozen=True, slots=True)
class Shared:
    """Change of the partner that shares a running job's GPUs; None if it has them alone.

    The job continues at ``iteration_s`` from ``iterations_done``, without a restart. Follows every
    start in a pair, and every arrival, exchange and departure of a partner; both jobs are named.
    """

    time_s: float
    job: str
    partner: str | None
    iteration_s: float
    iterations_done: float


@dataclass(frozen=True, slots=True)
class Completed:
    """Completion of a job: its last iteration ended at this instant."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Cancellation of a job at a boundary, because other jobs of its search are better."""

    time_s: float
    job: str
    iterations_done: float


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """Failure, drain or return of a node."""

    time_s: float
    node: str
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class SloChanged:
    """Decision of the policy to give up a job's SLO, or to pursue it again."""

    time_s: float
    job: str
    change: SloChange


@dataclass(frozen=True, slots=True)
class LateStart:
    """Job that is due and does not start; logged again only if the reason changes.

    ``since_s`` is its due instant, ``from_s`` the start expected now if GPUs are reserved for it.
    It ends with the job's next ``Started``.
    """

    time_s: float
    job: str
    since_s: float
    why: str
    from_s: float | None


@dataclass(frozen=True, slots=True)
class PlanMade:
    """Plan of starts for the jobs that wait, logged if a start changes.

    ``cost_s`` is its cost in seconds of waiting, ``bound_s`` a lower bound on that of all plans,
    None if nothing was proven. `StartPlanned` events of the same instant have the changed starts.
    """

    time_s: float
    jobs: int
    cost_s: float
    bound_s: float | None

    @property
    def gap(self) -> float | None:
        """Certified gap: largest possible saving relative to the cost; None without a bound."""
        if self.bound_s is None:
            return None
        return max(0.0, self.cost_s - self.bound_s) / self.cost_s if self.cost_s > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class StartPlanned:
    """Start of a waiting job in the plan, logged if it changes.

    ``by_s`` is the latest start that it is promised, None without a promise. ``later_s`` are the
    seconds by which a promise moved, with the reason ``why``; 0 and "" if it is new or the same.
    """

    time_s: float
    job: str
    start_s: float
    by_s: float | None
    later_s: float
    why: str


@dataclass(frozen=True, slots=True)
class RoundDecided:
    """Round whose decision has been applied; last event of a boundary.

    Parameters
    ----------
    active, running, gpus
        Jobs submitted and not complete; those that hold GPUs now; GPUs held.
    status, gap
        Status and gap of the policy's report; gap None if nothing was proven.
    guarantees_short, guarantee_shortfall, guarantees_possible
        See `morph_opt.scheduling.policies.base.RoundReport`.
    """

    time_s: float
    index: int
    active: int
    running: int
    gpus: int
    status: str
    gap: float | None
    guarantees_short: int
    guarantee_shortfall: float
    guarantees_possible: bool | None


@dataclass(frozen=True, slots=True)
class Ended:
    """Last line of the log: instant of the last completion, or of the stop."""

    time_s: float
    reason: EndReason


Event = (
    Begun
    | Submitted
    | InitialJob
    | Started
    | Preempted
    | Shared
    | Completed
    | Cancelled
    | NodeChanged
    | SloChanged
    | LateStart
    | PlanMade
    | StartPlanned
    | RoundDecided
    | Ended
)

_LABELS: dict[type[Event], str] = {
    Begun: "begin",
    Submitted: "submit",
    InitialJob: "take-up",
    Started: "start",
    Preempted: "preempt",
    Shared: "share",
    Completed: "complete",
    Cancelled: "cancel",
    NodeChanged: "node",
    SloChanged: "slo",
    LateStart: "late",
    PlanMade: "plan",
    StartPlanned: "planned",
    RoundDecided: "round",
    Ended: "end",
}
_FIELDS = {kind: tuple(kind.__dataclass_fields__) for kind in _LABELS}
_KINDS = {label: kind for kind, label in _LABELS.items()}


def label_of(event: Event) -> str:
    """Return the name of an event's kind in the log."""
    return _LABELS[type(event)]


def event_to_line(event: Event) -> str:
    """Return an event as a line of JSON without line break; equal events give equal bytes."""
    record: dict[str, object] = {"event": label_of(event)}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        if isinstance(value, ExecutionPlan):
            value = value.label
        elif isinstance(value, Placement):
            value = value.parts
        record[name] = value
    return json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _placement(parts: list[Any]) -> Placement:
    return Placement(tuple((int(node), tuple(int(g) for g in gpus)) for node, gpus in parts))


def event_from_line(text: str) -> Event:
    """Return the event of a line that `event_to_line` wrote.

    Raises
    ------
    InputError
        If the line is no event of this log version.
    """
    try:
        record = parse_json(text, None)
        kind = _KINDS[record.pop("event")]
        if set(record) != set(_FIELDS[kind]):
            raise KeyError(sorted(set(record) ^ set(_FIELDS[kind])))
        if "placement" in record:
            record["placement"] = _placement(record["placement"])
        event: Event = structure(kind, record)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"is not an event of log version {LOG_VERSION} ({error})") from error
    if isinstance(event, Begun) and event.version != LOG_VERSION:
        raise InputError(f"log version {event.version} is unknown, known is {LOG_VERSION}")
    return event
