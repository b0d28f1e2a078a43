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

STRETCH = 2**15
"""Starts that are looked at together: what is looked up of them fits in a processor's cache."""

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
        # Candidates are of a few hundred configurations: parts are looked up of these.
        self._kinds, self._row = problem.candidates.templates
        start = self._kinds.part_start
        self._first_part, self._last_part = start[:-1], start[1:] - 1
        self._largest = self._kinds.part_gpus[self._first_part]
        options = problem.options
        self._gpus = self._relaxation.gpus_open
        self._class = options.node_class
        self._pure = options.of_one_class
        starts = self._own < self._count
        self._starts, self._starter = self._own[starts], self._owner[starts]
        self._better: Ints | None = None

    def placed(self, choice: Ints) -> Selection:
        """The decision that comes of a choice of options, shape (J,)."""
        stays = np.flatnonzero(choice >= self._count)
        late: list[int] = []
        if not self._all_stay(stays, choice):
            late = [job for job in stays.tolist() if not self._put(job, int(choice[job]))]
        started = np.flatnonzero((choice >= 0) & (choice < self._count))
        for job in late:
            self._put_or_next(job, int(choice[job]))
        self._start(self._in_order(started, choice[started]), choice)
        for job in np.flatnonzero(~self._relaxation.idle & (self.option < 0)).tolist():
            self._next_best(job, -1)
        passes = 0
        while passes < PASSES and self._use_what_is_left():
            passes += 1
        return self.selection()

    def _start(self, jobs: Ints, choice: Ints) -> None:
        """Put what starts, one job after the other."""
        options = choice[jobs]
        # Most starts are a part that any node will do for: of these only GPUs are looked at.
        quick = self._places.anywhere(options) & (not self._counted)
        parts = np.where(quick, self._largest[self._row[options]], 0)
        columns = (jobs, options, self._class[options], parts)
        for job, option, t, part in zip(*(column.tolist() for column in columns), strict=True):
            node = self._places.starts_anywhere(t, part) if part else -1
            if node >= 0:
                self._nodes[job], self.option[job] = (node,), option
            elif part:
                self._next_best(job, option)
            else:
                self._put_or_next(job, option)

    def _put_or_next(self, job: int, option: int) -> None:
        if not self._put(job, option):
            self._next_best(job, option)

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

    def _in_order(self, jobs: Ints, options: Ints) -> Ints:
        """Jobs confined to some nodes first, then by their largest part and number of parts."""
        rows, row = self._kinds, self._row[options]
        parts = np.diff(rows.part_start)[row]
        free = rows.node_set[row] == 0
        order = np.lexsort([jobs, rows.scope[row], -parts, -self._largest[row], free])
        return jobs[order]

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
        option, owner = self._fitting(least, most)
        fits = self._side_fits(option, owner)
        option, owner = option[fits], owner[fits]
        if option.size > MOVES:
            fits = self._node_fits(option, owner, most)
            option, owner = option[fits], owner[fits]
        cheap = at_choice(reduced, self.option)
        loss = (cheap[owner] - reduced[option]) / self._gpus[option]
        order = np.lexsort([now[owner] - value[option], loss])[:MOVES]
        moved = False
        option, owner = option[order], owner[order]
        starting = self.option[owner]
        columns = owner, option, value[option], starting, at_choice(value, starting)
        for job, to, worth, had, least_worth in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            # Who has moved in this pass has another option than when it began, of more worth.
            before = int(self.option[job])
            current = least_worth if before == had else float(value[before])
            if worth <= current or not self._may_fit(job, to):
                continue
            nodes = self._nodes[job]
            self._drop(job)
            if self._put(job, to):
                moved = True
            elif before >= 0 and not self._back(job, before, nodes):
                raise AssertionError("what was given back is free")
        return moved

    def _fitting(self, least: Floats, most: Ints) -> tuple[Ints, Ints]:
        """Starts worth more than so much to their jobs, (J,), and the jobs: what GPUs allow.

        Stretch by stretch, so that what is looked up of each stays near the processor.
        """
        value, some = self._relaxation.value, self.option >= 0
        spare = np.asarray(self._places.spare, dtype=np.float64)
        own = at_choice(self._gpus, self.option)
        known = self._starts.size if self._better is None else self._better.size
        better, found = [], []
        for first in range(0, known, STRETCH):
            rows: Ints | slice = slice(first, first + STRETCH)
            if self._better is not None:
                rows = self._better[rows]
            option, owner = self._starts[rows], self._starter[rows]
            # Nobody is ever worth less than before: what is not better now will not be later.
            fits = np.flatnonzero(value[option] > least[owner])
            better.append(fits + first if isinstance(rows, slice) else rows[fits])
            option, owner = option[fits], owner[fits]
            there = self._class[option]
            may = (self._gpus[option] <= spare[there] + own[owner]) | ~self._pure[option]
            may &= (self._largest[self._row[option]] <= most[there]) | some[owner]
            found.append(better[-1][may])
        self._better = np.concatenate([np.zeros(0, dtype=np.int64), *better])
        fitting = np.concatenate([np.zeros(0, dtype=np.int64), *found])
        return self._starts[fitting], self._starter[fitting]

    def _node_fits(self, option: Ints, owner: Ints, most: Ints) -> Bools:
        """Whether there are nodes with so many GPUs free for starts of one class, shape (M,).

        With what their jobs have now, wherever that is. Where more may be tried than are, those
        that find no room stand in the way of others.
        """
        places, rows, nodes = self._places, self._kinds, self._problem.nodes
        jobs, on, gpus = self._occupied()
        here = nodes.node_class[on]
        free = np.asarray(places.free, dtype=np.int64)
        room = np.where(nodes.open[on], free[on] + gpus, 0)
        # By job and class: the most free GPUs of a node of its own, and how many such nodes.
        size, width = self.option.size, nodes.classes
        largest, several = np.zeros(size * width, dtype=np.int64), np.zeros(size * width)
        np.maximum.at(largest, jobs * width + here, room)
        several += np.bincount(jobs * width + here, minlength=several.size)
        there = self._class[option]
        row, key = self._row[option], owner * width + there
        fits = self._largest[row] <= np.maximum(most[there], largest[key])
        # Nodes of each class with at least so many GPUs free, for all parts of a gang.
        top = int(nodes.capacity[:, 0].max(initial=0)) + 1
        usable = np.flatnonzero(nodes.open)
        count = np.bincount(nodes.node_class[usable] * top + free[usable], minlength=width * top)
        atleast = count.reshape(width, top)[:, ::-1].cumsum(axis=1)[:, ::-1]
        parts = np.diff(rows.part_start)[row]
        enough = atleast[there, rows.part_gpus[self._last_part[row]]] + several[key] >= parts
        return np.asarray(fits & (enough | rows.loose[row]) | ~self._pure[option])

    def _occupied(self) -> tuple[Ints, Ints, Ints]:
        """Of each node that a job has GPUs of: the job, the node, and how many these are."""
        holds = self._problem.holds
        rows = np.flatnonzero(self.option[holds.job] >= self._count)
        started = np.flatnonzero((self.option >= 0) & (self.option < self._count))
        part, start = self._kinds.parts_of(self._row[self.option[started]])
        nodes = [node for job in started.tolist() for node in self._nodes[job]]
        return (
            np.append(holds.job[rows], np.repeat(started, np.diff(start))),
            np.append(holds.node[rows], np.asarray(nodes, dtype=np.int64)),
            np.append(holds.demand[rows, 0].astype(np.int64), self._kinds.part_gpus[part]),
        )

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
        demand = self._kinds.demands(self._first_part)[:, 1:]
        label = self._relaxation.shared.label
        for r in range(most.shape[1]):
            rows = [row for row, (word, _, at) in enumerate(label) if (word, at) == ("side", r + 1)]
            use = np.zeros(self.option.size)
            for row in rows:
                use += self._relaxation.options_use(row, self.option)
            own = use[owner]
            there = np.where(runs, ever[self._class[option], r], most[self._class[option], r])
            room = there + own
            fits &= (
                demand[self._row[option], r] <= room + SLACK * np.maximum(1.0, own)
            ) | ~self._pure[option]
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
