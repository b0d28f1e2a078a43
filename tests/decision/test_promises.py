"""A promise is the speed of a placement that the empty cluster has; the cases are the smallest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from morph_opt.round.decide import RoundDecision, decide_round
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.policies.options import PolicyOptions

Fields = dict[str, Any]


def decided(
    nodes: list[Fields], rows: list[Fields], jobs: dict[str, Fields], **options: Any
) -> RoundDecision:
    """Nodes of 4 GPUs and 8 threads, of types ``x`` and ``y``; jobs that start at once."""
    kind = {"gpus": 4, "cpus": 8, "host_memory_gib": 32, "nvlink_gb_per_s": 9, "rdma_gb_per_s": 16}
    document = {
        "schema": "morph-opt/round-state/1",
        "round": 0,
        "time_s": 0.0,
        "interval_s": 60.0,
        "cluster": {
            "gpu_types": [{"name": name, "memory_gib": 80} for name in ("X", "Y")],
            "node_types": [{"name": name, "gpu_type": name.upper(), **kind} for name in "xy"],
            "nodes": [{"name": f"n{i}", "type": "x", **node} for i, node in enumerate(nodes)],
            "leaves": [{"name": "a", "uplink_gb_per_s": 6.0}],
        },
        "jobs": [
            {
                "name": name,
                "submission_s": 0.0,
                "iterations": 5000,
                "requested_plan": "dp",
                "restart_s": 0.0,
                "model": "m",
                "guaranteed": True,
                **job,
            }
            for name, job in jobs.items()
        ],
        "speeds": {"rows": [{"model": "m", "node_type": "x", "plan": "dp", **row} for row in rows]},
    }
    options = {"gap": 0.0, **options}
    options = {"objective": "throughput", **options}
    return decide_round(parse_snapshot(json.dumps(document)), PolicyOptions(**options))


A, B = {"leaf": "a"}, {"leaf": "b"}
RACK = {"leaf": "a", "nvlink_domain": "r"}
OTHER = {**B, "type": "y"}
FAST, SLOW = {"iteration_s": 1.0}, {"iteration_s": 3.0}
LEAF, POD = {"span": "leaf"}, {"span": "pod"}
TWO, FOUR, EIGHT = ({"requested_gpus": gpus} for gpus in (2, 4, 8))


@pytest.mark.parametrize(
    ("nodes", "fast", "slow", "asked"),
    [
        # No leaf is wide enough.
        ([A, B], {"shape": "4+4", **LEAF}, {"shape": "4+4", **POD}, EIGHT),
        # All nodes of the leaf are in one NVLink domain, of which the row is not.
        ([RACK, RACK, B], {"shape": "4+4", **LEAF}, {"shape": "4+4", **POD}, EIGHT),
        # 4 x 3 threads of 8, 4 x 9 GiB of 32, 4 x 5 GB/s of 16.
        ([A, A, B], {"shape": "4", "cpus": 3}, {"shape": "2+2"}, FOUR),
        ([A, A, B], {"shape": "4", "host_memory_gib": 9}, {"shape": "3+1"}, FOUR),
        ([A, A, B], {"shape": "4+4", "rdma_gb_per_s": 5}, {"shape": "3+3+2"}, EIGHT),
        # The faster type does not have the threads, or is not there as often.
        ([A, OTHER], {"shape": "4", "cpus": 3}, {"shape": "4", "node_type": "y"}, FOUR),
        ([A, OTHER], {"shape": "2+2"}, {"shape": "4", "node_type": "y"}, FOUR),
        # The uplink of leaf a carries 6 GB/s of the 8.
        ([A, B], {"shape": "2+2", "rdma_gb_per_s": 4, **POD}, {"shape": "4"}, FOUR),
    ],
)
def test_a_row_without_a_place_is_no_promise(
    nodes: list[Fields], fast: Fields, slow: Fields, asked: Fields
) -> None:
    rows = [{**fast, **FAST}, {**slow, **SLOW}]
    report = decided(nodes, rows, {"j": asked}).decision.report
    assert (report.guarantees_possible, report.guarantees_short) == (True, 0)
    assert report.objective == pytest.approx(1.0)


def test_the_fastest_placement_counts_where_several_have_a_place() -> None:
    """Spread out it is faster here: one node is not what was promised."""
    rows = [{"shape": "4", **SLOW}, {"shape": "2+2", **FAST}]
    found = decided([A, A], rows, {"j": FOUR})
    assert found.decision.report.guarantees_possible is True
    assert found.decision.allocation.assignments[0].placement.shape.label == "2+2"
    blocked = decided([A, {**A, "status": "drained"}], rows, {"j": FOUR})
    # An outage is no news about what was promised.
    assert blocked.decision.report.guarantees_possible is False
    assert blocked.decision.report.guarantee_shortfall == pytest.approx(2 / 3)


def test_unplaceable_promise_does_not_weaken_other_promises() -> None:
    """By weight the short job without a promise would run in the place of the long one with one."""
    rows = [
        {"shape": "4+4", **FAST, **LEAF}, {"shape": "4+4", **SLOW, **POD},
        {"shape": "4", "model": "s", **FAST},
    ]  # fmt: skip
    small, other = {"model": "s", **FOUR}, {"model": "s", "guaranteed": False, "iterations": 100}
    jobs = {"wide": EIGHT, "small": small, "other": {**FOUR, **other}}
    found = decided([A, B, B], rows, jobs, objective="jct", promises="weight")
    assert found.decision.report.guarantees_possible is True
    assert set(found.decision.allocation.by_job()) == {"wide", "small"}
