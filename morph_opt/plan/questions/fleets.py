"""Question `fleet`: the planning MILP proposes mixes, replays decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from morph_opt.core.domain import InputError, NodeType
from morph_opt.core.domain._validate import require_finite, require_int
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask, node_type_of
from morph_opt.plan.evaluate import Verdict
from morph_opt.plan.fleet_tables import fleet_problem
from morph_opt.plan.mixes import Cheapest, candidates, cheapest, fleet_of
from morph_opt.plan.parameters import FLEET, SEARCH
from morph_opt.plan.statement import Confirmations, Target, refuting
from morph_opt.plan.stats import share_interval
from morph_opt.plan.workloads import Source
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.slo import Slo

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
    mixes: int = FLEET.mixes,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    indifference: float | None = None,
    exploration: int = SEARCH.exploration,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """Find the cheapest mix of node types that keeps an SLO, within a budget.

    Parameters
    ----------
    ask, slo, of_workloads, confidence, indifference, exploration, seeds
        See `morph_opt.plan.nodes`.
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
    require_type("ask", ask, Ask)
    target = Target.of(slo, of_workloads, confidence, indifference)
    require_each("types", types, str)
    for name, price in require_type("prices", prices, Mapping).items():
        require_finite(f"prices: {name}", price)
    for name, value in (("most", most), ("mixes", mixes)):
        require_int(name, value, at_least=1)
    for name, limit in (("budget", budget), ("delay_s", delay_s)):
        require_type(name, limit, float, None)
        if limit is not None and not limit > 0.0:
            raise InputError(f"must be above 0, got {limit:g}", field=name)
    kinds = _priced(types, prices)
    node_price = [prices[kind.gpu_type.name] * kind.gpus for kind in kinds]
    first, fresh = target.workloads(seeds, exploration)
    ask, trust = ask.trusted("fleet", there=False)
    source, base = ask.source(), ask.scenario
    delay_s = _delay_s(target.slo) if delay_s is None else delay_s
    problem = fleet_problem(
        [source.workload(seed) for seed in first[: FLEET.scenarios]],
        kinds,
        node_price,
        most,
        delay_s,
        restart_s=base.engine.restart_s,
        budget=budget,
    )
    floor = cheapest(problem, 1)
    known = candidates(problem, floor, mixes, budget)
    if not known:
        raise InputError(f"no mix of {', '.join(types)} fits a budget of {budget:g}", field="slo")
    trial = _Trial(ask, target, source, base, kinds)
    winner, said = trial.run(known, first, fresh)
    figures = {
        "fleet": dict(zip(types, winner.nodes, strict=True)),
        "price_per_hour": winner.cost,
        "nodes": sum(winner.nodes),
        "milp_floor_per_hour": floor[0].cost if floor else None,
    }
    asked = ask.asked(
        slo=str(target.slo),
        types=list(types),
        prices=dict(prices),
        max_nodes=most,
        budget=None if math.isinf(budget) else budget,
        delay_s=delay_s,
        of_workloads=of_workloads,
        confidence=confidence,
        indifference=target.margin,
    )
    every = (*said, *_of_milp(target.slo, kinds, delay_s, floor))
    return Answer(
        "fleet", asked, every, figures, HEADER, trial.rows, source.notes, preface=trust.lines
    )


def _priced(types: Sequence[str], prices: Mapping[str, float]) -> list[NodeType]:
    """Return the node types with these prices per GPU, which replays use as well."""
    if not types:
        raise InputError("names no type", field="--types")
    if len(set(types)) < len(types):
        raise InputError("names a type twice", field="--types")
    kinds = []
    for kind in (node_type_of(name, field="--types") for name in types):
        gpu = kind.gpu_type
        if gpu.name not in prices:
            raise InputError(f"has no price of {gpu.name}", field="--prices")
        kinds.append(replace(kind, gpu_type=replace(gpu, price_per_hour=prices[gpu.name])))
    return kinds


def _delay_s(slo: Slo) -> float:
    """Return the time in seconds within which the MILP completes every job; a guess is enough."""
    return slo.target if slo.metric == "jct_s" and slo.at_most is not None else FLEET.delay_s


def _of_milp(
    slo: Slo, kinds: Sequence[NodeType], delay_s: float, floor: Sequence[Cheapest]
) -> list[str]:
    """Return the notes on the MILP's cheapest fleet for an SLO; empty if it has none."""
    strict = (slo.metric, slo.statistic) == ("jct_s", "max")
    what = "a certified floor" if strict else "a first guess for this SLO"
    return [
        f"the MILP's cheapest fleet for 'every job complete within {delay_s:g} s' is "
        f"{fleet_of(kinds, one.nodes).name} at {one.cost:g} per hour: {what}"
        for one in floor
    ]


class _Trial:
    """Mixes tried in order of cost: explored, and confirmed if they pass."""

    def __init__(
        self, ask: Ask, target: Target, source: Source, base: Scenario, kinds: Sequence[NodeType]
    ) -> None:
        self._evaluator = ask.evaluator("fleet")
        self._target, self._source, self._base, self._kinds = target, source, base, kinds
        self._refused: list[tuple[int, ...]] = []
        self.rows: list[list[str | int | float | None]] = []

    def _at(self, one: Cheapest, seed: int) -> Scenario:
        base = self._base.replaced(cluster=fleet_of(self._kinds, one.nodes))
        return self._source.put(base, seed)

    def _note(self, one: Cheapest, stage: str, verdicts: Sequence[Verdict], good: bool) -> None:
        passed = sum(v.passed for v in verdicts)
        low, high = share_interval(passed, len(verdicts), self._target.confidence)
        by = " ".join(sorted({v.decided_by for v in verdicts}))
        name = fleet_of(self._kinds, one.nodes).name
        word = "pass" if good else "fail"
        self.rows.append([name, one.cost, stage, len(verdicts), passed, low, high, word, by])

    def refused(self, one: Cheapest, seeds: Sequence[int]) -> bool:
        """Return whether bounds refuse a mix, itself or one that contains it."""
        if any(all(a <= b for a, b in zip(one.nodes, no, strict=True)) for no in self._refused):
            return True
        proven = refuting(self._evaluator, self._target, partial(self._at, one), seeds)
        if proven:
            self._refused.append(one.nodes)
            self._note(one, "explore", proven, False)
        return bool(proven)

    def explore(self, one: Cheapest, seeds: Sequence[int]) -> bool:
        """Return whether a mix passes on these workloads."""
        if self.refused(one, seeds):
            return False
        allowed, slo = self._target.may_fail(len(seeds)), self._target.slo
        verdicts: list[Verdict] = []
        failed = 0
        for begin in range(0, len(seeds), SEARCH.batch):
            batch = [self._at(one, seed) for seed in seeds[begin : begin + SEARCH.batch]]
            verdicts += self._evaluator.verdicts(batch, slo)
            failed = sum(not v.passed for v in verdicts)
            if failed > allowed:
                break
        self._note(one, "explore", verdicts, failed <= allowed)
        return failed <= allowed

    def run(
        self, mixes: Sequence[Cheapest], first: Sequence[int], fresh: Sequence[int]
    ) -> tuple[Cheapest, list[str]]:
        """Return the cheapest mix that passes and is confirmed on fresh workloads.

        Raises
        ------
        InputError
            If there is none, or fresh workloads run out.
        """
        confirmations = Confirmations(self._evaluator, self._target, fresh)
        most = tuple(max(one.nodes[k] for one in mixes) for k in range(len(self._kinds)))
        together = Cheapest(math.inf, most)
        for one in () if self.refused(together, first) else mixes:
            if not self.explore(one, first):
                continue
            name = fleet_of(self._kinds, one.nodes).name
            found = confirmations.test(partial(self._at, one), name)
            self._note(one, found.stage, found.verdicts, found.holds)
            if found.holds:
                count = len(found.verdicts)
                return one, [
                    f"{name} at {one.cost:g} per hour reaches {self._target}",
                    f"confirmed on {count} fresh workloads",
                ]
        rule = f"no mix of {len(mixes)} within the limits reaches {self._target}"
        if self._refused and len(self.rows) == 1:
            rule += f", nor all of their nodes together: {self.rows[0][-1]}"
        raise InputError(rule, field="slo")
