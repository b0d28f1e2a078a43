"""Answer to a question about moves: ordered steps, their cost, and what they free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from morph_opt.core.domain import Allocation, Assignment
from morph_opt.core.domain.errors import some
from morph_opt.core.table import Table
from morph_opt.moves.order import START, STOP
from morph_opt.moves.places import place_name
from morph_opt.moves.question import Question
from morph_opt.round.snapshot import Snapshot, parts_to_json

MOVES_SCHEMA = "morph-opt/moves/1"
SHOWN = 20
"""Number of free places and jobs left alone that the text names; the document names all."""

OPTIMAL, FEASIBLE, NOTHING, IMPOSSIBLE, UNKNOWN = (
    "optimal",
    "feasible",
    "nothing to do",
    "impossible",
    "unknown",
)
STATUSES = (OPTIMAL, FEASIBLE, NOTHING, IMPOSSIBLE, UNKNOWN)
"""Kinds of answers: proven within the gap, not proven, no move needed, proven to be impossible, no
answer within the time limit."""


@dataclass(frozen=True, slots=True)
class Move:
    """Step of an answer.

    Parameters
    ----------
    kind
        ``"move"``, ``"stop"`` or ``"start"``.
    job
        Name of the job.
    before, after
        Holdings of the job before and after the step; None for nothing.
    loss_gpu_s
        GPU-seconds that the job loses by the step; 0 for a start.
    restart_s, lost_s
        Seconds of start-up and of lost progress in it.
    why
        Purpose of the step.
    """

    kind: str
    job: str
    before: Assignment | None
    after: Assignment | None
    loss_gpu_s: float
    restart_s: float
    lost_s: float
    why: str

    @property
    def gpus(self) -> int:
        """GPUs that the job holds before or after it."""
        held = self.before or self.after
        return 0 if held is None else held.placement.gpus


@dataclass(frozen=True, slots=True)
class Reached:
    """Places that become free with a number of moves.

    Parameters
    ----------
    what
        Place that is counted.
    most_moves
        Largest number of moves; None for any.
    count
        Places that are free then.
    moves
        Moves that it takes.
    loss_gpu_s
        Least GPU-seconds lost.
    proven
        Whether count and loss are proven within the gap.
    """

    what: str
    most_moves: int | None
    count: int
    moves: int
    loss_gpu_s: float
    proven: bool


@dataclass(frozen=True, slots=True, repr=False)
class Moves:
    """Cheapest moves for a question.

    Parameters
    ----------
    snapshot, question
        The state, and what was asked of it.
    status
        One of `STATUSES`.
    steps
        Steps in an order that can be carried out.
    after
        Allocation after all steps.
    places
        Nodes of each place that is free then, in the order of the place's parts.
    loss_gpu_s
        GPU-seconds lost in all.
    bound_gpu_s
        Proven lower bound on them.
    gap
        Relative distance between the two.
    table
        Places that become free, by number of moves; empty unless requested.
    reason
        Why there is no answer, or nothing to do; "" if there are steps.
    left_alone
        Jobs that stay until they complete on a node that is to be empty.
    """

    snapshot: Snapshot
    question: Question
    status: str
    steps: tuple[Move, ...] = ()
    after: Allocation | None = None
    places: tuple[tuple[int, ...], ...] = ()
    loss_gpu_s: float = 0.0
    bound_gpu_s: float = 0.0
    gap: float = 0.0
    table: tuple[Reached, ...] = ()
    reason: str = ""
    left_alone: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Moves to {self.question.words}: {self.status}, {self.moved} moves>"

    @property
    def moved(self) -> int:
        """Number of running jobs that are moved or stopped."""
        running = {known.job.name for known in self.snapshot.state.jobs if known.running}
        return len({step.job for step in self.steps if step.job in running})

    @property
    def freed(self) -> tuple[str, ...]:
        """Nodes, domains, leaves or slots that are free after the steps, by name."""
        freed, cluster = self.question.free, self.snapshot.state.cluster
        if freed is None:
            return ()
        return tuple(place_name(freed, cluster, nodes) for nodes in self.places)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Names of the jobs that are stopped and not started again."""
        again = {step.job for step in self.steps if step.kind == START}
        return tuple(s.job for s in self.steps if s.kind == STOP and s.job not in again)

    @property
    def possible(self) -> bool:
        """Whether there is an answer."""
        return self.status in (OPTIMAL, FEASIBLE, NOTHING)

    def to_json(self) -> dict[str, Any]:
        """Return the document ``morph-opt/moves/1``."""
        cluster = self.snapshot.state.cluster

        def held(one: Assignment | None) -> list[dict[str, Any]]:
            return [] if one is None else parts_to_json(one, cluster)

        return {
            "schema": MOVES_SCHEMA,
            "question": self.question.words,
            "status": self.status,
            "reason": self.reason,
            "moves": self.moved,
            "loss_gpu_s": self.loss_gpu_s,
            "bound_gpu_s": self.bound_gpu_s,
            "gap": self.gap,
            "steps": [
                {
                    "step": at,
                    "kind": step.kind,
                    "job": step.job,
                    "gpus": step.gpus,
                    "from": held(step.before),
                    "to": held(step.after),
                    "loss_gpu_s": step.loss_gpu_s,
                    "restart_s": step.restart_s,
                    "lost_s": step.lost_s,
                    "for": step.why,
                }
                for at, step in enumerate(self.steps, 1)
            ],
            "intents": self.intents(),
            "freed": list(self.freed),
            "left_alone": list(self.left_alone),
            "table": [
                {
                    "what": row.what,
                    "most_moves": row.most_moves,
                    "count": row.count,
                    "moves": row.moves,
                    "loss_gpu_s": row.loss_gpu_s,
                    "proven": row.proven,
                }
                for row in self.table
            ],
        }

    def intents(self) -> list[dict[str, Any]]:
        """Return the steps as intents of `live`, in order, each with the power that it needs.

        A move is a stop and a start: ``live`` starts a job only where the scheduler says that GPUs
        are free.
        """
        cluster = self.snapshot.state.cluster
        found: list[dict[str, Any]] = []
        for step in self.steps:
            if step.before is not None:
                found.append({"kind": "stop", "job": step.job, "power": "stops"})
            if step.after is not None:
                parts = step.after.placement.parts
                nodes = [cluster.nodes[node].name for node, _ in parts]
                gpus = [list(own) for _, own in parts]
                start = {"kind": "start", "job": step.job, "nodes": nodes, "gpus": gpus}
                found.append(start | {"power": "placement"})
        return found

    def to_table(self) -> Table:
        """Return the steps as a table."""
        cluster = self.snapshot.state.cluster

        def where(one: Assignment | None) -> str:
            if one is None:
                return ""
            parts = one.placement.parts
            shown = [f"{cluster.nodes[node].name}:{len(gpus)}" for node, gpus in parts]
            return " ".join(shown)

        rows = [
            (
                at,
                step.kind,
                step.job,
                step.gpus,
                where(step.before),
                where(step.after),
                None if step.kind == START else step.loss_gpu_s,
                step.why,
            )
            for at, step in enumerate(self.steps, 1)
        ]
        header = ("step", "what", "job", "GPUs", "from", "to", "GPU-s lost", "for")
        return Table(header, rows, "rllrllrl", {"GPU-s lost": ",.0f"})

    def to_frontier(self) -> Table:
        """Return the table of moves against what becomes free."""
        rows = [
            (
                row.what,
                row.count,
                row.moves,
                row.loss_gpu_s,
                "yes" if row.proven else "no",
            )
            for row in self.table
        ]
        header = ("what", "free", "moves", "GPU-s lost", "proven")
        return Table(header, rows, "lrrrl", {"GPU-s lost": ",.0f"})

    def to_text(self) -> str:
        """Return a summary line, the steps and the table."""
        lines = [self.headline]
        if self.steps:
            lines += ["", self.to_table().to_text()]
        stops = [step.job for step in self.steps if step.kind == STOP]
        between = [job for job in stops if job not in self.stopped]
        lines += [
            f"{job} is stopped in between: its new GPUs are not free before" for job in between
        ]
        if self.freed:
            lines += ["", f"free then: {some(self.freed, SHOWN)}"]
        if self.left_alone:
            lines.append(f"left to complete: {some(self.left_alone, SHOWN)}")
        if self.table:
            lines += ["", self.to_frontier().to_text()]
        return "\n".join(lines) + "\n"

    @property
    def headline(self) -> str:
        """Sentence that states the answer."""
        if not self.possible or self.status == NOTHING:
            return f"{self.question.words}: {self.status}: {self.reason}"
        if self.question.slots:
            return f"{self.question.words}: {self.status}"
        stopped = len(self.stopped)
        counts = ((self.moved - stopped, "move"), (stopped, "stop"))
        shown = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n]
        many = " and ".join(shown)
        return (
            f"{self.question.words}: {self.status}, {many} at a loss of {self.loss_gpu_s:,.0f} "
            f"GPU-seconds (at least {self.bound_gpu_s:,.0f}, gap {self.gap:.3g})"
        )
