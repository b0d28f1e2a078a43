"""Why a job waits, by the rules of batch schedulers: of a round, and of a run afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError
from morph_opt.explain.why import why
from morph_opt.scheduling.backfill.reasons import duration
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

EXAMPLE = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"
WEIGHTED = """
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=100
NodeName=n0,n1
PartitionName=all Nodes=ALL
"""


def state(**limits_s: float) -> dict[str, Any]:
    """Return two nodes of 4 GPUs: alice runs on one, bob waits for both, two more wait."""
    given: dict[str, Any] = json.loads(EXAMPLE.read_text())
    del given["rules"]
    usual = {"alice-1": 3_600.0, "bob-1": 3_600.0, "bob-2": 7_200.0, "carol-1": 1_800.0}
    gpus = {"alice-1": 4, "bob-1": 8, "bob-2": 1, "carol-1": 2}
    for job in given["jobs"]:
        job["time_limit_s"] = limits_s.get(job["name"], usual[job["name"]])
        job["requested_gpus"] = gpus[job["name"]]
    return given


@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm"])
def test_a_waiting_job_has_its_place_its_nodes_and_its_plan(policy: str) -> None:
    found = mo.decide(state(), policy=policy)
    assert (
        found.why("alice-1") == "alice-1: runs on, as no job is stopped; its limit ends in 60 min"
    )
    assert found.why("carol-1") == "carol-1: starts; its limit ends in 30 min"
    assert found.why("bob-1") == (
        "bob-1: waits; place 1 of 2 in the queue; asks for 2 nodes with 4 GPUs each, and 0 of the "
        "2 nodes that may hold it have them free; planned to start in 60 min on n0 n1, by the "
        "limits of running jobs (alice-1 ends within 60 min)"
    )
    in_the_way = "by its limit it would run for 2 h, and nodes are reserved: n1 for bob-1 in 60 min"
    assert in_the_way in found.why("bob-2")


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ("easy", "no planned start: under EASY only the first blocked job has one"),
        ("easy:sjbf", "; the others start by time limit, the shortest first"),
        ("conservative", "planned to start in 2 h on n0, by the limits of running jobs "
         "(alice-1 ends within 60 min)"),
        ("slurm", "planned to start in 2 h on n1"),
    ],
)  # fmt: skip
def test_the_second_blocked_job_is_planned_by_the_rules_of_its_policy(
    policy: str, end: str
) -> None:
    assert mo.decide(state(), policy=policy).why("bob-2").endswith(end)


def slurm(tmp_path: Path, text: str) -> str:
    (tmp_path / "slurm.conf").write_text(text)
    return f"slurm:{tmp_path / 'slurm.conf'}"


def test_priorities_are_stated_by_factor(tmp_path: Path) -> None:
    told = mo.decide(state(), policy=slurm(tmp_path, WEIGHTED)).why("bob-1")
    assert "place 1 of 2 in the queue (priority 100: job size 100)" in told


@pytest.mark.parametrize(
    ("parameters", "job", "rule"),
    [
        ("SchedulerType=sched/builtin", "bob-1", "the first of its partition that cannot start"),
        ("SchedulerType=sched/builtin", "carol-1", "sched/builtin looks at no job after bob-1"),
        (
            "SchedulerParameters=bf_max_job_test=1",
            "bob-2",
            "looks at the first job only (bf_max_job_test)",
        ),
        ("SchedulerParameters=bf_window=30", "bob-1", "no planned start within bf_window (30 min)"),
    ],
)
def test_limits_of_a_cycle_are_named(tmp_path: Path, parameters: str, job: str, rule: str) -> None:
    assert rule in mo.decide(state(), policy=slurm(tmp_path, parameters)).why(job)


def test_a_job_kept_back_by_a_rule_is_told_so() -> None:
    given = state()
    given["rules"] = {"quota": [{"tenant": "carol", "gpus": 0}]}
    told = mo.decide(given, policy="easy").why("carol-1")
    assert told == "carol-1: waits; the policy would start it, and a rule is in the way"


def test_an_unknown_job_and_a_policy_without_reasons_are_refused() -> None:
    with pytest.raises(InputError, match="the round has no job 'bob-3'"):
        mo.decide(state(), policy="easy").why("bob-3")
    with pytest.raises(InputError, match=r"explains milp, easy, .* not 'fifo'"):
        mo.decide(state(), policy="fifo").why("bob-1")


@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm"])
def test_a_run_is_explained_as_it_was_decided(policy: str, tmp_path: Path) -> None:
    run = mo.Scenario(
        "tests.engine.toys:trace/12",
        "1x4",
        scheduler=Scheduler(policy, durations="limits:exact"),
        engine=ReplayConfig(rounds="events"),
    ).run(out=tmp_path / "r")
    longest = max(run.jobs, key=lambda row: row.queued_s)
    first, *_, last = why(tmp_path / "r", longest.job, rounds=3)
    assert first.startswith(f"{longest.job} was queued from ")
    assert f"{longest.job}: waits; place " in last
    assert run.why(longest.job, longest.submission_s).startswith("at ")


def test_durations_have_the_unit_of_their_length() -> None:
    assert [duration(s) for s in (-1.0, 40.0, 750.0, 11_700.0)] == [
        "0 s", "40 s", "12.5 min", "3.25 h"
    ]  # fmt: skip
