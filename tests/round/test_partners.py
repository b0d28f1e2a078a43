"""Two jobs on the same GPUs in a snapshot: read where they name each other, else refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.policies.registry import PolicyOptions


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            ("one", "partner", "three"),
            "names three as its partner",
        ),
        (("two", "running", None), r"jobs\[0\].running.partner: names two as its partner, which"),
        (
            ("one", "nodes", [{"node": "n", "gpus": [1]}]),
            "hold the same GPUs as its partner two",
        ),
        (("speeds", "pairs", []), "a cannot share GPUs with b"),
        (("one", "partner", None), r"jobs\[1\].running.partner: names one as its partner"),
    ],
)
def test_partners_that_are_none_are_refused(change: tuple[str, str, object], rule: str) -> None:
    """Two jobs on one GPU, each naming the other, at speeds that are listed: then it is read."""
    kinds = {
        "gpu_types": [{"name": "G", "memory_gib": 80}],
        "node_types": [{
            "name": "t", "gpu_type": "G", "gpus": 2, "cpus": 8, "host_memory_gib": 64,
            "nvlink_gb_per_s": 100, "rdma_gb_per_s": 10,
        }],
        "nodes": [{"name": "n", "type": "t"}],
    }  # fmt: skip
    row = {"node_type": "t", "shape": "1", "iteration_s": 1.0, "plan": "dp"}
    pair = {
        "models": ["a", "b"], "plans": ["dp", "dp"], "node_type": "t", "shape": "1",
        "iteration_s": [1.2, 1.5],
    }  # fmt: skip

    def job(name: str, model: str, partner: str) -> dict[str, Any]:
        held = {"plan": "dp", "nodes": [{"node": "n", "gpus": [0]}], "partner": partner}
        return {
            "name": name,
            "model": model,
            "submission_s": 0,
            "iterations": 100,
            "requested_gpus": 1,
            "requested_plan": "dp",
            "restart_s": 10,
            "running": held,
        }

    document: dict[str, Any] = {
        "schema": "morph-opt/round-state/1",
        "round": 1,
        "time_s": 60,
        "interval_s": 60,
        "cluster": kinds,
        "jobs": [job("one", "a", "two"), job("two", "b", "one")],
        "speeds": {"rows": [row | {"model": "a"}, row | {"model": "b"}], "pairs": [pair]},
    }
    snapshot = parse_snapshot(json.dumps(document))
    assert [k.running and k.running.partner for k in snapshot.state.jobs] == ["two", "one"]
    decided = decide_round(snapshot, PolicyOptions(packing=True)).to_json()
    assert all(found["action"] != "queue" for found in decided["jobs"])
    where, field, value = change
    if where == "speeds":
        document["speeds"][field] = value
    elif where == "two":
        document["jobs"][1][field] = value
    else:
        document["jobs"][0]["running"][field] = value
    with pytest.raises(InputError, match=rule):
        parse_snapshot(json.dumps(document))
