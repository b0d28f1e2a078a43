"""Check answers on moves by enumeration: ``python -m benchmarks.checks.moves [STATES]``.

Random states of 3 to 6 nodes, with leaves, slow uplinks, NVLink domains, drained nodes, few threads
and rules, are asked every question. Enumeration knows the state, the speeds and the strict check,
and neither tables nor a model: it tries sets of jobs to disturb from the cheapest on, each in every
place. The status is 1 if a loss differs, or if the steps of an answer cannot be carried out.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import (
    A800_NODE,
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
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
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.moves.answer import Moves
from morph_opt.moves.api import answer_to
from morph_opt.moves.question import DOMAINS, LEAVES, NODES, SLOTS, Freed, Question
from morph_opt.round.snapshot import Snapshot
from morph_opt.round.speeds import SpeedRow, SpeedTable
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts

NOW_S = 7200.0
DP = ExecutionPlan.parse("dp")
EXACT = Limits(gap=0.0, time_s=60.0)


def random_snapshot(draw: np.random.Generator) -> Snapshot:
    """Draw a state with its speeds and rules."""
    cluster = _cluster(draw)
    kinds = cluster.node_types
    rows: list[SpeedRow] = []
    jobs: list[JobState] = []
    free = {at: set(range(node.type.gpus)) for at, node in enumerate(cluster.nodes)}
    down = frozenset(at for at in range(len(cluster.nodes)) if draw.random() < 0.05)
    for at in range(int(draw.integers(2, 7))):
        shape = Shape.parse(str(draw.choice(["1", "1", "2", "2", "3", "4", "1+1", "2+1", "4+4"])))
        name, waits = f"j{at}", draw.random() < 0.2
        for kind in kinds:
            if shape.parts[0] <= kind.gpus:
                rows += _rows(draw, name, kind, shape)
        tenant = str(draw.choice(["a", "b"]))
        job = Job(name, name, 0.0, 10_000, shape.gpus, DP, cpus_per_gpu=int(draw.integers(0, 4)),
                  tenant=tenant)  # fmt: skip
        placement = None if waits else _placed(draw, cluster, shape, free, down)
        running = None if placement is None else Assignment(name, DP, placement)
        known = JobState(
            job,
            running=running,
            iterations_done=float(draw.integers(0, 9000)) if running else 0.0,
            restart_s=float(draw.choice([0.0, 30.0, 60.0, 200.0])),
            restart_left_s=0.0,
            last_start_s=NOW_S - float(draw.integers(0, 7200)) if running else None,
            first_start_s=0.0 if running else None,
        )
        if running and draw.random() < 0.3:
            known = replace(known, checkpointed_s=NOW_S - float(draw.integers(0, 1800)))
        jobs.append(known)
    speeds = SpeedTable(rows)
    state = RoundState(7, NOW_S, 60.0, cluster, tuple(jobs), down)
    # What does not fit next to the others has not been running.
    check = BeliefChecks(speeds).on(cluster, unknown_may_stay=False)
    while broken := check.check(state.held.assignments, StateFacts.of(state)):
        gone = broken[0].jobs[-1]
        jobs = [_waiting(one) if one.job.name == gone else one for one in jobs]
        state = replace(state, jobs=tuple(jobs))
    return Snapshot(state, speeds, _rules(draw, state))


def _waiting(known: JobState) -> JobState:
    """Return a job as if it had never run."""
    return JobState(known.job, restart_s=known.restart_s)


def _cluster(draw: np.random.Generator) -> Cluster:
    """Draw 3 to 6 nodes of one or two types under one or two leaves, some in NVLink domains."""
    kinds = [replace(A800_NODE, name="big", gpus=4, cpus=int(draw.integers(6, 13)))]
    if draw.random() < 0.3:
        other = replace(A800_NODE.gpu_type, name="H100-80GB")
        kinds.append(replace(A800_NODE, name="small", gpu_type=other, gpus=2, cpus=8))
    count, leaves = int(draw.integers(3, 7)), int(draw.integers(1, 3))
    racks = draw.random() < 0.4
    nodes = []
    for at in range(count):
        leaf = at * leaves // count
        kind = kinds[int(draw.integers(len(kinds))) if at else 0]
        rack = f"rack-{leaf}-{at % 2}-{kind.name}" if racks and draw.random() < 0.8 else None
        nodes.append(Node(f"n{at}", kind, leaf=f"leaf-{leaf}", nvlink_domain=rack))
    slow = tuple(Leaf(f"leaf-{leaf}", float(draw.integers(5, 40))) for leaf in range(leaves))
    return Cluster("random", tuple(nodes), slow if draw.random() < 0.4 else ())


def _rows(
    draw: np.random.Generator, model: str, kind: NodeType, shape: Shape
) -> Iterator[SpeedRow]:
    """Yield the speeds of a shape: the same anywhere, or slower or impossible farther apart."""
    # Workers on several nodes use the network cards, and the uplinks of their leaves.
    side = SideDemand(rdma_gb_per_s=float(draw.integers(0, 8)) if shape.nodes > 1 else 0.0)
    if shape.nodes == 1 or draw.random() < 0.5:
        yield SpeedRow(model, kind.name, Configuration(shape, DP, 1.0, side))
        return
    step_s = 1.0
    for span in (Span.NVLINK, Span.LEAF, Span.POD):
        yield SpeedRow(model, kind.name, Configuration(shape, DP, step_s, side), span)
        step_s += float(draw.choice([0.0, 0.5]))
        if draw.random() < 0.2:
            return


def _placed(
    draw: np.random.Generator,
    cluster: Cluster,
    shape: Shape,
    free: dict[int, set[int]],
    down: frozenset[int],
) -> Placement | None:
    """Draw free GPUs for a shape on nodes of one type; None if a few tries find none."""
    for _ in range(8):
        where = draw.permutation(len(cluster.nodes))[: shape.nodes].tolist()
        if len(where) < shape.nodes or len({cluster.nodes[node].type for node in where}) > 1:
            continue
        fits = all(len(free[n]) >= part for n, part in zip(where, shape.parts, strict=True))
        if fits and not down & set(where):
            taken = {
                node: draw.permutation(sorted(free[node]))[:part].tolist()
                for node, part in zip(where, shape.parts, strict=True)
            }
            for node, gpus in taken.items():
                free[node] -= set(gpus)
            return Placement.of(taken)
    return None


def _rules(draw: np.random.Generator, state: RoundState) -> OperatorRules | None:
    """Draw up to three rules that the state keeps; None for none."""
    names = [known.job.name for known in state.jobs]
    some = tuple(str(one) for one in draw.choice(names, size=1))
    nodes = [node.name for node in state.cluster.nodes]
    held = dict.fromkeys("ab", 0)
    for known in state.jobs:
        held[known.job.tenant] += known.running.placement.gpus if known.running else 0
    every: list[Rule] = [
        NonPreemptible(some),
        MinimumRun(1800.0),
        NodeRule(some, not_nodes=(str(draw.choice(nodes)),)),
        TenantQuota("a", held["a"] + int(draw.integers(0, 3))),
    ]
    chosen = tuple(rule for rule in every if draw.random() < 0.2)
    return OperatorRules(chosen) if chosen else None


def random_questions(draw: np.random.Generator, state: RoundState) -> Iterator[Question]:
    """Yield a question of every kind, with random limits."""
    running = [known.job.name for known in state.jobs if known.running]
    waiting = [known.job.name for known in state.jobs if not known.running]
    nodes = [node.name for node in state.cluster.nodes]

    def limits() -> dict[str, object]:
        more: dict[str, object] = {}
        if draw.random() < 0.3:
            more["most_moves"] = int(draw.integers(0, 4))
        if running and draw.random() < 0.3:
            more["exempt"] = (str(draw.choice(running)),)
        if running and draw.random() < 0.3:
            more["may_stop"] = ("*",) if draw.random() < 0.5 else (str(draw.choice(running)),)
        if draw.random() < 0.5:
            more["checkpoint_s"] = 600.0
        return more

    if waiting:
        yield Question(start=str(draw.choice(waiting)), **limits())  # type: ignore[arg-type]
    count = int(draw.integers(1, 3))
    free = [
        Freed(count, NODES, gpu_type="a800" if draw.random() < 0.5 else None),
        Freed(count, SLOTS, int(draw.choice([2, 3, 4, 5, 8]))),
        Freed(1, SLOTS, int(draw.choice([5, 8])), inside=LEAVES),
        Freed(1, LEAVES),
    ]
    if any(node.nvlink_domain for node in state.cluster.nodes):
        free.append(Freed(1, DOMAINS))
    for freed in free:
        yield Question(free=freed, **limits())  # type: ignore[arg-type]
    drained = tuple(str(one) for one in draw.choice(nodes, size=count, replace=False))
    until_s = float(draw.choice([0.0, 4000.0]))
    yield Question(drain=drained, until_s=until_s, **limits())  # type: ignore[arg-type]


class Enumeration:
    """Least loss of a question, by trying everything.

    Parameters
    ----------
    snapshot, question
        The state, and what is asked of it.
    """

    def __init__(self, snapshot: Snapshot, question: Question) -> None:
        self._state, self._question = snapshot.state, question
        self._speeds, self._rules = snapshot.speeds, snapshot.rules or OperatorRules()
        self._cluster = snapshot.state.cluster
        self._topology = topology_of(self._cluster)
        self._check = BeliefChecks(snapshot.speeds).on(self._cluster)
        self._drained = {self._cluster.node_index[name] for name in question.drain}
        # Only jobs that stay where they are may be on a drained node.
        self._closed = self._drained | set(self._state.unavailable)
        self._running = [known for known in self._state.jobs if known.running]

    def least(self) -> float:
        """Return the least loss; infinity if there is no answer."""
        question = self._question
        if question.start in {known.job.name for known in self._running}:
            return 0.0
        sets = sorted(self._disturbed(), key=lambda found: found[0])
        for loss, moved, stopped in sets:
            if question.most_moves is not None and len(moved) + len(stopped) > question.most_moves:
                continue
            if self._possible(moved, stopped):
                return loss
        return math.inf

    def _disturbed(self) -> Iterator[tuple[float, tuple[JobState, ...], tuple[JobState, ...]]]:
        """Yield every set of moved and of stopped jobs with its loss."""
        free = [k for k in self._running if not matches(k.job.name, self._question.exempt)]
        for count in range(len(free) + 1):
            for some in combinations(free, count):
                able = [k for k in some if matches(k.job.name, self._question.may_stop)]
                for stops in range(len(able) + 1):
                    for stopped in combinations(able, stops):
                        names = {known.job.name for known in stopped}
                        moved = tuple(k for k in some if k.job.name not in names)
                        loss = sum(map(self._loss, some))
                        loss += sum(self._gpus(k) * self._state.interval_s for k in stopped)
                        yield loss, moved, stopped

    def _gpus(self, known: JobState) -> int:
        assert known.running is not None
        return known.running.placement.gpus

    def _loss(self, known: JobState) -> float:
        """Return the restart and the progress since the checkpoint, in GPU-seconds."""
        every_s, lost_s = self._question.checkpoint_s, 0.0
        if every_s and known.last_start_s is not None:
            lost_s = max(0.0, NOW_S - known.last_start_s - known.restart_s) % every_s
        if known.checkpointed_s is not None:
            lost_s = NOW_S - known.checkpointed_s
        return (known.restart_s + lost_s) * self._gpus(known)

    def _possible(self, moved: tuple[JobState, ...], stopped: tuple[JobState, ...]) -> bool:
        """Return whether the moved jobs have places with which the question is answered."""
        gone = {known.job.name for known in (*moved, *stopped)}
        held = {k.job.name: k.running for k in self._running if k.job.name not in gone}
        for one in held.values():
            assert one is not None
            if self._drained & set(one.placement.nodes) and not self._ends(one):
                return False
        places = list(moved)
        places += [k for k in self._state.jobs if k.job.name == self._question.start]
        fixed = {name: one for name, one in held.items() if one is not None}
        return any(self._answers(found) for found in self._all(fixed, places))

    def _ends(self, held: Assignment) -> bool:
        """Return whether a running job completes in time."""
        known = next(k for k in self._running if k.job.name == held.job)
        left_s = known.restart_left_s + known.iterations_left * self._step_s(known, held.placement)
        return left_s <= self._question.until_s

    def _step_s(self, known: JobState, placement: Placement) -> float:
        """Return the seconds per iteration of a job on a placement; infinity for unknown ones."""
        kind = self._cluster.nodes[placement.nodes[0]].type
        span = self._topology.span(placement.nodes)
        found = self._speeds.iteration_s(known.job.model, kind, placement.shape, DP, span)
        return math.inf if found is None else found

    def _all(
        self, held: Mapping[str, Assignment], left: list[JobState]
    ) -> Iterator[Mapping[str, Assignment]]:
        """Yield every way to place the jobs that are left next to those that hold GPUs."""
        if not left:
            yield held
            return
        known, *others = left
        for placement in self._places(held, known):
            yield from self._all(
                {**held, known.job.name: Assignment(known.job.name, DP, placement)}, others
            )

    def _places(self, held: Mapping[str, Assignment], known: JobState) -> Iterator[Placement]:
        """Yield the placements of a job in its configuration on free GPUs."""
        before = known.running
        shape = Shape.parse(_SHAPES[known.job.name]) if before is None else before.placement.shape
        free = self._free(held)
        seen = set()
        for where in permutations(range(len(self._cluster.nodes)), shape.nodes):
            kinds = {self._cluster.nodes[node].type for node in where}
            if len(kinds) > 1 or self._closed & set(where):
                continue
            if before is not None and kinds != {
                self._cluster.nodes[before.placement.nodes[0]].type
            }:
                continue
            counts = dict(zip(where, shape.parts, strict=True))
            key = tuple(sorted(counts.items()))
            if key in seen or any(len(free[node]) < count for node, count in counts.items()):
                continue
            seen.add(key)
            found = Placement.of({node: free[node][:count] for node, count in counts.items()})
            step_s = self._step_s(known, found)
            limit_s = math.inf if before is None else self._step_s(known, before.placement)
            if math.isfinite(step_s) and step_s <= limit_s:
                yield found

    def _free(self, held: Mapping[str, Assignment]) -> dict[int, list[int]]:
        """Return the free GPUs of each node."""
        free = {at: set(range(node.type.gpus)) for at, node in enumerate(self._cluster.nodes)}
        for one in held.values():
            for node, gpus in one.placement.parts:
                free[node] -= set(gpus)
        return {node: sorted(gpus) for node, gpus in free.items()}

    def _answers(self, held: Mapping[str, Assignment]) -> bool:
        """Return whether an allocation is allowed and does what is asked for."""
        freed = self._question.free
        if freed is not None and not self._is_free(freed, self._free(held)):
            return False
        allocation = Allocation(tuple(held.values()))
        if self._check.check(allocation.assignments, StateFacts.of(self._state)):
            return False
        return not audit(self._state, allocation, self._rules)

    def _is_free(self, freed: Freed, free: Mapping[int, list[int]]) -> bool:
        """Return whether enough places are free."""
        nodes = self._cluster.nodes
        kinds = [
            kind
            for kind in self._cluster.node_types
            if freed.gpu_type is None or kind.gpu_type.name.lower().startswith(freed.gpu_type)
        ]
        up = [at for at in free if at not in self._closed and nodes[at].type in kinds]
        empty = {at for at in up if len(free[at]) == nodes[at].type.gpus}
        if freed.what == NODES:
            return len(empty) >= freed.count
        if freed.what in (DOMAINS, LEAVES):
            of = self._topology.domain if freed.what == DOMAINS else self._topology.leaf
            groups: dict[int, set[int]] = {}
            for at, node in enumerate(nodes):
                if freed.what == LEAVES or node.nvlink_domain is not None:
                    groups.setdefault(of[at], set()).add(at)
            alike = [g for g in groups.values() if len({nodes[at].type for at in g}) == 1]
            return sum(group <= empty for group in alike) >= freed.count
        return self._slots(freed, {at: len(free[at]) for at in up}, freed.count)

    def _slots(self, freed: Freed, free: dict[int, int], count: int) -> bool:
        """Return whether so many slots fit, by trying all nodes for each part."""
        if not count:
            return True
        for kind in self._cluster.node_types:
            whole_nodes, rest = divmod(freed.gpus, kind.gpus)
            parts = (kind.gpus,) * whole_nodes + ((rest,) if rest else ())
            able = [at for at in free if self._cluster.nodes[at].type == kind]
            if len(parts) > 1 and freed.inside == NODES:
                continue
            for where in permutations(able, len(parts)):
                if freed.inside == LEAVES and len({self._topology.leaf[at] for at in where}) > 1:
                    continue
                left = dict(free)
                for at, part in zip(where, parts, strict=True):
                    left[at] -= part
                if all(left[at] >= 0 for at in where) and self._slots(freed, left, count - 1):
                    return True
        return False


_SHAPES: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Difference:
    """Question on which answer and enumeration differ, or whose steps cannot be carried out."""

    seed: int
    question: Question
    least: float
    answer: Moves | None
    error: str = ""


def compare(seed: int) -> tuple[int, int, list[Difference]]:
    """Return the number of questions, of steps, and what differs, of one random state."""
    draw = np.random.default_rng(seed)
    snapshot = random_snapshot(draw)
    asked = steps = 0
    found: list[Difference] = []
    for question in random_questions(draw, snapshot.state):
        _SHAPES.clear()
        _SHAPES.update((k.job.name, _shape_of(snapshot, k.job.model)) for k in snapshot.state.jobs)
        least = Enumeration(snapshot, question).least()
        asked += 1
        try:
            answer = answer_to(snapshot, question, EXACT)
        except Exception as error:
            found.append(
                Difference(seed, question, least, None, f"{type(error).__name__}: {error}")
            )
            continue
        steps += len(answer.steps)
        loss = answer.loss_gpu_s if answer.possible else math.inf
        close = loss == least or abs(loss - least) <= 1e-6 * max(1.0, least)
        if not close or (answer.possible and answer.gap > 2e-5):
            found.append(Difference(seed, question, least, answer))
    return asked, steps, found


def _shape_of(snapshot: Snapshot, model: str) -> str:
    """Return the only shape that the speeds have of a model."""
    assert isinstance(snapshot.speeds, SpeedTable)
    return next(r.configuration.shape.label for r in snapshot.speeds.rows if r.model == model)


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.checks.moves", description=__doc__)
    parser.add_argument("states", nargs="?", type=whole(1, 10**6), default=1000)
    parser.add_argument("--seed", type=whole(0, 10**6), default=0, help="first seed (0)")
    return parser


def main() -> int:
    """Print the differences, and return 1 if there are any."""
    return run_command(make_parser(), _run, None)


def _run(given: argparse.Namespace) -> int:
    asked = steps = 0
    differences: list[Difference] = []
    for seed in range(given.seed, given.seed + given.states):
        more, carried, found = compare(seed)
        asked, steps = asked + more, steps + carried
        differences += found
        for one in found:
            answer = None if one.answer is None else one.answer.headline
            print(
                f"seed {one.seed}: {one.question}: enumeration {one.least:g}, {answer} {one.error}"
            )
    print(
        f"{given.states} states, {asked} questions, {steps} steps, {len(differences)} differences"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
