"""Passes over a queue: Slurm's, EASY and conservative backfill, beside restatements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.scheduling.backfill.nodes import bits, by_load, in_runs, runs
from morph_opt.scheduling.backfill.orders import ORDERS
from morph_opt.scheduling.backfill.profile import conservative_pass, easy_pass
from morph_opt.scheduling.backfill.queue import Free, Planned, Running, Start, Waiting
from morph_opt.scheduling.backfill.slurm import Cycle, backfill_pass, main_pass

NODES, GPUS = 4, 4
ALL = (1 << NODES) - 1


def idle(nodes: int = NODES, gpus: float = GPUS) -> Free:
    return Free(np.full((nodes, 1), float(gpus)))


def asks(job: int, nodes: int, gpus: float, limit_s: float, **more: int) -> Waiting:
    return Waiting(job, nodes, (float(gpus),), limit_s, more.pop("allowed", ALL), **more)


class TestNodes:
    def test_runs_are_maximal_sets_of_neighbours(self) -> None:
        assert list(runs(0b1101011)) == [0b0000011, 0b0001000, 0b1100000]

    def test_the_shortest_run_that_suffices_is_taken_from_its_lowest_node(self) -> None:
        assert in_runs(0b11110111, 2) == 0b00000011
        assert in_runs(0b11110011, 2) == 0b00000011
        assert in_runs(0b11110010, 1) == 0b00000010

    def test_without_such_a_run_the_longest_is_taken_first(self) -> None:
        assert in_runs(0b1110011, 4) == 0b1110001

    def test_too_few_nodes_are_no_choice(self) -> None:
        assert in_runs(0b11, 3) == 0

    @given(st.integers(0, 2**12 - 1), st.integers(1, 12))
    def test_a_choice_has_its_number_of_nodes_among_those_offered(
        self, nodes: int, count: int
    ) -> None:
        chosen = in_runs(nodes, count)
        assert chosen & ~nodes == 0
        assert chosen.bit_count() == (count if nodes.bit_count() >= count else 0)

    def test_least_loaded_nodes_come_first(self) -> None:
        free = np.array([[1.0, 8.0], [4.0, 9.0], [4.0, 9.0], [8.0, 2.0]])
        assert by_load(0b1111, 2, free) == 0b0110
        assert by_load(0b1001, 1, free) == 0b0001
        assert by_load(0b1001, 3, free) == 0


class TestMainPass:
    def test_the_first_job_that_cannot_start_closes_its_partition_and_its_nodes(self) -> None:
        queue = [
            asks(0, 1, 4, 60.0),
            asks(1, 4, 4, 60.0, partition=1),
            asks(2, 1, 1, 60.0, partition=1),
            asks(3, 1, 1, 60.0, partition=2),
        ]
        assert main_pass(0.0, queue, idle()) == [Start(0, 0b0001)]

    def test_a_partition_on_other_nodes_goes_on(self) -> None:
        queue = [
            asks(0, 3, 4, 60.0, allowed=0b0011),
            asks(1, 1, 4, 60.0, allowed=0b1100, partition=1),
        ]
        assert main_pass(0.0, queue, idle()) == [Start(1, 0b0100)]


class TestBackfill:
    def test_a_waiting_job_reserves_whole_nodes(self) -> None:
        # Job 0 will take one GPU of node 0 at 100 s, and no later job may be there by then.
        free = Free(np.array([[0.0], [3.0]]))
        running = [Running(9, 100.0, 0b01, (4.0,))]
        queue = [asks(0, 1, 4, 600.0, allowed=0b01), asks(1, 1, 1, 600.0, allowed=0b01)]
        started, planned = backfill_pass(0.0, queue, free, running)
        assert started == []
        assert planned == [Planned(0, 100.0, 0b01), Planned(1, 660.0, 0b01)]

    def test_a_short_job_starts_before_a_reservation_and_a_long_one_does_not(self) -> None:
        running = [Running(9, 600.0, 0b0111, (4.0,))]
        for limit_s, starts in ((600.0, False), (540.0, True)):
            free = Free(np.array([[0.0], [0.0], [0.0], [4.0]]))
            queue = [asks(0, 4, 4, 600.0), asks(1, 1, 1, limit_s)]
            started, planned = backfill_pass(0.0, queue, free, running)
            assert (started == [Start(1, 0b1000)]) is starts
            assert planned[0] == Planned(0, 600.0, ALL)

    def test_ends_close_together_count_as_one(self) -> None:
        # The first end at 10 s sets a bound of 30 s; the window is 30 s wide.
        running = [Running(8, 10.0, 0b1, (4.0,)), Running(9, 60.0, 0b1, (0.0,))]
        free = Free(np.array([[0.0]]))
        _, planned = backfill_pass(0.0, [asks(0, 1, 4, 60.0, allowed=1)], free, running)
        assert planned == [Planned(0, 60.0, 0b1)]
        running[1] = Running(9, 61.0, 0b1, (0.0,))
        _, planned = backfill_pass(0.0, [asks(0, 1, 4, 60.0, allowed=1)], free, running)
        assert planned == [Planned(0, 10.0, 0b1)]

    def test_a_start_beyond_the_window_has_no_reservation(self) -> None:
        running = [Running(9, 5_000.0, 0b1, (4.0,))]
        free, cycle = Free(np.array([[0.0]])), Cycle(window_s=3_600.0)
        queue = [asks(0, 1, 4, 60.0, allowed=1)]
        assert backfill_pass(0.0, queue, free, running, cycle) == ([], [])

    def test_a_start_at_the_end_of_the_window_is_tried_once(self) -> None:
        # Its reservation, rounded down, overlaps that of the job before for ever.
        running = [Running(9, 3_612.0, 0b1, (4.0,))]
        free, cycle = Free(np.array([[0.0]])), Cycle(window_s=3_600.0)
        queue = [asks(0, 1, 4, 60.0, allowed=1), asks(1, 1, 4, 60.0, allowed=1)]
        _, planned = backfill_pass(12.0, queue, free, running, cycle)
        assert planned == [Planned(0, 3_612.0, 0b1)]

    def test_a_completing_node_is_planned_for_and_not_used(self) -> None:
        free = Free(np.array([[4.0]]), completing=0b1)
        started, _ = backfill_pass(0.0, [asks(0, 1, 4, 60.0, allowed=1)], free, [])
        assert started == []


def random_queue(rng: np.random.Generator) -> tuple[list[Waiting], list[Running], np.ndarray]:
    """Return a queue, running jobs with ends, and free GPUs, all in small whole numbers."""
    free = np.full((NODES, 1), float(GPUS))
    running = []
    for job in range(100, 100 + int(rng.integers(0, 6))):
        gpus = float(rng.integers(1, GPUS + 1))
        room = [n for n in range(NODES) if free[n, 0] >= gpus]
        if room:
            some = rng.permutation(room)[: int(rng.integers(1, 3))]
            free[some, 0] -= gpus
            nodes = sum(1 << int(n) for n in some)
            running.append(Running(job, float(rng.integers(1, 9)), nodes, (gpus,)))
    queue = [
        asks(job, int(rng.integers(1, NODES + 1)), float(rng.integers(1, GPUS + 1)),
             float(rng.integers(1, 9)))
        for job in range(int(rng.integers(1, 7)))
    ]  # fmt: skip
    return queue, running, free


def restated(
    queue: list[Waiting], running: list[Running], free: np.ndarray, depth: int, sjbf: bool = False
) -> tuple[dict[int, int], dict[int, float]]:
    """Return starts and reservations on a table of free GPUs per second and node."""
    table = np.repeat(free[None, :, 0], 80, axis=0)
    for one in running:
        for node in bits(one.nodes):
            table[int(one.end_s) :, node] += one.demand[0]
    starts: dict[int, int] = {}
    reserved: dict[int, float] = {}
    waiting = list(queue)
    while waiting:
        blocked = len(reserved) == depth
        one = min(waiting, key=lambda w: (w.limit_s, w.job)) if sjbf and blocked else waiting[0]
        waiting.remove(one)
        instants = range(1) if blocked else range(60)
        for at in instants:
            least = table[at : at + int(one.limit_s)].min(axis=0)
            fits = sum(1 << n for n in range(NODES) if least[n] >= one.demand[0])
            chosen = in_runs(fits, one.nodes)
            if chosen:
                table[at : at + int(one.limit_s), list(bits(chosen))] -= one.demand[0]
                if at == 0:
                    starts[one.job] = chosen
                else:
                    reserved[one.job] = float(at)
                break
    return starts, reserved


@pytest.mark.parametrize("sjbf", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 99])
def test_easy_decides_as_a_table_of_seconds_on_random_queues(depth: int, sjbf: bool) -> None:
    later = ORDERS["sjbf"].key(lambda job: 0.0) if sjbf else None
    rng = np.random.default_rng(depth)
    for _ in range(340):
        queue, running, free = random_queue(rng)
        started, planned = easy_pass(0.0, queue, Free(free), running, depth, later)
        found = {one.job: one.nodes for one in started}, {p.job: p.start_s for p in planned}
        assert found == restated(queue, running, free, depth, sjbf)


def test_conservative_without_plans_reserves_for_every_job() -> None:
    rng = np.random.default_rng(5)
    for _ in range(340):
        queue, running, free = random_queue(rng)
        started, planned = conservative_pass(0.0, queue, Free(free), running, {})
        found = {one.job: one.nodes for one in started}, {p.job: p.start_s for p in planned}
        assert found == restated(queue, running, free, 99)


def test_no_planned_start_moves_back_when_jobs_end_early_or_others_arrive() -> None:
    rng = np.random.default_rng(6)
    moved = 0
    for _ in range(120):
        queue, running, free = random_queue(rng)
        _, planned = conservative_pass(0.0, queue, Free(free), running, {})
        if not running or not planned:
            continue
        # One job ends early, and a new one arrives.
        over, *left = running
        free[list(bits(over.nodes)), 0] += over.demand[0]
        known = {one.job: one for one in planned}
        rest = [one for one in queue if one.job in known]
        late = asks(50, 1, 1, 8.0)
        started, after = conservative_pass(0.5, [*rest, late], Free(free), left, known)
        now = {one.job: one.start_s for one in after} | {one.job: 0.5 for one in started}
        for one in rest:
            assert now[one.job] <= known[one.job].start_s
            moved += now[one.job] < known[one.job].start_s
    assert moved > 20
