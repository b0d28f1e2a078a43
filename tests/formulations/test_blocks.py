"""Prices of many rows, blocks between priced rows, and room in trees, against plain definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, linprog, milp

from formulations.linear_model import LinearModel
from formulations.prices import Relaxation
from formulations.prices.blocks import Answer, find_blocks
from formulations.prices.interior import SharedProgram, interior_prices
from formulations.prices.many import SharedItems, prices_of_many, shared_items
from formulations.prices.room import Room
from formulations.round.rule_table import RULE_U, RULE_X
from formulations.round.rules import broken_row
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.policies.registry import make_objective
from tests.decision.rules.organisations import random_organisation


def organised(number: int) -> PosedRound:
    world = random_organisation(np.random.default_rng((7, number)))
    return RoundPoser(world.speeds, make_objective("throughput"), world.rules).pose(world.before)


def priced(posed: PosedRound) -> tuple[Relaxation, SharedItems]:
    relaxation = Relaxation(posed.problem, posed.levels[0])
    return relaxation, shared_items(relaxation)


def whole(relaxation: Relaxation, integer: bool) -> float:
    """Optimum over all options and rows, without nodes."""
    shared, jobs = relaxation.shared, relaxation.jobs
    option, owner = relaxation.options_by_job()
    one = sparse.csr_array(
        (np.ones(option.size), (owner, np.arange(option.size))), (jobs, option.size)
    )
    matrix = sparse.block_array(
        [
            [one, sparse.csr_array((jobs, shared.aux_upper.size))],
            [shared.use[:, option], sparse.csr_array(shared.aux_use)],
        ]
    )
    lower = np.concatenate([np.where(relaxation.idle, -np.inf, 1.0), shared.lower])
    upper = np.concatenate([np.ones(jobs), shared.upper])
    cost = np.append(-relaxation.value[option], np.zeros(shared.aux_upper.size))
    most = np.append(np.ones(option.size), shared.aux_upper)
    whole_number = np.append(np.full(option.size, integer), np.zeros(shared.aux_upper.size))
    found = milp(
        cost,
        constraints=LinearConstraint(matrix, lower, upper),
        integrality=whole_number,
        bounds=(0, most),
        options={"mip_rel_gap": 0.0},
    )
    return -np.inf if found.x is None else -float(found.fun)


def solve(model: LinearModel) -> Answer:
    rows = LinearConstraint(model.matrix(), model.row_lower, model.row_upper)
    found = milp(
        -model.cost,
        constraints=rows if model.rows else None,
        integrality=model.integer,
        bounds=(model.column_lower, model.column_upper),
        options={"mip_rel_gap": 0.0},
    )
    return Answer(found.x, -np.inf if found.x is None else -float(found.fun))


@pytest.mark.parametrize("seed", range(6))
def test_interior_prices_are_the_multipliers_of_the_linear_program(seed: int) -> None:
    draw = np.random.default_rng((3, seed))
    jobs, rows, aux = 30, 8, 4
    owner = np.repeat(np.arange(jobs), 4)
    use = draw.integers(0, 5, (rows, owner.size)) * (draw.random((rows, owner.size)) < 0.4)
    carried = np.zeros((rows, aux))
    carried[np.arange(aux), np.arange(aux)] = -1.0
    carried[aux, np.arange(aux)] = 1.0
    most = draw.uniform(1.0, 5.0, aux)
    value, limit = draw.uniform(0.0, 9.0, owner.size), draw.uniform(5.0, 20.0, rows)
    idle = draw.random(jobs) < 0.9
    program = SharedProgram(
        value,
        owner,
        idle,
        sparse.csr_array(use.astype(float)),
        limit,
        sparse.csr_array(carried),
        most,
    )
    prices = interior_prices(program)
    reduced = value - use.T @ prices
    surplus = np.asarray(
        [max(reduced[owner == j].max(), 0.0 if idle[j] else -np.inf) for j in range(jobs)]
    )
    gain = np.maximum(0.0, -(carried.T @ prices))
    assert (prices >= 0.0).all()
    bound = surplus.sum() + prices @ limit + gain @ most
    one = (owner == np.arange(jobs)[:, None]).astype(float)
    left = np.vstack([np.hstack([one, np.zeros((jobs, aux))]), np.hstack([use, carried])])
    equal = np.hstack([one[~idle], np.zeros((int((~idle).sum()), aux))])
    best = linprog(
        -np.append(value, np.zeros(aux)),
        left,
        np.append(np.ones(jobs), limit),
        equal,
        np.ones(equal.shape[0]),
        np.column_stack([np.zeros(owner.size + aux), np.append(np.ones(owner.size), most)]),
    )
    if best.status == 0:
        assert bound == pytest.approx(-best.fun, rel=1e-4)


@pytest.mark.parametrize("number", range(6))
def test_blocks_prove_a_bound_between_the_whole_and_prices_alone(number: int) -> None:
    relaxation, items = priced(organised(number))
    chosen = prices_of_many(relaxation, items)
    best, shares = whole(relaxation, True), whole(relaxation, False)
    if best == -np.inf:
        return
    assert chosen.evaluation.bound >= best - 1e-6
    assert chosen.evaluation.bound == pytest.approx(shares, rel=1e-3, abs=1e-6)
    for most in (1, 12, 40):
        blocks = find_blocks(relaxation, items, chosen.prices, most)
        choice, bound = blocks.decided(solve, 10)
        assert best - 1e-6 <= bound <= chosen.evaluation.bound + 1e-6 * abs(best)
    whole_round = find_blocks(relaxation, items, chosen.prices, 10**6)
    between = whole_round.of_row[items.rows] < 0
    choice, bound = whole_round.decided(solve, 0)
    if not between.any():
        assert bound == pytest.approx(best, abs=1e-6)
        assert float(relaxation.value[choice[choice >= 0]].sum()) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("number", range(4))
def test_columns_without_a_limit_leave_the_bound_finite(number: int) -> None:
    relaxation, items = priced(organised(number))
    shared = relaxation.shared
    relaxation.shared = replace(shared, aux_upper=np.full(shared.aux_upper.size, np.inf))
    bound = prices_of_many(relaxation, items).evaluation.bound
    best = whole(relaxation, False)
    assert best == -np.inf or best - 1e-6 <= bound < np.inf


@pytest.mark.parametrize("number", range(6))
def test_room_allows_what_keeps_the_rows_of_a_tree(number: int) -> None:
    posed = organised(number)
    relaxation, _ = priced(posed)
    rules, shared = posed.problem.rules, relaxation.shared
    counted = np.asarray([word == "rule" for word, _, _ in shared.label])
    draw = np.random.default_rng((5, number))
    above = replace(rules, lower=np.full(rules.count, -np.inf))
    room, taken = Room(shared, counted), np.zeros(posed.problem.options.count)
    first = shared.count - rules.count
    for _ in range(40):
        option = int(draw.integers(taken.size))
        there = taken[option] > 0.0
        taken[option] = 1.0 - taken[option]
        chosen = (shared.use @ taken)[first:]
        fits = broken_row(above, chosen) is None
        sign = -1.0 if there else 1.0
        if there:
            assert room.take(room.changes(option, sign), forced=True)
        elif room.take(room.changes(option, sign)) != fits:
            raise AssertionError(f"option {option}: {fits}")
        elif not fits:
            taken[option] = 0.0
    assert {RULE_U, RULE_X} <= {*rules.kind.tolist()} or not rules.count
