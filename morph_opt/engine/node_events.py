"""Node failures, drains and returns: from a file or from a seeded generator.

A file is JSONL, one object ``{"time_s": 3600, "node": "node-3", "event": "fail"}`` per line, or
CSV with the header ``time_s,node,event``. Events are ``fail``, ``drain`` and ``return``.
"""

from __future__ import annotations

import csv
import heapq
import json
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from morph_opt.domain import Cluster, InputError
from morph_opt.events.log import NodeStatus

EVENT_STATUS = {
    "fail": NodeStatus.FAILED,
    "drain": NodeStatus.DRAINED,
    "return": NodeStatus.UP,
}
_COLUMNS = ("time_s", "node", "event")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """From ``time_s`` on the node has this status."""

    time_s: float
    node: int
    status: NodeStatus


def read_node_events(path: Path, cluster: Cluster) -> tuple[NodeEvent, ...]:
    """Events of a file, sorted by time (equal times keep the order of the file).

    Raises
    ------
    InputError
        If the file is missing or a line breaks a rule; the message names file, line and field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({_reason(error)})", file=str(path)) from error
    rows = _csv_rows(text, path) if path.suffix.lower() == ".csv" else _json_rows(text, path)
    events = [_event(row, cluster, path, line) for line, row in rows]
    return tuple(sorted(events, key=lambda event: event.time_s))


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    reader = csv.reader(text.splitlines())
    header = next(reader, [])
    if sorted(header) != sorted(_COLUMNS):
        raise InputError(
            f"must have the columns {','.join(_COLUMNS)}, got {','.join(header) or 'nothing'}",
            file=str(path),
            line=1,
        )
    for cells in reader:
        if cells and len(cells) != len(header):
            raise InputError(
                f"must have {len(header)} cells, got {len(cells)}",
                file=str(path),
                line=reader.line_num,
            )
        if cells:
            yield reader.line_num, dict(zip(header, cells, strict=True))


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"is not JSON ({error})", file=str(path), line=number) from error
        if not isinstance(row, dict) or set(row) != set(_COLUMNS):
            raise InputError(
                f"must be an object with {', '.join(_COLUMNS)}", file=str(path), line=number
            )
        yield number, row


def _event(row: dict[str, object], cluster: Cluster, path: Path, line: int) -> NodeEvent:
    def refuse(field: str, rule: str) -> InputError:
        return InputError(rule, file=str(path), line=line, field=field)

    try:
        time_s = float(str(row["time_s"]))
    except ValueError:
        time_s = math.nan
    if not math.isfinite(time_s) or time_s < 0.0:
        raise refuse("time_s", f"must be a number at least 0, got {row['time_s']!r}")
    node = cluster.node_index.get(str(row["node"]))
    if node is None:
        raise refuse("node", f"{row['node']!r} is not a node of cluster {cluster.name!r}")
    status = EVENT_STATUS.get(str(row["event"]))
    if status is None:
        raise refuse("event", f"must be one of {', '.join(EVENT_STATUS)}, got {row['event']!r}")
    return NodeEvent(time_s, node, status)


def random_failures(
    cluster: Cluster, *, mtbf_s: float, mttr_s: float, seed: int
) -> Iterator[NodeEvent]:
    """Endless stream of failures and returns, sorted by time.

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
    """Several sorted streams as one sorted stream (equal times: earlier stream first)."""
    return heapq.merge(*streams, key=lambda event: event.time_s)
