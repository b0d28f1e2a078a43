"""Objectives by hand: what a start, a stay and a guarantee are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from formulations.objectives import (
    cost,
    guarantee,
    kept,
    las,
    makespan,
    relative_speed,
)
from formulations.objectives.fairness import FairFinish, OwedShares, ratio_levels, share_levels
from formulations.objectives.lookahead import backlog_prices, class_values, saved_s
from formulations.objectives.lookahead import levels as lookahead_levels
from formulations.objectives.scattered import is_scattered
from formulations.parameters import LOOKAHEAD, WORK, RatioParams
from formulations.round.tables import RoundProblem
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.policies.objectives.plain import (
    OBJECTIVES,
    Jct,
    Lookahead,
    SavedTime,
    Throughput,
)
from tests.formulations.worlds.random_rounds import random_round
from tests.formulations.worlds.rounds import Candidate, Hold, tiny


def base() -> RoundProblem:
    """Job 0 is queued, job 1 runs at half its promised speed and could start at double."""
    problem = tiny(
        [8, 8],
        [
            Candidate(0, (1,), iteration_s=4.0),
            Candidate(0, (4,), iteration_s=1.0),
            Candidate(1, (4,), iteration_s=2.0),
        ],
        holds=[Hold(1, 0, 1)],
        guaranteed=[1],
    )
    return replace(
        problem,
        jobs=replace(
            problem.jobs,
            iterations_left=np.asarray([100.0, 50.0]),
            request_iteration_s=np.asarray([2.0, 4.0]),
            stay_iteration_s=np.asarray([np.nan, 8.0]),
            restart_s=np.asarray([30.0, 60.0]),
            restart_left_s=np.asarray([0.0, 20.0]),
            weight=np.asarray([1.0, 3.0]),
        ),
        interval_s=60.0,
    )


def test_relative_speed() -> None:
    assert relative_speed(base()).tolist() == [0.5, 2.0, 2.0, 0.5]


def test_promise_value_falls_with_remaining_time_and_partial_ones_have_none() -> None:
    level = guarantee(base())
    np.testing.assert_allclose(level.value, [0.0, 0.0, 1 / (60 + 50 * 4.0), 0.0])
    quick = replace(base(), jobs=replace(base().jobs, stay_iteration_s=np.asarray([np.nan, 4.0])))
    np.testing.assert_allclose(guarantee(quick).value[3], 1 / (20 + 50 * 4.0))


def test_kept_has_a_tolerance() -> None:
    problem = base()
    table = replace(problem.candidates, iteration_s=np.asarray([2.0 * (1 + 1e-12), 2.1, 4.0]))
    assert kept(replace(problem, candidates=table)).tolist() == [True, False, True, False]


def test_throughput_amortises_the_start_up_over_the_horizon() -> None:
    (level,) = Throughput().levels(base())
    started = [0.5 * 60 / 90, 2.0 * 60 / 90, 3 * 2.0 * 60 / 120]
    np.testing.assert_allclose(level.value, [*started, 3 * 0.5 * 60 / 80], rtol=1e-12)
    (longer,) = Throughput(horizon_s=600.0).levels(base())
    assert longer.value[1] == pytest.approx(2.0 * 600 / 630)


def test_jct_is_the_completion_rate() -> None:
    (level,) = Jct(restart_weight=2.0).levels(base())
    started = [1 / (60 + 400), 1 / (60 + 100), 3 / (120 + 100)]
    np.testing.assert_allclose(level.value, [*started, 3 / (20 + 400)], rtol=1e-12)


def test_jct_counts_ends_within_the_round_alike() -> None:
    problem = base()
    nearly = replace(
        problem,
        jobs=replace(
            problem.jobs,
            iterations_left=np.asarray([1.0, 1.0]),
            restart_s=np.zeros(2),
            restart_left_s=np.zeros(2),
        ),
    )
    (level,) = Jct().levels(nearly)
    np.testing.assert_allclose(level.value, [1 / 60, 1 / 60, 3 / 60, 3 / 60])


def test_objectives_by_name() -> None:
    assert {name: make().name for name, make in OBJECTIVES.items()} == {n: n for n in OBJECTIVES}
    for name, make in OBJECTIVES.items():
        assert [level.name for level in make().levels(base())] == [name]


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(OBJECTIVES)))
def test_every_option_has_a_value_that_is_finite_and_not_negative(seed: int, name: str) -> None:
    problem = random_round(np.random.default_rng(seed))
    options = problem.candidates.count + int(problem.jobs.running.sum())
    for level in (guarantee(problem), *OBJECTIVES[name]().levels(problem)):
        assert level.value.shape == (options,)
        assert np.isfinite(level.value).all()
        assert (level.value >= 0).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(OBJECTIVES)))
def test_faster_option_on_no_more_gpus_is_worth_at_least_as_much(seed: int, name: str) -> None:
    """What the removal of dominated candidates rests on."""
    problem = random_round(np.random.default_rng(seed))
    table = problem.candidates
    same = table.job[:, None] == table.job[None, :]
    same &= table.node_class[:, None] == table.node_class[None, :]
    no_more = table.gpus[:, None] <= table.gpus[None, :]
    faster = table.iteration_s[:, None] <= table.iteration_s[None, :]
    for level in (guarantee(problem), *OBJECTIVES[name]().levels(problem)):
        better, worse = np.nonzero(same & no_more & faster)
        assert (level.value[better] >= level.value[worse] * (1 - 1e-12)).all()


# ---------------------------------------------------------------- lookahead


def waiting(count: int) -> RoundProblem:
    """One GPU, on which job j has 600 x 2^j s of work; no start-up, rounds of 60 s."""
    rows = [Candidate(job, (1,), iteration_s=6.0 * 2**job) for job in range(count)]
    problem, zero = tiny([1], rows), np.zeros(count)
    jobs = replace(
        problem.jobs, iterations_left=np.full(count, 100.0), restart_s=zero, restart_left_s=zero
    )
    return replace(problem, jobs=jobs, interval_s=60.0)


def test_backlog_prices_count_who_ends_later() -> None:
    """Fluid ends at 600 and 1,800 s: two wait until 600, one until 1,800, and 1 / G goes on."""
    problem = waiting(2)
    (path,) = backlog_prices(problem)
    assert path.ends_s.tolist() == [600.0, 1800.0]
    assert path.until(np.asarray([0.0, 300.0, 600.0, 1800.0, 1900.0])).tolist() == [
        0.0,
        600.0,
        1200.0,
        2400.0,
        2500.0,
    ]


def test_lookahead_by_hand() -> None:
    """Job 0 now: ends at 600 and pays Lam(600) - Lam(60) = 1,080; waits until 120 or an end.

    From 120 s it ends at 720: 720 + Lam(720) - Lam(120) = 720 + 1,320 - 240 = 1,800; from 600 s
    1,200 + 1,800 - 1,200 = 1,800; from 1,800 s 2,400 + 600 = 3,000. So 1,800 - 1,680 = 120.
    Job 1 now: 1,200 + Lam(1,200) - Lam(60) = 1,200 + 1,800 - 120 = 2,880. From 120 s
    1,320 + 1,920 - 240 = 3,000; from 600 s 1,800 + 2,400 - 1,200 = 3,000: 120 as well.
    """
    np.testing.assert_allclose(saved_s(waiting(2), 2.0), [120.0, 120.0])


def test_first_and_last_start_times_are_considered() -> None:
    """Who waits may begin after 120, 600, 1,800 or 4,200 s, where jobs end in the fluid schedule.

    Job 2 does best in the middle, for 6,600; after 120 s it ends at 2,520 and pays Lam(2,520) less
    Lam(120), 4,920 - 360: 7,080. The others begin after 120 s for as much as at any other time.
    """
    every = saved_s(waiting(3), 2.0)
    params = replace(LOOKAHEAD, most_waits=2)
    assert (saved_s(waiting(3), 2.0, params) - every).tolist() == [0.0, 0.0, 480.0]


def test_lookahead_prefers_a_stay_to_the_same_as_a_start() -> None:
    """Job 1 runs on 1 GPU at 8 s; starting there again would cost its restart of 60 s."""
    problem = base()
    (level,) = Lookahead().levels(problem)
    table = replace(
        problem.candidates,
        part_gpus=np.asarray([1, 4, 1]),
        gpus=np.asarray([1, 4, 1]),
        iteration_s=np.asarray([4.0, 1.0, 8.0]),
    )
    (level,) = Lookahead().levels(replace(problem, candidates=table))
    assert level.value[3] > level.value[2]


def test_of_jobs_that_take_the_whole_class_the_one_with_least_work_left_goes_first() -> None:
    """Jobs 0 and 1 need both GPUs, and save the same; two others need one each."""
    rows = [Candidate(job, (2 if job < 2 else 1,), iteration_s=6.0 * 2**job) for job in range(4)]
    problem, zero = tiny([2], rows), np.zeros(4)
    jobs = replace(
        problem.jobs, iterations_left=np.full(4, 100.0), restart_s=zero, restart_left_s=zero
    )
    problem = replace(problem, jobs=jobs, interval_s=60.0)
    (same,) = lookahead_levels(problem, 2.0, replace(LOOKAHEAD, tie=0.0))
    (level,) = lookahead_levels(problem)
    more = level.value - same.value
    wanted = LOOKAHEAD.tie * 60.0**2 / np.asarray([600.0, 1200.0, np.inf, np.inf])
    np.testing.assert_allclose(more, wanted, atol=1e-12)


@pytest.mark.parametrize("objective", [Lookahead(), SavedTime()])
def test_where_one_job_runs_at_a_time_the_least_time_left_goes_first(objective: Stateless) -> None:
    (level,) = objective.levels(waiting(2))
    np.testing.assert_allclose(level.value, [3600 / 660, 3600 / 1260])


# ---------------------------------------------------------------- saved time


def test_option_that_saves_no_time_still_has_a_value() -> None:
    """Four GPUs in two rounds are better than one now, which still is worth something."""
    problem = tiny(
        [4, 4],
        [Candidate(0, (1,), iteration_s=60.0), Candidate(0, (4,), iteration_s=4.5)],
        holds=[Hold(0, 0, 4)],
    )
    jobs = replace(
        problem.jobs,
        iterations_left=np.full(1, 100.0),
        restart_s=np.full(1, 30.0),
        restart_left_s=np.zeros(1),
        stay_iteration_s=np.full(1, 4.0),
    )
    problem = replace(problem, jobs=jobs, interval_s=60.0)
    (level,) = SavedTime().levels(problem)
    assert saved_s(problem, 2.0)[0] < 0.0
    # On one GPU 6,030 s at 4 / 60 of the best speed, which is that of the stay.
    assert level.value[0] == pytest.approx(0.1 * 60 * (4 / 60) / 6030**0.5)
    assert level.value[2] >= 0.2 * 60 / 400**0.5


@given(st.integers(0, 2**32 - 1))
def test_saved_time_is_what_it_is_defined_as(seed: int) -> None:
    """Option by option, from the definition, on the seconds that `lookahead` says are saved."""
    problem = random_round(np.random.default_rng(seed))
    (level,) = SavedTime().levels(problem)
    saved = saved_s(problem, 2.0)
    jobs, table, round_s = problem.jobs, problem.candidates, problem.interval_s
    ways = [(int(j), float(it), True) for j, it in zip(table.job, table.iteration_s, strict=True)]
    stays = np.flatnonzero(jobs.running).tolist()
    ways += [(job, float(jobs.stay_iteration_s[job]), False) for job in stays]
    held = np.bincount(problem.holds.job, problem.holds.demand[:, 0], jobs.count)
    gpus = [*table.gpus.tolist(), *(float(held[job]) for job in stays)]
    sizes = {job: [] for job in range(jobs.count)}
    for (job, pace_s, _), size in zip(ways, gpus, strict=True):
        sizes[job].append((size, pace_s))
    usable = problem.nodes.open | np.isin(np.arange(problem.nodes.count), problem.holds.node)
    all_gpus = problem.nodes.capacity[problem.nodes.node_class[usable], 0].sum()
    least_gpus = sorted(min(sizes[job])[0] for job in sizes if sizes[job])
    alone = problem.nodes.classes == 1 and len(least_gpus) > 1 and sum(least_gpus[:2]) > all_gpus
    for at, (job, pace_s, starts) in enumerate(ways):
        start_up_s = (jobs.restart_s if starts else jobs.restart_left_s)[job]
        if alone:
            left_s = start_up_s + jobs.iterations_left[job] * pace_s
            left_s = round_s + max(0.0, left_s - (0.0 if starts else jobs.restart_s[job]))
            assert level.value[at] == pytest.approx(jobs.weight[job] * round_s**2 / left_s)
            continue
        held_s = max(round_s, start_up_s + jobs.iterations_left[job] * pace_s)
        best_s = min(it for other, it, _ in ways if other == job)
        least, wide_s = (0.1, 600.0) if starts else (0.2, 900.0)
        least_s = least * round_s
        smallest, its_s = min(sizes[job])
        rigid = not any(size > smallest and other_s < its_s for size, other_s in sizes[job])
        if rigid and problem.nodes.classes == 1 and not is_scattered(problem):
            least_s += wide_s * smallest / max(1.0, all_gpus)
        worth = max(saved[at], least_s * best_s / pace_s) / held_s**0.5
        assert level.value[at] == pytest.approx(worth)


def test_values_of_classes_by_hand() -> None:
    """Three jobs of 100 GPU-seconds on class 0 and 250 on class 1, a GPU each.

    Together the classes do 1 / 100 + 1 / 250 = 0.014 jobs a second: the GPU of class 0 is worth
    0.010 / 0.014 of the machine, that of class 1 the rest, and a job is 1 / 0.014 of its seconds.
    """
    found = class_values(np.asarray([[100.0, 250.0]] * 3), np.ones(2))
    np.testing.assert_allclose(found, [10 / 14, 4 / 14], rtol=0.02)
    assert class_values(np.asarray([[8.0], [2.0]]), np.asarray([4.0])).tolist() == [0.25]


@pytest.mark.parametrize("seed", range(12))
def test_values_of_classes_are_duals_of_the_least_time(seed: int) -> None:
    """The optimum of ``min T: sum_j work y <= G T, sum_k y = 1`` by scipy, to 2 per cent."""
    draw = np.random.default_rng(seed)
    jobs, classes = int(draw.integers(2, 12)), int(draw.integers(2, 4))
    work = draw.uniform(10.0, 1000.0, (jobs, classes))
    work[draw.random(work.shape) < 0.2] = np.inf
    work[:, 0] = np.where(np.isfinite(work).any(axis=1), work[:, 0], 100.0)
    gpus = draw.integers(1, 9, classes).astype(float)
    part = class_values(work, gpus)
    assert part @ gpus == pytest.approx(1.0)
    assert (part > 0).all()
    reached = (work * part).min(axis=1).sum()
    cost = np.zeros(jobs * classes + 1)
    cost[-1] = 1.0
    rows = np.zeros((classes, cost.size))
    one = np.zeros((jobs, cost.size))
    for k in range(classes):
        rows[k, k:-1:classes] = np.where(np.isfinite(work[:, k]), work[:, k], 0.0)
        rows[k, -1] = -gpus[k]
    for j in range(jobs):
        one[j, j * classes : (j + 1) * classes] = 1.0
    most = [(0.0, 1.0 if np.isfinite(x) else 0.0) for x in work.ravel()] + [(0.0, None)]
    least = linprog(cost, rows, np.zeros(classes), one, np.ones(jobs), most).fun
    assert least * 0.98 <= reached <= least * (1 + 1e-9)


def test_makespan_weighs_rates_by_the_least_work() -> None:
    """Job 0: 30 + 400 s on 1 GPU, 30 + 100 s on 4, so A = min(430, 520); restarts count twice.

    Job 1: 60 + 100 s on 4 GPUs, or 20 + 400 s on the one that it has, so A = min(640, 420).
    """
    (level,) = makespan.levels(base())
    rates = [430**0.9 / 460, 430**0.9 / 160, 420**0.9 / 220, 420**0.9 / 420]
    np.testing.assert_allclose(level.value, rates, rtol=1e-12)
    (level,) = makespan.levels(base(), replace(WORK, power=0.0))
    np.testing.assert_allclose(level.value, [1 / 460, 1 / 160, 1 / 220, 1 / 420])


def test_queues_by_hand() -> None:
    """Starts keep 600 / 630 and 600 / 660 of 600 s, the stay of job 1 600 / 620."""
    mean = 600 / np.asarray([630.0, 630.0, 660.0, 620.0])
    speed = np.asarray([0.5, 2.0, 2.0, 0.5])
    one = las.Queues(np.zeros(2, dtype=int), np.ones(2), np.asarray([5.0, 3.0]), np.asarray([1, 4]))
    first, spare = las.levels(base(), one)
    # Job 1 came first and has rank 2, job 0 1.5; more than the speed asked for counts as that.
    np.testing.assert_allclose(first.value, np.asarray([0.75, 1.5, 2.0, 1.0]) * mean)
    np.testing.assert_allclose(spare.value, speed * mean)
    first, second, _ = las.levels(base(), replace(one, queue=np.asarray([1, 0])))
    np.testing.assert_allclose(first.value, np.asarray([0.0, 0.0, 2.0, 1.0]) * mean)
    np.testing.assert_allclose(second.value, np.asarray([1.0, 2.0, 0.0, 0.0]) * mean)
    # Job 0 asked for one GPU: four are worth less than nothing. A stay is not asked.
    (rigid,) = las.levels(base(), one, rigid=True)
    np.testing.assert_allclose(rigid.value, [0.75 * mean[0], -1.0, 2.0 * mean[2], mean[3]])


def test_jobs_of_a_queue_have_ranks_among_themselves() -> None:
    data = las.Queues(np.asarray([0, 1, 0]), np.ones(3), np.asarray([5.0, 1.0, 3.0]), np.ones(3))
    np.testing.assert_array_equal(las._rank(data), [1.5, 2.0, 2.0])


def test_owed_shares_by_hand() -> None:
    # Class 0 is of type 1, class 1 of type 0. Lags of an 1800 s horizon: 900 s are 0.5, 360 s are
    # 0.2, 1800 s are 1, and who is ahead is not behind. Job 0 cannot run on type 1 as it asked.
    problem = tiny(
        [8, 4],
        [
            Candidate(0, (2,), node_class=1, iteration_s=4.0),
            Candidate(0, (1,), node_class=0, iteration_s=4.0),
            Candidate(1, (4,), node_class=1, iteration_s=0.5),
        ],
        holds=[Hold(1, 0, 4), Hold(2, 1, 1)],
    )
    jobs = replace(
        problem.jobs,
        restart_s=np.asarray([300.0, 200.0, 0.0]),
        restart_left_s=np.asarray([0.0, 150.0, 0.0]),
        stay_iteration_s=np.asarray([np.nan, 1.0, 2.0]),
    )
    data = OwedShares(
        gang=np.asarray([2.0, 4.0, 1.0]),
        speed=np.asarray([[0.5, 0.0], [1.0, 2.0], [1.0, 4.0]]),
        share=np.asarray([[0.25, 0.5], [0.5, 0.75], [0.5, 0.0]]),
        lag_s=np.asarray([[900.0, -900.0], [1800.0, 360.0], [0.0, 0.0]]),
        type_of_class=np.asarray([1, 0]),
    )
    share, spare = share_levels(replace(problem, jobs=jobs), data)
    # Starts keep 600 / 900, 600 / 900 and 600 / 800 of 600 s. Of the speed asked for they have
    # 1 / (4 x 0.5) = 0.5, 1 / 4 (none asked) and 1 / 0.5 = 2; due are 0.75, 0.5 and min(1, 1.5):
    # 2 (1 + 0.5) x 0.5 x 2/3 = 1, 2 x 0.25 x 2/3 = 1/3 and 4 (1 + 1) x 1 x 0.75 = 6.
    assert share.value[:3] == pytest.approx([1.0, 1 / 3, 6.0])
    # 2 x 0.5 x 2/3, 2 x 0.25 x 2/3 and 4 x 2 x 0.75.
    assert spare.value[:3] == pytest.approx([2 / 3, 1 / 3, 6.0])
    # Job 1 stays at 1 / (1 x 2) of 0.95 due and keeps 600 / 750: 4 (1 + 0.2) x 0.5 x 0.8; job 2 at
    # 1 / (2 x 1) of 0.5 due, and has no start-up left.
    assert share.value[3:] == pytest.approx([1.92, 0.5])
    assert spare.value[3:] == pytest.approx([1.6, 0.5])


def test_finish_time_ratios_by_hand() -> None:
    """Fair ends are after 70 + 30 and after 190 + 60 s."""
    data = FairFinish(np.asarray([70.0, 190.0]), np.asarray([190.0, 30.0]))
    (level,) = ratio_levels(base(), data, RatioParams(power=2.0, restart_weight=1.0))
    # Job 0: (190 + 30 + 200) / 100 = 4.2, and 4.8 a round later. Job 1, which would lose 40 s of a
    # start-up too: (30 + 20 + 200) / 250 = 1, and 1.4. In units of 4.8, over rounds of 60 s:
    cost = np.asarray([4.8**3 - 4.2**3, 3.0 * (1.4**3 - 1.0**3)]) / 4.8**3 / 60.0
    left_s = np.asarray([30.0 + 400.0, 30.0 + 100.0, 60.0 + 100.0, 20.0 + 400.0])
    assert level.value == pytest.approx(cost[[0, 0, 1, 1]] / left_s)


def test_deadlines_and_bills_by_hand() -> None:
    """Job 0 ends after 430 or 130 s, of 200; job 1 after 160 s or, where it is, after 420, of 400.

    Start-ups that begin, of 30 and 60 s, count twice in what it takes: 460, 160 and 220 s.
    """
    slo, dollar = cost.levels(base(), cost.Bills(np.asarray([200.0, 400.0]), np.asarray([3.0])))
    assert slo.value == pytest.approx([0.0, (200 * 160) ** -0.5, (400 * 220) ** -0.5, 0.0])
    # On 1, 4, 4 and 1 GPUs: the cheapest are 460 GPU seconds of job 0, and 420 of job 1.
    assert dollar.value == pytest.approx([1 / 460, 460 / 640 / 160, 420 / 880 / 220, 1 / 420])


def test_a_stay_that_meets_its_deadline_to_the_second_is_worth_its_urgency() -> None:
    # Job 1 ends after 20 + 50 x 7.6 = 400 s, its deadline: 1 / sqrt(400) / sqrt(400) = 1 / 400.
    problem = base()
    jobs = replace(problem.jobs, stay_iteration_s=np.asarray([np.nan, 7.6]))
    bills = cost.Bills(np.asarray([0.0, 400.0]), np.asarray([1.0]))
    slo = cost.levels(replace(problem, jobs=jobs), bills)[0]
    assert slo.value[3] == pytest.approx(1 / 400)
