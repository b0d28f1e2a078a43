"""Small states of equal nodes, for tests of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from morph_opt.round.decide import snapshot_of
from morph_opt.round.snapshot import Snapshot

Held = Mapping[str, Mapping[str, int]]

HELD: Held = {
    "a4": {"n1": 4}, "a2": {"n1": 2}, "a1": {"n1": 1},
    "b4": {"n2": 4}, "b2": {"n2": 2},
    "c4": {"n3": 4}, "c2": {"n3": 2}, "c1": {"n3": 1},
}  # fmt: skip
"""Three nodes of 8 with 7, 6 and 7 GPUs in use: a job of 4 fits after two moves, not after one."""


def document(
    held: Held,
    waiting: Mapping[str, int] | None = None,
    nodes: int | Sequence[Mapping[str, Any]] = 3,
    gpus: int = 8,
    rules: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a state: GPUs by node of each running job, and GPUs of each waiting one.

    Jobs take the lowest GPUs that are free, restart in 30 s, and complete after 7,200 s more.
    """
    listed = (
        [{"name": f"n{at}", "type": "x"} for at in range(1, nodes + 1)]
        if isinstance(nodes, int)
        else list(nodes)
    )
    used: dict[str, int] = {}
    jobs = []
    shapes: dict[str, str] = {}
    for name, parts in held.items():
        where = []
        for node, count in parts.items():
            first = used.get(node, 0)
            used[node] = first + count
            where.append({"node": node, "gpus": list(range(first, first + count))})
        shapes[name] = "+".join(map(str, sorted(parts.values(), reverse=True)))
        jobs.append(
            _job(name, sum(parts.values()))
            | {"executed_s": 500, "running": {"plan": "dp", "nodes": where}}
        )
    for name, count in (waiting or {}).items():
        whole, rest = divmod(count, gpus)
        shapes[name] = "+".join(map(str, [gpus] * whole + [rest] * bool(rest)))
        jobs.append(_job(name, count))
    speed = {"node_type": "x", "plan": "dp", "iteration_s": 1.0}
    return {
        "schema": "morph-opt/round-state/1", "round": 10, "time_s": 600, "interval_s": 60,
        "cluster": {
            "gpu_types": [{"name": "A100-40GB", "memory_gib": 40}],
            "node_types": [{
                "name": "x", "gpu_type": "A100-40GB", "gpus": gpus, "cpus": 96,
                "host_memory_gib": 1600, "nvlink_gb_per_s": 400, "rdma_gb_per_s": 50,
            }],
            "nodes": listed,
        },
        "jobs": jobs,
        "speeds": {"rows": [{"model": name, "shape": s, **speed} for name, s in shapes.items()]},
        **({} if rules is None else {"rules": rules}),
        **more,
    }  # fmt: skip


def _job(name: str, gpus: int) -> dict[str, Any]:
    return {
        "name": name, "model": name, "submission_s": 0, "iterations": 7200, "requested_gpus": gpus,
        "requested_plan": "dp", "restart_s": 30,
    }  # fmt: skip


def snapshot(*arguments: Any, **more: Any) -> Snapshot:
    """Return such a state as a snapshot."""
    return snapshot_of(document(*arguments, **more))
