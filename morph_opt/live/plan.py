"""Intents of a turn: the difference between decision and cluster state, a pure function of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from morph_opt.core.domain import Assignment, Cluster, RoundState
from morph_opt.live.memory import Memory
from morph_opt.live.picture import OURS, RANKED, Picture, Seen
from morph_opt.live.posed import Posed
from morph_opt.live.scheduler import Intent, Park, Prioritise, Release, Shape, Start, Stop
from morph_opt.live.settings import Settings
from morph_opt.round.decide import RoundDecision

MOST_PRIORITY = 2**32 - 10


@dataclass(frozen=True, slots=True)
class Planned:
    """Intent with the reason why it is not carried out, if there is one.

    Parameters
    ----------
    intent
        Decided change of the cluster.
    outcome
        ``""`` for one that is to be carried out; else ``postponed`` or ``limited``.
    why
        Reason of the outcome.
    """

    intent: Intent
    outcome: str = ""
    why: str = ""


def difference(
    picture: Picture, posed: Posed, decision: RoundDecision, memory: Memory, settings: Settings
) -> list[Planned]:
    """Return the intents of a turn in the order of execution: stops, then waits, then starts.

    GPUs that a stop frees are not used in the same turn: their starts come in a later turn, when
    the scheduler lists the GPUs as free.
    """
    granted = decision.decision.allocation.by_job()
    stops, starts, waits = [], [], []
    for known in posed.snapshot.state.jobs:
        name, running = known.job.name, known.running
        seen, held = picture.jobs.get(name), granted.get(name)
        if seen is None:
            continue
        if seen.runs and name not in posed.left_alone:
            if held is None or (running is not None and _moved(held, running)):
                stops.append(Stop(name))
        elif seen.waits and held is not None:
            starts.append((seen, held, known.job.requested_gpus))
        elif seen.waits:
            waits.append(seen)
    if "placement" not in settings.powers:
        return list(_ranked([seen for seen, *_ in starts], waits, settings))
    cluster = posed.snapshot.state.cluster
    return [
        *_returned(picture, settings),
        *_limited(stops, memory, settings),
        *_parked(waits, picture.time_s, settings),
        *_started(starts, cluster, picture, posed, settings),
    ]


def losses_of(
    planned: Iterable[Planned], state: RoundState, settings: Settings
) -> dict[str, dict[str, float]]:
    """Return the GPU-seconds that stops of running jobs cost, by job; of those to be carried out.

    ``restart_gpu_s`` is the start-up that follows. ``progress_gpu_s`` is the progress since the
    last checkpoint; where no checkpoint is known, all since the start, which is the most.
    """
    known = {one.job.name: one for one in state.jobs if one.running is not None}
    found: dict[str, dict[str, float]] = {}
    for one in planned:
        stops = isinstance(one.intent, Stop) and one.intent.power == "stops"
        if not stops or one.outcome or one.intent.job not in known:
            continue
        job = known[one.intent.job]
        gpus = 0 if job.running is None else job.running.placement.gpus
        found[one.intent.job] = {
            "restart_gpu_s": gpus * job.restart_s / settings.margin,
            "progress_gpu_s": gpus * job.lost_s(state.time_s, math.inf),
        }
    return found


def _moved(held: Assignment, running: Assignment) -> bool:
    """Return whether a running job gets other numbers of GPUs by node, or another plan."""
    counts = [{node: len(gpus) for node, gpus in one.placement.parts} for one in (held, running)]
    return counts[0] != counts[1] or held.plan != running.plan


def _limited(stops: list[Stop], memory: Memory, settings: Settings) -> Iterator[Planned]:
    left = min(settings.stops_per_turn, settings.stops_per_hour - len(memory.stops_s))
    for i, stop in enumerate(stops):
        yield Planned(stop) if i < left else Planned(stop, "limited", "stops a turn or an hour")


def _returned(picture: Picture, settings: Settings) -> Iterator[Planned]:
    """Yield intents that complete earlier stops and undo starts without effect."""
    for seen in picture.jobs.values():
        if not (seen.back or seen.stuck) or seen.not_ours(settings, picture.time_s):
            continue
        until_s = round(picture.time_s)
        yield Planned(Park(seen.name, until_s) if seen.back else Stop(seen.name, "placement"))


def _parked(waits: list[Seen], time_s: float, settings: Settings) -> Iterator[Planned]:
    """Yield intents to park jobs that are not parked, or whose begin time is near."""
    for seen in waits:
        if seen.gated:
            continue
        until_s = seen.parked_until_s
        renew = until_s is None or seen.begin_s < time_s + settings.park_s / 2.0
        if renew or seen.pinned:
            yield Planned(Park(seen.name, round(time_s + settings.park_s)))


def _started(
    starts: list[tuple[Seen, Assignment, int]],
    cluster: Cluster,
    picture: Picture,
    posed: Posed,
    settings: Settings,
) -> Iterator[Planned]:
    """Yield the starts of a turn, with the reason of those that are not carried out.

    Effects on Slurm by branch: a start with ``park_s`` first sets a begin time, in a command of its
    own, so that Slurm does not start the job elsewhere before the next command names its nodes. A
    job that is parked for long enough (or gated, in Kubernetes) needs no such command first.
    A job whose GPUs are not free is left for a later turn. A job that names the same nodes already,
    and whose begin time has passed, was started by an earlier turn and needs no command.
    """
    free = free_gpus(picture)
    count = 0
    for seen, held, asked_gpus in starts:
        parts = [(cluster.nodes[node].name, len(gpus)) for node, gpus in held.placement.parts]
        free_to = "shape" in settings.powers and posed.stated[seen.name].malleable
        reshape = _reshape([many for _, many in parts], seen, asked_gpus) if free_to else None
        nodes, gpus = tuple(name for name, _ in parts), tuple(g for _, g in held.placement.parts)
        # The scheduler starts no job meanwhile that is parked for long enough, or gated.
        parked = seen.parked_until_s is not None
        kept = parked and seen.begin_s > picture.time_s + settings.park_s / 4.0
        park_s = 0 if kept or seen.gated else round(picture.time_s + settings.park_s)
        intent = Start(seen.name, nodes, gpus, reshape, park_s)
        short = [name for name, many in parts if free.get(name, 0) < many]
        if short:
            yield Planned(intent, "postponed", f"waits for GPUs of {short[0]}")
            continue
        for name, many in parts:
            free[name] -= many
        if set(nodes) == set(seen.pinned) and not reshape and seen.begin_s <= picture.time_s:
            continue  # requested by an earlier turn; it has not started yet
        count += 1
        if count > settings.starts_per_turn:
            yield Planned(intent, "limited", "starts a turn")
        else:
            yield Planned(intent)


def free_gpus(picture: Picture) -> dict[str, int]:
    """Return the free GPUs of each open node, according to the scheduler."""
    state = picture.live.snapshot.state
    free = {
        node.name: 0 if i in state.unavailable else node.type.gpus
        for i, node in enumerate(state.cluster.nodes)
    }
    for known in state.jobs:
        for node, gpus in () if known.running is None else known.running.placement.parts:
            free[state.cluster.nodes[node].name] -= len(gpus)
    return free


def _reshape(counts: list[int], seen: Seen, asked_gpus: int) -> Shape | None:
    """Return the new request of a job with these GPUs by node; None if it requests that already.

    Uneven counts cannot be requested.
    """
    total, nodes = sum(counts), len(counts)
    if len(set(counts)) > 1 or (total == asked_gpus and nodes == seen.asked_nodes):
        return None
    return Shape(total, nodes, seen.by_node)


def _ranked(starts: list[Seen], waits: list[Seen], settings: Settings) -> Iterator[Planned]:
    """Yield the decided order as a permutation of the present priorities of these jobs.

    Ties are raised by one each, so that jobs of others keep their place but for such ties.
    """
    if "order" not in settings.powers:
        return
    jobs = [*starts, *waits]
    wanted: list[int] = []
    for value in sorted(round(seen.priority) for seen in jobs):
        wanted.append(max(1, value, wanted[-1] + 1 if wanted else 1))
    for seen, priority in zip(jobs, reversed(wanted), strict=True):
        if round(seen.priority) != min(priority, MOST_PRIORITY):
            yield Planned(Prioritise(seen.name, min(priority, MOST_PRIORITY)))


def releases(picture: Picture) -> list[Planned]:
    """Return the intents that give marked jobs back to the scheduler; users' holds stay."""
    jobs: Mapping[str, Seen] = picture.jobs
    return [
        Planned(Release(seen.name, seen.waits, seen.mark.startswith(RANKED) and not seen.held))
        for seen in jobs.values()
        if seen.mark.startswith(OURS)
        and not (seen.over or seen.rest)
        and (not seen.special or seen.gated)
    ]
