"""Random rounds with options of several jobs, and their brute force: from the definitions, without
the code under test but the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from formulations.round.rule_table import RULE_X
from formulations.round.rules import with_shared
from formulations.round.shared import SharedTable
from formulations.round.tables import (
    NONE,
    HoldTable,
    Level,
    RoundProblem,
    Selection,
)
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, RoundSize, random_round, units
from tests.formulations.worlds.rounds import SIDES, level_of

PACKED = replace(EVERYTHING, jobs=4, nodes=3, candidates=2, running=0.45)
CROWDED = replace(PACKED, candidates=1, nodes=1, running=0.3)
PACKED_GPUS = RoundSize(jobs=4, nodes=3, classes=2, candidates=2, gpus=(1, 2, 3, 4), running=0.6)
CROWDED_GPUS = replace(PACKED_GPUS, candidates=1, nodes=2, classes=1, running=0.4)


@dataclass(frozen=True)
class _Row:
    """One option before it is rows: its jobs, and where each starts; -1: it stays."""

    jobs: tuple[int, ...]
    starts: tuple[int, ...]

    def beside(self, job: int, start: int) -> _Row:
        """The option with another job behind the others."""
        return _Row((*self.jobs, job), (*self.starts, start))


def packed_round(
    draw: np.random.Generator, size: RoundSize = PACKED, most: int = 2
) -> RoundProblem:
    """A random round with options of two to ``most`` jobs of every sort, and such gangs.

    Equal generators give equal rounds.
    """
    problem = random_round(draw, size)
    for _ in range(1, most):
        problem = _with_twins(draw, problem)
    problem = _with_sharing(draw, problem, most)
    rows = [*_fresh(draw, problem), *_in_place(draw, problem)]
    for jobs in range(2, most):
        rows += [*_larger(draw, problem, [row for row in rows if len(row.jobs) == jobs])]
    return with_rows(draw, problem, rows) if rows else problem


def packed_level(draw: np.random.Generator, problem: RoundProblem) -> Level:
    """Values of an objective, or drawn freely, some of them ties."""
    kind = int(draw.integers(4))
    if kind < 2:
        return (Throughput() if kind else Jct()).levels(problem)[0]
    values = draw.uniform(0.0, 10.0, problem.candidates.count + problem.shared.count)
    values[problem.candidates.count :] *= np.bincount(problem.shared.option)
    stays = draw.uniform(0.0, 10.0, problem.jobs.count)
    if kind == 3:
        values, stays = np.ceil(values / 3), np.ceil(stays / 3)
    return level_of(problem, values.tolist(), stays.tolist(), "random")


def _with_twins(draw: np.random.Generator, problem: RoundProblem) -> RoundProblem:
    """Some candidates given to other jobs as well, so that there is something to pair."""
    table, jobs = problem.candidates, problem.jobs.count
    if not table.count or jobs < 2:
        return problem
    copied = np.flatnonzero(draw.random(table.count) < 0.8)
    to = (table.job[copied] + draw.integers(1, jobs, copied.size)) % jobs
    rows = np.concatenate([np.arange(table.count), copied])
    owner = np.concatenate([table.job, to])
    order = np.argsort(owner, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    merged = replace(table.take(rows[order]), job=owner[order])
    rules = problem.rules
    index = rules.index.copy()
    starts = rules.kind == RULE_X
    index[starts] = place[index[starts]]
    return replace(problem, candidates=merged, rules=replace(rules, index=index))


def _with_sharing(draw: np.random.Generator, problem: RoundProblem, most: int) -> RoundProblem:
    """Queued jobs run on the GPUs of a running one, in some rounds."""
    running = np.flatnonzero(problem.jobs.running)
    queued = np.flatnonzero(~problem.jobs.running)
    if not running.size or not queued.size or draw.random() < 0.4:
        return problem
    host, partner = int(draw.choice(running)), int(draw.choice(queued))
    problem = _sharing(draw, problem, host, partner)
    for other in queued[queued != partner][: most - 2].tolist():
        problem = _sharing(draw, problem, host, other)
    return problem


def _sharing(
    draw: np.random.Generator, problem: RoundProblem, host: int, partner: int
) -> RoundProblem:
    """A queued job runs on the GPUs of a running one."""
    holds = problem.holds
    mine = holds.job == host
    demand = holds.demand[mine].copy()
    room = problem.nodes.capacity[problem.nodes.node_class] - problem.held()
    demand[:, 1:] = np.minimum(demand[:, 1:], np.maximum(0.0, room[holds.node[mine], 1:]))
    demand[:, 1:] *= draw.choice([0.0, 0.5, 1.0])
    pace = problem.jobs.stay_iteration_s.copy()
    pace[partner] = draw.uniform(0.2, 4.0)
    gang = problem.shared.gang if problem.shared.gang.size else np.arange(problem.jobs.count)
    together = np.isin(gang, gang[[host, partner]])
    return replace(
        problem,
        jobs=replace(problem.jobs, stay_iteration_s=pace),
        holds=HoldTable(
            np.concatenate([holds.job, np.full(int(mine.sum()), partner)]),
            np.concatenate([holds.node, holds.node[mine]]),
            np.concatenate([holds.demand, demand]),
            np.concatenate([holds.uplink_gb_per_s, np.zeros(int(mine.sum()))]),
        ),
        shared=SharedTable(gang=np.where(together, np.flatnonzero(together)[0], gang)),
    )


def gangs_of(problem: RoundProblem) -> list[list[int]]:
    """Jobs that hold the same GPUs, two or more of them, ascending."""
    gang = problem.shared.gang
    found = (np.flatnonzero(gang == one).tolist() for one in np.unique(gang).tolist())
    return [jobs for jobs in found if len(jobs) > 1]


def _alike(problem: RoundProblem, starts: Sequence[int], other: int) -> bool:
    """Whether one more candidate is like those in which jobs start together, and has room."""
    table, first = problem.candidates, starts[0]
    side = table.side[[*starts, other]].sum(axis=0)
    times = units(table.parts(first)[0], side.size)
    limit = problem.nodes.capacity[table.node_class[first], 1:] / times
    return bool(
        table.parts(first) == table.parts(other)
        and table.node_class[first] == table.node_class[other]
        and table.scope[first] == table.scope[other]
        and table.node_set[first] == table.node_set[other]
        and (side <= limit).all()
    )


def _fresh(draw: np.random.Generator, problem: RoundProblem) -> list[_Row]:
    table, found = problem.candidates, []
    for a in range(table.count):
        for b in range(a + 1, table.count):
            other = table.job[a] != table.job[b]
            if other and _alike(problem, [a], b) and draw.random() < 0.7:
                found.append(_Row((int(table.job[a]), int(table.job[b])), (a, b)))
    return found


def _in_place(draw: np.random.Generator, problem: RoundProblem) -> list[_Row]:
    holds, table, nodes = problem.holds, problem.candidates, problem.nodes
    sharing = [pair for gang in gangs_of(problem) for pair in combinations(gang, 2)]
    found = [_Row(pair, (-1, -1)) for pair in sharing if draw.random() < 0.85]
    for host in np.flatnonzero(problem.jobs.running).tolist():
        kind = int(nodes.node_class[holds.node[holds.job == host][0]])
        for partner in range(problem.jobs.count):
            own = np.flatnonzero((table.job == partner) & (table.node_class == kind))
            if (
                partner == host
                or not own.size
                or (min(host, partner), max(host, partner)) in sharing
            ):
                continue
            if draw.random() < 0.6:
                found.append(_Row((host, partner), (-1, int(draw.choice(own)))))
    return found


def _larger(
    draw: np.random.Generator, problem: RoundProblem, rows: Sequence[_Row]
) -> Iterator[_Row]:
    """Some of these options with one more job: one that starts as well, comes, or is there too."""
    table, gangs = problem.candidates, gangs_of(problem)
    for row in rows:
        host, given = row.starts[0], [k for k in row.starts if k >= 0]
        others = [job for job in range(problem.jobs.count) if job not in row.jobs]
        there = [job for gang in gangs if row.jobs[0] in gang for job in gang if job in others]
        if host < 0 and there and draw.random() < 0.7:
            yield row.beside(int(draw.choice(there)), -1)
        for start in range(given[-1] + 1 if host >= 0 else 0, table.count):
            job, all_of = int(table.job[start]), [*given, start]
            if job not in others:
                continue
            if host >= 0:
                fits = _alike(problem, given, start)
            else:
                fits = np.unique(table.node_class[all_of]).size == 1 and draw.random() < 0.5
            if fits and np.unique(table.node_set[all_of][table.node_set[all_of] > 0]).size < 2:
                yield row.beside(job, start)


def with_rows(
    draw: np.random.Generator, problem: RoundProblem, rows: Sequence[_Row]
) -> RoundProblem:
    """The round with these options, their speeds drawn."""
    job = [job for row in rows for job in row.jobs]
    shared = SharedTable(
        option=np.repeat(np.arange(len(rows)), [len(row.jobs) for row in rows]),
        job=np.asarray(job),
        candidate=np.asarray([k for row in rows for k in row.starts]),
        iteration_s=draw.uniform(0.2, 4.0, len(job)),
        gang=problem.shared.gang,
    )
    return with_shared(problem, shared)


# --- brute force ------------------------------------------------------------------------------


def jobs_of(problem: RoundProblem, option: int) -> tuple[int, ...]:
    """The jobs that an option is about, which is no stay."""
    pair = option - problem.candidates.count
    if pair < 0:
        return (int(problem.candidates.job[option]),)
    return tuple(problem.shared.job[problem.shared.option == pair].tolist())


def starts_of(problem: RoundProblem, option: int) -> tuple[int, ...]:
    """The candidates in which the jobs of an option start; -1: one stays."""
    pair = option - problem.candidates.count
    if pair < 0:
        return (option,)
    return tuple(problem.shared.candidate[problem.shared.option == pair].tolist())


def options(problem: RoundProblem, job: int) -> list[int]:
    """Everything that a job may do."""
    every = range(problem.candidates.count + problem.shared.count)
    own = [k for k in every if job in jobs_of(problem, k)]
    stay = [int(problem.options.stay[job])] if job in problem.holds.job.tolist() else []
    return [NONE, *stay, *own]


def consistent(problem: RoundProblem, choice: Sequence[int]) -> bool:
    """Options are chosen by all their jobs; GPUs that are shared go on in one way at most."""
    for picked in choice:
        if oracle.starts(problem, picked) and any(
            choice[job] != picked for job in jobs_of(problem, picked)
        ):
            return False
    for gang in gangs_of(problem):
        ways = {("stay", job) for job in gang if choice[job] == problem.options.stay[job]}
        ways |= {
            ("together", choice[job])
            for job in gang
            if oracle.starts(problem, choice[job])
            and starts_of(problem, choice[job])[0] < 0
            and jobs_of(problem, choice[job])[0] == job
        }
        if len(ways) > 1:
            return False
    return True


def value(choice: Sequence[int], level: Level) -> float:
    """Worth of a choice, an option of several jobs once."""
    return sum(float(level.value[k]) for k in {k for k in choice if k >= 0})


def room_in_place(problem: RoundProblem, choice: Sequence[int]) -> oracle.Room | None:
    """What is left when stays and pairs in place keep theirs; None if that does not fit."""
    room = oracle.room_after_stays(problem, choice)
    if room is None:
        return None
    holds, nodes, table = problem.holds, problem.nodes, problem.candidates
    for picked in {k for k in choice if oracle.starts(problem, k)}:
        (host, *partners), (first, *others) = jobs_of(problem, picked), starts_of(problem, picked)
        if first >= 0:
            continue
        rows = np.flatnonzero(holds.job == host).tolist()
        leaves = {int(nodes.leaf[holds.node[row]]) for row in rows}
        for row in rows:
            node, gpus = int(holds.node[row]), float(holds.demand[row, 0])
            need = holds.demand[row].copy()
            for partner, start in zip(partners, others, strict=True):
                if start < 0:
                    theirs = (holds.job == partner) & (holds.node == node)
                    need[1:] += holds.demand[theirs, 1:].sum(axis=0)
                    continue
                usable = nodes.open[node] and nodes.node_class[node] == table.node_class[start]
                if not (usable and nodes.sets[table.node_set[start]][node]):
                    return None
                need[1:] += units(gpus, table.side.shape[1]) * table.side[start]
            room.nodes[node] -= need
            if len(leaves) > 1:
                room.uplinks[nodes.leaf[node]] -= need[SIDES]
    return room if room.fits() else None


def place(problem: RoundProblem, choice: Sequence[int]) -> bool:
    """Whether some choice of nodes carries a choice of configurations."""
    if not consistent(problem, choice) or not oracle.rules_hold(problem, choice):
        return False
    room = room_in_place(problem, choice)
    starts = sorted(
        {k for k in choice if oracle.starts(problem, k) and starts_of(problem, k)[0] >= 0}
    )

    def descend(left: list[int], room: oracle.Room) -> bool:
        if not left:
            return True
        for where in oracle.spots(problem, left[0]):
            after = oracle.take(problem, left[0], where, room)
            if after is not None and descend(left[1:], after):
                return True
        return False

    return room is not None and descend(starts, room)


def best_value(problem: RoundProblem, level: Level) -> float:
    """Worth of an optimum."""
    rows = [
        row
        for row in product(*(options(problem, job) for job in range(problem.jobs.count)))
        if consistent(problem, row)
    ]
    worth = np.asarray([value(row, level) for row in rows])
    for i in np.argsort(-worth, kind="stable").tolist():
        if place(problem, rows[i]):
            return float(worth[i])
    raise AssertionError("the rules of this round contradict each other")


def packed_jobs(selection: Selection, problem: RoundProblem) -> int:
    """Jobs of a selection that run in a pair."""
    shared = np.flatnonzero(problem.options.shared)
    return int(np.isin(selection.choice, shared).sum())
