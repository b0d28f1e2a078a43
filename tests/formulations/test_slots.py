"""Prices of slots: a guide where shapes make the gap, and a bound with prices of going on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.check_bound import BoundError, check_bound
from formulations.node_pattern.cells import find_kinds
from formulations.parameters import PATTERNS, PRICE_SEARCH
from formulations.prices import Relaxation, choose_prices
from formulations.prices.bound import evaluated, rounded_up
from formulations.prices.placing import decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.prices.slots import SlotRelaxation
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, Hold, tiny

SIZES = {
    "gpus": SMALL,
    "side": RoundSize(side_resources_bind=True),
    "everything": EVERYTHING,
    "local SSD": LOCAL_SSD,
}


def searched(problem: RoundProblem, level: Level) -> tuple[float, float, float]:
    """The bound of GPU prices, that of slot prices, and the worth of what the latter decide.

    The latter is that of the definition, and the check refuses a claim that is hardly less.
    """
    relaxation = Relaxation(problem, level)
    chosen = choose_prices(relaxation)
    slots = SlotRelaxation(problem, level)
    params = replace(PRICE_SEARCH, radius=0.3, grows=2.0)
    found = choose_prices(slots, slots.start(chosen.prices), free=slots.counted, params=params)
    before = found.evaluation.bound
    assert slots.share_out(found.prices) == (slots.at(found.prices).bound < before)
    found = choose_prices(slots, found.prices, free=slots.counted)
    bound, prices = rounded_up(found.evaluation), slots.prices(found.prices)
    assert bound == pytest.approx(evaluated(problem, relaxation, prices)[0].value, rel=1e-7)
    check_bound(problem, level, prices, bound)
    with pytest.raises(BoundError):
        check_bound(problem, level, prices, bound - 1e-6 * abs(bound) - 1e-9)
    decided = decided_by_prices(problem, Rounding(slots, found))
    check(problem, decided)
    return rounded_up(chosen.evaluation), bound, decided.value(level)


FOURS = [Candidate(job, (4,)) for job in range(4)]


def test_nodes_of_six_hold_one_job_of_four_each() -> None:
    # Four jobs of 4 GPUs, worth 4 each, on two nodes of 6: at 1 a GPU each pays what it is
    # worth, and 12 GPUs cost 12. At 4 a slot of 4, which a node holds once, both cost 8: as much
    # as two jobs are worth.
    problem = tiny([6, 6], FOURS)
    level = Level("worth", "points", np.full(4, 4.0))
    by_gpus, by_slots, value = searched(problem, level)
    assert by_gpus == pytest.approx(12.0)
    assert by_slots == pytest.approx(8.0, rel=1e-6)
    assert value == 8.0


def test_continuing_job_pays_for_the_slot_it_keeps() -> None:
    # Job 0 goes on with 4 of node 0 for 4.5; the best is that and one other job: 8.5. A slot of 4
    # costs 4, so does going on, since leaving would make one: 0.5 earned, and 4 on each node.
    problem = tiny([6, 6], FOURS, holds=[Hold(0, 0, 4)])
    level = Level("worth", "points", np.append(np.full(4, 4.0), 4.5))
    by_gpus, by_slots, value = searched(problem, level)
    assert by_gpus == pytest.approx(12.5)
    assert by_slots == pytest.approx(8.5, rel=1e-6)
    assert value == 8.5


@pytest.mark.parametrize("kind", SIZES)
def test_slot_prices_never_prove_less_than_the_optimum(kind: str) -> None:
    better = 0
    for seed in range(20):
        draw = np.random.default_rng((seed, 78))
        problem = random_round(draw, replace(SIZES[kind], rules=0))
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        by_gpus, by_slots, value = searched(problem, level)
        assert by_slots >= truth - 1e-9 * abs(truth), (kind, seed)
        assert value <= truth + 1e-9 * abs(truth), (kind, seed)
        better += by_slots < by_gpus - 1e-6 * abs(by_gpus)
    assert better


def test_a_gang_pays_most_where_most_could_start_in_its_place() -> None:
    # Job 0 has 2 GPUs of both nodes and is worth 5, job 2 has the rest of node 1. If job 0 ends,
    # job 1 starts on node 0, worth 4. By GPUs job 0 pays 2.5 on each, and node 0 is let go for 4.
    holds = [Hold(0, 0, 2), Hold(0, 1, 2), Hold(2, 1, 2)]
    problem = tiny([4, 4], [Candidate(1, (4,))], holds=holds)
    level = Level("worth", "points", np.asarray([4.0, 5.0, 10.0]))
    assert oracle.best(problem, [level]).value(level) == 15.0
    slots = SlotRelaxation(problem, level)
    prices = np.where(slots.counted, 0.0, 4.0)
    assert slots.at(prices).bound == pytest.approx(16.5)
    assert slots.share_out(prices)
    bound = rounded_up(slots.at(prices))
    assert 15.0 <= bound < 15.5
    check_bound(problem, level, slots.prices(prices), bound)
    assert not slots.share_out(prices)


def test_threads_are_told_apart_where_memory_would_make_too_many_kinds() -> None:
    # A node has threads for two jobs of 2 GPUs and a half; all nodes together for five.
    jobs = range(PATTERNS.kinds + 1)
    ask = [Candidate(job, (2,), side=(3.0, 1.0 + job / 10, 0.0)) for job in jobs]
    problem = tiny([8, 8], ask, side=(15.0, 9.0, 9.0))
    kinds = find_kinds(problem)
    assert [one.tolist() for one in (*kinds.scarce, *kinds.aggregated)] == [[0, 1], [2]]
    level = Level("worth", "points", np.ones(len(ask)))
    by_gpus, by_slots, value = searched(problem, level)
    assert (by_gpus, by_slots) == (pytest.approx(5.0), pytest.approx(4.0, rel=1e-6))
    assert value == 4.0
