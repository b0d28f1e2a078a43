"""Decision of one snapshot, by the policies of a replay."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from pathlib import Path
from typing import Any

from morph_opt.core.documents import plain
from morph_opt.core.documents.model import form_of, write_model
from morph_opt.core.domain import Assignment, InputError, RoundState
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.table import Table
from morph_opt.inputs.perf.speed import SpeedModel, pair_speeds
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.round.reader import parse_snapshot, read_snapshot
from morph_opt.round.snapshot import Snapshot, parts_to_json
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.planned import StartPlan
from morph_opt.scheduling.decision.ranked import ExactMip, whole_model
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.explanation.explainer import Explainer
from morph_opt.scheduling.explanation.report import Effort, RoundExplanation, rounded
from morph_opt.scheduling.explanation.text import job_text
from morph_opt.scheduling.policies.auto import AUTO, chosen
from morph_opt.scheduling.policies.base import Decision, Policy, decision_of
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.policies.options import OPTIONS, PolicyOptions
from morph_opt.scheduling.policies.registry import (
    POLICIES,
    Decider,
    require_reasons,
    resolve,
)
from morph_opt.scheduling.policies.steps import SOLVING
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts

DECISION_SCHEMA = "morph-opt/round-decision/1"


@dataclass(frozen=True, slots=True, repr=False)
class RoundDecision:
    """A decided snapshot.

    Parameters
    ----------
    snapshot, policy, options
        The round, and the policy with its options.
    decision
        Allocation and report.
    explanation
        Explanation; None unless requested.
    notes
        Options that had no effect in this round, each with the reason.
    """

    snapshot: Snapshot
    policy: str
    options: PolicyOptions
    decision: Decision
    explanation: RoundExplanation | None = None
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> str | None:
        """Objective that ``auto`` chose, and why; None under other objectives."""
        return chosen(self.policy, self.options, [one.job for one in self.snapshot.state.jobs])

    @property
    def value(self) -> float | None:
        """Value of the objective, rounded down as in documents; None if there is none."""
        return rounded(self.decision.report.objective, ROUND_FLOOR)

    @property
    def bound(self) -> float | None:
        """Proven upper bound on the value, rounded up; None if nothing is proven."""
        return rounded(self.decision.report.bound, ROUND_CEILING)

    @property
    def gap(self) -> float | None:
        """Relative distance from value to bound, rounded up; None if nothing is proven."""
        return rounded(self.decision.report.gap, ROUND_CEILING)

    @property
    def status(self) -> str:
        """Status of the round: ``optimal`` is within the requested gap."""
        return self.decision.report.status

    @property
    def beyond(self) -> tuple[str, ...]:
        """Jobs that get more GPUs than they ask for, each with both numbers."""
        granted = self.decision.allocation.by_job()
        jobs = [known.job for known in self.snapshot.state.jobs if known.job.name in granted]
        gpus = [(job, granted[job.name].placement.gpus) for job in jobs]
        return tuple(
            f"{job.name} gets {many} GPUs and asks for {job.requested_gpus}"
            for job, many in gpus
            if many > job.requested_gpus
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document ``morph-opt/round-decision/1``, which has no wall times."""
        state, report = self.snapshot.state, self.decision.report
        solves, chosen = self.policy == "milp", self.chosen
        granted = self.decision.allocation.by_job()
        return {
            "schema": DECISION_SCHEMA,
            "round": state.index,
            "time_s": state.time_s,
            "policy": self.policy,
            "objective": self.options.objective if solves else None,
            **({} if chosen is None else {"chosen": chosen}),
            "solver": self.options.solver if solves else None,
            "status": self.status,
            "value": self.value,
            "bound": self.bound,
            "gap": self.gap,
            "bound_by": report.bound_by or None,
            "step": report.step or None,
            "gap_of_gain": rounded(report.gap_of_gain, ROUND_CEILING),
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
            **_where_any("slo_dropped", report.slo_dropped),
            **(
                {"late": [plain(late, optional=("from_s",)) for late in report.late]}
                if report.late
                else {}
            ),
            **({} if report.plan is None else {"plan": _plan(report.plan)}),
            **_where_any("beyond_request", self.beyond),
            **_where_any("notes", self.notes),
            "jobs": [_job(state, self.snapshot.speeds, i, granted) for i in range(len(state.jobs))],
            "explanation": None if self.explanation is None else self.explanation.to_json(),
        }

    def to_table(self) -> Table:
        """Return a table of what each job gets; a missing plan or node is a dash.

        A running job that is left without GPUs has the action ``stop`` here.
        """
        rows = [
            (
                job["job"],
                "stop" if job["was_running"] and job["action"] == "queue" else job["action"],
                job["gpus"],
                (job["plan"] or "-") + (f" beside {job['partner']}" if "partner" in job else ""),
                " ".join(
                    f"{part['node']}:{','.join(map(str, part['gpus']))}" for part in job["nodes"]
                )
                or "-",
                "-" if job["iteration_s"] is None else f"{job['iteration_s']:.4g}",
            )
            for job in self.to_json()["jobs"]
        ]
        return Table(("job", "action", "GPUs", "plan", "nodes", "s per iteration"), rows, "l")

    def __repr__(self) -> str:
        granted, jobs = len(self.decision.allocation.assignments), len(self.snapshot.state.jobs)
        status = self.decision.report.status
        return f"<RoundDecision by {self.policy}, {status}: {granted} of {jobs} jobs get GPUs>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>\n{self.to_table().to_html()}"

    def to_text(self) -> str:
        """Return a summary line and a table of the jobs."""
        state = self.snapshot.state
        head = f"round {state.index} at {state.time_s:g} s: {self.status}"
        if self.value is not None:
            head += f", {self.options.objective if self.policy == 'milp' else 'value'}"
            head += f" {self.value:.6g}"
        if self.gap is not None:
            head += f", gap {self.gap:.3g}"
        chosen = [] if self.chosen is None else [self.chosen]
        notes = [
            f"late: {late.job}, due since {late.since_s:g} s: {late.why}"
            + ("" if late.from_s is None else f", it is expected to start at {late.from_s:.0f} s")
            for late in self.decision.report.late
        ]
        notes += [] if self.decision.report.plan is None else self.decision.report.plan.lines
        notes += [f"beyond its request: {line}" for line in self.beyond]
        notes += [f"note: {note}" for note in self.notes]
        lines = [head, *chosen, "", self.to_table().to_text(), *([""] if notes else []), *notes]
        return "\n".join(lines) + "\n"

    def why(self, job: str) -> str:
        """Explain what a job got.

        Under ``milp``: its value, its best option, and which jobs would pay. Under batch policies:
        its place in the queue, its nodes, its planned start, and who is in its way.

        Raises
        ------
        InputError
            If the round has no such job, or its policy states no reasons.
        """
        require_type("job", job, str)
        if self.decision.reason is not None:
            return self.decision.reason(job)
        evidence = self.decision.evidence
        if evidence is None:
            require_reasons(self.policy, field="policy")
            rule = f"policy {self.policy!r} states no reasons in this round"
            raise InputError(rule, field="policy")
        explainer = make_explainer(self.options, Effort(jobs=0, named=(job,)))
        return job_text(explainer.explain(evidence, self.decision.allocation), job)

    def write_model(self, path: str | Path) -> str:
        """Write the round as one MIP, whole: ``.mps``, a minimisation, or ``.lp``, a maximisation.

        The objective's largest coefficient is 1, guarantees and earlier goals are rows. For it the
        round is solved by the method ``exact``, which finds out what has no places.

        Parameters
        ----------
        path
            File to write; a further ``.gz`` or ``.xz`` compresses it.

        Returns
        -------
        str
            Size of the model, and worth of a unit of its objective; the file begins with it. With
            rules of lower rank than the objective it names the last goal, which the file optimises.

        Raises
        ------
        InputError
            If the ending is another, the file cannot be written, the policy is not ``milp``, or
            the round has no jobs.
        """
        file = Path(require_type("path", path, str, Path))
        sign = "" if form_of(file, "path") == ".lp" else "-"
        evidence = self.decision.evidence
        if evidence is None:
            rule = "needs the policy milp and a round with jobs"
            raise InputError(rule, field="policy")
        method = ExactMip(make_solver(self.options.solver), self.options.formulation)
        model, unit, goal = whole_model(evidence.posed, method, _limits(self.options))
        size = f"{model.rows} rows, {model.columns} columns"
        note = f"{size}; a unit of the objective is {sign}{unit!r} {goal}"
        objective = evidence.posed.worth.name
        if goal != objective:
            note += ", the last goal; "
            note += f"rows keep {objective}, which ranks before it, at {self.value}"
            model = replace(model, name=f"{self.options.formulation} {goal}")
        write_model(model, file, note)
        return note


def _plan(plan: StartPlan) -> dict[str, Any]:
    """Return a plan as JSON: its starts that are new, its cost and what is proven."""
    defaults = ("by_s", "later_s", "why")
    return {
        "jobs": plan.jobs,
        "cost_s": plan.cost_s,
        "bound_s": plan.bound_s,
        "gap": None if plan.gap is None else rounded(plan.gap, ROUND_CEILING),
        "starts": [plain(one, optional=defaults) for one in plan.starts],
    }


def _where_any(field: str, entries: tuple[str, ...]) -> dict[str, list[str]]:
    """Return a document with one field, or none if the field has no entries."""
    return {field: list(entries)} if entries else {}


def _job(
    state: RoundState, speeds: SpeedModel, index: int, granted: Mapping[str, Assignment]
) -> dict[str, Any]:
    known = state.jobs[index]
    held = granted.get(known.job.name)
    partner = None if held is None or held.partner is None else granted[held.partner]
    action = "queue" if held is None else "stay" if held == known.running else "start"
    iteration_s = None
    if held is not None and partner is not None:
        iteration_s = _paired_s(state, speeds, held, partner)
    elif held is not None:
        iteration_s = _iteration_s(state, speeds, known.job.model, held)
    return {
        "job": known.job.name,
        "action": action,
        "was_running": known.running is not None,
        "gpus": 0 if held is None else held.placement.gpus,
        "plan": None if held is None else held.plan.label,
        "nodes": [] if held is None else parts_to_json(held, state.cluster),
        "iteration_s": iteration_s,
    } | ({} if partner is None else {"partner": partner.job})


def _iteration_s(
    state: RoundState, speeds: SpeedModel, model: str, held: Assignment
) -> float | None:
    """Return predicted seconds per iteration, on the slowest of its node types."""
    cluster, nodes = state.cluster, held.placement.nodes
    span = topology_of(cluster).span(nodes)
    times = [
        speeds.iteration_s(model, kind, held.placement.shape, held.plan, span)
        for kind in dict.fromkeys(cluster.nodes[node].type for node in nodes)
    ]
    known = [seconds for seconds in times if seconds is not None]
    return rounded(max(known)) if len(known) == len(times) else None


def _paired_s(
    state: RoundState, speeds: SpeedModel, held: Assignment, partner: Assignment
) -> float | None:
    """Return predicted seconds per iteration next to another job."""
    models = {known.job.name: known.job.model for known in state.jobs}
    kind = state.cluster.nodes[held.placement.nodes[0]].type
    measured = pair_speeds(speeds)
    both, plans = (models[held.job], models[partner.job]), (held.plan, partner.plan)
    pace_s = measured and measured.paired_iteration_s(both, plans, kind, held.placement.shape)
    return rounded(pace_s[0]) if pace_s else None


def decide(
    state: str | Path | Snapshot | dict[str, Any],
    *,
    objective: str | Objective[Any] | type[Objective[Any]] | None = None,
    policy: str | Policy | Callable[..., Policy] = "milp",
    options: PolicyOptions | None = None,
) -> RoundDecision:
    """Decide one round, given by a snapshot or the file of one.

    >>> decide("docs/schema/example-state.json").decision.report.status
    'optimal'

    Parameters
    ----------
    state
        A `Snapshot`, the path of one (``docs/round.md`` has the format), or its JSON
        as a dict.
    objective, policy
        Names, your own objects, or the classes that make them from belief and options. The
        objective serves the policy ``milp``; the default is ``auto``.
    options
        All options of a policy, the objective included.

    Raises
    ------
    InputError
        If an objective is given next to options; otherwise as
        `morph_opt.round.reader.read_snapshot` and `decide_round`.
    """
    require_type("state", state, str, Path, Snapshot, dict)
    require_type("options", options, PolicyOptions, None)
    if options is not None and objective is not None:
        raise InputError("is given next to options, which has it as a field", field="objective")
    if objective is None:
        objective = AUTO if options is None else options.objective
    decider = resolve(policy, objective)
    options = options or PolicyOptions(objective=decider.rule.name if decider.objective else AUTO)
    return decide_round(snapshot_of(state), options, policy=decider)


def snapshot_of(state: str | Path | Snapshot | dict[str, Any]) -> Snapshot:
    """Return a snapshot, given as one, as the path of one or as its JSON as a dict."""
    if isinstance(state, Snapshot):
        return state
    if not isinstance(state, dict):
        return read_snapshot(state)
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be written as JSON: {error}", field="state") from error
    return parse_snapshot(text)


def decide_round(
    snapshot: Snapshot,
    options: PolicyOptions | None = None,
    *,
    policy: str | Decider = "milp",
    explain: Effort | None = None,
) -> RoundDecision:
    """Decide a snapshot.

    Parameters
    ----------
    snapshot
        The round; its rules, if any, replace the rules of ``options``.
    options
        Objective, solver, gap and so on.
    policy
        Name, import path, or a `Decider`.
    explain
        Effort of an explanation, which needs the policy ``milp``; None for no explanation.

    Returns
    -------
    RoundDecision
        For policies without memory, the decision of a replay in the same state, except for
        ties: equal jobs are served by arrival, then name.

    Raises
    ------
    InputError
        If policy, objective or solver are unknown, rules cannot be combined with the policy, or
        an explanation is requested from a policy that proves nothing.
    RuleConflictError
        If the rules leave no decision.
    AllocationError
        If your own policy breaks a rule.
    """
    options = options or PolicyOptions()
    rules = snapshot.rules if snapshot.rules is not None else options.rules
    options = replace(options, rules=rules)
    decider = policy if isinstance(policy, Decider) else resolve(policy, options.objective)
    name = decider.name
    if snapshot.rules is None and rules.rules:
        decider.require_rules(rules)
    if any(isinstance(one, StartBy) and one.no_later_than is not None for one in rules.rules):
        rule = "needs every round since the first, which only a replay has"
        raise InputError(rule, field="start_by.no_later_than")
    options, notes = _with_effect(decider, options, snapshot)
    made = decider.make(snapshot.speeds, options)
    if name != "milp" and explain is not None:
        raise InputError(f"explains the policy milp only, not {name!r}", field="--explain")
    if isinstance(made, MilpPolicy):
        made = made.with_ties_by_arrival()
    try:
        decision = decision_of(made, snapshot.state)
    except InfeasibleRoundError as error:
        conflict = make_explainer(options).conflict(error.posed)
        raise (conflict or error) from error
    state, allocation = snapshot.state, decision.allocation
    checks = BeliefChecks(snapshot.speeds)
    broken = checks.on(state.cluster).check(allocation.assignments, StateFacts.of(state))
    if broken:  # for example by a user's own policy
        raise AllocationError(state.index, state.time_s, broken)
    explanation = None
    if explain is not None and decision.evidence is not None:
        explainer = make_explainer(options, explain)
        explanation = explainer.explain(decision.evidence, decision.allocation)
    step = decision.report.step
    if name == "milp" and options.solver != PolicyOptions().solver and step not in ("", *SOLVING):
        why = f"settled by step {step!r}, which asks none"
        why += "" if options.method == "exact" else "; --method exact asks it"
        notes += (f"--solver has no effect in this round: {why}",)
    notes += made.notes()
    return RoundDecision(snapshot, name, options, decision, explanation, notes)


def make_explainer(options: PolicyOptions, effort: Effort | None = None) -> Explainer:
    """Return the explainer of the MILP policy with these options."""
    return Explainer(make_solver(options.solver), _limits(options), effort or Effort())


def _limits(options: PolicyOptions) -> Limits:
    return Limits(
        gap=options.gap, time_s=options.time_limit_s, nodes=options.node_limit, seed=options.seed
    )


def _with_effect(
    decider: Decider, options: PolicyOptions, snapshot: Snapshot
) -> tuple[PolicyOptions, tuple[str, ...]]:
    """Return the options for this round, and notes on those without effect.

    A scheduler that asks every minute with the same options gets a decision in every round, also
    if no job is concerned by them.
    """
    idle = list(decider.without_effect(options, [known.job for known in snapshot.state.jobs]))
    if options.packing and decider.name in POLICIES and pair_speeds(snapshot.speeds) is None:
        idle.append(("packing", "the speeds list no pairs of jobs"))
        options = replace(options, packing=False)
    notes = (f"{OPTIONS[name].flag} has no effect in this round: {why}" for name, why in idle)
    return options, tuple(notes)
