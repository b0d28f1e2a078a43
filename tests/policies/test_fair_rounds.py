"""Fairness objectives and baselines inside the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    JobState,
    Placement,
    RoundState,
    Trace,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.replay import cli
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.objectives.attained_service import QueuedService
from morph_opt.scheduling.policies.objectives.follow_shares import EqualiseRatios
from morph_opt.scheduling.policies.objectives.share_book import ShareBook
from morph_opt.scheduling.policies.registry import (
    OBJECTIVES,
    POLICIES,
    PolicyOptions,
    make_objective,
    make_policy,
)
from morph_opt.scheduling.policies.tiresias.queues import ServiceBook
from morph_opt.simulation.engine.config import ReplayConfig
from tests.policies.worlds import DP, LINEAR, cluster, job

MIXED = load_cluster("1x4:V100+1x4:P100+2x2:K80")
ONE_SIZE = load_cluster("1x4:V100+1x4:P100+1x4:K80")
COARSE = ReplayConfig(interval_s=1800.0, restart_s=60.0)


def small_trace(count: int = 9) -> tuple[Trace, object]:
    trace, speeds = gavel_twin(0)
    jobs = [replace(j, submission_s=j.submission_s / 4) for j in trace.jobs[:count]]
    return Trace.of("small", jobs), speeds


@pytest.mark.parametrize(
    "objective", sorted(name for name, spec in OBJECTIVES.items() if spec.memory)
)
def test_every_objective_completes_a_trace_on_mixed_types(objective: str) -> None:
    trace, speeds = small_trace()
    policy = make_policy("milp", speeds, PolicyOptions(objective=objective))
    result = replay(trace, MIXED, policy, speeds, COARSE)
    assert result.summary["completed"] == len(trace.jobs)
    assert result.summary["rounds_over_capacity"] == 0
    assert result.summary["fallback_rounds"] == 0
    assert result.summary["ftf_max"] > 0


@pytest.mark.parametrize("name", sorted(name for name, spec in POLICIES.items() if spec.memory))
def test_every_baseline_completes_a_trace_on_mixed_types(name: str) -> None:
    trace, speeds = small_trace()
    if POLICIES[name].limits:
        trace = trace.of_jobs(replace(job, time_limit_s=1e6) for job in trace.jobs)
    policy = make_policy(name, speeds, PolicyOptions())
    assert policy.name == name
    cluster = ONE_SIZE if name.startswith("gandiva") else MIXED  # it refuses servers of two sizes
    result = replay(trace, cluster, policy, speeds, COARSE)
    assert result.summary["completed"] == len(trace.jobs)
    assert result.summary["rounds_over_capacity"] == 0


@pytest.mark.parametrize(
    "who",
    [
        ["--policy", "gavel:fairness"],
        ["--policy", "gavel:ftf"],
        ["--policy", "gavel:gandiva", "--packing"],
        ["--policy", "gandiva", "--packing"],
        ["--objective", "fairness"],
        ["--objective", "jct-blind"],
    ],
)
def test_a_policy_that_remembers_resumes_as_if_it_had_not_stopped(who, tmp_path) -> None:
    call = ["--trace", "gavel-96", "--cluster", "1x4:V100+1x4:P100+1x4:K80", "--quiet"]
    call += ["--interval", "3600", "--until-s", "54000", *who]
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert cli.main([*call, "--out", str(whole)]) == 0
    part.mkdir()
    for name in ("config.toml", "versions.json"):
        (part / name).write_bytes((whole / name).read_bytes())
    events = (whole / "events.jsonl").read_bytes()
    rows = (whole / "rounds.csv").read_text().splitlines(keepends=True)
    (part / "events.jsonl.partial").write_bytes(events[: len(events) // 2])
    (part / "rounds.csv.partial").write_text("".join(rows))
    assert cli.main(["--resume", str(part), "--quiet"]) == 0
    assert (part / "events.jsonl").read_bytes() == events


def at(where: Cluster, time_s: float, *jobs: JobState) -> RoundState:
    return RoundState(
        index=round(time_s / 60) - 1, time_s=time_s, interval_s=60.0, cluster=where, jobs=jobs
    )


def holding(name: str, gpus: int, *, attained: float, **other: float) -> JobState:
    held = Assignment(name, DP, Placement.of({0: list(range(gpus))}))
    return JobState(
        job(name, gpus),
        running=held,
        attained_gpu_s=attained,
        executed_s=attained / gpus,
        starts=1,
        first_start_s=0.0,
        last_start_s=0.0,
        **other,
    )


def counts(allocation: Allocation) -> dict[str, int]:
    return {a.job: a.placement.gpus for a in allocation.assignments}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("milp", PolicyOptions(objective="las", gap=0.0)),
        ("tiresias:2d-las", PolicyOptions()),
    ],
)
def test_the_first_queue_goes_first_whatever_the_rest_is_worth(
    name: str, options: PolicyOptions
) -> None:
    where = cluster(8)
    old = holding("old", 8, attained=10_000.0)
    fresh = JobState(job("fresh", 8), restart_s=50.0)
    policy = make_policy(name, LINEAR, options)
    assert counts(policy.decide(at(where, 6000.0, old, fresh)).allocation) == {"fresh": 8}


def test_malleable_las_gives_the_rest_away_and_rigid_las_does_not() -> None:
    where = cluster(8)
    both = (JobState(job("a", 4)), JobState(job("b", 2)))
    for objective, total in (("las", 8), ("las-rigid", 6)):
        policy = make_policy("milp", LINEAR, PolicyOptions(objective=objective, gap=0.0))
        found = counts(policy.decide(at(where, 60.0, *both)).allocation)
        assert sum(found.values()) == total, objective
        assert found["a"] >= 4
        assert found["b"] >= 2


def test_queues_from_the_snapshot_alone() -> None:
    book = ServiceBook((100.0, 1000.0))
    assert book.queue(JobState(job("a"))) == 0
    waiting = JobState(
        job("a", 2),
        attained_gpu_s=400.0,
        executed_s=200.0,
        starts=1,
        last_start_s=0.0,
        last_stop_s=200.0,
    )
    book.observe(at(cluster(8), 6000.0, waiting))
    assert book.queue(waiting) == 1
    assert not book.remembers


def test_a_job_that_lags_behind_its_share_is_served_before_one_that_does_not() -> None:
    where = cluster(1)
    policy = make_policy("milp", LINEAR, PolicyOptions(objective="fairness", gap=0.0))
    first, second = JobState(job("a")), JobState(job("b"))
    began = counts(policy.decide(at(where, 60.0, first, second)).allocation)
    assert len(began) == 1
    served = next(iter(began))
    other = {"a": "b", "b": "a"}[served]
    held = Assignment(served, DP, Placement.of({0: [0]}))
    for turn in range(2, 40):
        time_s = 60.0 * turn
        states = {
            served: JobState(
                job(served),
                iterations_done=(time_s - 60.0) / 8.0,
                running=held,
                attained_gpu_s=time_s - 60.0,
                executed_s=time_s - 60.0,
                starts=1,
                first_start_s=60.0,
                last_start_s=60.0,
            ),
            other: JobState(job(other)),
        }
        found = counts(policy.decide(at(where, time_s, states["a"], states["b"])).allocation)
        if found == {other: 1}:
            return
    raise AssertionError("the job without service never got a turn")


def test_shares_and_lags_of_two_equal_jobs_by_hand() -> None:
    book = ShareBook(LINEAR, "fairness")
    where = cluster(1)
    book.observe(at(where, 60.0, JobState(job("a")), JobState(job("b"))))
    assert book.shares is not None
    assert book.shares.x.ravel() == pytest.approx([0.5, 0.5])
    held = Assignment("a", DP, Placement.of({0: [0]}))
    # In 60 s a did 60 s worth of its gang (8 s per iteration), b nothing; each was due 30 s.
    ran = JobState(
        job("a"), iterations_done=7.5, running=held, attained_gpu_s=60.0, executed_s=60.0, starts=1
    )
    book.observe(at(where, 120.0, ran, JobState(job("b"))))
    assert book.lag_s.ravel() == pytest.approx([-30.0, 30.0])


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_goals_are_a_function_of_the_tables_and_of_what_was_observed(name: str) -> None:
    """Also when the objective has seen another round since; a round can be posed again."""
    priced = cluster(4).with_prices({cluster(4).gpu_types[0].name: 1.0})
    first = at(priced, 60.0, JobState(job("a", 4)), JobState(job("b")))
    problem = CandidateBuilder(LINEAR).view(first).problem
    objective = make_objective(name, LINEAR)
    data = objective.observe(first)
    before = objective.levels(problem, data)
    objective.observe(at(priced, 6000.0, JobState(job("c")), JobState(job("b"), starts=1)))
    for old, new in zip(before, objective.levels(problem, data), strict=True):
        assert (old.name, old.unit) == (new.name, new.unit)
        assert old.value.tolist() == new.value.tolist()


@pytest.mark.parametrize("options", [{"limits_gpu_s": (5.0, 1.0)}, {"starvation_knob": -1.0}])
def test_bad_queue_parameters_are_refused(options) -> None:
    with pytest.raises(ValueError, match=r"ascending|at least 0"):
        QueuedService(**options)


def test_levels_are_named_by_queue() -> None:
    objective = QueuedService()
    seen = at(cluster(8), 6000.0, holding("a", 2, attained=8000.0), JobState(job("b")))
    data = objective.observe(seen)
    problem = CandidateBuilder(LINEAR).view(seen).problem
    levels = objective.levels(problem, data)
    assert [level.name for level in levels] == ["queue 0", "queue 2", "spare"]
    assert np.count_nonzero(levels[0].value[problem.options.stays]) == 0


def test_the_fair_finish_of_two_equal_jobs_by_hand() -> None:
    book = ShareBook(LINEAR, "fairness")
    where = cluster(1)
    one = replace(job("a"), iterations=10)
    book.observe(at(where, 60.0, JobState(one), JobState(job("b"))))
    # Half a GPU at 8 s per iteration: 16 s each, 160 s from now on.
    assert book.fair_finish_s[0] == pytest.approx(60.0 + 160.0)
    book.observe(at(where, 120.0, JobState(one), JobState(job("b"))))
    assert book.fair_finish_s[0] == pytest.approx(120.0 + 160.0 - 60.0)
    book.observe(at(where, 300.0, JobState(one), JobState(job("b"))))
    assert book.fair_finish_s[0] == pytest.approx(300.0), "it would be complete by now"
    book.observe(at(where, 360.0, JobState(one), JobState(job("b"))))
    assert book.fair_finish_s[0] == pytest.approx(300.0), "and stays so"


@pytest.mark.parametrize("objective", ["fairness", "ftf", "hierarchical"])
def test_the_job_that_is_later_than_fair_goes_first(objective: str) -> None:
    where = cluster(4)
    policy = make_policy("milp", LINEAR, PolicyOptions(objective=objective, gap=0.0))
    work = {"iterations": 600, "requested_gpus": 4}
    early, late = (replace(job(name, 4), **work) for name in ("early", "late"))
    late = replace(late, name="late", submission_s=0.0)
    early = replace(early, submission_s=5000.0)
    policy.decide(at(where, 60.0, JobState(late)))
    found = policy.decide(at(where, 5040.0, JobState(late), JobState(early)))
    served = counts(found.allocation)
    assert served.get("late", 0) >= served.get("early", 0)
    assert served["late"] > 0


@pytest.mark.parametrize("options", [{"power": -1.0}, {"restart_weight": 0.5}])
def test_bad_ratio_parameters_are_refused(options) -> None:
    with pytest.raises(ValueError, match="at least"):
        EqualiseRatios(LINEAR, "fairness", **options)


@pytest.mark.parametrize("objective", ["fairness", "ftf", "hierarchical"])
def test_a_burst_of_late_jobs_is_served_one_by_one_to_its_end(objective: str) -> None:
    # All are late, and whoever waits is later by the minute; nobody's start-up is thrown away.
    jobs = [replace(job(f"j{i}"), iterations=20 + i, submission_s=17.0 * i) for i in range(6)]
    policy = make_policy("milp", LINEAR, PolicyOptions(objective=objective, gap=0.0))
    config = ReplayConfig(interval_s=60.0, restart_s=260.0)
    summary = replay(Trace.of("burst", jobs), cluster(1), policy, LINEAR, config).summary
    assert summary["completed"] == 6
    assert summary["restarts_per_job"] == 0


def test_the_cost_of_a_wait_stays_finite_for_large_powers() -> None:
    where = cluster(1)
    objective = EqualiseRatios(LINEAR, "ftf", power=400.0)
    seen = at(where, 90_000.0, JobState(job("a"), restart_s=260.0))
    data = objective.observe(seen)
    (level,) = objective.levels(CandidateBuilder(LINEAR).view(seen).problem, data)
    assert np.isfinite(level.value).all()
    assert level.value.max() > 0


def test_gavel_keeps_its_own_rounds_when_the_engine_decides_more_often() -> None:
    policy = make_policy("gavel:fairness", LINEAR, PolicyOptions())
    where = cluster(1)
    queued = (JobState(job("a")), JobState(job("b")))
    assert counts(policy.decide(at(where, 300.0, *queued)).allocation) == {}
    began = counts(policy.decide(at(where, 360.0, *queued)).allocation)
    assert len(began) == 1
    served = next(iter(began))
    other = {"a": "b", "b": "a"}[served]
    held = Assignment(served, DP, Placement.of({0: [0]}))
    for time_s, expected in ((420.0, served), (660.0, served), (720.0, other)):
        ran_s = time_s - 360.0
        going = JobState(
            job(served),
            iterations_done=ran_s / 8.0,
            running=held,
            attained_gpu_s=ran_s,
            executed_s=ran_s,
            starts=1,
            first_start_s=360.0,
            last_start_s=360.0,
        )
        found = policy.decide(at(where, time_s, going, JobState(job(other)))).allocation
        assert counts(found) == {expected: 1}, time_s
