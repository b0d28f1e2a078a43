"""Good prices of slots for a round, where they are few enough."""

from __future__ import annotations

from dataclasses import replace

from formulations.arrays import Floats
from formulations.node_pattern.patterns import TooManyPatternsError
from formulations.parameters import PRICE_SEARCH
from formulations.prices import choose_prices
from formulations.prices.choose import Chosen, LinearProgram
from formulations.prices.slots import SlotRelaxation
from formulations.round.tables import Level, RoundProblem

SLOT_EVALUATIONS, SLOTS_CLOSE = 100, 0.05
"""Of the relaxation with slots, at most; and distance to its least bound, in gaps asked for."""

MOST_SLOTS = 60
"""Kinds of slots up to which they are priced."""


def slots_priced(
    problem: RoundProblem, level: Level, chosen: Chosen, lp: LinearProgram, gap: float
) -> tuple[SlotRelaxation, Chosen] | None:
    """The relaxation with slots and its prices, from those of rows on; None where slots are many.

    Parameters
    ----------
    chosen
        Prices of rows.
    lp
        Solves the master problems.
    gap
        That is asked for.
    """
    try:
        slots = SlotRelaxation(problem, level)
    except TooManyPatternsError:
        return None
    if slots.kinds > MOST_SLOTS:
        return None
    params = replace(PRICE_SEARCH, evaluations=SLOT_EVALUATIONS, close=SLOTS_CLOSE * gap, grows=2.0)

    def searched(start: Floats, radius: float) -> Chosen:
        return choose_prices(slots, start, lp, slots.counted, replace(params, radius=radius))

    found = searched(slots.start(chosen.prices), 0.3)
    if slots.share_out(found.prices):
        found = searched(found.prices, 0.05)
    return slots, found
