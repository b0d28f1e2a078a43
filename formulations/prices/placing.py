"""A choice within the rows becomes a decision: nodes, next best options, and what is left over."""

from __future__ import annotations

import numpy as np

from formulations.columns import at_choice
from formulations.linear_model import Floats, Ints
from formulations.prices.places import Places
from formulations.prices.rounding import Rounding
from formulations.round.tables import RoundProblem, Selection

NEXT_BEST = 12
"""Options that a job without room tries, by falling reduced value."""

MOVES = 4_000
"""Moves that are tried in a pass to use what is left over."""

PASSES = 6
"""Passes over what is left at most: a move may leave room for others."""

SLACK = 1e-9


def decided_by_prices(problem: RoundProblem, rounding: Rounding) -> Selection:
    """A decision from prices: dealt, shed, placed; `formulations.round.check` says if it is one."""
    return Placing(problem, rounding).placed(rounding.shed(rounding.dealt()))


class Placing:
    """A decision under construction: every job's option with its nodes.

    Parameters
    ----------
    problem
        The round, without pairs.
    rounding
        Its options and limits at prices.
    """

    def __init__(self, problem: RoundProblem, rounding: Rounding) -> None:
        self._problem = problem
        self._rounding = rounding
        self._relaxation = rounding.relaxation
        self._places = Places(problem)
        self._count = problem.candidates.count
        self.option: Ints = np.full(problem.jobs.count, -1, dtype=np.int64)
        self._nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
        shared = self._relaxation.shared
        # Nodes see to what they have by themselves; rules are counted as options come and go.
        self._rows = np.asarray([word == "rule" for word, _, _ in shared.label], dtype=bool)
        self._counted = bool(self._rows.any())
        self._room: Floats = np.where(self._rows, rounding.limit, np.inf)
        self._use = shared.use.T.tocsr()
        option, owner = self._relaxation.options_by_job()
        self._own: Ints = option
        self._first = np.searchsorted(owner, np.arange(problem.jobs.count + 1))

    def placed(self, choice: Ints) -> Selection:
        """The decision that comes of a choice of options, shape (J,)."""
        stays = np.flatnonzero(choice >= self._count).tolist()
        late = [job for job in stays if not self._put(job, int(choice[job]))]
        started = np.flatnonzero((choice >= 0) & (choice < self._count))
        for job in [*late, *self._in_order(started, choice[started])]:
            wanted = int(choice[job])
            if not self._put(job, wanted):
                self._next_best(job, wanted)
        for job in np.flatnonzero(~self._relaxation.idle & (self.option < 0)).tolist():
            self._next_best(job, -1)
        passes = 0
        while passes < PASSES and self._use_what_is_left():
            passes += 1
        return self.selection()

    def selection(self) -> Selection:
        """The decision as it stands."""
        return Selection(self.option.copy(), tuple(self._nodes))

    def _in_order(self, jobs: Ints, options: Ints) -> list[int]:
        """Jobs confined to some nodes first, then by their largest part and number of parts."""
        table = self._problem.candidates
        start = table.part_start[options]
        largest = table.part_gpus[start]
        parts = table.part_start[options + 1] - start
        free = table.node_set[options] == 0
        order = np.lexsort([jobs, table.scope[options], -parts, -largest, free])
        return [int(job) for job in jobs[order].tolist()]

    def _row_change(self, option: int, sign: float) -> Floats:
        change = np.zeros(self._room.size)
        span = slice(int(self._use.indptr[option]), int(self._use.indptr[option + 1]))
        change[self._use.indices[span]] = sign * self._use.data[span]
        return change

    def _put(self, job: int, option: int) -> bool:
        """Give a job that has nothing an option, if rows and nodes have room for it."""
        if self._counted:
            change = self._row_change(option, 1.0)
            grows = change > 0
            if (change > self._room + SLACK * np.maximum(1.0, np.abs(self._room)))[grows].any():
                return False
        if option >= self._count:
            if not self._places.stays(job):
                return False
        else:
            nodes = self._places.starts(option)
            if nodes is None:
                return False
            self._nodes[job] = nodes
        if self._counted:
            self._room = self._room - change
        self.option[job] = option
        return True

    def _drop(self, job: int) -> int:
        """Take a job's option away; what it was."""
        option = int(self.option[job])
        if option < 0:
            return option
        if option >= self._count:
            self._places.leaves(job)
        else:
            self._places.ends(option, self._nodes[job])
        self._nodes[job] = ()
        if self._counted:
            self._room = self._room + self._row_change(option, 1.0)
        self.option[job] = -1
        return option

    def _next_best(self, job: int, failed: int) -> None:
        own = self._own[self._first[job] : self._first[job + 1]]
        reduced = self._rounding.reduced[own]
        worth = self._relaxation.value[own]
        order = np.argsort(-reduced, kind="stable")
        tried = 0
        for at in order.tolist():
            if int(own[at]) == failed or (worth[at] <= 0.0 and bool(self._relaxation.idle[job])):
                continue
            if self._put(job, int(own[at])):
                return
            tried += 1
            if tried >= NEXT_BEST:
                return

    def _use_what_is_left(self) -> bool:
        """Moves that raise the value, least reduced loss per GPU taken first; if there were any."""
        value, reduced = self._relaxation.value, self._rounding.reduced
        table = self._problem.candidates
        most = self._places.most_free()
        if not most.any():
            return False
        option, owner = self._relaxation.options_by_job()
        has = self.option >= 0
        now, cheap = at_choice(value, self.option), at_choice(reduced, self.option)
        own = np.asarray(
            [sum(self._places.gpus_of(j, o)) for j, o in enumerate(self.option.tolist())]
        )
        spare = np.asarray(self._places.spare)
        small = np.flatnonzero(option < self._count)
        room = spare[table.node_class[option[small]]] + own[owner[small]]
        mixed = table.mixed
        small = small[(table.gpus[option[small]] <= room) | mixed[option[small]]]
        option, owner = option[small], owner[small]
        gains = value[option] - now[owner]
        largest = table.part_gpus[table.part_start[option]]
        fits = (largest <= most[table.node_class[option]]) | has[owner]
        good = np.flatnonzero((gains > SLACK * np.abs(now).max(initial=1e-300)) & fits)
        gpus = table.gpus[option[good]]
        loss = (cheap[owner[good]] - reduced[option[good]]) / gpus
        order = good[np.lexsort([-gains[good], loss])][:MOVES]
        moved = False
        for at in order.tolist():
            job, to = int(owner[at]), int(option[at])
            before = int(self.option[job])
            current = float(value[before]) if before >= 0 else 0.0
            if value[to] <= current or not self._may_fit(job, to):
                continue
            nodes = self._nodes[job]
            self._drop(job)
            if self._put(job, to):
                moved = True
            elif before >= 0 and not self._back(job, before, nodes):
                raise AssertionError("what was given back is free")
        return moved

    def _may_fit(self, job: int, option: int) -> bool:
        """Whether a class has as many GPUs free as an option takes, the job's own included."""
        own = self._places.gpus_of(job, int(self.option[job]))
        need = self._places.gpus_of(job, option)
        # Only the classes that it needs: what closed nodes hold may leave others below zero.
        return all(
            want <= spare + mine
            for want, spare, mine in zip(need, self._places.spare, own, strict=True)
            if want
        )

    def _back(self, job: int, option: int, nodes: tuple[int, ...]) -> bool:
        """Give a job the very nodes that it had."""
        if option >= self._count:
            return self._put(job, option)
        self._places.takes(option, nodes)
        self._nodes[job] = nodes
        if self._counted:
            self._room = self._room - self._row_change(option, 1.0)
        self.option[job] = option
        return True
