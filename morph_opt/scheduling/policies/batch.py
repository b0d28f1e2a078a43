"""Policies of batch schedulers: requests served in order, with reservations by time limits.

Each job runs in its requested plan on nodes that give equal numbers of GPUs, is never stopped, and
is known by its time limit, never by its true run time. Page: ``docs/batch-schedulers.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from formulations.arrays import Floats
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.placement import held_by_part, sides_of
from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.backfill.book import Book, Queue, in_order, same
from morph_opt.scheduling.backfill.kept import Kept
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.backfill.orders import ORDERS
from morph_opt.scheduling.backfill.profile import conservative_pass, easy_pass
from morph_opt.scheduling.backfill.queue import (
    Demand,
    Free,
    Pass,
    Planned,
    Running,
    Start,
    Waiting,
)
from morph_opt.scheduling.backfill.reasons import Look, Outlook, duration
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport
from morph_opt.scheduling.policies.blind import limit_of
from morph_opt.scheduling.strict.facts import RunLookup

OVERRUN_S = 30.0
"""Seconds from now in which a job beyond its limit is expected to end (``KillWait`` of Slurm)."""

Shaped = tuple[int, Demand, int]
"""Number of nodes, demand on each, and the nodes that can hold it, as bits."""


class Requests:
    """Shapes of requests on one cluster.

    Parameters
    ----------
    belief
        Speeds: which configurations exist, and what they hold next to GPUs.
    cluster
        The nodes.
    """

    def __init__(self, belief: SpeedModel, cluster: Cluster) -> None:
        self.cluster = cluster
        self._lookup = RunLookup(belief, cluster)
        self._found: dict[object, Shaped] = {}
        self._of_job: dict[str, tuple[Job, Shaped]] = {}
        self._of_type: dict[str, list[int]] = {}
        for i, node in enumerate(cluster.nodes):
            self._of_type.setdefault(node.type.name, []).append(i)
        kinds = [node.type for node in cluster.nodes]
        self.capacity: Floats = np.array([(kind.gpus, *sides_of(kind)) for kind in kinds])

    def of(self, job: Job) -> Shaped:
        """Return the shape of a request.

        Without a number of nodes it takes the fewest on which its GPUs are equally many.

        Raises
        ------
        InputError
            If no nodes of the cluster can hold it.
        """
        found = self._of_job.get(job.name)
        if found is None or found[0] is not job:
            key = job.model, job.requested_gpus, job.requested_plan, job.nodes, job.side
            if key not in self._found:
                self._found[key] = self._shape(job)
            found = self._of_job[job.name] = job, self._found[key]
        return found[1]

    def runs(self, job: Job, held: Assignment) -> bool:
        """Return whether the job can run there."""
        return self._lookup.facts(job.model, held) is not None

    def _shape(self, job: Job) -> Shaped:
        gpus = job.requested_gpus
        counts = [job.nodes] if job.nodes else [n for n in range(1, gpus + 1) if gpus % n == 0]
        for count in counts:
            offers = [
                (demand, sum(1 << node for node in members))
                for members in self._of_type.values()
                if (demand := self._demand(job, members, count)) is not None
            ]
            if offers:
                most = np.max([demand for demand, _ in offers], axis=0)
                return count, tuple(most.tolist()), sum(nodes for _, nodes in offers)
        rule = f"asks for {gpus} GPUs in a way that cluster {self.cluster.name} cannot hold"
        raise InputError(rule, field=f"job {job.name}")

    def _demand(self, job: Job, members: Sequence[int], count: int) -> Demand | None:
        """Return the demand per node on nodes of one type; None if the job cannot run there."""
        per_node, rest = divmod(job.requested_gpus, count)
        kind = self.cluster.nodes[members[0]].type
        if rest or len(members) < count or per_node > kind.gpus:
            return None
        # Nodes far apart and nodes close together: what the job may hold wherever it is placed.
        most: tuple[float, ...] | None = None
        for some in {(*members[: count - 1], members[-1]), tuple(members[:count])}:
            parts = {node: range(per_node) for node in some}
            facts = self._lookup.facts(
                job.model, Assignment(job.name, job.requested_plan, Placement.of(parts))
            )
            if facts is not None:
                sides = facts.sides[kind.name].beside(job.side)
                found = (float(per_node), *held_by_part(sides, per_node))
                most = found if most is None else tuple(map(max, most, found))
        room = (kind.gpus, *sides_of(kind))
        if most is None or any(a > b + FEASIBILITY for a, b in zip(most, room, strict=True)):
            return None
        return most


class BatchPolicy(Policy):
    """Base of policies that start requests from a queue and never stop them.

    Parameters
    ----------
    belief
        Speeds: which configurations exist.
    reservations
        Nodes that are kept for others in intervals: no job starts there whose limit overlaps.
    """

    def __init__(self, belief: SpeedModel, reservations: Iterable[Reservation] = ()) -> None:
        self._belief = belief
        self._reservations = tuple(reservations)
        self._kept: Kept | None = None
        self._requests: Requests | None = None
        self._book, self._queue = Book(), Queue()

    @abstractmethod
    def starts(
        self,
        state: RoundState,
        jobs: Mapping[int, JobState],
        waiting: Mapping[int, Waiting],
        free: Free,
        running: Sequence[Running],
    ) -> tuple[Iterable[Start], float | None]:
        """Return the jobs to start, by number, and the instant to decide again.

        Parameters
        ----------
        state
            The round.
        jobs
            Its jobs by their numbers (`Book`), ascending.
        waiting
            Requests of the waiting jobs, by number; the same objects in each round.
        free, running
            See the classes.
        """

    def limit_s(self, job: Job) -> float:
        """Return the time limit by which a job is planned."""
        return limit_of(job)

    def begin(self, state: RoundState) -> None:
        """Learn the cluster before its jobs are looked at."""
        if self._requests is None or self._requests.cluster is not state.cluster:
            self._requests = Requests(self._belief, state.cluster)
            self._kept = None
        if self._kept is None:
            self._book = Book()
            self._kept = Kept(self._reservations, self.node_names(state.cluster))

    def node_names(self, cluster: Cluster) -> Mapping[str, int]:
        """Return nodes by the names that reservations give them."""
        return cluster.node_index

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        self.begin(state)
        assert self._requests is not None
        requests = self._requests
        jobs = self._book.numbered(state.jobs)
        if jobs is None:
            self._book = Book()
            jobs = self._book.numbered(state.jobs) or {}
        book = self._book
        held: list[Assignment] = []
        running: list[Running] = []
        waiting: dict[int, Waiting] = {}
        for number, known in jobs.items():
            if known.running is None:
                asked = book.waiting.get(number)
                if asked is None or asked[0] is not known.job or self._kept:
                    fresh = self._asked(number, known.job, requests, state.time_s)
                    asked = book.waiting[number] = known.job, fresh
                waiting[number] = asked[1]
                continue
            held.append(known.running)
            running.append(self._running_job(number, known, known.running, state.time_s))
        if held and not same(held, book.holders):
            rows = [node for one in held for node in one.placement.nodes]
            taken = [one.demand for one in running for _ in range(one.nodes.bit_count())]
            book.holders, book.free = list(held), np.array(requests.capacity)
            np.subtract.at(book.free, rows, taken)
        amounts = book.free if held else requests.capacity
        free = Free(amounts, sum(1 << node for node in state.unavailable))
        begun, next_s = self.starts(state, jobs, waiting, free, running)
        started = tuple(begun)
        used = _taken(held) if started else {}
        for one in started:
            job = jobs[one.job].job
            per_node = round(waiting[one.job].demand[0])
            found = _lowest(state.cluster, one.nodes, per_node, used)
            if found is not None:
                made = Assignment(job.name, job.requested_plan, found)
                if requests.runs(job, made):
                    held.append(made)
        status = "heuristic" if state.jobs else "idle"
        allocation = Allocation(tuple(held))
        if self._kept and len(started) < len(waiting):
            end_s = self._kept.next_end_s(state.time_s)
            next_s = end_s if next_s is None else min(next_s, end_s)
        return Decision(
            allocation,
            RoundReport(status),
            next_s=None if next_s == math.inf else next_s,
            reason=partial(self._reason, state, allocation),
        )

    def _running_job(self, number: int, known: JobState, held: Assignment, now_s: float) -> Running:
        """Return a running job as the passes see it."""
        mine = self._book.held.get(number)
        if mine is None or mine[0] is not held:
            assert self._requests is not None
            nodes = sum(1 << node for node in held.placement.nodes)
            demand, limit_s = self._requests.of(known.job)[1], self.limit_s(known.job)
            once = known.starts == 1 and known.last_start_s is not None
            end_s = (known.last_start_s or 0.0) + limit_s
            whole = Running(number, end_s, nodes, demand) if once else None
            mine = self._book.held[number] = held, nodes, demand, limit_s, whole
        _, nodes, demand, limit_s, whole = mine
        if whole is not None and whole.end_s > now_s:
            return whole
        return Running(number, _ends_s(known, limit_s, now_s), nodes, demand)

    @abstractmethod
    def outlook(
        self, state: RoundState, queue: Sequence[Waiting], free: Free, running: Sequence[Running]
    ) -> Outlook:
        """Return what the rules make of the jobs that wait after a decision.

        Parameters
        ----------
        state
            The round.
        queue
            Jobs that wait, in order.
        free, running
            Nodes and jobs after the decision; ``free`` may be changed.
        """

    def order(self, queue: Sequence[Waiting], wait_s: Callable[[int], float]) -> Sequence[Waiting]:
        """Return a queue by priority and arrival in the order of the policy.

        Parameters
        ----------
        queue
            Jobs that wait.
        wait_s
            Wait of a job in seconds, from its number.
        """
        del wait_s
        return queue

    def queued(self, job: Job, one: Waiting) -> Iterable[Waiting]:
        """Yield the request of a job in each queue that it is in, with its rank."""
        del job
        yield one

    def _asked(self, number: int, job: Job, requests: Requests, now_s: float) -> Waiting:
        count, demand, allowed = requests.of(job)
        limit_s = self.limit_s(job)
        barred = self._kept.barred(job, limit_s, now_s) if self._kept else ()
        return Waiting(
            number, count, demand, limit_s, allowed, priority=job.priority, barred=barred
        )

    def _reason(self, state: RoundState, allocation: Allocation, name: str) -> str:
        """Return why a job got what it got, in one sentence.

        Raises
        ------
        InputError
            If the round has no such job.
        """
        assert self._requests is not None
        requests, granted, now_s = self._requests, allocation.by_job(), state.time_s
        names = [known.job.name for known in state.jobs]
        if name not in names:
            rule = f"the round has no job {name!r}{did_you_mean(name, names)}"
            raise InputError(f"{rule}; it has {', '.join(names[:8])}", field="job")
        free = Free(requests.capacity, sum(1 << node for node in state.unavailable))
        running: list[Running] = []
        waiting: list[Waiting] = []
        for number, known in enumerate(state.jobs):
            _, demand, _ = requests.of(known.job)
            limit_s = self.limit_s(known.job)
            held = granted.get(known.job.name)
            if held is None:
                asked = self._asked(number, known.job, requests, now_s)
                waiting += self.queued(known.job, asked)
                continue
            nodes = sum(1 << node for node in held.placement.nodes)
            free.take(nodes, demand)
            fresh = known.running is None
            end_s = now_s + limit_s if fresh else _ends_s(known, limit_s, now_s)
            running.append(Running(number, end_s, nodes, demand))
            if known.job.name == name:
                word = "starts" if fresh else "runs on, as no job is stopped"
                return f"{name}: {word}; its limit ends in {duration(end_s - now_s)}"
        queue = self.order(in_order(waiting), lambda number: state.jobs[number].queued_s)
        shown = Free(free.amounts, free.down)
        outlook = self.outlook(state, queue, free, running)
        shown.completing = free.completing
        nodes_of = [node.name for node in state.cluster.nodes]
        look = Look(now_s, queue, shown, running, names, nodes_of, outlook)
        return f"{name}: waits; {look.why(names.index(name))}"


def _ends_s(known: JobState, limit_s: float, now_s: float) -> float:
    """Return the latest end of a running job by its limit.

    It is computed from the start, so that it is the same number in every round.
    """
    begun_s = now_s if known.last_start_s is None else known.last_start_s
    before_s = 0.0 if known.starts == 1 else max(0.0, known.executed_s - (now_s - begun_s))
    end_s = begun_s + limit_s - before_s
    return end_s if end_s > now_s else now_s + OVERRUN_S


def _taken(held: Iterable[Assignment]) -> dict[int, set[int]]:
    taken: dict[int, set[int]] = {}
    for one in held:
        for node, gpus in one.placement.parts:
            taken.setdefault(node, set()).update(gpus)
    return taken


def _lowest(
    cluster: Cluster, nodes: int, per_node: int, taken: dict[int, set[int]]
) -> Placement | None:
    """Take the lowest-numbered free GPUs of each node; None if a node has too few."""
    parts = {}
    for node in bits(nodes):
        used = taken.setdefault(node, set())
        free = [gpu for gpu in range(cluster.nodes[node].type.gpus) if gpu not in used]
        if len(free) < per_node:
            return None
        parts[node] = free[:per_node]
    for node, gpus in parts.items():
        taken[node].update(gpus)
    return Placement.of(parts)


class Easy(BatchPolicy):
    """EASY backfill: later jobs may pass only where they do not delay the first blocked ones.

    Parameters
    ----------
    depth
        Number of blocked jobs with a reservation.
    order
        Name of the order in which jobs are served (`ORDERS`); "" for the order of arrival.
    """

    name = "easy"

    def __init__(
        self,
        belief: SpeedModel,
        depth: int = 1,
        reservations: Iterable[Reservation] = (),
        order: str = "",
    ) -> None:
        super().__init__(belief, reservations)
        self._depth, self._order = depth, ORDERS[order] if order else None
        if order:
            self.name = f"easy:{order}"

    def order(self, queue: Sequence[Waiting], wait_s: Callable[[int], float]) -> Sequence[Waiting]:
        """See `BatchPolicy`."""
        order = self._order
        return sorted(queue, key=order.key(wait_s)) if order and order.whole else queue

    def starts(
        self,
        state: RoundState,
        jobs: Mapping[int, JobState],
        waiting: Mapping[int, Waiting],
        free: Free,
        running: Sequence[Running],
    ) -> tuple[Iterable[Start], float | None]:
        """See `BatchPolicy`."""
        queue = self._queue.of(waiting.values())
        started, _ = self._pass(state.time_s, queue, free, running, lambda n: jobs[n].queued_s)
        return started, None

    def _pass(
        self,
        now_s: float,
        queue: Sequence[Waiting],
        free: Free,
        running: Sequence[Running],
        wait_s: Callable[[int], float],
    ) -> Pass:
        later = self._order.key(wait_s) if self._order and not self._order.whole else None
        return easy_pass(now_s, self.order(queue, wait_s), free, running, self._depth, later)

    def outlook(
        self, state: RoundState, queue: Sequence[Waiting], free: Free, running: Sequence[Running]
    ) -> Outlook:
        """See `BatchPolicy`."""

        def wait_s(number: int) -> float:
            return state.jobs[number].queued_s

        _, planned = self._pass(state.time_s, queue, free, running, wait_s)
        first = "job has" if self._depth == 1 else f"{self._depth} jobs have"
        rule = f"no planned start: under EASY only the first blocked {first} one"
        because: dict[int, str] = {}
        if self._order and self._order.whole:
            words, value = self._order.words, self._order.value
            because = {one.job: f"{words} {value(one, wait_s(one.job)):,.4g}" for one in queue}
        elif self._order:
            rule += f"; the others start by {self._order.words}"
        return Outlook({one.job: one for one in planned}, because, rule=rule)


class Conservative(BatchPolicy):
    """Conservative backfill: every job has a planned start, and no later job delays it.

    It remembers its plan, so that a planned start never moves back while jobs keep their limits.
    """

    name = "conservative"

    def __init__(self, belief: SpeedModel, reservations: Iterable[Reservation] = ()) -> None:
        super().__init__(belief, reservations)
        self.planned: dict[str, Planned] = {}
        """Planned starts after the last decision, by job."""

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds: they do."""
        return True

    def observe(self, state: RoundState) -> None:
        """Plan as in `decide`, for a round that is decided elsewhere."""
        self.decide(state)

    def starts(
        self,
        state: RoundState,
        jobs: Mapping[int, JobState],
        waiting: Mapping[int, Waiting],
        free: Free,
        running: Sequence[Running],
    ) -> tuple[Iterable[Start], float | None]:
        """See `BatchPolicy`."""
        carried = {
            number: Planned(number, self.planned[name].start_s, self.planned[name].nodes)
            for number in waiting
            if (name := jobs[number].job.name) in self.planned
        }
        ordered = self._queue.of(waiting.values())
        started, planned = conservative_pass(state.time_s, ordered, free, running, carried)
        self.planned = {jobs[one.job].job.name: one for one in planned}
        return started, min((one.start_s for one in planned), default=None)

    def outlook(
        self, state: RoundState, queue: Sequence[Waiting], free: Free, running: Sequence[Running]
    ) -> Outlook:
        """See `BatchPolicy`."""
        del free, running
        names = ((one.job, state.jobs[one.job].job.name) for one in queue)
        return Outlook(
            {
                job: replace(self.planned[name], job=job)
                for job, name in names
                if name in self.planned
            },
            rule="no planned start: its nodes are down, or fit it at no time",
        )
