"""A whole course of time slices: the rules of `Hosts` with a clock, work and charges of its own.

Decisions are made at multiples of the quantum only; jobs complete at their exact second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.gandiva.slices import Host, HostRules, Hosts, Running, Slot


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRules(HostRules):
    """Servers, mechanisms and charges.

    Parameters
    ----------
    first_s, resume_s, move_s, resize_s
        Charges of a first start, of running again after a pause, after a move, with other GPUs.
    height
        Most gangs per lane of a host that is oversubscribed; None for any number.
    """

    first_s: float = 0.0
    resume_s: float = 0.0
    move_s: float = 0.0
    resize_s: float = 0.0
    height: int | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class SlicedJob(Slot):
    """A job in the course of time.

    Parameters
    ----------
    job
        What it is.
    left_s, charge_s
        Work and start-up to go.
    held
        GPUs of the last round in which it ran.
    moved
        Whether a move is still to be paid; one before its first start is paid when it runs again.
    first_s, end_s
        First boundary with GPUs, and completion.
    """

    job: SliceJob
    left_s: float
    charge_s: float = 0.0
    held: int = 0
    moved: bool = False
    first_s: float = -1.0
    end_s: float = math.inf
    starts: int = 0
    resumes: int = 0
    moves: int = 0
    resizes: int = 0

    @classmethod
    def of(cls, job: SliceJob) -> SlicedJob:
        """Before its first slice."""
        return cls(name=job.name, gpus=job.gpus, submit_s=job.submit_s, job=job, left_s=job.work_s)


class Slices(Hosts):
    """The whole course of some jobs.

    Parameters
    ----------
    jobs
        Any order.
    rules
        See `SliceRules`.
    cancel
        Asked at every boundary with what runs and waits: what is cancelled.

    Attributes
    ----------
    rounds
        Boundaries at which something runs, with what runs.
    """

    rules: SliceRules

    def __init__(
        self,
        jobs: Sequence[SliceJob],
        rules: SliceRules,
        cancel: Callable[[float, Sequence[SlicedJob]], Sequence[Slot]] | None = None,
    ) -> None:
        super().__init__(rules)
        for job in jobs:
            if not 1 <= job.gpus <= rules.servers * rules.per_server:
                raise InputError(f"asks for {job.gpus} GPUs", field=f"job {job.name}")
        self.slots = [SlicedJob.of(job) for job in jobs]
        self.rounds: list[tuple[float, Running]] = []
        self._cancel = cancel

    def run(self) -> list[SlicedJob]:
        """Until every job is complete or cancelled; in the order of the jobs."""
        coming = sorted(self.slots, key=lambda slot: (slot.submit_s, slot.name))
        now, quantum = 0.0, self.rules.quantum_s
        while coming or self.queue or self.hosts:
            now += quantum
            if not (self.queue or self.hosts):
                now = max(now, math.ceil(coming[0].submit_s / quantum) * quantum)
            complete = {id(slot) for slot in self.slots if slot.end_s <= now}
            self._leave(lambda slot, gone=complete: id(slot) in gone)  # type: ignore[misc]
            while coming and coming[0].submit_s <= now:
                self.queue.append(coming.pop(0))
            if self._cancel is not None:
                gone = self._cancel(now, self.slots)
                self._leave(lambda slot, gone=gone: slot in gone)  # type: ignore[misc]
                self.queue = [slot for slot in self.queue if slot not in gone]
                coming = [slot for slot in coming if slot not in gone]
            if running := self._assigned(now):
                self.rounds.append((now, running))
        return self.slots

    def _oversubscribed(self, gang: int, hosts: Sequence[Host]) -> Host | None:
        height = self.rules.height
        if height is None:
            return super()._oversubscribed(gang, hosts)
        low = [host for host in hosts if -(-(host.load + gang) // host.capacity) <= height]
        return super()._oversubscribed(gang, low)

    def _move(self, slot: Slot, here: Host, there: Host) -> None:
        super()._move(slot, here, there)
        self._note(slot)

    def _made_room(self, gang: int) -> Host | None:
        before = {id(slot): host for host in self.hosts for slot in host.slots}
        found = super()._made_room(gang)
        for host in self.hosts:
            for slot in host.slots:
                if before.get(id(slot), host) is not host:
                    self._note(slot)
        return found

    @staticmethod
    def _note(slot: Slot) -> None:
        assert isinstance(slot, SlicedJob)
        slot.moved = True

    def _more(self, slot: Slot, host: Host, idle: int) -> int:  # noqa: ARG002 - others look at it
        assert isinstance(slot, SlicedJob)
        return max(0, min(idle, slot.job.most - slot.gpus))

    def _serve(self, slot: Slot, gpus: int, now: float) -> None:
        assert isinstance(slot, SlicedJob)
        rules, last_end_s = self.rules, slot.last_end_s
        if last_end_s < 0:
            slot.first_s, slot.starts, slot.charge_s = now, 1, rules.first_s
        elif slot.moved:
            slot.moves += 1
            slot.charge_s, slot.moved = rules.move_s, False
        elif last_end_s < now:
            slot.resumes += 1
            slot.charge_s = rules.resume_s
        elif gpus != slot.held:
            slot.resizes += 1
            slot.charge_s = rules.resize_s
        super()._serve(slot, gpus, now)
        slot.held = gpus
        speed = gpus / slot.gpus
        needed_s = slot.charge_s + slot.left_s / speed
        if needed_s <= rules.quantum_s:
            slot.end_s, slot.left_s = now + needed_s, 0.0
            return
        worked_s = max(0.0, rules.quantum_s - slot.charge_s)
        slot.charge_s = max(0.0, slot.charge_s - rules.quantum_s)
        slot.left_s -= worked_s * speed
