"""Utilisation by GPU type, by hand and against the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Cluster, GpuType, Node, Placement
from morph_opt.simulation.metrics.schedule import gpu_utilization_by_type
from tests.engine.toys import cluster
from tests.metrics.logs import read_history
from tests.metrics.test_schedule import LOG, TRACE, schedule_metrics

PLAIN = cluster(2, 2)


def two_types() -> Cluster:
    old = PLAIN.nodes[0].type
    other = replace(old, name="other", gpu_type=GpuType("Z9", old.gpu_type.memory_gib))
    return Cluster("mixed", (PLAIN.nodes[0], Node(PLAIN.nodes[1].name, other)))


def test_a_replay_that_takes_up_a_state_counts_from_there():
    log = [replace(LOG[0], time_s=55.0), *LOG[1:]]
    (value,) = gpu_utilization_by_type(read_history(log, TRACE), PLAIN).values()
    assert value == pytest.approx(schedule_metrics(log, TRACE, PLAIN)["gpu_utilization"])


def test_one_type_is_the_whole_cluster():
    history = read_history(LOG, TRACE)
    (value,) = gpu_utilization_by_type(history, PLAIN).values()
    assert value == pytest.approx(schedule_metrics(LOG, TRACE, PLAIN)["gpu_utilization"])


def test_each_type_counts_its_own_gpus():
    history = read_history(LOG, TRACE)
    mixed = two_types()
    held = dict.fromkeys((0, 1), 0.0)
    for record in history.jobs:
        for segment in record.segments:
            for node, gpus in segment.placement.parts:
                held[node] += len(gpus) * segment.held_s
    length_s = history.ended.time_s - 10.0
    found = gpu_utilization_by_type(history, mixed)
    assert list(found) == sorted(found)
    assert found["Z9"] == pytest.approx(held[1] / (2 * length_s))
    first = mixed.nodes[0].type.gpu_type.name
    assert found[first] == pytest.approx(held[0] / (2 * length_s))
    assert found["Z9"] != found[first]


def test_an_instant_with_two_holders_counts_once():
    history = read_history(LOG, TRACE)
    record = next(r for r in history.jobs if r.segments)
    segment = record.segments[0]
    overlap = replace(
        segment, placement=Placement.of({0: [0]}), start_s=segment.start_s, end_s=segment.end_s
    )
    once = gpu_utilization_by_type(history, PLAIN)
    record.segments.append(overlap)
    assert gpu_utilization_by_type(history, PLAIN) == once
