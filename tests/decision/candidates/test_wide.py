"""Wide gangs, wide nodes and wide clusters end in bounded work, not in an explosion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.round.tables import Scope
from morph_opt.core.domain import ExecutionPlan, Job, Shape, SideDemand, partitions
from morph_opt.core.domain.shape import MOST_PARTS
from morph_opt.inputs.clusters.short import parse_short
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.scheduling.decision.candidates import dominance
from morph_opt.scheduling.decision.candidates.dominance import Scoped, embeds, undominated
from morph_opt.scheduling.decision.params import DominanceParams
from morph_opt.simulation.metrics.bounds import demands
from morph_opt.simulation.metrics.bounds.demands import why_impossible

RIGID = ExecutionPlan.parse("dp")


def every_partition(total: int, largest: int) -> set[tuple[int, ...]]:
    """By definition: take a largest part, split the rest."""
    if total == 0:
        return {()}
    parts = range(1, min(total, largest) + 1)
    return {(p, *tail) for p in parts for tail in every_partition(total - p, p)}


@given(st.integers(1, 16), st.integers(1, 18))
def test_small_gangs_have_every_shape_fewest_nodes_first(total: int, largest: int) -> None:
    found = [shape.parts for shape in partitions(total, largest)]
    assert set(found) == every_partition(total, largest)
    assert found == sorted(found, key=lambda parts: (len(parts), [-part for part in parts]))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("total", "largest"),
    [(64, 8), (200, 8), (200, 128), (1024, 1024), (2000, 8), (100_000, 8), (10**5, 1)],
)
def test_wide_gangs_have_the_tightest_shapes(total: int, largest: int) -> None:
    """All 10^8 shapes of 200 GPUs on nodes of 8 would neither end nor fit in memory."""
    found = partitions(total, largest)
    assert len(found) == 1 or sum(shape.nodes for shape in found) <= MOST_PARTS
    assert found[0].nodes == -(-total // largest)
    for shape in found:
        assert shape.gpus == total
        assert shape.parts[0] <= largest


def test_every_shape_of_32_gpus_on_nodes_of_8() -> None:
    """Partitions of 32 into parts up to 8: 3,319."""
    assert len(partitions(32, 8)) == 3319


def test_shapes_of_one_gang_are_not_compared_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them embeds in another; each with each would be 10^8 comparisons."""
    asked = 0

    def counting(*given: Any) -> bool:
        nonlocal asked
        asked += 1
        return embeds(*given)

    monkeypatch.setattr(dominance, "embeds", counting)
    rows = [Scoped(Scope.LEAF, Configuration(shape, RIGID, 1.0)) for shape in partitions(200, 8)]
    assert undominated(rows) == rows
    assert asked == 0


def test_comparisons_are_bounded() -> None:
    """Each of 60 rows is faster than all on fewer GPUs; with a bound of 5 the same stay."""
    rows = [
        Scoped(Scope.NODE, Configuration(Shape.of(gpus), RIGID, 1.0 / gpus))
        for gpus in range(1, 61)
    ]
    assert undominated(rows, params=DominanceParams(compared=5)) == rows


def test_fit_is_decided_per_node_type_and_not_per_node() -> None:
    """100,000 nodes of 8: a gang of 12 fits on two of them, one of 800,001 on none."""
    gang = Gang(12, "vgg19")
    speeds = GangTable([gang])
    cluster = parse_short("100000x8:V100")
    job = Job("a", gang.name, 0.0, 10, 12, RIGID)
    assert why_impossible(job, speeds, cluster) is None
    larger = replace(job, requested_gpus=800_001)
    assert "800000" in (why_impossible(larger, speeds, cluster) or "")
    kind = cluster.node_types[0]
    kinds = ((kind, 100_000), (replace(kind, name="small", gpus=4), 2))
    assert demands._room(kinds, SideDemand().each, 3) == (8, 8, 8, 4, 4)
