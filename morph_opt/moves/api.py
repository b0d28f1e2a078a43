"""Public function `moves`: the cheapest moves for a question about a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from formulations.round.tables import NONE
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.moves.answer import FEASIBLE, IMPOSSIBLE, NOTHING, OPTIMAL, UNKNOWN, Moves, Reached
from morph_opt.moves.carry import carried_out
from morph_opt.moves.check import require_right
from morph_opt.moves.pose import PosedQuestion, Solution, pose, solve
from morph_opt.moves.question import SLOTS, Freed, Question
from morph_opt.round.decide import snapshot_of
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.recheck import require_kept
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.registry import make_solver


def moves(
    state: str | Path | Snapshot | dict[str, Any],
    *,
    start: str | None = None,
    free: str | None = None,
    drain: Sequence[str] = (),
    slots: Sequence[int] = (),
    until_s: float = 0.0,
    most_moves: int | None = None,
    exempt: Sequence[str] = (),
    may_stop: Sequence[str] = (),
    checkpoint_s: float = 0.0,
    table: bool = False,
    solver: str = "highs",
    gap: float = 1e-4,
    time_limit_s: float = 10.0,
) -> Moves:
    """Find the cheapest moves that let a job start, free places or empty nodes.

    Give one of ``start``, ``free``, ``drain`` and ``slots``.

    Parameters
    ----------
    state
        A `Snapshot`, the path of one, or its JSON as a dict.
    start
        Name of a waiting job that is to start now.
    free
        Places that are to be free: ``"4 nodes of a100"``, ``"1 nvlink domain"``, ``"1 leaf"``,
        ``"2 x 64 GPUs"``, ``"2 x 16 GPUs in one leaf"``.
    drain
        Names of nodes that are to be empty.
    slots
        GPUs of gangs: how many of each size fit now, and after how many moves.
    until_s
        With ``drain``: jobs that complete within so many seconds are left alone.
    most_moves
        Largest number of running jobs that are moved or stopped; None for any.
    exempt, may_stop
        Patterns of jobs that are not moved, and of jobs that may be stopped.
    checkpoint_s
        Seconds between two checkpoints of a job; 0: a job that is moved keeps its progress.
    table
        Whether to state what becomes free with how many moves, with ``free``.
    solver, gap, time_limit_s
        Name of the solver, relative gap of the loss, and limit of each solve in seconds.

    Raises
    ------
    InputError
        If the state, a name or a value is wrong.
    """
    require_type("free", free, str, None)
    for field, names in (("drain", drain), ("exempt", exempt), ("may_stop", may_stop)):
        require_each(field, names, str)
    question = Question(
        start,
        None if free is None else Freed.parse(free),
        tuple(drain),
        tuple(require_each("slots", slots, int)),
        until_s,
        most_moves,
        tuple(exempt),
        tuple(may_stop),
        checkpoint_s,
    )
    return answer_to(
        snapshot_of(state), question, Limits(gap, time_limit_s), solver=solver, table=table
    )


def answer_to(
    snapshot: Snapshot,
    question: Question,
    limits: Limits,
    *,
    solver: str = "highs",
    table: bool = False,
) -> Moves:
    """Return the answer to a question, checked; see `moves`."""
    asker = _Asker(snapshot, question, limits, solver)
    if question.slots:
        return asker.slots()
    found = asker.answer()
    if table and question.free is not None:
        rows = asker.table(question.free, asker.posed, found.question.most_moves)
        found = replace(found, table=tuple(rows))
    return found


@dataclass
class _Asker:
    """Question with its tables and what is needed to solve it."""

    snapshot: Snapshot
    question: Question
    limits: Limits
    solver_name: str

    def __post_init__(self) -> None:
        self.solver = make_solver(self.solver_name)
        if not self.question.slots:
            self.posed = pose(self.snapshot, self.question)

    def answer(self) -> Moves:
        """Return the answer to a question, except to one about slots."""
        question, posed = self.question, self.posed
        running = self.snapshot.state.held.by_job()
        if question.start in running:
            return Moves(self.snapshot, question, NOTHING, reason=f"{question.start} runs already")
        least = 0
        if question.start is not None:
            least = 1
        elif question.free is not None:
            least = question.free.count
        found = solve(posed, self.solver, self.limits, least=least, most_moves=question.most_moves)
        if found.selection is None:
            proven = found.outcome.status is Status.INFEASIBLE
            why = self._why_not() if proven else "no answer was found within the time limit"
            status = IMPOSSIBLE if proven else UNKNOWN
            return Moves(self.snapshot, question, status, reason=why)
        return self._told(found)

    def _told(self, found: Solution) -> Moves:
        """Check a solution and return it as an answer."""
        posed, selection = self.posed, found.selection
        assert selection is not None
        steps, after = carried_out(posed, selection)
        places = tuple(
            selection.nodes[place]
            for place in posed.wanted.tolist()
            if self.question.free is not None and selection.choice[place] != NONE
        )
        proven = found.proven(self.limits.gap)
        status = OPTIMAL if proven else FEASIBLE
        reason = ""
        if not any(step.before is not None for step in steps):
            fits = self.question.start is not None
            status, reason = NOTHING, "fits without a move" if fits else "is so already"
        made = Moves(
            self.snapshot,
            self.question,
            status,
            steps,
            after,
            places,
            found.loss,
            found.bound,
            found.gap,
            reason=reason,
            left_alone=posed.left_alone,
        )
        require_right(made)
        require_kept(posed.state, after, posed.rules, posed.view)
        return made

    def _why_not(self) -> str:
        """Return why a question has no answer, as far as counts show it."""
        posed, question = self.posed, self.question
        problem = posed.problem
        fixed = posed.leaving[np.isin(posed.leaving, _without_start(posed))]
        if fixed.size and not question.may_stop:
            names = [posed.view.states[job].job.name for job in fixed.tolist()]
            return f"{', '.join(names[:3])} can run nowhere else in the same configuration"
        starts = np.isin(problem.candidates.job, posed.wanted)
        if posed.wanted.size and not starts.any():
            return "no node is large enough"
        held = problem.held()[:, 0]
        free = (problem.nodes.capacity[problem.nodes.node_class, 0] - held)[problem.nodes.open]
        if posed.wanted.size and question.start is not None:
            need = int(problem.candidates.gpus[starts].min())
        elif question.free is not None:
            gpus = [problem.candidates.gpus[problem.candidates.job == j] for j in posed.wanted]
            need = sum(sorted(int(one.min()) for one in gpus if one.size)[: question.free.count])
        else:
            need = int(problem.holds.demand[np.isin(problem.holds.job, posed.leaving), 0].sum())
        if need > free.sum() and not question.may_stop:
            return f"needs {need} free GPUs, {int(free.sum())} are"
        return "no moves within the rules and limits make it so (proven)"

    def table(
        self, freed: Freed, posed: PosedQuestion, most_moves: int | None
    ) -> Iterator[Reached]:
        """Yield what becomes free without moves, with a few, and with any number of moves."""
        last = self._reached(freed, posed, most_moves)
        if last is None:
            return
        known: Reached | None = None
        for allowed in _fewer(last.moves):
            row = self._reached(freed, posed, allowed)
            if row is not None and (known is None or _better(row, known)):
                known = row
                yield row
        if known is None or _better(last, known):
            yield last

    def _reached(
        self, freed: Freed, posed: PosedQuestion, most_moves: int | None
    ) -> Reached | None:
        found = solve(posed, self.solver, self.limits, most_moves=most_moves, as_many=True)
        if found.selection is None:
            return None
        stays = posed.problem.options.stay
        moved = int(((stays >= 0) & (found.selection.choice != stays)).sum())
        count = int((found.selection.choice[posed.wanted] != NONE).sum())
        proven = found.proven(self.limits.gap)
        return Reached(freed.one, most_moves, count, moved, found.loss, proven)

    def slots(self) -> Moves:
        """Return how many gangs of each size fit now, and after how many moves."""
        rows: list[Reached] = []
        for size in dict.fromkeys(self.question.slots):
            freed = Freed(1, SLOTS, size)
            posed = pose(self.snapshot, self.question, freed)
            rows += self.table(freed, posed, self.question.most_moves)
        status = OPTIMAL if all(row.proven for row in rows) else FEASIBLE
        return Moves(self.snapshot, self.question, status, table=tuple(rows))


def _without_start(posed: PosedQuestion) -> np.ndarray:
    """Return the jobs that have no candidate."""
    count = np.bincount(posed.problem.candidates.job, minlength=posed.problem.jobs.count)
    return np.flatnonzero(count == 0)


def _better(row: Reached, other: Reached) -> bool:
    """Return whether one answer frees more than another, or the same at less loss."""
    return (row.count, -row.loss_gpu_s) > (other.count, -other.loss_gpu_s)


def _fewer(moves: int) -> list[int]:
    """Return the smaller numbers of moves to try: all up to 4, then doubled ones."""
    found = [*range(min(moves, 5))]
    while found and found[-1] * 2 < moves and moves > 5:
        found.append(found[-1] * 2)
    return found or [0]
