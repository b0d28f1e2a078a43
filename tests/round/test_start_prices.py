"""Snapshots in which starts have prices: decided as enumeration does, read, written, explained."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from morph_opt.core.domain import InputError
from morph_opt.round.reader import parse_snapshot
from morph_opt.round.snapshot import state_to_json
from tests.round.compare import decided, differences, drawn
from tests.round.documents import document

SEED, ROUNDS = 77, 45


def priced(draw: np.random.Generator, plain: dict[str, Any]) -> dict[str, Any]:
    """The document with cheaper starts for some jobs, and places that queued ones had."""
    found = copy.deepcopy(plain)
    nodes = {node["name"]: node for node in found["cluster"]["nodes"]}
    kinds = {kind["name"]: kind for kind in found["cluster"]["node_types"]}
    for job in found["jobs"]:
        if draw.random() < 0.8:
            job["migrate_s"] = 0.4 * job["restart_s"]
        if draw.random() < 0.8:
            job["resume_s"] = 0.05 * job["restart_s"]
        rows = [row for row in found["speeds"]["rows"] if row["model"] == job["model"]]
        if job.get("running") or not rows or draw.random() < 0.2:
            continue
        row = rows[int(draw.integers(len(rows)))]
        parts = [int(part) for part in row["shape"].split("+")]
        there = [
            name
            for name, node in nodes.items()
            if node["type"] == row["node_type"]
            and node.get("status", "up") != "failed"
            and kinds[node["type"]]["gpus"] >= max(parts)
        ]
        if len(there) < len(parts):
            continue
        where = draw.permutation(there)[: len(parts)].tolist()
        job["last_held"] = {
            "plan": row["plan"],
            "nodes": [
                {"node": n, "gpus": list(range(p))} for n, p in zip(where, parts, strict=True)
            ],
        }
    return found


def test_the_engine_decides_as_enumeration_does() -> None:
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        plain, objective = drawn(SEED, number)
        found = priced(np.random.default_rng((SEED, number)), plain)
        try:
            parse_snapshot(json.dumps(found))
        except InputError:
            seen["refused"] += 1  # what was held asks for more than the node has
            continue
        assert list(differences(found, objective)) == [], number
        answer = decided(found, objective)
        told = [] if answer is None else answer.to_json()["jobs"]
        for before, now in zip(found["jobs"], told, strict=False):
            had = before.get("last_held")
            if had is None or now["action"] != "start":
                continue
            counts = sorted((part["node"], len(part["gpus"])) for part in had["nodes"])
            back = counts == sorted((part["node"], len(part["gpus"])) for part in now["nodes"])
            seen["back" if back else "elsewhere"] += 1
    assert seen["back"] >= 6, seen
    assert seen["elsewhere"] >= 2, seen
    assert seen["refused"] <= ROUNDS // 3


def _last_held(**changes: Any) -> dict[str, Any]:
    found = document()
    had = {"plan": "dp", "nodes": [{"node": "n0", "gpus": [1]}]}
    found["jobs"][1] |= {"last_held": had} | changes
    return found


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"migrate_s": 31.0}, "must be at most restart_s = 30, got 31"),
        ({"resume_s": 10.0}, "must be at most migrate_s = 9, got 10"),
        ({"resume_s": -1.0}, "must be"),
        ({"last_held": {"plan": "dp", "nodes": [{"node": "n7", "gpus": [1]}]}}, "no node 'n7'"),
        ({"last_held": {"plan": "dp", "nodes": [{"node": "n2", "gpus": [1]}]}}, "has failed"),
        ({"last_held": {"plan": "dp", "nodes": [{"node": "n0", "gpus": [9]}]}}, "GPUs 0 to 3"),
        ({"running": {"plan": "dp", "nodes": [{"node": "n0", "gpus": [2]}]}}, "left to queued"),
    ],
)
def test_faulty_last_held_placements_are_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        parse_snapshot(json.dumps(_last_held(**changes)))


def test_past_holdings_round_trip_and_hold_no_gpu() -> None:
    """GPU 1 of node n0 is held by job a now: that job b had it before takes nothing from it."""
    found = _last_held()
    state = parse_snapshot(json.dumps(found)).state
    had = state.jobs[1].last_held
    assert had is not None
    assert (had.plan.label, had.placement.parts) == ("dp", ((0, (1,)),))
    assert state.held.gpus == 3
    written = state_to_json(state, found["speeds"])["jobs"][1]
    assert {name: written[name] for name in ("resume_s", "migrate_s", "last_held")} == {
        name: found["jobs"][1][name] for name in ("resume_s", "migrate_s", "last_held")
    }
