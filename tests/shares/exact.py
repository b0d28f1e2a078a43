"""Share policies in fractions: a simplex without rounding, for problems of a few jobs."""

from __future__ import annotations

from fractions import Fraction


def maximise(cost, rows, sides):
    """``max cost x, rows x <= sides, x >= 0`` exactly (Bland's rule); None if infeasible.

    Every model here is bounded.
    """
    width = len(cost)
    table = []
    for number, (row, side) in enumerate(zip(rows, sides, strict=True)):
        slack = [Fraction(int(number == other)) for other in range(len(rows))]
        # The artificial column of the first phase is the same for all rows.
        table.append([*map(Fraction, row), *slack, Fraction(-1), Fraction(side)])
    basis = [width + number for number in range(len(rows))]
    spare = width + len(rows)
    worst = min(range(len(rows)), key=lambda number: table[number][-1])
    if table[worst][-1] < 0:
        _pivot(table, basis, worst, spare)
        _improve(table, basis, [Fraction(0)] * spare + [Fraction(-1)])
        if any(col == spare and row[-1] > 0 for col, row in zip(basis, table, strict=True)):
            return None
        for number, column in enumerate(basis):
            if column == spare:
                entering = next(c for c in range(spare) if table[number][c] != 0)
                _pivot(table, basis, number, entering)
    for row in table:
        row[spare] = Fraction(0)
    full = [*map(Fraction, cost), *[Fraction(0)] * (len(rows) + 1)]
    _improve(table, basis, full)
    return sum(full[col] * row[-1] for col, row in zip(basis, table, strict=True))


def _improve(table, basis, cost):
    while True:
        prices = [cost[column] for column in basis]
        entering = next(
            (
                c
                for c in range(len(cost))
                if cost[c] > sum(p * row[c] for p, row in zip(prices, table, strict=True) if p)
            ),
            None,
        )
        if entering is None:
            return
        ratios = [
            (row[-1] / row[entering], basis[number], number)
            for number, row in enumerate(table)
            if row[entering] > 0
        ]
        _pivot(table, basis, min(ratios)[2], entering)


def _pivot(table, basis, leaving, entering):
    pivot = table[leaving][entering]
    table[leaving] = [value / pivot for value in table[leaving]]
    for number, row in enumerate(table):
        if number != leaving and row[entering]:
            factor = row[entering]
            table[number] = [a - factor * b for a, b in zip(row, table[leaving], strict=True)]
    basis[leaving] = entering


class ExactShares:
    """The polytope of a `ShareProblem` over the rationals; columns x row by row, pairs, then t."""

    def __init__(self, problem):
        self.jobs, self.types = problem.throughput.shape
        speed = problem.speed.tolist()
        self.columns = [
            ({i: Fraction(speed[i][j])}, j, int(problem.gang[i]))
            for i in range(self.jobs)
            for j in range(self.types)
            if speed[i][j] > 0
        ]
        for pair in range(problem.pairs.count):
            a, b = int(problem.pairs.first[pair]), int(problem.pairs.second[pair])
            self.columns += [
                (
                    {
                        a: Fraction(float(problem.pairs.throughput[pair, j, 0])),
                        b: Fraction(float(problem.pairs.throughput[pair, j, 1])),
                    },
                    j,
                    int(problem.pair_gang[pair]),
                )
                for j in range(self.types)
                if problem.pair_allowed[pair, j]
            ]
        self.rows = [[int(i in c[0]) for c in self.columns] + [0] for i in range(self.jobs)]
        self.rows += [
            [c[2] if c[1] == j else 0 for c in self.columns] + [0] for j in range(self.types)
        ]
        self.sides = [1] * self.jobs + [Fraction(n) for n in problem.capacity.tolist()]

    def throughput(self, job):
        """Entries of a job's throughput, without t."""
        return [c[0].get(job, Fraction(0)) for c in self.columns]

    def level(self, base, slope):
        """max t >= 0 with thr_i >= base_i + t slope_i."""
        rows, sides = list(self.rows), list(self.sides)
        for job in range(self.jobs):
            rows.append([-v for v in self.throughput(job)] + [Fraction(slope[job])])
            sides.append(-Fraction(base[job]))
        return maximise([0] * len(self.columns) + [1], rows, sides)

    def best(self, worth, floor):
        """max worth of the columns (a function of throughputs and type) with thr >= floor."""
        rows, sides = list(self.rows), list(self.sides)
        rows.append([0] * len(self.columns) + [1])
        sides.append(0)
        for job in range(self.jobs):
            if floor[job] > 0:
                rows.append([*(-v for v in self.throughput(job)), 0])
                sides.append(-Fraction(floor[job]))
        return maximise([*(worth(c[0], c[1]) for c in self.columns), 0], rows, sides)
