"""Audit of a policy's decision, with the sizes of the round's configurations."""

from __future__ import annotations

from functools import cache

import numpy as np

from formulations.arrays import Bools, Floats
from morph_opt.core.domain import Allocation, RoundState
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.rules.audit import BrokenRuleError, audit
from morph_opt.scheduling.decision.rules.audit_organisation import Organisation
from morph_opt.scheduling.decision.rules.lending import could_use
from morph_opt.scheduling.decision.rules.model import GangLimit, OperatorRules
from morph_opt.scheduling.decision.rules.organisation import Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches


def require_kept(
    state: RoundState, allocation: Allocation, rules: OperatorRules, view: RoundView
) -> None:
    """Refuse a decision that breaks an operator's rule as it is written.

    Raises
    ------
    BrokenRuleError
        With rule and job.
    """
    if not rules.rules:
        return
    position = {known.job.name: job for job, known in enumerate(view.states)}

    @cache
    def largest() -> list[tuple[str, Floats]]:
        allowed, on = _allowed(view, state, rules), view.problem.candidates.node_class
        return [
            (kind.name, could_use(view, allowed & (on == at)))
            for at, kind in enumerate(state.cluster.node_types)
        ]

    def sizes(name: str) -> list[tuple[str, int]]:
        job = position[name]
        return [(kind, int(gpus[job])) for kind, gpus in largest()]

    broken = audit(state, allocation, rules, sizes)
    if broken:
        raise BrokenRuleError(broken)


def _allowed(view: RoundView, state: RoundState, rules: OperatorRules) -> Bools:
    """Return the candidates whose sizes are within all limits of their jobs alone, shape (K,)."""
    gpus = view.problem.candidates.gpus
    allowed = np.ones(gpus.size, dtype=bool)
    for rule in rules.rules:
        if not isinstance(rule, GangLimit):
            continue
        most = np.inf if rule.most is None else rule.most
        for job, known in enumerate(view.states):
            if matches(known.job.name, rule.jobs):
                mine = slice(int(view.offset[job]), int(view.offset[job + 1]))
                allowed[mine] &= (gpus[mine] >= rule.least) & (gpus[mine] <= most)
    if any(isinstance(rule, RunningLimit | Queue) for rule in rules.rules):
        organisation, types = Organisation.of(state, rules), state.cluster.node_types
        node_class = view.problem.candidates.node_class
        for job, known in enumerate(view.states):
            mine = slice(int(view.offset[job]), int(view.offset[job + 1]))
            within = np.asarray([organisation.most_alone(known, kind.name) for kind in types])
            allowed[mine] &= gpus[mine] <= within[node_class[mine]]
    return allowed
