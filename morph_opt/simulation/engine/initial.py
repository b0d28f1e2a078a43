"""Replays that start from a state: checks of the state, and the jobs and events of the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from morph_opt.core.domain import Assignment, Cluster, InputError, Job, JobState, RoundState, Trace
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunFacts, RunLookup
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.live import LiveJob
from morph_opt.simulation.events.log import (
    Event,
    InitialJob,
    NodeChanged,
    NodeStatus,
    Shared,
    Started,
    StartKind,
    Submitted,
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Jobs, assignments and events at the beginning.

    Parameters
    ----------
    active
        Jobs of the state, in its order.
    held
        Assignment of each running job, and its speed under the truth.
    arrived
        Jobs of the trace that are submitted by then, from the first on.
    events
        Events of the log: nodes that are not open, then every job.
    """

    active: dict[str, LiveJob]
    held: dict[str, tuple[Assignment, RunFacts]]
    arrived: int
    events: list[Event]


def begin_from(
    state: RoundState, trace: Trace, lookup: RunLookup, check: PlacementCheck
) -> Beginning:
    """Return the engine's jobs, assignments and events for a state.

    Parameters
    ----------
    state, trace
        State to begin with, and the trace of its jobs.
    lookup, check
        The truth, and the check that every decision has to pass; it passes what is held.

    Raises
    ------
    AllocationError
        If what the jobs hold breaks a rule of the engine, or the truth cannot run it.
    """
    now_s, cluster, before = state.time_s, lookup.cluster, StateFacts.of(state)
    running = before.held
    broken = check.check(running.values(), before)
    if broken:
        raise AllocationError(state.index, now_s, broken)
    found = ((name, lookup.facts(before.active[name].model, a)) for name, a in running.items())
    facts = {name: known for name, known in found if known is not None}
    order = {job.name: place for place, job in enumerate(trace.jobs)}
    models = {known.job.name: known.job.model for known in state.jobs}
    active: dict[str, LiveJob] = {}
    events: list[Event] = [
        NodeChanged(
            now_s,
            cluster.nodes[node].name,
            NodeStatus.FAILED if node in state.failed else NodeStatus.DRAINED,
        )
        for node in sorted(state.unavailable)
    ]
    for known in state.jobs:
        name = known.job.name
        held = running.get(name)
        seconds = 1.0 if held is None else facts[name].iteration_s
        if held is not None and held.partner is not None:
            pair = models[name], models[held.partner]
            paced = lookup.paired_iteration_s(pair, held, running[held.partner])
            assert paced is not None, "the strict check lets no other pair pass"
            seconds = paced
        active[name] = LiveJob.of_state(known, order[name], now_s, seconds)
        events += _events_of(known, now_s, facts.get(name), seconds)
    arrived = sum(job.submission_s <= now_s for job in trace.jobs)
    booked = {name: (held, facts[name]) for name, held in running.items()}
    return Beginning(active, booked, arrived, events)


def _events_of(
    known: JobState, now_s: float, facts: RunFacts | None, seconds: float
) -> list[Event]:
    """Return the first events of one job of the state."""
    name, held, done = known.job.name, known.running, known.iterations_done
    of_job: list[Event] = [
        Submitted(known.job.submission_s, name),
        InitialJob(now_s, name, done, known.executed_s, known.starts, known.first_start_s),
    ]
    if held is None or facts is None:
        return of_job
    left_s = known.restart_left_s
    of_job.append(
        Started(
            now_s, name, StartKind.HELD, held.plan, held.placement, facts.iteration_s, left_s, done
        )
    )
    if held.partner is not None:
        of_job.append(Shared(now_s, name, held.partner, seconds, done))
    return of_job


def require_initial(
    state: RoundState, trace: Trace, cluster: Cluster, config: ReplayConfig
) -> None:
    """Refuse a state that is not one of this trace on this cluster.

    Raises
    ------
    InputError
        If the cluster does not begin with the state's nodes, a job is of only one of the two or
        differs between them, or the horizon is not after the state.
    """
    names = [node.name for node in state.cluster.nodes]
    sizes = [node.type.gpus for node in state.cluster.nodes]
    here = cluster.nodes[: len(names)]
    if [node.name for node in here] != names or [node.type.gpus for node in here] != sizes:
        raise InputError(
            f"cluster {cluster.name!r} does not begin with the state's nodes", field="state"
        )
    known = {one.job.name: one.job for one in state.jobs}
    there = {job.name: job for job in trace.jobs if job.submission_s <= state.time_s}
    for name in (*known, *there):
        if name not in there or name not in known:
            where = "not submitted by then in the trace" if name in known else "not in the state"
            raise InputError(f"job {name} is {where}", field="state")
        if known[name] != there[name]:
            raise InputError(f"job {name} of the state differs from the trace's", field="state")
    if config.until_s is not None and config.until_s <= state.time_s:
        rule = f"must be after the state, which is of {state.time_s:g} s"
        raise InputError(f"{rule}, got {config.until_s:g}", field="until_s")


def on_cluster(state: RoundState, cluster: Cluster, jobs: Sequence[Job]) -> RoundState:
    """Return the state with these jobs only, on a cluster that begins with its nodes."""
    names = {job.name for job in jobs}
    kept = tuple(one for one in state.jobs if one.job.name in names)
    return replace(state, cluster=cluster, jobs=kept)


def with_prices(state: RoundState, config: ReplayConfig) -> RoundState:
    """Fill in the engine's start costs for jobs without their own.

    Each is at most the job's restart cost.
    """
    if config.resume_s is None and config.migrate_s is None:
        return state

    def priced(known: JobState) -> JobState:
        if known.resume_s is not None or known.migrate_s is not None:
            return known
        migrate_s, resume_s = (
            None if price is None else min(price, known.restart_s)
            for price in (config.migrate_s, config.resume_s)
        )
        return replace(known, migrate_s=migrate_s, resume_s=resume_s)

    return replace(state, jobs=tuple(map(priced, state.jobs)))
