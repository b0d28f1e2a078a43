"""Random snapshots with every feature against enumeration, and changed ones against themselves.

The long run is ``make oracle``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.campaigns import blocks
from tests.round.compare import MAKERS, decided, differences, drawn, features
from tests.round.enumeration import World
from tests.round.metamorphic import CHANGES, violations

SEED, BLOCKS, ROUNDS_PER_BLOCK = 20, blocks(1), 50


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_engine_decides_as_enumeration_does(block: int) -> None:
    for number in range(block * ROUNDS_PER_BLOCK, (block + 1) * ROUNDS_PER_BLOCK):
        assert list(differences(*drawn(SEED, number))) == [], number


@pytest.mark.parametrize("block", range(2))
def test_promises_are_of_placements_that_the_empty_cluster_has(block: int) -> None:
    seen: Counter[object] = Counter()
    for number in range(block * 40, (block + 1) * 40):
        document, objective = drawn(SEED, number, MAKERS["requests"])
        assert list(differences(document, objective)) == [], number
        seen.update(features(document))
        best = World(document).best(objective)
        assert best is not None
        seen[best.promised] += 1
    rare = [True, False, "request whose fastest row has no place", "request without a place"]
    assert all(seen[word] >= 5 for word in rare), seen


@pytest.mark.parametrize("block", range(blocks(1)))
def test_local_ssd_is_held_on_every_node_that_a_job_uses(block: int) -> None:
    decides = 0
    for number in range(block * 30, (block + 1) * 30):
        document, objective = drawn(SEED, number, MAKERS["local-ssd"])
        assert list(differences(document, objective)) == [], number
        best = World(document).best(objective)
        for kind in document["cluster"]["node_types"]:
            kind["local_ssd_gib"] = 1e6
        decides += World(document).best(objective) != best
    assert decides >= 5


@pytest.mark.parametrize("block", range(1))
def test_irrelevant_changes_keep_the_decision(block: int) -> None:
    tried: Counter[str] = Counter()
    for number in range(block * 16, (block + 1) * 16):
        for name, wrong in violations(SEED + 1, number):
            assert not wrong
            tried[name] += 1
    assert set(tried) == set(CHANGES)


def test_random_snapshots_have_every_feature() -> None:
    seen: Counter[str] = Counter()
    answers: Counter[object] = Counter()
    for number in range(300):
        document, objective = drawn(SEED, number)
        seen.update(features(document))
        best = World(document).best(objective)
        answers["contradiction" if best is None else best.promised] += 1
    assert len([word for word in seen if word.startswith("rule ")]) == 7
    assert {f"runs in a {span}" for span in ("node", "nvlink", "leaf", "pod")} <= set(seen)
    assert min(seen.values()) >= 5, seen
    assert min(answers.values()) >= 10, answers
    assert set(answers) == {"contradiction", None, True, False}


def test_enumeration_by_hand() -> None:
    """Two nodes of 4 GPUs in two leaves; 2+2 across at 0.5 s, 1 GPU at 2 s, asked for 1 GPU.

    Throughput of 2+2: 2 s / 0.5 s = 4, with a restart of 60 s in a round of 60 s half of that.
    """
    kind = {
        "name": "x",
        "gpu_type": "G",
        "gpus": 4,
        "cpus": 8,
        "host_memory_gib": 8,
        "nvlink_gb_per_s": 1,
        "rdma_gb_per_s": 9,
    }
    row = {"model": "m", "node_type": "x", "plan": "dp"}
    document = {
        "schema": "morph-opt/round-state/1",
        "round": 0,
        "time_s": 0.0,
        "interval_s": 60.0,
        "cluster": {
            "gpu_types": [{"name": "G", "memory_gib": 80}],
            "node_types": [kind],
            "nodes": [{"name": f"n{i}", "type": "x", "leaf": f"l{i}"} for i in range(2)],
            "leaves": [{"name": "l0", "uplink_gb_per_s": 4.0}],
        },
        "jobs": [
            {
                "name": "j",
                "model": "m",
                "submission_s": 0.0,
                "iterations": 1000,
                "guaranteed": False,
                "requested_gpus": 1,
                "requested_plan": "dp",
                "restart_s": 60.0,
            }
        ],
        "speeds": {
            "rows": [
                {**row, "shape": "1", "iteration_s": 2.0},
                {**row, "shape": "2+2", "iteration_s": 0.5, "span": "pod", "rdma_gb_per_s": 2.0},
            ]
        },
    }
    best = World(document).best("throughput")
    assert best is not None
    assert best.value == (2.0, 2.0)
    # 2 GPUs at 2 GB/s are the 4 of the uplink; at 3.9 the job has one GPU: 1 x 60 / 120.
    document["cluster"]["leaves"][0]["uplink_gb_per_s"] = 3.9  # type: ignore[index]
    best = World(document).best("throughput")
    assert best is not None
    assert best.value == (0.5, 0.5)
    found = decided(document, "throughput")
    assert found is not None
    assert found.decision.report.objective == pytest.approx(0.5)
