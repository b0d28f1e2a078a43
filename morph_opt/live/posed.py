"""Rounds to decide: the scheduler's picture with memory, reports and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from morph_opt.core.domain import Cluster, ExecutionPlan, InputError, JobState, Shape, Span
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.tried import TriedModel
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.live.memory import Known, Measured, Memory
from morph_opt.live.picture import Picture, Seen
from morph_opt.live.settings import Settings
from morph_opt.live.stated import Stated, gangs, paces, stated_of, unseen_end
from morph_opt.round.reader import read_speeds
from morph_opt.round.snapshot import Snapshot, state_to_json
from morph_opt.round.speeds import SpeedRow, SpeedTable, table_of, table_to_json
from morph_opt.scheduling.decision.rules.model import (
    MinimumRun,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
)


@dataclass(frozen=True, slots=True)
class Posed:
    """Round to decide.

    Parameters
    ----------
    snapshot
        Jobs that run, and those that wait and take part.
    left_alone
        Why other jobs are not part of it, or may not be stopped.
    stated
        By job.
    unseen
        Reasons not to stop jobs whose end may come at any moment, by job.
    """

    snapshot: Snapshot
    left_alone: Mapping[str, str]
    stated: Mapping[str, Stated]
    unseen: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """Return the document of the round, in the format of `morph_opt.round`."""
        speeds = self.snapshot.speeds
        assert isinstance(speeds, SpeedTable)
        return state_to_json(self.snapshot.state, table_to_json(speeds), self.snapshot.rules)


def posed(
    picture: Picture,
    memory: Memory,
    settings: Settings,
    rules: OperatorRules,
    *,
    marked: bool,
    measured: bool,
) -> Posed:
    """Build the round of a picture.

    Parameters
    ----------
    marked
        Whether only jobs take part that are marked as such by their comment.
    measured
        Whether reports correct the speeds.
    """
    state, base = picture.live.snapshot.state, picture.live.snapshot.rules
    cluster = _described(state.cluster, settings)
    speeds = _speeds(settings, cluster)
    models = None if speeds is None else _Models(speeds, cluster)
    taken = _Taken(picture, memory, settings, marked, models, dict(picture.live.held))
    for known in state.jobs:
        taken.take(known)
    rigid = picture.live.snapshot.speeds
    assert isinstance(rigid, SpeedTable)
    more = [row for rows in models.rows.values() for row in rows] if models is not None else []
    table = SpeedTable((*rigid.rows, *more)) if more else rigid
    if measured and models is not None and models.rows:
        table = _measured(table, taken.jobs, taken.stated, memory, cluster)
    own = [*(base.rules if base is not None else ()), *taken.limits, *rules.rules]
    own = [rule for rule in own if not isinstance(rule, NonPreemptible) or rule in rules.rules]
    if taken.fixed:
        own.append(NonPreemptible(tuple(taken.fixed)))
    run = sum(job.running is not None for job in taken.jobs)
    if "stops" in settings.powers and len(taken.fixed) < run:
        own += [MinimumRun(settings.minimum_run_s), RestartLimit(settings.restarts_per_hour)]
    names = {job.job.name for job in taken.jobs}
    own = [rule for rule in own if _about(rule, names)]
    jobs, interval_s = tuple(taken.jobs), settings.interval_s
    found = replace(state, index=memory.turns, cluster=cluster, jobs=jobs, interval_s=interval_s)
    snapshot = Snapshot(found, table, replace(rules, rules=tuple(own)))
    return Posed(snapshot, taken.alone, taken.stated, taken.unseen)


@dataclass(slots=True)
class _Taken:
    """Collector of the jobs of a round."""

    picture: Picture
    memory: Memory
    settings: Settings
    marked: bool
    models: _Models | None
    alone: dict[str, str]
    jobs: list[JobState] = field(default_factory=list)
    stated: dict[str, Stated] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    limits: list[Rule] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)

    def take(self, job: JobState) -> None:
        """Take in a job of the picture; waiting jobs that do not take part are left out."""
        name, settings, now_s = job.job.name, self.settings, self.picture.time_s
        seen, known = self.picture.jobs.get(name), self.memory.jobs.get(name)
        why = "no plain job" if seen is None else seen.not_ours(settings, now_s, mark=self.marked)
        report = settings.folder / settings.reports / f"{name}.json" if settings.reports else None
        said, wrong = stated_of(seen.comment if seen and not why else "", report)
        self.stated[name] = said
        why = why or _unready(known, settings, now_s)
        if wrong:
            self.alone[name] = wrong
        if job.running is None and why:
            self.alone[name] = why
            return
        one, pace_s = _with_history(job, known, said, settings), 1.0
        modelled = None if self.models is None or why else self.models.posed(one, said, known)
        if self.models is not None and modelled is not None:
            one, pace_s = modelled
            by_gpus, limit_s = self.models.paces[one.job.model], seen.limit_s if seen else None
            self.limits.append(gangs(one, said, by_gpus, limit_s, settings))
        if job.running is not None:
            keeps = why or self._spent() or _keeps(seen, said, settings, self.picture)
            age_s = 0.0
            if known is not None:
                known.iteration_s = pace_s
                age_s = known.report_age_s(repr((said.left, said.iteration_s)), now_s)
            if not keeps and (keeps := unseen_end(one, said, age_s, pace_s, settings)):
                self.unseen[name] = keeps
            if keeps:
                self.alone[name] = keeps
                self.fixed.append(name)
        self.jobs.append(one)

    def _spent(self) -> str:
        """Return why the round may stop no job; "" if it may stop some."""
        if self.picture.time_s < self.memory.away_s + 2.0 * self.picture.message_s:
            return "slurmctld was away a moment ago"
        spent = len(self.memory.stops_s) >= self.settings.stops_per_hour
        return "the stops of this hour are spent" if spent else ""


def _about(rule: Rule, names: set[str]) -> bool:
    """Return whether a rule on named jobs names any job of the round."""
    listed = getattr(rule, "jobs", ("*",))
    return any(name in names or "*" in name or "?" in name or "[" in name for name in listed)


def _unready(known: Known | None, settings: Settings, time_s: float) -> str:
    if known is None:
        return ""
    if known.launches_failed > settings.launches:
        return f"its launch failed {known.launches_failed} times"
    if known.phase == "waiting" and time_s - known.stop_s < settings.settle_s and known.stop_s:
        return "ended a moment ago"
    return ""


def _keeps(seen: Seen | None, stated: Stated, settings: Settings, picture: Picture) -> str:
    """Return why a running job must not be stopped; "" if it may be."""
    if "stops" not in settings.powers:
        return "no power to stop jobs"
    if seen is None or not seen.requeue:
        return "may not be requeued"
    if not seen.runs:
        return "it starts or ends"
    if not stated.checkpoint:
        return "does not say that it checkpoints"
    if seen.start_s < picture.boot_s and picture.time_s < picture.boot_s + settings.boot_s:
        # Killed before it wrote down that the job had ended, slurmctld takes it to run.
        return "it began before slurmctld did"
    if set(seen.nodes) & picture.silent:
        return "a node of it does not respond"
    return picture.restless()


def _with_history(
    state: JobState, known: Known | None, stated: Stated, settings: Settings
) -> JobState:
    """Return the state of a job with its earlier runs, which schedulers forget at a requeue.

    Units: an iteration is a second for jobs that name no model, so ``iterations``,
    ``iterations_done`` and what a report has left (iterations times seconds of each) are seconds.
    Jobs that name a model get iterations of their own in `_Models.posed`.
    """
    total_s = state.job.iterations
    if stated.seconds is not None:
        total_s = max(1, round(stated.seconds))
    executed_s, starts = state.executed_s, state.starts
    # With the margin a stop pays only if its gain is that many times its cost.
    restart_s = (stated.restart_s or settings.restart_s) * settings.margin
    more: dict[str, Any] = {}
    if known is not None:
        executed_s += known.executed_s
        starts = max(starts, known.starts)
        more = {
            "first_start_s": known.first_start_s or state.first_start_s,
            "last_stop_s": known.stop_s or None,
            "recent_starts_s": tuple(sorted(known.recent_s)),
            "attained_gpu_s": state.attained_gpu_s + known.gpu_s,
        }
    done = executed_s if stated.checkpoint else state.executed_s
    if stated.left is not None and stated.seconds is not None:
        # A report is believed if it exceeds what the user stated for the whole run.
        left_s = stated.left * (stated.iteration_s or 1.0)
        total_s = max(total_s, math.ceil(left_s))
        done = total_s - left_s
    # A job that runs longer than stated always has one second left.
    more["iterations_done"] = max(0.0, min(done, total_s - 1.0))
    return replace(
        state,
        job=replace(state.job, weight=stated.weight, iterations=total_s),
        executed_s=executed_s,
        starts=starts,
        restart_s=restart_s,
        **more,
    )


@dataclass(slots=True)
class _Models:
    """Cache of the speeds of the models that jobs name, for one round.

    Parameters
    ----------
    speeds, cluster
        Known speeds, and the cluster.
    rows, paces
        By model: what it may run on, and seconds of an iteration by GPUs (`stated.paces`).
    """

    speeds: SpeedModel
    cluster: Cluster
    rows: dict[str, tuple[SpeedRow, ...]] = field(default_factory=dict)
    paces: dict[str, dict[int, float]] = field(default_factory=dict)

    def posed(
        self, state: JobState, stated: Stated, known: Known | None
    ) -> tuple[JobState, float] | None:
        """Return a job that names its model with its iterations and plan, and its pace.

        None where speeds know no such job, or not as it runs now: it stays rigid.
        """
        model, plan = stated.model, stated.plan or state.job.requested_plan
        if model is None or model not in self.speeds.models():
            return None
        if model not in self.rows:
            self.rows[model] = table_of(self.speeds, self.cluster, (model,)).rows
            self.paces[model] = paces(self.rows[model])
        held = state.running
        pace_s: float | None = self.paces[model].get(state.job.requested_gpus, 1.0)
        if held is not None:
            kind = self.cluster.nodes[held.placement.nodes[0]].type
            span = topology_of(self.cluster).span(held.placement.nodes)
            pace_s = self.speeds.iteration_s(model, kind, held.placement.shape, plan, span)
        total = stated.iterations
        if total is None and state.job.requested_gpus in self.paces[model]:
            asked_s = self.paces[model][state.job.requested_gpus]
            total = max(1, round(state.job.iterations / asked_s))
        if pace_s is None or total is None:
            return None
        if stated.left is not None:
            total = max(total, math.ceil(stated.left))
        try:
            job = replace(state.job, model=model, iterations=total, requested_plan=plan)
        except InputError:  # the plan is of another number of GPUs
            return None
        ran_s = state.executed_s - (0.0 if known is None else known.executed_s)
        done = ran_s / pace_s + (known.done if known is not None and stated.checkpoint else 0.0)
        if stated.left is not None:
            done = total - stated.left
        running = None if held is None else replace(held, plan=plan)
        done = max(0.0, min(done, total - min(1.0, 1.0 / pace_s)))
        return replace(state, job=job, running=running, iterations_done=done), pace_s


def _described(cluster: Cluster, settings: Settings) -> Cluster:
    kinds = {kind.name: settings.described(kind) for kind in cluster.node_types}
    nodes = (replace(node, type=kinds[node.type.name]) for node in cluster.nodes)
    return Cluster(cluster.name, tuple(nodes), cluster.leaves)


def _speeds(settings: Settings, cluster: Cluster) -> SpeedModel | None:
    if not settings.speeds:
        return None
    if settings.speeds == "model":
        from morph_opt.inputs.perf.analytic.zoo import builtin_model

        return builtin_model()
    return read_speeds(settings.folder / settings.speeds, cluster)


def _measured(
    table: SpeedTable,
    jobs: Sequence[JobState],
    stated: Mapping[str, Stated],
    memory: Memory,
    cluster: Cluster,
) -> SpeedTable:
    """Return the speed table corrected by the reports of jobs, present and past."""
    belief = TriedModel(table)
    for job in jobs:
        seconds, held = stated[job.job.name].iteration_s, job.running
        if seconds is not None and held is not None:
            kind = cluster.nodes[held.placement.nodes[0]].type.name
            span = topology_of(cluster).span(held.placement.nodes).name
            shape, plan = held.placement.shape.label, held.plan.label
            row = Measured(job.job.model, kind, shape, plan, span, seconds)
            memory.measured = [one for one in memory.measured if one.of != row.of] + [row]
    kinds = {kind.name: kind for kind in cluster.node_types}
    known = set(belief.models())
    for one in memory.measured:
        if one.model in known and one.node_type in kinds:
            where = Shape.parse(one.shape), ExecutionPlan.parse(one.plan), Span[one.span]
            belief.observe(one.model, kinds[one.node_type], *where, one.iteration_s)
    return table_of(belief, cluster, table.models())
