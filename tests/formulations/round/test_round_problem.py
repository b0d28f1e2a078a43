"""The tables: what they refuse, and how candidates are taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from formulations.check_bound import allowed_options
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.rules import with_floor, with_promises
from formulations.round.shared import SharedTable
from formulations.round.tables import NONE, Level, RoundProblem, Scope, Selection
from tests.formulations.worlds.rounds import Candidate, Hold, tiny


def base() -> RoundProblem:
    return tiny([8, 4], [Candidate(0, (4, 2)), Candidate(1, (4,), 1)], holds=[Hold(1, 0, 4)])


def with_candidates(**columns: object) -> Callable[[RoundProblem], RoundProblem]:
    return lambda p: replace(p, candidates=replace(p.candidates, **columns))  # type: ignore[arg-type]


def with_holds(**columns: object) -> Callable[[RoundProblem], RoundProblem]:
    return lambda p: replace(p, holds=replace(p.holds, **columns))  # type: ignore[arg-type]


def int_row(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_candidates(job=int_row(0, 2)), r"candidates\.job must lie in 0\.\.1"),
        (with_candidates(job=int_row(-1, 1)), r"candidates\.job must lie in"),
        (with_candidates(node_class=int_row(0, 2)), r"candidates\.node_class must lie in 0\.\.1"),
        (with_candidates(part_gpus=int_row(4, 0, 4)), r"part_gpus must be at least 1"),
        (with_candidates(part_gpus=int_row(9, 2, 4)), r"must not exceed the GPUs of a node"),
        (with_candidates(iteration_s=np.asarray([1.0, np.nan])), r"positive and finite"),
        (with_candidates(iteration_s=np.asarray([1.0, 0.0])), r"positive and finite"),
        (with_holds(job=int_row(5)), r"holds\.job must lie in 0\.\.1"),
        (with_holds(node=int_row(2)), r"holds\.node must lie in 0\.\.1"),
        (with_holds(job=int_row(0)), r"exactly the jobs with a stay_iteration_s"),
        (with_holds(demand=np.asarray([[9.0, 0, 0, 0]])), r"must not exceed the capacity"),
        (with_holds(demand=np.asarray([[4.0, 2000.0, 0, 0]])), r"must not exceed the capacity"),
        (
            lambda p: replace(p, nodes=replace(p.nodes, node_class=int_row(0, 7))),
            r"nodes\.node_class must lie in 0\.\.1",
        ),
    ],
)
def test_contradicting_tables_are_refused(
    change: Callable[[RoundProblem], RoundProblem], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        change(base())


def test_parts_and_demands_of_a_candidate() -> None:
    problem = tiny([8], [Candidate(0, (4, 2), side=(3.0, 10.0, 0.5)), Candidate(0, (1,))])
    table = problem.candidates
    assert table.parts(0) == (4, 2)
    assert table.part_candidate.tolist() == [0, 0, 1]
    assert table.demand(0, 4).tolist() == [4.0, 12.0, 40.0, 2.0]
    assert table.gpus.tolist() == [6, 1]


def test_take_keeps_the_order_asked_for() -> None:
    table = tiny(
        [8], [Candidate(0, (4, 2)), Candidate(0, (1,)), Candidate(1, (3, 2, 1))]
    ).candidates
    taken = table.take(int_row(2, 0))
    assert [taken.parts(k) for k in range(taken.count)] == [(3, 2, 1), (4, 2)]
    assert taken.job.tolist() == [1, 0]
    assert table.take(int_row()).count == 0
    # Configurations are looked at once for as long as they are the same ones.
    assert table.take(int_row(0, 2, 0)).templates[0] is table.take(int_row(2, 0)).templates[0]


def test_held_adds_up_by_node() -> None:
    problem = tiny([8, 8], [], holds=[Hold(0, 0, 2, (1.0, 0, 0)), Hold(1, 0, 3), Hold(1, 1, 1)])
    assert problem.held()[:, :2].tolist() == [[5.0, 2.0], [1.0, 0.0]]


def test_gpus_that_two_jobs_share_are_held_once() -> None:
    """Whatever number a gang has: jobs 0 and 1 share GPUs of node 0, job 2 is alone on node 1."""
    holds = [Hold(0, 0, 2, (1.0, 0, 0)), Hold(1, 0, 2, (3.0, 0, 0)), Hold(2, 1, 4)]
    problem = replace(tiny([8, 8], [], holds=holds), shared=SharedTable(gang=int_row(5, 5, 3)))
    assert problem.held()[:, :2].tolist() == [[2.0, 8.0], [4.0, 0.0]]


def test_value_of_a_selection() -> None:
    level = Level("l", "u", np.asarray([3.0, 5.0, 7.0]))
    assert Selection(int_row(1, 2, NONE), ((0,), (), ())).value(level) == 12.0
    assert Selection(int_row(1, 1, 2), ((0,), (0,), ())).value(level) == 12.0
    assert Selection(int_row(NONE, NONE, NONE), ((), (), ())).value(level) == 0.0


TABLES = ("jobs", "candidates", "nodes", "holds", "rules")
FREE = {
    # columns whose length is the number of rows of something that nothing else counts
    ("nodes", "uplink_gb_per_s"), ("nodes", "sets"), ("nodes", "capacity"),
    ("rules", "name"), ("rules", "aux_upper"), ("rules", "row"),
}  # fmt: skip


def test_a_promise_is_kept_by_one_of_the_options_that_keep_it() -> None:
    rows = [Candidate(0, (4, 2)), Candidate(1, (4,), 1), Candidate(1, (2,), iteration_s=2.0)]
    rules = with_promises(tiny([8, 4], rows, holds=[Hold(1, 0, 4)], guaranteed=[1])).rules
    assert (rules.name, rules.label, rules.lower.tolist()) == (("guarantee",), ((1,),), [1.0])
    # The start that is as fast as was asked, and the stay.
    assert (rules.kind.tolist(), rules.index.tolist()) == ([RULE_X, RULE_S], [1, 1])
    assert rules.value.tolist() == [1.0, 1.0]


def test_a_floor_is_in_units_of_the_largest_value_of_its_level() -> None:
    rules = with_floor(base(), 2, Level("worth", "points", np.asarray([8.0, 0.0, 2.0])), 6.0).rules
    assert (rules.name, rules.label, rules.lower.tolist()) == (("rank",), ((2,),), [0.75])
    # The first candidate, and the stay of job 1.
    assert (rules.kind.tolist(), rules.index.tolist()) == ([RULE_X, RULE_S], [0, 1])
    assert rules.value.tolist() == [1.0, 0.25]
    nothing = Level("worth", "points", np.zeros(3))
    assert with_floor(base(), 2, nothing, 0.0).rules.lower.tolist() == [0.0]


def test_later_round_equals_a_fresh_one_and_shares_unchanged_arrays() -> None:
    problem = base()
    jobs = replace(
        problem.jobs,
        iterations_left=problem.jobs.iterations_left / 2,
        restart_s=problem.jobs.restart_s + 5.0,
        restart_left_s=np.asarray([0.0, 3.0]),
        attained_gpu_s=problem.jobs.attained_gpu_s + 60.0,
    )
    later, made = problem.later(jobs), replace(problem, jobs=jobs)
    for column in fields(made.options.members):
        own = getattr(later.options.members, column.name)
        np.testing.assert_array_equal(own, getattr(made.options.members, column.name))
    assert later.jobs is jobs
    assert problem.options.members.startup_s.tolist() != later.options.members.startup_s.tolist()
    fine, idle = allowed_options(problem)
    assert allowed_options(later)[0] is fine
    assert allowed_options(made)[0] is not fine
    with pytest.raises(ValueError, match="read-only"):
        idle[0] = False


def test_a_later_round_is_refused_where_jobs_start_stop_or_run_otherwise() -> None:
    problem = base()
    for pace_s in ([np.nan, np.nan], [1.0, 2.0], [np.nan, 77.0]):
        jobs = replace(problem.jobs, stay_iteration_s=np.asarray(pace_s))
        with pytest.raises(ValueError, match=r"jobs\.stay_iteration_s must not change"):
            problem.later(jobs)


@pytest.mark.parametrize("table", TABLES)
def test_a_column_of_another_length_is_refused_and_never_a_default(table: str) -> None:
    whole = getattr(base(), table)
    for column in fields(whole):
        if (table, column.name) in FREE or not column.init:
            continue
        given = getattr(whole, column.name)
        longer = (*given, ()) if isinstance(given, tuple) else np.zeros(given.shape[0] + 1)
        shorter = given[:-1]
        for wrong in (longer, shorter) if len(given) else (longer,):
            with pytest.raises(ValueError, match=rf"{table}\."):
                replace(whole, **{column.name: wrong})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("uplink_gb_per_s", np.asarray([5.0])),  # one limit for two leaves
        ("sets", np.ones((1, 1), dtype=bool)),
        ("sets", np.ones((0, 2), dtype=bool)),
        ("capacity", np.ones((2, 3))),
        ("leaf", int_row(0)),
        ("domain", int_row()),
    ],
)
def test_a_limit_is_not_lost_because_its_column_is_short(column: str, value: np.ndarray) -> None:
    nodes = tiny([8, 4], [], leaf=[0, 1], uplink=[5.0, 5.0]).nodes
    with pytest.raises(ValueError, match=rf"nodes\.{column} must have shape"):
        replace(nodes, **{column: value})


def test_columns_that_are_left_out_have_the_documented_defaults() -> None:
    problem = tiny([8, 4], [Candidate(0, (4, 2)), Candidate(1, (4,), 1)])
    table = replace(problem.candidates, scope=None, node_set=None, strict=None)
    assert table.scope.tolist() == [Scope.POD, Scope.NODE]
    assert table.node_set.tolist() == [0, 0]
    assert table.strict.tolist() == [False, False]
    nodes = replace(problem.nodes, leaf=None, domain=None, uplink_gb_per_s=None, sets=None)
    assert nodes.leaf.tolist() == [0, 0]
    assert nodes.domain.tolist() == [0, 1]
    assert nodes.uplink_gb_per_s.tolist() == [np.inf]
    assert nodes.sets.tolist() == [[True, True]]


def test_strictness_is_for_scopes_that_have_a_tighter_place() -> None:
    for scope in (Scope.NODE, Scope.NVLINK):
        rows = [Candidate(0, (4, 2)[: 1 + (scope > 0)], scope=scope, strict=True)]
        with pytest.raises(ValueError, match=r"candidates\.strict"):
            tiny([8, 4, 4], rows)
