"""Placing of a choice: nodes for its parts, next best options, use of leftover GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice, of_rows, stretches
from formulations.parameters import PLACING, PlacingParams
from formulations.prices.places import Places
from formulations.prices.relaxation import possible_options
from formulations.prices.room import Room
from formulations.prices.rounding import Rounding
from formulations.round.tables import RoundProblem, Selection
from formulations.tolerances import FEASIBILITY, SAME_VALUE, SMALLEST


def decided_by_prices(
    problem: RoundProblem, rounding: Rounding, params: PlacingParams = PLACING
) -> Selection:
    """Return a decision by prices: rounded, repaired and placed, but not yet checked."""
    return Placing(problem, rounding, params).placed(rounding.repaired(rounding.rounded()))


class Placing:
    """A decision under construction: every job's option with its nodes.

    Parameters
    ----------
    problem
        A round without pairs.
    rounding
        Options and limits at prices.
    params
        Limits on tries.
    """

    def __init__(
        self, problem: RoundProblem, rounding: Rounding, params: PlacingParams = PLACING
    ) -> None:
        self._problem = problem
        self._params = params
        self._rounding = rounding
        self._relaxation = rounding.relaxation
        self._places = Places(problem, params)
        self._count = problem.candidates.count
        self.option: Ints = np.full(problem.jobs.count, -1, dtype=np.int64)
        self._nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
        shared = self._relaxation.shared
        # Nodes limit their own resources; the use of rules is counted as options change.
        self._rows = np.asarray([word == "rule" for word, _, _ in shared.label], dtype=bool)
        self._counted = bool(self._rows.any())
        self._room = Room(shared, self._rows) if self._counted else None
        self._first = np.searchsorted(problem.candidates.job, np.arange(problem.jobs.count + 1))
        self._stay = problem.options.stay
        # A million candidates have a few hundred configurations: parts are looked up by these.
        self._kinds, self._row = problem.candidates.templates
        start = self._kinds.part_start
        self._first_part, self._last_part, self._parts = start[:-1], start[1:] - 1, np.diff(start)
        self._largest = self._kinds.part_gpus[self._first_part]
        options = problem.options
        self._gpus = self._relaxation.gpus_open
        self._class = options.node_class
        self._pure = options.of_one_class

    def placed(
        self, choice: Ints, known: Selection | None = None, keeps: Bools | None = None
    ) -> Selection:
        """Return the decision for a choice of options, shape (J,).

        Parameters
        ----------
        known, keeps
            A decision, and the jobs that keep their nodes of it, shape (J,); None if no job does.
        """
        if known is not None and keeps is not None:
            for job in np.flatnonzero(keeps & (known.choice >= 0)).tolist():
                self._back(job, int(known.choice[job]), known.nodes[job])
            choice = np.where(keeps, -1, choice)
        stays = np.flatnonzero(choice >= self._count)
        late: list[int] = []
        if keeps is not None or not self._all_stay(stays, choice):
            late = [job for job in stays.tolist() if not self._put(job, int(choice[job]))]
        started = np.flatnonzero((choice >= 0) & (choice < self._count))
        for job in late:
            self._put_or_next(job, int(choice[job]))
        self._start(self._in_order(started, choice[started]), choice)
        for job in np.flatnonzero(~self._relaxation.idle & (self.option < 0)).tolist():
            self._next_best(job, -1)
        passes = 0
        while passes < self._params.passes and self._use_what_is_left():
            passes += 1
        return self.selection()

    def _start(self, jobs: Ints, choice: Ints) -> None:
        """Place the starts, one job after the other."""
        options = choice[jobs]
        # Most starts are one part that fits any node of its class: only GPUs need a look.
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
        """Keep all stays at once; return False, with no change, if rows or uplinks lack room."""
        room = self._room
        if room is not None and not room.take_all(choice[jobs]):
            return False
        if not self._places.all_stay(jobs):
            if room is not None:
                for option in choice[jobs].tolist():
                    room.take(room.changes(option, -1.0), forced=True)
            return False
        self.option[jobs] = choice[jobs]
        return True

    def selection(self) -> Selection:
        """Return the current decision."""
        return Selection(self.option.copy(), tuple(self._nodes))

    def _in_order(self, jobs: Ints, options: Ints) -> Ints:
        """Return the jobs in placing order: confined ones first, then by part size and count."""
        rows, row = self._kinds, self._row[options]
        parts = self._parts[row]
        free = rows.node_set[row] == 0
        order = np.lexsort([jobs, rows.scope[row], -parts, -self._largest[row], free])
        return jobs[order]

    def _put(self, job: int, option: int) -> bool:
        """Give an idle job an option; return False if rows or nodes lack room."""
        room = self._room
        if room is not None and not room.take(room.changes(option)):
            return False
        nodes: tuple[int, ...] | None = ()
        if option < self._count:
            nodes = self._places.starts(option)
        elif not self._places.stays(job):
            nodes = None
        if nodes is None:
            if room is not None:
                room.take(room.changes(option, -1.0), forced=True)
            return False
        self._nodes[job] = nodes
        self.option[job] = option
        return True

    def _drop(self, job: int) -> int:
        """Take a job's option away and return it."""
        option = int(self.option[job])
        if option < 0:
            return option
        if option >= self._count:
            self._places.leaves(job)
        else:
            self._places.ends(option, self._nodes[job])
        self._nodes[job] = ()
        if self._room is not None:
            self._room.take(self._room.changes(option, -1.0), forced=True)
        self.option[job] = -1
        return option

    def _next_best(self, job: int, failed: int) -> None:
        first, last = self._first[job : job + 2].tolist()
        own = np.append(np.arange(first, last), self._stay[job])
        own = own[(own >= 0) & self._relaxation.fine[own]]
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
            if tried >= self._params.next_best:
                return

    def _use_what_is_left(self) -> bool:
        """Make moves that raise the value; return whether there were any."""
        value, reduced = self._relaxation.value, self._rounding.reduced
        most = self._places.most_free()
        if not most.any():
            return False
        now = at_choice(value, self.option)
        least = now + SAME_VALUE * np.abs(now).max(initial=SMALLEST)
        found = [np.zeros(0, dtype=np.int64), *self._better(least)]
        option = np.concatenate(found)
        owner = self._problem.candidates.job[option]
        cheap = at_choice(reduced, self.option)
        loss = (cheap[owner] - reduced[option]) / self._gpus[option]
        order = self._first_moves(option, owner, loss, now[owner] - value[option], most)
        moved = False
        option, owner = option[order], owner[order]
        had, there, pure = self.option[owner], self._class[option], self._pure
        # `_may_fit` for jobs that still have their option; options of several classes ask it.
        plain = pure[option] & (pure[had] | (had < 0))
        here = (had >= 0) & (self._class[had] == there)
        needs = self._gpus[option] - np.where(here, self._gpus[had], 0.0)
        columns = owner, option, value[option], had, there, np.where(plain, needs, -np.inf)
        spare = self._places.spare
        for job, to, worth, before, t, need in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            now_has = int(self.option[job])
            # A job that moved in this pass has a higher value than when the pass began.
            if need > spare[t] if now_has == before else worth <= float(value[now_has]):
                continue
            if (now_has != before or need == -np.inf) and not self._may_fit(job, to):
                continue
            nodes = self._nodes[job]
            self._drop(job)
            if self._put(job, to):
                moved = True
            elif now_has >= 0 and not self._back(job, now_has, nodes):
                raise AssertionError("nodes that were just given back must be free")
        return moved

    def _first_moves(
        self, option: Ints, owner: Ints, loss: Floats, less: Floats, most: Ints
    ) -> Ints:
        """Return the first ``params.moves`` moves by loss, then value lost, that may have nodes."""
        some, moves, size = self.option >= 0, self._params.moves, loss.size
        first = moves
        nodes = self._rooms(most) if self._count > self._params.sifted else None
        while True:
            # Of a hundred thousand moves, only the first by loss are sorted.
            near = np.arange(size, dtype=np.int64)
            if first < size:
                near = np.flatnonzero(loss <= np.partition(loss, first)[first])
            to, job = option[near], owner[near]
            may = (self._largest[self._row[to]] <= most[self._class[to]]) | some[job]
            if nodes is not None:
                may &= self._node_fits(to, job, nodes)
            near = near[may]
            near = near[self._side_fits(option[near], owner[near])]
            if near.size >= moves or first >= size:
                return near[np.lexsort([option[near], less[near], loss[near]])][:moves]
            first *= self._params.widens

    def _better(self, least: Floats) -> Iterator[Ints]:
        """Yield starts worth more than ``least`` to their jobs that the free GPUs allow."""
        value, sizes = self._relaxation.value, self._relaxation.sizes
        jobs, others = self._problem.candidates.job, self._others
        spare = np.asarray(self._places.spare, dtype=np.float64)
        own = at_choice(self._gpus, self.option)
        if sizes is not None:
            near = np.zeros(least.size, dtype=bool)
            for option in sizes.better(least, own, spare):
                near[jobs[option]] = True
                yield option
            # Where the best start of a kind does not qualify, no other start of that kind does.
            others = others[of_rows(self._other, np.flatnonzero(near))[0]]
        # Stretch by stretch, so that look-ups stay in the processor's cache.
        for stretch in stretches(others.size):
            option = others[stretch]
            option = option[value[option] > least[jobs[option]]]
            owner, there = jobs[option], self._class[option]
            may = (self._gpus[option] <= spare[there] + own[owner]) | ~self._pure[option]
            yield option[may]

    @cached_property
    def _others(self) -> Ints:
        """Possible starts, job by job, except the best of each kind."""
        fine = possible_options(self._problem)[0][: self._count].copy()
        if self._relaxation.sizes is not None:
            best = self._relaxation.sizes.option
            fine[best[best >= 0]] = False
        return np.flatnonzero(fine)

    @cached_property
    def _other(self) -> Ints:
        """Start of each job's rows in `_others`, shape (J + 1,)."""
        return np.searchsorted(self._others, self._first)

    def _rooms(self, most: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the limits of moves: free GPUs and nodes per job, and free nodes per size.

        The most GPUs on one node that each job may have of each class and the number of nodes it
        has already, both of shape (J T,); and the number of nodes of each class with at least that
        many GPUs free, shape (T, GPUs + 1).
        """
        nodes, (jobs, on, gpus) = self._problem.nodes, self._occupied()
        free = np.asarray(self._places.free, dtype=np.int64)
        key = jobs * nodes.classes + nodes.node_class[on]
        largest = np.tile(most, self.option.size)
        np.maximum.at(largest, key, np.where(nodes.open[on], free[on] + gpus, 0))
        usable, top = np.flatnonzero(nodes.open), int(nodes.capacity[:, 0].max(initial=0)) + 1
        at = nodes.node_class[usable] * top + free[usable]
        count = np.bincount(at, minlength=nodes.classes * top).reshape(nodes.classes, top)
        own = np.bincount(key, minlength=largest.size)
        return largest, own, count[:, ::-1].cumsum(axis=1)[:, ::-1]

    def _node_fits(self, option: Ints, owner: Ints, nodes: tuple[Ints, Ints, Ints]) -> Bools:
        """Return whether starts of one class may find nodes by GPUs alone, shape (M,).

        The GPUs that a job holds now count as free. Large rounds have more moves than are tried,
        and moves without nodes would use up the limit.
        """
        largest, own, free = nodes
        row, there = self._row[option], self._class[option]
        key = owner * free.shape[0] + there
        least = self._kinds.part_gpus[self._last_part]
        enough = free[there, least[row]] + own[key] >= self._parts[row]
        fits = (self._largest[row] <= largest[key]) & (enough | self._kinds.loose[row])
        return np.asarray(fits | ~self._pure[option])

    def _occupied(self) -> tuple[Ints, Ints, Ints]:
        """Return job, node and GPUs of every node that a job occupies."""
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
        """Return whether some node may have the side resources of a start, shape (M,).

        What its job holds now counts as free. Where threads or memory have run out, this refuses
        most starts without a look at any node.
        """
        fits = np.ones(option.size, dtype=bool)
        most, ever = self._places.most_side(full=False), self._places.most_side(full=True)
        if most is None or ever is None or not option.size:
            return fits
        runs = self.option[owner] >= 0
        demand = self._kinds.demands(self._first_part)[:, 1:]
        label = self._relaxation.shared.label
        # Other side resources cannot run out.
        for r in np.flatnonzero(~np.isposinf(most).all(axis=0)).tolist():
            rows = [row for row, (word, _, at) in enumerate(label) if (word, at) == ("side", r + 1)]
            use = np.zeros(self.option.size)
            for row in rows:
                use += self._relaxation.options_use(row, self.option)
            own = use[owner]
            there = np.where(runs, ever[self._class[option], r], most[self._class[option], r])
            room = there + own
            fits &= (
                demand[self._row[option], r] <= room + FEASIBILITY * np.maximum(1.0, own)
            ) | ~self._pure[option]
        return fits

    def _may_fit(self, job: int, option: int) -> bool:
        """Return whether classes have the GPUs of an option free, the job's own included."""
        before, places = int(self.option[job]), self._places
        if self._pure[option] and (before < 0 or self._pure[before]):
            t = self._class[option]
            here = before >= 0 and self._class[before] == t
            mine = self._gpus[before] if here else 0.0
            return bool(self._gpus[option] <= places.spare[t] + mine)
        own, need = places.gpus_of(job, before), places.gpus_of(job, option)
        # Only the classes that it needs: holds on closed nodes may leave others below zero.
        return all(
            want <= spare + mine
            for want, spare, mine in zip(need, places.spare, own, strict=True)
            if want
        )

    def _back(self, job: int, option: int, nodes: tuple[int, ...]) -> bool:
        """Give a job its previous nodes back."""
        if option >= self._count:
            return self._put(job, option)
        self._places.takes(option, nodes)
        self._nodes[job] = nodes
        if self._room is not None:
            self._room.take(self._room.changes(option), forced=True)
        self.option[job] = option
        return True
