"""Question `worth`: price of one more node in the rounds, and its measured effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from morph_opt.core.domain import InputError, RoundState
from morph_opt.core.domain._validate import require_int
from morph_opt.core.domain.arguments import require_type
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.questions.comparing import metric_of, sentence
from morph_opt.plan.questions.removing import classes_of, with_one_more
from morph_opt.plan.stats import paired, require_shares
from morph_opt.plan.workloads import distinct
from morph_opt.replay.prepare import prepare
from morph_opt.replay.run import run_prepared
from morph_opt.replay.scenario import Scenario
from morph_opt.round.decide import make_explainer
from morph_opt.round.watch import WatchedPolicy
from morph_opt.scheduling.explanation.report import Effort, UnexplainedError
from morph_opt.scheduling.policies.base import Decision


class _Prices:
    """Watcher that adds up, over some rounds, the gain of one more node of each class."""

    def __init__(self, explainer: Any, every: int) -> None:
        self._explainer, self._every = explainer, every
        self.gain: dict[tuple[str, str, str | None], float] = {}
        self.rounds = 0

    def observe(self, state: RoundState) -> None:
        """Ignore the rounds of a resumed run; there are none."""

    def decided(self, state: RoundState, decision: Decision) -> None:
        """Price the round if its number is a multiple of ``every``."""
        if decision.evidence is None or state.index % self._every:
            return
        try:
            found = self._explainer.explain(decision.evidence, decision.allocation)
        except UnexplainedError:
            return
        self.rounds += 1
        for row in found.prices:
            key = row.node_type, row.leaf, row.domain
            if row.node_gain is not None:
                self.gain[key] = self.gain.get(key, 0.0) + row.node_gain


def prices(scenario: Scenario, every: int) -> tuple[dict[tuple[str, str, str | None], float], int]:
    """Return the mean gain per round of one more node by class, in the objective's unit."""
    if scenario.scheduler.policy != "milp":
        return {}, 0
    prepared = prepare(scenario)
    explainer = make_explainer(prepared.policy_options, Effort(jobs=0, nodes=True))
    watching = _Prices(explainer, every)
    policy = WatchedPolicy(prepared.policy, [watching])
    run_prepared(replace(prepared, policy=policy), None)
    rounds = max(1, watching.rounds)
    return {key: value / rounds for key, value in watching.gain.items()}, watching.rounds


HEADER = (
    "node_type", "price_per_round", "metric", "difference", "lower", "upper", "p", "workloads",
    "decided_by",
)  # fmt: skip


def worth(
    ask: Ask,
    *,
    metric: str = "avg jct_s",
    seeds: Sequence[int] = tuple(range(10)),
    confidence: float = 0.95,
    every: int = 20,
) -> Answer:
    """Price one more node of each class in the rounds, and measure its effect.

    The price is the mean over rounds of what the round would gain, proven, in the objective's
    unit; it knows no future. The difference is measured by replays with one more node, over the
    same workloads. Neither is converted into the other.

    Parameters
    ----------
    ask
        Trace, fleet, policy and so on.
    metric
        Statistic and figure that are compared, such as ``"p90 queued_s"``.
    seeds
        Seeds of the workloads, two at least.
    confidence
        Confidence level of the interval of each difference.
    every
        Rounds that are priced: those whose number is a multiple of it, of the first workload.

    Raises
    ------
    InputError
        If a value is out of range, or there are fewer than two workloads.
    """
    require_type("ask", ask, Ask)
    require_type("metric", metric, str)
    require_shares(confidence=confidence)
    require_int("every", every, at_least=1)
    seeds = distinct(seeds)
    if len(seeds) < 2:
        raise InputError("a comparison needs two workloads at least", field="seeds")
    statistic, source, evaluator = metric_of(metric), ask.source(), ask.evaluator("worth")
    ask, trust = ask.trusted("worth", statistic)
    base, classes = ask.scenario, classes_of(ask.scenario.cluster)
    fleets = [base] + [
        base.replaced(cluster=with_one_more(base.cluster, one.like)) for one in classes
    ]
    values = evaluator.values([source.put(f, s) for f in fleets for s in seeds], statistic)
    per = [values[k * len(seeds) : (k + 1) * len(seeds)] for k in range(len(fleets))]
    priced, rounds = prices(source.put(base, seeds[0]), every)
    rows: list[list[str | int | float | None]] = []
    said, figures = [], {}
    for one, mine in zip(classes, per[1:], strict=True):
        found = paired(per[0], mine, confidence)
        key = one.like.type.name, one.like.leaf, one.like.nvlink_domain
        price = priced.get(key, math.nan)
        differs = found.mean, found.low, found.high, found.p
        rows.append([one.name, price, sum(mine) / len(mine), *differs, found.pairs, "replay"])
        said.append(
            sentence(f"one more {one.name}", "the fleet as it is", metric, found, trust.noise)
        )
        figures[one.name] = {"price": price, "difference": found.mean}
    notes = (
        *source.notes,
        f"prices are of {rounds} rounds of the first workload"
        if rounds
        else "a policy that solves nothing has no prices",
    )
    asked = ask.asked(metric=metric, seeds=list(seeds), confidence=confidence, every=every)
    figures |= trust.figures
    return Answer("worth", asked, tuple(said), figures, HEADER, rows, notes, preface=trust.lines)
