"""Steps of an answer carried out in a state that has changed since, never onto GPUs in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from morph_opt.core.documents import Fields, read_json
from morph_opt.core.domain import (
    Allocation,
    Assignment,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.moves.answer import MOVES_SCHEMA, Moves
from morph_opt.moves.order import MOVE, START, STOP
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport

Parts = Mapping[str, tuple[int, ...]]
"""GPU numbers by name of the node."""

DONE, NOW, WAITS, DROPPED = "done", "now", "waits", "dropped"
STANDINGS = (DONE, NOW, WAITS, DROPPED)
"""Standing of a step: done, carried out in this round, possible later, never carried out."""


@dataclass(frozen=True, slots=True)
class NamedStep:
    """Step of an answer, with nodes by name.

    Parameters
    ----------
    kind, job
        ``"move"``, ``"stop"`` or ``"start"``, and the job.
    before, after
        Holdings before and after the step; empty for none.
    """

    kind: str
    job: str
    before: Parts
    after: Parts


@dataclass(frozen=True, slots=True)
class Standing:
    """Standing of a step in a state: one of `STANDINGS`, with the reason unless it is done."""

    step: NamedStep
    word: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Followed:
    """Next allocation on the way of an answer, and the standing of each step."""

    allocation: Allocation
    standings: tuple[Standing, ...]

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return all(one.word in (DONE, DROPPED) for one in self.standings)


def steps_of(answer: Moves) -> tuple[NamedStep, ...]:
    """Return the steps of an answer."""
    nodes = answer.snapshot.state.cluster.nodes

    def parts(held: Assignment | None) -> Parts:
        placed = () if held is None else held.placement.parts
        return {nodes[node].name: tuple(gpus) for node, gpus in placed}

    return tuple(
        NamedStep(one.kind, one.job, parts(one.before), parts(one.after)) for one in answer.steps
    )


def read_steps(file: Path) -> tuple[str, tuple[NamedStep, ...]]:
    """Read question and steps of a document ``morph-opt/moves/1``.

    Raises
    ------
    InputError
        If it is none, or has no steps.
    """
    read = Fields(read_json(file), "", str(file), None)
    if read.text("schema", "") != MOVES_SCHEMA:
        rule = f"must be {MOVES_SCHEMA!r}: write it with moves --format json"
        raise read.error("schema", rule)
    question, status = read.text("question"), read.text("status")
    steps = tuple(_read_step(one) for one in read.objects("steps", None))
    if not steps:
        reason = read.text("reason", "")
        rule = f"has no steps ({question}: {status}{': ' * bool(reason)}{reason})"
        raise read.error("steps", rule)
    return question, steps


def _read_step(row: Fields) -> NamedStep:
    """Read a step; its kind must agree with its holdings."""

    def parts(name: str) -> Parts:
        rows = row.objects(name, ("node", "gpus"))
        return {one.text("node"): one.value("gpus", tuple[int, ...]) for one in rows}

    step = NamedStep(row.text("kind"), row.text("job"), parts("from"), parts("to"))
    held = {MOVE: (True, True), STOP: (True, False), START: (False, True)}
    if held.get(step.kind) != (bool(step.before), bool(step.after)):
        raise row.error("kind", f"{step.kind[:20]!r} does not agree with from and to")
    return step


def follow(
    steps: Sequence[NamedStep],
    state: RoundState,
    *,
    away: Collection[str] = (),
    most: int = 1,
    against: Callable[[Mapping[str, Assignment]], str] = lambda _: "",
) -> Followed:
    """Return the allocation in which the next steps are carried out, and all else stays.

    A step takes GPUs that are free before this round, less those that earlier pending steps still
    need. So no step waits for a later one, and nothing is taken that another job holds. A step
    whose job is neither where the answer knows it nor off its GPUs shows that the answer is out
    of date: then no further job is taken off its GPUs, but those that are off them still start.
    The same holds if the job that is to start is gone or runs.

    Parameters
    ----------
    steps
        Steps in their order.
    state
        State of this round.
    away
        Jobs without GPUs that the state does not list and that will come back to it.
    most
        Largest number of jobs that are taken off their GPUs or on their way at a time.
    against
        Returns why an allocation, by job, must not be; "" if it may.
    """
    return _Follower(steps, state, away, most, against).follow()


@dataclass
class _Follower:
    """Walk through the steps of an answer in one round."""

    steps: Sequence[NamedStep]
    state: RoundState
    away: Collection[str]
    most: int
    against: Callable[[Mapping[str, Assignment]], str]
    free: dict[str, int] = field(init=False)
    known: dict[str, JobState] = field(init=False)

    def __post_init__(self) -> None:
        cluster = self.state.cluster
        self.known = {one.job.name: one for one in self.state.jobs}
        self.held = self.state.held.by_job()
        self.free = {
            node.name: 0 if at in self.state.unavailable else node.type.gpus
            for at, node in enumerate(cluster.nodes)
        }
        for one in self.held.values():
            for at, gpus in one.placement.parts:
                self.free[cluster.nodes[at].name] -= len(gpus)
        self.at = {name: self._position(name) for name in (step.job for step in self.steps)}
        self.moved = {step.job for step in self.steps if step.before}
        self.stale = self._stale()

    def follow(self) -> Followed:
        """Return allocation and standings."""
        found, seen, under_way, pending = [], dict[str, int](), 0, False
        for step in self.steps:
            own = seen.get(step.job, 0)
            seen[step.job] = own + 1
            # Jobs that waited from the beginning are not on their way.
            off = step.job not in self.held and own == self.at[step.job] and step.job in self.moved
            holds = self._own(step.job)
            word, why = self._standing(step, own, pending, under_way)
            found.append(Standing(step, word, why))
            if word in (NOW, WAITS):
                pending = True
                self._reserve(step, holds)
                under_way += word == NOW or off
        order = [name for name in self.known if name in self.held]
        return Followed(Allocation(tuple(self.held[name] for name in order)), tuple(found))

    def _position(self, job: str) -> int:
        """Return the number of a job's steps that are done; -1 if it is gone or elsewhere."""
        mine = [step for step in self.steps if step.job == job]
        if job in self.held:
            now = self._counts(self.held[job])
            places = [_sizes(mine[0].before), *(_sizes(step.after) for step in mine)]
            fits = [at for at, place in enumerate(places) if place == now]
            return max(fits, default=-1)
        if job not in self.known and job not in self.away:
            return -1
        # It is off its GPUs: after its last stop, or on its way to its first place.
        return max((at for at, step in enumerate(mine, 1) if not step.after), default=0)

    def _counts(self, held: Assignment) -> dict[str, int]:
        nodes = self.state.cluster.nodes
        return {nodes[at].name: len(gpus) for at, gpus in held.placement.parts}

    def _stale(self) -> str:
        """Return why no further job may be taken off its GPUs; "" if it may."""
        for job, at in self.at.items():
            if at == -1 and job in self.held:
                return f"{job} runs elsewhere than in the answer"
            if job not in self.moved and at == -1:
                return f"{job}, which is to start, is gone"
            if job not in self.moved and at == 1:
                return f"{job} runs already"
        return ""

    def _standing(
        self, step: NamedStep, own: int, pending: bool, under_way: int
    ) -> tuple[str, str]:
        """Return the standing of a step, and carry it out if it is to be done now."""
        at = self.at[step.job]
        if at == -1:
            elsewhere = step.job in self.held
            return DROPPED, "runs elsewhere" if elsewhere else "has ended or takes no part"
        if own < at:
            return DONE, ""
        running = step.job in self.held
        if self.stale and running:
            return DROPPED, self.stale
        if own > at:
            return WAITS, "comes after an earlier step"
        if step.kind == STOP and pending:
            return WAITS, "comes after earlier steps"
        if step.job not in self.known:
            return WAITS, "is on its way"
        if running and under_way >= self.most:
            return WAITS, f"{self.most} at a time"
        short = self._short(step)
        if short:
            return WAITS, f"waits for GPUs of {short}"
        return self._carried_out(step)

    def _own(self, job: str) -> dict[str, int]:
        return self._counts(self.held[job]) if job in self.held else {}

    def _short(self, step: NamedStep) -> str:
        """Return a node with too few free GPUs for a step; "" if there is none."""
        own = self._own(step.job)
        for node, gpus in step.after.items():
            if self.free.get(node, 0) + own.get(node, 0) * (node in self.free) < len(gpus):
                return node
        return ""

    def _reserve(self, step: NamedStep, holds: Mapping[str, int]) -> None:
        """Keep what a pending step needs, beyond what its job holds, from those after it."""
        for node, gpus in step.after.items():
            if node in self.free:
                self.free[node] -= max(0, len(gpus) - holds.get(node, 0))

    def _carried_out(self, step: NamedStep) -> tuple[str, str]:
        """Carry out a step, unless a rule forbids it."""
        held = dict(self.held)
        had = held.pop(step.job, None)
        if step.after:
            plan = self.known[step.job].job.requested_plan if had is None else had.plan
            held[step.job] = Assignment(step.job, plan, self._placement(step, held))
        why = self.against(held)
        if why:
            return WAITS, why
        self.held = held
        return NOW, ""

    def _placement(self, step: NamedStep, held: Mapping[str, Assignment]) -> Placement:
        """Return free GPUs of the step's nodes, those that it names first."""
        cluster, parts = self.state.cluster, dict[int, list[int]]()
        for name, gpus in step.after.items():
            node = cluster.node_index[name]
            taken = {
                gpu
                for one in held.values()
                for other, own in one.placement.parts
                if other == node
                for gpu in own
            }
            every = dict.fromkeys((*gpus, *range(cluster.nodes[node].type.gpus)))
            parts[node] = [gpu for gpu in every if gpu not in taken][: len(gpus)]
        return Placement.of(parts)


def _sizes(parts: Parts) -> dict[str, int]:
    """Return the number of GPUs on each node."""
    return {node: len(gpus) for node, gpus in parts.items()}


class Following(Policy):
    """Policy that leaves every job where it is but for the next steps of an answer; see `follow`.

    Parameters
    ----------
    answer
        Answer whose steps are carried out.
    most
        Largest number of moves in a round.
    """

    name = "following"

    def __init__(self, answer: Moves, most: int = 1) -> None:
        self._steps, self._most = steps_of(answer), most

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        followed = follow(self._steps, state, most=self._most)
        return Decision(followed.allocation, RoundReport("followed"))
