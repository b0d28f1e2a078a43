"""Gandiva's mechanisms by hand; many cases are in files of published cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from benchmarks.published.parts.gandiva_pairs import PublishedTask, best_pairs
from benchmarks.published.simulators.gandiva import simulate
from benchmarks.published.simulators.gandiva_feedback import (
    FeedbackRound,
    SlicedJob,
    ranked_optimum,
)
from benchmarks.published.simulators.gandiva_search import run_search
from benchmarks.published.simulators.gandiva_slices import SliceJob, SliceRules, Slices
from benchmarks.published.simulators.tiresias import RigidJob
from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.gandiva.packed import by_trial
from morph_opt.scheduling.policies.gavel.pairs import gavel_shares


def ends(jobs, nodes, per_node):
    return [(run.start_s, run.end_s) for run in simulate(jobs, nodes, per_node)]


def test_published_ends_are_ticks_and_starts_are_joins():
    # Two gangs of 1 on one GPU: both join at once. a runs in ticks of 10 s; at 60 they change.
    assert ends([RigidJob("a", 1, 0, 45), RigidJob("b", 1, 0, 5)], 1, 1) == [(0, 50), (0, 60)]


def test_switch_at_whole_minutes_is_missed_after_an_odd_arrival():
    # Ticks are at 9, 19, ...: never a multiple of 60, so b waits for a's end at 199.
    jobs = [RigidJob("a", 1, 0, 190), RigidJob("b", 1, 9, 30)]
    assert ends(jobs, 1, 1) == [(0, 199), (9, 229)]


def test_unknown_gangs_and_gangs_that_never_fit_are_refused():
    with pytest.raises(InputError, match="known gangs are 1, 2, 4"):
        simulate([RigidJob("a", 3, 0, 1)], 1, 4)
    with pytest.raises(InputError, match="more than there are"):
        simulate([RigidJob("a", 8, 0, 1)], 1, 4)


def run(jobs, **rules):
    return Slices(jobs, SliceRules(**rules)).run()


def test_two_jobs_take_turns_and_pay_for_each_switch():
    # One GPU, resume 2 s: a has 120 s left after 60-120, b is complete after 120-180, a runs on.
    a, b = run([SliceJob(0, 1, 0, 180), SliceJob(1, 1, 0, 60)], servers=1, per_server=1, resume_s=2)
    assert (a.first_s, b.first_s) == (60, 120)
    assert b.end_s == 180, "exactly one slice"
    assert (a.end_s, a.resumes) == (302, 1), "60 + pause + 2 + 120: b is gone, so a stays"


def test_a_move_pays_more_than_a_resume():
    jobs = [SliceJob(n, 1, 0, 300 if n else 60) for n in range(3)]
    jobs.append(SliceJob(3, 2, 0, 60))
    found = run(jobs, servers=2, per_server=2, move_s=7, migrate=True)
    # 0 and 1 fill the first server, 3 the second; 2 oversubscribes the first until 3 is complete
    # at 120: then it is moved to the empty one.
    assert [slot.moves for slot in found] == [0, 0, 1, 0]


def test_growth_and_its_end():
    # Alone it runs on 4 GPUs, four times as fast: 120 s of work in 30 s.
    alone = run([SliceJob(0, 1, 0, 120, most=4)], servers=1, per_server=4)
    assert alone[0].end_s == 90


def test_gang_that_fits_no_node_is_refused():
    with pytest.raises(InputError, match="job 7"):
        run([SliceJob(7, 9, 0, 1)], servers=2, per_server=4)


@pytest.mark.parametrize("seed", range(6))
def test_slices_conserve_work_and_capacity(seed):
    draw = np.random.default_rng(seed)
    jobs = [
        SliceJob(
            n,
            int(draw.choice([1, 2, 4, 8])),
            float(draw.integers(0, 600)),
            float(draw.integers(30, 900)),
        )
        for n in range(14)
    ]
    migrate, any_affinity = bool(seed % 2), seed % 3 != 0
    rules = SliceRules(3, 4, migrate, any_affinity, first_s=5, resume_s=1, move_s=9, resize_s=3)
    slices = Slices(jobs, rules)
    found = slices.run()
    assert all(np.isfinite(slot.end_s) for slot in found)
    for _, running in slices.rounds:
        used = {}
        for _, gpus, servers in running:
            used[servers] = used.get(servers, 0) + gpus
        assert all(gpus <= 4 * len(servers) for servers, gpus in used.items())
        servers = [server for where in used for server in where]
        assert len(servers) == len(set(servers))
    for slot in found:
        least = slot.first_s + 5 + slot.job.work_s
        assert slot.end_s >= least - 1e-9


def test_packing_by_trial_may_miss_the_best():
    speed = {(0, 1): (0.6, 0.6), (0, 2): (0.9, 0.9), (1, 3): (0.9, 0.9)}
    used, needs = {0: 10, 1: 20, 2: 30, 3: 40}, dict.fromkeys(range(4), 5)
    task = PublishedTask(2, used, speed, memory_gib=10, needs_gib=needs)
    trials, pairs = by_trial(task)
    assert trials == [(0, 1, True)]
    assert pairs == [(0, 1)]
    assert task.value(pairs) == pytest.approx(2 / 3 * (2 + 1.2))
    assert sorted(best_pairs(task)) == [(0, 2), (1, 3)]
    assert task.value(best_pairs(task)) == pytest.approx(3.6)
    roomy = replace(task, gpus=4)
    assert by_trial(roomy) == ([], [])


def test_gavel_gives_equal_parts_up_to_all_the_time():
    found = gavel_shares(["0", "1+2"], {"0": 1, "1+2": 2}, {"v100": 4, "k80": 2})
    assert found["0"] == {"v100": pytest.approx(2 / 3), "k80": pytest.approx(1 / 3)}
    assert found["1+2"] == {"v100": pytest.approx(2 / 3), "k80": pytest.approx(1 / 3)}
    few = gavel_shares(["0"], {"0": 8}, {"v100": 4, "k80": 2})
    assert few["0"] == {"v100": 0.5, "k80": 0.25}


def test_a_search_ends_sooner_in_slices():
    # 16 trials of an hour on 4 GPUs: every winner is found after W + 3 Q + Q at latest in slices.
    sliced = run_search(16, 4, 3600, 60, 15, sliced=True)
    fifo = run_search(16, 4, 3600, 60, 15, sliced=False)
    assert sliced.cancelled_s == 300
    assert sliced.known_best_s <= 60 + 3600 + 4 * 60
    assert fifo.known_best_s == 60 + 4 * 3600


@pytest.mark.parametrize("seed", range(8))
def test_ranked_rounds_agree_with_enumeration(seed):
    draw = np.random.default_rng(seed)
    jobs = tuple(
        SlicedJob(
            int(draw.choice([1, 2, 4])),
            float(draw.integers(0, 900)),
            float(draw.integers(0, 300)),
            float(draw.choice([0, 2, 20])),
            float(draw.choice([0, 30, 120])),
        )
        for _ in range(6)
    )
    task = FeedbackRound(2, 4, 60.0, jobs)
    values = list(task.values().values())
    best = (-1.0,) * 3
    for where in product((None, 0, 1), repeat=6):
        used = [sum(j.gpus for j, w in zip(jobs, where, strict=True) if w == s) for s in (0, 1)]
        if max(used) <= 4:
            runs = [w is not None for w in where]
            best = max(best, tuple(round(float(v[runs].sum()), 9) for v in values))
    found, runs = ranked_optimum(task)
    assert tuple(found.values()) == pytest.approx(best, abs=1e-6)
    assert sum(jobs[j].gpus for j in runs) == found["gpus"]
