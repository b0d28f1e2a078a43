"""Checks that look at what changed find what checks of everything find."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from morph_opt.core.domain import Assignment, Cluster, Leaf, Node, SideDemand
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.scheduling.strict.rules import StateFacts
from tests.engine.packing_toys import PairedToys
from tests.engine.toys import ToySpeeds, hold, job, node_type


def two_leaves(nodes: int, **other: float) -> Cluster:
    """Nodes of four GPUs under two leaves, each with an uplink for two shares."""
    kind = node_type(4, **other)
    every = tuple(Node(f"n{i}", kind, "ab"[2 * i // nodes]) for i in range(nodes))
    return Cluster("two", every, (Leaf("a", 2.0), Leaf("b", 2.0)))


NODES = two_leaves(4, cpus=10, rdma_gb_per_s=3.0)
JOBS = {f"j{i}": job(f"j{i}", cpus_per_gpu=1 + i % 4) for i in range(7)}
SPEEDS = PairedToys(side=SideDemand(1, 0.0, 1.0))


def drawn(draw: random.Random, names: list[str]) -> dict[str, Assignment]:
    """Assignments that may collide, ask for too many threads, or share GPUs."""
    found = {}
    for name in names:
        count = draw.choice((1, 1, 2, 4))
        node = draw.randrange(4)
        parts: dict[int, Sequence[int]] = {node: draw.sample(range(4), count)}
        if count > 1 and draw.random() < 0.5:
            parts = {node: range(count // 2), (node + 1) % 4: range(2, 2 + count // 2)}
        found[name] = hold(name, parts)
    if len(names) > 1 and draw.random() < 0.3:
        one, two = names[:2]
        where = found[one].placement
        found[one] = replace(found[one], partner=two)
        found[two] = replace(found[two], placement=where, plan=found[one].plan, partner=one)
    return found


def changed(draw: random.Random, held: dict[str, Assignment]) -> list[Assignment]:
    """Some stay as they are, as the same object or an equal one; some leave; others come."""
    stay = [a if draw.random() < 0.7 else replace(a) for a in held.values() if draw.random() < 0.8]
    others = [name for name in JOBS if name not in held or draw.random() < 0.1]
    fresh = list(drawn(draw, draw.sample(others, min(len(others), draw.randrange(3)))).values())
    found = stay + fresh
    draw.shuffle(found)
    return found


LOOKUP = RunLookup(SPEEDS, NODES)


@pytest.mark.parametrize("seed", range(6))
def test_incremental_check_agrees_with_a_full_check(seed: int) -> None:
    """Round after round: nodes fail and drain, jobs end, change, come back, and may collide."""
    draw = random.Random(seed)
    check = PlacementCheck(LOOKUP)
    held: dict[str, Assignment] = {}
    rounds, broken, rules = 300, 0, set[str]()
    for _ in range(rounds):
        # Now and then a node fails under its jobs: what stays there has to be found.
        failed = frozenset(draw.sample(range(4), 1) if draw.random() < 0.1 else ())
        down = failed | frozenset(draw.sample(range(4), draw.randrange(2)))
        over = set(draw.sample(sorted(JOBS), draw.randrange(2)))
        active = {
            name: replace(each, cpus_per_gpu=draw.randrange(1, 5)) if draw.random() < 0.02 else each
            for name, each in JOBS.items()
            if name not in over
        }
        before = StateFacts(active, JOBS, held, down, failed)
        after = changed(draw, held)
        found = check.check(after, before)
        assert found == PlacementCheck(LOOKUP).check(after, before)
        rules |= {violation.rule for violation in found}
        broken += bool(found)
        # What runs has passed; where nothing passes, jobs leave now and then.
        held = {a.job: a for a in after} if not found else held if draw.random() < 0.8 else {}
    assert 0.2 * rounds < broken < 0.9 * rounds
    expected = {"active_job", "node_available", "one_holder", "node_cpus", "node_rdma", "uplink"}
    assert rules >= expected


@pytest.mark.parametrize("seed", range(3))
def test_refused_addition_leaves_the_check_unchanged(seed: int) -> None:
    draw = random.Random(seed)
    check, before = PlacementCheck(LOOKUP), StateFacts(JOBS, JOBS, {})
    inside: dict[str, Assignment] = {}
    refused = 0
    for _ in range(300):
        if draw.random() < 0.2:
            inside = {name: a for name, a in inside.items() if draw.random() < 0.5}
            inside = {n: a for n, a in inside.items() if a.partner is None or a.partner in inside}
            assert check.check(inside.values(), before) == ()
        some = drawn(draw, draw.sample(sorted(JOBS), draw.randrange(1, 3)))
        if any(inside[name].partner is not None for name in some if name in inside):
            continue
        whole = inside | some
        found = check.add(tuple(some.values()), before)
        assert bool(found) == bool(PlacementCheck(LOOKUP).check(whole.values(), before))
        inside = inside if found else whole
        refused += bool(found)
    assert refused > 30


def test_incremental_check_visits_changed_nodes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 400 nodes in two leaves with uplinks, one job in a hundred moves."""
    nodes = two_leaves(400)
    jobs = {f"j{i}": job(f"j{i}") for i in range(1600)}
    held = {f"j{i}": hold(f"j{i}", {i // 4: [i % 4]}) for i in range(1600)}
    check = PlacementCheck(RunLookup(ToySpeeds(), nodes))
    assert check.check(held.values(), StateFacts(jobs, jobs, {})) == ()
    looked: list[int] = []
    look = PlacementCheck._node_broken

    def counted(self: PlacementCheck, node: int, *rest: Any) -> Any:
        looked.append(node)
        return look(self, node, *rest)

    monkeypatch.setattr(PlacementCheck, "_node_broken", counted)
    swap = {f"j{4 * i}": f"j{4 * i + 4}" for i in range(0, 16, 2)}
    places = {**swap, **{b: a for a, b in swap.items()}}
    after = [replace(a, placement=held[places.get(n, n)].placement) for n, a in held.items()]
    assert check.check(after, StateFacts(jobs, jobs, held)) == ()
    assert sorted(looked) == list(range(16))
