"""Gandiva's time slices on whole servers: round robin per host, affinity, migration, growth.

The publication (OSDI'18) describes the mechanisms; the exact rules, ours where it is silent, are on
``docs/gandiva-easyscale.md``. A *host* is a server, or several whole ones for a larger gang.
Decisions are made at multiples of the quantum only; jobs complete at their exact second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from morph_opt.scheduling.policies.published import GANDIVA


@dataclass(frozen=True, slots=True)
class HostRules:
    """Servers and enabled mechanisms.

    Parameters
    ----------
    servers, per_server
        Servers, and GPUs of each.
    migrate
        Whether jobs are moved: off overloaded hosts, together, and to make room for gangs.
    any_affinity
        Whether a gang may join a full host of another size (ours; the paper keeps it waiting).
    quantum_s
        Length of a slice.
    """

    servers: int
    per_server: int
    migrate: bool = False
    any_affinity: bool = False
    quantum_s: float = 60.0


@dataclass(slots=True, eq=False)
class Slot:
    """Job on a host, with the values that determine its turn.

    Parameters
    ----------
    name
        Number of the job; it breaks ties between instants.
    gpus
        GPUs of its gang.
    submit_s
        Time of submission.
    last_end_s
        End of the last round in which it ran; -1 before.
    """

    name: int
    gpus: int
    submit_s: float
    last_end_s: float = -1.0

    @property
    def turn(self) -> tuple[bool, float, float, int]:
        """Order of turns: never served first, then by end of the last turn, submission, name."""
        return self.last_end_s >= 0, self.last_end_s, self.submit_s, self.name


@dataclass(slots=True, eq=False)
class Host:
    """Servers that gangs of one size share; see the module."""

    servers: tuple[int, ...]
    size: int
    capacity: int
    slots: list[Slot] = field(default_factory=list)

    @property
    def load(self) -> int:
        """Sum of the gangs, suspended ones included."""
        return sum(slot.gpus for slot in self.slots)

    @property
    def free(self) -> int:
        """Capacity less load; negative if oversubscribed."""
        return self.capacity - self.load


Running = list[tuple[int, int, tuple[int, ...]]]
"""Job, GPUs and servers of every running job, ordered by name."""


class Hosts:
    """Assignment of jobs to shared servers, from boundary to boundary.

    Attributes
    ----------
    hosts
        Hosts that have jobs.
    queue
        Jobs without a host, in order.
    """

    def __init__(self, rules: HostRules) -> None:
        self.rules = rules
        self.hosts: list[Host] = []
        self.queue: list[Slot] = []

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
        """Make a host of this size from the empty servers with the lowest numbers."""
        servers = self._empty()[: self._span(gang)]
        if len(servers) < self._span(gang):
            return None
        host = Host(tuple(servers), gang, len(servers) * self.rules.per_server)
        self.hosts.append(host)
        return host

    def _least_loaded(self, hosts: Sequence[Host], relative: int = 0) -> Host | None:
        """Return the host with the least load, absolute or relative after one more gang."""

        def key(host: Host) -> tuple[float, int]:
            load = (host.load + relative) / host.capacity if relative else host.load
            return load, host.servers[0]

        return min(hosts, key=key, default=None)

    def _with_room(self, gang: int) -> Host | None:
        """Return a host of the size with free capacity, or one made of empty servers."""
        fitting = [host for host in self.hosts if host.size == gang and host.free >= gang]
        return self._least_loaded(fitting) or self._open_host(gang)

    def _oversubscribed(self, gang: int, hosts: Sequence[Host]) -> Host | None:
        """Return the least loaded host of the size; if affinity is optional, else of any size."""
        found = self._least_loaded([host for host in hosts if host.size == gang])
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

    def _unshare(self) -> None:
        """Move the last jobs in turn of overloaded hosts to free capacity while there is some."""
        while True:
            heavy = [host for host in self.hosts if host.free < 0]
            heavy.sort(key=lambda host: (-host.load / host.capacity, host.servers[0]))
            for host in heavy:
                last = max(host.slots, key=lambda slot: slot.turn)
                there = self._with_room(last.gpus)
                if there is not None:
                    self._move(last, host, there)
                    break
            else:
                return

    def _defragment(self) -> None:
        """Empty hosts with few residents if all of these fit on other hosts."""
        single = [host for host in self.hosts if len(host.servers) == 1]
        light = [host for host in single if host.free >= GANDIVA.light * host.capacity]
        light.sort(key=lambda host: (-host.free, host.servers[0]))
        for host in light:
            before = [
                other
                for other in single
                if other.slots and (other.free, other.servers[0]) < (host.free, host.servers[0])
            ]
            room = {id(other): other.free for other in before}
            plan: list[tuple[Slot, Host]] = []
            for slot in sorted(host.slots, key=lambda slot: (-slot.gpus, slot.turn)):
                fits = [other for other in before if room[id(other)] >= slot.gpus]
                if not fits:
                    break
                there = min(fits, key=lambda other: (room[id(other)], other.servers[0]))
                room[id(there)] -= slot.gpus
                plan.append((slot, there))
            if host.slots and len(plan) == len(host.slots):
                for slot, there in plan:
                    self._move(slot, host, there)
        self._dissolve()

    def _admit(self) -> None:
        waiting = []
        for slot in self.queue:
            host = self._place_of(slot.gpus)
            if host is None and self.rules.migrate:
                host = self._made_room(slot.gpus)
            if host is None:
                waiting.append(slot)
            else:
                host.slots.append(slot)
        self.queue = waiting

    def _made_room(self, gang: int) -> Host | None:
        """Empty hosts with the fewest residents until there are servers enough."""
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
                there = self._oversubscribed(slot.gpus, rest)
                if there is None:
                    for moved, _, joined in added:
                        joined.slots.remove(moved)
                    return None
                there.slots.append(slot)
                added.append((slot, host, there))
        for slot, host, _ in added:
            host.slots.remove(slot)
        self._dissolve()
        return self._open_host(gang)

    # ------------------------------------------------------------ time

    def _assigned(self, now: float) -> Running:
        """Move and admit jobs, then serve the jobs of every host in turn."""
        if self.rules.migrate:
            self._unshare()
            self._defragment()
        self._admit()
        running: Running = []
        for host in self.hosts:
            free = host.capacity
            order = sorted(host.slots, key=lambda slot: slot.turn)
            chosen = []
            for slot in order:
                if slot.gpus <= free:
                    free -= slot.gpus
                    chosen.append((slot, slot.gpus))
            if len(chosen) == len(order) and not self.queue:
                grown = []
                for slot, gpus in chosen:
                    more = self._more(slot, host, free)
                    free -= more
                    grown.append((slot, gpus + more))
                chosen = grown
            for slot, gpus in chosen:
                self._serve(slot, gpus, now)
                running.append((slot.name, gpus, host.servers))
        return sorted(running)

    def _more(self, slot: Slot, host: Host, idle: int) -> int:
        """Return how many idle GPUs of its host a job takes beyond its gang."""
        raise NotImplementedError

    def _serve(self, slot: Slot, gpus: int, now: float) -> None:  # noqa: ARG002 - a course counts them
        slot.last_end_s = now + self.rules.quantum_s
