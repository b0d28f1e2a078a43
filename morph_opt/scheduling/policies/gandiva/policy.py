"""Policy ``gandiva``: time slices on whole servers by the rules of `slices`.

Hosts are remembered and depend on the states alone. The engine charges the start-ups: a job returns
to its previous GPU counts on its nodes whenever its host still has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    InputError,
    JobState,
    NodeType,
    Placement,
    RoundState,
    Shape,
    Span,
)
from morph_opt.core.domain.starting import same_place
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.gandiva.slices import Host, HostRules, Hosts, Slot
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts

Assigned = tuple[JobState, int, tuple[int, ...]]
"""Running job, its GPUs, and the servers of its host."""


class _Followed(Hosts):
    """Hosts of a replay; time and progress come from the engine.

    Parameters
    ----------
    grown
        Function that returns the GPUs of a job on some servers, given the largest allowed number.
    """

    def __init__(
        self, rules: HostRules, grown: Callable[[JobState, tuple[int, ...], int], int]
    ) -> None:
        super().__init__(rules)
        self._grown = grown
        self._jobs: dict[int, JobState] = {}
        self._numbers = count()
        self.closed: frozenset[int] = frozenset()
        self.known: dict[str, Slot] = {}

    def _empty(self) -> list[int]:
        return [server for server in super()._empty() if server not in self.closed]

    def _more(self, slot: Slot, host: Host, idle: int) -> int:
        known = self._jobs[slot.name]
        return self._grown(known, host.servers, slot.gpus + idle) - slot.gpus if idle else 0

    def follow(
        self, state: RoundState, gangs: dict[str, int]
    ) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Return the jobs that run in a round, each with its GPUs and the servers of its host."""
        here = {known.job.name for known in state.jobs}
        gone = {id(slot) for name, slot in self.known.items() if name not in here}
        self.known = {name: slot for name, slot in self.known.items() if name in here}
        self.queue = [slot for slot in self.queue if id(slot) not in gone]
        self._leave(lambda slot: id(slot) in gone)
        self.closed = state.unavailable
        for host in [host for host in self.hosts if not self.closed.isdisjoint(host.servers)]:
            self.queue = [*sorted(host.slots, key=lambda slot: slot.turn), *self.queue]
            self.hosts.remove(host)
        self._jobs = {}
        for known in state.jobs:
            name = known.job.name
            if name not in self.known and gangs[name]:
                self.known[name] = Slot(next(self._numbers), gangs[name], known.job.submission_s)
                self.queue.append(self.known[name])
            if name in self.known:
                self._jobs[self.known[name].name] = known
        return {
            self._jobs[number].job.name: (gpus, where)
            for number, gpus, where in self._assigned(state.time_s)
        }


class Growth:
    """Fastest GPU counts of jobs on their servers.

    Parameters
    ----------
    belief
        Speeds that the policy goes by; plans are judged by their memory as candidates are.
    """

    def __init__(self, belief: SpeedModel) -> None:
        self._speeds = MemoryFilter(belief)
        self._paces: dict[tuple[str, ExecutionPlan, NodeType, int], dict[int, float]] = {}

    def best(
        self, model: str, plan: ExecutionPlan, kind: NodeType, servers: int, gang: int, most: int
    ) -> int:
        """Return the fastest number of GPUs from the gang to ``most``, the smallest if equal.

        Parameters
        ----------
        plan
            Execution plan, which growth does not change.
        kind, servers
            Node type and number of the job's servers.
        """
        key = (model, plan, kind, servers)
        if key not in self._paces:
            self._paces[key] = self._ask(*key)
        paces = self._paces[key]
        counts = [gang, *(n for n in sorted(paces) if gang < n <= most)]
        return min(counts, key=lambda n: (paces.get(n, float("inf")), n))

    def _ask(
        self, model: str, plan: ExecutionPlan, kind: NodeType, servers: int
    ) -> dict[int, float]:
        """Return seconds per iteration by GPUs, on whole servers and a part of one more."""
        rows = self._speeds.configurations(model, kind, servers * kind.gpus, Span.LEAF)
        return {
            row.shape.gpus: row.iteration_s
            for row in reversed(rows)
            if row.plan == plan and row.shape == _filling(row.shape.gpus, kind.gpus)
        }


def _filling(gpus: int, each: int) -> Shape:
    full, rest = divmod(gpus, each)
    return Shape.of(*[each] * full, *([rest] if rest else []))


class GandivaSlices(Policy):
    """Requested gangs that share servers of their size in turns.

    Parameters
    ----------
    belief
        Speed model: possible shapes, their side resources, and whether more GPUs are faster.
    any_affinity
        Whether a gang may join a full server of another size (ours; the paper keeps it waiting).
    migrate
        Whether jobs are moved: off overloaded servers, together, and to make room for gangs.

    Attributes
    ----------
    rigid
        Jobs that do not grow.
    """

    def __init__(
        self, belief: SpeedModel, *, any_affinity: bool = False, migrate: bool = True
    ) -> None:
        self.name = "gandiva:any-affinity" if any_affinity else "gandiva"
        self._tables = CandidateBuilder(belief, requests_only=True)
        self._checks = BeliefChecks(belief)
        self._growth = Growth(belief)
        self._any_affinity, self._migrate = any_affinity, migrate
        self.rigid: frozenset[str] = frozenset()
        self._hosts: _Followed | None = None
        self._cluster: Cluster | None = None

    def observe(self, state: RoundState) -> None:
        """See a round that is not decided here."""
        self._follow(state)

    def decide(self, state: RoundState) -> Decision:
        """Assign GPUs: running jobs keep theirs, resumed ones return to their nodes if possible.

        A gang without a known speed, or without enough side resources on its servers, waits for its
        next turn.
        """
        assigned = self._follow(state)
        gangs = {known.job.name: self._gang(known, state) for known, _, _ in assigned}
        while True:
            made = self._place(assigned, state)
            short = {
                known.job.name
                for known, gpus, _ in assigned
                if known.job.name not in made and gpus > gangs[known.job.name]
            }
            if not short:
                return Decision(Allocation(tuple(made.values())))
            # There are GPUs to grow into, but not enough side resources.
            assigned = [
                (known, gangs[known.job.name] if known.job.name in short else gpus, servers)
                for known, gpus, servers in assigned
            ]

    def _place(self, assigned: Sequence[Assigned], state: RoundState) -> dict[str, Assignment]:
        rest: list[Assigned] = []
        check = self._checks.on(state.cluster, unknown_may_stay=False)
        before = StateFacts.of(state)
        made: dict[str, Assignment] = {}
        free = {
            node: set(range(state.cluster.nodes[node].type.gpus))
            for _, _, servers in assigned
            for node in servers
        }

        def take(held: Assignment) -> None:
            if check.add((held,), before):
                return
            for node, gpus in held.placement.parts:
                free[node] -= set(gpus)
            made[held.job] = held

        for known, gpus, servers in assigned:
            held = known.running
            if held is not None and _is_there(held, gpus, servers):
                take(held)
            else:
                rest.append((known, gpus, servers))
        # Jobs that were there come before those that may be anywhere.
        for known, gpus, servers in sorted(rest, key=lambda one: one[0].last_held is None):
            where = _placement(known, gpus, servers, free)
            if where is not None:
                plan = self._plan(known, state)
                take(Assignment(known.job.name, plan, where))
        return made

    def _follow(self, state: RoundState) -> list[Assigned]:
        sizes = {node.type.gpus for node in state.cluster.nodes}
        if len(sizes) > 1:
            raise InputError("needs servers of one size", field="--policy gandiva")
        if self._hosts is None:
            rules = HostRules(
                len(state.cluster.nodes),
                sizes.pop(),
                migrate=self._migrate,
                any_affinity=self._any_affinity,
                quantum_s=state.interval_s,
            )
            self._hosts = _Followed(rules, self._grown)
        self._cluster = state.cluster
        gangs = {known.job.name: self._gang(known, state) for known in state.jobs}
        given = self._hosts.follow(state, gangs)
        return [(known, *given[known.job.name]) for known in state.jobs if known.job.name in given]

    def _gang(self, known: JobState, state: RoundState) -> int:
        """Return the GPUs of the request or of its substitute; 0 if the job cannot run."""
        rows = self._tables.all_of(known.job, state.cluster).rows
        gpus = rows[0].row.shape.gpus if rows else 0
        return gpus if gpus <= state.cluster.gpus else 0

    def _grown(self, known: JobState, servers: tuple[int, ...], most: int) -> int:
        """Return the GPU count at which a job is fastest on servers of one type."""
        assert self._cluster is not None
        nodes = [self._cluster.nodes[server].type for server in servers]
        row = self._tables.all_of(known.job, self._cluster).rows[0].row
        gang = row.shape.gpus
        if known.job.name in self.rigid or any(kind != nodes[0] for kind in nodes):
            return gang
        return self._growth.best(known.job.model, row.plan, nodes[0], len(servers), gang, most)

    def _plan(self, known: JobState, state: RoundState) -> ExecutionPlan:
        return self._tables.all_of(known.job, state.cluster).rows[0].row.plan


def _is_there(held: Assignment, gpus: int, servers: Sequence[int]) -> bool:
    """Return whether a job holds or held this number of GPUs on servers of a host."""
    return held.placement.gpus == gpus and set(held.placement.nodes) <= set(servers)


def _placement(
    known: JobState, gpus: int, servers: Sequence[int], free: dict[int, set[int]]
) -> Placement | None:
    """Return free GPUs of a host: the job's previous ones, else on the freest servers."""
    before = known.kept
    if before is not None and _is_there(before, gpus, servers):
        counts = {node: len(held) for node, held in before.placement.parts}
        if all(len(free[node]) >= count for node, count in counts.items()):
            found = Placement.of({n: sorted(free[n])[:count] for n, count in counts.items()})
            assert same_place(found, before.placement)
            return found
    parts: dict[int, list[int]] = {}
    for node in sorted(servers, key=lambda node: (-len(free[node]), node)):
        taken = sorted(free[node])[: gpus - sum(map(len, parts.values()))]
        if taken:
            parts[node] = taken
    return Placement.of(parts) if sum(map(len, parts.values())) == gpus else None
