"""Snapshots of rigid jobs, from the nodes and jobs of any scheduler.

A scheduler knows the request of a job, not its speed: a job runs on exactly the requested GPUs or
waits, and one second of its time limit is one iteration. Running jobs stay; the round is about
which start.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from glob import escape
from math import gcd

from morph_opt.core.domain import (
    Assignment,
    Cluster,
    GpuType,
    InputError,
    Job,
    JobState,
    Node,
    NodeType,
    Placement,
    RoundState,
    Shape,
)
from morph_opt.core.domain.shape import partitions
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN
from morph_opt.round.snapshot import Snapshot
from morph_opt.round.speeds import SpeedRow, SpeedTable
from morph_opt.scheduling.decision.rules.model import NodeRule, NonPreemptible, OperatorRules, Rule
from morph_opt.scheduling.kueue.pods import fills

Shapes = Callable[[int], tuple[Shape, ...]]
"""Shapes of a model by GPUs per node."""

_Where = tuple[tuple[str, ...], str, frozenset[str]]
"""Partitions, GPU type and barred nodes of a waiting job."""

INTERVAL_S = 60.0
NO_LIMIT_S = 86_400
"""Time limit assumed for a job without one, for objectives that use the time left."""

_UNKNOWN = 1.0
"""GiB and GB/s of resources that schedulers do not state and rigid jobs do not need."""


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node with GPUs.

    Parameters
    ----------
    name, gpu_type, gpus
        Name, GPU type ("" if not stated) and number of GPUs.
    open
        Whether something may be started there.
    groups
        Partitions that it belongs to.
    pool
        Word that keeps apart nodes of one GPU type of which no gang has some of each.
    """

    name: str
    gpu_type: str
    gpus: int
    open: bool
    groups: frozenset[str] = frozenset()
    pool: str = ""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job that runs or waits.

    Parameters
    ----------
    name, tenant
        Unique id; account, cluster queue, or user.
    gpus
        GPUs asked for, at least 1.
    submit_s
        Submission on the clock of the round.
    gpu_type
        Type that it insists on; "" for any.
    per_node
        GPUs on every node if it insists; 0 for the fewest nodes.
    grain
        GPUs that are always together on a node (a pod); a divisor of ``gpus``.
    nodes
        Fewest nodes that it runs on, at most as many as it has grains.
    pods
        GPUs of each of its pods, which may be on any number of nodes; () for the fewest nodes.
    groups
        Partitions of which one will do; () for any node.
    barred
        Nodes on which it may not run.
    whole
        Whether it takes whole nodes, as many as its GPUs need (``gpus`` then is the request).
    limit_s
        Seconds that it may run; None without a limit.
    started_s
        Start of a job that runs; None for one that waits.
    parts
        GPU indices by node of a job that runs.
    held
        Why its scheduler would not start it however many GPUs are free; "" if nothing is known.
    barred_why
        Why it may not run on some nodes, for the message about a job that is too large.
    weight
        Weight of starting it.
    partition, qos, user, priority
        Its queue and rank, as its scheduler states them.
    """

    name: str
    tenant: str
    gpus: int
    submit_s: float
    gpu_type: str = ""
    per_node: int = 0
    grain: int = 1
    nodes: int = 1
    pods: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    barred: frozenset[str] = frozenset()
    whole: bool = False
    limit_s: float | None = None
    started_s: float | None = None
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    held: str = ""
    barred_why: str = ""
    weight: float = 1.0
    partition: str = ""
    qos: str = ""
    user: str = ""
    priority: float = 0.0

    @classmethod
    def block(cls, word: str, node: str, gpus: tuple[int, ...], time_s: float) -> LiveJob:
        """Return a running placeholder for GPUs of a node that no job of the round holds."""
        name, parts = f"{word} on {node}", ((node, gpus),)
        return cls(name, word, len(gpus), time_s, started_s=time_s, parts=parts)


@dataclass(frozen=True, slots=True)
class Live:
    """Round of a running scheduler.

    Parameters
    ----------
    snapshot
        Jobs that run and jobs that may start.
    held
        Jobs that are kept back for another reason than room, with it.
    notes
        Lines on what was left out or assumed.
    passed_over
        Jobs of the documents that are not part of the round, with the reason.
    """

    snapshot: Snapshot
    held: Mapping[str, str]
    notes: tuple[str, ...]
    passed_over: Mapping[str, str] = field(default_factory=dict)


def live_round(
    nodes: Sequence[LiveNode],
    jobs: Sequence[LiveJob],
    time_s: float,
    notes: Iterable[str] = (),
    rules: Iterable[Rule] = (),
    name: str = "live",
    *,
    tighter: bool = False,
    passed_over: Mapping[str, str] | None = None,
) -> Live:
    """Build the round of nodes and jobs.

    Parameters
    ----------
    notes, passed_over
        See `Live`.
    rules
        Rules of the cluster, in addition to the nodes that jobs may use.
    name
        Name of the cluster.
    tighter
        Whether jobs go to few nodes where nothing else decides.

    Raises
    ------
    InputError
        If names occur twice, a GPU is held twice, or there is no node with GPUs.
    """
    if not nodes:
        raise InputError("no node has GPUs", field="nodes")
    cluster = cluster_of(nodes, name)
    states: list[JobState] = []
    waiting: dict[_Where, list[str]] = defaultdict(list)
    models: dict[str, Shapes] = {}
    free = {node.name: set(range(node.gpus)) for node in nodes}
    held: dict[str, str] = {}
    room = cache(partial(_most_gpus, nodes))
    # Those that run come first: what they hold is not free for others.
    order = sorted(jobs, key=lambda one: (one.started_s is None, one.submit_s, one.name))
    for asked in order:
        job = _of_whole_nodes(asked, nodes) if asked.whole else asked
        if job.started_s is None:
            reason = job.held or _too_large(job, room(_where(job), job.per_node, job.grain))
            if reason:
                held[job.name] = reason
                continue
            waiting[_where(job)].append(job.name)
        states.append(_state(job, time_s, cluster, free, models, nodes))
    states.sort(key=lambda one: (one.job.submission_s, one.job.name))
    stays = [NonPreemptible(("*",))] if states else []
    where = [_node_rule(nodes, key, names) for key, names in waiting.items()]
    own: list[Rule] = [*stays, *(rule for rule in where if rule is not None), *rules]
    closed = frozenset(i for i, node in enumerate(nodes) if not node.open)
    state = RoundState(0, time_s, INTERVAL_S, cluster, tuple(states), closed)
    snapshot = Snapshot(
        state, _speeds(models, cluster), OperatorRules(tuple(own), tighter_packing=tighter)
    )
    return Live(snapshot, held, tuple(notes), passed_over or {})


def _where(job: LiveJob) -> _Where:
    """Return the properties of a job that limit its nodes."""
    return job.groups, job.gpu_type, job.barred


def _fitting(nodes: Sequence[LiveNode], where: _Where) -> list[LiveNode]:
    """Return the nodes that a job may use."""
    groups, gpu_type, barred = where
    return [
        node
        for node in nodes
        if (not groups or node.groups & set(groups))
        and (not gpu_type or node.gpu_type.lower() == gpu_type.lower())
        and node.name not in barred
    ]


def _of_whole_nodes(job: LiveJob, nodes: Sequence[LiveNode]) -> LiveJob:
    """Return a job with all GPUs of its nodes, held back if its nodes differ in GPUs."""
    sizes = {node.gpus for node in _fitting(nodes, _where(job))}
    if len(sizes) > 1:
        return replace(job, held=job.held or "asks for whole nodes, which differ: not decided")
    each = min(sizes, default=0)
    if job.held or each < max(1, job.per_node):
        return job
    count = max(job.nodes, -(-job.gpus // (job.per_node or each)))
    return replace(job, gpus=count * each, per_node=each)


def _most_gpus(nodes: Sequence[LiveNode], where: _Where, per_node: int, grain: int) -> int:
    """Return the largest number of GPUs of one type that a job could have on empty nodes."""
    room: dict[str, int] = defaultdict(int)
    for node in _fitting(nodes, where):
        each = per_node or grain
        # A job that insists on so many GPUs of every node has no more of any.
        fits = node.gpus // each
        room[node.gpu_type] += each * (min(fits, 1) if per_node else fits)
    return max(room.values(), default=0)


def _too_large(job: LiveJob, most: int) -> str:
    """Return why a job is too large for empty nodes; "" if it is not."""
    if most >= job.gpus:
        return ""
    why = f"; {job.barred_why}" if job.barred_why else ""
    if job.pods and most < job.pods[0]:
        return f"asks for pods of {job.pods[0]} GPUs, and no node that it may have has so many{why}"
    where = " in its partition" if job.groups else ""
    where = " that it may have" if job.barred else where
    where = " that are empty" if job.whole else where
    kind = f" of type {job.gpu_type}" if job.gpu_type else ""
    split = f", {job.per_node} on each node," if job.per_node else ""
    return (
        f"asks for {job.gpus} GPUs{kind}{split} and the nodes{where} have {most} of one type{why}"
    )


def cluster_of(nodes: Sequence[LiveNode], name: str) -> Cluster:
    """Return the cluster of nodes; amounts that schedulers do not state are 1."""
    kinds: dict[str, NodeType] = {}
    for node in nodes:
        gpu = GpuType(node.gpu_type or "gpu", _UNKNOWN)
        word = type_name(node)
        kinds[word] = NodeType(word, gpu, node.gpus, 0, 0.0, _UNKNOWN, _UNKNOWN)
    return Cluster(name, tuple(Node(node.name, kinds[type_name(node)]) for node in nodes))


def type_name(node: LiveNode) -> str:
    """Return the name of the type of a node."""
    kind = f"{node.gpu_type or 'gpu'}-x{node.gpus}"
    return f"{kind} ({node.pool})" if node.pool else kind


def _state(
    job: LiveJob,
    time_s: float,
    cluster: Cluster,
    free: dict[str, set[int]],
    models: dict[str, Shapes],
    nodes: Sequence[LiveNode],
) -> JobState:
    """Return the state of a job; its model is noted and its GPUs are taken from the free ones."""
    limit_s = max(1, round(job.limit_s or NO_LIMIT_S))
    running, started_s = None, job.started_s
    if started_s is not None:
        running = _running(job, cluster, free)
        shape = running.placement.shape
        models.setdefault(shape.label, lambda _: (shape,))
        model = shape.label
    elif job.per_node:
        shape = Shape.of(*[job.per_node] * (job.gpus // job.per_node))
        models.setdefault(shape.label, lambda _: (shape,))
        model = shape.label
    elif job.pods:
        model = f"pods of {' '.join(f'{n}x{gpus}' for gpus, n in Counter(job.pods).items())}"
        # With what is free now, so that one that could start alone may, however it is spread.
        now = spread_now(job.pods, _free_by_type(job, free, nodes))
        model += "".join(f" or {shape.label}" for shape in now)
        models.setdefault(model, partial(shapes_of_pods, job.pods, now))
    else:
        model = f"{job.gpus} in {job.grain}s on {job.nodes}"
        models.setdefault(model, partial(_tightest, job.gpus, job.grain, job.nodes))
    ran_s = 0.0 if started_s is None else max(0.0, time_s - started_s)
    return JobState(
        Job(
            job.name,
            model,
            job.submit_s,
            limit_s,
            job.gpus,
            RIGID_PLAN,
            weight=job.weight,
            tenant=job.tenant,
            time_limit_s=job.limit_s or None,
            partition=job.partition,
            qos=job.qos,
            user=job.user,
            priority=job.priority,
        ),
        iterations_done=min(ran_s, limit_s - 1.0),
        running=running,
        executed_s=ran_s,
        queued_s=max(0.0, time_s - ran_s - job.submit_s),
        attained_gpu_s=ran_s * job.gpus,
        starts=int(running is not None),
        first_start_s=started_s,
        last_start_s=started_s,
    )


def _running(job: LiveJob, cluster: Cluster, free: dict[str, set[int]]) -> Assignment:
    """Return the assignment of a running job.

    Raises
    ------
    InputError
        If that is not there, or another's.
    """
    parts = {}
    for name, gpus in job.parts:
        if name not in free:
            rule = f"job {job.name} runs on {name!r}, which is no node with GPUs"
            raise InputError(rule, field="jobs")
        if twice := set(gpus) - free[name]:
            gpu = f"GPU {min(twice)} of {name!r}"
            rule = f"job {job.name} holds {gpu}, which is another's or absent"
            raise InputError(rule, field="jobs")
        free[name] -= set(gpus)
        parts[cluster.node_index[name]] = tuple(sorted(gpus))
    return Assignment(job.name, RIGID_PLAN, Placement.of(parts))


def _speeds(models: Mapping[str, Shapes], cluster: Cluster) -> SpeedTable:
    """Return speeds of one second per iteration in every shape."""
    return SpeedTable(
        SpeedRow(model, kind.name, Configuration(shape, RIGID_PLAN, 1.0))
        for model, shapes in models.items()
        for kind in cluster.node_types
        for shape in shapes(kind.gpus)
        if shape.parts[0] <= kind.gpus
    )


def _tightest(gpus: int, grain: int, nodes: int, per_node: int) -> tuple[Shape, ...]:
    """Return the shapes on the fewest nodes whose parts are multiples of the grain."""
    grains, room = gpus // grain, per_node // grain
    if not room:
        return ()
    fewest = max(nodes, -(-grains // room))
    # Every shape of more nodes has parts no larger than this.
    largest = min(room, grains - fewest + 1)
    found = [one.parts for one in partitions(grains, largest) if one.nodes == fewest]
    found = found or [_even(grains, fewest)]  # if there are more shapes than are listed
    return tuple(Shape(tuple(grain * part for part in parts)) for parts in found)


def _free_by_type(
    job: LiveJob, free: Mapping[str, set[int]], nodes: Sequence[LiveNode]
) -> list[list[int]]:
    """Return free GPUs of the open nodes that a job may have, type by type."""
    by_type: dict[str, list[int]] = defaultdict(list)
    for node in _fitting(nodes, _where(job)):
        if node.open and free[node.name]:
            by_type[type_name(node)].append(len(free[node.name]))
    return list(by_type.values())


def _node_rule(nodes: Sequence[LiveNode], where: _Where, names: list[str]) -> NodeRule | None:
    """Return the rule of the nodes that jobs may use; None if they may use all."""
    fitting = _fitting(nodes, where)
    if len(fitting) == len(nodes):
        return None
    return NodeRule(
        tuple(map(escape, names)), only_nodes=tuple(escape(node.name) for node in fitting)
    )


_FEW_PODS, _FEW_SHAPES = 8, 32
"""Largest number of pods with all shapes offered, and shapes per kind for larger gangs."""


def shapes_of_pods(
    pods: tuple[int, ...], now: tuple[Shape, ...], per_node: int
) -> tuple[Shape, ...]:
    """Return shapes of a gang of pods on nodes with this number of GPUs.

    All where they are few; else those on the fewest nodes, an even one for each larger number of
    nodes, and those that the GPUs which are free now have.
    """
    total, grain = sum(pods), gcd(*pods)
    grains, room = total // grain, per_node // grain
    if pods[0] > per_node:
        return ()
    found: dict[tuple[int, ...], None] = {}
    if grains <= _FEW_PODS:
        found |= dict.fromkeys(one.parts for one in partitions(grains, min(room, grains)))
    else:
        fewest = -(-grains // room)
        largest = min(room, grains - fewest + 1)
        tight = (one.parts for one in partitions(grains, largest) if one.nodes == fewest)
        found |= dict.fromkeys(parts for parts, _ in zip(tight, range(_FEW_SHAPES), strict=False))
        more = range(fewest, min(grains, fewest + _FEW_SHAPES) + 1)
        found |= dict.fromkeys(_even(grains, nodes) for nodes in more)
    shapes = [tuple(grain * part for part in parts) for parts in found]
    shapes += [one.parts for one in now if one.parts[0] <= per_node]
    return tuple(Shape(parts) for parts in dict.fromkeys(shapes) if fills(parts, pods))


def _even(grains: int, nodes: int) -> tuple[int, ...]:
    """Return grains spread evenly over nodes, the larger parts first."""
    each, more = divmod(grains, nodes)
    return (each + 1,) * more + (each,) * (nodes - more)


def spread_now(pods: Sequence[int], free: Iterable[Sequence[int]]) -> tuple[Shape, ...]:
    """Return the shapes of a gang of pods on the GPUs that are free now.

    Parameters
    ----------
    pods
        GPUs of each, largest first.
    free
        Free GPUs by node, for each type of nodes.
    """
    found: dict[tuple[int, ...], None] = {}
    for rooms in free:
        for order in (sorted(rooms, reverse=True), sorted(rooms)):
            parts = [0] * len(order)
            for pod in pods:
                at = next((i for i, room in enumerate(order) if room - parts[i] >= pod), None)
                if at is None:
                    break
                parts[at] += pod
            else:
                found[tuple(sorted((part for part in parts if part), reverse=True))] = None
    return tuple(Shape(parts) for parts in found)
