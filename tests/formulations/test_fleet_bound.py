"""Cuts of a fleet: by hand, and never against a fleet that serves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.instances.fleet_bound import cheapest_left, cut_of, fleets_of, priced_bins
from formulations.fleet import build_overload
from tests.formulations.test_fleet import ints, random_problem, served, small
from tests.formulations.worlds.solving import solve_model


def test_by_hand() -> None:
    """Price 1 for type 0 and 2 for type 1 in each bin of scenario 1, nothing in scenario 0.

    300 units on type 0 hold 20 GPU-s each, on type 1 30 at twice the price: 300 x 20 = 6,000. A
    node of type 0 has 4 x 1,000 in either of bins 0 and 1: 8,000; of type 1 2 x 2 x 2,000 = 8,000.
    The jobs have 3,000 s, and 300 units take 10 s each on type 0: just enough.
    """
    problem = small()
    keys = priced_bins(problem)
    prices = np.where(keys[:, 0] == 1, np.where(keys[:, 1] == 1, 2.0, 1.0), 0.0)
    cut = cut_of(problem, prices)
    assert cut.room.tolist() == [8000.0, 8000.0]
    assert cut.needed == 6000.0
    assert cut.refuses(ints(0, 0)[None, :]).tolist() == [True]
    # Free on type 0, which is the fastest: then nothing is needed.
    free = cut_of(problem, np.where(keys[:, 1] == 0, 0.0, prices))
    assert free.needed == 0.0
    # Type 1 cheap enough to be preferred, but at 30 s a unit the work of 3,000 s does not fit: all
    # of it runs on type 0 at 6,000, and would cost 300 x 30 x 0.1 = 900 without the rule in_time.
    slow = cut_of(problem, np.where(keys[:, 1] == 1, 0.1 * prices, prices))
    assert slow.needed == pytest.approx(6000.0)
    # Cheapest fleets first; a budget and a family leave fewer.
    assert cheapest_left(problem, [cut]) == pytest.approx([0, 1])  # of price 2
    assert fleets_of(small(budget=2.0)).tolist() == [[0, 0], [0, 1]]
    assert all(0 in row for row in fleets_of(small(family=ints(0, 0))).tolist())


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_refuses_a_fleet_that_serves(seed: int) -> None:
    """Whatever the prices; and shadow prices of what a fleet lacks refuse that fleet."""
    problem = random_problem(seed)
    every = list(itertools.product(*(range(int(most) + 1) for most in problem.most)))
    good = [nodes for nodes in every if served(problem, nodes)]
    serving = np.asarray(good).reshape(len(good), problem.types)
    draw = np.random.default_rng(seed)
    count = priced_bins(problem).shape[0]
    for _ in range(10):
        prices = draw.random(count) * (draw.random(count) < 0.7)
        assert not cut_of(problem, prices).refuses(serving).any()
    cuts = []
    while (left := cheapest_left(problem, cuts)) is not None:
        tried = solve_model(build_overload(problem, left))
        if tried.x is None:  # the work takes longer than its jobs have, on any fleet
            assert good == []
            return
        assert tried.row_duals is not None
        cut = cut_of(problem, np.maximum(tried.row_duals[-count:], 0.0))
        if not cut.refuses(left[None, :])[0]:
            break
        cuts.append(cut)
    costs = [problem.cost(np.asarray(nodes)) for nodes in good]
    assert (None if left is None else problem.cost(left)) == (min(costs) if costs else None)


def test_prices_that_prove_nothing_are_refused() -> None:
    problem = small()
    count = priced_bins(problem).shape[0]
    for prices, said in (
        (np.ones(count - 1), f"has {count - 1} prices, not {count}"),
        (np.full(count, -1.0), "negative"),
        (np.full(count, np.nan), "no number"),
        (np.full(count, 1e308), "too large"),
    ):
        with pytest.raises(ValueError, match=said):
            cut_of(problem, prices)
    with pytest.raises(ValueError, match="more than 1000000 fleets"):
        fleets_of(small(most=ints(10**4, 10**4)))
