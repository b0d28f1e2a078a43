"""A log of Kueue against Kueue's own rules: its waits, and its evictions by reason."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import Trace
from morph_opt.hindcast.__main__ import main
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.replay.run import replay
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.scheduling.policies.kueue import KueuePolicy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.jobs import JobRow
from tests.kueue.test_policy import queue, site

BEGIN_S = 1_772_352_000
RECLAIMS = {"reclaimWithinCohort": "Any"}


def instant(seconds: float) -> str:
    return datetime.fromtimestamp(BEGIN_S + round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(row: JobRow, tenant: str) -> dict[str, Any]:
    """A finished workload that was evicted as often as the job was preempted."""
    past_s = round(row.held_s) // 2 if row.preemptions else 0
    admitted = instant(row.finish_s - row.held_s + past_s)
    stats = {"reason": "Preempted", "underlyingCause": "InCohortReclamation"}
    conditions = (("Admitted", admitted, ""), ("Finished", instant(row.finish_s), "Succeeded"))
    status: dict[str, Any] = {
        "admission": {"clusterQueue": tenant, "podSetAssignments": []},
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason}
            for kind, at, reason in conditions
        ],
    }
    if row.preemptions:
        status |= {
            "accumulatedPastExecutionTimeSeconds": past_s,
            "schedulingStats": {"evictions": [{**stats, "count": row.preemptions}]},
        }
    asked = {"resources": {"requests": {"nvidia.com/gpu": str(row.gpus)}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [asked]}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "namespace": "ns", "name": row.job, "creationTimestamp": instant(row.submission_s),
        },
        "spec": {"queueName": tenant, "podSets": [pods]},
        "status": status,
    }  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The log of a replay in which the owner of quota ends borrowers, and the site's policy."""
    folder = tmp_path_factory.mktemp("log")
    queues = (queue("alice", 4, preemption=RECLAIMS), queue("bob", 4, preemption=RECLAIMS))
    policy = site(folder, *queues)
    rng = random.Random(2)
    at_s, jobs = 0.0, []
    for number in range(60):
        at_s += rng.randint(20, 400)
        gang = Gang(rng.choice((1, 1, 2, 4)))
        tenant = rng.choice(("alice", "bob"))
        jobs.append(gang.job(f"j{number}", at_s, rng.randint(100, 1_500), tenant))
    speeds = GangTable(Gang(gpus) for gpus in (1, 2, 4))
    decides = KueuePolicy(speeds, KueueSite.read(policy.removeprefix("kueue:")))
    config = ReplayConfig(rounds="events", restart_s=0.0)
    result = replay(Trace.of("toy", jobs), load_cluster("1x8:A800-80GB"), decides, speeds, config)
    assert decides.evictions["Preempted InCohortReclamation"] > 3
    tenants = {job.name: job.tenant for job in jobs}
    items = [workload(row, tenants[row.job]) for row in result.jobs]
    log = folder / "workloads.json"
    log.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return log, policy


def hindcast(log: Path, policy: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    words = [f"kueue:{log}", "--cluster", "1x8:A800-80GB", "--policy", policy, "--quiet"]
    assert main([*words, "--replays", "4", *more]) == 0
    return capsys.readouterr().out


def test_a_log_of_the_same_rules_is_reproduced_with_its_evictions(
    recorded: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(hindcast(*recorded, capsys, "--json"))
    assert found["reproduced"]
    assert found["within"] < 0.05
    evicted = found["evictions"]["Preempted InCohortReclamation"]
    assert evicted["recorded"] > 3
    assert evicted["off"] == pytest.approx(0.0, abs=0.5)
    assert [*found["classes"]] == ["GPUs", "cluster queue"]


def test_other_rules_are_told_apart_and_what_is_not_known_is_named(
    recorded: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log, _ = recorded
    strict = {"preemption": {}, "queueingStrategy": "StrictFIFO", "admissionChecks": ["c"]}
    policy = site(tmp_path, queue("alice", 4, **strict), queue("bob", 4, **strict))
    out = hindcast(log, policy, capsys)
    assert "NOT reproduced" in out
    (line,) = (one for one in out.splitlines() if one.startswith("Preempted"))
    assert [one for one in line.split() if one in ("yes", "no")] == ["no"]
    assert "evicted workloads, replayed as one run with the sum of their waits: " in out
    assert "set in objects of Kueue, not followed: ClusterQueue admissionChecks (alice, bob)" in out
    assert "pods, topologies, memory: no file has Workload objects" in out
    assert "slurm" not in out
