"""Draw messy snapshots, as documents ``morph-opt/round-state/1``; a seed gives the same one always.

A `Family` is drawn first: 3 to 64 nodes, from all alike to all of a type of their own, with odd
numbers of GPUs; which of threads, memory, network and local SSD are scarce; leaves and uplinks,
NVLink domains, rows by span, pairs, prices of starts by kind, and operator's rules. Jobs run where
they fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from formulations import resources

Document = dict[str, Any]

GPUS = (1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10)
SIDES = tuple(side.field for side in resources.SIDES)
SPANS = ("node", "nvlink", "leaf", "pod")
NOW_S, ROUND_S = 7200.0, 360.0
PLENTY = 100_000


@dataclass(frozen=True, slots=True)
class Family:
    """Properties of a snapshot that are drawn before its parts.

    Parameters
    ----------
    nodes
        Number of nodes.
    distinct
        Share of the nodes with a type of their own.
    scarce
        Side resources that may run out.
    leaves
        Nodes per leaf; 0 for a cluster without leaves.
    uplinks, domains, spans, pairs, prices, rules
        Whether uplinks are limited, nodes are in NVLink domains, rows are for a span, jobs may
        share GPUs, starts have prices by kind, and operators have rules.
    load
        GPUs asked for, as a multiple of the cluster's.
    running
        Share of the jobs that are tried to run.
    """

    nodes: int
    distinct: float
    scarce: tuple[str, ...]
    leaves: int
    uplinks: bool
    domains: bool
    spans: bool
    pairs: bool
    prices: bool
    rules: bool
    load: float
    running: float

    @classmethod
    def drawn(cls, draw: np.random.Generator) -> Family:
        """Draw a family."""
        leaves = int(draw.choice([0, 0, 2, 3, 5]))
        return cls(
            round(3 * float((64 / 3) ** draw.random())),
            float(draw.choice([0.0, 0.15, 0.5, 1.0])),
            tuple(side for side in SIDES if draw.random() < 0.35),
            leaves,
            leaves > 0 and bool(draw.random() < 0.5),
            bool(draw.random() < 0.3),
            leaves > 0 and bool(draw.random() < 0.5),
            bool(draw.random() < 0.15),
            bool(draw.random() < 0.35),
            bool(draw.random() < 0.35),
            float(draw.choice([0.7, 1.2, 2.0])),
            float(draw.choice([0.0, 0.4, 0.8])),
        )

    def __str__(self) -> str:
        flags = ("uplinks", "domains", "spans", "pairs", "prices", "rules")
        words = [flag for flag in flags if getattr(self, flag)]
        words += [f"scarce {side.split('_')[0]}" for side in self.scarce]
        return f"{self.nodes} nodes, {self.distinct:.0%} distinct; {', '.join(words) or 'plain'}"


@dataclass(frozen=True, slots=True)
class _Row:
    """Speed of a model in a shape on a node type, for placements of one span or of any."""

    kind: str
    shape: tuple[int, ...]
    span: str | None
    fields: Document


def snapshot(seed: int) -> tuple[Family, Document]:
    """Draw a snapshot and its family."""
    draw = np.random.default_rng([41, seed])
    family = Family.drawn(draw)
    cluster = _cluster(draw, family)
    models = [f"m{i}" for i in range(int(draw.integers(3, 9)))]
    rows = {model: _rows(draw, family, model, cluster) for model in models}
    jobs = _jobs(draw, family, cluster, rows)
    _run(draw, family, cluster, rows, jobs)
    speeds: Document = {"rows": [row.fields for mine in rows.values() for row in mine]}
    if family.pairs:
        speeds["pairs"] = _pairs(draw, rows)
    document = {
        "schema": "morph-opt/round-state/1",
        "round": 20,
        "time_s": NOW_S,
        "interval_s": ROUND_S,
        "cluster": cluster,
        "jobs": jobs,
        "speeds": speeds,
        "rules": _rules(draw, cluster, jobs) if family.rules else {},
    }
    return family, document


def _cluster(draw: np.random.Generator, family: Family) -> Document:
    """Draw node types, nodes, leaves and domains."""
    own = round(family.distinct * family.nodes)
    common = int(draw.integers(1, 3))
    # All nodes distinct: no type has two of them.
    types = [
        _node_type(draw, family, f"t{i}")
        for i in range(own + (common if own < family.nodes else 0))
    ]
    nodes = []
    for i in range(family.nodes):
        kind = i if i < own else own + int(draw.integers(common))
        leaf = i // family.leaves if family.leaves else 0
        domain = (
            f"d{leaf}-{int(draw.integers(2))}" if family.domains and draw.random() < 0.7 else None
        )
        status = str(draw.choice(["up", "drained", "failed"], p=[0.94, 0.03, 0.03]))
        nodes.append(
            {
                "name": f"n{i:03d}",
                "type": f"t{kind}",
                "leaf": f"l{leaf}",
                "nvlink_domain": domain,
                "status": status,
            }
        )
    order = draw.permutation(family.nodes).tolist()
    leaves = sorted({node["leaf"] for node in nodes})
    used = {node["type"] for node in nodes}
    return {
        "gpu_types": [{"name": f"G{i}", "memory_gib": 80} for i in range(3)],
        "node_types": [kind for kind in types if kind["name"] in used],
        "nodes": [nodes[i] for i in order],
        "leaves": [
            {"name": leaf, "uplink_gb_per_s": float(draw.choice([8, 16, 40]))}
            for leaf in leaves
            if family.uplinks
        ],
    }


def _node_type(draw: np.random.Generator, family: Family, name: str) -> Document:
    """Draw a node type: few of each scarce resource per GPU."""
    gpus = int(draw.choice(GPUS))

    def amount(side: str, per_gpu: tuple[int, ...]) -> int:
        return int(gpus * draw.choice(per_gpu)) if side in family.scarce else PLENTY

    return {
        "name": name,
        "gpu_type": f"G{int(draw.integers(3))}",
        "gpus": gpus,
        "nvlink_gb_per_s": 100,
        "cpus": amount("cpus", (2, 3, 4)),
        "host_memory_gib": amount("host_memory_gib", (30, 50)),
        "rdma_gb_per_s": amount("rdma_gb_per_s", (2, 3)),
        "local_ssd_gib": amount("local_ssd_gib", (20, 40)),
    }


def _rows(draw: np.random.Generator, family: Family, model: str, cluster: Document) -> list[_Row]:
    """Draw the rows of one model: some shapes on each of some node types."""
    found = []
    base_s, power = float(draw.uniform(0.2, 2.0)), float(draw.uniform(0.5, 0.95))
    own = _needs(draw)
    for kind in cluster["node_types"]:
        if draw.random() < 0.2:
            continue
        pace = float(draw.uniform(0.6, 1.6))
        for shape in _shapes(draw, kind["gpus"]):
            needs = own if draw.random() < 0.6 else _needs(draw)
            fields = {
                "model": model,
                "node_type": kind["name"],
                "shape": "+".join(map(str, shape)),
                "plan": str(draw.choice(["dp", "zero-dp"])),
                **needs,
                "rdma_gb_per_s": needs["rdma_gb_per_s"] if len(shape) > 1 else 0.0,
            }
            if not _fits(fields, shape, kind):
                continue
            time_s = base_s / (pace * sum(shape) ** power) * float(draw.uniform(0.9, 1.1))
            for span, factor in _spans(draw, family, shape):
                row = fields | {"iteration_s": round(time_s * factor, 5)}
                row |= {"span": span} if span else {}
                found.append(_Row(kind["name"], shape, span, row))
    return found


def _needs(draw: np.random.Generator) -> Document:
    """Draw what a row takes of side resources per GPU."""
    return {
        "cpus": int(draw.choice([0, 1, 2, 3, 4, 6])),
        "host_memory_gib": float(draw.choice([0, 10, 15, 40, 80])),
        "rdma_gb_per_s": float(draw.choice([0, 1, 2, 4])),
    }


def _shapes(draw: np.random.Generator, gpus: int) -> list[tuple[int, ...]]:
    """Draw shapes for nodes of that many GPUs, equal parts and others."""
    found = {(int(draw.integers(1, gpus + 1)),) for _ in range(3)}
    for _ in range(2):
        most = int(draw.integers(1, gpus + 1))
        parts = [most] * int(draw.integers(2, 5))
        if draw.random() < 0.3:
            parts[-1] = int(draw.integers(1, most + 1))
        found.add(tuple(parts))
    return sorted(found)


def _spans(
    draw: np.random.Generator, family: Family, shape: tuple[int, ...]
) -> list[tuple[str | None, float]]:
    """Draw the spans that a shape has rows for, and how much slower each is than the tightest."""
    if len(shape) == 1 or not family.spans or draw.random() < 0.4:
        return [(None, 1.0)]
    slower = np.cumprod(draw.uniform(1.0, 1.4, 3)).tolist()
    rows: list[tuple[str | None, float]] = list(zip(SPANS[1:], slower, strict=True))
    first = 0 if family.domains else 1
    return rows[first : int(draw.integers(first + 1, 4))]


def _fits(fields: Document, shape: tuple[int, ...], kind: Document) -> bool:
    """Return whether an empty node has room for the largest part."""
    return all(shape[0] * fields.get(side, 0) <= kind[side] for side in SIDES[:3])


def _jobs(
    draw: np.random.Generator, family: Family, cluster: Document, rows: dict[str, list[_Row]]
) -> list[Document]:
    """Draw jobs until they ask for the load."""
    kinds = {kind["name"]: kind for kind in cluster["node_types"]}
    total = sum(kinds[node["type"]]["gpus"] for node in cluster["nodes"])
    jobs: list[Document] = []
    asked = 0
    models = [model for model, mine in rows.items() if mine]
    while asked < family.load * total and len(jobs) < 90 and models:
        model = str(draw.choice(models))
        row = rows[model][int(draw.integers(len(rows[model])))]
        restart_s = float(draw.choice([0.0, 30.0, 120.0]))
        job: Document = {
            "name": f"j{len(jobs):03d}",
            "model": model,
            "submission_s": float(draw.integers(0, 7200)),
            "iterations": int(10 ** draw.uniform(2.5, 4.5)),
            "requested_gpus": sum(row.shape),
            "requested_plan": row.fields["plan"],
            "restart_s": restart_s,
            "tenant": str(draw.choice(["a", "b", "c"])),
            "weight": float(draw.choice([1.0, 1.0, 2.5])),
            "cpus_per_gpu": int(draw.choice([0, 0, 2])) if "cpus" in family.scarce else 0,
        }
        if "local_ssd_gib" in family.scarce:
            job["local_ssd_gib"] = float(draw.choice([0, 10, 40]))
        if family.prices and draw.random() < 0.7:
            migrate_s = restart_s * float(draw.choice([0.0, 0.5, 1.0]))
            job |= {"migrate_s": migrate_s, "resume_s": migrate_s * float(draw.choice([0.0, 0.5]))}
        jobs.append(job)
        asked += sum(row.shape)
    return sorted(jobs, key=lambda job: (job["submission_s"], job["name"]))


def _run(
    draw: np.random.Generator,
    family: Family,
    cluster: Document,
    rows: dict[str, list[_Row]],
    jobs: list[Document],
) -> None:
    """Let jobs run where they fit; some that wait have run before, if that has a price."""
    taken = Taken(cluster)
    for job in jobs:
        wanted = draw.random()
        if wanted >= family.running and not (family.prices and draw.random() < 0.3):
            continue
        mine = rows[job["model"]]
        for _ in range(4):
            row = mine[int(draw.integers(len(mine)))]
            place = taken.place(draw, job, row, mine)
            if place is not None:
                break
        else:
            continue
        held = {
            "plan": row.fields["plan"],
            "nodes": [{"node": node, "gpus": gpus} for node, gpus in place],
        }
        if wanted >= family.running:
            job["last_held"] = held
            taken.leave(place)
            continue
        first_s = float(draw.uniform(job["submission_s"], NOW_S))
        last_s = float(draw.uniform(first_s, NOW_S))
        job |= {
            "running": held,
            "starts": 2,
            "first_start_s": first_s,
            "last_start_s": last_s,
            "iterations_done": float(draw.integers(0, job["iterations"])),
            "attained_gpu_s": sum(row.shape) * (NOW_S - last_s),
            "restart_left_s": job["restart_s"] * float(draw.choice([0.0, 0.0, 0.5])),
        }


class Taken:
    """What running jobs hold of each node and uplink."""

    def __init__(self, cluster: Document) -> None:
        kinds = {kind["name"]: kind for kind in cluster["node_types"]}
        self._nodes = {node["name"]: node for node in cluster["nodes"]}
        self._kind = {name: kinds[node["type"]] for name, node in self._nodes.items()}
        self._free = {name: list(range(kind["gpus"])) for name, kind in self._kind.items()}
        self._left = {
            name: {side: float(kind[side]) for side in SIDES} for name, kind in self._kind.items()
        }
        self._uplink = {leaf["name"]: leaf["uplink_gb_per_s"] for leaf in cluster["leaves"]}
        self._held: dict[tuple[str, ...], Document] = {}

    def span(self, names: list[str]) -> str:
        """Return the tightest span that contains nodes."""
        nodes = [self._nodes[name] for name in names]
        domains, leaves = ({node[key] for node in nodes} for key in ("nvlink_domain", "leaf"))
        if len(nodes) == 1:
            return "node"
        if len(domains) == 1 and None not in domains:
            return "nvlink"
        return "leaf" if len(leaves) == 1 else "pod"

    def place(
        self, draw: np.random.Generator, job: Document, row: _Row, rows: list[_Row]
    ) -> list[tuple[str, list[int]]] | None:
        """Take free GPUs for a job in a row's shape; None if it does not fit."""
        names: list[str] = []
        for part in row.shape:
            fits = [
                name
                for name, node in self._nodes.items()
                if name not in names
                and node["type"] == row.kind
                and node["status"] != "failed"
                and len(self._free[name]) >= part
            ]
            if not fits:
                return None
            # Often the first: else no gang is in one leaf.
            names.append(fits[0] if draw.random() < 0.7 else str(draw.choice(fits)))
        span = self.span(names)
        same = [
            one
            for one in rows
            if (one.kind, one.shape, one.fields["plan"])
            == (row.kind, row.shape, row.fields["plan"])
        ]
        # The row of its own span comes before that of any.
        mine = [one for one in same if one.span == span] or [
            one for one in same if one.span is None
        ]
        if not mine:
            return None
        needs = [
            {
                side: part * max(mine[0].fields.get(side, 0), job.get(f"{side}_per_gpu", 0))
                for side in SIDES[:3]
            }
            | {"local_ssd_gib": job.get("local_ssd_gib", 0.0)}
            for part in row.shape
        ]
        if any(
            need[side] > self._left[name][side]
            for name, need in zip(names, needs, strict=True)
            for side in SIDES
        ):
            return None
        sent: dict[str, float] = {}
        for name, need in zip(names, needs, strict=True):
            leaf = self._nodes[name]["leaf"]
            sent[leaf] = sent.get(leaf, 0.0) + (need["rdma_gb_per_s"] if span == "pod" else 0.0)
        if any(amount > self._uplink.get(leaf, np.inf) for leaf, amount in sent.items()):
            return None
        for leaf, amount in sent.items():
            if leaf in self._uplink:
                self._uplink[leaf] -= amount
        found = []
        for name, part, need in zip(names, row.shape, needs, strict=True):
            for side in SIDES:
                self._left[name][side] -= need[side]
            found.append((name, self._free[name][:part]))
            self._free[name] = self._free[name][part:]
        self._held[tuple(names)] = {"needs": needs, "sent": sent}
        return found

    def leave(self, place: list[tuple[str, list[int]]]) -> None:
        """Give back what was placed last on these nodes."""
        held = self._held[tuple(name for name, _ in place)]
        for (name, gpus), need in zip(place, held["needs"], strict=True):
            self._free[name] = sorted([*gpus, *self._free[name]])
            for side in SIDES:
                self._left[name][side] += need[side]
        for leaf, amount in held["sent"].items():
            if leaf in self._uplink:
                self._uplink[leaf] += amount


def _pairs(draw: np.random.Generator, rows: dict[str, list[_Row]]) -> list[Document]:
    """Draw speeds of pairs of models in shapes that both have."""
    found = []
    by_key = {
        model: {(row.kind, row.shape): row for row in mine if row.span is None}
        for model, mine in rows.items()
    }
    for one, other in pairwise(sorted(rows)):
        for key in sorted(by_key[one].keys() & by_key[other].keys()):
            first, second = by_key[one][key].fields, by_key[other][key].fields
            kept = draw.uniform(0.5, 0.95, 2).tolist()
            found.append(
                {
                    "models": [one, other],
                    "plans": [first["plan"], second["plan"]],
                    "node_type": key[0],
                    "shape": first["shape"],
                    "iteration_s": [
                        round(row["iteration_s"] / part, 5)
                        for row, part in zip((first, second), kept, strict=True)
                    ],
                }
            )
    return found


def _rules(draw: np.random.Generator, cluster: Document, jobs: list[Document]) -> Document:
    """Draw rules that can be kept: limits leave what runs where it is."""
    rules: Document = {}
    names = [job["name"] for job in jobs]
    nodes = [node["name"] for node in cluster["nodes"]]
    if draw.random() < 0.6:
        rules["quota"] = [
            {"tenant": tenant, "gpus": int(draw.integers(1, 2 + 2 * len(nodes)))}
            for tenant in ("a", "b")
        ]
    if draw.random() < 0.4:
        rules["gang_limit"] = [{"jobs": ["*"], "least": 1, "most": int(draw.integers(4, 17))}]
    if draw.random() < 0.4 and names:
        some = sorted(draw.choice(names, max(1, len(names) // 4), replace=False).tolist())
        apart = sorted(draw.choice(nodes, max(1, len(nodes) // 3), replace=False).tolist())
        rules["node_rule"] = [{"jobs": some, "not_nodes": apart}]
    if draw.random() < 0.3:
        rules["minimum_run"] = [{"seconds": float(draw.choice([600, 3600]))}]
    return rules
