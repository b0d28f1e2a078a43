"""Random snapshots with every feature at once, as documents; equal generators give equal ones.

Small enough for `tests.round.enumeration`: up to four nodes of two types in two leaves, some in
NVLink domains, some drained or failed; up to three jobs with up to four rows each, of which some
run, across leaves as well; scarce threads, memory, cards and uplinks; promises; all rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS: dict[str, dict[str, Any]] = {
    "big": {"gpu_type": "G", "gpus": 4, "cpus": 10, "host_memory_gib": 40.0, "rdma_gb_per_s": 20},
    "small": {"gpu_type": "H", "gpus": 2, "cpus": 8, "host_memory_gib": 30.0, "rdma_gb_per_s": 10},
}
SHAPES = {
    "big": ("1", "2", "4", "1+1", "2+1", "2+2", "3+1", "4+4", "1+1+1", "2+2+2"),
    "small": ("1", "2", "1+1", "2+1", "2+2", "1+1+1"),
}
PLANS = ("dp", "dp+gc")
SPANS = ("nvlink", "leaf", "pod")
NOW_S, ROUND_S = 7200.0, 60.0

Document = dict[str, Any]


def random_snapshot(draw: np.random.Generator) -> Document:
    """A document ``morph-opt/round-state/1``."""
    cluster = _cluster(draw)
    rows: list[Document] = []
    jobs: list[Document] = []
    free = {node["name"]: KINDS[node["type"]]["gpus"] for node in cluster["nodes"]}
    for i in range(int(draw.integers(1, 4))):
        mine = _rows(draw, f"m{i}", sorted({node["type"] for node in cluster["nodes"]}))
        rows += mine
        jobs.append(_job(draw, i))
        if draw.random() < 0.6:
            _start(draw, jobs[-1], mine, cluster, free)
    document = {
        "schema": "morph-opt/round-state/1", "round": 7, "time_s": NOW_S, "interval_s": ROUND_S,
        "cluster": cluster, "jobs": jobs, "speeds": {"rows": rows},
    }  # fmt: skip
    while _overbooked(document):
        # What does not fit next to the others has not been running.
        running = [job for job in jobs if job.get("running")]
        _stop(running[int(draw.integers(len(running)))])
    document["rules"] = _rules(draw, document)
    return document


def random_requests(draw: np.random.Generator) -> Document:
    """A snapshot whose jobs ask for what one of their rows is, most of them with a promise.

    The request has further rows: other shapes, on the other type, for some spans only. Whether one
    of them has a place is up to the cluster.
    """
    document = random_snapshot(draw)
    document["rules"] = {}
    kinds = sorted({node["type"] for node in document["cluster"]["nodes"]})
    for job in document["jobs"]:
        mine = [row for row in document["speeds"]["rows"] if row["model"] == job["model"]]
        asked = mine[int(draw.integers(len(mine)))]
        gpus = _gpus(asked["shape"])
        job |= {"requested_gpus": gpus, "requested_plan": asked["plan"]}
        job["guaranteed"] = bool(draw.random() < 0.8)
        there = {(row["node_type"], row["shape"]) for row in mine if row["plan"] == asked["plan"]}
        for kind in kinds:
            for shape in SHAPES[kind]:
                if _gpus(shape) == gpus and (kind, shape) not in there and draw.random() < 0.6:
                    key = (kind, shape, asked["plan"])
                    document["speeds"]["rows"] += [
                        _row(draw, job["model"], key, span, time_s)
                        for span, time_s in _times(draw, shape)
                    ]
    while _overbooked(document):
        # What runs in a shape that had no row before holds what its new row says.
        _stop(next(job for job in document["jobs"] if job.get("running")))
    return document


def random_local_ssd(draw: np.random.Generator) -> Document:
    """A snapshot in which local SSD is scarce: what jobs ask for, and some rows."""
    document = random_snapshot(draw)
    document["rules"] = {}
    for kind in document["cluster"]["node_types"]:
        if draw.random() < 0.9:
            kind["local_ssd_gib"] = float(draw.choice([10, 20, 30]))
    for wanting in (*document["jobs"], *document["speeds"]["rows"]):
        if draw.random() < (0.8 if "requested_gpus" in wanting else 0.2):
            wanting["local_ssd_gib"] = float(draw.choice([5, 8, 12, 20]))
    while _overbooked(document):
        _stop(next(job for job in document["jobs"] if job.get("running")))
    return document


def _gpus(shape: str) -> int:
    return sum(int(part) for part in shape.split("+"))


def _cluster(draw: np.random.Generator) -> Document:
    leaves = ["l0", "l1"][: 1 + int(draw.random() < 0.75)]
    nodes: list[Document] = []
    for i in range(int(draw.integers(2, 5))):
        leaf = str(draw.choice(leaves))
        nodes.append(
            {
                "name": f"n{i}",
                "type": str(draw.choice(["big", "big", "small"])),
                "leaf": leaf,
                "nvlink_domain": f"d-{leaf}" if draw.random() < 0.4 else None,
                "status": str(draw.choice(["up", "drained", "failed"], p=[0.8, 0.12, 0.08])),
            }
        )
    used = sorted({node["leaf"] for node in nodes})
    listed = [
        {"name": leaf, "uplink_gb_per_s": float(draw.choice([4, 8, 12, 40]))}
        for leaf in used
        if draw.random() < 0.7
    ]
    kinds = sorted({node["type"] for node in nodes})
    return {
        "gpu_types": [{"name": "G", "memory_gib": 80}, {"name": "H", "memory_gib": 40}],
        "node_types": [{"name": kind, "nvlink_gb_per_s": 100, **KINDS[kind]} for kind in kinds],
        "nodes": nodes,
        "leaves": listed,
    }


def _rows(draw: np.random.Generator, model: str, kinds: list[str]) -> list[Document]:
    """Rows of one model, no slower in a tighter span; some for one span alone."""
    found: dict[tuple[str, str, str], list[Document]] = {}
    for _ in range(int(draw.integers(1, 5))):
        kind = str(draw.choice(kinds))
        key = (kind, str(draw.choice(SHAPES[kind])), str(draw.choice(PLANS, p=[0.8, 0.2])))
        if key not in found:
            found[key] = [_row(draw, model, key, span, t) for span, t in _times(draw, key[1])]
    return [row for rows in found.values() for row in rows]


def _times(draw: np.random.Generator, shape: str) -> list[tuple[str | None, float]]:
    """Spans that a shape has rows for, with seconds that do not get less with distance."""
    seconds = np.sort(np.round(draw.uniform(0.1, 2.0, 3), 3)).tolist()
    if "+" not in shape:
        return [(None, seconds[0])]
    own = [i for i in range(3) if draw.random() < 0.45]
    if own and draw.random() < 0.5:
        return [(SPANS[i], seconds[i]) for i in own]
    if own == [1]:  # the row for any other span is for a tighter and for a wider one
        seconds = [seconds[1]] * 3
    others = [i for i in range(3) if i not in own]
    found: list[tuple[str | None, float]] = [(SPANS[i], seconds[i]) for i in own]
    return [*found, *((None, seconds[i]) for i in others[:1])]


def _row(
    draw: np.random.Generator,
    model: str,
    key: tuple[str, str, str],
    span: str | None,
    time_s: float,
) -> Document:
    several = "+" in key[1]
    row = {
        "model": model,
        "node_type": key[0],
        "shape": key[1],
        "plan": key[2],
        "iteration_s": time_s,
        "cpus": int(draw.choice([0, 0, 1, 2, 3, 4])),
        "host_memory_gib": float(draw.choice([0, 0, 4, 8, 12])),
        "rdma_gb_per_s": float(draw.choice([0, 1, 2, 4])) if several else 0.0,
    }
    return row if span is None else {**row, "span": span}


def _job(draw: np.random.Generator, number: int) -> Document:
    return {
        "name": f"j{number}",
        "model": f"m{number}",
        "submission_s": 0.0,
        "iterations": int(draw.integers(100, 5000)),
        "requested_gpus": int(draw.choice([1, 2, 4])),
        "requested_plan": "dp",
        "cpus_per_gpu": int(draw.choice([0, 0, 1, 2, 3])),
        "guaranteed": bool(draw.random() < 0.35),
        "weight": float(draw.choice([1.0, 1.0, 0.5, 2.5])),
        "tenant": str(draw.choice(["a", "b"])),
        "restart_s": float(draw.choice([0.0, 30.0, 260.0])),
    }


def _start(
    draw: np.random.Generator,
    job: Document,
    rows: list[Document],
    cluster: Document,
    free: dict[str, int],
) -> None:
    """Let the job run in one of its rows, on nodes that are not failed, if there is room."""
    row = rows[int(draw.integers(len(rows)))]
    parts = [int(part) for part in row["shape"].split("+")]
    nodes = [n for n in cluster["nodes"] if n["type"] == row["node_type"]]
    taken: dict[str, int] = {}
    for part in parts:
        fits = [
            n["name"]
            for n in nodes
            if n["status"] != "failed" and n["name"] not in taken and free[n["name"]] >= part
        ]
        if not fits:
            return
        taken[str(draw.choice(fits))] = part
    held = []
    for name, part in taken.items():
        free[name] -= part
        held.append({"node": name, "gpus": list(range(free[name], free[name] + part))})
    last_s = NOW_S - float(draw.choice([30.0, 90.0, 600.0, 5000.0]))
    restarts = sorted(
        t for t in draw.uniform(NOW_S - 5500.0, last_s, int(draw.integers(0, 3))).round().tolist()
    )
    first_s = min([*restarts, last_s, 100.0])
    starts = [*restarts, last_s] if draw.random() < 0.8 else []
    job |= {
        "running": {"plan": row["plan"], "nodes": held},
        "iterations_done": float(draw.integers(0, job["iterations"])),
        "restart_left_s": float(draw.choice([0.0, 0.5, 1.0])) * job["restart_s"],
        "starts": 1 + len(restarts),
        "first_start_s": float(draw.choice([first_s, min([*starts, last_s])])),
        "last_start_s": last_s,
        "recent_starts_s": sorted(set(starts)),
    }


def _stop(job: Document) -> None:
    del job["running"]
    job["restart_left_s"] = 0.0
    job["last_stop_s"] = NOW_S


def _overbooked(document: Document) -> bool:
    from tests.round.enumeration import World

    world = World(document)
    return not world.fits([world.stay(j) for j in range(len(document["jobs"]))])


def _rules(draw: np.random.Generator, document: Document) -> Document:
    names = [job["name"] for job in document["jobs"]]
    nodes = [node["name"] for node in document["cluster"]["nodes"]]
    rules: Document = {}

    def some() -> list[str]:
        return ["*"] if draw.random() < 0.3 else [str(draw.choice(names))]

    if draw.random() < 0.4:
        return rules
    chance = 0.3
    for tenant in ("a", "b"):
        if draw.random() < 0.5:
            more: int | str = [0, 1, 2, 4, "unlimited"][int(draw.integers(5))]  # type: ignore[assignment]
            rules.setdefault("quota", []).append(
                {"tenant": tenant, "gpus": int(draw.integers(0, 6)), "borrow_gpus": more}
            )
    if draw.random() < chance:
        seconds = float(draw.choice([60.0, 120.0, 3600.0]))
        rules["minimum_run"] = [{"seconds": seconds, "jobs": some()}]
    if draw.random() < chance:
        rules["restart_limit"] = [{"per_hour": int(draw.integers(1, 3)), "jobs": some()}]
    if draw.random() < chance / 2:
        rules["non_preemptible"] = [{"jobs": some()}]
    if draw.random() < chance:
        field = str(draw.choice(["only_nodes", "not_nodes"]))
        rules["node_rule"] = [{"jobs": some(), field: [str(draw.choice(nodes))]}]
    if draw.random() < chance:
        least = int(draw.integers(1, 4))
        most = {} if draw.random() < 0.3 else {"most": least + int(draw.integers(0, 4))}
        rules["gang_limit"] = [{"jobs": some(), "least": least, **most}]
    if draw.random() < chance:
        start_s = NOW_S + float(draw.choice([-60.0, 0.0, 30.0, 60.0, 120.0]))
        window = {"start_s": start_s, "end_s": start_s + float(draw.choice([30.0, 60.0, 900.0]))}
        lead = {"lead_s": float(draw.choice([0.0, 90.0]))}
        rules["maintenance"] = [{"nodes": [str(draw.choice(nodes))], **window, **lead}]
    return rules
