"""The audit as a policy calls it: what jobs could use is taken from the round's candidates."""

from __future__ import annotations

from morph_opt.candidates.table import RoundView
from morph_opt.domain import Allocation, RoundState
from morph_opt.rules.audit import BrokenRuleError, audit
from morph_opt.rules.model import OperatorRules


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
    gpus, offset = view.problem.candidates.gpus, view.offset

    def sizes(name: str) -> list[int]:
        job = position[name]
        return list(map(int, gpus[offset[job] : offset[job + 1]].tolist()))

    broken = audit(state, allocation, rules, sizes)
    if broken:
        raise BrokenRuleError(broken)
