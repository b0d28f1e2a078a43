"""The round that is decided: the scheduler's, with what is remembered, reported and allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from morph_opt.decision.rules import (
    GangLimit,
    MinimumRun,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
)
from morph_opt.documents import Fields, exists, read_json
from morph_opt.domain import (
    Cluster,
    ExecutionPlan,
    InputError,
    JobState,
    Shape,
    Span,
)
from morph_opt.live.memory import Known, Measured, Memory
from morph_opt.live.picture import Picture, Seen
from morph_opt.live.settings import Settings
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.tried import TriedModel
from morph_opt.round import Snapshot, SpeedTable, state_to_json, table_of
from morph_opt.round.reader import read_speeds
from morph_opt.round.speeds import table_to_json

_WORD = re.compile(r"([a-z_]+)=(\S+)")
_GPUS = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")
REPORT = ("iterations_left", "iteration_s")


@dataclass(frozen=True, slots=True)
class Stated:
    """What a user says of a job, in its comment or a report; None for what is not said.

    ``morph checkpoint seconds=3600 model=gpt2 iterations=1000 plan=zero_dp gpus=2-16 restart_s=30``

    Parameters
    ----------
    checkpoint
        Whether it goes on where it was when it is requeued; no other job is ever stopped.
    seconds
        How long it will run on what it asks for.
    model, plan, iterations, gpus
        What it runs; ``gpus`` are the least and the most that it may have.
    restart_s, weight
        Of the job.
    left, iteration_s
        Iterations to go and seconds of each as it runs now.
    """

    checkpoint: bool = False
    seconds: float | None = None
    model: str | None = None
    plan: ExecutionPlan | None = None
    iterations: int | None = None
    gpus: tuple[int, int] | None = None
    restart_s: float | None = None
    weight: float = 1.0
    left: float | None = None
    iteration_s: float | None = None

    @property
    def malleable(self) -> bool:
        """Whether enough is said to give it another shape."""
        return None not in (self.model, self.iterations, self.gpus)


def stated_of(comment: str, report: Path | None = None) -> tuple[Stated, str]:
    """What a comment and a report say, and what is wrong with them ("" for nothing)."""
    words = comment.split()[1:]
    found: dict[str, Any] = {"checkpoint": "checkpoint" in words}
    try:
        for key, value in (m.groups() for m in map(_WORD.fullmatch, words) if m):
            if key in ("seconds", "restart_s", "weight", "left", "iteration_s"):
                found[key] = _positive(key, value)
            elif key == "iterations":
                found[key] = max(1, int(_positive(key, value)))
            elif key == "plan":
                found[key] = ExecutionPlan.parse(value)
            elif key == "model":
                found[key] = value
            elif key == "gpus" and (ends := _GPUS.fullmatch(value)):
                found[key] = int(ends[1]), int(ends[2] or ends[1])
        if report is not None and exists(report):
            read = Fields(read_json(report), "", str(report), REPORT)
            found["left"] = read.number("iterations_left", least=0.0)
            found["iteration_s"] = read.number("iteration_s", above=0.0)
    except (InputError, ValueError) as error:
        return Stated(), str(error)
    return Stated(**found), ""


def _positive(key: str, value: str) -> float:
    number = float(value)
    if not 0.0 < number < 1e12:
        raise InputError(f"must be a positive number, got {value!r}", field=key)
    return number


@dataclass(frozen=True, slots=True)
class Posed:
    """A round to decide.

    Parameters
    ----------
    snapshot
        Jobs that run, and those that wait and take part.
    left_alone
        Why other jobs are not part of it, or may not be stopped.
    stated
        By job.
    """

    snapshot: Snapshot
    left_alone: Mapping[str, str]
    stated: Mapping[str, Stated]

    def document(self) -> dict[str, Any]:
        """The round as `morph_opt.round` reads it."""
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
    """The round of a picture.

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
    reports = settings.folder / settings.reports if settings.reports else None
    jobs, stated, alone = [], {}, dict(picture.live.held)
    rows: dict[str, None] = {}
    limits: list[Rule] = []
    fixed: list[str] = []
    # A decision that counts on stops that will not be done leaves their GPUs to nobody.
    spent = "the stops of this hour are spent"
    spent = spent if len(memory.stops_s) >= settings.stops_per_hour else ""
    if picture.time_s < memory.away_s + 2.0 * picture.message_s:
        spent = "slurmctld was away a moment ago"
    for known in state.jobs:
        name = known.job.name
        seen = picture.jobs.get(name)
        why = (
            "no plain job" if seen is None else seen.not_ours(settings, picture.time_s, mark=marked)
        )
        stated[name], wrong = stated_of(
            seen.comment if seen and not why else "", reports and reports / f"{name}.json"
        )
        why = why or _unready(memory.jobs.get(name), settings, picture.time_s)
        if wrong:
            alone[name] = wrong
        if known.running is None and why:
            alone[name] = why
            continue
        one = _with_history(known, memory.jobs.get(name), stated[name], settings)
        if known.running is not None:
            keeps = why or spent or _keeps(seen, stated[name], settings, picture)
            keeps = keeps or _about_to_end(one, stated[name])
            if keeps:
                alone[name] = keeps
                fixed.append(name)
        modelled = None if speeds is None or why else _modelled(one, stated[name], speeds, cluster)
        if modelled is not None:
            one, rows[modelled.job.model] = modelled, None
            limits.append(_gangs(one, stated[name], settings))
        jobs.append(one)
    table = _table(picture.live.snapshot.speeds, speeds, cluster, tuple(rows))
    if measured and rows:
        table = _measured(table, jobs, stated, memory, cluster)
    own = [*(base.rules if base is not None else ()), *limits, *rules.rules]
    own = [rule for rule in own if not isinstance(rule, NonPreemptible) or rule in rules.rules]
    if fixed:
        own.append(NonPreemptible(tuple(fixed)))
    if "stops" in settings.powers and len(fixed) < sum(job.running is not None for job in jobs):
        own += [MinimumRun(settings.minimum_run_s), RestartLimit(settings.restarts_per_hour)]
    names = {job.job.name for job in jobs}
    own = [rule for rule in own if _about(rule, names)]
    found = replace(
        state, index=memory.turns, cluster=cluster, jobs=tuple(jobs), interval_s=settings.interval_s
    )
    full = replace(rules, rules=tuple(own))
    return Posed(Snapshot(found, table, full), alone, stated)


def _about(rule: Rule, names: set[str]) -> bool:
    """Whether a rule that names jobs one by one names any of the round."""
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
    """Why a job that runs is not stopped; "" if it may be."""
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


def _about_to_end(state: JobState, stated: Stated) -> str:
    """Why a job is not stopped that is said to end now; "" for others.

    A stop that comes between a job's last word and its scheduler's knowing of it makes it run
    again. What it could be worth is less than the restart costs. A job that goes on for longer
    than that behind what was said of it is one like any other.
    """
    left_s = state.job.iterations - state.executed_s
    if stated.left is not None:
        left_s = stated.left * (stated.iteration_s or 1.0)
    return "ends within what a restart costs" if abs(left_s) < state.restart_s else ""


def _with_history(
    state: JobState, known: Known | None, stated: Stated, settings: Settings
) -> JobState:
    """With runs before this one: schedulers count from the last requeue."""
    total_s = state.job.iterations
    if stated.seconds is not None:
        total_s = max(1, round(stated.seconds))
    executed_s, starts = state.executed_s, state.starts
    # The margin makes a stop pay only where it were worth so many times what it costs.
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
        done = total_s - min(total_s, stated.left * (stated.iteration_s or 1.0))
    # A job that overruns what was said of it has a second to go, each second.
    more["iterations_done"] = max(0.0, min(done, total_s - 1.0))
    return replace(
        state,
        job=replace(state.job, weight=stated.weight, iterations=total_s),
        executed_s=executed_s,
        starts=starts,
        restart_s=restart_s,
        **more,
    )


def _modelled(
    state: JobState, stated: Stated, speeds: SpeedModel, cluster: Cluster
) -> JobState | None:
    """A job that names its model, with iterations and plan instead of seconds.

    None where speeds know no such job, or not as it runs now: it stays rigid.
    """
    if stated.model is None or stated.iterations is None or stated.model not in speeds.models():
        return None
    plan, total = stated.plan or state.job.requested_plan, stated.iterations
    held = state.running
    if held is not None:
        kind = cluster.nodes[held.placement.nodes[0]].type
        span = cluster.span(held.placement.nodes)
        if speeds.iteration_s(stated.model, kind, held.placement.shape, plan, span) is None:
            return None
    left = total if stated.left is None else min(stated.left, total)
    try:
        job = replace(state.job, model=stated.model, iterations=total, requested_plan=plan)
    except InputError:  # the plan is of another number of GPUs
        return None
    running = None if held is None else replace(held, plan=plan)
    done = min(float(total - left), total - 1e-6)
    return replace(state, job=job, running=running, iterations_done=done)


def _gangs(state: JobState, stated: Stated, settings: Settings) -> GangLimit:
    """GPUs that a job may have: as it asks, unless it says more and the power is there."""
    free = stated.malleable and "shape" in settings.powers
    least, most = stated.gpus if free and stated.gpus else (state.job.requested_gpus,) * 2
    return GangLimit((state.job.name,), least, most)


def _described(cluster: Cluster, settings: Settings) -> Cluster:
    kinds = {kind.name: settings.described(kind) for kind in cluster.node_types}
    nodes = (replace(node, type=kinds[node.type.name]) for node in cluster.nodes)
    return Cluster(cluster.name, tuple(nodes), cluster.leaves)


def _speeds(settings: Settings, cluster: Cluster) -> SpeedModel | None:
    if not settings.speeds:
        return None
    if settings.speeds == "model":
        from morph_opt.perf.analytic.zoo import builtin_model

        return builtin_model()
    return read_speeds(settings.folder / settings.speeds, cluster)


def _table(
    rigid: SpeedModel, speeds: SpeedModel | None, cluster: Cluster, models: Sequence[str]
) -> SpeedTable:
    assert isinstance(rigid, SpeedTable)
    if speeds is None or not models:
        return rigid
    return SpeedTable((*rigid.rows, *table_of(speeds, cluster, models).rows))


def _measured(
    table: SpeedTable,
    jobs: Sequence[JobState],
    stated: Mapping[str, Stated],
    memory: Memory,
    cluster: Cluster,
) -> SpeedTable:
    """The table corrected by what jobs report of where they run, now and before."""
    belief = TriedModel(table)
    for job in jobs:
        seconds, held = stated[job.job.name].iteration_s, job.running
        if seconds is not None and held is not None:
            kind = cluster.nodes[held.placement.nodes[0]].type.name
            span = cluster.span(held.placement.nodes).name
            row = Measured(
                job.job.model, kind, held.placement.shape.label, held.plan.label, span, seconds
            )
            memory.measured = [one for one in memory.measured if one.of != row.of] + [row]
    kinds = {kind.name: kind for kind in cluster.node_types}
    known = set(belief.models())
    for one in memory.measured:
        if one.model in known and one.node_type in kinds:
            where = Shape.parse(one.shape), ExecutionPlan.parse(one.plan), Span[one.span]
            belief.observe(one.model, kinds[one.node_type], *where, one.iteration_s)
    return table_of(belief, cluster, table.models())
