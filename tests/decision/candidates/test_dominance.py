"""Dominated configurations: who dominates whom, and that no optimum needs the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.objectives import guarantee
from formulations.round.tables import Scope
from morph_opt.core.domain import ExecutionPlan, Shape, SideDemand
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.scheduling.decision.candidates.dominance import Scoped, embeds, undominated
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from tests.campaigns import blocks
from tests.formulations.worlds.solving import optimum
from tests.policies.worlds import random_world

DP = ExecutionPlan.parse("dp")


def row(shape: str, seconds: float = 1.0, *side: float) -> Configuration:
    cpus, memory, rdma = (*side, 0.0, 0.0, 0.0)[:3]
    return Configuration(Shape.parse(shape), DP, seconds, SideDemand(int(cpus), memory, rdma))


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (row("4"), row("8"), True),
        (row("8"), row("4"), False),
        (row("4"), row("4"), True),
        (row("4"), row("2+2"), False),  # one node with four free GPUs is not two with two
        (row("2+2"), row("4"), False),
        (row("2+2"), row("4+2"), True),
        (row("3+3"), row("4+2"), False),
        (row("4"), row("4+2"), True),
        (row("2", 1, 4), row("4", 1, 2), True),  # 8 CPU threads of 8
        (row("2", 1, 5), row("4", 1, 2), False),  # 10 CPU threads of 8
        (row("2", 1, 0, 9.0), row("4", 1, 0, 4.0), False),
        (row("2", 1, 0, 0, 3.0), row("4", 1, 0, 0, 1.0), False),
    ],
)
def test_embedding_by_hand(a: Configuration, b: Configuration, answer: bool) -> None:
    assert embeds(a, b) is answer


@st.composite
def scoped(draw: st.DrawFn) -> Scoped:
    parts = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    side = SideDemand(draw(st.integers(0, 2)), float(draw(st.integers(0, 2))))
    scope = draw(st.sampled_from(WIDE)) if len(parts) > 1 else Scope.NODE
    return Scoped(scope, Configuration(Shape.of(*parts), DP, float(draw(st.integers(1, 4))), side))


WIDE = (Scope.NVLINK, Scope.LEAF, Scope.POD)
ROWS = st.lists(scoped(), max_size=12)


def dominates(a: Scoped, b: Scoped) -> bool:
    """From the page: as fast, embeds, and may lie wherever b lies without reserving more."""
    reaches = {
        Scope.NODE: set(Scope),
        Scope.NVLINK: {Scope.NVLINK},
        Scope.LEAF: {Scope.LEAF, Scope.NVLINK},
        Scope.POD: {Scope.POD},
    }
    faster = a.row.iteration_s <= b.row.iteration_s
    return faster and embeds(a.row, b.row) and b.scope in reaches[a.scope]


@given(ROWS)
def test_exactly_the_dominated_candidates_are_removed(rows: list[Scoped]) -> None:
    kept = undominated(rows)
    positions = [next(i for i, r in enumerate(rows) if r is k) for k in kept]
    assert positions == sorted(positions), "the order does not change"
    for one in rows:
        assert any(dominates(k, one) for k in kept)
    for k in kept:
        assert not any(dominates(other, k) for other in kept if other is not k)


@given(ROWS)
def test_pruning_twice_changes_nothing(rows: list[Scoped]) -> None:
    assert undominated(undominated(rows)) == undominated(rows)


def test_first_of_equal_candidates_is_kept() -> None:
    twins = [Scoped(Scope.NODE, row("4", 2.0)), Scoped(Scope.NODE, row("4", 2.0))]
    assert undominated(twins)[0] is twins[0]
    assert len(undominated(twins)) == 1


@pytest.mark.parametrize("block", range(blocks(1)))
def test_no_optimum_needs_a_dominated_candidate(block: int) -> None:
    dropped = 0
    for i in range(40):
        belief, before = random_world(np.random.default_rng((12, block, i)), rows=12)
        pruned = CandidateBuilder(belief).view(before).problem
        whole = CandidateBuilder(belief, prune=False).view(before).problem
        dropped += whole.candidates.count - pruned.candidates.count
        for make in OBJECTIVES.values():
            for small, large in (
                (make().levels(pruned)[0], make().levels(whole)[0]),
                (guarantee(pruned), guarantee(whole)),
            ):
                assert optimum(pruned, small) == pytest.approx(optimum(whole, large), rel=1e-6)
    assert dropped > 50
