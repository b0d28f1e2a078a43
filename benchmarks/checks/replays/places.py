"""What an empty cluster has room for, and how fast it is there."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.checks.replays.documents import Job, Node, Speeds
from benchmarks.checks.replays.lives import Parts

SLACK = 1e-9
NODE, NVLINK, LEAF, POD = "node", "nvlink", "leaf", "pod"


def shape_of(text: str) -> tuple[int, ...]:
    """``4+2`` as numbers, largest first."""
    return tuple(sorted((int(part) for part in text.split("+")), reverse=True))


def span_of(nodes: Iterable[Node]) -> str:
    """The tightest span that contains some nodes."""
    group = list(nodes)
    if len(group) == 1:
        return NODE
    if group[0].domain is not None and len({node.domain for node in group}) == 1:
        return NVLINK
    return LEAF if len({node.leaf for node in group}) == 1 else POD


@dataclass(frozen=True)
class Row:
    """A configuration that some placement on the empty cluster has."""

    gpu_type: str
    gpus: int
    plan: str
    parts: tuple[int, ...]
    iteration_s: float


class Places:
    """Answers by rows of a speeds document.

    Parameters
    ----------
    nodes, speeds
        The cluster and the true speeds on it.
    """

    def __init__(self, nodes: tuple[Node, ...], speeds: Speeds) -> None:
        self.nodes = nodes
        self._by_model: dict[str, list[dict[str, object]]] = defaultdict(list)
        self._exact: dict[tuple[object, ...], float] = {}
        for row in speeds.rows:
            self._by_model[str(row["model"])].append(row)
            shape = shape_of(row["shape"])
            key = (row["model"], row["node_type"], shape, row["plan"], row.get("span"))
            self._exact[key] = float(row["iteration_s"])
        self._pairs = {}
        for pair in speeds.pairs:
            key = (*pair["models"], *pair["plans"], pair["node_type"], shape_of(pair["shape"]))
            a, b = pair["models"]
            p, q = pair["plans"]
            back = (b, a, q, p, pair["node_type"], shape_of(pair["shape"]))
            self._pairs[back] = float(pair["iteration_s"][1])
            self._pairs[key] = float(pair["iteration_s"][0])
        self._rows: dict[tuple[str, int], list[Row]] = {}

    @property
    def gpu_types(self) -> dict[str, int]:
        """GPUs of each type."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.gpu_type] = found.get(node.gpu_type, 0) + node.gpus
        return found

    def iteration_s(self, model: str, plan: str, parts: Parts) -> float | None:
        """Of a placement: the row of its own span, of the slowest of its node types."""
        group = [self.nodes[number] for number, _ in parts]
        shape = tuple(sorted((len(gpus) for _, gpus in parts), reverse=True))
        span = span_of(group)
        found = []
        for kind in {node.kind for node in group}:
            keys = [(model, kind, shape, plan, known) for known in (span, None)]
            seconds = [self._exact[key] for key in keys if key in self._exact]
            if not seconds:
                return None
            found.append(seconds[0])
        return max(found)

    def paired_s(
        self, models: tuple[str, str], plans: tuple[str, str], parts: Parts
    ) -> float | None:
        """Of the first of two jobs on the same GPUs."""
        shape = tuple(sorted((len(gpus) for _, gpus in parts), reverse=True))
        found = [
            self._pairs.get((*models, *plans, self.nodes[number].kind, shape))
            for number, _ in parts
        ]
        return None if None in found else max(seconds for seconds in found if seconds is not None)

    def rows(self, job: Job) -> list[Row]:
        """Every configuration of a job's model that a placement on the empty cluster has."""
        key = (job.model, job.cpus_per_gpu)
        if key not in self._rows:
            self._rows[key] = list(self._fitting(job))
        return self._rows[key]

    def _fitting(self, job: Job) -> Iterator[Row]:
        given = self._by_model[job.model]
        spanned = {
            (row["node_type"], row["shape"], row["plan"], row["span"])
            for row in given
            if "span" in row
        }
        types = {node.kind: node.gpu_type for node in self.nodes}
        for row in given:
            if row["node_type"] not in types:
                continue
            parts, gpu_type = shape_of(str(row["shape"])), types[str(row["node_type"])]
            spans = [row["span"]] if "span" in row else [NVLINK, LEAF, POD]
            named = (row["node_type"], row["shape"], row["plan"])
            spans = [s for s in spans if "span" in row or (*named, s) not in spanned]
            if any(self._has_room(row, job, parts, str(span)) for span in spans):
                yield Row(
                    gpu_type, sum(parts), str(row["plan"]), parts, float(str(row["iteration_s"]))
                )

    def _has_room(
        self, row: dict[str, object], job: Job, parts: tuple[int, ...], span: str
    ) -> bool:
        """Whether nodes of the row's type, within the span, have what each part needs."""
        needs = {
            "cpus": max(float(job.cpus_per_gpu), float(str(row.get("cpus", 0.0)))),
            "host_memory_gib": float(str(row.get("host_memory_gib", 0.0))),
            "rdma_gb_per_s": float(str(row.get("rdma_gb_per_s", 0.0))),
        }
        groups: dict[object, list[int]] = defaultdict(list)
        for node in self.nodes:
            if node.kind != row["node_type"]:
                continue
            limits = [
                int(getattr(node, what) * (1.0 + SLACK) / need)
                for what, need in needs.items()
                if need > 0.0
            ]
            group = {NVLINK: node.domain, LEAF: node.leaf, POD: "all"}[span]
            if len(parts) == 1 or group is not None:
                groups["all" if len(parts) == 1 else group].append(min([node.gpus, *limits]))
        if span == POD and len(parts) > 1 and len({node.leaf for node in self.nodes}) < 2:
            return False
        return any(
            len(room) >= len(parts)
            and all(
                part <= most for part, most in zip(parts, sorted(room, reverse=True), strict=False)
            )
            for room in groups.values()
        )

    def request_s(self, job: Job) -> float:
        """Of the request's fastest placement; where it has none, of the slowest that there is."""
        rows = self.rows(job)
        asked = [r.iteration_s for r in rows if r.gpus == job.gpus and r.plan == job.plan]
        return min(asked) if asked else max(row.iteration_s for row in rows)

    def gang_speeds(self, job: Job) -> dict[str, float]:
        """Iterations per second of the requested gang by GPU type; 0 where it cannot run."""
        rows = self.rows(job)
        gang = [row for row in rows if row.gpus == job.gpus]
        for group in ([row for row in gang if row.plan == job.plan], gang, rows):
            best = dict.fromkeys(self.gpu_types, 0.0)
            for row in group:
                best[row.gpu_type] = max(best[row.gpu_type], 1.0 / row.iteration_s)
            if any(best.values()):
                return best
        return dict.fromkeys(self.gpu_types, math.nan)
