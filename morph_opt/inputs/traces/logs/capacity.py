"""Capacity of a cluster over time, from a table of GPUs by day.

Helios publishes a table per cluster, ``date,vc...,total``; any table with ``date`` (or ``time``)
and ``total`` is read. From each instant on the cluster has that many GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from morph_opt.core.documents import read_rows
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.inputs.traces.logs.reading.clock import Clock
from morph_opt.inputs.traces.logs.reading.report import Report

CAPACITY_FILE = "cluster_gpu_number.csv"
"""Name of such a table next to a log of Helios."""
_TIMES = ("date", "time")


@dataclass(frozen=True, slots=True)
class Step:
    """Number of GPUs from an instant on."""

    time_s: float
    gpus: int


def read_capacity(path: Path, zone: str) -> tuple[Step, ...]:
    """Return the steps of a table, without those that change nothing.

    Parameters
    ----------
    path
        With a column ``date`` or ``time`` (of text that names a time, or a day) and ``total``.
    zone
        Zone of times that name none.

    Raises
    ------
    InputError
        If a line is wrong, two are of one instant, they are not in order, or none is there.
    """
    clock = Clock(zone)
    steps: list[Step] = []
    last_s = -float("inf")
    for row in read_rows(path, ("total",), None):
        column = next((name for name in _TIMES if name in row.cells), None)
        if column is None:
            raise row.error("date", "column is missing: capacity has no time")
        text = row.text(column)
        at = f"{text} 00:00:00" if len(text) == len("2020-04-01") else text
        time_s = row.built(partial(clock.seconds, at), column)
        if time_s <= last_s:
            raise row.error(column, f"must be later than the line before, got {text!r}")
        last_s = time_s
        gpus = row.integer("total", at_least=0, at_most=MOST_NODES * MOST_GPUS_PER_NODE)
        if not steps or steps[-1].gpus != gpus:
            steps.append(Step(time_s, gpus))
    if not steps:
        raise InputError("has a header but no capacity", file=str(path))
    return tuple(steps)


def find_changes(steps: Sequence[Step], report: Report) -> None:
    """Add a finding to the report if the capacity changes."""
    if len(steps) > 1:
        sizes = [step.gpus for step in steps]
        least, most = min(sizes), max(sizes)
        report.found("capacity-varies", None, len(steps) - 1, least=least, most=most)


def node_events(
    steps: Sequence[Step], cluster: Cluster, origin_s: float
) -> Iterator[tuple[float, str, str]]:
    """Yield node events that give a cluster this capacity, as nearly as whole nodes allow.

    Never more GPUs than the capacity; the last nodes of the cluster go first and come back last.
    Nodes are drained: running jobs stay on them.

    Parameters
    ----------
    steps
        In order.
    cluster
        Large enough for the largest step.
    origin_s
        Instant of the steps' clock at which the replay's is 0.

    Raises
    ------
    InputError
        If the cluster is smaller than a step.
    """
    most = max(step.gpus for step in steps)
    if most > cluster.gpus:
        rule = f"must have at least the {most:,} GPUs of the largest capacity, has {cluster.gpus:,}"
        raise InputError(rule, field="cluster")
    sizes = [node.type.gpus for node in cluster.nodes]
    up = len(sizes)
    for time_s, gpus in _on_clock(steps, origin_s):
        kept = _fitting(sizes, gpus)
        for node in range(kept, up):
            yield time_s, cluster.nodes[node].name, "drain"
        for node in range(up, kept):
            yield time_s, cluster.nodes[node].name, "return"
        up = kept


def _on_clock(steps: Sequence[Step], origin_s: float) -> Iterator[tuple[float, int]]:
    """Yield the steps on the replay's clock; the last step before 0 is at 0."""
    for step, after in pairwise((*steps, Step(float("inf"), 0))):
        if after.time_s > origin_s:
            yield max(0.0, step.time_s - origin_s), step.gpus


def _fitting(sizes: Sequence[int], gpus: int) -> int:
    """Return how many of the first nodes have at most ``gpus`` GPUs together."""
    held = 0
    for count, size in enumerate(sizes):
        held += size
        if held > gpus:
            return count
    return len(sizes)
