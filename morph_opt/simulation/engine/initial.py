"""Jobs and first events of a replay that starts from a state."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import Assignment, JobState, RoundState, Trace
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunFacts, RunLookup
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts
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
        What each running job holds, and how the truth has it run.
    arrived
        Jobs of the trace that are submitted by then, from the first on.
    events
        Of the log: nodes that are not open, then every job.
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
        What there is, of which jobs.
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
