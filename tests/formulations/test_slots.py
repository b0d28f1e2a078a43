"""Prices of slots: a guide where shapes make the gap, and a bound with prices of going on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.check_bound import BoundError, check_bound
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
    found = choose_prices(slots, slots.start(chosen.prices), free=slots.gpus, radius=0.3, grows=2.0)
    before = found.evaluation.bound
    assert slots.share_out(found.prices) == (slots.at(found.prices).bound < before)
    found = choose_prices(slots, found.prices, free=slots.gpus)
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
    # Four jobs of 4 GPUs, worth 4 each, on two nodes of 6: at 1 a GPU everybody pays what it is
    # worth, and 12 GPUs cost 12. At 4 a slot of 4, which a node holds once, both cost 8: as much
    # as two jobs are worth.
    problem = tiny([6, 6], FOURS)
    level = Level("worth", "points", np.full(4, 4.0))
    by_gpus, by_slots, value = searched(problem, level)
    assert by_gpus == pytest.approx(12.0)
    assert by_slots == pytest.approx(8.0, rel=1e-6)
    assert value == 8.0


def test_who_goes_on_pays_for_the_slot_that_he_keeps() -> None:
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
