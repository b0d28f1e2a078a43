"""Capacity planning: number of nodes, choice of a fleet, value of a change.

>>> from morph_opt import plan
>>> plan.needed(0.9, 0.95)
36
"""

from typing import TYPE_CHECKING

from morph_opt.core.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.plan.answer import Answer
    from morph_opt.plan.ask import Ask
    from morph_opt.plan.questions.comparing import compare
    from morph_opt.plan.questions.eta import eta
    from morph_opt.plan.questions.fleets import fleet
    from morph_opt.plan.questions.growth import growth
    from morph_opt.plan.questions.removing import remove
    from morph_opt.plan.questions.sizes import nodes
    from morph_opt.plan.questions.worth import worth
    from morph_opt.plan.stats import needed
    from morph_opt.simulation.runs.slo import Slo
else:
    __getattr__ = lazily(
        __name__,
        {
            ".answer": ("Answer",),
            ".ask": ("Ask",),
            ".questions.comparing": ("compare",),
            ".questions.eta": ("eta",),
            ".questions.fleets": ("fleet",),
            ".questions.growth": ("growth",),
            ".questions.removing": ("remove",),
            ".questions.sizes": ("nodes",),
            ".questions.worth": ("worth",),
            ".stats": ("needed",),
            "morph_opt.simulation.runs.slo": ("Slo",),
        },
    )

__all__ = [
    "Answer",
    "Ask",
    "Slo",
    "compare",
    "eta",
    "fleet",
    "growth",
    "needed",
    "nodes",
    "remove",
    "worth",
]
