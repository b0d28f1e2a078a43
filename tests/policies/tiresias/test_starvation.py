"""The starvation knob: last wait >= K x executed time, to the tail of the first queue, from 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Assignment, InputError, JobState, Placement, RoundState
from morph_opt.scheduling.policies.objectives.attained_service import QueuedService
from morph_opt.scheduling.policies.tiresias.policy import RigidQueues
from morph_opt.scheduling.policies.tiresias.queues import ServiceBook
from tests.policies.worlds import DP, LINEAR, cluster, job

LIMITS = (100.0, 1000.0)
WAITING = JobState(
    job("a", 2),
    attained_gpu_s=400.0,
    executed_s=200.0,
    starts=1,
    last_start_s=0.0,
    last_stop_s=200.0,
)
HELD = Assignment("a", DP, Placement.of({0: [0, 1]}))


def at(time_s: float, *jobs: JobState) -> RoundState:
    return RoundState(round(time_s / 60), time_s, 60.0, cluster(8), jobs)


def test_a_promotion_waits_for_k_times_the_executed_time() -> None:
    book = ServiceBook(LIMITS, starvation_knob=2.0)
    book.observe(at(540.0, WAITING))
    assert book.queue(WAITING) == 1, "340 s of waiting are less than 2 x 200 s"
    book.observe(at(600.0, WAITING))
    assert book.queue(WAITING) == 0
    assert book.arrival_s(WAITING) == 600.0, "behind all that came before 600 s"


def test_service_counts_from_zero_after_a_promotion_and_stays_so() -> None:
    book = ServiceBook(LIMITS, starvation_knob=2.0)
    book.observe(at(600.0, WAITING))
    back = replace(WAITING, running=HELD, last_start_s=600.0, executed_s=240.0, attained_gpu_s=480)
    book.observe(at(640.0, back))
    assert book.queue(back) == 0, "80 GPU-s since the promotion"
    later = replace(back, executed_s=260.0, attained_gpu_s=520.0)
    assert book.queue(later) == 1
    assert book.arrival_s(later) == WAITING.job.submission_s
    # Stopped again: 60 s executed since the promotion, so 120 s of waiting are enough.
    stopped = replace(later, running=None, last_stop_s=660.0)
    book.observe(at(720.0, stopped))
    assert book.queue(stopped) == 1
    book.observe(at(780.0, stopped))
    assert book.queue(stopped) == 0


def test_a_job_of_the_first_queue_is_not_promoted() -> None:
    book = ServiceBook(LIMITS, starvation_knob=0.1)
    short = replace(WAITING, attained_gpu_s=40.0, executed_s=20.0, last_stop_s=20.0)
    book.observe(at(600.0, short))
    assert book.attained_gpu_s(short) == 40.0
    assert book.arrival_s(short) == short.job.submission_s


def test_queues_without_starvation_knob_keep_no_history() -> None:
    book = ServiceBook(LIMITS)
    book.observe(at(60_000.0, WAITING))
    assert book.queue(WAITING) == 1
    assert not book.remembers
    assert not RigidQueues(LINEAR).remembers
    assert RigidQueues(LINEAR, starvation_knob=1.0).remembers


def test_policy_and_objective_promote() -> None:
    fresh = JobState(job("b", 8, submission_s=500.0))
    policy = RigidQueues(LINEAR, limits_gpu_s=LIMITS, starvation_knob=2.0)
    never = RigidQueues(LINEAR, limits_gpu_s=LIMITS)
    rival = JobState(job("c", 8, submission_s=650.0))
    policy.observe(at(600.0, WAITING, fresh))
    now = at(660.0, WAITING, rival)
    assert [a.job for a in policy.decide(now).allocation.assignments] == ["a"]
    assert [a.job for a in never.decide(now).allocation.assignments] == ["c"]
    objective = QueuedService(limits_gpu_s=LIMITS, starvation_knob=2.0)
    queues = objective.observe(at(600.0, WAITING, fresh))
    assert queues.queue.tolist() == [0, 0]
    assert queues.arrival_s.tolist() == [600.0, 500.0]


@pytest.mark.parametrize("starvation_knob", [-1.0, float("inf"), float("nan")])
def test_a_bad_starvation_knob_is_refused(starvation_knob: float) -> None:
    with pytest.raises(InputError, match="starvation_knob: must be a number at least 0"):
        ServiceBook(LIMITS, starvation_knob)
