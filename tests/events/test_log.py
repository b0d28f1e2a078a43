"""Lines of the event log."""

from __future__ import annotations

import pytest

from morph_opt.core.domain import ExecutionPlan, InputError, Placement
from morph_opt.simulation.events.log import (
    Begun,
    Completed,
    Ended,
    EndReason,
    Event,
    NodeChanged,
    NodeStatus,
    Preempted,
    RoundDecided,
    Started,
    StartKind,
    StopCause,
    Submitted,
    event_from_line,
    event_to_line,
)

PLAN = ExecutionPlan.parse("pp2-tp2-dp1+ga")
EVENTS: list[Event] = [
    Begun(0.0, "t", "ab", "fifo", 2, 1, 4, 60.0, "cd"),
    Submitted(0.1 + 0.2, 'jöb, "a"'),
    Started(
        60.0, "a", StartKind.FIRST, PLAN, Placement.of({0: [0, 1], 2: [3, 4]}), 1.5, 260.0, 0.0
    ),
    Preempted(1e9, "a", StopCause.NODE_FAILURE, 1 / 3, 2.0),
    Completed(1.0, "a"),
    NodeChanged(2.0, "node-1", NodeStatus.DRAINED),
    RoundDecided(60.0, 0, 3, 2, 8, "optimal", 1e-4, 1, 0.25, False),
    RoundDecided(60.0, 0, 3, 2, 8, "heuristic", None, 0, 0.0, None),
    Ended(3.0, EndReason.HORIZON),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_round_trip(event: Event) -> None:
    line = event_to_line(event)
    assert "\n" not in line
    assert event_from_line(line) == event
    assert event_to_line(event_from_line(line)) == line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        '{"event":"submit"}',
        '{"event":"submit","time_s":1}',
        '{"event":"submit","time_s":1,"job":"a","more":1}',
        '{"event":"submit","time_s":"soon","job":"a"}',
        '{"event":"submit","time_s":NaN,"job":"a"}',
        '{"event":"teleport","time_s":1,"job":"a"}',
        '{"event":"end","time_s":1,"reason":"boredom"}',
        event_to_line(EVENTS[2]).replace("[0,1]", "[1,0]"),
        event_to_line(EVENTS[2]).replace("tp2", "tp0"),
        event_to_line(EVENTS[0]).replace('"version":1', '"version":2'),
    ],
)
def test_lines_that_are_not_events_are_refused(line: str) -> None:
    with pytest.raises(InputError):
        event_from_line(line)
