"""Plans ahead: list schedules and bounds against enumeration of all starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import inf

import numpy as np
import pytest

from formulations.ahead.bound import bound_of, slot_ends, slots
from formulations.ahead.search import planned, scheduled
from formulations.ahead.tasks import PLAN, Outlook, Start, Task, Way, cost_of
from formulations.ahead.timeline import Timeline, compacted, placed
from tests.campaigns import blocks

HORIZON = 14
LATE = PLAN.late


def drawn(seed: int, classes: int = 1, most: int = 4) -> tuple[Outlook, list[Task]]:
    """A small world in whole seconds: jobs that run, and up to ``most`` that wait."""
    draw = np.random.default_rng(seed)
    begin = np.sort(draw.choice(np.arange(1, 7), 3, replace=False))
    begin_s = np.concatenate([[0], begin]).astype(float)
    free = np.cumsum(draw.integers(0, 3, (4, classes)), axis=0).astype(float)
    free[-1] += 2.0
    tasks = []
    for _ in range(int(draw.integers(1, most + 1))):
        ways = []
        for kind in draw.permutation(classes)[: int(draw.integers(1, classes + 1))].tolist():
            gpus = float(draw.integers(1, int(free[-1, kind]) + 1))
            ways.append(Way(((kind, gpus),), float(draw.integers(1, 5))))
        due_s = float(draw.integers(-2, 8)) if draw.random() < 0.6 else inf
        tasks.append(Task(tuple(ways), due_s, after_s=float(draw.integers(0, 2))))
    return Outlook(begin_s, free), tasks


def held(outlook: Outlook, tasks: list[Task], plan: tuple[Start, ...] | list[Start]) -> bool:
    """Whether the free GPUs hold a plan at every whole second."""
    for second in range(4 * HORIZON):
        at = int(np.searchsorted(outlook.begin_s, second, side="right")) - 1
        left = outlook.free[at].copy()
        for one, start in zip(tasks, plan, strict=True):
            way = one.ways[start.way]
            if start.start_s <= second < start.start_s + way.run_s:
                for kind, gpus in way.need:
                    left[kind] -= gpus
        if (left < 0).any():
            return False
    return True


def best(outlook: Outlook, tasks: list[Task]) -> float:
    """Least cost over all starts at whole seconds, by enumeration."""
    least = inf
    ways = [
        [
            Start(float(at), way)
            for way in range(len(one.ways))
            for at in range(int(one.after_s), HORIZON)
        ]
        for one in tasks
    ]
    for plan in product(*ways):
        cost = cost_of(tasks, plan, LATE)
        if cost < least and held(outlook, tasks, plan):
            least = cost
    return least


@pytest.mark.parametrize("block", range(blocks(2)))
def test_plans_and_bounds_against_all_starts(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        classes = 1 + seed % 2
        outlook, tasks = drawn(seed, classes, 3)
        least = best(outlook, tasks)
        plan, (missed, cost) = planned(outlook, tasks, [None] * len(tasks), PLAN)
        assert missed == 0
        assert held(outlook, tasks, plan)
        assert cost == pytest.approx(cost_of(tasks, plan, LATE))
        assert cost >= least - 1e-6
        if classes == 1:  # some list gives an optimum, as GPUs only become free
            assert cost == pytest.approx(least)
        for most in (2, 32):
            ends_s = np.linspace(0.0, HORIZON, most + 1)[1:]
            assert bound_of(slots(outlook, tasks, ends_s, LATE), cost, PLAN) <= least + 1e-6


def gaps(worlds: int) -> Iterator[float]:
    """Share of the optimum that the bound misses."""
    for seed in range(worlds):
        outlook, tasks = drawn(seed)
        lists = (list(order) for order in permutations(range(len(tasks))))
        costs = [scheduled(outlook, tasks, order, LATE, (99, inf))[1][1] for order in lists]
        found = slots(outlook, tasks, np.arange(1.0, 2.0 * HORIZON), LATE)
        bound = bound_of(found, min(costs), PLAN)
        yield (min(costs) - bound) / max(1.0, min(costs))


def test_the_bound_is_close_where_few_jobs_wait() -> None:
    assert np.median(list(gaps(40))) < 0.05


def test_a_plan_placed_again_is_never_later_and_fits() -> None:
    earlier = 0
    for seed in range(60):
        outlook, tasks = drawn(seed, 1 + seed % 2, 6)
        plan, _ = planned(outlook, tasks, [None] * len(tasks), PLAN)
        draw = np.random.default_rng(seed)
        # Jobs that run end earlier than was believed, and others were planned to run longer.
        sooner = Outlook(outlook.begin_s, outlook.free + draw.integers(0, 2, outlook.free.shape))
        sooner.free.sort(axis=0)
        again = compacted(sooner, tasks, plan)
        assert held(sooner, tasks, again)
        for old, new in zip(plan, again, strict=True):
            assert new.start_s <= old.start_s
            earlier += new.start_s < old.start_s
    assert earlier > 10


def test_latest_starts_are_kept_where_lists_can_keep_them() -> None:
    outlook = Outlook(np.zeros(1), np.full((1, 1), 4.0))
    wide = Task((Way(((0, 4.0),), 5.0),))
    small = [Task((Way(((0, 1.0),), 2.0),)) for _ in range(4)]
    plan, _ = planned(outlook, [wide, *small], [None] * 5, PLAN)
    assert plan[0].start_s == 2.0
    first = Task(wide.ways, latest_s=0.0)
    plan, (missed, _) = planned(outlook, [first, *small], [None] * 5, PLAN)
    assert missed == 0
    assert [one.start_s for one in plan] == [0.0, 5.0, 5.0, 5.0, 5.0]


def test_a_way_that_fits_at_no_time_has_no_start() -> None:
    outlook = Outlook(np.zeros(1), np.full((1, 1), 4.0))
    never = Task((Way(((0, 8.0),), 5.0),))
    assert placed(Timeline(outlook), never, LATE) is None
    _, (missed, _) = planned(outlook, [never], [None], PLAN)
    assert missed == 1
    assert bound_of(slots(outlook, [never], np.asarray([5.0]), LATE), 1.0, PLAN) == inf


def test_slots_end_with_the_plan_and_are_shorter_where_more_happens() -> None:
    tasks = [Task((Way(((0, 1.0),), 10.0),)) for _ in range(50)]
    plan = [Start(float(at), 0) for at in range(49)] + [Start(990.0, 0)]
    ends_s = slot_ends(tasks, plan, 16)
    assert ends_s.size == 16
    assert ends_s[-1] == 1000.0
    assert np.diff(ends_s)[0] < 0.7 * 1000.0 / 16


def test_many_jobs_are_planned_by_bundles_and_the_bound_is_close() -> None:
    draw = np.random.default_rng(1)
    outlook = Outlook(np.arange(0.0, 6400.0, 100.0), np.arange(4.0, 260.0, 4.0)[:, None])
    tasks = [
        Task(
            (Way(((0, float(2 ** draw.integers(0, 4))),), float(draw.integers(10, 100)) * 60.0),),
            due_s=float(draw.uniform(-4000.0, 20000.0)),
        )
        for _ in range(80)
    ]
    tasks += [Task((Way(((0, gpus),), 3600.0),), due_s=0.0) for gpus in (128.0, 192.0, 256.0)]
    known: list[Start | None] = [None] * len(tasks)
    plan, (missed, cost) = planned(outlook, tasks, known, PLAN)
    assert missed == 0
    assert cost == pytest.approx(cost_of(tasks, plan, LATE))
    again = compacted(outlook, tasks, plan)
    assert all(new.start_s <= old.start_s for old, new in zip(plan, again, strict=True))
    _, (_, alone) = planned(outlook, tasks, known, replace(PLAN, bundles=1000))
    assert cost < alone
    bound = bound_of(slots(outlook, tasks, slot_ends(tasks, plan, 48), LATE), cost, PLAN)
    assert 0.85 * cost < bound <= cost
