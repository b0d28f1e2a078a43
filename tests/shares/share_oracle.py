"""The share policies stated again, independently: one linear program, solved for many questions."""

from __future__ import annotations

import itertools

import highspy
import numpy as np


class Polytope:
    """Columns: x row by row, then pairs row by row, then one level t.

    Rows: what a job's shares sum to, what is held per type, then the throughput of every job less
    what it gains from t. HiGHS keeps the basis from question to question, which only bounds, costs
    and the column of t tell apart.
    """

    def __init__(self, speed, gang, capacity, allowed, pairs=()):
        self.jobs, self.types = speed.shape
        self.speed, self.pairs = speed, list(pairs)
        self.columns = (self.jobs + len(self.pairs)) * self.types + 1
        upper = np.ones(self.columns)
        upper[: self.jobs * self.types] = allowed.ravel()
        rows, sides = [], []
        for job in range(self.jobs):
            row = np.zeros(self.columns)
            row[job * self.types : (job + 1) * self.types] = 1
            for number, (a, b, _) in enumerate(self.pairs):
                if job in (a, b):
                    row[self.pair(number, 0) : self.pair(number, 0) + self.types] = 1
            rows.append(row)
            sides.append(1.0)
        for kind in range(self.types):
            row = np.zeros(self.columns)
            for job in range(self.jobs):
                row[job * self.types + kind] = gang[job]
            for number, (a, b, _) in enumerate(self.pairs):
                row[self.pair(number, kind)] = max(gang[a], gang[b])
            rows.append(row)
            sides.append(capacity[kind])
        self.rows = len(rows)
        self.solver = highspy.Highs()
        self.solver.silent()
        for most in upper:
            self.solver.addCol(0.0, 0.0, most, 0, [], [])
        for row, side in zip(rows, sides, strict=True):
            self.add_row(-np.inf, side, row)
        for job in range(self.jobs):
            self.add_row(-np.inf, np.inf, self.throughput(job))
        self.solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add_row(self, least, most, row):
        (places,) = np.nonzero(row)
        self.solver.addRow(least, most, places.size, places.astype(np.int32), row[places])

    def pair(self, number, kind):
        return (self.jobs + number) * self.types + kind

    def throughput(self, job):
        row = np.zeros(self.columns)
        row[job * self.types : (job + 1) * self.types] = self.speed[job]
        for number, (a, b, table) in enumerate(self.pairs):
            if job in (a, b):
                for kind in range(self.types):
                    row[self.pair(number, kind)] = table[kind][int(job == b)]
        return row

    def most(self, cost, base, slope, level):
        """max cost x with thr_i >= base_i + t slope_i and t within a pair; None if infeasible."""
        for column, price in enumerate(cost):
            self.solver.changeColCost(column, price)
        for job in range(self.jobs):
            self.solver.changeRowBounds(self.rows + job, base[job], np.inf)
            self.solver.changeCoeff(self.rows + job, self.columns - 1, -slope[job])
        self.solver.changeColBounds(self.columns - 1, *level)
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        assert status == highspy.HighsModelStatus.kOptimal, status
        return self.solver.getObjectiveValue()

    def raise_level(self, base, slope):
        """max t with thr_i >= base_i + t slope_i; None if infeasible."""
        cost = np.zeros(self.columns)
        cost[-1] = 1
        return self.most(cost, base, slope, (-np.inf, np.inf))

    def best(self, value, floor):
        """max sum value T x with thr >= floor; None if infeasible."""
        cost = np.zeros(self.columns)
        cost[: self.jobs * self.types] = (value * self.speed).ravel()
        return self.most(cost, floor, np.zeros(self.jobs), (0.0, 0.0))


def finish_time_ratio(polytope, steps, since, fair):
    """Least ratio by bisection of feasibility: thr_i >= r / (ratio * fair - since)."""
    low, high = float((since / fair).max()), 1e6
    for _ in range(64):
        ratio = (low + high) / 2
        need = ratio * fair - since
        ok = (need > 0).all()
        if ok:
            level = polytope.raise_level(np.zeros(len(steps)), steps / np.where(need > 0, need, 1))
            ok = level is not None and level >= 1.0
        low, high = (low, ratio) if ok else (ratio, high)
    return high


def lexicographic_levels(polytope, unit):
    """Max-min levels thr_i / unit_i, then the next ones, job by job, by definition."""
    jobs = polytope.jobs
    fixed = np.full(jobs, np.nan)
    while np.isnan(fixed).any():
        free = np.isnan(fixed)
        base = np.where(free, 0.0, np.nan_to_num(fixed) * unit * (1 - 1e-9))
        level = polytope.raise_level(base, np.where(free, unit, 0.0))
        held = np.where(free, level, np.nan_to_num(fixed)) * unit * (1 - 1e-9)
        blocked = []
        for job in np.flatnonzero(free):
            alone = np.zeros(jobs)
            alone[job] = unit[job]
            more = polytope.raise_level(held, alone)
            if more is None or more <= 1e-7 * max(1.0, level):
                blocked.append(job)
        fixed[blocked if blocked else np.flatnonzero(free)] = level
    return fixed


def fewest_dropped(polytope, value, floor):
    """Smallest set of floors to drop, by trying all sets in order of size."""
    wanted = np.flatnonzero(floor > 0)
    for size in range(wanted.size + 1):
        for lost in itertools.combinations(wanted, size):
            kept = floor.copy()
            kept[list(lost)] = 0
            if polytope.best(value, kept) is not None:
                return size
    raise AssertionError("dropping everything is always possible")
