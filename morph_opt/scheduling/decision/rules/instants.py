"""Instants at which rules change although nothing happens."""

from __future__ import annotations

import math
from collections.abc import Iterator

from morph_opt.core.domain import RoundState
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.rules.model import (
    Maintenance,
    MinimumRun,
    OperatorRules,
    RestartLimit,
)
from morph_opt.scheduling.decision.rules.patterns import matches


def next_change_s(rules: OperatorRules, state: RoundState) -> float:
    """Return the next instant at which a rule begins or ends to bind; inf if there is none."""
    later = (instant_s for instant_s in _instants(rules, state) if instant_s > state.time_s)
    return min(later, default=math.inf)


def _instants(rules: OperatorRules, state: RoundState) -> Iterator[float]:
    for rule in rules.rules:
        if isinstance(rule, Maintenance):
            # A round in which a window begins already leaves the nodes empty.
            yield rule.start_s - rule.lead_s - state.interval_s
            yield rule.start_s - state.interval_s
            yield rule.end_s
        elif isinstance(rule, MinimumRun):
            for known in state.jobs:
                starts = known.running is not None and known.last_start_s is not None
                if starts and matches(known.job.name, rule.jobs):
                    yield (known.last_start_s or 0.0) + rule.seconds
        elif isinstance(rule, RestartLimit):
            for known in state.jobs:
                if matches(known.job.name, rule.jobs):
                    yield from (start_s + HOUR_S for start_s in known.recent_starts_s)
