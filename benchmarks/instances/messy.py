"""Small messy rounds by seed: few nodes that differ, odd GPU counts, and one thing that is scarce.

Such rounds are what machine rooms have: nodes bought in different years, leaf switches with thin
uplinks, jobs that fill most nodes. Counting nodes that are alike helps little there, and plain
models have weak relaxations. Everything is drawn from `numpy.random.default_rng` of seed and kind;
nothing is taken from a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    GpuType,
    Job,
    JobState,
    Leaf,
    Node,
    NodeType,
    Placement,
    RoundState,
    Shape,
    SideDemand,
    Span,
)
from morph_opt.core.domain.shape import partitions
from morph_opt.inputs.perf.speed import Configuration

DP, ZERO, OFFLOAD = (ExecutionPlan.parse(text) for text in ("dp", "zero-dp", "zero-offload"))

PLENTY = 1e6
"""Amount of a resource that no round uses up."""

SPAN_FACTOR = {Span.NODE: 1.0, Span.NVLINK: 1.04, Span.LEAF: 1.15, Span.POD: 1.4}
"""Seconds per iteration relative to one node."""

PRICES = (4.0, 2.2, 1.0)
"""Dollars per hour of a GPU of each type."""

INTERVAL_S = 60.0
RESTART_S, MIGRATE_S, RESUME_S = 45.0, 20.0, 6.0
NOW_S = 40_000.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Structure of a messy round.

    Parameters
    ----------
    gpus
        GPUs of the nodes of each node type.
    counts
        GPU counts on which jobs run.
    load
        GPUs that jobs request over the GPUs of the cluster.
    held
        Share of the GPUs that running jobs hold as the round begins.
    narrowest, widest
        Smallest and largest number of nodes of a job.
    choices
        Configurations of a model, at most.
    gpu_types
        Number of GPU types; NVLink domains have them in turn.
    leaf_nodes, uplink
        Nodes of a leaf switch, and bandwidth of its uplinks, GB/s.
    domain
        Nodes of an NVLink domain; 0 for none.
    threads, memory
        CPU threads and GiB of host memory of a node, per GPU.
    promised
        Share of jobs with a guarantee.
    even
        Whether jobs have equal work and equal speeds per GPU, so that values tie.
    paired
        Whether two jobs may share GPUs.
    kept
        Whether starts have prices by kind: a return to the same nodes is cheap, a move less so.
    """

    gpus: tuple[int, ...] = (8,)
    counts: tuple[int, ...] = (4, 5, 6, 7)
    load: float = 1.8
    held: float = 0.4
    narrowest: int = 2
    widest: int = 3
    choices: int = 7
    gpu_types: int = 1
    leaf_nodes: int = 1
    uplink: float = 17.0
    domain: int = 0
    threads: float = PLENTY
    memory: float = PLENTY
    promised: float = 0.0
    even: bool = False
    paired: bool = False
    kept: bool = False


KINDS = {
    "leaves": Kind(),
    "odd": Kind(gpus=(7, 9)),
    "packed": Kind(held=0.0, even=True),
    "busy": Kind(held=0.9, load=2.2),
    "scarce": Kind(threads=5.0, memory=40.0),
    "domains": Kind(leaf_nodes=2, uplink=24.0, domain=2),
    "pairs": Kind(narrowest=1, paired=True, choices=9),
    "promises": Kind(promised=0.15),
    "types": Kind(gpu_types=3),
    "starts": Kind(kept=True, held=0.7),
}
"""Kinds of messy rounds by name."""


@dataclass(frozen=True)
class DrawnSpeeds:
    """Speeds drawn per model and GPU type: a few GPU counts, shapes and plans of each.

    Parameters
    ----------
    kind, seed
        Structure, and seed of the draws.
    count
        Number of models: ``m0``, ``m1``, ...
    """

    kind: Kind
    seed: int
    count: int
    name: str = "drawn"
    _rows: dict[tuple[str, str], tuple[Configuration, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def measures_pairs(self) -> bool:
        """Whether two jobs may share GPUs."""
        return self.kind.paired

    def models(self) -> Sequence[str]:
        """Return the names of the models, sorted."""
        return sorted(f"m{at}" for at in range(self.count))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds per iteration, or None if that configuration was not drawn."""
        for row in self.configurations(model, node_type, shape.gpus, span):
            if row.shape == shape and row.plan == plan:
                return row.iteration_s
        return None

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Return the configurations that were drawn with at most these GPUs, slower over more."""
        key = model, node_type.name
        if key not in self._rows:
            self._rows[key] = tuple(self._drawn(model, node_type))
        return tuple(
            row if row.shape.nodes == 1 else _across(row, span)
            for row in self._rows[key]
            if row.shape.gpus <= max_gpus
        )

    def _drawn(self, model: str, node_type: NodeType) -> Iterator[Configuration]:
        kind, number = self.kind, int(model[1:])
        at = int(node_type.gpu_type.name[1:])
        draw = np.random.default_rng((self.seed, number, at, 7))
        base = 1.0 if kind.even else float(draw.uniform(0.5, 2.0))
        every = [
            shape
            for gpus in kind.counts
            for shape in partitions(gpus, node_type.gpus)
            if kind.narrowest <= shape.nodes <= kind.widest
        ]
        size = min(kind.choices, len(every))
        for which in sorted(draw.choice(len(every), size, replace=False).tolist()):
            shape = every[which]
            lean = 1.0 if kind.even else float(draw.uniform(0.92, 1.08))
            seconds = base * lean * (1.0 + 0.5 * at) / shape.gpus**0.85
            plan = (DP, ZERO, OFFLOAD)[int(draw.integers(3))]
            memory = float(draw.integers(8, 30)) if plan is not OFFLOAD else 70.0
            rdma = float(draw.integers(1, 4)) if shape.nodes > 1 else 0.0
            side = SideDemand(0, memory if kind.memory < PLENTY else 0.0, rdma)
            yield Configuration(shape, plan, seconds, side)

    def paired_iteration_s(
        self,
        models: tuple[str, str],
        plans: tuple[ExecutionPlan, ExecutionPlan],
        node_type: NodeType,
        shape: Shape,
    ) -> tuple[float, float] | None:
        """Return seconds of each job while both hold the same GPUs of one node."""
        alone = [
            self.iteration_s(model, node_type, shape, plan, Span.NODE)
            for model, plan in zip(models, plans, strict=True)
        ]
        if shape.nodes > 1 or alone[0] is None or alone[1] is None:
            return None
        one, two = (int(model[1:]) for model in models)
        slower = 1.3 + 0.7 * ((one * 5 + two * 5 + one * two) % 11) / 10
        return alone[0] * slower, alone[1] * slower


def _across(row: Configuration, span: Span) -> Configuration:
    return replace(row, iteration_s=row.iteration_s * SPAN_FACTOR[span])


def messy_round(kind: str, nodes: int, seed: int) -> tuple[RoundState, DrawnSpeeds]:
    """Return the round of a kind of `KINDS` on so many nodes, and its speeds."""
    structure = KINDS[kind]
    draw = np.random.default_rng((seed, nodes, sorted(KINDS).index(kind)))
    cluster = _cluster(structure, nodes, f"{kind}-{nodes}n")
    speeds = DrawnSpeeds(structure, seed, max(3, nodes // 2))
    jobs = _jobs(structure, cluster, draw, speeds)
    return RoundState(10, NOW_S, INTERVAL_S, cluster, _running(jobs, cluster, draw, speeds)), speeds


def _cluster(kind: Kind, nodes: int, name: str) -> Cluster:
    types: list[NodeType] = []
    for number in range(kind.gpu_types):
        gpu = GpuType(f"G{number}", 80.0, price_per_hour=PRICES[number])
        for gpus in kind.gpus:
            threads = int(PLENTY if kind.threads >= PLENTY else kind.threads * gpus)
            memory = PLENTY if kind.memory >= PLENTY else kind.memory * gpus
            types.append(NodeType(f"t{len(types)}", gpu, gpus, threads, memory, 300.0, 30.0))
    made = []
    for at in range(nodes):
        leaf = at // kind.leaf_nodes
        domain = f"l{leaf}-d{at // kind.domain}" if kind.domain else None
        block = at // (kind.domain or 1) % kind.gpu_types
        own = types[block * len(kind.gpus) + at % len(kind.gpus)]
        made.append(Node(f"n{at:03d}", own, f"l{leaf}", domain))
    leaves = dict.fromkeys(node.leaf for node in made)
    return Cluster(name, tuple(made), tuple(Leaf(leaf, kind.uplink) for leaf in leaves))


def _jobs(
    kind: Kind, cluster: Cluster, draw: np.random.Generator, speeds: DrawnSpeeds
) -> list[JobState]:
    """Return waiting jobs whose requests add up to the load."""
    found: list[JobState] = []
    asked = 0
    while asked < kind.load * cluster.gpus:
        gpus = int(draw.choice(kind.counts))
        model = f"m{int(draw.integers(speeds.count))}"
        work = 4000 if kind.even else int(draw.integers(500, 20_000))
        submitted = float(draw.integers(0, int(NOW_S)))
        requested = _requested(speeds, model, cluster, gpus)
        if requested is None:
            continue
        slack = float(draw.uniform(0.3, 3.0)) * work * requested.iteration_s
        job = Job(
            f"j{len(found):03d}",
            model,
            submitted,
            work,
            requested.shape.gpus,
            requested.plan,
            cpus_per_gpu=int(draw.integers(2, 9)) if kind.threads < PLENTY else 0,
            guaranteed=bool(draw.random() < kind.promised),
            tenant=f"t{int(draw.integers(3))}",
            deadline_s=NOW_S + slack if draw.random() < 0.6 else None,
        )
        asked += requested.shape.gpus
        resume_s, migrate_s = (RESUME_S, MIGRATE_S) if kind.kept else (None, None)
        served = 0.0 if kind.even else float(draw.choice((0.0, 2e3, 8e3, 3e4, 9e4)))
        found.append(
            JobState(
                job,
                restart_s=RESTART_S,
                attained_gpu_s=served,
                resume_s=resume_s,
                migrate_s=migrate_s,
            )
        )
    return found


def _requested(
    speeds: DrawnSpeeds, model: str, cluster: Cluster, gpus: int
) -> Configuration | None:
    """Return the model's configuration nearest to these GPUs on the first node type."""
    rows = speeds.configurations(model, cluster.node_types[0], cluster.gpus, Span.POD)
    return min(rows, key=lambda row: (abs(row.shape.gpus - gpus), row.iteration_s), default=None)


def _running(
    jobs: list[JobState], cluster: Cluster, draw: np.random.Generator, speeds: DrawnSpeeds
) -> tuple[JobState, ...]:
    """Let jobs in random order hold GPUs on random nodes until the share held is reached."""
    kind = speeds.kind
    free = [list(range(node.type.gpus)) for node in cluster.nodes]
    room = [
        np.array([n.type.cpus, n.type.host_memory_gib, n.type.rdma_gb_per_s], float)
        for n in cluster.nodes
    ]
    uplink = dict.fromkeys((node.leaf for node in cluster.nodes), kind.uplink)
    made, left = list(jobs), kind.held * cluster.gpus
    for at in draw.permutation(len(made)).tolist():
        job = made[at].job
        node_type = cluster.node_types[int(draw.integers(len(cluster.node_types)))]
        rows = speeds.configurations(job.model, node_type, int(left), Span.POD)
        if not rows:
            continue
        row = rows[int(draw.integers(len(rows)))]
        need = np.array([job.cpus_per_gpu, row.side.host_memory_gib, row.side.rdma_gb_per_s])
        order = draw.permutation(cluster.nodes_of(node_type)).tolist()
        parts: dict[int, tuple[int, ...]] = {}
        for part in row.shape.parts:
            node = next(
                (
                    n
                    for n in order
                    if n not in parts and len(free[n]) >= part and (room[n] >= part * need).all()
                ),
                None,
            )
            if node is None:
                break
            parts[node] = tuple(free[node][:part])
        leaves = {cluster.nodes[node].leaf for node in parts}
        traffic = dict.fromkeys(leaves, 0.0)
        if len(leaves) > 1:
            for node, own in parts.items():
                traffic[cluster.nodes[node].leaf] += len(own) * row.side.rdma_gb_per_s
        if len(parts) < row.shape.nodes or any(uplink[x] < y for x, y in traffic.items()):
            continue
        for node, own in parts.items():
            free[node] = free[node][len(own) :]
            room[node] = room[node] - len(own) * need
        for leaf, used in traffic.items():
            uplink[leaf] -= used
        left -= row.shape.gpus
        where = Placement.of(parts)
        done = float(draw.uniform(0.1, 0.8)) * job.iterations
        held = Assignment(job.name, row.plan, where)
        made[at] = replace(
            made[at],
            running=held,
            iterations_done=done,
            starts=1,
            first_start_s=job.submission_s,
            last_start_s=job.submission_s,
            executed_s=NOW_S - job.submission_s,
        )
    return tuple(made)
