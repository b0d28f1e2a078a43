"""A placement has the row of its own span, holds what that says, or does not exist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.round.decide import RoundDecision, decide_round
from morph_opt.round.reader import parse_snapshot
from tests.round.documents import document

Row = tuple[str, str, float] | tuple[str, str, float, dict[str, Any]]


def decided(
    nodes: list[dict[str, Any]],
    rows: list[Row],
    jobs: dict[str, dict[str, Any]],
    uplink: float = 100.0,
    **rules: Any,
) -> RoundDecision:
    """A round of nodes of 4 GPUs, 16 threads; rows are (model, shape, seconds, other fields)."""
    whole = document()
    kind = whole["cluster"]["node_types"][0]["name"]
    whole["cluster"]["nodes"] = [
        {"name": f"n{i}", "type": kind, **node} for i, node in enumerate(nodes)
    ]
    leaves = {node["leaf"] for node in nodes}
    whole["cluster"]["leaves"] = [
        {"name": leaf, "uplink_gb_per_s": uplink} for leaf in sorted(leaves)
    ]
    past = ("migrate_s", "resume_s", "last_held")  # a first start, or a stay
    queued = {key: value for key, value in whole["jobs"][1].items() if key not in past}
    whole["jobs"] = [
        {**queued, "name": name, "model": name, "restart_s": 0.0, **job}
        for name, job in jobs.items()
    ]
    whole["speeds"] = {
        "rows": [
            {
                "model": model,
                "node_type": kind,
                "shape": shape,
                "plan": "dp",
                "iteration_s": seconds,
                **(more[0] if more else {}),
            }
            for model, shape, seconds, *more in rows
        ]
    }
    whole["rules"] = rules
    return decide_round(parse_snapshot(json.dumps(whole)))


def shown(decision: RoundDecision) -> dict[str, tuple[int, tuple[str, ...], float | None]]:
    """GPUs, nodes and predicted seconds of each job."""
    return {
        job["job"]: (job["gpus"], tuple(p["node"] for p in job["nodes"]), job["iteration_s"])
        for job in decision.to_json()["jobs"]
    }


ONE_LEAF = [{"leaf": "a"}, {"leaf": "a"}, {"leaf": "b", "status": "failed"}]
TWO_LEAVES = [{"leaf": "a"}, {"leaf": "a"}, {"leaf": "b"}]
RACK = [{"leaf": "a", "nvlink_domain": "r"}, {"leaf": "a", "nvlink_domain": "r"}, {"leaf": "a"}]
POD, LEAF, NVLINK = ({"span": word} for word in ("pod", "leaf", "nvlink"))


def on(*nodes: int) -> dict[str, Any]:
    """Runs on two GPUs of each of these nodes."""
    parts = [{"node": f"n{node}", "gpus": [0, 1]} for node in nodes]
    return {"running": {"plan": "dp", "nodes": parts}, "iterations": 1000}


def test_a_pod_row_is_for_two_leaves() -> None:
    rows: list[Row] = [("m", "1", 8.0), ("m", "2+2", 1.0, POD)]
    assert shown(decided(ONE_LEAF, rows, {"m": {}}))["m"] == (1, ("n0",), 8.0)
    gpus, nodes, seconds = shown(decided(TWO_LEAVES, rows, {"m": {}}))["m"]
    assert (gpus, seconds, "n2" in nodes) == (4, 1.0, True)


def test_a_leaf_row_is_for_two_domains() -> None:
    rows: list[Row] = [("m", "1", 8.0), ("m", "2+2", 1.0, LEAF)]
    assert shown(decided(RACK[:2], rows, {"m": {}}))["m"][0] == 1
    gpus, nodes, seconds = shown(decided(RACK, rows, {"m": {}}))["m"]
    assert (gpus, seconds, "n2" in nodes) == (4, 1.0, True)


def test_a_wider_row_that_holds_less_is_not_taken_for_the_tighter_place() -> None:
    """Under one leaf 5 threads per GPU: 2 x 5 = 10 next to 8 of 16; across leaves 1 per GPU."""
    rows: list[Row] = [
        ("m", "2+2", 1.0, {**LEAF, "cpus": 5}), ("m", "2+2", 1.5, {**POD, "cpus": 1}),
        ("w", "2", 1.0, {"cpus": 4}),
    ]  # fmt: skip
    here = decided(TWO_LEAVES, rows, {"m": {}, "w0": {"model": "w"}, "w1": {"model": "w"}})
    gpus, nodes, seconds = shown(here)["m"]
    assert gpus == 4
    assert seconds == (1.5 if "n2" in nodes else 1.0)


@pytest.mark.parametrize("resource", ["cpus", "host_memory_gib", "rdma_gb_per_s"])
def test_a_stay_holds_what_the_row_of_its_span_says(resource: str) -> None:
    """Across leaves it holds 2 x 6 of 16 threads; whoever wants 8 more cannot come next to it."""
    most = {"cpus": 16.0, "host_memory_gib": 64.0, "rdma_gb_per_s": 50.0}[resource]
    # Whole numbers for threads: 3/8 of 16 is 6 per GPU, 12 on the node.
    rows: list[Row] = [
        ("m", "2+2", 1.0, {**NVLINK, resource: 0}),
        ("m", "2+2", 1.2, {**LEAF, resource: 0}),
        ("m", "2+2", 1.4, {**POD, resource: int(most * 3 / 8)}),
        ("w", "2", 1.0, {resource: int(most / 4)}),
    ]
    rack = [{**node, "leaf": "b"} if i == 2 else node for i, node in enumerate(RACK)]
    nodes = [rack[0], {**rack[1], "status": "failed"}, rack[2]]
    jobs = {"m": on(0, 2), "w": {}}
    after = shown(decided(nodes, rows, jobs, non_preemptible=[{"jobs": ["m"]}]))
    assert after["m"] == (4, ("n0", "n2"), 1.4)
    assert after["w"][0] == 0


def test_a_stay_across_leaves_loads_the_uplinks_with_its_own_row() -> None:
    """It has 2 x 4 of 10 GB/s of each uplink; 2 x 2 more do not fit, 2 x 1 do."""
    for share, gpus in ((2.0, 1), (1.0, 4)):
        rows: list[Row] = [
            ("m", "2+2", 1.0, {**NVLINK, "rdma_gb_per_s": 0.0}),
            ("m", "2+2", 1.2, {"rdma_gb_per_s": 4.0}),
            ("w", "1", 9.0), ("w", "2+2", 1.0, {**POD, "rdma_gb_per_s": share}),
        ]  # fmt: skip
        rack = [{**RACK[0]}, {**RACK[1], "status": "drained"}, {"leaf": "b"}]
        after = decided(
            rack, rows, {"m": on(0, 2), "w": {}}, 10.0, non_preemptible=[{"jobs": ["m"]}]
        )
        assert shown(after)["m"] == (4, ("n0", "n2"), 1.2)
        assert shown(after)["w"][0] == gpus


def test_running_job_without_a_row_in_the_belief_is_moved() -> None:
    rows: list[Row] = [("m", "1", 8.0), ("m", "2+2", 1.0, POD)]
    after = shown(decided(ONE_LEAF, rows, {"m": on(0, 1)}))
    assert after["m"] == (1, ("n0",), 8.0)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("m", "1+1", 0.5, LEAF), ("m", "1+1", 0.1, POD)], "0.1 s for span pod and 0.5 s for"),
        ([("m", "1+1", 0.5, NVLINK), ("m", "1+1", 0.1)], "span leaf and 0.5 s for nvlink"),
        ([("m", "1+1", 0.5), ("m", "1+1", 0.4, POD)], "span pod and 0.5 s for leaf"),
        ([("m", "1+1", 0.5, NVLINK), ("m", "1+1", 0.4, POD)], "span pod and 0.5 s for nvlink"),
    ],
)
def test_rows_that_get_faster_with_distance_are_refused(rows: list[Row], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        decided(TWO_LEAVES, rows, {"m": {}})
    assert (caught.value.file, caught.value.field) == ("state", "speeds.rows")


def test_more_start_up_than_a_start_is_refused() -> None:
    with pytest.raises(InputError, match="at most restart_s = 0") as caught:
        decided(TWO_LEAVES, [("m", "2+2", 1.0)], {"m": {**on(0, 2), "restart_left_s": 1.0}})
    assert caught.value.field == "jobs[0].restart_left_s"


@pytest.mark.parametrize(
    ("recent", "moved"),
    [([60.0], True), ([], True), ([120.0], False), ([60.0, 120.0], False)],
)
def test_the_first_start_of_all_never_counts(recent: list[float], moved: bool) -> None:
    """First start at 60 s; one restart an hour is allowed, and only 120 s was one."""
    rows: list[Row] = [("m", "2+2", 1.0), ("m", "4", 0.1)]
    job = {**on(0, 2), "first_start_s": 60.0, "recent_starts_s": recent}
    after = shown(decided(TWO_LEAVES, rows, {"m": job}, restart_limit=[{"per_hour": 1}]))
    assert (after["m"][0], after["m"][2]) == (4, 0.1 if moved else 1.0)
