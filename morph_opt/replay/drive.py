"""Drive the engine round after round, or through the decisions that a run recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from morph_opt.domain import Allocation, InputError, RoundState
from morph_opt.engine.engine import Engine
from morph_opt.events.log import (
    Begun,
    Completed,
    Event,
    Preempted,
    RoundDecided,
    Shared,
    SloChange,
    SloChanged,
    Started,
    StartKind,
    event_to_line,
)
from morph_opt.policies.base import Decision, Policy, RoundReport, decision_of
from morph_opt.runs.early import EarlyEnd
from morph_opt.runs.rounds import RoundRow, round_row
from morph_opt.runs.tally import Tally
from morph_opt.runs.write import EVENTS, PARTIAL, Recorded, RunWriter
from morph_opt.strict.rules import AllocationError

Progress = Callable[[RoundDecided, int], None]
"""Called after each round with its event and the number of completed jobs."""


class Drive:
    """Drives the engine and hands out what happens.

    Parameters
    ----------
    engine, policy
        What runs the jobs, and what decides.
    progress
        Called after each round.
    begun
        First event of the log.
    tally
        Takes in every event and row.
    early
        Ends the replay where what it is run for is decided.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        progress: Progress | None,
        begun: Begun,
        tally: Tally,
        early: EarlyEnd | None = None,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._progress = progress
        self._begun = begun
        self._tally = tally
        self._early = early
        self._completed = 0
        tally.take([begun])

    def drive(self, writer: RunWriter | None = None, begun: bool = False) -> None:
        """Decide round after round until the end; ``begun``: the first line is written."""
        if writer is not None and not begun:
            writer.commit([self._begun], None)
        steady: RoundReport | None = None
        sees_all = self._policy.remembers
        while True:
            began = time.perf_counter()
            if steady is not None and self._engine.skip_ahead():
                engine_ms = 1e3 * (time.perf_counter() - began)
                self._taken(writer, steady, 0.0, engine_ms)
                continue
            state = self._engine.advance()
            if state is None:
                break
            asked = time.perf_counter()
            decision = decision_of(self._policy, state)
            decided = time.perf_counter()
            self._engine.apply(decision)
            round_ms = 1e3 * (decided - asked)
            engine_ms = 1e3 * (time.perf_counter() - began) - round_ms
            report = decision.report
            if decision.steady:
                # Worth changes with time and is not asked for again, so no such row states it.
                report = replace(report, objective=float("nan"), bound=float("nan"))
            steady = report.untimed() if decision.steady and not sees_all else None
            self._taken(writer, report, round_ms, engine_ms)
        last = self._engine.take_events()
        if writer is not None:
            writer.commit(last, None)
        self._tally.take(last)

    def _taken(
        self, writer: RunWriter | None, report: RoundReport, round_ms: float, engine_ms: float
    ) -> None:
        """Hand out the events of a round that has been decided, and its row."""
        events = self._engine.take_events()
        self._tally.take(events)
        row = round_row(events, report, self._tally.promises.now, round_ms, engine_ms)
        if writer is not None:
            writer.commit(events, row)
        self._keep(events, row)

    def repeat(self, recorded: Recorded, folder: Path) -> None:
        """Take the decisions of an interrupted run as they were, verifying that they fit."""
        lines = recorded.lines
        if lines:
            self._compare(lines[:1], [self._begun], folder, 1)
        position = 1
        for row in recorded.rows:
            stop = position
            while not isinstance(lines[stop][1], RoundDecided):
                stop += 1
            chunk = lines[position : stop + 1]
            state = self._engine.advance()
            events: list[Event] = []
            if state is not None:
                # Policies that remember must see the rounds that they do not decide.
                if state.jobs:
                    self._policy.observe(state)
                events = self._reapply(state, [event for _, event in chunk])
            self._compare(chunk, events, folder, position + 1)
            self._tally.take(events)
            self._keep(events, row)
            position = stop + 1

    def _reapply(self, state: RoundState, recorded: Sequence[Event]) -> list[Event]:
        """Events that the recorded decision gives; none if it is impossible."""
        try:
            self._engine.apply(recorded_decision(state, recorded))
        except (AllocationError, InputError):
            return []
        return self._engine.take_events()

    def _keep(self, events: list[Event], row: RoundRow) -> None:
        self._tally.add(row)
        if self._early is not None:
            self._early.take(events)
        if self._progress is not None and isinstance(events[-1], RoundDecided):
            self._completed += sum(isinstance(event, Completed) for event in events)
            self._progress(events[-1], self._completed)

    @staticmethod
    def _compare(
        recorded: Sequence[tuple[str, Event]], produced: Sequence[Event], folder: Path, line: int
    ) -> None:
        lines = [event_to_line(event) for event in produced]
        for offset, (text, _) in enumerate(recorded):
            if offset >= len(lines) or lines[offset] != text:
                raise InputError(
                    "does not follow from the run's inputs (damaged, or of another version)",
                    file=str(folder / (EVENTS + PARTIAL)),
                    line=line + offset,
                )


def recorded_decision(state: RoundState, events: Sequence[Event]) -> Decision:
    """The decision that led from this state to these events."""
    held = {s.running.job: s.running for s in state.jobs if s.running is not None}
    report = RoundReport("heuristic")
    slos: dict[SloChange, list[str]] = {change: [] for change in SloChange}
    for event in events:
        match event:
            case Preempted(time_s=time_s) if time_s == state.time_s:
                held.pop(event.job, None)
            case Started() if event.kind is not StartKind.HELD:
                held[event.job] = event.assignment
            case Shared() if event.job in held:
                held[event.job] = replace(held[event.job], partner=event.partner)
            case SloChanged():
                slos[event.change].append(event.job)
            case RoundDecided():
                report = RoundReport(
                    event.status,
                    gap=float("nan") if event.gap is None else event.gap,
                    guarantees_short=event.guarantees_short,
                    guarantee_shortfall=event.guarantee_shortfall,
                    guarantees_possible=event.guarantees_possible,
                    slo_dropped=tuple(slos[SloChange.DROPPED]),
                    slo_restored=tuple(slos[SloChange.RESTORED]),
                )
            case _:
                pass
    return Decision(Allocation(tuple(held.values())), report)
