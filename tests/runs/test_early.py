"""What is certain on the way is never above what the whole replay comes to, and ends it soon."""

from __future__ import annotations

from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError
from morph_opt.replay.prepare import Prepared, prepare
from morph_opt.replay.run import run_prepared
from morph_opt.simulation.events.log import RoundDecided
from morph_opt.simulation.metrics.bounds.demands import initial_demands, job_demands
from morph_opt.simulation.metrics.parameters import FIGURES
from morph_opt.simulation.runs.early import EarlyEnd, MissedError
from morph_opt.simulation.runs.slo import PER_JOB, PER_RUN, Slo

QUEUE = mo.Scenario("tests.plan.queue:mmk/100/30/24", "2x1", policy="fifo").replaced(
    interval_s=10.0, restart_s=5.0
)
STATE = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"
SCENARIOS = {
    "queue": QUEUE,
    "preempting": QUEUE.replaced(policy="srtf"),
    "failing nodes": QUEUE.replaced(mtbf_s=900.0, mttr_s=120.0),
    "rigid": mo.Scenario("naive", policy="fifo:skip"),
    "elastic": mo.Scenario("naive", objective="jct"),
    "taken up": mo.Scenario(state=STATE),
}
BOUNDED = [
    *(f"{statistic} {metric}" for metric in ("jct_s", "queued_s", "waiting_s")
      for statistic in ("avg", "median", "p90", "max")),
    "makespan_s",
]  # fmt: skip


def early(prepared: Prepared, slo: Slo) -> EarlyEnd:
    scenario, trace = prepared.scenario, prepared.trace
    demands = job_demands(trace, scenario.cluster, prepared.truth, scenario.engine)
    if prepared.jobs.initial is not None:
        demands = initial_demands(demands, prepared.jobs.initial, scenario.engine)
    return EarlyEnd(slo, trace, demands)


@pytest.mark.parametrize("name", SCENARIOS)
def test_certain_figures_equal_the_final_ones(name: str) -> None:
    """Of every statistic, round by round; what is far below ends it on the way."""
    prepared = prepare(SCENARIOS[name])
    whole = run_prepared(prepared, None)
    for text in BOUNDED:
        any_target = Slo.parse(f"{text} <= 1e18")
        final = any_target.value(whole.summary, lambda: whole.jobs)
        watch, seen = early(prepared, any_target), []
        for event in whole.events:
            watch.take([event])
            if isinstance(event, RoundDecided):
                seen.append(watch.at_least(event.time_s))
        assert max(seen) <= final + 1e-6, text
        assert watch.at_least(0.0) == pytest.approx(final), text  # all clocks have stopped
        for part in (0.5, 0.999, 1.0, 1.1):
            slo = Slo.parse(f"{text} <= {part * final!r}")
            certain = [value for value in seen if value > slo.target + 1e-3]
            if not certain:
                early(prepared, slo).take(whole.events)
                continue
            with pytest.raises(MissedError) as missed:
                early(prepared, slo).take(whole.events)
            assert not slo.met_by(final), text
            assert slo.target < missed.value.at_least <= final + 1e-6, text
            above = slo.target + FIGURES.rounding * (1.0 + abs(slo.target))
            first = next(value for value in seen if value > above)
            assert missed.value.at_least == first, text  # no round of certainty is passed over
        assert final == 0.0 or max(seen) > 0.5 * final, text


def test_a_replay_ends_there() -> None:
    """Up to there it is the same; a target that is reached changes nothing."""
    whole = run_prepared(prepare(QUEUE), None)
    final = Slo.parse("avg jct_s <= 1").value(whole.summary, lambda: whole.jobs)
    slo = Slo.parse(f"avg jct_s <= {0.5 * final}")
    with pytest.raises(MissedError) as missed:
        run_prepared(prepare(QUEUE), None, slo=slo)
    assert 0.5 * final < missed.value.at_least <= final
    assert missed.value.time_s < 0.7 * whole.events[-1].time_s
    reached = run_prepared(prepare(QUEUE), None, slo=Slo.parse("avg jct_s <= 30000"))
    assert reached.events == whole.events
    assert reached.jobs == whole.jobs


def test_uncertain_targets_do_not_end_a_replay() -> None:
    """Of what may fall again, or is to be large, nothing is certain."""
    prepared = prepare(QUEUE)
    whole = run_prepared(prepared, None)
    texts = [f"avg {name} >= 1e9" for name in PER_JOB] + [f"{name} >= 1" for name in PER_RUN]
    texts += ["avg stretch <= 1.0001", "max finish_time_ratio <= 0.0001", "cost_usd <= 0"]
    for text in texts:
        try:
            slo = Slo.parse(text)
        except InputError:  # nothing reaches it
            continue
        early(prepared, slo).take(whole.events)


def test_message_of_an_early_end() -> None:
    """Two jobs of 100 s on one GPU, at once: the second one waits for 100 s."""
    scenario = mo.Scenario("tests.plan.queue:mmk/100/30/9", "1x1", policy="fifo").replaced(
        interval_s=10.0, restart_s=0.0
    )
    with pytest.raises(MissedError, match=r"^target broken at [\d.]+ s: max waiting_s <= 1, and "):
        run_prepared(prepare(scenario), None, slo=Slo.parse("max waiting_s <= 1"))
