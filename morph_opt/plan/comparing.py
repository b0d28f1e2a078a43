"""Differences over the same workloads: `compare`, `rules` and `worth`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.domain import Cluster, InputError, Node, RoundState
from morph_opt.explain import Effort
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.evaluate import Evaluator
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import Paired, holm, paired
from morph_opt.plan.workloads import distinct
from morph_opt.policies.base import Decision
from morph_opt.replay.running import run_prepared
from morph_opt.replay.scenario import Scenario
from morph_opt.replay.setup import prepare
from morph_opt.round.decide import make_explainer
from morph_opt.round.watch import WatchedPolicy

NOISE_SEEDS = 3
"""Solver seeds of the cell that shows how large a difference comes of ties alone."""
HEADER = (
    "of", "mean", "difference", "lower", "upper", "p", "p_holm", "workloads", "variance_gain",
    "decided_by",
)  # fmt: skip


def metric_of(text: str) -> Slo:
    """A statistic alone, as ``avg jct_s``; no target is compared with."""
    return Slo.parse(f"{text} <= 1e300")


def _row(
    name: str, values: Sequence[float], found: Paired, adjusted: float
) -> list[str | int | float | None]:
    return [
        name, sum(values) / len(values), found.mean, found.low, found.high, found.p, adjusted,
        found.pairs, found.gain, "replay",
    ]  # fmt: skip


def _first(name: str, values: Sequence[float]) -> list[str | int | float | None]:
    return [
        name, sum(values) / len(values), 0.0, 0.0, 0.0, math.nan, math.nan, len(values), math.nan,
        "replay",
    ]  # fmt: skip


def _versus(
    names: Sequence[str], values: Sequence[Sequence[float]], confidence: float
) -> tuple[list[list[str | int | float | None]], list[Paired]]:
    """Rows of everything against the first."""
    found = [paired(values[0], other, confidence) for other in values[1:]]
    adjusted = holm({name: one.p for name, one in zip(names[1:], found, strict=True)})
    rows = [_first(names[0], values[0])]
    for name, other, one in zip(names[1:], values[1:], found, strict=True):
        rows.append(_row(name, other, one, adjusted[name]))
    return rows, found


def _said(name: str, than: str, metric: str, found: Paired) -> str:
    if math.isnan(found.low):
        sure = "one pair has no interval"
    elif found.low > 0.0 or found.high < 0.0:
        sure = "the interval leaves out 0"
    else:
        sure = "no difference is shown"
    return (
        f"{name}: {metric} is {abs(found.mean):.6g} {'lower' if found.mean < 0 else 'higher'} than "
        f"with {than} ({found.low:.6g} to {found.high:.6g}; {sure})"
    )


def compare(
    ask: Ask,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    metric: str = "avg jct_s",
    seeds: Sequence[int] = tuple(range(30)),
    confidence: float = 0.95,
    noise: bool = True,
) -> Answer:
    """What a change is worth, as paired differences over the same workloads.

    Parameters
    ----------
    ask
        Trace, cluster and what the variants have in common.
    variants
        Fields of the scenario by name of the variant; the others are compared with the first.
    metric
        ``avg jct_s``, ``p99 queued_s``, ``makespan_s`` ...
    seeds
        Of the workloads.
    confidence
        Of the intervals.
    noise
        Also run the first variant's first workload with other solver seeds.

    Raises
    ------
    InputError
        If there are fewer than two variants or workloads, or a replay has no result.
    """
    return _compared("compare", ask, variants, metric, seeds, confidence, noise)


def _compared(
    question: str,
    ask: Ask,
    variants: Mapping[str, Mapping[str, Any]],
    metric: str,
    seeds: Sequence[int],
    confidence: float,
    noise: bool,
) -> Answer:
    if len(variants) < 2:
        raise InputError("needs two things to compare", field=question)
    if len(distinct(seeds)) < 2:
        raise InputError("a comparison needs two workloads at least", field="workloads")
    statistic, source, evaluator = metric_of(metric), ask.source(), ask.evaluator(question)
    bases = {name: ask.base.replaced(**fields) for name, fields in variants.items()}
    names = list(bases)
    every = [source.put(base, seed) for base in bases.values() for seed in seeds]
    values = evaluator.values(every, statistic)
    per = [values[k * len(seeds) : (k + 1) * len(seeds)] for k in range(len(names))]
    rows, found = _versus(names, per, confidence)
    said = [_said(name, names[0], metric, one) for name, one in zip(names[1:], found, strict=True)]
    notes = [source.note] if source.note else []
    figures: dict[str, Any] = {
        name: {"mean": one.mean, "lower": one.low, "upper": one.high, "p": one.p}
        for name, one in zip(names[1:], found, strict=True)
    }
    if len(seeds) < 6:
        notes.append("below 6 pairs the sign-flip test cannot reach p < 0.05")
    if noise:
        spread = noise_floor(evaluator, source.put(bases[names[0]], seeds[0]), statistic)
        if spread is not None:
            figures["noise_floor"] = spread
            notes.append(
                f"other seeds of the solver alone move {metric} of one workload by {spread:.4g}"
            )
    asked = ask.asked(
        variants=list(names), metric=metric,
        seeds=list(seeds), confidence=confidence,
    )  # fmt: skip
    return Answer(question, asked, tuple(said), figures, HEADER, rows, tuple(notes))


def noise_floor(evaluator: Evaluator, scenario: Scenario, metric: Slo) -> float | None:
    """Largest difference between solver seeds on one workload; None for policies without one."""
    if scenario.scheduler.policy != "milp":
        return None
    others = [
        scenario.replaced(scheduler=replace(scenario.scheduler, seed=seed))
        for seed in range(NOISE_SEEDS)
    ]
    values = evaluator.values(others, metric)
    return max(values) - min(values)


def rules(
    ask: Ask,
    files: Sequence[str],
    *,
    metric: str = "avg jct_s",
    seeds: Sequence[int] = tuple(range(30)),
    confidence: float = 0.95,
) -> Answer:
    """What operator's rules cost: each file of them against none, over the same workloads."""
    if len(set(files)) < len(files):
        raise InputError("a file of rules stands twice", field="--rules")
    variants: dict[str, Mapping[str, Any]] = {"none": {}}
    variants |= {file: {"rules": file} for file in files}
    return _compared("rules", ask, variants, metric, seeds, confidence, False)


# ---------------------------------------------------------------- nodes more and fewer


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that only their names tell apart: type, leaf and NVLink domain."""

    name: str
    like: Node
    members: tuple[int, ...]


def classes_of(cluster: Cluster) -> tuple[NodeClass, ...]:
    """Classes in the order of their first nodes."""
    found: dict[tuple[str, str, str | None], list[int]] = {}
    for index, node in enumerate(cluster.nodes):
        key = node.type.name, node.leaf, node.nvlink_domain
        found.setdefault(key, []).append(index)
    flat = len({key[1:] for key in found}) == 1
    return tuple(
        NodeClass(
            key[0] if flat else "/".join(filter(None, key)), cluster.nodes[rows[0]], tuple(rows)
        )
        for key, rows in found.items()
    )


def with_one_more(cluster: Cluster, like: Node) -> Cluster:
    """The cluster with a node like this one at its end."""
    names = {node.name for node in cluster.nodes}
    name = next(f"{like.name}+{k}" for k in range(1, 10**6) if f"{like.name}+{k}" not in names)
    return replace(cluster, nodes=(*cluster.nodes, replace(like, name=name)))


def without(cluster: Cluster, members: Sequence[int]) -> Cluster:
    """The cluster without these nodes; leaves that lose their last node go, too."""
    gone = set(members)
    nodes = tuple(node for k, node in enumerate(cluster.nodes) if k not in gone)
    left = {node.leaf for node in nodes}
    return replace(
        cluster, nodes=nodes, leaves=tuple(leaf for leaf in cluster.leaves if leaf.name in left)
    )


class _Prices:
    """Adds up, over some rounds, what one more node of every class would gain."""

    def __init__(self, explainer: Any, every: int) -> None:
        self._explainer, self._every = explainer, every
        self.gain: dict[tuple[str, str, str | None], float] = {}
        self.rounds = 0

    def observe(self, state: RoundState) -> None:
        """Rounds of a resumed run; there are none."""

    def decided(self, state: RoundState, decision: Decision) -> None:
        """Price every so many rounds."""
        if decision.evidence is None or state.index % self._every:
            return
        from morph_opt.explain import UnexplainedError

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
    """Mean over rounds of what one more node of each class gains, in the objective's unit."""
    if scenario.scheduler.policy != "milp":
        return {}, 0
    prepared = prepare(scenario)
    explainer = make_explainer(prepared.policy_options, Effort(jobs=0, nodes=True))
    watching = _Prices(explainer, every)
    policy = WatchedPolicy(prepared.policy, [watching])
    run_prepared(replace(prepared, policy=policy), None)
    rounds = max(1, watching.rounds)
    return {key: value / rounds for key, value in watching.gain.items()}, watching.rounds


WORTH = (
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
    """What one more node of each class is worth: its price in the rounds, and measured.

    The price is the mean over rounds of what the round would gain, proven, in the objective's
    unit; it knows no future. The difference is that of replays with one more node, over the same
    workloads. Neither is converted into the other.

    Parameters
    ----------
    every
        Rounds that are priced: those whose number is a multiple of it, of the first workload.
    """
    if len(distinct(seeds)) < 2:
        raise InputError("a comparison needs two workloads at least", field="workloads")
    statistic, source, evaluator = metric_of(metric), ask.source(), ask.evaluator("worth")
    base, classes = ask.base, classes_of(ask.whole_cluster)
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
        rows.append(
            [one.name, price, sum(mine) / len(mine), found.mean, found.low, found.high, found.p,
             found.pairs, "replay"]
        )  # fmt: skip
        said.append(_said(f"one more {one.name}", "the fleet as it is", metric, found))
        figures[one.name] = {"price": price, "difference": found.mean}
    notes = [f"prices are of {rounds} rounds of the first workload" if rounds else
             "a policy that solves nothing has no prices"]  # fmt: skip
    asked = ask.asked(metric=metric, seeds=list(seeds), confidence=confidence, every=every)
    return Answer("worth", asked, tuple(said), figures, WORTH, rows, tuple(notes))
