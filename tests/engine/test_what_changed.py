"""Checks that look at what changed find what checks of everything find."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from morph_opt.decision.holding import HoldingCheck, Needs, broken_holding
from morph_opt.domain import Allocation, Assignment, Job, JobState, RoundState, SideDemand
from morph_opt.engine.strict import StateFacts, check_allocation
from morph_opt.engine.truth import RunFacts, TruthLookup
from tests.engine.packing_toys import PairedToys
from tests.engine.toys import cluster, hold, job

NODES = cluster(4, 4, cpus=10)
JOBS = {f"j{i}": job(f"j{i}", cpus_per_gpu=1 + i % 4) for i in range(7)}
SPEEDS = PairedToys(side=SideDemand(1, 0.0, 0.0))


def drawn(draw: random.Random, names: list[str]) -> dict[str, Assignment]:
    """Assignments that may collide, ask for too many threads, or share GPUs."""
    found = {}
    for name in names:
        count = draw.choice((1, 1, 2, 4))
        node = draw.randrange(4)
        parts = {node: draw.sample(range(4), count)}
        if count == 4 and draw.random() < 0.5:
            parts = {node: [0, 1], (node + 1) % 4: [2, 3]}
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


def facts(job: Job, assignment: Assignment) -> RunFacts | None:
    return LOOKUP.facts(job.model, assignment)


LOOKUP = TruthLookup(SPEEDS, NODES)


@pytest.mark.parametrize("seed", range(3))
def test_what_changed_is_enough_where_what_is_held_passed(seed: int) -> None:
    draw = random.Random(seed)
    broken = tried = 0
    while tried < 300:
        held = drawn(draw, draw.sample(sorted(JOBS), draw.randrange(6)))
        before = StateFacts(JOBS, JOBS, held)
        if check_allocation(held.values(), NODES, before, facts, LOOKUP.paired_iteration_s):
            continue
        tried += 1
        # A failed node holds nothing, as the engine sees to it; on a drained one jobs may stay.
        empty = sorted(set(range(4)) - {n for a in held.values() for n in a.placement.nodes})
        failed = frozenset(empty[:1] if draw.random() < 0.5 else ())
        before = replace(before, failed=failed, unavailable=failed | {draw.randrange(4)})
        after = changed(draw, held)
        arguments = (after, NODES, before, facts, LOOKUP.paired_iteration_s)
        whole = check_allocation(*arguments)
        assert check_allocation(*arguments, held_passed=True) == whole
        broken += bool(whole)
    assert 60 < broken < 240


def state_of(held: dict[str, Assignment], failed: frozenset[int]) -> RoundState:
    jobs = tuple(JobState(each, running=held.get(name)) for name, each in JOBS.items())
    return RoundState(0, 60.0, 60.0, NODES, jobs, failed, failed)


@pytest.mark.parametrize("seed", range(3))
def test_holdings_round_after_round_are_those_of_each_round(seed: int) -> None:
    draw = random.Random(seed)
    check, needs = HoldingCheck(Needs(SPEEDS)), Needs(SPEEDS)
    held: dict[str, Assignment] = {}
    broken = 0
    for _ in range(600):
        # Now and then a node fails under its jobs: what stays there has to be found.
        failed = frozenset(draw.sample(range(4), 1) if draw.random() < 0.1 else ())
        after = {a.job: a for a in changed(draw, held)}
        allocation, state = Allocation(tuple(after.values())), state_of(held, failed)
        found = check.broken(state, allocation)
        assert (found is None) == (broken_holding(state, allocation, needs) is None)
        broken += found is not None
        held = after if found is None else held
    assert 60 < broken < 540
