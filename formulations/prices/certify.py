"""A bound for every round, whatever became of its solve: that of good prices, checked."""

from __future__ import annotations

from formulations.check_bound import check_bound
from formulations.prices import Bound, Prices, Relaxation, choose_prices
from formulations.prices.bound import rounded_up
from formulations.round.rules import with_promises
from formulations.round.tables import Level, RoundProblem


def bound_by_prices(
    problem: RoundProblem, level: Level, promised: bool, compact: bool = False
) -> Bound:
    """The least bound found on a level, with the prices that prove it.

    Parameters
    ----------
    promised
        Whether only decisions count that give every guaranteed job the speed of its request.
    compact
        Whether the round is posed compactly, so that network shares may have no price.

    Notes
    -----
    Goals that rank above the level are not in it: they can only make the level's best worse.
    """
    counted = with_promises(problem) if promised else problem
    relaxation = Relaxation(counted, level)
    free = relaxation.shared.network if compact else None
    chosen = choose_prices(relaxation, free=free)
    prices = Prices.of_rows(counted, relaxation.shared, chosen.prices)
    bound = Bound(rounded_up(chosen.evaluation), prices)
    check_bound(counted, level, prices, bound.value)
    return bound
