"""The published rules of Morphling, Sia, Pollux and Optimus by hand; many cases are in files."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from benchmarks.published.parts.pollux_goodput import Goodput
from benchmarks.published.parts.sia_published import (
    GpuPool,
    configurations,
    cursor_placement,
    projected,
)
from benchmarks.published.simulators.morphling import (
    Entry,
    LargeSizes,
    SmallCurve,
    decide,
    fits,
    heap_order,
)
from benchmarks.published.simulators.optimus import OptimusJob, counts, placement
from benchmarks.published.simulators.pollux import PublishedRound
from morph_opt.scheduling.policies.malleable.pollux_rule import Budget, PolluxRound, Search
from morph_opt.scheduling.policies.malleable.sia_rule import SiaJob, solve
from morph_opt.scheduling.solvers.outcome import Limits

# ---------------------------------------------------------------- Morphling

# 10, 18 and 30 samples/s on 1, 2 and 4 GPUs; 3 is 2.
CURVE = SmallCurve(10.0, (10.0, 18.0, 18.0, 30.0), (1, 2, 2, 4), ((("dp",)),) * 4)
LARGE = LargeSizes(1.0, ((8, ((4, 4),)), (4, ((4,),))), {(4, 4): ("3d",), (4,): ("dp",)})


def test_published_slopes_tell_absent_from_zero_gpus():
    job = Entry("a", CURVE)
    assert job.slope(None, 1) == pytest.approx(10 / 10)
    assert job.slope(0, 1) == pytest.approx((10 + 1) / 10), "the sentinel -1 enters the difference"
    assert job.slope(2, 2) == pytest.approx((30 - 18) / 10 / 2)
    assert job.slope(4, 1) == pytest.approx((30 + 1) / 10), "beyond the curve is the sentinel too"
    assert Entry("b", CURVE, age_s=300_000).slope(2, 1) == 1e9
    assert Entry("c", LARGE).slope(None, 1) == 1.0
    assert Entry("c", LARGE).slope(0, 1) == 0.0


def test_published_node_order_is_not_a_true_heap():
    # (3, 0) is popped first though it is not least; (1, 3) sinks from the top: (1, 3) is least.
    assert heap_order([3, 2, 4, 1]) == [(3, 0), (1, 3), (2, 1), (4, 2)]
    assert fits((3, 2), [3, 2, 4, 1]) == {0: 3, 1: 2}
    assert fits((4, 4), [3, 2, 4, 1]) is None


def test_a_small_job_takes_a_whole_node_down_to_its_step():
    after = decide([Entry("a", CURVE), Entry("b", CURVE)], [3, 4])
    # a takes 4 of node 1; b what 3 GPUs are good for, 2; step 4 gives nothing more.
    assert [dict(job.gpus) for job in after] == [{1: 4}, {0: 2}]


def test_a_promise_is_kept_at_two_thirds():
    promised = [Entry("a", CURVE, guaranteed=True, promised=27.0)]
    assert decide(promised, [2])[0].gpus == {0: 2}, "1.5 x 18 = 27"
    assert decide([Entry("a", CURVE, guaranteed=True, promised=27.1)], [2])[0].gpus == {}


def test_wide_jobs_are_stopped_before_others_are_served():
    held = dict.fromkeys(range(8), 4)
    wide = Entry("l", LARGE, seen=True, gpus=held, plan=("3d",), restarts=6)
    after = decide([wide, Entry("a", CURVE)], [4] * 8)
    assert after[0].held == 8, "slope 0: served first, and nothing is left of the 32"
    calm = Entry("l", LARGE, seen=True, gpus=held, plan=("3d",), restarts=7)
    assert decide([calm, Entry("a", CURVE)], [4] * 8)[0].held == 32


# ---------------------------------------------------------------- Sia


def test_configurations_are_powers_of_two_then_whole_nodes():
    pools = [GpuPool("t4", 3, 4, 2), GpuPool("a100", 1, 8, 8)]
    assert configurations(pools) == [
        ("t4", 1, 1),
        ("t4", 1, 2),
        ("t4", 1, 4),
        ("t4", 2, 8),
        ("a100", 1, 1),
        ("a100", 1, 2),
        ("a100", 1, 4),
        ("a100", 1, 8),
    ]


def sia_job(goodput, current=None, age_s=0.0, restarts=0, fixed=False):
    row = np.asarray(goodput, dtype=float)
    return SiaJob(row, row > 0, age_s, restarts, 30.0, current, fixed)


def test_costs_by_hand():
    # Goodputs 2, 4, 8, 0: over the least 1, 2, 4 and 1e-4; to the power -0.5.
    assert sia_job([2, 4, 8, 0]).cost(-0.5).tolist() == [1.0, 0.71, 0.5, 100.0]
    # Age 90, one restart of 30: (90 - 30) / 120 = 0.5 on all but the current column.
    assert sia_job([2, 4, 8, 0], 1, 90.0, 1).cost(-0.5).tolist() == [1.41, 0.71, 0.71, 141.42]
    assert sia_job([2, 4], 0, 90.0, 3).restart_factor == 0.0
    assert sia_job([2, 4], 0, 90.0, 3).cost(-0.5).tolist() == [1.0, 3000.0]
    assert sia_job([2, 4], 0, 29.0, 3).restart_factor == 1.0


def test_the_program_by_hand():
    # Two GPUs. One each costs 1 + 1; both to one who does twice as much 0.71 + 1.1 for the other.
    # Where the other is in the middle of a restart on one GPU, it keeps that.
    columns = [("t4", 1, 1), ("t4", 1, 2)]
    limits = Limits(gap=0.0)
    jobs = [sia_job([1, 2]), sia_job([1, 1.9])]
    costs = np.asarray([job.cost(-0.5) for job in jobs])
    answer = solve(jobs, costs, columns, {"t4": 2}, power=-0.5, waiting=1.1, limits=limits)
    assert answer.chosen == (1, None)
    assert answer.objective == pytest.approx(0.71 + 1.1)
    jobs = [sia_job([1, 2]), sia_job([1, 1.9], 0, fixed=True)]
    costs = np.asarray([job.cost(-0.5) for job in jobs])
    answer = solve(jobs, costs, columns, {"t4": 2}, power=-0.5, waiting=1.1, limits=limits)
    assert answer.chosen == (0, 0)
    nobody = solve([], costs, columns, {"t4": 2}, power=-0.5, waiting=1.1, limits=limits)
    assert nobody.chosen == ()


def test_projection_takes_the_first_known_type_at_the_same_count():
    pools = [GpuPool("t4", 1, 4, 1), GpuPool("a100", 1, 8, 1)]
    columns = configurations(pools)
    row = np.asarray([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0])
    ratio = {"a100": {"t4": 2.0}}
    found = projected(row, columns, pools, ["t4"], ratio, lambda _type, gpus: 10.0 * gpus)
    assert found.tolist() == [1, 2, 3, 2, 4, 6, 160]
    alone = projected(row, columns, pools, [], {})
    assert alone.tolist() == [1, 0, 0, 1, 0, 0, 0]


def test_the_cursor_splits_what_would_fit():
    # 4 whole on node 0, then 3 from node 1, then 3: the last one of node 1, and two of node 2.
    assert cursor_placement([4, 3, 3], 3, 4) == [[(0, 4)], [(1, 3)], [(2, 3)]]
    assert cursor_placement([3, 3, 3], 2, 4) == [[(0, 3)], [(1, 3)], [(0, 1), (1, 1)]]


# ---------------------------------------------------------------- Pollux


def test_goodput_by_hand():
    # 0.1 s and 0.01 s a sample; two GPUs on a node: 0.05 s; exponent 1: parts add up. Batch 20 on
    # two GPUs, first batch 10: scale 2, gain (1 + 1) / (1 / 2 + 1) = 4/3, efficiency 2/3.
    model = Goodput((0.1, 0.01, 0.3, 0.0, 0.05, 0.0, 1.0), (1.0, 1.0), 10, 40, (1, 10))
    found = model.value(1, 2, np.asarray([10.0]), np.asarray([0.0]))
    assert found[0] == pytest.approx(20 / (0.1 + 0.1 + 0.05) * 2 / 3)


def test_a_least_batch_above_the_largest_is_taken():
    """64 GPUs have 64 samples at least where 40 are most: sizes go down from 64, and 1 a GPU stays.

    One node: 0.1 + 0.01 s to compute, 0.05 s of network; scale 6.4, gain 2 / (1 / 6.4 + 1).
    """
    model = Goodput((0.1, 0.01, 0.3, 0.0, 0.05, 0.0, 1.0), (1.0, 1.0), 10, 40, (1, 10))
    value, local, steps = model.best(1, 64)
    assert (local, steps) == (1, 0)
    assert value == pytest.approx(64 / (0.11 + 0.05) * 2 / (1 / 6.4 + 1) / 6.4)
    # On one GPU more samples than the first batch come in two steps, of fewer than the least.
    assert replace(model, max_batch=15, local_batch=(20, 30)).best(1, 1)[0] == 0.0


TASK = PublishedRound(
    # Two jobs, two nodes of 2: one GPU 0.5, two on a node 1, two on two nodes 0.8, four 1.2.
    relative=np.asarray([[[0, 0, 0, 0, 0], [0, 0.5, 1, 0, 0], [0, 0, 0.8, 1.1, 1.2]]] * 2),
    current=np.asarray([[2, 0], [0, 0]]),
    capacity=np.asarray([2, 2]),
    most=np.asarray([4, 2]),
    kept=np.asarray([0.9, 0.9]),
)


def test_fitness_by_hand():
    apart = np.asarray([[[2, 0], [0, 2]]])
    # The first row stays: 1 / 2 GPUs a node; the second is new: 0.9 / 2.
    expected = 2 / (1 / (0.5 + 1e-3) + 1 / (0.45 + 1e-3))
    assert TASK.fitness(apart)[0] == pytest.approx(expected)
    assert TASK.utility(apart)[0] == pytest.approx(2 / 4)
    states = np.asarray([[[2, 0], [0, 2]], [[3, 0], [0, 0]], [[1, 1], [1, 1]]])
    assert TASK.feasible(states).tolist() == [True, False, False]


def test_repair_takes_more_than_it_must():
    draw = np.random.default_rng(0)
    states = np.asarray([[[1, 1], [1, 1]]])
    assert TASK.repaired(states, draw)[0].tolist() == [[1, 1], [0, 0]]
    wide = PublishedRound(
        np.zeros((3, 3, 5)),
        np.zeros((3, 2), int),
        np.asarray([4, 4]),
        np.asarray([8, 8, 8]),
        np.ones(3),
    )
    three = np.asarray([[[1, 1], [1, 1], [1, 0]]])
    assert wide.repaired(three, draw)[0].tolist() == [[1, 1], [0, 0], [0, 0]], "the third as well"
    ours = PolluxRound(*(getattr(wide, one.name) for one in fields(wide)))
    assert ours.repaired(three, draw)[0].tolist() == [[1, 1], [0, 0], [1, 0]]
    assert TASK.repaired(np.asarray([[[2, 2], [2, 0]]]), draw)[0].sum(axis=0).tolist() == [2, 2]


def test_the_search_finds_what_enumeration_finds():
    rows = [(a, b) for a in range(3) for b in range(3)]
    every = np.asarray([[one, two] for one in rows for two in rows])
    best = TASK.fitness(every[TASK.feasible(every)]).max()
    found = Search(TASK, Budget(20, 20, seed=1)).run()
    assert TASK.feasible(found[None])[0]
    assert TASK.fitness(found[None])[0] == pytest.approx(best)
    again = Search(TASK, Budget(20, 20, seed=1)).run()
    assert (again == found).all()


# ---------------------------------------------------------------- Optimus


def test_optimus_gives_to_the_largest_gain_and_stops_at_the_first_loss():
    jobs = [
        OptimusJob((10.0, 6.0, 5.0, 5.5, 1.0), 100, 8, {}),  # gains 400, 100, then -50: stops at 3
        OptimusJob((10.0, 5.0, 1.0), 10, 2, {0: 2}),  # 50, then at its limit
    ]
    assert counts(jobs, 8) == [3, 2]
    assert counts(jobs, 1) == [1, 0]
    # The second keeps node 0; three GPUs go to the emptiest nodes: 4 of node 1.
    assert placement(jobs, [3, 2], [4, 4]) == [[(1, 3)], [(0, 2)]]
    assert placement(jobs, [4, 1], [2, 2, 2])[0] == [(1, 2), (2, 2)]
