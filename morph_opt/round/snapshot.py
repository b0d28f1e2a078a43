"""A round as one JSON document: what the cluster is, who runs where, how fast, which rules.

Format ``morph-opt/round-state/1``, documented in ``docs/round.md`` and
``docs/schema/round-state-v1.json``. Reading what was written gives an equal state.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.documents import JSON_BYTES, read_stdin, write_atomically
from morph_opt.documents import read_text as file_text
from morph_opt.domain import Assignment, Cluster, JobState, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.rules import OperatorRules
from morph_opt.rules.spec import to_dict

SCHEMA = "morph-opt/round-state/1"
SPEEDS_SCHEMA = "morph-opt/speeds/1"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A round to decide.

    Parameters
    ----------
    state
        Cluster, jobs, who holds what.
    speeds
        Speeds that the decision goes by.
    rules
        Operator's rules; None without any.
    """

    state: RoundState
    speeds: SpeedModel
    rules: OperatorRules | None = None


def state_to_json(
    state: RoundState, speeds: str | dict[str, Any], rules: OperatorRules | None = None
) -> dict[str, Any]:
    """The document of a round.

    Parameters
    ----------
    state
        What to write.
    speeds
        ``"model"``, ``{"file": ...}`` or ``{"rows": [...]}``; see ``docs/round.md``.
    rules
        Operator's rules.
    """
    document = {
        "schema": SCHEMA,
        "round": state.index,
        "time_s": state.time_s,
        "interval_s": state.interval_s,
        "cluster": cluster_to_json(state),
        "jobs": [_job(known, state.cluster) for known in state.jobs],
        "speeds": speeds,
    }
    if rules is not None:
        document["rules"] = to_dict(rules)
    return document


def cluster_to_json(state: RoundState) -> dict[str, Any]:
    """The cluster with the status of its nodes."""
    cluster = state.cluster
    return {
        "name": cluster.name,
        "gpu_types": [
            {"name": gpu.name, "memory_gib": gpu.memory_gib}
            | _given("price_per_hour", gpu.price_per_hour)
            for gpu in cluster.gpu_types
        ],
        "node_types": [
            {
                "name": kind.name,
                "gpu_type": kind.gpu_type.name,
                "gpus": kind.gpus,
                "cpus": kind.cpus,
                "host_memory_gib": kind.host_memory_gib,
                "nvlink_gb_per_s": kind.nvlink_gb_per_s,
                "rdma_gb_per_s": kind.rdma_gb_per_s,
            }
            for kind in cluster.node_types
        ],
        "nodes": [
            {
                "name": node.name,
                "type": node.type.name,
                "leaf": node.leaf,
                "nvlink_domain": node.nvlink_domain,
                "status": "failed" if i in state.failed
                else "drained" if i in state.unavailable else "up",
            }
            for i, node in enumerate(cluster.nodes)
        ],
        "leaves": [
            {"name": leaf.name, "uplink_gb_per_s": leaf.uplink_gb_per_s} for leaf in cluster.leaves
        ],
    }  # fmt: skip


def _given(name: str, value: float | None) -> dict[str, Any]:
    """A field that is left out where there is no value."""
    return {} if value is None else {name: value}


def _job(known: JobState, cluster: Cluster) -> dict[str, Any]:
    job = known.job
    running: dict[str, Any] | None = None
    if known.running is not None:
        running = _held(known.running, cluster)
        if known.running.partner is not None:
            running["partner"] = known.running.partner
    return {
        "name": job.name,
        "model": job.model,
        "submission_s": job.submission_s,
        "iterations": job.iterations,
        "requested_gpus": job.requested_gpus,
        "requested_plan": job.requested_plan.label,
        "cpus_per_gpu": job.cpus_per_gpu,
        "guaranteed": job.guaranteed,
        "weight": job.weight,
        "tenant": job.tenant,
        **_given("deadline_s", job.deadline_s),
        **_given("feedback_iterations", job.feedback_iterations),
        "iterations_done": known.iterations_done,
        "running": running,
        "restart_left_s": known.restart_left_s,
        "restart_s": known.restart_s,
        "attained_gpu_s": known.attained_gpu_s,
        "executed_s": known.executed_s,
        "queued_s": known.queued_s,
        "starts": known.starts,
        "first_start_s": known.first_start_s,
        "last_start_s": known.last_start_s,
        "last_stop_s": known.last_stop_s,
        "recent_starts_s": list(known.recent_starts_s),
        **_given("resume_s", known.resume_s),
        **_given("migrate_s", known.migrate_s),
        **({} if known.last_held is None else {"last_held": _held(known.last_held, cluster)}),
    }


def _held(held: Assignment, cluster: Cluster) -> dict[str, Any]:
    return {"plan": held.plan.label, "nodes": parts_to_json(held, cluster)}


def parts_to_json(held: Assignment, cluster: Cluster) -> list[dict[str, Any]]:
    """Nodes by name with the GPU indices held on them."""
    return [
        {"node": cluster.nodes[node].name, "gpus": list(gpus)}
        for node, gpus in held.placement.parts
    ]


def to_text(document: dict[str, Any], indent: int | None = None) -> str:
    """The document as text; without an indent one line."""
    compact = (",", ":") if indent is None else None
    text = json.dumps(
        document, ensure_ascii=False, allow_nan=False, indent=indent, separators=compact
    )
    return text + "\n"


def write_document(path: Path, document: dict[str, Any], indent: int | None = None) -> None:
    """Write a document, compressed if the name ends in ``.gz`` (equal input, equal bytes).

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    data = to_text(document, indent).encode()
    packed = gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
    write_atomically(path, packed, durable=False)


def read_text(path: str) -> str:
    """Text of a file, of a compressed file (``.gz``, ``.xz``), or of stdin (``-``).

    Raises
    ------
    InputError
        If it cannot be read or is too large; see `morph_opt.documents`.
    """
    return read_stdin(JSON_BYTES) if path == "-" else file_text(path, JSON_BYTES)
