"""``--artifact-quirks`` in the round engine against the published simulator's own rows."""

from __future__ import annotations

import pytest

from morph_opt.domain import Cluster
from morph_opt.perf.tables.durations import RigidSeconds
from morph_opt.policies.tiresias.artifact import ArtifactQueues
from morph_opt.policies.tiresias.artifact_lists import Quirks
from morph_opt.policies.tiresias.queues import GittinsIndex
from morph_opt.replay.api import replay
from morph_opt.replay.scenario import Scenario
from morph_opt.traces.tiresias import TiresiasRow, read_samples, rigid_node, trace_of
from tests.shares.worlds import fixture

CASES = (
    ("hand6_job", "dlas-gpu-8", 8),
    ("60_job", "dlas-gpu", 16),
    ("60_job", "dlas-gpu-gittins", 60),
)
"""Trace, schedule and GPUs; submissions as published, the first of them at 0."""


@pytest.mark.parametrize(("trace", "schedule", "gpus"), CASES)
def test_every_start_end_and_preemption_is_the_published_one(trace, schedule, gpus, public_data):
    document = fixture("tiresias.json")
    samples = read_samples(public_data / "tiresias" / "yarn-gput1000.csv")
    case = next(
        c
        for c in document["cases"]
        if (c["trace"], c["schedule"], c["cluster"]["total_gpus"]) == (trace, schedule, gpus)
    )
    rows = [
        TiresiasRow(
            str(j["job_id"]), j["model_name"], j["num_gpu"], j["submit_time"], j["duration"]
        )
        for j in document["traces"][trace]
    ]
    assert min(row.submit_s for row in rows) == 0
    speeds = RigidSeconds([(row.model, row.gpus) for row in rows])
    factor = schedule.rpartition("-")[2]
    policy = ArtifactQueues(
        speeds,
        starvation_knob=float(factor) if factor.isdigit() else 0.0,
        index=GittinsIndex.of(samples) if "gittins" in schedule else None,
        quirks=Quirks(True, True),
    )
    scenario = Scenario().replaced(interval_s=1.0, restart_s=0.0, artifact_quirks=True)
    cluster = Cluster.uniform(1, rigid_node(gpus))
    config = scenario.engine_rules
    result = replay(trace_of(rows, name=trace), cluster, policy, speeds, config)
    found = {
        record.job.name: [record.starting_s, record.finish_s, record.preemptions]
        for record in result.history.jobs
    }
    for row in case["reference"]["rows"]:
        assert found[f"job-{row[0]}"] == [row[1], row[2], row[4]]
