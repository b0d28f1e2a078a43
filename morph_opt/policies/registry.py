"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from formulations.objectives import OBJECTIVES
from morph_opt.decision.pose import Objective
from morph_opt.decision.ranked import RoundSolver
from morph_opt.domain import InputError
from morph_opt.extend import extension, made_by, require_parts
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import require_pair_speeds
from morph_opt.policies.base import Policy
from morph_opt.policies.fairness_registry import FAIR_OBJECTIVES, FAIR_POLICIES, Knobs
from morph_opt.policies.milp import MilpPolicy
from morph_opt.policies.rigid import EqualSplit, Fifo, Srtf
from morph_opt.rules import OperatorRules
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.registry import make_solver


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What command lines may set.

    Parameters
    ----------
    objective
        Name, or ``package.module:Class`` of a user's own.
    solver, formulation
        Names.
    gap, time_limit_s, node_limit, seed
        See `morph_opt.solvers.outcome.Limits`.
    rules
        Operator's rules, of the MILP policy.
    packing
        Whether the MILP policy may put two jobs on the same GPUs.
    knobs
        See `morph_opt.policies.fairness_registry.Knobs`.
    """

    objective: str = "throughput"
    solver: str = "highs"
    formulation: str = "node_pattern"
    gap: float = 1e-4
    time_limit_s: float = 10.0
    node_limit: int | None = None
    seed: int = 0
    rules: OperatorRules = field(default_factory=OperatorRules)
    packing: bool = False
    knobs: Knobs = field(default_factory=Knobs)


def make_objective(
    name: str, belief: SpeedModel | None = None, knobs: Knobs | None = None
) -> Objective:
    """The objective of this name or import path.

    Parameters
    ----------
    belief
        Speeds that fairness objectives go by.
    knobs
        What fairness objectives may be told.

    Raises
    ------
    InputError
        If there is none.
    """
    if name in OBJECTIVES:
        return OBJECTIVES[name]()
    if name in FAIR_OBJECTIVES and belief is not None:
        return FAIR_OBJECTIVES[name](belief, knobs or Knobs())
    own = extension("morph_opt.objectives", name)
    if own is None:
        raise InputError(
            f"unknown objective {name!r}; known are "
            f"{', '.join(sorted((*OBJECTIVES, *FAIR_OBJECTIVES)))}, "
            "or package.module:Class of your own",
            field="--objective",
        )
    made = made_by(own, name, "--objective", "Objective()")
    return require_parts(  # type: ignore[no-any-return]
        made, name, "--objective", "objective", ("name", "levels")
    )


def _milp(belief: SpeedModel, options: PolicyOptions) -> Policy:
    if options.formulation not in RoundSolver.FORMULATIONS:
        raise InputError(
            f"unknown formulation {options.formulation!r}; known are "
            + ", ".join(RoundSolver.FORMULATIONS),
            field="--formulation",
        )
    limits = Limits(
        gap=options.gap, time_s=options.time_limit_s, nodes=options.node_limit, seed=options.seed
    )
    return MilpPolicy.of(
        belief,
        make_objective(options.objective, belief, options.knobs),
        make_solver(options.solver),
        limits,
        options.formulation,
        options.rules,
        require_pair_speeds(belief) if options.packing else None,
    )


POLICIES: dict[str, Callable[[SpeedModel, PolicyOptions], Policy]] = {
    "milp": _milp,
    "fifo": lambda belief, _: Fifo(belief),
    "fifo:skip": lambda belief, _: Fifo(belief, skip_blocked=True),
    "srtf": lambda belief, _: Srtf(belief),
    "equal_split": lambda belief, _: EqualSplit(belief),
}
"""Makers of policies by the name that command lines use."""


def make_policy(name: str, belief: SpeedModel, options: PolicyOptions) -> Policy:
    """The policy of this name or import path.

    Raises
    ------
    InputError
        If the policy, objective, solver or formulation is unknown, or a knob is given that the
        policy does not know, or packing is asked of a policy that knows none.
    """
    if options.packing and name != "milp" and (name in POLICIES or name in FAIR_POLICIES):
        raise InputError(f"policy {name!r} knows no packing", field="--packing")
    if name in POLICIES:
        made = POLICIES[name](belief, options)
        options.knobs.require_understood(name, options.objective)
        return made
    if name in FAIR_POLICIES:
        options.knobs.require_understood(name, options.objective)
        return FAIR_POLICIES[name](belief, options.knobs)
    own = extension("morph_opt.policies", name)
    if own is None:
        raise InputError(
            f"unknown policy {name!r}; known are "
            f"{', '.join(sorted((*POLICIES, *FAIR_POLICIES)))}, "
            "or package.module:factory of your own",
            field="--policy",
        )
    made = made_by(own, name, "--policy", "policy(belief, options)", belief, options)
    return require_parts(  # type: ignore[no-any-return]
        made, name, "--policy", "policy", ("name", "decide")
    )
