"""A choice within the rows becomes a decision: nodes, next best options, and what is left over."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice
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
    """A decision from prices: rounded, repaired, placed; `formulations.round.check` judges it."""
    return Placing(problem, rounding).placed(rounding.repaired(rounding.rounded()))


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
        self._use = shared.use.T.tocsr() if self._counted else None
        self._own, self._owner = self._relaxation.options_by_job()
        self._first = np.searchsorted(self._owner, np.arange(problem.jobs.count + 1))
        options = problem.options
        self._gpus = self._relaxation.gpus_open
        self._class = options.node_class
        self._pure = options.of_one_class
        starts = self._own < self._count
        self._starts, self._starter = self._own[starts], self._owner[starts]
        self._worth = self._relaxation.value[self._starts]
        self._better: Ints | None = None

    def placed(self, choice: Ints) -> Selection:
        """The decision that comes of a choice of options, shape (J,)."""
        stays = np.flatnonzero(choice >= self._count)
        late: list[int] = []
        if not self._all_stay(stays, choice):
            late = [job for job in stays.tolist() if not self._put(job, int(choice[job]))]
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

    def _all_stay(self, jobs: Ints, choice: Ints) -> bool:
        """Put all that go on at once, if rows have room for them together."""
        continuing = np.full(choice.size, -1, dtype=np.int64)
        continuing[jobs] = choice[jobs]
        room = self._room
        if self._counted:
            room = room - np.where(self._rows, self._relaxation.usage(continuing), 0.0)
        if (room < 0.0).any() or not self._places.all_stay(jobs):
            return False
        self._room, self.option = room, continuing
        return True

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
        assert self._use is not None
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
        most = self._places.most_free()
        if not most.any():
            return False
        now = at_choice(value, self.option)
        least = now + SLACK * np.abs(now).max(initial=1e-300)
        # Nobody is ever worth less than before: what is not better now will not be later.
        if self._better is None:
            self._better = np.flatnonzero(self._worth > least[self._starter])
        else:
            known = self._better
            self._better = known[self._worth[known] > least[self._starter[known]]]
        better = self._better
        option, owner = self._starts[better], self._starter[better]
        spare = np.asarray(self._places.spare, dtype=np.float64)[self._class[option]]
        room = spare + at_choice(self._gpus, self.option)[owner]
        fits = (self._gpus[option] <= room) | ~self._pure[option]
        option, owner = option[fits], owner[fits]
        table = self._problem.candidates
        largest = table.part_gpus[table.part_start[option]] <= most[self._class[option]]
        fits = largest | (self.option[owner] >= 0)
        option, owner = option[fits], owner[fits]
        fits = self._side_fits(option, owner)
        option, owner = option[fits], owner[fits]
        cheap = at_choice(reduced, self.option)
        loss = (cheap[owner] - reduced[option]) / self._gpus[option]
        order = np.lexsort([now[owner] - value[option], loss])[:MOVES]
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

    def _side_fits(self, option: Ints, owner: Ints) -> Bools:
        """Whether some node may have the side resources of a start's largest part, shape (M,).

        With all that its job has now, wherever that is: where threads or memory have run out, most
        starts are found impossible without looking at a node.
        """
        fits = np.ones(option.size, dtype=bool)
        most, ever = self._places.most_side(full=False), self._places.most_side(full=True)
        if most is None or ever is None or not option.size:
            return fits
        runs = self.option[owner] >= 0
        table = self._problem.candidates
        largest = table.demands(table.part_start[option])[:, 1:]
        label = self._relaxation.shared.label
        for r in range(most.shape[1]):
            rows = [row for row, (word, _, at) in enumerate(label) if (word, at) == ("side", r + 1)]
            use = sum((self._relaxation.options_use(row) for row in rows), np.zeros(1))
            own = at_choice(np.broadcast_to(use, self._class.shape), self.option)[owner]
            there = np.where(runs, ever[self._class[option], r], most[self._class[option], r])
            room = there + own
            fits &= (largest[:, r] <= room + SLACK * np.maximum(1.0, own)) | ~self._pure[option]
        return fits

    def _may_fit(self, job: int, option: int) -> bool:
        """Whether a class has as many GPUs free as an option takes, the job's own included."""
        before, places = int(self.option[job]), self._places
        if self._pure[option] and (before < 0 or self._pure[before]):
            t = self._class[option]
            here = before >= 0 and self._class[before] == t
            mine = self._gpus[before] if here else 0.0
            return bool(self._gpus[option] <= places.spare[t] + mine)
        own, need = places.gpus_of(job, before), places.gpus_of(job, option)
        # Only the classes that it needs: what closed nodes hold may leave others below zero.
        return all(
            want <= spare + mine
            for want, spare, mine in zip(need, places.spare, own, strict=True)
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
