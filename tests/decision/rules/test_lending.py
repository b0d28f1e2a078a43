"""What owners could use: shapes that have room and are of use, whatever candidates were built."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from morph_opt.core.domain import A800_NODE, Cluster, Leaf, Node, RoundState, SideDemand
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.lending import _can_be_assigned, could_use
from morph_opt.scheduling.decision.rules.model import OperatorRules, TenantQuota
from morph_opt.scheduling.decision.rules.queues import StrictOrder
from tests.policies.worlds import cluster, queued, speeds, state


def most(before: RoundState, rows: dict[str, float], *, prune: bool, rdma: float = 0.0) -> float:
    table = speeds({"m": rows}, SideDemand(0, 0.0, rdma))
    view = CandidateBuilder(table, prune=prune).view(before)
    return float(could_use(view, np.ones(view.problem.candidates.count, dtype=bool))[0])


@pytest.mark.parametrize("prune", [True, False])
def test_gpus_without_gain_for_any_job_have_no_use(prune: bool) -> None:
    before = state(cluster(4, 4), queued("a", cpus_per_gpu=2))
    assert most(before, {"2": 0.7, "2+2": 1.3}, prune=prune) == 2
    assert most(before, {"2": 0.7, "2+2": 0.6}, prune=prune) == 4


@pytest.mark.parametrize("prune", [True, False])
def test_a_shape_needs_nodes_to_lie_on(prune: bool) -> None:
    rows = {"1": 4.0, "2+2": 1.0, "2+2+2": 0.5}
    assert most(state(cluster(4, 4), queued("a")), rows, prune=prune) == 4
    assert most(state(cluster(4, 4), queued("a"), closed=[1]), rows, prune=prune) == 1
    assert most(state(cluster(4, 4, 4), queued("a")), rows, prune=prune) == 6


@pytest.mark.parametrize(("limit", "gpus"), [(100.0, 4), (4.0, 4), (3.9, 1)])
def test_a_shape_across_leaves_needs_their_uplinks(limit: float, gpus: int) -> None:
    """Two GPUs in each leaf at 2 GB/s are 4 GB/s of each uplink."""
    kind = replace(A800_NODE, name="x4", gpus=4)
    nodes = tuple(Node(f"n{i}", kind, f"l{i}") for i in range(2))
    where = Cluster("two", nodes, tuple(Leaf(f"l{i}", limit) for i in range(2)))
    rows = {"1": 4.0, "2+2": 1.0}
    assert most(state(where, queued("a")), rows, prune=True, rdma=2.0) == gpus


def test_dealing_parts_is_exact() -> None:
    """Against every way of giving parts to nodes, each node of a place of its own."""
    draw = np.random.default_rng(4)
    answers = {True: 0, False: 0}
    for _ in range(300):
        parts = sorted(draw.integers(1, 5, int(draw.integers(1, 5))).tolist(), reverse=True)
        places = [
            (int(draw.integers(0, 4)), float(draw.choice([np.inf, 2.0, 5.0, 8.0])))
            for _ in range(int(draw.integers(1, 4)))
        ]
        at_most, share = len(parts) - int(draw.integers(0, 2)), float(draw.choice([0.0, 1.0]))
        nodes = [place for place, (count, _) in enumerate(places) for _ in range(count)]
        possible = any(
            all(
                way.count(place) <= at_most
                and share * sum(p for p, w in zip(parts, way, strict=True) if w == place) <= limit
                for place, (_, limit) in enumerate(places)
            )
            for way in set(permutations(nodes, len(parts)))
        )
        assert _can_be_assigned(parts, places, most=at_most, share=share) == possible
        answers[possible] += 1
    assert min(answers.values()) > 50, answers


def test_jobs_in_a_strict_order_could_use_their_quota() -> None:
    """The second starts after the first, so that its owner still has use for its GPUs."""
    jobs = [queued(name, 1, tenant=tenant) for name, tenant in (("x", "a"), ("y", "a"), ("z", "b"))]
    before = state(cluster(4), *jobs)
    view = CandidateBuilder(speeds({"m": {"1": 1.0}})).view(before)
    rules = (
        StrictOrder(("x", "y")),
        TenantQuota("a", 2),
        TenantQuota("b", 0, borrow_gpus=None),
    )
    table = apply_rules(view, before, OperatorRules(rules)).problem.rules
    assert table.upper[table.name.index("borrow")] == 0.0
