"""Random rounds of an organisation, and their best decisions by enumeration of all decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pytest

from formulations.round.tables import RoundProblem
from morph_opt.core.domain import (
    A800_NODE,
    Assignment,
    Cluster,
    Job,
    JobState,
    Node,
    Placement,
    RoundState,
    Shape,
)
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import (
    BlockParams,
    CoreParams,
    LadderParams,
    TinyParams,
)
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    MinimumRun,
    NonPreemptible,
    OperatorRules,
    Rule,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.decision.rules.worlds import placements, sizes_in
from tests.formulations.worlds import oracle
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import DP, state

TYPES = ("A", "B")
LEAVES = ("ra", "rb", "sa", "sb")
PARENTS = {"root": "", "r": "root", "s": "root", "ra": "r", "rb": "r", "sa": "s", "sb": "s"}
_MOST = 60_000


@dataclass(frozen=True)
class World:
    """A round, the speeds of its jobs, and the rules of its organisation."""

    speeds: MeasuredTable
    before: RoundState
    rules: OperatorRules


def random_organisation(draw: np.random.Generator) -> World:
    """Two GPU types, a tree of three levels, limits of users, three classes, checkpoints."""
    kinds = [
        replace(
            A800_NODE,
            name=f"{one}-x{gpus}",
            gpus=gpus,
            gpu_type=replace(A800_NODE.gpu_type, name=one),
        )
        for one, gpus in zip(TYPES, draw.choice([2, 3, 4], 2).tolist(), strict=True)
    ]
    where = Cluster(
        "two", tuple(Node(f"n{i}", kinds[i % 2]) for i in range(int(draw.integers(2, 4))))
    )
    free = {at: list(range(node.type.gpus)) for at, node in enumerate(where.nodes)}
    rows: list[Measurement] = []
    jobs = [_job(draw, f"j{i}", where, free, rows) for i in range(int(draw.integers(3, 6)))]
    rules = OperatorRules(tuple(_rules(draw, where)))
    return World(MeasuredTable(rows), state(where, *jobs), rules)


def _job(
    draw: np.random.Generator,
    name: str,
    where: Cluster,
    free: dict[int, list[int]],
    rows: list[Measurement],
) -> JobState:
    """A job with a model of its own; it runs where its shape finds room, or waits."""
    kinds = {kind.gpu_type.name: kind for kind in where.node_types}
    mine = [
        Measurement(name, one, Shape((gpus,)), DP, float(draw.uniform(0.5, 2.0)) * 8 / gpus**0.8)
        for one in kinds
        for gpus in sorted(set(draw.integers(1, 5, 2).tolist()))
        if gpus <= kinds[one].gpus and draw.random() < 0.8
    ]
    mine = mine or [Measurement(name, next(iter(kinds)), Shape((1,)), DP, 8.0)]
    rows += mine
    job = Job(
        name,
        name,
        0.0,
        int(draw.integers(10, 1000)),
        1,
        DP,
        weight=float(draw.uniform(0.5, 2.0)),
        tenant=str(draw.choice([*LEAVES, "root.r", "other"])),
        user=str(draw.choice(["u", "v"])),
        priority=float(draw.integers(0, 31)),
    )
    waiting = JobState(job, restart_s=float(draw.choice([10.0, 60.0])))
    row = mine[int(draw.integers(len(mine)))]
    fits = [
        at
        for at, node in enumerate(where.nodes)
        if node.type.gpu_type.name == row.gpu_type and len(free[at]) >= row.shape.gpus
    ]
    if not fits or draw.random() < 0.4:
        return waiting
    at = int(draw.choice(fits))
    held, free[at] = free[at][: row.shape.gpus], free[at][row.shape.gpus :]
    start_s = float(draw.choice([30.0, 90.0, 150.0]))
    return replace(
        waiting,
        running=Assignment(name, DP, Placement.of({at: held})),
        first_start_s=0.0,
        last_start_s=start_s,
        checkpointed_s=float(draw.uniform(start_s, 180.0)) if draw.random() < 0.5 else None,
    )


def _rules(draw: np.random.Generator, where: Cluster) -> Iterator[Rule]:
    any_type = draw.random() < 0.3
    own: dict[str, dict[str, float]] = {}
    there = {one: sum(n.type.gpus for n in where.nodes if n.type.gpu_type.name == one)
             for one in TYPES}  # fmt: skip
    kinds = {"*": sum(there.values())} if any_type else {k: n for k, n in there.items() if n}
    for name in (*LEAVES, "r", "s", "root"):
        below = [own[one] for one, above in PARENTS.items() if above == name]
        extra = {kind: float(draw.integers(0, 1 + most // 2)) for kind, most in kinds.items()}
        own[name] = {k: sum(one.get(k, 0.0) for one in below) + extra[k] for k in kinds}

    def limits(name: str) -> dict[str, float]:
        if not PARENTS[name] or draw.random() < 0.5:
            return {}
        return {str(draw.choice([*kinds, "*"])): float(draw.integers(0, 4))}

    for name, above in PARENTS.items():
        leaf_without = name in LEAVES and draw.random() < 0.1
        yield Queue(name, above, {} if leaf_without else own[name], limits(name), limits(name))
    for per in ("user", "user_queue", "queue"):
        if draw.random() < 0.4:
            jobs = draw.random() < 0.3
            most = int(draw.integers(1, 6))
            queue = "*" if per == "user" else str(draw.choice(["r", "s*", "root"]))
            yield RunningLimit(per, None if jobs else most, most if jobs else None, queues=(queue,))
    for name, priorities in (("low", (0, 10)), ("mid", (11, 20)), ("high", (21, 29))):
        preempts = str(draw.choice(["lower", "nothing", "own"], p=[0.6, 0.25, 0.15]))
        yield PriorityClass(name, priorities, preempts, bool(draw.random() < 0.75))
    if draw.random() < 0.4:
        yield MinimumRun(100.0)


@dataclass(frozen=True)
class Goals:
    """Worths of a round, stated without the code under test.

    Parameters
    ----------
    world
        Round and rules.
    problem
        Tables of the round without rules.
    worth
        Worth of each option in the objective, without what stops lose, shape (O,).
    """

    world: World
    problem: RoundProblem
    worth: np.ndarray

    def of(self, choice: np.ndarray) -> tuple[float, ...]:
        """Values of a decision, most important first: what each class keeps, and is worth."""
        value = [self._value(job, int(picked)) for job, picked in enumerate(choice)]
        found: list[float] = []
        for rank, what in self._steps:
            if what == "worth":
                found.append(sum(v for v, r in zip(value, self.ranks, strict=True) if r >= rank))
            else:
                weights = self._kept_weights(rank, what)
                kept = (w for job, w in weights.items() if self._keeps(job, int(choice[job])))
                found.append(round(sum(kept), 6))
        return (*found, sum(value))

    def _keeps(self, job: int, picked: int) -> bool:
        """Whether a running job stays, or moves to where it is faster."""
        if picked < 0 or picked == int(self.problem.options.stay[job]):
            return picked >= 0
        pace_s = float(self.problem.candidates.iteration_s[picked])
        return pace_s < float(self.problem.jobs.stay_iteration_s[job]) * (1.0 - 1e-9)

    def _kept_weights(self, rank: int, what: str) -> dict[int, float]:
        """What running jobs of a class count that may be stopped: their losses, or their ages."""
        now_s = self.world.before.time_s
        found: dict[int, float] = {}
        for job, known in enumerate(self.world.before.jobs):
            if self.ranks[job] == rank and known.running is not None and not self.bound(job):
                saved_s = now_s if known.checkpointed_s is None else known.checkpointed_s
                found[job] = known.running.placement.gpus * (known.restart_s + now_s - saved_s)
        if what == "losses":
            return found

        def newest_first(job: int) -> tuple[float, ...]:
            known = self.world.before.jobs[job]
            assert known.last_start_s is not None
            return -known.last_start_s, known.job.priority, known.job.weight, -job

        equal = len(found) > len({round(loss, 6) for loss in found.values()})
        order = sorted(found, key=newest_first) if equal else []
        return {job: at + 1.0 for at, job in enumerate(order)}

    @cached_property
    def _steps(self) -> list[tuple[int, str]]:
        """Class and kind of each goal but the last."""
        found: list[tuple[int, str]] = []
        classes = sorted(self.world.rules.classes, key=lambda one: one.priorities)
        for rank in (*self._levels, self._lowest):
            if rank > 0 and classes[rank - 1].preempts != "own":
                found += [(rank, "losses"), (rank, "ages")]
            found.append((rank, "worth"))
        return found[:-1]

    def stays(self, choice: np.ndarray, below: int) -> float:
        """GPUs on which running jobs of lower classes stay."""
        stay = self.problem.options.stay
        return sum(
            float(known.running.placement.gpus)
            for job, known in enumerate(self.world.before.jobs)
            if self.ranks[job] < below and known.running is not None and choice[job] == stay[job]
        )

    @cached_property
    def ranks(self) -> list[int]:
        """Place of the class of each job."""
        return [self.rank(known.job.priority) for known in self.world.before.jobs]

    @cached_property
    def _levels(self) -> list[int]:
        free = {one for job, one in enumerate(self.ranks) if not self.bound(job)}
        return sorted(free, reverse=True)[:-1]

    @cached_property
    def _lowest(self) -> int:
        free = [one for job, one in enumerate(self.ranks) if not self.bound(job)]
        return min(free, default=0)

    @cached_property
    def silent(self) -> list[bool]:
        """Whether each level is of a class that preempts nothing."""
        classes = sorted(self.world.rules.classes, key=lambda one: one.priorities)
        return [at > 0 and classes[at - 1].preempts == "nothing" for at in self._levels]

    def best(self, decisions: list[np.ndarray]) -> tuple[float, ...]:
        """Values of the best of some decisions.

        A class that preempts nothing has what it can have while as much as possible of what lower
        classes hold stays; afterwards it has that, no less and no more.
        """
        valued = [(self.of(one), one) for one in decisions]
        silent = dict(zip(self._levels, self.silent, strict=True))
        for at, (rank, what) in enumerate(self._steps):
            still = what == "worth" and silent.get(rank, False)
            among = valued
            if still:
                most = max(self.stays(one, rank) for _, one in among)
                among = [(v, one) for v, one in among if self.stays(one, rank) >= most - 1e-9]
            value = max(values[at] for values, _ in among)
            valued = [
                (v, one)
                for v, one in valued
                if v[at] >= value - 1e-9 * abs(value)
                and (not still or v[at] <= value + 1e-9 * abs(value))
            ]
        return max(values for values, _ in valued)

    def best_that(
        self, rows: list[tuple[int, ...]], passes: Callable[[tuple[int, ...]], bool]
    ) -> tuple[float, ...] | None:
        """Values of the best of some decisions that pass; None if none does."""
        if any(self.silent):
            passing = [np.asarray(row) for row in rows if passes(row)]
            return self.best(passing) if passing else None
        valued = sorted(((self.of(np.asarray(row)), row) for row in rows), reverse=True)
        return next((values for values, row in valued if passes(row)), None)

    def _value(self, job: int, picked: int) -> float:
        """Worth of what a job does, with what a stop would lose."""
        known, stay = self.world.before.jobs[job], int(self.problem.options.stay[job])
        if picked < 0:
            return 0.0
        if known.checkpointed_s is None:
            return float(self.worth[picked])
        rounds = known.restart_s
        if picked == stay:
            rounds += self.world.before.time_s - known.checkpointed_s
        rounds /= self.world.before.interval_s
        return float(self.worth[picked] + self.worth[stay] * rounds)

    def rank(self, priority: float) -> int:
        """Place of a priority's class, from 1; 0 for none."""
        classes = sorted(self.world.rules.classes, key=lambda one: one.priorities)
        inside = [one.priorities[0] <= priority <= one.priorities[1] for one in classes]
        return 1 + inside.index(True) if True in inside else 0

    def bound(self, job: int) -> bool:
        """Whether a rule keeps a running job in place."""
        known, now = self.world.before.jobs[job], self.world.before.time_s
        if known.running is None:
            return False
        assert known.last_start_s is not None
        fixed = any(
            isinstance(rule, NonPreemptible)
            or (isinstance(rule, MinimumRun) and now - known.last_start_s < rule.seconds)
            for rule in self.world.rules.rules
            if isinstance(rule, MinimumRun | NonPreemptible) and matches(known.job.name, rule.jobs)
        )
        rank = self.rank(known.job.priority)
        classes = sorted(self.world.rules.classes, key=lambda one: one.priorities)
        return fixed or (rank > 0 and not classes[rank - 1].preemptible)


def best_decision(goals: Goals, view: RoundView) -> tuple[float, ...] | None:
    """Best values over all decisions that the audit passes; None if there are too many."""
    problem, world = goals.problem, goals.world
    options = [oracle.options(problem, job) for job in range(problem.jobs.count)]
    if np.prod([len(own) for own in options]) > _MOST:
        return None
    sizes = sizes_in(view, world.before, world.rules)

    def passes(row: tuple[int, ...]) -> bool:
        """Whether the audit passes a decision; no rule here tells nodes of one type apart."""
        for selection in placements(problem, list(row)):
            allocation = to_allocation(world.before, view, selection)
            return not audit(world.before, allocation, world.rules, sizes.__getitem__)
        return False

    best = goals.best_that(list(product(*options)), passes)
    assert best is not None, "the rules contradict each other"
    return best


def passed_over(goals: Goals, view: RoundView, choice: np.ndarray) -> list[tuple[int, int]]:
    """Waiting jobs, and options of theirs, that only jobs of lower classes are in the way of.

    Jobs of their class and above do as decided. Those below hold nothing, but for those that must
    stay; below a class that preempts nothing all that run stay.
    """
    problem, world = goals.problem, goals.world
    sizes = sizes_in(view, world.before, world.rules)
    classes = sorted(world.rules.classes, key=lambda one: one.priorities)
    rank = [goals.rank(known.job.priority) for known in world.before.jobs]
    found: list[tuple[int, int]] = []
    for job, known in enumerate(world.before.jobs):
        if known.running is not None or choice[job] >= 0 or not rank[job]:
            continue
        silent = classes[rank[job] - 1].preempts == "nothing"
        row = [
            int(picked)
            if rank[other] >= rank[job] or goals.bound(other)
            else int(problem.options.stay[other])
            if silent
            else -1
            for other, picked in enumerate(choice)
        ]
        for option in oracle.options(problem, job)[1:]:
            row[job] = option
            if goals.worth[option] < 1e-5 * goals.of(choice)[-1]:
                continue  # less than what solvers tell apart
            for selection in placements(problem, row):
                allocation = to_allocation(world.before, view, selection)
                if not audit(world.before, allocation, world.rules, sizes.__getitem__):
                    found.append((job, option))
                break
    return found


IN_BLOCKS = LadderParams(
    small=0,
    tiny=TinyParams(columns=0, distinct_columns=0),
    core=CoreParams(additions=0),
    rows=BlockParams(many=1, columns=12),
)
"""Parameters with which small rounds, too, are decided block by block."""


def differences(number: int, seed: int = 44, *, ladder: bool = True) -> str:
    """Differences of one random round's decision from enumeration in words; "" if there are none.

    ``"too large"`` for a round with too many decisions.
    """
    found = _expected(number, seed)
    if found is None:
        return "too large"
    world, posed, goals, expected = found
    view = posed.plain
    method = Ladder(HighsSolver()) if ladder else ExactMip(HighsSolver())
    solved = method.solve(posed, EXACT)
    if solved.selection is None:
        return f"{number}: no decision"
    found = goals.of(solved.selection.choice)
    for value, best in zip(found, expected, strict=True):
        if value != pytest.approx(best, rel=1e-6, abs=1e-6):
            return f"{number}: {found} instead of {expected}"
        if value < best - 1e-9 * abs(best):
            break  # a solver's tolerance: later levels have more freedom than the best decision
    for outcome in solved.outcomes:
        if outcome.gap > 1e-5:
            return f"{number}: gap {outcome.gap:g}"
    allocation = to_allocation(world.before, posed.view, solved.selection)
    sizes = sizes_in(view, world.before, world.rules)
    if broken := audit(world.before, allocation, world.rules, sizes.__getitem__):
        return f"{number}: {broken[0]}"
    if passed := passed_over(goals, view, solved.selection.choice):
        return f"{number}: passed over {passed}"
    return ""


def false_bounds(number: int, seed: int = 44) -> str:
    """What is false in a round that is decided block by block, in words; "" if nothing is.

    A level may end above the requested gap here. But its bound is no less than the best value of
    all decisions that attain the best values of the levels before, its decision passes the audit,
    and it is worth no more than the best one.
    """
    found = _expected(number, seed)
    if found is None:
        return "too large"
    world, posed, goals, expected = found
    solved = Ladder(HighsSolver(), IN_BLOCKS).solve(posed, EXACT)
    if solved.selection is None:
        return f"{number}: no decision"
    sizes = sizes_in(posed.plain, world.before, world.rules)
    allocation = to_allocation(world.before, posed.view, solved.selection)
    if broken := audit(world.before, allocation, world.rules, sizes.__getitem__):
        return f"{number}: {broken[0]}"
    if len(solved.levels) != len(expected):
        return ""  # with levels of jobs that stay, of which enumeration knows no value
    reached = goals.of(solved.selection.choice)
    for outcome, best, value in zip(solved.outcomes, expected, reached, strict=False):
        near = 1e-6 * max(1.0, abs(best))
        if outcome.bound < best - near:
            return f"{number}: bound {outcome.bound} below {best}"
        if value > best + near:
            return f"{number}: {value} above {best}"
        if value < best - near:
            break  # later levels have more freedom than the best decision
    return ""


def _expected(number: int, seed: int) -> tuple[World, PosedRound, Goals, tuple[float, ...]] | None:
    """A random round and the values of its best decision; None if it has too many."""
    draw = np.random.default_rng((seed, number))
    world = random_organisation(draw)
    objective = make_objective(str(draw.choice(["jct", "throughput", "saved-time", "lookahead"])))
    posed = RoundPoser(world.speeds, objective, world.rules).pose(world.before)
    view = posed.plain
    (level,) = objective.levels(view.problem, objective.observe(world.before))
    goals = Goals(world, view.problem, level.value)
    best = best_decision(goals, view)
    return None if best is None else (world, posed, goals, best)
