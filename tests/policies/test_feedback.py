"""Objective ``feedback``: its levels by hand and against brute force, its cap, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.objectives import feedback
from formulations.objectives.feedback import Turns
from formulations.round.check import check
from morph_opt.core.domain import (
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang, GangTable
from morph_opt.inputs.traces.tiresias import rigid_node
from morph_opt.replay.cli import main
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.rules.model import GangLimit, OperatorRules
from morph_opt.scheduling.policies.objectives.feedback import Feedback, _hurried
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import OBJECTIVES, make_objective, make_policy
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, SMALL, random_round
from tests.formulations.worlds.solving import EXACT, FORMULATIONS
from tests.policies import worlds
from tests.policies.worlds import cluster, counts, job, speeds

SPEEDS = GangTable(Gang(gpus, "m") for gpus in (1, 2, 4))


def gang(name: str, gpus: int = 1, work: int = 3600, **more: int) -> Job:
    return replace(Gang(gpus, "m").job(name, 0.0, work), **more)  # type: ignore[arg-type]


def round_of(*jobs: JobState, nodes: int = 1, time_s: float = 600.0) -> RoundState:
    return RoundState(9, time_s, 60.0, Cluster.uniform(nodes, rigid_node(4)), jobs)


def test_levels_by_hand() -> None:
    """Interval 60 s; shares: 4 GPUs of 8 asked for, so half of the time for each."""
    # r + f = 20 + 100, 60 / 120; r + f = 20 + 30 is within a round; who has reported is worth 0
    soon = feedback.soon(60.0, np.full(3, 20.0), np.asarray([100.0, 30.0, 0.0]))
    assert soon.tolist() == [0.5, 1.0, 0.0]
    # half of 600 s is 300 s: 300, 180 and -100 s behind, in rounds, plus one
    weight = feedback.turn_weights(
        4.0, np.asarray([4.0, 3.0, 1.0]), np.full(3, 600.0), np.asarray([0.0, 120.0, 400.0]), 60.0
    )
    assert weight.tolist() == [6.0, 4.0, 1.0]
    # a start-up of 15 s leaves three quarters of the round, one of 90 s nothing
    assert feedback.turn(60.0, np.asarray([15.0, 90.0]), weight[:2]).tolist() == [4.5, 0.0]


def test_feedback_observes_turns_and_remaining_work() -> None:
    told = gang("told", feedback_iterations=500)
    state = round_of(
        JobState(told, 200.0, executed_s=200.0),
        JobState(gang("mute")),
        JobState(gang("short", work=40)),
        JobState(gang("done"), 100.0, executed_s=100.0),
    )
    turns, _ = Feedback(SPEEDS).observe(state)
    # by name: reported at 100; 100 where nobody says; a whole job of 40; 300 of 500 left
    assert turns.feedback_left_s.tolist() == [0.0, 100.0, 40.0, 300.0]
    assert turns.weight.tolist() == [500 / 60 + 1, 11.0, 11.0, (600 - 200) / 60 + 1]


def test_feedback_share_favours_the_shortest_jobs_that_fit() -> None:
    left, asked = np.asarray([50.0, 10.0, 30.0, 0.0]), np.asarray([4.0, 2.0, 2.0, 1.0])
    assert _hurried(left, asked, 8.0).tolist() == [50.0, 10.0, 30.0, 0.0]
    assert _hurried(left, asked, 4.0).tolist() == [0.0, 10.0, 30.0, 0.0]
    assert _hurried(left, asked, 1.0).tolist() == [0.0, 10.0, 0.0, 0.0]  # one at least


@pytest.mark.parametrize("block", range(2))
def test_both_formulations_and_brute_force_agree(block: int) -> None:
    for i in range(8):
        draw = np.random.default_rng((block, i, 23))
        problem = random_round(draw, EVERYTHING if block else SMALL)
        jobs = problem.jobs.count
        turns = Turns(
            draw.choice([0.0, 30.0, 400.0], jobs), draw.integers(1, 9, jobs).astype(float)
        )
        levels = [
            feedback.feedback_level(problem, turns),
            feedback.turn_level(problem, turns),
            feedback.work_level(problem),
        ]
        best = oracle.best(problem, levels)
        for formulation in FORMULATIONS:
            # Ranks hold up to a slack, which a bound may use and a decision may not.
            found = RoundSolver(HighsSolver(), EXACT, formulation).ranked(problem, levels).selection
            assert found is not None
            check(problem, found)
            for level in levels:
                assert found.value(level) == pytest.approx(best.value(level), rel=1e-5, abs=1e-9)


def _running(job: Job, node: int, *gpus: int) -> Assignment:
    return Assignment(job.name, RIGID_PLAN, Placement.of({node: gpus}))


@pytest.mark.parametrize("name", ["feedback", "feedback,jct", "feedback,las"])
def test_job_without_a_report_runs_first(name: str) -> None:
    """Four GPUs held by a job that has reported; one that has not comes, and takes its turn."""
    old, new = gang("old", 4), gang("new", 1)
    held = JobState(
        old,
        500.0,
        _running(old, 0, 0, 1, 2, 3),
        0.0,
        20.0,
        executed_s=500.0,
        starts=1,
        first_start_s=60.0,
        last_start_s=60.0,
        migrate_s=5.0,
        resume_s=1.0,
    )
    state = round_of(held, JobState(new, restart_s=20.0))
    policy = make_policy("milp", SPEEDS, PolicyOptions(objective=name))
    (granted,) = policy.decide(state).allocation.assignments
    assert granted.job == "new"
    # Nobody is hurried where no GPU may be used for it: equal turns then, or another goal.
    assert make_objective(name, SPEEDS).levels is not None
    assert OBJECTIVES[name].slices


@pytest.mark.parametrize("name", ["feedback", "feedback,jct", "feedback,las"])
def test_gpu_counts_may_change_and_a_gang_limit_keeps_them(name: str) -> None:
    """Alone on four GPUs a job that asked for one gets all, three times as fast; held to one, one.

    Two that have not reported, 100 s from it: one on four GPUs counts 60 / 100 times 10 / 3, both
    on one each twice 60 / 100.
    """
    belief = speeds({"m": {"1": 1.0, "4": 0.3}})
    plain = PolicyOptions(objective=name)
    held = replace(plain, rules=OperatorRules((GangLimit(("*",), most=1),)))

    def decided(options: PolicyOptions, *names: str) -> list[int]:
        asked = [JobState(job(each, 1, iterations=100)) for each in names]
        found = make_policy("milp", belief, options).decide(worlds.state(cluster(4), *asked))
        return sorted(counts(found.allocation).values())

    assert decided(plain, "a") == [4]
    assert decided(held, "a") == [1]
    assert decided(plain, "a", "b") == [4]
    assert decided(held, "a", "b") == [1, 1]


def test_a_job_comes_back_to_its_node_and_not_to_another() -> None:
    """Both nodes are free; back costs 1 s and anywhere else 5 s."""
    job = gang("a", 2)
    for node in (0, 1):
        known = JobState(
            job,
            500.0,
            restart_s=20.0,
            executed_s=500.0,
            starts=1,
            first_start_s=60.0,
            last_start_s=60.0,
            last_stop_s=540.0,
            migrate_s=5.0,
            resume_s=1.0,
            last_held=_running(job, node, 2, 3),
        )
        for formulation in FORMULATIONS:
            options = PolicyOptions(objective="feedback", formulation=formulation, gap=0.0)
            policy = make_policy("milp", SPEEDS, options)
            (granted,) = policy.decide(round_of(known, nodes=2)).allocation.assignments
            assert granted.placement.parts == ((node, (0, 1)),)


def test_restarts_as_long_as_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--trace", "search-twin/16", "--objective", "feedback"]
    assert main([*words, "--restart-s", "60"]) == 2
    told = capsys.readouterr().err
    assert told == ("error: --restart-s: must be below the round of 60 s for time slices, got 60\n")
    with pytest.raises(InputError, match="feedback_share"):
        make_policy("milp", SPEEDS, PolicyOptions(objective="jct", feedback_share=0.5))
