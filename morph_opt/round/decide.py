"""Decide one snapshot: the policy that a replay would ask, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from morph_opt.decision.holding import Needs, broken_holding
from morph_opt.domain import Allocation, Assignment, InputError, RoundState
from morph_opt.explain import Effort, Explainer, RoundExplanation
from morph_opt.explain.report import rounded
from morph_opt.explain.text import job_text
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import pair_speeds
from morph_opt.policies.base import Decision
from morph_opt.policies.milp import InfeasibleRoundError
from morph_opt.policies.registry import BASELINES, PolicyOptions, make_policy
from morph_opt.round.reader import read_snapshot
from morph_opt.round.snapshot import Snapshot, parts_to_json
from morph_opt.rules import OperatorRules
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.registry import make_solver


class BrokenWordError(RuntimeError):
    """A policy's allocation is impossible."""


DECISION_SCHEMA = "morph-opt/round-decision/1"


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """A decided snapshot.

    Parameters
    ----------
    snapshot, policy, options
        What was decided, by whom.
    decision
        Allocation and report.
    explanation
        None unless asked for.
    """

    snapshot: Snapshot
    policy: str
    options: PolicyOptions
    decision: Decision
    explanation: RoundExplanation | None = None

    def to_json(self) -> dict[str, Any]:
        """The document ``morph-opt/round-decision/1``; holds no wall time."""
        state, report = self.snapshot.state, self.decision.report
        solves = self.policy == "milp"
        granted = self.decision.allocation.by_job()
        return {
            "schema": DECISION_SCHEMA,
            "round": state.index,
            "time_s": state.time_s,
            "policy": self.policy,
            "objective": self.options.objective if solves else None,
            "solver": self.options.solver if solves else None,
            "status": report.status,
            "value": rounded(report.objective),
            "bound": rounded(report.bound),
            "gap": rounded(report.gap),
            "bound_by": report.bound_by or None,
            "step": report.step or None,
            "gap_of_gain": rounded(report.gap_of_gain),
            "size": {
                "jobs": len(state.jobs),
                "candidates": report.candidates,
                "rows": report.rows,
                "columns": report.columns,
            },
            "guarantees": {
                "possible": report.guarantees_possible,
                "short": report.guarantees_short,
                "shortfall": rounded(report.guarantee_shortfall),
            },
            **_slos(report.slo_dropped),
            "jobs": [_job(state, self.snapshot.speeds, i, granted) for i in range(len(state.jobs))],
            "explanation": None if self.explanation is None else self.explanation.to_json(),
        }

    def why(self, job: str) -> str:
        """Why a job got what it got: what that is worth, its best option, and who would pay.

        Raises
        ------
        InputError
            If the round has no such job, or its policy proves nothing.
        """
        evidence = self.decision.evidence
        if evidence is None:
            raise InputError(f"explains the policy milp only, not {self.policy!r}", field="policy")
        explainer = make_explainer(self.options, Effort(jobs=0, named=(job,)))
        return job_text(explainer.explain(evidence, self.decision.allocation), job)


def _slos(dropped: tuple[str, ...]) -> dict[str, list[str]]:
    """Jobs whose SLO the decision gives up; left out where there is none."""
    return {"slo_dropped": list(dropped)} if dropped else {}


def _job(
    state: RoundState, speeds: SpeedModel, index: int, granted: Mapping[str, Assignment]
) -> dict[str, Any]:
    known = state.jobs[index]
    held = granted.get(known.job.name)
    partner = None if held is None or held.partner is None else granted[held.partner]
    action = "queue" if held is None else "stay" if held == known.running else "start"
    return {
        "job": known.job.name,
        "action": action,
        "was_running": known.running is not None,
        "gpus": 0 if held is None else held.placement.gpus,
        "plan": None if held is None else held.plan.label,
        "nodes": [] if held is None else parts_to_json(held, state.cluster),
        "iteration_s": None
        if held is None
        else _iteration_s(state, speeds, known.job.model, held)
        if partner is None
        else _paired_s(state, speeds, held, partner),
    } | ({} if partner is None else {"partner": partner.job})


def _iteration_s(
    state: RoundState, speeds: SpeedModel, model: str, held: Assignment
) -> float | None:
    """Predicted seconds per iteration; on nodes of several types that of the slowest."""
    cluster, nodes = state.cluster, held.placement.nodes
    times = [
        speeds.iteration_s(model, kind, held.placement.shape, held.plan, cluster.span(nodes))
        for kind in dict.fromkeys(cluster.nodes[node].type for node in nodes)
    ]
    known = [seconds for seconds in times if seconds is not None]
    return rounded(max(known)) if len(known) == len(times) else None


def _paired_s(
    state: RoundState, speeds: SpeedModel, held: Assignment, partner: Assignment
) -> float | None:
    """Predicted seconds per iteration next to another job."""
    models = {known.job.name: known.job.model for known in state.jobs}
    kind = state.cluster.nodes[held.placement.nodes[0]].type
    measured = pair_speeds(speeds)
    pace_s = measured and measured.paired_iteration_s(
        (models[held.job], models[partner.job]),
        (held.plan, partner.plan),
        kind,
        held.placement.shape,
    )
    return rounded(pace_s[0]) if pace_s else None


def decide(
    state: str | Path | Snapshot,
    *,
    objective: str = "throughput",
    policy: str = "milp",
    options: PolicyOptions | None = None,
) -> RoundDecision:
    """Decide one round, given by a snapshot or the file of one.

    >>> decide("docs/schema/example-state.json").decision.report.status
    'optimal'

    Parameters
    ----------
    state
        A `Snapshot`, or the path of one (``docs/round.md`` has the format).
    objective, policy
        Names; the objective is of the policy ``milp``.
    options
        Everything else that a policy may be told; the objective is then taken from there.

    Raises
    ------
    InputError
        As `morph_opt.round.reader.read_snapshot` and `decide_round`.
    """
    snapshot = state if isinstance(state, Snapshot) else read_snapshot(state)
    return decide_round(snapshot, options or PolicyOptions(objective=objective), policy=policy)


def decide_round(
    snapshot: Snapshot,
    options: PolicyOptions | None = None,
    *,
    policy: str = "milp",
    explain: Effort | None = None,
) -> RoundDecision:
    """Decide a snapshot.

    Parameters
    ----------
    snapshot
        What is decided; its rules take the place of those of ``options`` if it has any.
    options
        Objective, solver, gap and so on.
    policy
        Name or import path.
    explain
        Effort of an explanation; None: without one. Needs the policy ``milp``.

    Returns
    -------
    RoundDecision
        Equal to what a replay decides in the same state, for policies without a memory of
        earlier rounds.

    Raises
    ------
    InputError
        If policy, objective or solver are unknown, a policy that knows no rules is given some,
        or an explanation is asked of a policy that proves nothing.
    RuleConflictError
        If the rules leave no decision.
    """
    options = options or PolicyOptions()
    rules = snapshot.rules if snapshot.rules is not None else options.rules
    options = _with_rules(options, rules)
    if policy in BASELINES and rules.rules:
        raise InputError(f"policy {policy!r} knows no operator's rules", field="rules")
    decider = make_policy(policy, snapshot.speeds, options)
    if policy != "milp" and explain is not None:
        raise InputError(f"explains the policy milp only, not {policy!r}", field="--explain")
    try:
        decision = decider.decide(snapshot.state)
    except InfeasibleRoundError as error:
        conflict = make_explainer(options).conflict(error.posed)
        raise (conflict or error) from error
    _require_sound(snapshot, decision.allocation, policy)
    explanation = None
    if explain is not None and decision.evidence is not None:
        explainer = make_explainer(options, explain)
        explanation = explainer.explain(decision.evidence, decision.allocation)
    return RoundDecision(snapshot, policy, options, decision, explanation)


def make_explainer(options: PolicyOptions, effort: Effort | None = None) -> Explainer:
    """The explainer of the MILP policy with these options."""
    limits = Limits(
        gap=options.gap, time_s=options.time_limit_s, nodes=options.node_limit, seed=options.seed
    )
    return Explainer(make_solver(options.solver), limits, effort or Effort())


def _with_rules(options: PolicyOptions, rules: OperatorRules) -> PolicyOptions:
    return options if options.rules is rules else replace(options, rules=rules)


def _require_sound(snapshot: Snapshot, allocation: Allocation, policy: str) -> None:
    """A user's own policy is not believed: no GPU twice, no node over what it has."""
    rule = broken_holding(
        snapshot.state, allocation, Needs(snapshot.speeds), spans=policy == "milp"
    )
    if rule is not None:
        raise BrokenWordError(f"policy {policy}: {rule}")
