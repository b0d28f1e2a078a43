"""From the log to what happened to each job: segments, partners, progress, end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.checks.replays.documents import Event, Run

Parts = tuple[tuple[int, tuple[int, ...]], ...]
"""Node number and its GPU indices."""


def parts_of(placement: list[Any]) -> Parts:
    """The placement of a ``start``."""
    return tuple((int(node), tuple(int(gpu) for gpu in gpus)) for node, gpus in placement)


@dataclass
class Segment:
    """From a start to the completion, the stop, the next change or the end of the replay.

    Parameters
    ----------
    marks
        From when on the job had which partner and how many seconds per iteration.
    ended_by
        ``complete``, ``cancel``, ``change``, ``policy``, ``node-failure`` or ``end``.
    """

    parts: Parts
    plan: str
    kind: str
    start_s: float
    startup_s: float
    done: float
    marks: list[tuple[float, str | None, float]]
    end_s: float = math.nan
    ended_by: str = ""
    lost: float = 0.0

    @property
    def gpus(self) -> int:
        """GPUs held."""
        return sum(len(gpus) for _, gpus in self.parts)

    @property
    def held_s(self) -> float:
        """Seconds held."""
        return self.end_s - self.start_s

    @property
    def ready_s(self) -> float:
        """Instant from which on it progresses."""
        return self.start_s + self.startup_s

    def stretches(self) -> Iterator[tuple[float, float, str | None, float]]:
        """From, until, partner, seconds per iteration."""
        ends = [mark[0] for mark in self.marks[1:]] + [self.end_s]
        for (from_s, partner, seconds), until_s in zip(self.marks, ends, strict=True):
            yield from_s, min(until_s, self.end_s), partner, seconds

    def done_at(self, instant_s: float) -> float:
        """Iterations done by an instant, those before the segment included."""
        done = self.done
        ends = [mark[0] for mark in self.marks[1:]] + [math.inf]
        for (from_s, _, seconds), until_s in zip(self.marks, ends, strict=True):
            inside_s = min(until_s, instant_s) - max(from_s, self.ready_s)
            done += max(0.0, inside_s) / seconds
        return done

    def gpu_s(self, from_s: float, until_s: float) -> float:
        """GPU-seconds in a window, those next to a partner by half."""
        total = 0.0
        for begin_s, end_s, partner, _ in self.stretches():
            inside_s = max(0.0, min(end_s, until_s) - max(begin_s, from_s))
            total += self.gpus * inside_s * (1.0 if partner is None else 0.5)
        return total

    def shared_s(self) -> float:
        """Seconds next to a partner."""
        return sum((end - begin for begin, end, partner, _ in self.stretches() if partner), 0.0)


@dataclass
class Life:
    """What happened to one job; ``before`` is its ``take-up`` where the replay began with it."""

    name: str
    submitted: bool = False
    segments: list[Segment] = field(default_factory=list)
    finish_s: float | None = None
    cancelled_s: float | None = None
    preemptions: int = 0
    node_failures: int = 0
    changes: int = 0
    slo_dropped: bool = False
    before: Event | None = None

    def end_s(self, horizon_s: float) -> float:
        """Completed, cancelled, or the end of the replay."""
        for instant_s in (self.finish_s, self.cancelled_s):
            if instant_s is not None:
                return instant_s
        return horizon_s

    @property
    def first_s(self) -> float | None:
        """First instant with GPUs."""
        if self.before is not None and self.before["first_start_s"] is not None:
            return float(self.before["first_start_s"])
        return self.segments[0].start_s if self.segments else None

    @property
    def held_s(self) -> float:
        """Seconds with GPUs, since the submission."""
        earlier_s = 0.0 if self.before is None else float(self.before["executed_s"])
        return earlier_s + sum(segment.held_s for segment in self.segments)

    @property
    def gpu_s(self) -> float:
        """GPU-seconds of the replay."""
        return sum(segment.gpu_s(-math.inf, math.inf) for segment in self.segments)

    @property
    def startup_gpu_s(self) -> float:
        """GPU-seconds of start-up."""
        return sum(s.gpu_s(s.start_s, min(s.ready_s, s.end_s)) for s in self.segments)

    @property
    def shared_gpu_s(self) -> float:
        """GPU-seconds next to a partner, which count by half."""
        return sum(0.5 * segment.gpus * segment.shared_s() for segment in self.segments)

    @property
    def restarts(self) -> int:
        """Segments after the first, since the submission."""
        earlier = 0 if self.before is None else int(self.before["starts"])
        held = bool(self.segments) and self.segments[0].kind == "held"
        return max(0, earlier - held + len(self.segments) - 1)


CAUSES = {"policy": "preempted", "change": "moved", "node-failure": "failed"}
"""Cause of a loss by what ended a segment."""


def lost_gpu_s(life: Life) -> dict[str, float]:
    """GPU-seconds of progress undone, and of the start-ups after it, by cause."""
    lost = dict.fromkeys(CAUSES.values(), 0.0)
    for segment, after in pairwise(life.segments):
        startup = after.gpu_s(after.start_s, min(after.ready_s, after.end_s))
        lost[CAUSES[segment.ended_by]] += startup
    for segment in life.segments:
        if not segment.lost:
            continue
        kept = segment.done_at(segment.end_s) - segment.lost
        # By bisection: work from some instant of the segment on is undone.
        low, high = segment.ready_s, segment.end_s
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if segment.done_at(middle) > kept else (middle, high)
        lost[CAUSES[segment.ended_by]] += segment.gpu_s(low, segment.end_s)
    return lost


def lives_of(run: Run) -> dict[str, Life]:
    """Lives by job, in the order of jobs.csv.

    Raises
    ------
    ValueError
        If the log is not one: something happens to a job that cannot.
    """
    lives = {row["job"]: Life(row["job"]) for row in run.rows}
    open_: dict[str, Segment] = {}
    for number, event in enumerate(run.events, start=1):
        try:
            _take(event, lives, open_)
        except KeyError as error:
            raise ValueError(f"line {number}: {event['event']} of {error}") from error
    for segment in open_.values():
        _end(segment, float(run.events[-1]["time_s"]), "end")
    return lives


def _take(event: Event, lives: dict[str, Life], open_: dict[str, Segment]) -> None:
    if "job" not in event:
        return
    name, at_s = event["job"], float(event["time_s"])
    life = lives[name]
    match event["event"]:
        case "submit":
            life.submitted = True
        case "take-up":
            life.before = event
        case "start":
            if name in open_:
                left = open_[name]
                _end(left, at_s, "change")
                reached = left.done_at(at_s)
                undone = reached - float(event["iterations_done"])
                left.lost = undone if undone > 1e-9 * reached else 0.0
                life.changes += 1
            elif event["kind"] == "change":
                raise KeyError(name)
            segment = Segment(
                parts_of(event["placement"]),
                event["plan"],
                event["kind"],
                at_s,
                float(event["restart_s"]),
                float(event["iterations_done"]),
                [(at_s, None, float(event["iteration_s"]))],
            )
            open_[name] = segment
            life.segments.append(segment)
        case "share":
            mark = (at_s, event["partner"], float(event["iteration_s"]))
            open_[name].marks.append(mark)
        case "preempt":
            segment = open_.pop(name)
            segment.lost = float(event["iterations_lost"])
            _end(segment, at_s, event["cause"])
            life.preemptions += event["cause"] == "policy"
            life.node_failures += event["cause"] == "node-failure"
        case "complete":
            _end(open_.pop(name), at_s, "complete")
            life.finish_s = at_s
        case "cancel":
            if name in open_:
                _end(open_.pop(name), at_s, "cancel")
            life.cancelled_s = at_s
        case "slo":
            life.slo_dropped = life.slo_dropped or event["change"] == "dropped"


def _end(segment: Segment, at_s: float, by: str) -> None:
    segment.end_s, segment.ended_by = at_s, by
