"""Objects as ``kubectl get ... -o json`` prints them: Kueue's workloads and queues, nodes, pods.

Kueue admits by quota. Which node a pod is on is in pods, or in the topology assignment of a
workload; workloads of which neither is known are taken to be packed as tightly as they fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from glob import escape

from morph_opt.core.domain.errors import some
from morph_opt.inputs.kueue.kube import HOST, Taint, tolerates
from morph_opt.inputs.kueue.queues import USUAL, Queue, allowed_spaces
from morph_opt.round.live.build import Live, LiveJob, LiveNode, live_round, type_name
from morph_opt.round.live.kueue_jobs import Asked, Running
from morph_opt.round.live.kueue_objects import KueueObjects, read_objects
from morph_opt.round.live.kueue_options import Options
from morph_opt.round.live.kueue_places import absent, of_pods, placed
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.decision.rules.queues import NodePreference, Priority, StrictOrder


def read_kueue(files: Sequence[str]) -> Live:
    """Read the round of these documents, in any order; several may hold objects of one kind.

    An object that cannot be read is left out and named in the notes.

    Raises
    ------
    InputError
        If a file cannot be read, or there is no workload, node or cluster queue at all.
    """
    return _posed(read_objects(files))


def _posed(cluster: KueueObjects) -> Live:
    """Pose the round of the objects that were read."""
    notes = cluster.notes
    kinds = _one_size(cluster)
    with_gpus = [job for job in cluster.asked if job.pods or job.held]
    without = [job.name for job in cluster.asked if not (job.pods or job.held)]
    cluster.passed_over |= dict.fromkeys(without, "asks for no GPU")
    blocks, known = of_pods(cluster)
    running = placed(cluster, known)
    options = Options(cluster, running)
    waiting = [with_reason(cluster, job) for job in with_gpus if job.admission is None]
    waiting.sort(key=lambda job: (-job.priority, job.queued_s, job.name))
    waiting = in_order(cluster, [options.held(job) for job in waiting])
    free_jobs = [job for job in waiting if not job.held]
    may_have = options.assigned(free_jobs)
    every = frozenset(cluster.nodes)
    allowed: dict[frozenset[str], frozenset[str]] = {}
    lives = [*blocks, *(_live(one.job, one.queue, one.parts) for one in running)]
    for job in waiting:
        mine = may_have[job.name].nodes if job.name in may_have else every
        barred = allowed.setdefault(mine, every - mine)
        live = replace(_live(job, cluster.queue_of(job), ()), barred=barred)
        if job.name in may_have:
            why = options.barred_why(job)
            live = replace(live, barred_why=why) if mine else replace(live, held=why)
        lives.append(live)
    tolerated = _tolerated(cluster, free_jobs)
    nodes = []
    for node in cluster.nodes.values():
        pool, gpus = kinds[node.name]
        is_open = not node.closed and tolerated[node.taints]
        nodes.append(LiveNode(node.name, node.kind, gpus, is_open, pool=pool))
    lives += absent(cluster, {name: gpus for name, (_, gpus) in kinds.items()})
    notes += options.overdrawn()
    types = {node.name: type_name(node) for node in nodes}
    rules = [*options.rules(types), *_rules(cluster, free_jobs, options, types)]
    _note(cluster, running, blocks, with_gpus)
    made = partial(live_round, nodes, lives, cluster.now_s, notes, rules, "kueue", tighter=True)
    first = cluster.found["Workload"][0]
    return first.built(partial(made, passed_over=cluster.passed_over))


def _live(job: Asked, queue: str, parts: tuple[tuple[str, tuple[int, ...]], ...]) -> LiveJob:
    """Return a workload as a job of the round."""
    admitted = job.admission
    return LiveJob(
        job.name,
        queue or "no queue",
        max(1, job.gpus),
        job.submit_s,
        grain=job.grain,
        per_node=max(1, job.gpus) if HOST in job.required else 0,
        pods=job.pods,
        started_s=None if admitted is None else admitted.since_s,
        parts=parts,
        held=job.held,
        limit_s=job.limit_s,
    )


def _one_size(cluster: KueueObjects) -> dict[str, tuple[str, int]]:
    """Return pool and GPUs of each node; nodes of one type, flavors and resource share both.

    A gang of pods may be on nodes with all and with some of their GPUs; those that a node lacks
    are held by a block.
    """
    groups = [group for queue in cluster.queues.queues.values() for group in queue.groups]
    named = {name for group in groups for name in group.flavors}
    flavors = [one for one in cluster.queues.flavors.values() if one.name in named]
    most: dict[str, dict[tuple[str, ...], int]] = defaultdict(lambda: defaultdict(int))
    of: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes.values():
        mine = [one.name for one in flavors if one.labels.items() <= node.labels.items()]
        key = of[node.name] = (node.resource, *mine)
        most[node.kind][key] = max(most[node.kind][key], node.gpus)
    found: dict[str, tuple[str, int]] = {}
    for node in cluster.nodes.values():
        key = of[node.name]
        pool = " ".join(key[1:] or ("no flavor",)) if len(most[node.kind]) > 1 else ""
        found[node.name] = pool, most[node.kind][key]
    return found


def _tolerated(cluster: KueueObjects, jobs: Sequence[Asked]) -> dict[tuple[Taint, ...], bool]:
    """Return, for each set of node taints, whether some waiting workload tolerates it."""
    flavors = [one.tolerations for one in cluster.queues.flavors.values()]
    bears = [(*d.tolerations, *f) for job in jobs for d in job.demands for f in (flavors or [()])]
    found: dict[tuple[Taint, ...], bool] = {}
    for node in cluster.nodes.values():
        if node.taints not in found:
            taints = [one for one in node.taints if not one[0].endswith("/gpu")]
            found[node.taints] = not taints or any(
                all(tolerates(one, taint) for taint in taints) for one in set(bears)
            )
    return found


def _rules(
    cluster: KueueObjects, jobs: Sequence[Asked], options: Options, types: dict[str, str]
) -> list[Rule]:
    """Return rules of order: priorities, StrictFIFO queues, and the order of flavors."""
    found: list[Rule] = []
    by_level: dict[int, list[str]] = defaultdict(list)
    for job in jobs:
        by_level[job.priority].append(job.name)
    if len(by_level) > 1:
        lowest = min(by_level)
        found += [
            Priority(tuple(map(escape, names)), level - lowest)
            for level, names in sorted(by_level.items(), reverse=True)
            if level > lowest
        ]
    strict: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        name = cluster.queue_of(job)
        if cluster.queues.queues[name].strict:
            strict[name].append(job.name)
    found += [StrictOrder(tuple(names)) for names in strict.values() if len(names) > 1]
    preferred: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for job in jobs:
        order = options.order(job, types)
        if len(order) > 1:
            preferred[order].append(job.name)
    for order, names in preferred.items():
        found.append(NodePreference(tuple(map(escape, names)), order))
    return found


def _note(
    cluster: KueueObjects,
    running: Sequence[Running],
    blocks: Sequence[LiveJob],
    jobs: Sequence[Asked],
) -> None:
    """Add notes on what was assumed, left out or not read."""
    notes = cluster.notes
    notes.append(
        f"{len(cluster.found['Workload'])} workloads, {len(jobs)} with GPUs that run or wait"
    )
    closed = [f"{node.name} ({node.closed})" for node in cluster.nodes.values() if node.closed]
    if closed:
        notes.append(f"nothing is started on {some(closed)}")
    if blocks:
        words = some([f"{job.gpus} on {job.parts[0][0]}" for job in blocks])
        notes.append(f"GPUs in use by pods of no admitted workload are left alone: {words}")
    if not cluster.found["Pod"]:
        notes.append(
            "pods outside Kueue are not seen, their GPUs count as free: "
            "give kubectl get pods -A -o json"
        )
    if not cluster.queues.flavors:
        notes.append(
            "nodes of flavors are not known, every flavor may be on every node: "
            "give kubectl get resourceflavors -o json"
        )
    named = {queue.cohort for queue in cluster.queues.queues.values() if queue.cohort}
    if named and not cluster.found["Cohort"]:
        notes.append(
            "cohorts are taken to have no quota of their own and none above them: "
            "give kubectl get cohorts -o json where there are any"
        )
    checks = [one.job.name for one in running if one.job.admission and one.job.admission.waits]
    if checks:
        notes.append(
            f"GPUs are kept free for workloads that wait for admission checks: {some(checks)}"
        )
    of_jobs: dict[str, list[str]] = defaultdict(list)
    for job in cluster.asked:
        for word in job.notes:
            of_jobs[word].append(job.name)
    notes += [f"{some(names)}: {word}" for word, names in of_jobs.items()]
    notes.append("CPUs and memory of nodes are not looked at, only quotas of them")


_SPACES = "kubectl get namespaces -o json"


def with_reason(cluster: KueueObjects, job: Asked) -> Asked:
    """Return a waiting workload, held back with a reason if Kueue would never start it."""
    if job.held:
        return job
    name = cluster.queue_of(job)
    if not name:
        return replace(job, held=_without_queue(cluster, job), passed=True)
    local = cluster.queues.local.get(job.local)
    away = (local.away if local is not None else "") or cluster.queues.away(name)
    if away:
        return replace(job, held=away, passed=True)
    queue = cluster.queues.queues[name]
    if reason := _barred_space(cluster, queue, job.name.partition("/")[0]):
        return replace(job, held=reason, passed=True)
    missing = [one for one in job.amounts if queue.group_of(one) is None]
    if strange := [one for one in missing if one not in USUAL]:
        return replace(job, held=f"its cluster queue {name} covers no {', '.join(strange)}")
    if usual := ", ".join(one for one in missing if one != "pods"):
        note = f"cluster queue {name} covers no {usual}, which its workloads ask for: "
        _noted(cluster, note + "unless Kueue is told to leave them out, they wait")
    return job


def _without_queue(cluster: KueueObjects, job: Asked) -> str:
    """Return why a workload has no cluster queue."""
    label = job.local.partition("/")[2]
    if not label:
        return "it names no local queue"
    local = cluster.queues.local.get(job.local)
    if local is not None:
        return f"its local queue {label} is of {local.queue}, which is in no file"
    return f"its local queue {label} is in no file: kubectl get localqueues -A -o json"


def _barred_space(cluster: KueueObjects, queue: Queue, space: str) -> str:
    """Return why workloads of a namespace may not use a queue; "" if they may or if unknown."""
    allowed = allowed_spaces(queue, cluster.spaces, space)
    if allowed == "unknown":
        note = f"namespaces that cluster queue {queue.name} selects: not known, give {_SPACES}"
        _noted(cluster, note)
    if allowed != "no":
        return ""
    return f"namespace {space} is not one that its cluster queue {queue.name} selects"


def _noted(cluster: KueueObjects, note: str) -> None:
    if note not in cluster.notes:
        cluster.notes.append(note)


def in_order(cluster: KueueObjects, waiting: Sequence[Asked]) -> list[Asked]:
    """Return the workloads, held back if an earlier one blocks their StrictFIFO queue.

    Parameters
    ----------
    waiting
        By priority and time.
    """
    blocked: dict[str, str] = {}
    found: list[Asked] = []
    for job in waiting:
        name, reason = cluster.queue_of(job), job.held
        if name and cluster.queues.queues[name].strict:
            if job.held and not job.passed:
                blocked.setdefault(name, job.name)
            elif not job.held and name in blocked:
                reason = f"waits for {blocked[name]}, which is before it in its StrictFIFO queue"
        found.append(replace(job, held=reason))
    return found
