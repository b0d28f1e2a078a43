"""The pictures of ``docs/how-to/planning.md``, from questions small enough to be asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.planning.backtest import backtest
from benchmarks.planning.figures import chance_by_nodes, cost_against_service, forecasts, worded
from morph_opt import plan
from morph_opt.replay.scenario import Scenario

TRACE, SLO, SHARE, NODE_PRICE = "naive", "p90 queued_s <= 900", 0.5, 16.0
POLICIES = ("fifo:skip", "srtf")
QUEUE = "benchmarks.planning.queue:mmk/600/150/24"


def pictures(runs: Path, on: str | None) -> Iterator[tuple[str, str]]:
    """Names and texts of the pictures; replays are kept in a folder."""
    evidence = {}
    for policy in POLICIES:
        folder = runs / f"guide-{policy.replace(':', '-')}"
        answer = plan.nodes(
            plan.Ask(Scenario(TRACE, policy=policy), folder, on=on),
            SLO,
            of_workloads=SHARE,
            confidence=0.8,
            indifference=0.4,
            exploration=3,
            most=12,
        )
        evidence[policy] = answer.to_json()["evidence"]
    slo = plan.Slo.parse(SLO)
    unit = worded(slo.statistic, slo.metric)
    cost = cost_against_service(evidence, slo.target, unit, NODE_PRICE)
    yield "planning-cost.svg", cost
    yield "planning-chance.svg", chance_by_nodes(evidence, SHARE)
    ask = plan.Ask(Scenario(QUEUE, "5x1", policy="srtf").replaced(restart_s=0.0))
    found = backtest(ask, seeds=(0,), every=18, jobs_per_state=6)
    yield "planning-eta.svg", forecasts(found.to_json()["evidence"])
