"""Random rounds with pairs, and their brute force: from the definitions, without the code under
test but the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from formulations.round.pairs import STAY, PairTable, lifted
from formulations.round.rule_table import RULE_X
from formulations.round.tables import (
    NONE,
    CandidateTable,
    HoldTable,
    Level,
    RoundProblem,
    Selection,
)
from morph_opt.policies.objectives.plain import Jct, Throughput
from tests.formulations import oracle
from tests.formulations.random_rounds import EVERYTHING, RoundSize, random_round
from tests.formulations.rounds import level_of

PACKED = replace(EVERYTHING, jobs=4, nodes=3, candidates=2, running=0.45)
PACKED_GPUS = RoundSize(jobs=4, nodes=3, classes=2, candidates=2, gpus=(1, 2, 3, 4), running=0.6)


@dataclass(frozen=True)
class _Row:
    """One pair before it is a row."""

    first: int
    second: int
    first_half: int
    second_half: int
    side: np.ndarray
    node_class: int
    node_set: int = 0


def packed_round(draw: np.random.Generator, size: RoundSize = PACKED) -> RoundProblem:
    """A random round with pairs of every sort; equal generators give equal rounds."""
    problem = _with_twins(draw, random_round(draw, size))
    problem = _with_sharing(draw, problem)
    rows = [*_fresh(draw, problem), *_in_place(draw, problem)]
    return with_rows(draw, problem, rows) if rows else problem


def packed_level(draw: np.random.Generator, problem: RoundProblem) -> Level:
    """Values of an objective, or drawn freely, some of them ties."""
    kind = int(draw.integers(4))
    if kind < 2:
        return (Throughput() if kind else Jct()).levels(problem)[0]
    values = draw.uniform(0.0, 10.0, problem.candidates.count)
    values[problem.candidates.count - problem.pairs.count :] *= 2.0
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


def _with_sharing(draw: np.random.Generator, problem: RoundProblem) -> RoundProblem:
    """A queued job runs on the GPUs of a running one, in some rounds."""
    running = np.flatnonzero(problem.jobs.running)
    queued = np.flatnonzero(~problem.jobs.running)
    if not running.size or not queued.size or draw.random() < 0.4:
        return problem
    host, guest = int(draw.choice(running)), int(draw.choice(queued))
    holds = problem.holds
    mine = holds.job == host
    demand = holds.demand[mine].copy()
    room = problem.nodes.capacity[problem.nodes.node_class] - problem.held()
    demand[:, 1:] = np.minimum(demand[:, 1:], np.maximum(0.0, room[holds.node[mine], 1:]))
    demand[:, 1:] *= draw.choice([0.0, 0.5, 1.0])
    pace = problem.jobs.stay_iteration_s.copy()
    pace[guest] = draw.uniform(0.2, 4.0)
    return replace(
        problem,
        jobs=replace(problem.jobs, stay_iteration_s=pace),
        holds=HoldTable(
            np.concatenate([holds.job, np.full(int(mine.sum()), guest)]),
            np.concatenate([holds.node, holds.node[mine]]),
            np.concatenate([holds.demand, demand]),
            np.concatenate([holds.uplink_gb_per_s, np.zeros(int(mine.sum()))]),
        ),
        pairs=PairTable(sharing=np.asarray([sorted((host, guest))])),
    )


def _fresh(draw: np.random.Generator, problem: RoundProblem) -> list[_Row]:
    table, found = problem.candidates, []
    for a in range(table.count):
        for b in range(a + 1, table.count):
            same = (
                table.job[a] != table.job[b]
                and table.parts(a) == table.parts(b)
                and table.node_class[a] == table.node_class[b]
                and table.scope[a] == table.scope[b]
                and table.node_set[a] == table.node_set[b]
            )
            limit = problem.nodes.capacity[table.node_class[a], 1:] / table.parts(a)[0]
            side = table.side[a] + table.side[b]
            if same and (side <= limit).all() and draw.random() < 0.7:
                found.append(
                    _Row(int(table.job[a]), int(table.job[b]), a, b, side,
                         int(table.node_class[a]), int(table.node_set[a]))
                )  # fmt: skip
    return found


def _in_place(draw: np.random.Generator, problem: RoundProblem) -> list[_Row]:
    holds, table, nodes = problem.holds, problem.candidates, problem.nodes
    per_gpu = holds.demand[:, 1:] / holds.demand[:, :1]
    sharing = problem.pairs.sharing.tolist()
    found = []
    for one, two in sharing:
        if draw.random() < 0.85:
            # Both hold that already: no node may be asked for more.
            side = per_gpu[holds.job == one].min(axis=0) + per_gpu[holds.job == two].min(axis=0)
            kind = int(nodes.node_class[holds.node[holds.job == one][0]])
            found.append(_Row(one, two, STAY, STAY, side, kind))
    for host in np.flatnonzero(problem.jobs.running).tolist():
        kind = int(nodes.node_class[holds.node[holds.job == host][0]])
        for guest in range(problem.jobs.count):
            own = np.flatnonzero((table.job == guest) & (table.node_class == kind))
            if guest == host or not own.size or [min(host, guest), max(host, guest)] in sharing:
                continue
            if draw.random() < 0.6:
                half = int(draw.choice(own))
                side = per_gpu[holds.job == host][0] + table.side[half]
                found.append(_Row(host, guest, STAY, half, side, kind, int(table.node_set[half])))
    return found


def with_rows(
    draw: np.random.Generator, problem: RoundProblem, rows: Sequence[_Row]
) -> RoundProblem:
    """The round with these pairs, their speeds drawn."""
    table, holds = problem.candidates, problem.holds
    parts = [table.parts(r.first_half) if r.first_half >= 0 else () for r in rows]
    held = np.bincount(holds.job, holds.demand[:, 0], minlength=problem.jobs.count)
    lengths = [len(p) for p in parts]
    candidates = CandidateTable(
        job=np.concatenate([table.job, [r.first for r in rows]]),
        node_class=np.concatenate([table.node_class, [r.node_class for r in rows]]),
        iteration_s=np.concatenate([table.iteration_s, draw.uniform(0.2, 4.0, len(rows))]),
        gpus=np.concatenate(
            [table.gpus, [sum(p) or int(held[r.first]) for p, r in zip(parts, rows, strict=True)]]
        ),
        part_start=np.concatenate(
            [table.part_start, table.part_start[-1] + np.cumsum(lengths)]
        ).astype(np.int64),
        part_gpus=np.concatenate([table.part_gpus, [gpus for p in parts for gpus in p]]).astype(
            np.int64
        ),
        side=np.concatenate([table.side, [r.side for r in rows]]),
        scope=np.concatenate(
            [table.scope, [table.scope[r.first_half] if r.first_half >= 0 else 0 for r in rows]]
        ),
        node_set=np.concatenate([table.node_set, [r.node_set for r in rows]]),
    )
    pairs = PairTable(
        partner=np.asarray([r.second for r in rows]),
        partner_iteration_s=draw.uniform(0.2, 4.0, len(rows)),
        first_half=np.asarray([r.first_half for r in rows]),
        second_half=np.asarray([r.second_half for r in rows]),
        sharing=problem.pairs.sharing,
    )
    paired = replace(problem, candidates=candidates, pairs=pairs)
    return replace(paired, rules=lifted(paired, problem.rules))


# --- brute force ------------------------------------------------------------------------------


def jobs_of(problem: RoundProblem, candidate: int) -> tuple[int, ...]:
    """The jobs that a candidate is about."""
    pair = candidate - (problem.candidates.count - problem.pairs.count)
    first = int(problem.candidates.job[candidate])
    return (first,) if pair < 0 else (first, int(problem.pairs.partner[pair]))


def options(problem: RoundProblem, job: int) -> list[int]:
    """Everything that a job may do."""
    own = [k for k in range(problem.candidates.count) if job in jobs_of(problem, k)]
    stay = [int(problem.options.stay[job])] if job in problem.holds.job.tolist() else []
    return [NONE, *stay, *own]


def consistent(problem: RoundProblem, choice: Sequence[int]) -> bool:
    """Pairs are chosen by both; GPUs that are shared go on in one way at most."""
    for picked in choice:
        if oracle.starts(problem, picked) and any(
            choice[job] != picked for job in jobs_of(problem, picked)
        ):
            return False
    for couple in problem.pairs.sharing.tolist():
        ways = {("stay", job) for job in couple if choice[job] == problem.options.stay[job]}
        ways |= {
            ("pair", choice[job])
            for job in couple
            if oracle.starts(problem, choice[job])
            and not problem.candidates.parts(choice[job])
            and jobs_of(problem, choice[job])[0] == job
        }
        if len(ways) > 1:
            return False
    return True


def value(choice: Sequence[int], level: Level) -> float:
    """Worth of a choice, a pair once."""
    return sum(float(level.value[k]) for k in {k for k in choice if k >= 0})


def room_in_place(problem: RoundProblem, choice: Sequence[int]) -> oracle.Room | None:
    """What is left when stays and pairs in place keep theirs; None if that does not fit."""
    room = oracle.room_after_stays(problem, choice)
    if room is None:
        return None
    holds, nodes, table = problem.holds, problem.nodes, problem.candidates
    for picked in {k for k in choice if oracle.starts(problem, k) and not table.parts(k)}:
        host = jobs_of(problem, picked)[0]
        rows = np.flatnonzero(holds.job == host).tolist()
        leaves = {int(nodes.leaf[holds.node[row]]) for row in rows}
        comes = problem.pairs.second_half[picked - table.count] != STAY
        for row in rows:
            node, gpus = int(holds.node[row]), float(holds.demand[row, 0])
            usable = nodes.open[node] and nodes.node_class[node] == table.node_class[picked]
            if comes and not (usable and nodes.sets[table.node_set[picked]][node]):
                return None
            room.nodes[node] -= gpus * np.concatenate([[1.0], table.side[picked]])
            if len(leaves) > 1:
                room.uplinks[nodes.leaf[node]] -= gpus * table.side[picked][-1]
    return room if room.fits() else None


def place(problem: RoundProblem, choice: Sequence[int]) -> bool:
    """Whether some choice of nodes carries a choice of configurations."""
    if not consistent(problem, choice) or not oracle.rules_hold(problem, choice):
        return False
    room = room_in_place(problem, choice)
    starts = sorted(
        {k for k in choice if oracle.starts(problem, k) and problem.candidates.parts(k)}
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
