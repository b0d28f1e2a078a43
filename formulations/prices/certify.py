"""Checked bound by prices for any round, however its solve ended."""

from __future__ import annotations

from formulations.check_bound import check_bound
from formulations.prices import Bound, Prices, Relaxation, choose_prices
from formulations.prices.bound import rounded_up
from formulations.prices.choose import LinearProgram, scipy_lp
from formulations.round.rules import with_promises
from formulations.round.tables import Level, RoundProblem


def bound_by_prices(
    problem: RoundProblem,
    level: Level,
    promised: bool,
    compact: bool = False,
    lp: LinearProgram = scipy_lp,
) -> Bound:
    """Return the least bound found on a level, with the prices that prove it.

    Parameters
    ----------
    promised
        Whether every guaranteed job must have the speed of its request.
    compact
        Whether the round is posed compactly, so that network shares have no price.
    lp
        Solver of the master problems.

    Notes
    -----
    Goals that rank higher are left out: they can only lower the best value of the level.
    """
    counted = with_promises(problem) if promised else problem
    relaxation = Relaxation(counted, level)
    free = relaxation.shared.network if compact else None
    chosen = choose_prices(relaxation, lp=lp, free=free)
    prices = Prices.of_rows(counted, relaxation.shared, chosen.prices)
    bound = Bound(rounded_up(chosen.evaluation), prices)
    check_bound(counted, level, prices, bound.value)
    return bound
