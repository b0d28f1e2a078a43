"""A round as one JSON document: cluster, jobs, speeds and rules.

Format ``morph-opt/round-state/1``, documented in ``docs/round.md`` and
``docs/schema/round-state-v1.json``. Reading what was written gives an equal state.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulations.resources import OPTIONAL
from morph_opt.core.documents import JSON_BYTES, plain, read_stdin, write_atomically
from morph_opt.core.documents import read_text as file_text
from morph_opt.core.domain import Assignment, Cluster, JobState, RoundState
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.job import QUEUED
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.spec import to_dict

SCHEMA = "morph-opt/round-state/1"
SPEEDS_SCHEMA = "morph-opt/speeds/1"


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """A round to decide.

    Parameters
    ----------
    state
        Cluster, jobs, and the GPUs that they hold.
    speeds
        Believed speeds.
    rules
        Operator's rules; None without any.
    """

    state: RoundState
    speeds: SpeedModel
    rules: OperatorRules | None = None

    def __post_init__(self) -> None:
        require_type("state", self.state, RoundState)

    def __repr__(self) -> str:
        state = self.state
        return f"<Snapshot at {state.time_s:g} s: {len(state.jobs)} jobs on {state.cluster!r}>"


def state_to_json(
    state: RoundState, speeds: str | dict[str, Any], rules: OperatorRules | None = None
) -> dict[str, Any]:
    """Return the document of a round.

    Parameters
    ----------
    state
        State to write.
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
    """Return the cluster with the status of its nodes."""
    cluster = state.cluster
    down = dict.fromkeys(state.unavailable, "drained") | dict.fromkeys(state.failed, "failed")
    return {
        "name": cluster.name,
        "gpu_types": [plain(gpu, optional=("price_per_hour",)) for gpu in cluster.gpu_types],
        "node_types": [
            plain(kind, optional=OPTIONAL, gpu_type=kind.gpu_type.name)
            for kind in cluster.node_types
        ],
        "nodes": [
            plain(node, type=node.type.name) | {"status": down.get(i, "up")}
            for i, node in enumerate(cluster.nodes)
        ],
        "leaves": [plain(leaf) for leaf in cluster.leaves],
    }


_OPTIONAL = (
    "deadline_s",
    "feedback_iterations",
    "resume_s",
    "migrate_s",
    "last_held",
    "checkpointed_s",
    "checkpoint_s",
    "planned_s",
    "promised_s",
    *OPTIONAL,
    *QUEUED,
)
"""Fields of a job that are left out at their default."""


def _job(known: JobState, cluster: Cluster) -> dict[str, Any]:
    held = {
        name: None if one is None else _held(one, cluster)
        for name, one in (("running", known.running), ("last_held", known.last_held))
    }
    return plain(known.job, optional=_OPTIONAL) | plain(known, "job", optional=_OPTIONAL, **held)


def _held(held: Assignment, cluster: Cluster) -> dict[str, Any]:
    found = {"plan": held.plan.label, "nodes": parts_to_json(held, cluster)}
    return found if held.partner is None else found | {"partner": held.partner}


def parts_to_json(held: Assignment, cluster: Cluster) -> list[dict[str, Any]]:
    """Return nodes by name with the GPU indices held on them."""
    return [
        {"node": cluster.nodes[node].name, "gpus": list(gpus)}
        for node, gpus in held.placement.parts
    ]


def to_text(document: dict[str, Any], indent: int | None = None) -> str:
    """Format the document; without an indent in one line."""
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
    """Read the text of a file, of a compressed file (``.gz``, ``.xz``), or of stdin (``-``).

    Raises
    ------
    InputError
        If it cannot be read or is too large; see `morph_opt.core.documents`.
    """
    return read_stdin(JSON_BYTES) if path == "-" else file_text(path, JSON_BYTES)
