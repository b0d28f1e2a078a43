"""Prices of slots for a round, if slots are few enough."""

from __future__ import annotations

from dataclasses import replace

from formulations.arrays import Floats
from formulations.node_pattern.patterns import TooManyPatternsError
from formulations.parameters import PRICE_SEARCH
from formulations.prices import choose_prices
from formulations.prices.choose import Chosen, LinearProgram
from formulations.prices.slots import SlotRelaxation
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.params import DEFAULTS, SlotParams


def slots_priced(
    problem: RoundProblem,
    level: Level,
    chosen: Chosen,
    lp: LinearProgram,
    gap: float,
    params: SlotParams = DEFAULTS.slots,
) -> tuple[SlotRelaxation, Chosen] | None:
    """Return the relaxation with slots and its prices; None if there are too many slots.

    Parameters
    ----------
    chosen
        Prices of rows, with which the search starts.
    lp
        Solver of the master problems.
    gap
        Requested gap.
    params
        Number of slots and of evaluations, at most.
    """
    try:
        slots = SlotRelaxation(problem, level)
    except TooManyPatternsError:
        return None
    if slots.kinds > params.kinds:
        return None
    close = params.close * gap
    search = replace(PRICE_SEARCH, evaluations=params.evaluations, close=close, grows=params.grows)

    def searched(start: Floats, radius: float) -> Chosen:
        return choose_prices(slots, start, lp, slots.counted, replace(search, radius=radius))

    found = searched(slots.start(chosen.prices), params.radius)
    if slots.share_out(found.prices):
        found = searched(found.prices, params.radius_shared)
    return slots, found
