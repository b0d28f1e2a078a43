"""Gandiva's time slices on whole servers: round robin per host, affinity, migration, growth.

The publication (OSDI'18) tells the mechanisms; the exact rules, ours where it is silent, are on
``docs/gandiva-easyscale.md``. A *host* is a server, or several whole ones for a larger gang.
Decisions are made at multiples of the quantum only; jobs complete at their exact second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from morph_opt.domain import InputError


@dataclass(frozen=True, slots=True)
class SliceJob:
    """A gang with its work.

    Parameters
    ----------
    name
        Of the job; ties of instants are broken by it.
    gpus, most
        Gang, and GPUs that it can make use of.
    submit_s, work_s
        Submission; seconds on its gang.
    """

    name: int
    gpus: int
    submit_s: float
    work_s: float
    most: int = 0


@dataclass(frozen=True, slots=True)
class SliceRules:
    """Servers, charges and mechanisms.

    Parameters
    ----------
    servers, per_server
        Servers, and GPUs of each.
    first_s, resume_s, move_s, resize_s
        Charges of a first start, of running again after a pause, after a move, with other GPUs.
    migrate
        Whether jobs are moved: off overloaded hosts, together, and to make room for gangs.
    any_affinity
        Whether a gang may join a full host of another size (ours; the paper keeps it waiting).
    height
        Most gangs per lane of a host that is oversubscribed; None for any number.
    quantum_s
        Length of a slice.
    """

    servers: int
    per_server: int
    first_s: float = 0.0
    resume_s: float = 0.0
    move_s: float = 0.0
    resize_s: float = 0.0
    migrate: bool = False
    any_affinity: bool = False
    height: int | None = None
    quantum_s: float = 60.0


@dataclass(slots=True, eq=False)
class Slot:
    """A job in the course of time.

    Parameters
    ----------
    left_s
        Work to go.
    charge_s
        Start-up to go.
    last_end_s
        End of the last round in which it ran; -1 before.
    gpus
        GPUs of that round.
    moved
        Whether a move is still to be paid; one before its first start is paid when it runs again.
    first_s, end_s
        First boundary with GPUs, and completion.
    """

    job: SliceJob
    left_s: float
    charge_s: float = 0.0
    last_end_s: float = -1.0
    gpus: int = 0
    moved: bool = False
    first_s: float = -1.0
    end_s: float = math.inf
    starts: int = 0
    resumes: int = 0
    moves: int = 0
    resizes: int = 0

    @property
    def turn(self) -> tuple[bool, float, float, int]:
        """Deal order: never served first, then by the end of the last round, submission, name."""
        return self.last_end_s >= 0, self.last_end_s, self.job.submit_s, self.job.name


@dataclass(slots=True, eq=False)
class Host:
    """Servers that gangs share; see the module."""

    servers: tuple[int, ...]
    size: int
    capacity: int
    slots: list[Slot] = field(default_factory=list)

    @property
    def load(self) -> int:
        """Sum of the gangs, suspended ones included."""
        return sum(slot.job.gpus for slot in self.slots)

    @property
    def free(self) -> int:
        """Capacity less load; below 0 where it is oversubscribed."""
        return self.capacity - self.load


Round = tuple[float, list[tuple[int, int, tuple[int, ...]]]]
"""Boundary; job, GPUs and servers of every running job."""


class Slices:
    """The whole course of some jobs.

    Parameters
    ----------
    jobs
        Any order.
    rules
        See `SliceRules`.
    cancel
        Asked at every boundary with what runs and waits: who is cancelled.
    """

    def __init__(
        self,
        jobs: Sequence[SliceJob],
        rules: SliceRules,
        cancel: Callable[[float, Sequence[Slot]], Sequence[Slot]] | None = None,
    ) -> None:
        for job in jobs:
            if not 1 <= job.gpus <= rules.servers * rules.per_server:
                raise InputError(f"asks for {job.gpus} GPUs", field=f"job {job.name}")
        self.slots = [Slot(job, job.work_s) for job in jobs]
        self.rules = rules
        self.hosts: list[Host] = []
        self.queue: list[Slot] = []
        self.rounds: list[Round] = []
        self._cancel = cancel

    def run(self) -> list[Slot]:
        """Until every job is complete or cancelled; in the order of the jobs."""
        coming = sorted(self.slots, key=lambda slot: (slot.job.submit_s, slot.job.name))
        now, quantum = 0.0, self.rules.quantum_s
        while coming or self.queue or self.hosts:
            now += quantum
            if not (self.queue or self.hosts):
                later = math.ceil(coming[0].job.submit_s / quantum) * quantum
                now = max(now, later)
            self._leave(lambda slot, now=now: slot.end_s <= now)  # type: ignore[misc]
            while coming and coming[0].job.submit_s <= now:
                self.queue.append(coming.pop(0))
            if self._cancel is not None:
                gone = self._cancel(now, self.slots)
                self._leave(lambda slot, gone=gone: slot in gone)  # type: ignore[misc]
                self.queue = [slot for slot in self.queue if slot not in gone]
                coming = [slot for slot in coming if slot not in gone]
            if self.rules.migrate:
                self._unshare()
                self._defragment()
            self._admit()
            self._assign(now)
        return self.slots

    def _leave(self, leaves: Callable[[Slot], bool]) -> None:
        for host in self.hosts:
            host.slots = [slot for slot in host.slots if not leaves(slot)]
        self._dissolve()

    def _dissolve(self) -> None:
        self.hosts = [host for host in self.hosts if host.slots]

    # ------------------------------------------------------------ places

    def _empty(self) -> list[int]:
        used = {server for host in self.hosts for server in host.servers}
        return [server for server in range(self.rules.servers) if server not in used]

    def _span(self, gang: int) -> int:
        return -(-gang // self.rules.per_server)

    def _open_host(self, gang: int) -> Host | None:
        """Empty servers, lowest first, become a host of this size."""
        servers = self._empty()[: self._span(gang)]
        if len(servers) < self._span(gang):
            return None
        host = Host(tuple(servers), gang, len(servers) * self.rules.per_server)
        self.hosts.append(host)
        return host

    def _least_loaded(self, hosts: Sequence[Host], relative: int = 0) -> Host | None:
        """Least load, or least load over capacity after one more gang of that size."""

        def key(host: Host) -> tuple[float, int]:
            load = (host.load + relative) / host.capacity if relative else host.load
            return load, host.servers[0]

        return min(hosts, key=key, default=None)

    def _with_room(self, gang: int) -> Host | None:
        """A host of the size with room, or empty servers."""
        fitting = [host for host in self.hosts if host.size == gang and host.free >= gang]
        return self._least_loaded(fitting) or self._open_host(gang)

    def _oversubscribed(self, gang: int, hosts: Sequence[Host]) -> Host | None:
        """A host of the size whatever its load, up to the height; with any affinity any host."""
        height = self.rules.height
        same = [
            host
            for host in hosts
            if host.size == gang
            and (height is None or -(-(host.load + gang) // host.capacity) <= height)
        ]
        found = self._least_loaded(same)
        if found is None and self.rules.any_affinity:
            holding = [host for host in hosts if host.capacity >= gang]
            found = self._least_loaded(holding, gang)
        return found

    def _place_of(self, gang: int) -> Host | None:
        other = [
            host
            for host in self.hosts
            if len(host.servers) == 1 and host.size != gang and host.free >= gang
        ]
        return (
            self._with_room(gang)
            or self._least_loaded(other)
            or self._oversubscribed(gang, self.hosts)
        )

    # ------------------------------------------------------------ mechanisms

    def _move(self, slot: Slot, here: Host, there: Host) -> None:
        here.slots.remove(slot)
        there.slots.append(slot)
        slot.moved = True

    def _unshare(self) -> None:
        """The last in turn of an overloaded host goes where there is room, while it can."""
        while True:
            heavy = [host for host in self.hosts if host.free < 0]
            heavy.sort(key=lambda host: (-host.load / host.capacity, host.servers[0]))
            for host in heavy:
                last = max(host.slots, key=lambda slot: slot.turn)
                there = self._with_room(last.job.gpus)
                if there is not None:
                    self._move(last, host, there)
                    break
            else:
                return

    def _defragment(self) -> None:
        """Residents of nearly empty servers join others, if all of them can."""
        single = [host for host in self.hosts if len(host.servers) == 1]
        light = [host for host in single if 4 * host.free >= 3 * host.capacity]
        light.sort(key=lambda host: (-host.free, host.servers[0]))
        for host in light:
            before = [
                other
                for other in single
                if other.slots and (other.free, other.servers[0]) < (host.free, host.servers[0])
            ]
            room = {id(other): other.free for other in before}
            plan: list[tuple[Slot, Host]] = []
            for slot in sorted(host.slots, key=lambda slot: (-slot.job.gpus, slot.turn)):
                fits = [other for other in before if room[id(other)] >= slot.job.gpus]
                if not fits:
                    break
                there = min(fits, key=lambda other: (room[id(other)], other.servers[0]))
                room[id(there)] -= slot.job.gpus
                plan.append((slot, there))
            if host.slots and len(plan) == len(host.slots):
                for slot, there in plan:
                    self._move(slot, host, there)
        self._dissolve()

    def _admit(self) -> None:
        waiting = []
        for slot in self.queue:
            host = self._place_of(slot.job.gpus)
            if host is None and self.rules.migrate:
                host = self._made_room(slot.job.gpus)
            if host is None:
                waiting.append(slot)
            else:
                host.slots.append(slot)
        self.queue = waiting

    def _made_room(self, gang: int) -> Host | None:
        """Hosts with fewest residents are emptied until there are servers enough, or none is."""
        missing = self._span(gang) - len(self._empty())
        emptied: list[Host] = []
        for host in sorted(self.hosts, key=lambda host: (len(host.slots), host.servers[0])):
            if missing <= 0:
                break
            emptied.append(host)
            missing -= len(host.servers)
        rest = [host for host in self.hosts if host not in emptied]
        if missing > 0:
            return None
        added: list[tuple[Slot, Host, Host]] = []
        for host in emptied:
            for slot in sorted(host.slots, key=lambda slot: slot.turn):
                there = self._oversubscribed(slot.job.gpus, rest)
                if there is None:
                    for moved, _, joined in added:
                        joined.slots.remove(moved)
                    return None
                there.slots.append(slot)
                added.append((slot, host, there))
        for slot, host, _ in added:
            host.slots.remove(slot)
            slot.moved = True
        self._dissolve()
        return self._open_host(gang)

    # ------------------------------------------------------------ time

    def _assign(self, now: float) -> None:
        running: list[tuple[int, int, tuple[int, ...]]] = []
        for host in self.hosts:
            free = host.capacity
            order = sorted(host.slots, key=lambda slot: slot.turn)
            chosen = []
            for slot in order:
                if slot.job.gpus <= free:
                    free -= slot.job.gpus
                    chosen.append((slot, slot.job.gpus))
            if len(chosen) == len(order) and not self.queue:
                grown = []
                for slot, gpus in chosen:
                    more = self._more(slot, host, free)
                    free -= more
                    grown.append((slot, gpus + more))
                chosen = grown
            for slot, gpus in chosen:
                self._serve(slot, gpus, now)
                running.append((slot.job.name, gpus, host.servers))
        if running:
            self.rounds.append((now, sorted(running)))

    def _more(self, slot: Slot, host: Host, idle: int) -> int:  # noqa: ARG002 - others look at it
        """GPUs beyond its gang that a job takes of those that are idle on its host."""
        return max(0, min(idle, slot.job.most - slot.job.gpus))

    def _serve(self, slot: Slot, gpus: int, now: float) -> None:
        rules = self.rules
        if slot.last_end_s < 0:
            slot.first_s, slot.starts, slot.charge_s = now, 1, rules.first_s
        elif slot.moved:
            slot.moves += 1
            slot.charge_s, slot.moved = rules.move_s, False
        elif slot.last_end_s < now:
            slot.resumes += 1
            slot.charge_s = rules.resume_s
        elif gpus != slot.gpus:
            slot.resizes += 1
            slot.charge_s = rules.resize_s
        slot.gpus, slot.last_end_s = gpus, now + rules.quantum_s
        speed = gpus / slot.job.gpus
        needed_s = slot.charge_s + slot.left_s / speed
        if needed_s <= rules.quantum_s:
            slot.end_s, slot.left_s = now + needed_s, 0.0
            return
        worked_s = max(0.0, rules.quantum_s - slot.charge_s)
        slot.charge_s = max(0.0, slot.charge_s - rules.quantum_s)
        slot.left_s -= worked_s * speed
