"""Records of jobs, read from the event log.

Only this module depends on the order of the log; metrics are functions of its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from formulations.tolerances import SUMS
from morph_opt.core.domain import InputError, Job, Placement, Trace
from morph_opt.core.domain.placement import gpus_text
from morph_opt.simulation.events.log import (
    Begun,
    Cancelled,
    Completed,
    Ended,
    EndReason,
    Event,
    InitialJob,
    LateStart,
    PlanMade,
    Preempted,
    RoundDecided,
    Shared,
    SloChange,
    SloChanged,
    Started,
    StartKind,
    StartPlanned,
    StopCause,
    Submitted,
)


@dataclass(slots=True)
class RoundSums:
    """Sums over the decided rounds, in place of the rounds themselves.

    Parameters
    ----------
    count, fallbacks
        Number of decided rounds; of those in which no solver answered.
    gap_max
        Largest stated gap; None if none was stated.
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


Scalar = str | int | float | bool | None
"""Type of a figure of a run."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Interval in which a job holds the same GPUs with the same plan.

    Parameters
    ----------
    job, plan, placement
        Name of the job, its plan, and its GPUs.
    start_s, end_s
        ``end_s`` is the completion, the stop, or the end of the replay.
    restart_s, iteration_s
        Start-up at the beginning, then seconds per iteration alone on the GPUs.
    iterations_from
        Progress at its beginning.
    sharing
        Changes of partner: instant, the partner from then on or None, and seconds per iteration;
        empty for a segment that was alone.
    kind, ended_by
        Why it began (``first``, ``resume``, ``change``, ``held``), and what ended it:
        ``complete``, ``cancel``, ``change`` (other GPUs or another plan), ``policy``,
        ``node-failure``, or ``end`` of the replay.
    iterations_lost
        Progress that the stop or change took away.
    """

    job: str
    plan: str
    placement: Placement
    start_s: float
    end_s: float
    restart_s: float
    iteration_s: float
    iterations_from: float
    sharing: tuple[tuple[float, str | None, float], ...]
    kind: str
    ended_by: str
    iterations_lost: float

    @property
    def held_s(self) -> float:
        """Seconds that the GPUs were held."""
        return self.end_s - self.start_s

    @property
    def startup_s(self) -> float:
        """Seconds of start-up, without progress."""
        return min(self.restart_s, self.held_s)

    @property
    def iterations(self) -> float:
        """Iterations done in the segment, including those lost later."""
        if not self.sharing:
            return (self.held_s - self.startup_s) / self.iteration_s
        begin_s = self.start_s + self.startup_s
        return sum(
            max(0.0, until_s - max(from_s, begin_s)) / seconds
            for from_s, until_s, _, seconds in self.stretches()
        )

    def reached_s(self, iterations: float) -> float | None:
        """Return the instant at which the job had this number of iterations; None if never."""
        begin_s, done = self.start_s + self.startup_s, self.iterations_from
        for from_s, until_s, _, seconds in self.stretches():
            start_s = max(from_s, begin_s)
            reached_s = start_s + max(0.0, iterations - done) * seconds
            if start_s <= reached_s <= until_s:
                return reached_s
            done += max(0.0, until_s - start_s) / seconds
        return None

    def stretches(self) -> Iterator[tuple[float, float, str | None, float]]:
        """Return intervals: from, until, partner if any, seconds per iteration."""
        marks = ((self.start_s, None, self.iteration_s), *self.sharing)
        ends = (*(mark[0] for mark in marks[1:]), self.end_s)
        for (from_s, partner, seconds), until_s in zip(marks, ends, strict=True):
            yield from_s, until_s, partner, seconds

    def shared_s_between(self, begin_s: float, close_s: float) -> float:
        """Return the seconds of a window in which a partner held the same GPUs."""
        return sum(
            (
                max(0.0, min(until_s, close_s) - max(from_s, begin_s))
                for from_s, until_s, partner, _ in self.stretches()
                if partner is not None
            ),
            0.0,
        )

    def gpu_s_between(self, begin_s: float, close_s: float) -> float:
        """Return GPU-seconds held in a window; a pair's GPUs count half."""
        held_s = max(0.0, min(self.end_s, close_s) - max(self.start_s, begin_s))
        if not self.sharing:
            return self.gpus * held_s
        return self.gpus * (held_s - 0.5 * self.shared_s_between(begin_s, close_s))

    @property
    def gpu_s(self) -> float:
        """GPU-seconds held; a pair's GPUs count half."""
        return self.gpu_s_between(self.start_s, self.end_s)

    @property
    def shared_s(self) -> float:
        """Seconds next to a partner, start-up included."""
        return self.shared_s_between(self.start_s, self.end_s)

    @property
    def shared_gpu_s(self) -> float:
        """GPU-seconds held in a pair, counted half."""
        return 0.5 * self.gpus * self.shared_s

    @property
    def gpus(self) -> int:
        """Number of GPUs held."""
        return self.placement.gpus

    @property
    def allocated_gpus(self) -> str:
        """GPUs held: ``0:0-3 2:1`` are four of node 0 and one of node 2."""
        return gpus_text(self.placement)


@dataclass(slots=True)
class JobRecord:
    """Events and sums of one job.

    Parameters
    ----------
    job
        As submitted.
    submitted
        Whether the replay got as far as its arrival.
    segments
        In order of time.
    finish_s, cancelled_s
        Instants of completion and of cancellation; None if it was not.
    preemptions, node_failures, changes
        Number of stops by the policy, of stops by node failures, and of changes to other GPUs or
        another plan without a stop.
    slo_drops
        Number of times that the policy gave up its SLO.
    late_since_s
        Due instant at which the policy wanted to start the job, while it is late.
    late_s
        Longest time from a due instant to the start that came late; 0 if none did.
    before
        Event that describes it in the state from which the replay began; None without one.
    held_at_first
        Whether its first segment continues from before the replay.
    """

    job: Job
    submitted: bool = False
    segments: list[Segment] = field(default_factory=list)
    finish_s: float | None = None
    cancelled_s: float | None = None
    preemptions: int = 0
    node_failures: int = 0
    changes: int = 0
    slo_drops: int = 0
    late_since_s: float | None = None
    late_s: float = 0.0
    before: InitialJob | None = None
    held_at_first: bool = False

    def end_lateness(self, time_s: float) -> None:
        """Count the time since the due instant of a job that is late no more."""
        if self.late_since_s is not None:
            self.late_s = max(self.late_s, time_s - self.late_since_s)
            self.late_since_s = None

    @property
    def starting_s(self) -> float | None:
        """First instant at which the job holds GPUs."""
        if self.before is not None and self.before.first_start_s is not None:
            return self.before.first_start_s
        return self.segments[0].start_s if self.segments else None

    @property
    def turnaround_s(self) -> float | None:
        """Job completion time (JCT): from submission to completion."""
        return None if self.finish_s is None else self.finish_s - self.job.submission_s

    def end_s(self, horizon_s: float) -> float:
        """Return the instant of completion or cancellation, else the end of the replay."""
        if self.finish_s is not None:
            return self.finish_s
        return horizon_s if self.cancelled_s is None else self.cancelled_s

    @property
    def held_s(self) -> float:
        """Seconds with GPUs, including those before the replay."""
        earlier_s = 0.0 if self.before is None else self.before.executed_s
        return earlier_s + sum(segment.held_s for segment in self.segments)

    @property
    def gpu_s(self) -> float:
        """GPU-seconds held, start-up included; a pair's GPUs count half for either job."""
        return sum(segment.gpu_s for segment in self.segments)

    @property
    def shared_gpu_s(self) -> float:
        """GPU-seconds held in a pair."""
        return sum(segment.shared_gpu_s for segment in self.segments)

    @property
    def startup_gpu_s(self) -> float:
        """GPU-seconds of start-up."""
        return sum(s.gpu_s_between(s.start_s, s.start_s + s.startup_s) for s in self.segments)

    @property
    def restarts(self) -> int:
        """Starts after the first, including those before the replay."""
        earlier = 0 if self.before is None else self.before.starts - self.held_at_first
        return max(0, earlier + len(self.segments) - 1)


@dataclass(slots=True)
class PlanSums:
    """Plans of starts: their number, certified gaps, and promises that moved."""

    count: int = 0
    gaps: list[float] = field(default_factory=list)
    moved: int = 0

    def add(self, event: PlanMade | StartPlanned) -> None:
        """Count a plan or a start of one."""
        if isinstance(event, StartPlanned):
            self.moved += event.later_s > 0.0
            return
        self.count += 1
        if event.gap is not None:
            self.gaps.append(event.gap)


@dataclass(frozen=True, slots=True)
class History:
    """Records and sums of a replay, read from its log.

    Parameters
    ----------
    begun, ended
        First and last event.
    jobs
        In the order of the trace.
    rounds
        Sums over the decided rounds.
    plans
        Sums over plans of starts.
    """

    begun: Begun
    jobs: tuple[JobRecord, ...]
    rounds: RoundSums
    ended: Ended
    plans: PlanSums


def segments_of(events: Iterable[Event]) -> Iterator[Segment]:
    """Yield the segments of all jobs, in the order in which they end.

    Raises
    ------
    InputError
        If a job stops that does not run.
    """
    open_ = _OpenSegments()
    for event in events:
        if isinstance(event, Ended):
            yield from open_.all_at(event.time_s)
        else:
            yield from open_.after(event)


class _OpenSegments:
    """Jobs that hold GPUs at one point of the log."""

    def __init__(self) -> None:
        self._open: dict[str, Started] = {}
        self._sharing: dict[str, list[Shared]] = {}

    def after(self, event: Event) -> Iterator[Segment]:
        """Take in the next event and return the segment that it ends, if any."""
        match event:
            case Started():
                if event.kind is StartKind.CHANGE:
                    yield _moved(self._ended(event.job, event.time_s, "change"), event)
                self._open[event.job] = event
            case Preempted():
                cause, lost = str(event.cause), event.iterations_lost
                yield self._ended(event.job, event.time_s, cause, lost)
            case Completed():
                yield self._ended(event.job, event.time_s, "complete")
            case Cancelled():
                if event.job in self._open:
                    yield self._ended(event.job, event.time_s, "cancel")
            case Shared():
                self._sharing.setdefault(event.job, []).append(event)
            case _:
                pass

    def all_at(self, end_s: float) -> Iterator[Segment]:
        """Return the open segments, cut off at the end of the replay."""
        for job in list(self._open):
            yield self._ended(job, end_s, "end")

    def _ended(self, job: str, end_s: float, ended_by: str, lost: float = 0.0) -> Segment:
        started = self._open.pop(job, None)
        if started is None:
            raise InputError(f"stops job {job!r}, which does not run", field="events")
        shared = self._sharing.pop(job, ())
        return Segment(
            job,
            started.plan.label,
            started.placement,
            started.time_s,
            end_s,
            started.restart_s,
            started.iteration_s,
            started.iterations_done,
            tuple((mark.time_s, mark.partner, mark.iteration_s) for mark in shared),
            str(started.kind),
            ended_by,
            lost,
        )


def _moved(segment: Segment, into: Started) -> Segment:
    """Return a segment that a change ended, with the progress that the change took away."""
    reached = segment.iterations_from + segment.iterations
    lost = reached - into.iterations_done
    return replace(segment, iterations_lost=lost) if lost > SUMS * reached else segment


class HistoryReader:
    """Reader of a replay's log, event by event.

    Parameters
    ----------
    trace
        Jobs of the replay.
    """

    def __init__(self, trace: Trace) -> None:
        self._records = {job.name: JobRecord(job) for job in trace.jobs}
        self._segments = _OpenSegments()
        self._rounds = RoundSums()
        self._plans = PlanSums()
        self._begun: Begun | None = None
        self._ended: Ended | None = None

    def read(self, event: Event) -> None:
        """Take in the next event."""
        self._keep(self._segments.after(event))
        match event:
            case Begun():
                self._begun = event
            case Submitted():
                self._record(event.job).submitted = True
            case InitialJob():
                self._record(event.job).before = event
            case Started():
                record = self._record(event.job)
                record.held_at_first = record.held_at_first or event.kind is StartKind.HELD
                record.changes += event.kind is StartKind.CHANGE
                record.end_lateness(event.time_s)
            case Preempted():
                record = self._record(event.job)
                record.preemptions += event.cause is StopCause.POLICY
                record.node_failures += event.cause is StopCause.NODE_FAILURE
            case Completed():
                self._record(event.job).finish_s = event.time_s
            case Cancelled():
                self._record(event.job).cancelled_s = event.time_s
                self._record(event.job).end_lateness(event.time_s)
            case SloChanged():
                self._record(event.job).slo_drops += event.change is SloChange.DROPPED
            case LateStart():
                self._record(event.job).late_since_s = event.since_s
            case PlanMade() | StartPlanned():
                self._plans.add(event)
            case RoundDecided():
                self._rounds.add(event)
            case _:  # node events concern no job by themselves
                self._ended = event if isinstance(event, Ended) else self._ended

    def history(self) -> History:
        """Return the history read so far.

        Raises
        ------
        InputError
            If the events are not the log of a replay of this trace that has ended.
        """
        if self._begun is None or self._ended is None:
            raise InputError("the event log has no beginning or no end", field="events")
        self._keep(self._segments.all_at(self._ended.time_s))
        if self._ended.reason is EndReason.COMPLETE and any(
            r.finish_s is None and r.cancelled_s is None for r in self._records.values()
        ):
            raise InputError("the event log is not one of this trace", field="events")
        for record in self._records.values():
            record.end_lateness(self._ended.time_s)
        return History(
            self._begun, tuple(self._records.values()), self._rounds, self._ended, self._plans
        )

    def _keep(self, ended: Iterable[Segment]) -> None:
        for segment in ended:
            self._record(segment.job).segments.append(segment)

    def _record(self, job: str) -> JobRecord:
        if job not in self._records:
            raise InputError(f"names job {job!r}, which is not in the trace", field="events")
        return self._records[job]
