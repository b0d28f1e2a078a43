"""Jobs that come back to where they were: both formulations against brute force, and the check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.instances.round_json import from_json, to_json
from formulations import node_assignment, node_pattern
from formulations.prices.certify import bound_by_prices
from formulations.round.check import RuleError, check
from formulations.round.returns import ReturnTable
from formulations.round.rules import with_returns
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, SMALL, random_round
from tests.formulations.worlds.rounds import Candidate, Hold, plain_level, tiny
from tests.formulations.worlds.solving import FORMULATIONS, ranked, solve_model

BLOCKS, PER_BLOCK = 4, 8


def returning_round(draw: np.random.Generator, block: int) -> RoundProblem:
    """A random round in which candidates have prices, some of them on nodes that are named."""
    size = replace(EVERYTHING if block % 2 else SMALL, running=0.2)
    problem = random_round(draw, size)
    table, rows, lengths, nodes = problem.candidates, [], [], []
    for candidate in range(table.count):
        sort = draw.random()
        if sort < 0.3:
            rows.append(candidate)
            lengths.append(0)
        elif sort < 0.8 and not problem.jobs.running[table.job[candidate]]:
            parts = len(table.parts(candidate))
            # Any nodes: closed ones, of another class or set as well, which nobody may choose.
            if parts <= problem.nodes.count:
                rows.append(candidate)
                lengths.append(parts)
                kind = problem.nodes.node_class == table.node_class[candidate]
                likely = kind & problem.nodes.open | (draw.random() < 0.3)
                order = draw.permutation(problem.nodes.count)
                nodes += order[np.argsort(~likely[order], kind="stable")][:parts].tolist()
    price = problem.jobs.restart_s[table.job[rows]] if rows else np.zeros(0)
    returns = ReturnTable(
        np.asarray(rows, dtype=np.int64),
        price * draw.uniform(0.0, 1.0, len(rows)) * np.where(np.asarray(lengths) > 0, 0.3, 1.0),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.asarray(nodes, dtype=np.int64),
    )
    return with_returns(problem, returns)


def _level(draw: np.random.Generator, problem: RoundProblem) -> Level:
    return (Throughput() if draw.random() < 0.5 else Jct()).levels(problem)[0]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_both_formulations_and_brute_force_agree_on_jobs_that_come_back(block: int) -> None:
    chosen = 0
    for i in range(PER_BLOCK):
        draw = np.random.default_rng((block, i, 16))
        problem = returning_round(draw, block)
        level = _level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        for formulation in FORMULATIONS:
            found = ranked(problem, [level], formulation).selection
            assert found is not None
            check(problem, found)
            assert oracle.feasible(problem, found)
            assert found.value(level) == pytest.approx(truth, rel=1e-6), (block, i, formulation)
        back = found.choice >= problem.candidates.count
        chosen += int((back & ~np.isin(found.choice, problem.options.stays)).sum())
        assert bound_by_prices(problem, level, False).value >= truth * (1 - 1e-9)
        check(problem, keep_and_fill(problem, level))
        assert to_json(from_json(to_json(problem))) == to_json(problem)
    assert chosen >= 1


def by_hand(closed: tuple[int, ...] = ()) -> RoundProblem:
    """Job 0 runs on node 0; job 1 was on node 0 with two GPUs, and nodes have three and two."""
    plain = tiny(
        [3, 2],
        [Candidate(0, (1,)), Candidate(1, (2,)), Candidate(1, (1,))],
        holds=[Hold(0, 0, 1)],
        closed=closed,
    )
    rows = np.asarray([1, 1, 2])
    node_start, node = np.asarray([0, 0, 1, 1]), np.asarray([0])
    return with_returns(plain, ReturnTable(rows, np.asarray([5.0, 1.0, 4.0]), node_start, node))


BACK, STAY = 3, 4


def test_prices_of_starts_reach_the_members_of_options() -> None:
    members = by_hand().options.members
    # restart 30 s for job 0; 5 s and 4 s for the candidates of job 1, 1 s on its own node; a stay
    assert members.startup_s.tolist() == [30.0, 5.0, 4.0, 1.0, 0.0]
    assert members.job.tolist() == [0, 1, 1, 1, 0]
    assert members.alone.tolist() == [0, 1, 2, 1, 4]
    assert by_hand().options.possible.tolist() == [True] * 5
    assert by_hand(closed=(0,)).options.possible.tolist() == [True, True, True, False, True]


def _choice(one: int, two: int, nodes: tuple[int, ...] = ()) -> Selection:
    return Selection(np.asarray([one, two]), ((), nodes))


def test_check_knows_returning_jobs_and_their_nodes() -> None:
    problem = by_hand()
    check(problem, _choice(STAY, BACK))
    assert _choice(STAY, BACK).value(plain_level(problem)) > 0.0
    for rule, bad in (
        ("parts", _choice(STAY, BACK, (0,))),
        ("own_candidate", _choice(BACK, NONE)),
    ):
        with pytest.raises(RuleError, match=rf"^{rule}: "):
            check(problem, bad)
    with pytest.raises(RuleError, match=r"^node_open: "):
        check(by_hand(closed=(0,)), _choice(STAY, BACK))
    # three GPUs: one of job 0, and two of job 1; a node of two has no room for both
    small = replace(
        problem,
        nodes=replace(problem.nodes, capacity=np.asarray([[2.0, 0, 0, 0]] * problem.nodes.classes)),
    )
    with pytest.raises(RuleError, match=r"^capacity: node 0 would hold 3 of 2 gpu"):
        check(small, _choice(STAY, BACK))


@pytest.mark.parametrize("build", [node_pattern.build, node_assignment.build])
def test_a_job_comes_back_beside_another_and_not_without_room(build) -> None:  # type: ignore[no-untyped-def]
    problem = by_hand()
    level = Level.of(problem, "worth", "u", np.asarray([0.0, 1.0, 1.0, 9.0, 3.0]))
    found = solve_model(build(problem, level).model)
    assert found.objective == pytest.approx(12.0)


def test_contradicting_tables_are_refused() -> None:
    problem = by_hand()
    for columns, rule in (
        ({"candidate": np.asarray([1, 1, 9])}, "candidate must lie below 3"),
        ({"node": np.asarray([7])}, "node must lie below 2"),
        ({"startup_s": np.asarray([5.0, -1.0, 4.0])}, "startup_s must be finite"),
        ({"candidate": np.asarray([1, 0, 2])}, "only allowed for queued jobs"),
        ({"node_start": np.asarray([0, 0, 2, 2]), "node": np.asarray([0, 1])}, "for each part"),
    ):
        with pytest.raises(ValueError, match=rule):
            replace(problem, returns=replace(problem.returns, **columns))
