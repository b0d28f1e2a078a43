"""Options of policies and objectives, each defined once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morph_opt.core.domain import SEEDS, Range
from morph_opt.core.domain.options import Setting, asked, changed, documented, option, require_all

if TYPE_CHECKING:
    from morph_opt.scheduling.decision.rules.model import OperatorRules

WEIGHTS = Range(1e-6, 1e6)
"""Range of weights of tenants; their quotients stay far from the tolerances of solvers."""
_MILP = ("milp",)
"""Mark of options that the policy ``milp`` knows under every objective."""


def _promises(text: str) -> object:
    from morph_opt.scheduling.decision.promises import Promises

    return Promises.parse(text)


def _plan_ahead(text: str) -> object:
    from morph_opt.scheduling.decision.ahead import mode_of

    return mode_of(text)


def _durations(text: str) -> object:
    from morph_opt.scheduling.policies.blind import Durations

    return Durations.parse(text)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """Options of policies and objectives; each is known to some and refused by the others.

    `PolicySpec.options` and `MILP_OPTIONS` list the known options.

    Raises
    ------
    InputError
        If a value is out of range; names the field, and of a table the name.
    """

    objective: str = option(
        "auto", "objective of policy milp", metavar="NAME", marks=_MILP, common=True
    )
    solver: str = option(
        "highs",
        "solver of policy milp; python -m morph_opt.solvers lists them",
        metavar="NAME",
        marks=_MILP,
    )
    formulation: str = option(
        "node_pattern",
        "formulation of policy milp: nodes counted or named",
        metavar="NAME",
        marks=_MILP,
    )
    method: str = option(
        "auto",
        "method of policy milp: exact (the solver decides every round), ladder, or auto: ladder "
        "but for named nodes",
        metavar="NAME",
        marks=_MILP,
    )
    gap: float = option(
        1e-4,
        "relative gap at which a round of milp is done",
        metavar="GAP",
        range=Range(0.0, 1.0),
        marks=_MILP,
        common=True,
    )
    time_limit_s: float = option(
        10.0,
        "wall-clock safeguard per round of milp",
        metavar="S",
        range=Range(0.0, 1e6),
        marks=_MILP,
    )
    node_limit: int | None = option(
        None,
        "branch-and-bound nodes per round of milp",
        metavar="N",
        range=Range(1, 10**9, whole=True),
        marks=_MILP,
    )
    seed: int = option(
        0,
        "seed of the solver or of a randomised policy (--seed)",
        flag="--solver-seed",
        range=SEEDS,
    )
    promises: str | None = option(
        None,
        "rule of policy milp if not all promises can be kept: rank, or weight:PHI "
        "(weight under auto, else rank)",
        metavar="rank|weight[:PHI]",
        parse=_promises,
        marks=_MILP,
    )
    durations: str = option(
        "true",
        "knowledge of policies about remaining work: all, completed work alone, time limits "
        "(drawn by modal, exact or factor:F where a trace has none; learnt: completed work within "
        "them), or estimates wrong by a lognormal factor",
        metavar="true|blind|limits[:LAW][:learnt]|noisy:SIGMA",
        parse=_durations,
        marks=_MILP,
    )
    plan_ahead: str = option(
        "off",
        "milp plans all starts where no job may be stopped: late ones cost more, or the latest "
        "start of each is promised",
        metavar="off|soft|promised",
        parse=_plan_ahead,
        marks=_MILP,
    )
    packing: bool = option(
        False,
        "let milp and gandiva put two jobs on the same GPUs, if speeds have pairs",
        marks=_MILP,
    )
    waste_filter: float | None = option(
        None,
        "largest share of the GPUs' speed that milp lets workers on several GPU types waste (any)",
        metavar="SHARE",
        range=Range(0.0, 1.0),
        marks=_MILP,
    )
    entity_weights: Mapping[str, float] = option(
        {},
        "weights of entities under hierarchical policies (1 each)",
        metavar="TENANT=W,...",
        range=WEIGHTS,
    )
    starvation_knob: float = option(
        0.0,
        "wait over run time after which a job moves up, under las, gittins, tiresias:*; 0: never",
        metavar="K",
        range=Range(0.0, 1e6),
    )
    feedback_share: float = option(
        1.0,
        "largest share of GPUs for first reports, under objective feedback",
        metavar="SHARE",
        range=Range(0.0, 1.0),
    )

    def __post_init__(self) -> None:
        require_all(self)


def _no_rules() -> OperatorRules:
    from morph_opt.scheduling.decision.rules.model import OperatorRules

    return OperatorRules()


@dataclass(frozen=True, slots=True)
class PolicyOptions(DecisionOptions):
    """Options of a policy with the operator's rules.

    Parameters
    ----------
    rules
        Rules read from the file that a `Scheduler` names, or from a snapshot.
    """

    rules: OperatorRules = field(default_factory=_no_rules)

    def changed(self) -> tuple[str, ...]:
        """Return the names of the options that differ from their defaults."""
        ruled = ("rules",) if self.rules != _no_rules() else ()
        return (*(name for name in changed(self) if name in OPTIONS), *ruled)


@documented
@dataclass(frozen=True, slots=True)
class Scheduler(DecisionOptions):
    """Choice of policy, objective and belief, with their options.

    ``rules_sha256`` is the digest of the file of rules, so that a resumed run cannot get another,
    and ``chosen`` what the objective ``auto`` took for the jobs of the run, and why. Names of
    policies, objectives and solvers are looked up when they are used: what a file of another
    machine names may be installed there only.

    Raises
    ------
    InputError
        If a value is out of range; names the field, and of a table the name.
    """

    policy: str = option(
        "milp", "policy: milp, fifo, srtf, gavel:ftf, ...", metavar="NAME", common=True
    )
    rules: str | None = option(
        None, "operator's rules, TOML", metavar="FILE", marks=_MILP, common=True
    )
    rules_sha256: str | None = None
    chosen: str | None = None
    belief: str = option(
        "truth",
        "speeds that the policy sees: truth, model, table, or measured[:PRIOR]: observed in this "
        "run, else PRIOR for pairs",
        metavar="NAME",
    )
    online_fit: bool = option(False, "correct the belief by observed speeds of running jobs")

    @property
    def learns(self) -> str:
        """Option by which the belief changes as jobs run; "" if it does not."""
        if self.online_fit:
            return "--online-fit"
        return "--belief measured" if self.belief.partition(":")[0] == "measured" else ""

    def options(self, rules: OperatorRules) -> PolicyOptions:
        """Return the options from which a policy is made, with the rules as read."""
        values = {name: getattr(self, name) for name in asked(DecisionOptions)}
        return PolicyOptions(**values, rules=rules)


OPTIONS: dict[str, Setting] = {
    name: known
    for name, known in asked(Scheduler).items()
    if name in (asked(DecisionOptions).keys() - {"seed"}) | {"rules"}
}
"""Options that some policies know and the others refuse, by name."""

MILP_OPTIONS = tuple(name for name, known in OPTIONS.items() if "milp" in known.about.marks)
"""Options of the policy ``milp`` under every objective."""
