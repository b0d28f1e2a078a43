"""Three jobs on the same GPUs: both formulations against brute force, by hand, and refusals.

Candidates of the engine are pairs; the tables, the models and the check know no such limit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.instances.checking import choice_of
from benchmarks.instances.round_json import from_json, to_json
from formulations import node_assignment, node_pattern
from formulations.round.check import RuleError, check
from formulations.round.rule_table import RULE_S
from formulations.round.rules import with_shared
from formulations.round.shared import SharedTable
from formulations.round.tables import NONE, RoundProblem, Selection
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.policies.objectives.plain import Jct
from tests.campaigns import blocks
from tests.formulations.worlds import packed_rounds as brute
from tests.formulations.worlds.rounds import (
    Candidate,
    Hold,
    Rule,
    plain_level,
    rule_table,
    tiny,
)
from tests.formulations.worlds.solving import FORMULATIONS, ranked, solve_model


def _crowded(block: int) -> brute.RoundSize:
    return brute.CROWDED if block % 2 else brute.CROWDED_GPUS


@pytest.mark.parametrize("block", range(blocks(2)))
def test_both_formulations_prove_the_optimum_of_the_enumeration(block: int) -> None:
    """Their decisions pass the check as well, and so does the fallback's, which is no better."""
    for i in range(25):
        draw = np.random.default_rng((block, i, 11))
        problem = brute.packed_round(draw, _crowded(block), most=3)
        level = brute.packed_level(draw, problem)
        truth = brute.best_value(problem, level)
        for formulation in FORMULATIONS:
            found = ranked(problem, [level], formulation).selection
            assert found is not None
            assert found.value(level) == pytest.approx(truth, rel=1e-6), (block, i, formulation)
            check(problem, found)
        again = keep_and_fill(problem, level)
        check(problem, again)
        assert again.value(level) <= truth + 1e-6 * max(1.0, abs(truth))


def test_random_rounds_use_options_of_three_jobs_of_every_sort() -> None:
    ways = {
        "fresh": (True, True, True),
        "come": (False, True, True),
        "comes": (False, False, True),
        "together": (False, False, False),
    }
    seen, kept = dict.fromkeys(ways, 0), 0
    for i in range(300):
        draw = np.random.default_rng((5, i))
        problem = brute.packed_round(draw, _crowded(i), most=3)
        level = brute.packed_level(draw, problem)
        found = ranked(problem, [level], "node_pattern").selection
        assert found is not None
        several = np.intersect1d(found.choice, np.flatnonzero(problem.options.shared)).tolist()
        chosen = {tuple(k >= 0 for k in brute.starts_of(problem, option)) for option in several}
        for name, way in ways.items():
            seen[name] += way in chosen
        stays = keep_and_fill(problem, level).choice
        kept += bool(np.bincount(stays + 1)[1:].max(initial=0) >= 3)
        if min(*seen.values(), kept) >= 3:
            return
    pytest.fail(f"{seen} {kept}")


def crowd(**columns: object) -> RoundProblem:
    """Jobs 0, 1 and 2 are queued, each with a GPU of either node class; node set 1 is node 0.

    Option 6 is all three on one GPU of the first class, at 2, 3 and 4 s per iteration.
    """
    plain = tiny(
        [2, 1],
        [Candidate(job, (1,), node_class=kind) for job in range(3) for kind in (0, 1)],
        sets=[[0], [1]],
    )
    given = {
        "option": np.zeros(3, dtype=np.int64),
        "job": np.arange(3),
        "candidate": np.asarray([0, 2, 4]),
        "iteration_s": np.asarray([2.0, 3.0, 4.0]),
        **columns,
    }
    sets = given.pop("node_set", plain.candidates.node_set)
    plain = replace(plain, candidates=replace(plain.candidates, node_set=sets))
    return with_shared(plain, SharedTable(**given))  # type: ignore[arg-type]


def test_three_jobs_on_one_gpu_are_one_option() -> None:
    """By hand: it is worth the sum of its members, GPUs count once, all three or nobody."""
    problem = crowd()
    assert problem.options.jobs_of(6) == [0, 1, 2]
    assert problem.options.shared.tolist() == [False] * 6 + [True]
    assert problem.options.gpus.tolist() == [1.0] * 7
    level = Jct().levels(problem)[0]
    alone = replace(problem.candidates, iteration_s=np.repeat([2.0, 3.0, 4.0], 2))
    beside = Jct().levels(replace(problem, candidates=alone, shared=SharedTable()))[0].value
    assert level.value[6] == pytest.approx(beside[[0, 2, 4]].sum(), rel=1e-12)
    check(problem, Selection(np.full(3, 6), ((0,),) * 3))
    with pytest.raises(RuleError, match=r"^partners: "):
        check(problem, Selection(np.asarray([6, 6, NONE]), ((0,), (0,), ())))
    with pytest.raises(RuleError, match=r"^same_nodes: "):
        check(problem, Selection(np.full(3, 6), ((0,), (0,), (1,))))
    assert to_json(from_json(to_json(problem))) == to_json(problem)


@pytest.mark.parametrize("build", [node_pattern.build, node_assignment.build])
def test_a_point_is_read_from_the_names_of_its_columns(build: Any) -> None:
    problem = crowd()
    level = plain_level(problem)
    worth = level.value.copy()
    worth[6] = 99.0
    built = build(problem, replace(level, value=worth))
    assert "group[0,1,2,6]" in {built.model.column_name(c) for c in range(built.model.columns)}
    point = solve_model(built.model).x
    assert point is not None
    assert choice_of(problem, built.model, point).tolist() == [6, 6, 6]
    assert built.layout.choice(problem, point).tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"job": np.asarray([0, 1, 0]), "candidate": np.asarray([0, 2, 1])}, "not repeat a job"),
        ({"candidate": np.asarray([0, 2, 5])}, "one node class with"),
        ({"node_set": np.asarray([1, 0, 0, 0, 2, 0])}, "one node set with"),
    ],
)
def test_jobs_that_cannot_be_together_are_refused(columns: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        crowd(**columns)


def test_node_set_of_one_packed_job_holds_for_all_of_them() -> None:
    problem = crowd(node_set=np.asarray([0, 0, 1, 0, 0, 0]))
    check(problem, Selection(np.full(3, 6), ((0,),) * 3))
    assert problem.options.starts.node_set[6] == 1


@pytest.mark.parametrize(("must", "goes_on"), [(0, [0, 1]), (1, [0, 1]), (2, [2])])
def test_the_fallback_parts_jobs_by_what_a_rule_keeps(must: int, goes_on: list[int]) -> None:
    """Three hold one GPU, only 0 and 1 are offered to stay together: most go on, but 2 must."""
    plain = tiny([3], [], holds=[Hold(job, 0, 1) for job in range(3)], jobs=3)
    kept = rule_table([Rule("must_run", 1.0, np.inf, ((RULE_S, must, 1.0),))])
    problem = with_shared(
        replace(plain, rules=kept),
        SharedTable(
            option=np.zeros(2, dtype=np.int64),
            job=np.asarray([0, 1]),
            candidate=np.asarray([-1, -1]),
            iteration_s=np.ones(2),
            gang=np.zeros(3, dtype=np.int64),
        ),
    )
    found = keep_and_fill(problem, plain_level(problem))
    assert np.flatnonzero(found.choice != NONE).tolist() == goes_on
    check(problem, found)
