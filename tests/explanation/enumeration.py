"""Explanations by enumeration: random small rounds, and what `docs/explanation.md` says of them.

Nothing here knows a dual, a model or a solver. Every choice of a round is listed with whether it
can be placed under any set of the rules; reasons, displacement, gains and blocking rules follow
from their definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from formulations.objectives import guarantee, kept
from formulations.round.tables import NONE, Level, RoundProblem
from morph_opt.core.domain import (
    A800_NODE,
    Assignment,
    Cluster,
    Job,
    JobState,
    Leaf,
    Node,
    Placement,
    RoundState,
    Shape,
    SideDemand,
    Span,
    partitions,
)
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.round.speeds import SpeedRow, SpeedTable
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.method import Evidence
from morph_opt.scheduling.decision.objective import Objective, Stateless
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.rules.model import Maintenance, NodeRule, OperatorRules, Rule
from morph_opt.scheduling.explanation.report import JobExplanation, Option, RoundExplanation
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from tests.decision.rules.worlds import _rules, _with_past
from tests.formulations.worlds import oracle
from tests.policies.worlds import DP, GC, state

CHANGE = 1e-6
TOLERANCE = 1e-5
"""Of numbers next to each other: solves go to a relative gap of 1e-6."""


# ---------------------------------------------------------------- random rounds


@dataclass(frozen=True)
class TwoGoals(Stateless):
    """First as many jobs as possible at work, then throughput."""

    name: str = "two-goals"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        (speed,) = Throughput().levels(problem)
        first = Level("at work", "jobs", np.ones(problem.options.count))
        return first, speed


def random_round(
    draw: np.random.Generator,
) -> tuple[SpeedTable, RoundState, OperatorRules, Objective]:
    """A snapshot with leaves, domains, side resources, promises, rules and a past; or some."""
    where = _cluster(draw)
    table = _speeds(draw, where)
    before = _state(draw, where, table)
    while _overdrawn(table, before):
        before = _state(draw, where, table)
    rules = OperatorRules(tuple(_rules(draw, before))) if draw.random() < 0.6 else OperatorRules()
    goals: list[Objective] = [Throughput(), Jct(), TwoGoals()]
    return table, before, rules, goals[int(draw.integers(3))]


def _state(draw: np.random.Generator, where: Cluster, table: SpeedTable) -> RoundState:
    free = {i: list(range(node.type.gpus)) for i, node in enumerate(where.nodes)}
    count = int(draw.integers(2, 5))
    jobs = tuple(_with_past(draw, _job(draw, f"j{i}", table, where, free)) for i in range(count))
    closed = [i for i in range(len(where.nodes)) if draw.random() < 0.1]
    return state(where, *jobs, closed=closed)


def _overdrawn(table: SpeedTable, before: RoundState) -> bool:
    """Whether what runs holds more than there is."""
    try:
        problem = CandidateBuilder(table).view(before).problem
    except ValueError:
        return True
    all_stay = problem.options.stay.tolist()
    return oracle.room_after_stays(problem, all_stay) is None


def _cluster(draw: np.random.Generator) -> Cluster:
    tight = draw.random() < 0.4
    sizes = draw.choice([1, 2, 4], 2, replace=False).tolist()
    kinds = [
        replace(
            A800_NODE, name=f"x{size}", gpus=size, cpus=4 * size if tight else 64,
            host_memory_gib=10.0 * size if tight else 1e3, rdma_gb_per_s=5.0 * size,
        )
        for size in sizes
    ]  # fmt: skip
    count, leaves = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    domains = draw.random() < 0.3
    nodes = []
    for i in range(count):
        leaf = f"l{int(draw.integers(leaves))}"
        domain = f"d-{leaf}-{int(draw.integers(2))}" if domains and draw.random() < 0.8 else None
        nodes.append(Node(f"n{i}", kinds[int(draw.random() < 0.3)], leaf, domain))
    known = sorted({node.leaf for node in nodes})
    limited = tuple(
        Leaf(leaf, float(draw.choice([2.0, 6.0]))) for leaf in known if draw.random() < 0.4
    )
    return Cluster("random", tuple(nodes), limited)


def _speeds(draw: np.random.Generator, where: Cluster) -> SpeedTable:
    """Rows per model, for all spans or a time for each, slower with distance."""
    rows: list[SpeedRow] = []
    for kind in where.node_types:
        for model in ("m", "w"):
            seen = set()
            for _ in range(int(draw.integers(1, 4))):
                shapes = partitions(int(draw.integers(1, 2 * kind.gpus + 1)), kind.gpus)
                shape = shapes[int(draw.integers(min(4, len(shapes))))]
                plan = DP if draw.random() < 0.8 else GC
                if (shape, plan) in seen:
                    continue
                seen.add((shape, plan))
                rows += _rows(draw, model, kind.name, shape, plan)
    return SpeedTable(rows)


def _rows(
    draw: np.random.Generator, model: str, kind: str, shape: Shape, plan: object
) -> Iterator[SpeedRow]:
    seconds = float(draw.uniform(0.5, 1.5)) * 8 / shape.gpus**0.8
    side = SideDemand(
        int(draw.choice([0, 0, 3, 5])), float(draw.choice([0.0, 8.0])),
        float(draw.choice([0.0, 2.0])) if shape.nodes > 1 else 0.0,
    )  # fmt: skip
    made = Configuration(shape, plan, seconds, side)  # type: ignore[arg-type]
    if shape.nodes == 1 or draw.random() < 0.5:
        yield SpeedRow(model, kind, made)
        return
    spans = (Span.NVLINK, Span.LEAF, Span.POD)
    for i, span in enumerate(spans[: int(draw.integers(1, 4))]):
        yield SpeedRow(model, kind, replace(made, iteration_s=seconds * (1.0 + 0.3 * i)), span)


def _job(
    draw: np.random.Generator, name: str, table: SpeedTable, where: Cluster,
    free: dict[int, list[int]],
) -> JobState:  # fmt: skip
    job = Job(
        name, str(draw.choice(["m", "w"])), 0.0, int(draw.integers(1, 1000)),
        int(draw.choice([1, 2, 4])), DP, guaranteed=bool(draw.random() < 0.3),
        weight=float(draw.choice([1.0, 2.0])),
    )  # fmt: skip
    waiting = JobState(job, restart_s=float(draw.choice([0.0, 30.0, 120.0])))
    if draw.random() < 0.5:
        return waiting
    kind = where.node_types[int(draw.integers(len(where.node_types)))]
    mine = [r for r in table.rows if (r.model, r.node_type) == (job.model, kind.name)]
    row = mine[int(draw.integers(len(mine)))]
    parts: dict[int, list[int]] = {}
    for part in row.configuration.shape.parts:
        fits = [n for n in where.nodes_of(kind) if n not in parts and len(free[n]) >= part]
        if not fits:
            return waiting
        parts[int(fits[0])] = free[fits[0]][:part]
    what, span = row.configuration, topology_of(where).span(tuple(parts))
    if table.iteration_s(job.model, kind, what.shape, what.plan, span) is None:
        return waiting
    for node, gpus in parts.items():
        free[node] = [gpu for gpu in free[node] if gpu not in gpus]
    held = Assignment(name, what.plan, Placement.of(parts))
    left_s = float(draw.choice([0.0, 0.5])) * waiting.restart_s
    return replace(waiting, running=held, restart_left_s=left_s)


# ---------------------------------------------------------------- every decision of a round


Score = tuple[float, ...]


class Enumerated:
    """Every choice of a posed round and what it reaches."""

    def __init__(self, posed: PosedRound) -> None:
        self.posed = posed
        self.problem = posed.problem
        self.choices = [tuple(row) for row in oracle.combinations(self.problem).tolist()]
        self._allowed: dict[tuple[int, ...], bool] = {}
        self._scores: dict[tuple[int, ...], Score] = {}
        self._spots: oracle.Known = {}

    def allowed(self, choice: tuple[int, ...]) -> bool:
        """Whether some placement carries it and the rules pass it."""
        if choice not in self._allowed:
            self._allowed[choice] = oracle.place(self.problem, choice, self._spots) is not None
        return self._allowed[choice]

    def score(self, choice: tuple[int, ...]) -> Score:
        """Promises, then the goals: infinity where all promises are kept."""
        if choice not in self._scores:
            self._scores[choice] = self._score(choice)
        return self._scores[choice]

    def _score(self, choice: tuple[int, ...]) -> Score:
        goals = tuple(oracle.value(choice, level) for level in self.posed.goals)
        promised = np.flatnonzero(self.problem.jobs.guaranteed).tolist()
        if not promised:
            return goals
        enough = kept(self.problem)
        fast = [choice[j] != NONE and bool(enough[choice[j]]) for j in promised]
        first = np.inf if all(fast) else oracle.value(choice, guarantee(self.problem))
        return (first, *goals)

    @cached_property
    def scales(self) -> Score:
        """What counts as one, per goal."""
        levels = list(self.posed.goals)
        if self.problem.jobs.guaranteed.any():
            levels.insert(0, guarantee(self.problem))
        return tuple(float(np.abs(level.value).max(initial=0.0)) for level in levels)

    def change(self, before: Score, after: Score) -> tuple[int, float]:
        """First goal that differs, counted from the last, and by how much; (0, 0) for none.

        Where one round has fewer goals, for want of a rule that ranks jobs, only the last counts.
        """
        scales = self.scales
        if len(before) != len(after):
            before, after, scales = before[-1:], after[-1:], scales[-1:]
        for place, (old, new, scale) in enumerate(zip(before, after, scales, strict=True)):
            known = abs(old) if np.isfinite(old) else 0.0
            if new != old and abs(new - old) > CHANGE * max(known, scale):
                return len(before) - 1 - place, new - old
        return 0, 0.0

    def optima(self, job: int = -1, rows: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """Best choices; with ``rows``, of those in which the job is in one of them."""
        mine = [c for c in self.choices if not rows or c[job] in rows]
        mine.sort(key=self.score, reverse=True)
        best: Score | None = None
        found = []
        for choice in mine:
            score = self.score(choice)
            if best is not None and self.change(best, score)[1] < 0:
                break
            if self.allowed(choice):
                best = best or score
                found.append(choice)
        return found

    @cached_property
    def best(self) -> list[tuple[int, ...]]:
        """All optima of the round."""
        return self.optima()

    def worth(self, choice: tuple[int, ...]) -> float:
        """Value of a choice to the goal that is priced."""
        return oracle.value(choice, self.posed.worth)

    def of_job(self, job: int, picked: int) -> float:
        """What a choice of one job is worth to that goal."""
        return oracle.value([NONE] * job + [picked], self.posed.worth)


# ---------------------------------------------------------------- what an explanation must say


def complaints(found: RoundExplanation, evidence: Evidence, choice: Sequence[int]) -> Iterator[str]:
    """Everything in an explanation that its definitions contradict."""
    posed = evidence.posed
    here = Enumerated(posed)
    picked = tuple(int(k) for k in choice)
    if not here.best:
        yield "explained though no decision exists"
        return
    target = here.worth(here.best[0])
    little = CHANGE * max(abs(target), here.scales[-1])
    if here.change(here.score(here.best[0]), here.score(picked))[1] != 0:
        yield f"decided {here.score(picked)}, best is {here.score(here.best[0])}"
    for what, number in (("value", found.value), ("optimum", found.optimum)):
        if number is None or abs(number - target) > TOLERANCE * max(1e-9, abs(target)):
            yield f"{what} {number}, enumeration {target}"
    if found.relaxation < target - TOLERANCE * max(1e-9, abs(target)):
        yield f"relaxation {found.relaxation} below {target}"
    for job, told in enumerate(found.jobs):
        for words in _of_job(here, job, told, picked, little):
            yield f"{told.job} ({told.reason}): {words}"
    tight = abs(found.relaxation - target) <= 1e-7 * max(1e-9, abs(target))
    yield from _prices(found, little, tight)
    yield from _nodes(found, posed, target)


def _rows_of(here: Enumerated, job: int, option: Option) -> list[int]:
    view, table = here.posed.view, here.problem.candidates
    kinds = here.posed.state.cluster.node_types
    rows = []
    for k in range(int(view.offset[job]), int(view.offset[job + 1])):
        what = view.configuration(job, k)
        same = (what.plan.label, what.shape.label, kinds[int(table.node_class[k])].name) == (
            option.plan, option.shape, option.node_type,
        )  # fmt: skip
        if same and abs(here.of_job(job, k) - option.value) <= 1e-9 * max(1e-9, option.value):
            rows.append(k)
    return rows


def _of_job(
    here: Enumerated, job: int, told: JobExplanation, picked: tuple[int, ...], little: float
) -> Iterator[str]:
    view = here.posed.view
    mine = range(int(view.offset[job]), int(view.offset[job + 1]))
    got = here.of_job(job, picked[job])
    better = [k for k in mine if here.of_job(job, k) > got + 2 * little]
    stay = here.posed.problem.options.stay[job]
    action = {NONE: "queue", stay: "stay"}.get(picked[job], "start")
    action = "queue" if picked[job] == NONE else action
    if told.action != action:
        yield f"action {told.action}, not {action}"
    if told.granted is not None and abs(told.granted.value - got) > little:
        yield f"granted {told.granted.value}, got {got}"
    if told.best is None:
        expected = "no_configuration" if not mine and picked[job] == NONE else "best"
        if better or told.reason != expected:
            yield f"nothing better named, there is {better}"
        return
    rows = _rows_of(here, job, told.best)
    if not rows or told.best.value <= got:
        yield f"best option is none: {told.best}"
        return
    forced = here.optima(job, rows)
    if not forced:
        yield from _shut_out(here, job, told, rows)
        return
    yield from _forced(here, job, told, forced, picked, little)


def _shut_out(here: Enumerated, job: int, told: JobExplanation, rows: list[int]) -> Iterator[str]:
    """An option that no decision has: rules, a smallest set of them, or no placement."""
    rules = here.posed.rules.rules

    def possible(kept_rules: tuple[Rule, ...]) -> bool:
        other = Enumerated(here.posed.under(here.posed.rules.only(kept_rules)))
        return bool(other.optima(job, rows))

    if told.displaces is not None:
        yield "displaces something though it cannot be forced"
    if not possible(()):
        if told.reason != "placement" or told.blocked_by:
            yield "no placement without any rule"
        return
    if told.reason != "rule":
        yield "only rules forbid it"
        return
    named = tuple(rule for rule in rules if rule.words in told.blocked_by)
    if possible(named):
        yield f"possible under {told.blocked_by}"
    for size in range(len(told.blocked_by)):
        for smaller in combinations(rules, size):
            if not possible(smaller):
                yield f"{len(told.blocked_by)} rules named, {size} are enough"
                return


def _forced(
    here: Enumerated, job: int, told: JobExplanation, forced: list[tuple[int, ...]],
    picked: tuple[int, ...], little: float,
) -> Iterator[str]:  # fmt: skip
    """An option that some decision has."""
    best = here.score(here.best[0])
    place, change = here.change(best, here.score(forced[0]))
    if told.displaces is None:
        yield f"can be forced: {forced[0]}"
        return
    cost = here.worth(here.best[0]) - here.worth(forced[0])
    if abs(told.displaces.cost - cost) > 10 * little:
        yield f"costs {cost}, said {told.displaces.cost}"
    losses = {loss.job: loss.loses for loss in told.displaces.losses}
    if not any(_same(losses, _losses(here, picked, c, little), little) for c in forced):
        yield f"losses {told.displaces.losses} are those of no best decision"
    may, must = _held_back(here, job, picked, little)
    if told.reason == "rule":
        if not told.blocked_by or not set(told.blocked_by) <= may:
            yield f"{told.blocked_by} do not hold it back, {may} do"
        return
    if must:
        yield f"{must} hold it back"
    expected = "tie" if change == 0 else "earlier_goal" if place > 0 else "price"
    if told.reason != expected:
        yield f"is {expected}: {best} -> {here.score(forced[0])}"


def _losses(
    here: Enumerated, picked: tuple[int, ...], after: tuple[int, ...], little: float
) -> dict[str, float]:
    found = {}
    for job, known in enumerate(here.posed.state.jobs):
        lost = here.of_job(job, picked[job]) - here.of_job(job, after[job])
        if lost > little:
            found[known.job.name] = lost
    return found


def _same(one: dict[str, float], two: dict[str, float], little: float) -> bool:
    return set(one) == set(two) and all(abs(one[key] - two[key]) <= 10 * little for key in one)


def _held_back(
    here: Enumerated, job: int, picked: tuple[int, ...], little: float
) -> tuple[set[str], set[str]]:
    """Rules that may, and that must, be said to hold a job back."""
    rules, got = here.posed.rules, here.of_job(job, picked[job])
    may, must = set(), set()
    for rule in rules.rules:
        other = Enumerated(here.posed.under(rules.without(rule)))
        if here.change(here.score(picked), other.score(other.best[0]))[1] <= 0:
            continue
        more = [other.of_job(job, c[job]) > got + little for c in other.best]
        may |= {rule.words} if any(more) else set()
        must |= {rule.words} if all(more) else set()
    return may, must


RESOURCES = {
    "GPUs", "CPU threads", "host memory", "network cards", "local SSD", "uplinks",
    "distinct nodes", "placement",
}  # fmt: skip


def _prices(found: RoundExplanation, little: float, tight: bool) -> Iterator[str]:
    for row in found.prices:
        if min(row.gpu_price, row.gpu_s_price) < -little:
            yield f"negative price: {row}"
    for told in found.jobs:
        for option in (told.granted, told.best):
            if option is None:
                continue
            paid = dict(option.paid_for)
            if any(paid[word] < -little for word in RESOURCES & set(paid)):
                yield f"{told.job} is paid for {paid}"
            if abs(sum(paid.values()) - option.price) > little:
                yield f"{told.job} pays {paid}, price {option.price}"
            if abs(option.value - option.price - option.reduced) > little:
                yield f"{told.job}: reduced {option.reduced} is not value less price"
        if not tight or told.best is None:
            continue
        # The relaxation is as good as the round, so the decision is one of its optima.
        own = 0.0 if told.granted is None else told.granted.reduced - told.granted.rules
        if told.best.reduced - told.best.rules > own + 100 * little:
            yield f"{told.job} should have got its best option at these prices"


def _nodes(found: RoundExplanation, posed: PosedRound, target: float) -> Iterator[str]:
    """Rows are kinds of nodes, each with the gain of every node of it."""
    cluster = posed.state.cluster
    expected: dict[tuple[object, ...], list[float]] = {}
    for node in np.flatnonzero(posed.problem.nodes.open).tolist():
        kind = cluster.nodes[node]
        key = (kind.type.name, kind.leaf, kind.nvlink_domain)
        expected.setdefault(key, []).append(_gain(posed, node, target))
    told: dict[tuple[object, ...], list[float]] = {}
    for row in found.prices:
        gain = np.nan if row.node_gain is None else row.node_gain
        told.setdefault((row.node_type, row.leaf, row.domain), []).extend([gain] * row.nodes)
    if set(told) != set(expected):
        yield f"kinds {sorted(map(str, told))}, are {sorted(map(str, expected))}"
        return
    for key, gains in expected.items():
        little = TOLERANCE * max(1e-9, abs(target), *map(abs, gains))
        if np.isnan(told[key]).any():  # the search gave up, which it may; its bound is looked at
            continue
        apart = [abs(a - b) for a, b in zip(sorted(gains), sorted(told[key]), strict=False)]
        if len(gains) != len(told[key]) or max(apart) > little:
            yield f"nodes {key} gain {gains}, said {told[key]}"
    bounds: dict[tuple[object, ...], list[float]] = {}
    for row in found.prices:
        most = -np.inf if row.node_bound is None else row.node_bound
        bounds.setdefault((row.node_type, row.leaf, row.domain), []).extend([most] * row.nodes)
    for key, gains in expected.items():  # each is at least its own gain, so the k-th the k-th
        for gain, bound in zip(sorted(gains), sorted(bounds[key]), strict=True):
            if bound < gain - TOLERANCE * max(1e-9, abs(target), abs(gain)):
                yield f"nodes {key} gain {gain}, said at most {bound}"


def _gain(posed: PosedRound, like: int, target: float) -> float:
    """What one more node is worth, the snapshot being written anew with it."""
    state_, name = posed.state, "zz"
    one = replace(state_.cluster.nodes[like], name=name)
    larger = replace(state_.cluster, nodes=(*state_.cluster.nodes, one))
    alike = state_.cluster.nodes[like].name
    rules = tuple(_also(rule, alike, name) for rule in posed.rules.rules)
    poser = RoundPoser(posed.poser.belief, posed.poser.objective, replace(posed.rules, rules=rules))
    more = Enumerated(poser.pose(replace(state_, cluster=larger)))
    return more.worth(more.best[0]) - target


def _also(rule: Rule, alike: str, name: str) -> Rule:
    """A rule that names a node is meant for the new one like it; patterns here are whole names."""

    def named(patterns: tuple[str, ...]) -> tuple[str, ...]:
        return (*patterns, name) if alike in patterns else patterns

    if isinstance(rule, Maintenance):
        return replace(rule, nodes=named(rule.nodes))
    if isinstance(rule, NodeRule):
        return replace(rule, only_nodes=named(rule.only_nodes), not_nodes=named(rule.not_nodes))
    return rule
