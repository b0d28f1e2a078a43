"""Node failures, drains and returns: from a file or from a seeded generator.

A file is JSONL, one object ``{"time_s": 3600, "node": "node-3", "event": "fail"}`` per line, or
CSV with the header ``time_s,node,event``. Events are ``fail``, ``drain`` and ``return``.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import Fields, parse_json, read_lines, read_rows
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.job import LATEST_S
from morph_opt.simulation.events.log import NodeStatus

EVENT_STATUS = {"fail": NodeStatus.FAILED, "drain": NodeStatus.DRAINED, "return": NodeStatus.UP}
_COLUMNS = ("time_s", "node", "event")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Change of a node's status at ``time_s``."""

    time_s: float
    node: int
    status: NodeStatus


def read_node_events(path: Path, cluster: Cluster) -> tuple[NodeEvent, ...]:
    """Read the events of a file, sorted by time (equal times keep the order of the file).

    Raises
    ------
    InputError
        If the file is missing or a line breaks a rule; the message names file, line and field.
    """
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    events = [_event(time_s, row, cluster, path, line) for line, time_s, row in rows]
    return tuple(sorted(events, key=lambda event: event.time_s))


_Rows = Iterator[tuple[int, float, Mapping[str, str]]]


def _csv_rows(path: Path) -> _Rows:
    for row in read_rows(path, _COLUMNS):
        yield row.line, row.number("time_s", at_least=0.0), row.cells


def _json_rows(path: Path) -> _Rows:
    for number, line in read_lines(path):
        try:
            value = parse_json(line, str(path), first_line=number)
            row = Fields(value, "", str(path), _COLUMNS)
            cells = {name: row.text(name) for name in ("node", "event")}
            yield number, row.number("time_s", least=0.0), cells
        except InputError as error:
            raise error.located(line=number) from None


def _event(
    time_s: float, row: Mapping[str, str], cluster: Cluster, path: Path, line: int
) -> NodeEvent:
    def refuse(field: str, rule: str) -> InputError:
        return InputError(rule, file=str(path), line=line, field=field)

    if time_s > LATEST_S:
        raise refuse("time_s", f"must be at most {LATEST_S:g}, got {time_s:g}")
    node = cluster.node_index.get(row["node"])
    if node is None:
        raise refuse("node", f"{row['node']!r} is not a node of cluster {cluster.name!r}")
    status = EVENT_STATUS.get(row["event"])
    if status is None:
        raise refuse("event", f"must be one of {', '.join(EVENT_STATUS)}, got {row['event']!r}")
    return NodeEvent(time_s, node, status)


def random_failures(
    cluster: Cluster, *, mtbf_s: float, mttr_s: float, seed: int
) -> Iterator[NodeEvent]:
    """Yield failures and returns without end, sorted by time.

    Every node fails and comes back on its own, with exponential times to failure (mean
    ``mtbf_s``) and to repair (mean ``mttr_s``). Each node draws from a generator of its own, so
    the events of a node do not depend on the size of the cluster.

    Raises
    ------
    InputError
        If a mean is not a positive number.
    """
    for name, mean_s in (("mtbf_s", mtbf_s), ("mttr_s", mttr_s)):
        if not math.isfinite(mean_s) or mean_s <= 0.0:
            raise InputError(f"must be a number above 0, got {mean_s!r}", field=name)
    return _failures(cluster, mtbf_s, mttr_s, seed)


def _failures(cluster: Cluster, mtbf_s: float, mttr_s: float, seed: int) -> Iterator[NodeEvent]:
    draws = [random.Random(f"node-failures/{seed}/{node.name}") for node in cluster.nodes]
    heap = [
        (draw.expovariate(1.0 / mtbf_s), node, NodeStatus.FAILED) for node, draw in enumerate(draws)
    ]
    heapq.heapify(heap)
    while True:
        time_s, node, status = heap[0]
        yield NodeEvent(time_s, node, status)
        down = status is NodeStatus.FAILED
        gap_s = draws[node].expovariate(1.0 / (mttr_s if down else mtbf_s))
        after = NodeStatus.UP if down else NodeStatus.FAILED
        heapq.heapreplace(heap, (time_s + gap_s, node, after))


def merged(*streams: Iterable[NodeEvent]) -> Iterator[NodeEvent]:
    """Merge sorted streams into one (equal times: earlier stream first)."""
    return heapq.merge(*streams, key=lambda event: event.time_s)
