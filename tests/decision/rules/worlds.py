"""Random snapshots with tenants and a past, and random rules for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.tables.table import MeasuredTable
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import CohortQuota, StrictOrder
from tests.formulations.worlds import oracle
from tests.policies.worlds import random_world

NOW_S = 180.0


def ruled_world(draw: np.random.Generator) -> tuple[MeasuredTable, RoundState, OperatorRules]:
    """A small state, speeds, and rules that mix all kinds; now and then they contradict."""
    table, before = random_world(draw, rows=3)
    jobs = tuple(_with_past(draw, job) for job in before.jobs)
    before = replace(before, jobs=jobs)
    return table, before, OperatorRules(tuple(_rules(draw, before)))


def _with_past(draw: np.random.Generator, known: JobState) -> JobState:
    tenant = str(draw.choice(["a", "b"]))
    user, priority = str(draw.choice(["u", "v"])), float(draw.integers(0, 4))
    own = replace(known.job, tenant=tenant, user=user, priority=priority)
    known = replace(known, job=own)
    if known.running is None and draw.random() < 0.5:
        return known
    starts = sorted(draw.uniform(0.0, NOW_S - 1.0, int(draw.integers(0, 3))).tolist())
    last = starts[-1] if starts else float(draw.uniform(0.0, NOW_S - 1.0))
    return replace(
        known, first_start_s=0.0, last_start_s=last, recent_starts_s=tuple(starts), starts=1
    )


def _rules(draw: np.random.Generator, before: RoundState) -> Iterator[Rule]:
    names = [known.job.name for known in before.jobs]
    nodes = [node.name for node in before.cluster.nodes]

    def some() -> tuple[str, ...]:
        return ("*",) if draw.random() < 0.3 else (str(draw.choice(names)),)

    chance = 0.3
    for tenant in ("a", "b"):
        if draw.random() < 0.5:
            more = [0, 0, 2, 4, None][int(draw.integers(5))]
            # What runs was decided under the same quotas, so they are no smaller than it.
            held = sum(
                known.running.placement.gpus
                for known in before.jobs
                if known.job.tenant == tenant and known.running is not None
            )
            least = max(0, held - (held if more is None else more))
            yield TenantQuota(tenant, least + int(draw.integers(0, 5)), more)
    if draw.random() < chance:
        yield from random_cohorts(draw)
    yield from _of_organisation(draw, before)
    if draw.random() < chance:
        yield StrictOrder(tuple(draw.permutation(names).tolist()))
    if draw.random() < chance:
        yield MinimumRun(float(draw.choice([30.0, 90.0, 150.0])), some())
    if draw.random() < chance:
        yield RestartLimit(int(draw.integers(1, 3)), some())
    if draw.random() < chance:
        yield NonPreemptible(some())
    if draw.random() < chance:
        field = str(draw.choice(["only_nodes", "not_nodes"]))
        yield NodeRule(some(), **{field: (str(draw.choice(nodes)),)})
    if draw.random() < chance:
        least = int(draw.integers(1, 4))
        most = None if draw.random() < 0.3 else least + int(draw.integers(0, 4))
        yield GangLimit(some(), least, most)
    if draw.random() < chance:
        start_s = float(draw.choice([0.0, NOW_S, NOW_S + 30.0, NOW_S + 60.0, NOW_S + 120.0]))
        end_s = start_s + float(draw.choice([100.0, 180.0, 900.0]))
        yield Maintenance((str(draw.choice(nodes)),), start_s, end_s, float(draw.choice([0, 90])))


def random_cohorts(draw: np.random.Generator, queues: str = "ab") -> Iterator[CohortQuota]:
    """Queues in cohorts of a tree of up to three levels, with limits and what others use."""
    cohorts = ["top", "left", "right"][: int(draw.integers(0, 4))]

    def limit() -> float | None:
        return [None, 0.0, 1.0, 2.0, 3.0][int(draw.integers(5))]

    for at, cohort in enumerate(cohorts):
        parent = "" if at == 0 else str(draw.choice(cohorts[:at]))
        yield CohortQuota(cohort, float(draw.integers(0, 3)), "p", parent, limit(), limit())
    for queue in queues:
        parent = str(draw.choice(["", *cohorts]))
        used = float(draw.integers(0, 3)) if draw.random() < 0.3 else 0.0
        quota = float(draw.integers(0, 5))
        yield CohortQuota(queue, quota, "p", parent, limit(), limit(), tenants=(queue,), used=used)


def _of_organisation(draw: np.random.Generator, before: RoundState) -> Iterator[Rule]:
    """Queues, limits and classes, each now and then."""
    for made in (random_queues(draw, before), random_limits(draw), random_classes(draw)):
        if draw.random() < 0.3:
            yield from made


def random_queues(
    draw: np.random.Generator, before: RoundState, leaves: str = "ab"
) -> Iterator[Queue]:
    """A tree of up to three levels over these leaves, by GPU type or of any type."""
    types = sorted({node.type.gpu_type.name for node in before.cluster.nodes})
    kinds = ["*"] if draw.random() < 0.4 else types
    inner = ["root", "left", "right"][: int(draw.integers(1, 4))]
    parents = {one: "" if one == "root" else "root" for one in inner}
    parents |= {leaf: str(draw.choice(inner)) for leaf in leaves}

    def limits(name: str) -> dict[str, float]:
        if not parents[name] or draw.random() < 0.4:
            return {}
        return {str(draw.choice([*kinds, "*"])): float(draw.integers(0, 4))}

    own: dict[str, dict[str, float]] = {}
    for name in [*leaves, *reversed(inner)]:  # leaves first, so that no queue has less than below
        below = [own[one] for one, above in parents.items() if above == name and own.get(one)]
        stated = not below or draw.random() < 0.5
        own[name] = {
            kind: sum(one.get(kind, 0.0) for one in below) + float(draw.integers(0, 4))
            for kind in kinds
        }
        if not stated:
            own[name] = {k: sum(one.get(k, 0.0) for one in below) for k in kinds}
        elif name in leaves and draw.random() < 0.2:
            own[name] = {}
    for name, above in parents.items():
        yield Queue(name, above, own[name], limits(name), limits(name))


def random_limits(draw: np.random.Generator) -> Iterator[RunningLimit]:
    """Limits of GPUs or jobs, of users, queues, users in queues, jobs or all."""
    for _ in range(int(draw.integers(1, 3))):
        most, jobs = int(draw.integers(0, 5)), draw.random() < 0.4
        per = str(draw.choice(["user", "queue", "user_queue", "all"] + ([] if jobs else ["job"])))
        queues = (str(draw.choice(["*", "a", "root", "root.*"])),)
        users = (str(draw.choice(["*", "u", "v"])),)
        yield RunningLimit(
            per,
            gpus=None if jobs else most,
            jobs=most if jobs else None,
            users=users,
            queues=queues if draw.random() < 0.5 else ("*",),
        )


def random_classes(draw: np.random.Generator) -> Iterator[PriorityClass]:
    """Three classes of one priority each; the priorities of jobs are 0 to 3."""
    for level in (1, 2, 3):
        preempts = "nothing" if draw.random() < 0.3 else "lower"
        yield PriorityClass(f"c{level}", (level, level), preempts, bool(draw.random() < 0.7))


def plain_view(table: MeasuredTable, before: RoundState, rules: OperatorRules) -> RoundView:
    """The round without the rules."""
    return CandidateBuilder(table, prune=rules.smallest_gang == 1).view(before)


def sizes_in(
    view: RoundView, before: RoundState, rules: OperatorRules
) -> dict[str, list[tuple[str, int]]]:
    """Node type and GPUs of each job's useful configurations, by listing places on empty nodes."""
    return {
        known.job.name: _useful(view.problem, before, job, rules)
        for job, known in enumerate(view.states)
    }


def _useful(
    problem: RoundProblem, before: RoundState, job: int, rules: OperatorRules
) -> list[tuple[str, int]]:
    table, name = problem.candidates, before.jobs[job].job.name
    limits = [r for r in rules.rules if isinstance(r, GangLimit) and matches(name, r.jobs)]
    demands = [r for r in rules.rules if isinstance(r, NodeRule) and matches(name, r.jobs)]
    end_s = before.time_s + before.interval_s
    windows = [
        r
        for r in rules.rules
        if isinstance(r, Maintenance) and before.time_s < r.end_s and end_s > r.start_s - r.lead_s
    ]
    free = {
        i
        for i, node in enumerate(before.cluster.nodes)
        if all(r.allows(node.name, node.type.gpu_type.name) for r in demands)
        and not any(matches(node.name, r.nodes) for r in windows)
    }
    fit = [
        k
        for k in np.flatnonzero(table.job == job).tolist()
        if all(r.least <= table.gpus[k] <= (r.most or np.inf) for r in limits)
        and any(free.issuperset(where) for where in oracle.spots(problem, k))
    ]

    def wins(a: int, b: int) -> bool:
        """From the page, for flat clusters: as fast, no more parts, none larger or hungrier."""
        pairs = list(zip(table.parts(a), table.parts(b), strict=False))
        embeds = len(table.parts(a)) <= len(table.parts(b)) and all(
            (table.demand(a, x) <= table.demand(b, y)).all() for x, y in pairs
        )
        as_fast = table.iteration_s[a] <= table.iteration_s[b]
        return bool(table.node_class[a] == table.node_class[b] and as_fast and embeds)

    return [
        (before.cluster.node_types[table.node_class[b]].name, int(table.gpus[b]))
        for b in fit
        if not any(wins(a, b) and not (wins(b, a) and b < a) for a in fit if a != b)
    ]


def placements(problem: RoundProblem, choice: list[int]) -> Iterator[Selection]:
    """Every way to place a choice on named nodes."""
    room = oracle.room_after_stays(problem, choice)
    if room is None:
        return
    started = [job for job, picked in enumerate(choice) if oracle.starts(problem, picked)]

    def descend(jobs: list[int], room: oracle.Room) -> Iterator[dict[int, tuple[int, ...]]]:
        if not jobs:
            yield {}
            return
        job, *rest = jobs
        for where in oracle.spots(problem, choice[job]):
            left = oracle.take(problem, choice[job], where, room)
            if left is not None:
                for more in descend(rest, left):
                    yield {job: where, **more}

    for spots in descend(started, room):
        nodes = tuple(spots.get(job, ()) for job in range(problem.jobs.count))
        yield Selection(np.asarray(choice, dtype=np.int64), nodes)


def best_by_audit(
    view: RoundView, before: RoundState, rules: OperatorRules, level: Level
) -> float | None:
    """Optimum over all decisions that the audit passes; None if it passes none.

    It takes the problem without rules and knows none of their rows.
    """
    problem, sizes = view.problem, sizes_in(view, before, rules)
    rows = oracle.combinations(problem).tolist()
    rows.sort(key=lambda row: -oracle.value(row, level))
    for row in rows:
        for selection in placements(problem, row):
            allocation = to_allocation(before, view, selection)
            if not audit(before, allocation, rules, sizes.__getitem__):
                return oracle.value(row, level)
    return None


def all_stay(problem: RoundProblem) -> Selection:
    """All running jobs stay."""
    return Selection(problem.options.stay, ((),) * problem.jobs.count)
