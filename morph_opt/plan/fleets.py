"""Which mix of nodes: the planning MILP proposes, replays under common workloads decide."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.fleet import FleetProblem, build, check, decode
from morph_opt.domain import Cluster, InputError, Node, NodeType
from morph_opt.metrics.bounds.demands import speed_curve
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import EXPLORATION, Ask, node_type_of, split
from morph_opt.plan.evaluate import Verdict
from morph_opt.plan.search import BATCH, Target
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import needed, share_at_least, share_interval
from morph_opt.plan.workloads import Source, loaded
from morph_opt.replay.scenario import Scenario
from morph_opt.solvers.outcome import Limits, Status
from morph_opt.solvers.registry import make_solver

BIN_S = 1800.0
MIXES = 16
"""Mixes of the MILP that are tried."""
MOST_ENUMERATED = 64
"""Mixes up to which all are tried: the cheapest that passes is then the cheapest there is."""
SCALES = (0.5, 0.75, 1.25, 1.5, 2.0, 3.0)
SCENARIOS = 2
"""Workloads that the MILP serves at once."""


def fleet_of(types: Sequence[NodeType], counts: Sequence[int]) -> Cluster:
    """A flat cluster of so many nodes of each type."""
    nodes = [
        Node(f"{kind.name}-{k}", kind)
        for kind, count in zip(types, counts, strict=True)
        for k in range(count)
    ]
    name = " + ".join(f"{c} x {k.name}" for k, c in zip(types, counts, strict=True) if c)
    return Cluster(name or "none", tuple(nodes))


def fleet_problem(
    source: Source,
    seeds: Sequence[int],
    types: Sequence[NodeType],
    node_price: Sequence[float],
    most: int,
    delay_s: float,
    *,
    restart_s: float = 0.0,
    budget: float = math.inf,
) -> FleetProblem:
    """The planning MILP's instance of some workloads.

    A job class is a model with its CPU need; its configurations are the fastest for every GPU
    count that fits as many nodes of a type as may be had.

    Raises
    ------
    InputError
        If a job can run on none of the types.
    """
    arrivals: dict[tuple[int, tuple[str, int], int], list[float]] = {}
    configs: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
    for w, seed in enumerate(seeds):
        workload = loaded(source.spec, seed)
        for job in workload.trace.jobs:
            group = job.model, job.cpus_per_gpu
            if group not in configs:
                configs[group] = _configs(workload.truth, group, types, most)
                if not configs[group]:
                    names = ", ".join(kind.name for kind in types)
                    rule = f"job {job.name} ({job.model}) can run on no {names}"
                    raise InputError(rule, field="--types")
            found = arrivals.setdefault((w, group, int(job.submission_s // BIN_S)), [0.0, 0.0])
            found[0] += job.iterations
            found[1] += 1.0
    groups = {group: g for g, group in enumerate(sorted(configs))}
    keys = sorted(arrivals, key=lambda key: (key[0], groups[key[1]], key[2]))
    rows = [(groups[group], *row) for group in groups for row in configs[group]]
    sizes = np.asarray([kind.gpus for kind in types], dtype=np.int64)
    return FleetProblem(
        np.asarray(node_price, dtype=np.float64), sizes, np.full(len(types), most),
        np.full(len(types), -1),
        np.asarray([key[0] for key in keys]), np.asarray([groups[key[1]] for key in keys]),
        np.asarray([key[2] for key in keys]),
        np.asarray([arrivals[key][0] for key in keys]),
        np.asarray([int(arrivals[key][1]) for key in keys]),
        np.asarray([row[0] for row in rows]), np.asarray([row[1] for row in rows]),
        np.asarray([row[2] for row in rows]), np.asarray([row[3] for row in rows]),
        BIN_S, delay_s, min(restart_s, delay_s), budget,
    )  # fmt: skip


def _configs(
    truth: object, group: tuple[str, int], types: Sequence[NodeType], most: int
) -> list[tuple[int, float, float]]:
    """Type, GPUs and seconds per iteration; only those on the least convex cost of speed."""
    found = []
    for k, kind in enumerate(types):
        there = Cluster.uniform(most, kind)
        gpus, pace_s = speed_curve(truth, group[0], there, group[1])  # type: ignore[arg-type]
        held = (gpus * pace_s).tolist()
        kept: list[tuple[float, float, float]] = []  # seconds, GPU-seconds, GPUs
        for one in sorted(zip(pace_s.tolist(), held, gpus.tolist(), strict=True)):
            if kept and one[1] >= kept[-1][1]:
                continue  # slower and dearer
            while len(kept) > 1 and _above(kept[-2], kept[-1], one):
                kept.pop()
            kept.append(one)
        found += [(k, g, s) for s, _, g in kept]
    return found


def _above(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> bool:
    """Whether ``b`` is not below the line from ``a`` to ``c``: a mix of these does as well."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


@dataclass(frozen=True, slots=True)
class Cheapest:
    """A fleet of the MILP: its cost, and the nodes of each type."""

    cost: float
    nodes: tuple[int, ...]


def cheapest(problem: FleetProblem, count: int, *, time_s: float = 60.0) -> list[Cheapest]:
    """The cheapest integer fleets, in order of cost.

    The box of fleets is split around each answer into boxes that do not hold it (Lawler 1972), so
    that none is found twice and none is missed.

    Raises
    ------
    InputError
        If the solver neither solves nor refutes a box in time.
    """
    limits, solver = Limits(gap=1e-6, time_s=time_s), make_solver("highs")
    heap: list[tuple[float, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []

    def push(low: tuple[int, ...], high: tuple[int, ...]) -> None:
        if any(a > b for a, b in zip(low, high, strict=True)):
            return
        outcome = solver.solve(build(problem, np.asarray(low), np.asarray(high)), limits)
        if outcome.status is Status.INFEASIBLE:
            return
        if outcome.status is not Status.OPTIMAL or outcome.x is None:
            rule = f"the planning MILP was not solved within {time_s:g} s ({outcome.status})"
            raise InputError(rule, field="fleet")
        answer = decode(problem, outcome.x)
        check(problem, answer)
        nodes = tuple(int(n) for n in answer.nodes)
        heapq.heappush(heap, (problem.cost(answer.nodes), nodes, low, high))

    push((0,) * problem.types, tuple(int(n) for n in problem.most))
    found: list[Cheapest] = []
    while heap and len(found) < count:
        cost, nodes, low, high = heapq.heappop(heap)
        found.append(Cheapest(cost, nodes))
        for k in range(problem.types):
            fixed = nodes[:k]
            push(fixed + low[k:], (*fixed, nodes[k] - 1, *high[k + 1 :]))
            push((*fixed, nodes[k] + 1, *low[k + 1 :]), fixed + high[k:])
    return found


HEADER = (
    "fleet", "price_per_hour", "stage", "workloads", "passed", "lower", "upper", "verdict",
    "decided_by",
)  # fmt: skip


def fleet(
    ask: Ask,
    slo: Slo | str,
    *,
    types: Sequence[str],
    prices: Mapping[str, float],
    budget: float = math.inf,
    delay_s: float | None = None,
    most: int = 32,
    mixes: int = MIXES,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    exploration: int = EXPLORATION,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """The cheapest mix of node types that keeps an SLO, within a budget.

    Parameters
    ----------
    types, prices
        GPU types of the nodes, and dollars per hour of a GPU of each.
    budget
        Dollars per hour.
    delay_s
        Seconds in which the MILP has every job be complete; None: the target of an SLO about
        completion, else four hours. It proposes mixes; replays decide.
    most, mixes
        Nodes of each type and mixes that are compared, at most.

    Raises
    ------
    InputError
        If a type has no price, no mix within the budget keeps the SLO, or there are too few
        workloads.
    """
    target = Target(slo if isinstance(slo, Slo) else Slo.parse(slo), of_workloads, confidence)
    kinds = [node_type_of(name) for name in types]
    missing = [kind.gpu_type.name for kind in kinds if kind.gpu_type.name not in prices]
    if missing or len(set(types)) < len(types):
        rule = f"has no price of {missing[0]}" if missing else "names a type twice"
        raise InputError(rule, field="--prices" if missing else "--types")
    node_price = [prices[kind.gpu_type.name] * kind.gpus for kind in kinds]
    least = needed(of_workloads, confidence)
    every = tuple(seeds) if seeds is not None else tuple(range(exploration + 5 * least))
    first, fresh = split(every, exploration)
    if len(fresh) < least:
        rule = f"{len(every)} workloads are fewer than the statement needs: {exploration} and"
        raise InputError(f"{rule} {least} fresh ones to confirm", field="workloads")
    source, base = ask.source(), ask.base
    if delay_s is None:
        about_end = target.slo.metric == "jct_s" and target.slo.at_most is not None
        delay_s = target.slo.target if about_end else 14_400.0
    problem = fleet_problem(
        source, first[:SCENARIOS], kinds, node_price, most, delay_s,
        restart_s=base.engine.restart_s, budget=budget,
    )  # fmt: skip
    floor = cheapest(problem, 1)
    known = _candidates(problem, floor, mixes, budget)
    if not known:
        raise InputError(f"no mix of {', '.join(types)} fits a budget of {budget:g}", field="slo")
    trial = _Trial(ask, target, source, base, kinds)
    winner, said = trial.run(known, first, fresh)
    strict = (target.slo.metric, target.slo.statistic) == ("jct_s", "max")
    if floor:
        what = "a certified floor" if strict else "a first guess for this SLO"
        said.append(
            f"the MILP's cheapest fleet for 'every job complete within {delay_s:g} s' is "
            f"{fleet_of(kinds, floor[0].nodes).name} at {floor[0].cost:g} per hour: {what}"
        )
    figures = {
        "fleet": dict(zip(types, winner.nodes, strict=True)), "price_per_hour": winner.cost,
        "nodes": sum(winner.nodes),
        "milp_floor_per_hour": floor[0].cost if floor else None,
    }  # fmt: skip
    asked = ask.asked(
        slo=str(target.slo), types=list(types), prices=dict(prices), max_nodes=most,
        budget=None if math.isinf(budget) else budget, delay_s=delay_s,
        of_workloads=of_workloads, confidence=confidence,
    )  # fmt: skip
    notes = (source.note,) if source.note else ()
    return Answer("fleet", asked, tuple(said), figures, HEADER, trial.rows, notes)


def _candidates(
    problem: FleetProblem, floor: Sequence[Cheapest], mixes: int, budget: float
) -> list[Cheapest]:
    """Mixes to try, by cost: all there are where these are few, else what the MILP proposes.

    The MILP is a first guess for most SLOs, so next to its cheapest mixes stand larger and smaller
    ones of the same proportions, and every type alone.
    """
    most = [int(n) for n in problem.most]
    if math.prod(n + 1 for n in most) <= MOST_ENUMERATED:
        every = [_priced(problem, n) for n in itertools.product(*(range(k + 1) for k in most))]
    else:
        near = cheapest(problem, mixes) if floor else []
        found = {one.nodes for one in near}
        for one in near[: max(1, mixes // 4)]:
            for factor in SCALES:
                scaled = (math.ceil(factor * n) for n in one.nodes)
                found.add(tuple(min(n, m) for n, m in zip(scaled, most, strict=True)))
        for k, limit in enumerate(most):
            for count in range(1, limit + 1):
                found.add(tuple(count * (j == k) for j in range(len(most))))
        every = [_priced(problem, nodes) for nodes in found]
    within = [one for one in every if one.cost <= budget + 1e-9 and any(one.nodes)]
    return sorted(within, key=lambda one: (one.cost, one.nodes))


def _priced(problem: FleetProblem, nodes: Sequence[int]) -> Cheapest:
    return Cheapest(problem.cost(np.asarray(nodes)), tuple(nodes))


class _Trial:
    """Mixes tried in order of cost: explored, and confirmed where they pass."""

    def __init__(
        self, ask: Ask, target: Target, source: Source, base: Scenario, kinds: Sequence[NodeType]
    ) -> None:
        self._evaluator = ask.evaluator("fleet")
        self._target, self._source, self._base, self._kinds = target, source, base, kinds
        self._refused: list[tuple[int, ...]] = []
        self.rows: list[list[str | int | float | None]] = []

    def _scenarios(self, one: Cheapest, seeds: Sequence[int]) -> list[Scenario]:
        base = self._base.replaced(cluster=fleet_of(self._kinds, one.nodes))
        return [self._source.put(base, seed) for seed in seeds]

    def _note(self, one: Cheapest, stage: str, verdicts: Sequence[Verdict], good: bool) -> None:
        passed = sum(v.passed for v in verdicts)
        low, high = share_interval(passed, len(verdicts), self._target.confidence)
        by = " ".join(sorted({v.decided_by for v in verdicts}))
        name = fleet_of(self._kinds, one.nodes).name
        word = "pass" if good else "fail"
        self.rows.append([name, one.cost, stage, len(verdicts), passed, low, high, word, by])

    def explore(self, one: Cheapest, seeds: Sequence[int]) -> bool:
        """Whether a mix passes; what no schedule on a fleet reaches, none on a part of it does."""
        if any(all(a <= b for a, b in zip(one.nodes, no, strict=True)) for no in self._refused):
            return False
        allowed = int((1.0 - self._target.share) * len(seeds) + 1e-9)
        scenarios, slo = self._scenarios(one, seeds), self._target.slo
        proven = []
        for scenario in scenarios:
            verdict = self._evaluator.refused(scenario, slo)
            proven += [] if verdict is None else [verdict]
            if len(proven) > allowed:
                self._refused.append(one.nodes)
                self._note(one, "explore", proven, False)
                return False
        verdicts: list[Verdict] = []
        failed = 0
        for begin in range(0, len(scenarios), BATCH):
            verdicts += self._evaluator.verdicts(scenarios[begin : begin + BATCH], slo)
            failed = sum(not v.passed for v in verdicts)
            if failed > allowed:
                break
        self._note(one, "explore", verdicts, failed <= allowed)
        return failed <= allowed

    def run(
        self, mixes: Sequence[Cheapest], first: Sequence[int], fresh: Sequence[int]
    ) -> tuple[Cheapest, list[str]]:
        """The cheapest mix that passes and is confirmed on fresh workloads.

        Raises
        ------
        InputError
            If there is none, or fresh workloads run out.
        """
        begin, attempt = 0, 1
        share, confidence = self._target.share, self._target.confidence
        for one in mixes:
            if not self.explore(one, first):
                continue
            count = needed(share, confidence, attempt)
            seeds = fresh[begin : begin + count]
            if len(seeds) < count:
                raise InputError("no fresh workloads are left to confirm with", field="workloads")
            verdicts = self._evaluator.verdicts(self._scenarios(one, seeds), self._target.slo)
            passed = sum(v.passed for v in verdicts)
            sure = 1.0 - (1.0 - confidence) / 2.0**attempt
            good = share_at_least(passed, count, sure) >= share
            self._note(one, f"confirm {attempt}", verdicts, good)
            if good:
                name = fleet_of(self._kinds, one.nodes).name
                return one, [f"{name} at {one.cost:g} per hour reaches {self._target}",
                             f"confirmed on {count} fresh workloads"]  # fmt: skip
            begin, attempt = begin + count, attempt + 1
        rule = f"no mix of {len(mixes)} within the limits reaches {self._target}"
        raise InputError(rule, field="slo")
