"""Both formulations against brute force, and against each other where that is out of reach."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.layout import forbid
from formulations.round.check import check
from formulations.round.rule_table import RULE_S
from formulations.round.tables import Level, RoundProblem, Scope
from tests.campaigns import blocks
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import SIDES, Candidate, Rule, plain_level, rule_table, tiny
from tests.formulations.worlds.solving import FORMULATIONS, optimum

BLOCKS, ROUNDS_PER_BLOCK = blocks(4), 50
KINDS = {
    "gpus": SMALL,
    "side": RoundSize(side_resources_bind=True),
    "places": replace(EVERYTHING, rules=0, side_resources_bind=False),
    "everything": EVERYTHING,
}
PER_NODE = {
    "ssd": RoundSize(
        jobs=5,
        nodes=2,
        classes=1,
        candidates=3,
        parts=2,
        gpus=(6, 8),
        running=0.3,
        closed=0.0,
        side_resources_bind=True,
        sides=SIDES + 1,
    ),
    "everything": LOCAL_SSD,
    "many parts": replace(LOCAL_SSD, parts=4, gpus=(4, 8), rules=0),
}
LARGE = RoundSize(jobs=14, nodes=9, classes=3, candidates=6, running=0.6)
LARGE_EVERYTHING = replace(EVERYTHING, jobs=9, nodes=7, classes=2, candidates=5, running=0.6)


MIXED = {
    "gpus": RoundSize(nodes=4, classes=3, candidates=4, running=0.3, mixed=0.8),
    "everything": replace(EVERYTHING, nodes=5, classes=3, running=0.3, closed=0.1, mixed=0.8),
}

ALIKE = {
    "one job": replace(
        EVERYTHING,
        jobs=1,
        nodes=6,
        classes=1,
        candidates=8,
        parts=4,
        gpus=(2, 4),
        running=0.0,
        node_sets=0,
        rules=0,
    ),
    "few jobs": replace(
        EVERYTHING,
        jobs=3,
        nodes=6,
        classes=1,
        candidates=5,
        parts=4,
        gpus=(2, 4),
        running=0.3,
        closed=0.1,
        node_sets=0,
        rules=0,
    ),
}
"""Nodes of one class under leaves and domains, most of them alike, scarce threads and uplinks."""

Drawn = tuple[str, RoundProblem, np.random.Generator]


def same(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def rounds(seed: int, size: RoundSize, count: int) -> list[Drawn]:
    draws = [(f"seed {seed}, round {i}", np.random.default_rng((seed, i))) for i in range(count)]
    return [(name, random_round(draw, size), draw) for name, draw in draws]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_both_formulations_and_brute_force_agree(block: int) -> None:
    kind = list(KINDS)[block % len(KINDS)]
    for name, problem, draw in rounds(block, KINDS[kind], ROUNDS_PER_BLOCK):
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level])
        check(problem, truth)
        for formulation in FORMULATIONS:
            found = optimum(problem, level, formulation)
            assert same(found, truth.value(level)), (kind, name, formulation)
        assert same(optimum(problem, level, tight=True), truth.value(level)), (kind, name)


@pytest.mark.parametrize("size", MIXED.values(), ids=list(MIXED))
@pytest.mark.parametrize("block", range(blocks(1)))
def test_gangs_over_several_classes_agree_with_brute_force(block: int, size: RoundSize) -> None:
    agree_with_brute_force(9000 + block, size, 25)


@pytest.mark.parametrize("size", PER_NODE.values(), ids=list(PER_NODE))
@pytest.mark.parametrize("block", range(blocks(1)))
def test_per_node_resources_agree_with_brute_force(block: int, size: RoundSize) -> None:
    agree_with_brute_force(5000 + block, size, 40)


def test_local_ssd_decides_rounds() -> None:
    """With plenty of it every tenth round and more would come out better."""
    decided = 0
    for _, problem, draw in rounds(5000, PER_NODE["ssd"], 60):
        level = random_level(draw, problem)
        capacity = problem.nodes.capacity.copy()
        capacity[:, -1] = 1e9
        plenty = replace(problem, nodes=replace(problem.nodes, capacity=capacity))
        best, more = (oracle.best(each, [level]).value(level) for each in (problem, plenty))
        decided += not same(best, more)
    assert decided >= 6


@pytest.mark.parametrize("size", ALIKE.values(), ids=list(ALIKE))
@pytest.mark.parametrize("block", range(blocks(1)))
def test_places_that_are_alike_agree_with_brute_force(block: int, size: RoundSize) -> None:
    agree_with_brute_force(7000 + block, size, 40)


def agree_with_brute_force(seed: int, size: RoundSize, count: int) -> None:
    for name, problem, draw in rounds(seed, size, count):
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level])
        check(problem, truth)
        for formulation in FORMULATIONS:
            found = optimum(problem, level, formulation)
            assert same(found, truth.value(level)), (name, formulation)


def test_mixed_rounds_are_of_every_kind() -> None:
    seen = dict.fromkeys(("mixed", "loose", "mixed stay", "loose on one node", "parts"), 0)
    drawn = [rounds(9000, size, 50) for size in MIXED.values()]
    for _, problem, draw in chain.from_iterable(zip(*drawn, strict=True)):
        table, best = problem.candidates, oracle.best(problem, [random_level(draw, problem)])
        started = [k for k in best.choice.tolist() if 0 <= k < table.count]
        seen["mixed"] += bool(table.mixed[started].any())
        seen["parts"] += bool((table.mixed & ~table.loose)[started].any())
        seen["loose"] += bool(table.loose[started].any())
        stays = np.intersect1d(problem.options.mixed.option, best.choice)
        seen["mixed stay"] += bool((stays >= table.count).any())
        seen["loose on one node"] += any(len(set(n)) < len(n) for n in best.nodes)
        if min(seen.values()) >= 5:
            return
    pytest.fail(str(seen))


@pytest.mark.parametrize("block", range(blocks(2)))
@pytest.mark.parametrize("size", [LARGE, LARGE_EVERYTHING], ids=["gpus", "everything"])
def test_formulations_agree_on_larger_rounds_with_running_jobs(size: RoundSize, block: int) -> None:
    for name, problem, draw in rounds(2000 + block, size, 8):
        level = random_level(draw, problem)
        pattern, assignment = (optimum(problem, level, f) for f in FORMULATIONS)
        assert same(pattern, assignment), name
        assert same(pattern, optimum(problem, level, tight=True)), name


def test_random_rounds_are_of_every_kind() -> None:
    seen = dict.fromkeys(
        ("several classes", "closed", "stays taken", "stay on a closed node", "same parts",
         "different parts", "sub-node parts of one job", "whole node", "guaranteed", "scarce",
         "leaf", "domain", "anywhere", "node set", "uplink", "must_run", "quota", "borrowed"), 0
    )  # fmt: skip
    for name, problem, draw in rounds(3, EVERYTHING, 200):
        del name
        level = random_level(draw, problem)
        table, nodes = problem.candidates, problem.nodes
        shapes = [table.parts(k) for k in range(table.count)]
        full = [int(nodes.capacity[t, 0]) for t in table.node_class.tolist()]
        stays = oracle.best(problem, [level]).choice
        stays = (stays >= 0) & (stays == problem.options.stay)
        seen["several classes"] += nodes.classes > 1
        seen["closed"] += not nodes.open.all()
        seen["stays taken"] += bool(stays.any())
        seen["stay on a closed node"] += bool(
            (stays[problem.holds.job] & ~nodes.open[problem.holds.node]).any()
        )
        seen["same parts"] += any(len(s) > len(set(s)) for s in shapes)
        seen["different parts"] += any(len(set(s)) > 1 for s in shapes)
        seen["sub-node parts of one job"] += any(
            len(s) > 1 and s[0] + s[1] <= most for s, most in zip(shapes, full, strict=True)
        )
        seen["whole node"] += any(s[0] == most for s, most in zip(shapes, full, strict=True))
        for word, scope in (
            ("leaf", Scope.LEAF),
            ("domain", Scope.NVLINK),
            ("anywhere", Scope.POD),
        ):
            seen[word] += bool((table.scope == scope).any())
        seen["node set"] += bool(table.node_set.any())
        seen["uplink"] += bool(np.isfinite(nodes.uplink_gb_per_s).any())
        for word in set(problem.rules.name):
            seen[word] += 1
        seen["guaranteed"] += bool(problem.jobs.guaranteed.any())
        demand = np.asarray([table.demand(k, s[0])[1:] for k, s in enumerate(shapes)])
        room = nodes.capacity[table.node_class, 1:]
        seen["scarce"] += bool(demand.size and (2 * demand > room * (1 + 1e-9)).any())
        if min(seen.values()) >= 5:
            return
    pytest.fail(str(seen))


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_rule_on_the_stay_of_a_queued_job_has_no_effect(
    formulation: str,
) -> None:
    cap = rule_table([Rule("cap", -np.inf, 0.0, ((RULE_S, 0, 1.0),))])
    problem = tiny([4], [Candidate(0, (4,))], rules=cap)
    level = Level("worth", "points", np.ones(1))
    check(problem, oracle.best(problem, [level]))
    assert optimum(problem, level, formulation) == 1.0


def test_rows_that_were_added_hold_in_the_other_formulation_but_for_cuts_on_patterns() -> None:
    problem = tiny([4, 4], [Candidate(0, (3, 1)), Candidate(1, (4,))])
    level = plain_level(problem)
    built = forbid(node_pattern.build(problem, level), np.asarray([0, 1]), 0)
    cut = built.model.with_row("distinct", [0], np.zeros(1, dtype=np.int64), np.ones(1), 0.0, 0.0)
    named = node_assignment.build(problem, level)
    more = named.with_rows_of(replace(built, model=cut)).model
    names = [more.row_name(row) for row in range(named.model.rows, more.rows)]
    assert names == ["not_again[0]"]


def test_rounds_are_reproducible() -> None:
    first, second = (random_round(np.random.default_rng(5)) for _ in range(2))
    for a, b in zip(
        (first.candidates.iteration_s, first.holds.demand, first.nodes.capacity),
        (second.candidates.iteration_s, second.holds.demand, second.nodes.capacity),
        strict=True,
    ):
        assert a.tobytes() == b.tobytes()


def test_nodes_fit_by_gpus_if_side_resources_do_not_bind() -> None:
    for name, problem, _ in rounds(3, SMALL, 100):
        most = problem.nodes.capacity[problem.candidates.node_class]
        per_gpu = most[:, 1:] / most[:, :1]
        assert (problem.candidates.side <= per_gpu * (1 + 1e-12)).all(), name
