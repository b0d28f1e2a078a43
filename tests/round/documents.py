"""Snapshots for tests: one that uses every field, and ways to spoil it."""

from __future__ import annotations

import copy
from typing import Any

DOCUMENT: dict[str, Any] = {
    "schema": "morph-opt/round-state/1",
    "round": 3,
    "time_s": 180.0,
    "interval_s": 60.0,
    "cluster": {
        "name": "two leaves",
        "gpu_types": [{"name": "A800-80GB", "memory_gib": 80.0, "price_per_hour": 2.5}],
        "node_types": [
            {
                "name": "x4",
                "gpu_type": "A800-80GB",
                "gpus": 4,
                "cpus": 16,
                "host_memory_gib": 64.0,
                "nvlink_gb_per_s": 400.0,
                "rdma_gb_per_s": 50.0,
            }
        ],
        "nodes": [
            {"name": "n0", "type": "x4", "leaf": "leaf-0", "nvlink_domain": "r", "status": "up"},
            {
                "name": "n1",
                "type": "x4",
                "leaf": "leaf-0",
                "nvlink_domain": "r",
                "status": "drained",
            },
            {"name": "n2", "type": "x4", "leaf": "b", "nvlink_domain": None, "status": "failed"},
        ],
        "leaves": [{"name": "leaf-0", "uplink_gb_per_s": 100.0}],
    },
    "jobs": [
        {
            "name": "a",
            "model": "m",
            "submission_s": 0.0,
            "iterations": 100,
            "requested_gpus": 2,
            "requested_plan": "dp",
            "cpus_per_gpu": 4,
            "guaranteed": True,
            "weight": 2.0,
            "tenant": "red",
            "deadline_s": 5000.0,
            "iterations_done": 12.5,
            "running": {
                "plan": "dp",
                "nodes": [{"node": "n0", "gpus": [0, 1]}, {"node": "n1", "gpus": [3]}],
            },
            "restart_left_s": 5.0,
            "restart_s": 30.0,
            "attained_gpu_s": 360.0,
            "executed_s": 120.0,
            "queued_s": 60.0,
            "starts": 1,
            "first_start_s": 60.0,
            "last_start_s": 60.0,
            "last_stop_s": None,
            "recent_starts_s": [60.0],
        },
        {
            "name": "b",
            "model": "m",
            "submission_s": 10.0,
            "iterations": 50,
            "requested_gpus": 1,
            "requested_plan": "dp",
            "restart_s": 30.0,
            "migrate_s": 9.0,
            "resume_s": 2.0,
            "last_held": {"plan": "dp", "nodes": [{"node": "n0", "gpus": [1]}]},
        },
    ],
    "speeds": {
        "rows": [
            {
                "model": "m",
                "node_type": "x4",
                "shape": "1",
                "plan": "dp",
                "iteration_s": 8.0,
                "cpus": 1,
                "host_memory_gib": 2.0,
                "rdma_gb_per_s": 3.0,
            },
            {"model": "m", "node_type": "x4", "shape": "2", "plan": "dp", "iteration_s": 4.0},
            {
                "model": "m",
                "node_type": "x4",
                "shape": "2+1",
                "plan": "dp",
                "iteration_s": 3.0,
                "span": "nvlink",
            },
            {"model": "m", "node_type": "x4", "shape": "2+1", "plan": "dp", "iteration_s": 3.5},
        ]
    },
    "rules": {"quota": [{"tenant": "red", "gpus": 8, "borrow_gpus": 0}]},
}


def document() -> dict[str, Any]:
    """A copy that may be changed."""
    return copy.deepcopy(DOCUMENT)


def spoiled(path: str, value: Any) -> dict[str, Any]:
    """A copy with one value replaced, or taken away (``...``), at a path like ``jobs.0.name``."""
    found = document()
    place: Any = found
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return found
