"""When slurmctld looks at its queue."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from morph_opt.scheduling.backfill.controller import Controller, Timing
from morph_opt.scheduling.backfill.queue import Free, Running, Waiting

ONE = Waiting(0, 1, (1.0,), 600.0, 0b1)


def free(gpus: float = 4.0) -> Free:
    return Free(np.full((1, 1), gpus))


def test_a_batch_job_starts_at_the_next_look_and_not_when_it_is_submitted() -> None:
    found = Controller(Timing(backfill=False), phase_s=-0.25)
    found.starts(0.0, [], free(), [])
    assert found.starts(100.0, [ONE], free(), [], arrived=True) == []
    assert found.next_s(100.0) == 100.75
    assert [one.job for one in found.starts(100.75, [ONE], free(), [])] == [0]


HEAD, NEXT = Waiting(0, 1, (4.0,), 600.0, 0b1), Waiting(1, 1, (4.0,), 600.0, 0b1)
HOLDS = Running(9, 5_000.0, 0b1, (4.0,))


def cycles(*steps: tuple[float, list[Waiting]]) -> Controller:
    """Return backfill after these instants, at each of which its whole queue is new."""
    found = Controller(Timing())
    for now_s, queue in steps:
        found.starts(now_s, queue, free(0.0), [HOLDS], arrived=bool(queue))
    return found


def test_backfill_that_has_nothing_to_do_looks_within_a_second_of_a_change() -> None:
    found = cycles((0.0, []), (100.4, [HEAD]), (101.0, [HEAD]))
    assert found.cycle_s == inf  # one job waits, on a node that is in use
    found.starts(150.3, [HEAD, NEXT], free(0.0), [HOLDS], arrived=True)
    assert found.cycle_s == 151.0


def test_cycles_follow_at_the_interval_while_several_jobs_wait() -> None:
    found = cycles((0.0, []), (100.4, [HEAD, NEXT]), (101.0, [HEAD, NEXT]))
    found.starts(150.3, [HEAD, NEXT], free(0.0), [HOLDS], arrived=True)
    assert found.cycle_s == 161.0


def test_an_idle_node_that_is_planned_is_work_for_the_next_cycle() -> None:
    both = Waiting(0, 2, (4.0,), 600.0, 0b11)
    found = Controller(Timing())
    room = np.array([[0.0], [4.0]])
    for now_s, queue in ((0.0, []), (100.4, [both]), (101.0, [both])):
        found.starts(now_s, queue, Free(room), [HOLDS], arrived=bool(queue))
    found.changed(140.2)
    assert found.cycle_s == 161.0


def test_a_pass_for_an_event_keeps_its_distance_from_the_one_before() -> None:
    found = Controller(Timing(backfill=False))
    found.starts(60.0, [], free(), [])  # over the whole queue
    found.starts(61.5, [ONE], free(0.0), [], arrived=True)
    assert found.next_s(61.5) == 63.0
    found.starts(63.0, [ONE], free(0.0), [])
    found.ended(63.1, 0b1)
    free_s = found.next_s(63.1)  # the end of its epilog
    assert free_s == pytest.approx(63.3)
    found.starts(free_s, [ONE], free(), [])
    assert found.next_s(free_s) == 66.0


def test_a_pass_over_the_whole_queue_is_due_where_events_do_not_reach() -> None:
    queue = [Waiting(job, 1, (1.0,), 600.0, 0b1) for job in range(3)]
    found = Controller(Timing(backfill=False, depth=2))
    found.starts(0.0, [], free(), [])
    found.starts(10.0, queue, free(0.0), [], arrived=True)
    assert found.starts(11.0, queue, free(0.0), []) == []
    assert found.next_s(11.0) == 60.0
    assert len(found.starts(60.0, queue, free(), [])) == 3


def test_the_first_look_is_at_everything() -> None:
    late = Waiting(1, 1, (4.0,), 600.0, 0b1)
    found = Controller(Timing())
    assert [one.job for one in found.starts(5_000.4, [late, ONE], free(2.0), [])] == [0]


def test_without_latencies_a_pass_is_at_the_event() -> None:
    found = Controller(Timing(delay_s=0.0, completing_s=0.0, tick_s=0.0))
    assert found.starts(100.3, [ONE], free(), [], arrived=True) != []
