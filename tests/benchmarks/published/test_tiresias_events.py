"""The event-driven rigid simulator: cases by hand, and the published ones exactly."""

import numpy as np
import pytest

from benchmarks.published.simulators.tiresias import (
    Discipline,
    Quirks,
    RigidJob,
    RigidRule,
    simulate,
)
from benchmarks.published.simulators.tiresias_lists import published_rank
from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex, queue_of


def ends(jobs, gpus, discipline, **options):
    runs = simulate(jobs, gpus, RigidRule(Discipline(discipline), **options))
    return [(run.start_s, run.end_s, run.preemptions) for run in runs]


HEAD = [RigidJob("a", 1, 0, 100), RigidJob("b", 2, 10, 50), RigidJob("c", 1, 20, 30)]


def test_fifo_is_strict_and_fit_backfills():
    assert ends(HEAD, 2, "fifo") == [(0, 100, 0), (100, 150, 0), (150, 180, 0)]
    assert ends(HEAD, 2, "fjf") == [(0, 100, 0), (100, 150, 0), (20, 50, 0)]


def test_shortest_preempts():
    # At 10 b (50 s left) takes both GPUs from a (90 left); at 20 c (30 left) one from b (40 left),
    # and a gets the other; at 50 b goes before a again.
    assert ends(HEAD, 2, "shortest") == [(0, 150, 2), (10, 90, 1), (20, 50, 0)]


def test_a_wide_job_is_demoted_early_and_by_the_published_code_late():
    jobs = [RigidJob("wide", 4, 0, 300), RigidJob("late", 4, 10, 10)]
    limits = (100.0, 10_000.0)
    # 100 GPU-s are reached after 25 s: the newcomer, still in the first queue, goes first.
    assert ends(jobs, 4, "dlas-gpu", queue_limits=limits) == [(0, 310, 1), (25, 35, 0)]
    # The published code computes at 10 that (100 - 10) // 4 = 22 s remain.
    quirk = Quirks(late_demotion=True)
    late = ends(jobs, 4, "dlas-gpu", queue_limits=limits, quirks=quirk)
    assert late == [(0, 310, 1), (32, 42, 0)]


def test_the_starvation_knob_brings_a_job_back():
    jobs = [
        RigidJob("long", 1, 0, 500),
        *(RigidJob(f"s{i}", 1, 100 + 90 * i, 90) for i in range(9)),
    ]
    options = {"queue_limits": (100.0, 10_000.0)}
    without = simulate(jobs, 1, RigidRule(Discipline.LAS_GPU, **options))
    back = simulate(jobs, 1, RigidRule(Discipline.LAS_GPU, starvation_knob=2.0, **options))
    assert without[0].promotions == 0
    # Promoted when it has waited 200 s after 100 s of work: at 300 (runs from 370 to 470) and at
    # 670 (behind s6, from 830 to 930); at 1110 nobody else is left. Work is conserved.
    assert back[0].promotions == 2
    assert back[0].end_s == without[0].end_s == 1310
    assert back[9].end_s > without[9].end_s


def test_gittins_index_by_hand():
    index = GittinsIndex.of([4.0, 1.0, 10.0], 3.0)
    # a = 0: P(S <= 3) = 1/3, E[min(S, 3)] = (1 + 3 + 3) / 3.
    assert index.exact(0.0) == pytest.approx(1 / 7)
    # a = 1: samples 4 and 10 remain, 3 and 9 away: P = 1/2, E = 3.
    assert index.exact(1.0) == pytest.approx(0.5 / 3)
    assert index.exact(10.0) == 0.0
    assert published_rank(index, 1e9) == 0.0


@pytest.mark.parametrize(("attained", "queue"), [(0, 0), (3249.9, 0), (3250, 1), (7200, 2)])
def test_queue_limits_are_closed_below(attained, queue):
    assert queue_of(attained) == queue


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: RigidJob("a", 0, 0, 1), "at least 1"),
        (lambda: RigidJob("a", 1, -1, 1), "submission >= 0"),
        (lambda: RigidRule(Discipline.LAS, queue_limits=(5.0, 5.0)), "ascending"),
        (lambda: RigidRule(Discipline.GITTINS), "Gittins index"),
        (lambda: RigidRule(Discipline.LAS, starvation_knob=-1.0), "at least 0"),
        (lambda: simulate([RigidJob("a", 9, 0, 1)], 8, RigidRule(Discipline.FIFO)), "asks for 9"),
        (lambda: GittinsIndex(np.array([2.0, 1.0])), "ascending"),
        (lambda: GittinsIndex.of([]), "at least one sample"),
    ],
)
def test_bad_input_is_refused(make, rule):
    with pytest.raises(InputError, match=rule):
        make()


def test_published_schedule_that_sorts_in_reverse():
    # Samples 10 and 100: the index falls with the service attained, so who has more goes first and
    # nobody is preempted by a newcomer; on one GPU a runs to its end before b.
    index = GittinsIndex.of([10.0, 100.0], 20.0)
    jobs = [RigidJob("a", 1, 0, 60), RigidJob("b", 1, 5, 5)]
    assert published_rank(index, 5.0) > published_rank(index, 20.0)
    wrong = ends(jobs, 1, "gittins_onelinefix", index=index)
    assert wrong == [(0, 60, 0), (60, 65, 0)]
