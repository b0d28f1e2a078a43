"""What a run folder, and the states of its rounds, hold: plain values, nothing computed."""

from __future__ import annotations

import csv
import gzip
import json
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A job as submitted; ``feedback`` is None where nobody waits for a report."""

    name: str
    model: str
    submission_s: float
    iterations: int
    gpus: int
    plan: str
    cpus_per_gpu: int
    guaranteed: bool
    weight: float
    tenant: str
    deadline_s: float | None
    feedback: float | None


@dataclass(frozen=True)
class Node:
    """A node with what it has; ``price`` in dollars per GPU and hour."""

    name: str
    kind: str
    gpu_type: str
    gpus: int
    cpus: float
    host_memory_gib: float
    rdma_gb_per_s: float
    leaf: str | None
    domain: str | None
    price: float | None


@dataclass(frozen=True)
class Speeds:
    """Rows and pairs of a document ``morph-opt/speeds/1``."""

    rows: tuple[dict[str, Any], ...]
    pairs: tuple[dict[str, Any], ...] = ()


@dataclass
class Run:
    """A finished run.

    Parameters
    ----------
    folder
        Of the run.
    states
        Folder of the states of its rounds, None without.
    speeds_from
        Folder whose ``speeds.json`` has the truth; None for none.
    """

    folder: Path
    states: Path | None
    speeds_from: Path | None
    config: dict[str, Any] = field(init=False)
    events: list[Event] = field(init=False)
    rows: list[dict[str, str]] = field(init=False)
    rounds: list[dict[str, str]] = field(init=False)
    summary: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        folder = self.folder
        self.config = tomllib.loads((folder / "config.toml").read_text("utf-8"))
        lines = (folder / "events.jsonl").read_text("utf-8").splitlines()
        self.events = [json.loads(line) for line in lines]
        self.rows = _table(folder / "jobs.csv")
        self.rounds = _table(folder / "rounds.csv")
        self.summary = json.loads((folder / "summary.json").read_text("utf-8"))

    @property
    def engine(self) -> dict[str, Any]:
        """The engine's rules."""
        found: dict[str, Any] = self.config["engine"]
        return found

    def first_start_s(self, model: str) -> float:
        """Start-up of a first start."""
        return float(self.engine.get("first_start_s", self.restart_s(model)))

    def restart_s(self, model: str) -> float:
        """Start-up of a whole restart."""
        by_model = self.engine.get("restart_s_by_model", {})
        return float(by_model.get(model, self.engine["restart_s"]))

    @cached_property
    def _states(self) -> list[dict[str, Any]]:
        if self.states is None:
            return []
        return [_json(path) for path in sorted(self.states.glob("round-*"))]

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Jobs that some state has, by name; of a run without states those of its own table."""
        found = {}
        for state in self._states:
            for job in state["jobs"]:
                found.setdefault(job["name"], _job(job))
        if self.states is None:
            found = {row["job"]: _job_of_row(row) for row in self.rows}
        return found

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in the order of the log's numbers."""
        if self._states:
            return _nodes(self._states[0]["cluster"])
        return _nodes_of_config(self.config["cluster"])

    @cached_property
    def node_events(self) -> list[dict[str, str]] | None:
        """Rows of the file of node events; None without one."""
        file = self.config["failures"].get("events")
        return None if file is None else _table(Path(file))

    @cached_property
    def speeds(self) -> Speeds | None:
        """True speeds; None where no document has them."""
        if self.speeds_from is None:
            return None
        (path,) = sorted(self.speeds_from.glob("speeds.json*"))
        found = _json(path)
        return Speeds(tuple(found["rows"]), tuple(found.get("pairs", ())))


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _json(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def _job(given: dict[str, Any]) -> Job:
    return Job(
        given["name"],
        given["model"],
        float(given["submission_s"]),
        int(given["iterations"]),
        int(given["requested_gpus"]),
        given["requested_plan"],
        int(given["cpus_per_gpu"]),
        bool(given["guaranteed"]),
        float(given["weight"]),
        given["tenant"],
        given.get("deadline_s"),
        given.get("feedback_iterations"),
    )


def _job_of_row(row: dict[str, str]) -> Job:
    return Job(
        row["job"],
        row["model"],
        float(row["submission_s"]),
        int(row["iterations"]),
        int(row["gpus"]),
        row["requested_plan"],
        0,
        row["guaranteed"] == "1",
        float(row["weight"]),
        row["tenant"],
        float(row["deadline_s"]) if row["deadline_s"] else None,
        None,
    )


def _nodes(cluster: dict[str, Any]) -> tuple[Node, ...]:
    kinds = {kind["name"]: kind for kind in cluster["node_types"]}
    prices = {kind["name"]: kind.get("price_per_hour") for kind in cluster["gpu_types"]}
    return tuple(
        _node(node["name"], kinds[node["type"]], node["type"], prices, node)
        for node in cluster["nodes"]
    )


def _node(
    name: str,
    kind: dict[str, Any],
    kind_name: str,
    prices: dict[str, float | None],
    node: dict[str, Any],
) -> Node:
    return Node(
        name,
        kind_name,
        kind["gpu_type"],
        int(kind["gpus"]),
        float(kind["cpus"]),
        float(kind["host_memory_gib"]),
        float(kind["rdma_gb_per_s"]),
        node.get("leaf"),
        node.get("nvlink_domain"),
        prices.get(kind["gpu_type"]),
    )


def _nodes_of_config(cluster: dict[str, Any]) -> tuple[Node, ...]:
    """Of ``config.toml``, which lacks the prices of built-in GPU types."""
    found = []
    for entry in cluster["nodes"]:
        kind = cluster["node_type"][entry["type"]]
        count = int(entry.get("count", 1))
        names = [entry["name"]] if count == 1 else [f"{entry['name']}-{i}" for i in range(count)]
        found += [_node(name, kind, entry["type"], {}, entry) for name in names]
    return tuple(found)
