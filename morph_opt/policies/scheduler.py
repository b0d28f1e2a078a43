"""Who decides: a policy by its name, with what it may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from morph_opt.domain.options import asked, documented, names_are_known, option
from morph_opt.policies.options import RULES, DecisionOptions, PolicyOptions

if TYPE_CHECKING:
    from morph_opt.decision.rules import OperatorRules


@documented
@dataclass(frozen=True, slots=True)
class Scheduler(DecisionOptions):
    """Who decides, and what it believes.

    ``rules_sha256`` is the digest of the file of rules, so that a resumed run cannot get another,
    and ``chosen`` what the objective ``auto`` took for the jobs of the run, and why.

    Raises
    ------
    InputError
        If a value is out of range, or nothing has a name; names the field, and of a table the
        name.
    """

    policy: str = option(
        "milp", "policy: milp, fifo, srtf, gavel:ftf, ...", metavar="NAME", common=True
    )
    rules: str | None = RULES
    rules_sha256: str | None = None
    chosen: str | None = None
    belief: str = option(
        "truth",
        "speeds that the policy sees: truth, model, table, or measured[:PRIOR], what pairs and "
        "places were seen to do",
        metavar="NAME",
    )
    online_fit: bool = option(False, "correct the belief by what running jobs show")

    def __post_init__(self) -> None:
        DecisionOptions.__post_init__(self)
        if names_are_known() and (self.policy, self.objective) != ("milp", "auto"):
            from morph_opt.policies.registry import require_named

            require_named(self.policy, self.objective)
        if names_are_known() and self.policy == "milp" and self.solver != "highs":
            from morph_opt.solvers.registry import require_named as require_solver

            require_solver(self.solver)

    @property
    def learns(self) -> str:
        """The option by which the belief changes as jobs run; empty if it does not."""
        if self.online_fit:
            return "--online-fit"
        return "--belief measured" if self.belief.partition(":")[0] == "measured" else ""

    def options(self, rules: OperatorRules) -> PolicyOptions:
        """What a policy is made from, with the rules as read."""
        values = {name: getattr(self, name) for name in asked(DecisionOptions)}
        return PolicyOptions(**values, rules=rules)
