"""Changes of a snapshot that must not change its answer, or not for the worse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.round.compare import decided, drawn

Document = dict[str, Any]
Change = Callable[[Document, np.random.Generator], Document]

SECONDS = (
    "time_s", "interval_s", "iteration_s", "submission_s", "restart_s", "restart_left_s",
    "first_start_s", "last_start_s", "last_stop_s", "start_s", "end_s", "lead_s", "seconds",
)  # fmt: skip


def permuted(document: Document, draw: np.random.Generator) -> Document:
    """Jobs, nodes, rows and leaves in another order."""
    cluster = document["cluster"]
    for table, name in (
        (document, "jobs"),
        (document["speeds"], "rows"),
        (cluster, "nodes"),
        (cluster, "leaves"),
        (cluster, "node_types"),
        (cluster, "gpu_types"),
    ):
        table[name] = [table[name][i] for i in draw.permutation(len(table[name])).tolist()]
    return document


def useless_rows(document: Document, _: np.random.Generator) -> Document:
    """A second plan that is as fast and holds as much, and rows that no job asks for."""
    rows = document["speeds"]["rows"]
    plain = [row for row in rows if row["plan"] == "dp"]
    twins = [{**row, "plan": "dp+ga"} for row in plain]
    strangers = [{**row, "model": "nobody"} for row in rows if row["model"] == "m0"]
    rows += [*twins, *strangers]
    return document


def _scaled(document: Any, names: tuple[str, ...], factor: float) -> Any:
    if isinstance(document, list):
        return [_scaled(value, names, factor) for value in document]
    if not isinstance(document, dict):
        return document
    found = {}
    for name, value in document.items():
        if name == "recent_starts_s" and "time_s" in names:
            found[name] = [factor * instant for instant in value]
        elif name in names:
            found[name] = factor * value
        else:
            found[name] = _scaled(value, names, factor)
    return found


def in_other_units(names: tuple[str, ...], factor: float) -> Change:
    """The same round with quantities of these names in another unit."""
    return lambda document, _: _scaled(document, names, factor)  # type: ignore[no-any-return]


def one_node_more(document: Document, draw: np.random.Generator) -> Document:
    """Another open node like one that is there."""
    nodes = document["cluster"]["nodes"]
    like = nodes[int(draw.integers(len(nodes)))]
    nodes.append({**like, "name": "new", "status": "up"})
    return document


CHANGES: dict[str, tuple[Change, dict[str, float]]] = {
    "permuted": (permuted, {}),
    "useless rows": (useless_rows, {}),
    # twice as many seconds: half the completions per second
    "seconds": (in_other_units(SECONDS, 2.0), {"jct": 0.5}),
    "memory": (in_other_units(("host_memory_gib",), 4.0), {}),
    "bandwidth": (in_other_units(("rdma_gb_per_s", "uplink_gb_per_s"), 8.0), {}),
    "weights": (in_other_units(("weight",), 4.0), {"jct": 4.0, "throughput": 4.0}),
    "one node more": (one_node_more, {}),
}
"""Each change, and the factor that it puts on an objective."""


def applies(name: str, document: Document, objective: str) -> bool:
    """Whether a change may be held against a round."""
    rules = document.get("rules") or {}
    if name == "seconds":
        return "restart_limit" not in rules  # an hour stays an hour
    if name == "one node more":
        # Another node can raise what an owner could use, and what a request is measured by.
        lends = any(quota.get("borrow_gpus") for quota in rules.get("quota", []))
        promises = any(job["guaranteed"] for job in document["jobs"])
        return objective == "jct" and not lends and not promises
    return True


def violations(seed: int, number: int) -> Iterator[tuple[str, str]]:
    """Changes held against a round, each with what is wrong, or with nothing."""
    document, objective = drawn(seed, number)
    draw = np.random.default_rng((seed, number, 1))
    before = decided(document, objective)
    for name, (change, factors) in CHANGES.items():
        if not applies(name, document, objective):
            continue
        after = decided(change(copy.deepcopy(document), draw), objective)
        more = name == "one node more"
        if before is None or after is None:
            apart = after is not before and not (more and before is None)
            yield name, f"round {number}: {name} decides whether anything is allowed" * apart
            continue
        old, new = before.decision.report, after.decision.report
        expected = factors.get(objective, 1.0) * old.objective
        # What running at all is worth is of that size, and is the same in all units.
        slack = 2e-6 * abs(expected) + 1e-8 * factors.get(objective, 1.0)
        wrong = new.objective < expected - slack or (not more and new.objective > expected + slack)
        wrong |= not more and old.guarantees_possible is not new.guarantees_possible
        yield name, f"round {number}: {name} makes {old.objective} {new.objective}" * wrong
