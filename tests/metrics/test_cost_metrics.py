"""Dollars and SLOs of a replay, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import ExecutionPlan, Job, Placement, Trace
from morph_opt.inputs.clusters import parse_short
from morph_opt.simulation.events.log import (
    Begun,
    Completed,
    Ended,
    EndReason,
    Event,
    Preempted,
    SloChange,
    SloChanged,
    Started,
    StartKind,
    StopCause,
    Submitted,
    event_from_line,
    event_to_line,
)
from morph_opt.simulation.metrics.cost import SloState, cost_metrics, job_cost_usd, slo_state
from morph_opt.simulation.metrics.history import History
from tests.metrics.logs import read_history

DP = ExecutionPlan.parse("dp")
MIXED = parse_short("1x2:V100+1x2:K80").with_prices({"v100": 3.0, "k80": 1.0})
"""Node 0 has two GPUs at 3 $/h, node 1 two at 1 $/h."""


def job(name: str, deadline_s: float | None) -> Job:
    return Job(name, "m", 0.0, 10, 2, DP, deadline_s=deadline_s)


def held(time_s: float, name: str, node: int, gpus: list[int], kind: StartKind) -> Started:
    return Started(time_s, name, kind, DP, Placement.of({node: gpus}), 1.0, 0.0, 0.0)


def history(
    *events: Event, end_s: float = 7200.0, reason: EndReason = EndReason.HORIZON
) -> History:
    jobs = [job("a", 3600.0), job("b", 1000.0), job("c", None), job("d", 9000.0)]
    trace = Trace("t", tuple(jobs))
    begun = Begun(0.0, "t", trace.sha256, "p", 4, 2, 4, 60.0, "")
    seen = [Submitted(0.0, one.name) for one in jobs]
    return read_history([begun, *seen, *events, Ended(end_s, reason)], trace)


EVENTS: tuple[Event, ...] = (
    held(0.0, "a", 0, [0, 1], StartKind.FIRST),
    SloChanged(0.0, "b", SloChange.DROPPED),
    SloChanged(60.0, "b", SloChange.RESTORED),
    SloChanged(120.0, "b", SloChange.DROPPED),
    Completed(3600.0, "a"),
    held(3600.0, "b", 1, [0], StartKind.FIRST),
    Preempted(5400.0, "b", StopCause.POLICY, 1.0, 0.0),
    held(5400.0, "c", 1, [0, 1], StartKind.FIRST),
)


def test_dollars_and_slos_by_hand() -> None:
    found = cost_metrics(history(*EVENTS), MIXED)
    # a: 2 GPUs x 3 $ x 1 h; b: 1 x 1 $ x 0.5 h; c: 2 x 1 $ x 0.5 h until the end.
    assert found["cost_usd"] == pytest.approx(6.0 + 0.5 + 1.0)
    assert found["cost_per_job_usd"] == pytest.approx(7.5)
    assert [found[f"slo_{state}"] for state in ("met", "missed", "open", "none")] == [1, 1, 1, 1]
    assert found["slo_attainment"] == 0.5
    assert (found["slo_dropped"], found["slo_dropped_jobs"]) == (1, "b")


def test_states_at_the_very_instant() -> None:
    a, b, c, d = history(*EVENTS).jobs
    assert [slo_state(r, 7200.0) for r in (a, b, c, d)] == [
        SloState.MET,
        SloState.MISSED,
        SloState.NONE,
        SloState.OPEN,
    ]
    assert slo_state(d, 9000.0) is SloState.MISSED
    a.finish_s = 3600.5
    assert slo_state(a, 7200.0) is SloState.MISSED


def test_a_shared_gpu_is_paid_once_and_a_job_pays_what_it_held() -> None:
    both = history(
        held(0.0, "a", 1, [0], StartKind.FIRST),
        held(1800.0, "b", 1, [0], StartKind.FIRST),
        end_s=3600.0,
    )
    assert cost_metrics(both, MIXED)["cost_usd"] == pytest.approx(1.0)
    assert [job_cost_usd(r, MIXED) for r in both.jobs[:3]] == pytest.approx([1.0, 0.5, 0.0])


def test_cost_is_nan_without_prices() -> None:
    node = MIXED.nodes[0]
    bare = replace(node.type, gpu_type=replace(node.type.gpu_type, price_per_hour=None))
    unpriced = replace(MIXED, nodes=(replace(node, type=bare), MIXED.nodes[1]))
    found = cost_metrics(history(*EVENTS), unpriced)
    assert found["cost_usd"] is None
    assert found["cost_per_job_usd"] is None
    assert job_cost_usd(history(*EVENTS).jobs[0], unpriced) is None
    only_priced = history(held(0.0, "a", 1, [0], StartKind.FIRST))
    assert cost_metrics(only_priced, unpriced)["cost_usd"] == pytest.approx(2.0)


def test_metrics_of_a_run_without_completions_or_decided_deadlines() -> None:
    found = cost_metrics(history(end_s=10.0), MIXED)
    assert found["cost_usd"] == 0.0
    assert found["cost_per_job_usd"] is found["slo_attainment"] is None


@pytest.mark.parametrize("change", SloChange)
def test_the_event_survives_the_log(change: SloChange) -> None:
    event = SloChanged(60.0, "b", change)
    line = event_to_line(event)
    assert line == f'{{"event":"slo","time_s":60.0,"job":"b","change":"{change}"}}'
    assert event_from_line(line) == event
