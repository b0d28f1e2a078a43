"""Capacity planning: how many nodes, which fleet, what is worth what.

>>> from morph_opt import plan
>>> plan.needed(0.9, 0.95)
36
"""

from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.questions.backtest import backtest
from morph_opt.plan.questions.comparing import compare, rules
from morph_opt.plan.questions.eta import eta
from morph_opt.plan.questions.fleets import fleet
from morph_opt.plan.questions.growth import growth
from morph_opt.plan.questions.removing import remove
from morph_opt.plan.questions.sizes import nodes
from morph_opt.plan.questions.worth import worth
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import needed

__all__ = [
    "Answer",
    "Ask",
    "Slo",
    "backtest",
    "compare",
    "eta",
    "fleet",
    "growth",
    "needed",
    "nodes",
    "remove",
    "rules",
    "worth",
]
