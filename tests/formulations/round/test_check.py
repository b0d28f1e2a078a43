"""The independent check: every rule, violated in several ways by hand, is named."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import formulations.round.check as module
from formulations.round.check import RuleError, check
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X
from formulations.round.tables import NONE, RoundProblem, Scope, Selection
from tests.campaigns import blocks
from tests.formulations.test_pairs import BAD as PAIR_VIOLATIONS
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, random_round
from tests.formulations.worlds.rounds import STAY, Candidate, Hold, Rule, decided, rule_table, tiny

SCARCE_SIDE = (12.0, 100.0, 10.0)


def base() -> RoundProblem:
    """Nodes 0..2 of eight GPUs (2 closed), node 3 of four; jobs 3 and 4 run."""
    return tiny(
        [8, 8, 8, 4],
        [
            Candidate(0, (8,)),  # 0
            Candidate(0, (4, 2)),  # 1
            Candidate(1, (2,), node_class=1),  # 2
            Candidate(1, (4,), node_class=1),  # 3
            Candidate(2, (4,), side=(3.0, 0.0, 0.0)),  # 4
            Candidate(2, (2, 2), side=(0.0, 30.0, 0.0)),  # 5
            Candidate(3, (6,), side=(0.0, 0.0, 2.0)),  # 6
        ],
        holds=[
            Hold(3, 0, 2, (1.0, 25.0, 1.0)),
            Hold(3, 1, 2, (1.0, 25.0, 1.0)),
            Hold(4, 2, 8, (1.0, 0.0, 0.0)),
        ],
        closed=[2],
        side=SCARCE_SIDE,
    )


GOOD_CHOICE = [1, 2, NONE, STAY, STAY]
GOOD_NODES: list[tuple[int, ...]] = [(0, 1), (3,), (), (), ()]


def altered(choice: dict[int, int], nodes: dict[int, tuple[int, ...]]) -> Selection:
    """The good decision with other entries for some jobs."""
    picks = np.asarray([choice.get(j, c) for j, c in enumerate(GOOD_CHOICE)], dtype=np.int64)
    return Selection(picks, tuple(nodes.get(j, n) for j, n in enumerate(GOOD_NODES)))


def short(by: int) -> Selection:
    good = altered({}, {})
    return Selection(good.choice[:by], good.nodes[:by])


VIOLATIONS: dict[str, list[Selection]] = {
    "one_config": [
        short(-1),
        short(0),
        Selection(np.asarray([*GOOD_CHOICE, NONE]), (*GOOD_NODES, ())),
        Selection(np.asarray([GOOD_CHOICE]), tuple(GOOD_NODES)),
        Selection(np.asarray(GOOD_CHOICE), tuple(GOOD_NODES[:-1])),
    ],
    "own_candidate": [
        altered({0: 4}, {0: (0,)}),
        altered({2: 0}, {2: (0,)}),
        altered({4: 6}, {4: (0,)}),
        altered({0: 7}, {0: (0,)}),
        altered({0: 7}, {0: ()}),  # the stay of job 3
        altered({0: 9}, {0: (0,)}),
        altered({0: -3}, {0: (0,)}),
    ],
    "parts": [
        altered({}, {0: (0,)}),
        altered({}, {0: (0, 1, 3)}),
        altered({}, {1: ()}),
        altered({}, {2: (0,)}),
        altered({}, {3: (0, 1)}),
    ],
    "distinct_nodes": [
        altered({}, {0: (0, 0)}),
        altered({}, {0: (1, 1)}),
        altered({0: NONE, 2: 5}, {0: (), 2: (0, 0)}),
    ],
    "node_exists": [
        altered({}, {0: (0, 4)}),
        altered({}, {0: (-1, 1)}),
        altered({}, {1: (99,)}),
    ],
    "node_open": [
        altered({}, {0: (0, 2)}),
        altered({4: NONE}, {0: (2, 1)}),
        altered({0: NONE, 2: 4, 4: NONE}, {0: (), 2: (2,)}),
    ],
    "node_class": [
        altered({}, {0: (0, 3)}),
        altered({}, {1: (0,)}),
        altered({0: NONE, 2: 4}, {0: (), 2: (3,)}),
    ],
    "capacity": [
        altered({0: 0}, {0: (0,)}),  # GPUs: 8 next to a stay of 2
        altered({2: 4}, {2: (0,)}),  # GPUs: 4 + 4 + a stay of 2
        altered({0: NONE, 2: 4}, {0: (), 2: (1,)}),  # CPU threads: 12 + 2 of 12
        altered({0: NONE, 2: 5}, {0: (), 2: (0, 1)}),  # host memory: 60 + 50 of 100
        altered({0: NONE, 2: 5, 3: 6}, {0: (), 2: (0, 1), 3: (0,)}),  # network: 12 of 10
    ],
}


def test_the_good_decision_passes() -> None:
    check(base(), decided(base(), altered({}, {})))


def wide() -> RoundProblem:
    """Four nodes in leaves 0 0 1 1 and NVLink domains 0 0 0 1; leaf 0 has 8 GB/s, 4 in use."""
    return tiny(
        [8, 8, 8, 8],
        [
            Candidate(0, (4, 4), scope=Scope.LEAF),  # 0
            Candidate(0, (4, 4), scope=Scope.NVLINK),  # 1
            Candidate(0, (4, 4), side=(0.0, 0.0, 1.0)),  # 2
            Candidate(1, (4,), node_set=1),  # 3
            Candidate(1, (4, 2), node_set=2),  # 4
            Candidate(1, (2, 2), side=(0.0, 0.0, 2.0)),  # 5
            Candidate(1, (4, 2), strict=True),  # 6
            Candidate(1, (4, 2), scope=Scope.LEAF, strict=True),  # 7
        ],
        holds=[Hold(2, 1, 2, uplink=4.0), Hold(2, 3, 2, uplink=1.0)],
        leaf=[0, 0, 1, 1],
        domain=[0, 0, 0, 1],
        uplink=[8.0, 100.0],
        sets=[[1, 2], [0, 3]],
        rules=rule_table(
            [
                Rule(
                    "quota",
                    -np.inf,
                    8.0,
                    tuple((RULE_X, k, 8.0) for k in range(3))
                    + tuple((RULE_X, k, 4.0) for k in range(3, 6)),
                ),
                Rule(
                    "must_run",
                    1.0,
                    np.inf,
                    (*((RULE_X, k, 1.0) for k in range(3)), (RULE_S, 2, 1.0)),
                ),
                Rule("lend", -np.inf, 4.0, ((RULE_X, 2, 8.0), (RULE_U, 0, -1.0))),
            ],
            [3.0],
        ),
    )


def chosen(first: int, second: int, third: int, *nodes: tuple[int, ...]) -> Selection:
    """Choices of the three jobs and the nodes of those that start."""
    given = iter(nodes)
    where = tuple(next(given) if pick >= 0 else () for pick in (first, second, third))
    return Selection(np.asarray([first, second, third]), where)


WIDE_VIOLATIONS: dict[str, list[Selection]] = {
    "scope": [
        chosen(0, NONE, STAY, (0, 2)),
        chosen(0, NONE, STAY, (3, 1)),
        chosen(1, NONE, STAY, (2, 3)),
        chosen(1, NONE, NONE, (3, 0)),
    ],
    "span": [
        chosen(NONE, 6, STAY, (0, 1)),  # one leaf
        chosen(NONE, 6, STAY, (3, 2)),
        chosen(NONE, 7, STAY, (1, 0)),  # one leaf, one domain
    ],
    "node_set": [
        chosen(NONE, 3, STAY, (0,)),
        chosen(NONE, 3, STAY, (3,)),
        chosen(NONE, 4, STAY, (0, 1)),
        chosen(NONE, 4, STAY, (2, 3)),
    ],
    "uplink": [
        chosen(2, NONE, STAY, (0, 1)),  # 4 + 4 + a stay of 4
        chosen(NONE, 5, STAY, (0, 1)),
        chosen(2, 5, NONE, (0, 2), (1, 0)),  # 4 + 8
    ],
}
RULE_VIOLATIONS: dict[str, list[Selection]] = {
    "quota": [chosen(0, 3, STAY, (2, 3), (1,)), chosen(1, 4, STAY, (0, 2), (0, 3))],
    "must_run": [chosen(NONE, NONE, NONE), chosen(NONE, 3, NONE, (1,))],
    "lend": [chosen(2, NONE, STAY, (2, 3)), chosen(2, NONE, NONE, (0, 3))],
}
CASES = [
    (rule, problem, selection)
    for problem, table in ((base, VIOLATIONS), (wide, WIDE_VIOLATIONS), (wide, RULE_VIOLATIONS))
    for rule, ways in table.items()
    for selection in ways
]


@pytest.mark.parametrize(("rule", "problem", "selection"), CASES)
def test_a_violation_is_rejected_by_name(
    rule: str, problem: Callable[[], RoundProblem], selection: Selection
) -> None:
    with pytest.raises(RuleError, match=rf"^{rule}: ") as caught:
        check(problem(), decided(problem(), selection))
    assert caught.value.rule == rule
    assert not oracle.feasible(problem(), decided(problem(), selection))


@pytest.mark.parametrize(
    "selection",
    [
        chosen(0, NONE, STAY, (0, 1)),
        chosen(1, NONE, STAY, (2, 0)),
        chosen(NONE, 4, STAY, (3, 0)),
        chosen(NONE, 5, STAY, (2, 0)),  # 4 of the 4 that the stay leaves on leaf 0
        chosen(NONE, 6, STAY, (0, 2)),  # one domain, two leaves
        chosen(NONE, 7, STAY, (3, 2)),
    ],
)
def test_check_accepts_a_valid_wide_decision(selection: Selection) -> None:
    check(wide(), decided(wide(), selection))


def test_every_rule_has_violations_and_stands_in_the_docstring() -> None:
    source = inspect.getsource(module)
    raised = {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "RuleError"
        and isinstance(node.args[0], ast.Constant)
    }
    assert raised == set(VIOLATIONS) | set(WIDE_VIOLATIONS) | set(PAIR_VIOLATIONS)
    assert set(re.findall(r"``(\w+)``", module.__doc__ or "")) == raised
    assert all(
        len(ways) >= 3
        for ways in (*VIOLATIONS.values(), *WIDE_VIOLATIONS.values(), *PAIR_VIOLATIONS.values())
    )


def test_the_message_says_job_node_and_resource() -> None:
    with pytest.raises(RuleError, match=r"^distinct_nodes: job 0: .*\(1, 1\)"):
        check(base(), decided(base(), altered({}, {0: (1, 1)})))
    with pytest.raises(RuleError, match=r"^capacity: node 1 would hold 14 of 12 cpu$"):
        check(base(), decided(base(), altered({0: NONE, 2: 4}, {0: (), 2: (1,)})))


@pytest.mark.parametrize("block", range(blocks(2)))
def test_check_accepts_exactly_the_enumerated_decisions(block: int) -> None:
    verdicts = {True: 0, False: 0}
    for i in range(100):
        draw = np.random.default_rng((9, block, i))
        problem = random_round(draw, EVERYTHING)
        for _ in range(10):
            selection = random_selection(draw, problem)
            possible = oracle.feasible(problem, selection)
            verdicts[possible] += 1
            if possible:
                check(problem, selection)
            else:
                with pytest.raises(RuleError):
                    check(problem, selection)
    assert min(verdicts.values()) >= 100, verdicts


def random_selection(draw: np.random.Generator, problem: RoundProblem) -> Selection:
    """A decision that is right in most respects and spoilt in one every now and then."""
    choice, nodes = [], []
    for job in range(problem.jobs.count):
        picked = int(draw.choice(oracle.options(problem, job)))
        if draw.random() < 0.04:
            picked = int(draw.integers(-3, problem.candidates.count + 2))
        where: tuple[int, ...] = ()
        if 0 <= picked < problem.candidates.count:
            places = list(oracle.spots(problem, picked))
            where = places[int(draw.integers(len(places)))] if places else (0,)
        if where and draw.random() < 0.08:
            where = (*where[:-1], int(draw.integers(-1, problem.nodes.count + 1)))
        choice.append(picked)
        nodes.append(where)
    return Selection(np.asarray(choice, dtype=np.int64), tuple(nodes))


def test_an_overfull_hold_is_seen_even_where_the_tables_were_not_validated() -> None:
    problem = base()
    object.__setattr__(
        problem, "nodes", replace(problem.nodes, capacity=problem.nodes.capacity * 0.1)
    )
    with pytest.raises(RuleError, match=r"^capacity"):
        check(problem, decided(problem, altered({0: NONE, 1: NONE}, {0: (), 1: ()})))


def test_of_several_rules_that_lend_too_much_the_first_is_named() -> None:
    """Candidate 1 counts 2 in both rows, of which 1 may be borrowed."""
    rows = [
        Rule(name, -np.inf, 0.0, ((RULE_X, 1, 2.0), (RULE_U, place, -1.0)))
        for place, name in enumerate(("first", "second"))
    ]
    problem = replace(base(), rules=rule_table(rows, aux_upper=[1.0, 1.0]))
    with pytest.raises(RuleError, match="first"):
        check(problem, decided(problem, altered({}, {})))
    loose = replace(base(), rules=rule_table(rows, aux_upper=[2.0, 2.0]))
    check(loose, decided(loose, altered({}, {})))
