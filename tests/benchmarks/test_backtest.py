"""Backtests of forecasts: what the interval holds, and the loss of a quantile."""

from __future__ import annotations

import pytest

import morph_opt as mo
from benchmarks.planning.backtest import backtest, pinball
from morph_opt import plan

QUEUE = "tests.plan.queue:mmk/100/30/9"


def test_the_loss_of_a_quantile_by_hand() -> None:
    assert pinball(0.9, 10.0, 20.0) == pytest.approx(9.0)
    assert pinball(0.9, 20.0, 10.0) == pytest.approx(1.0)


def test_a_backtest_counts_what_the_interval_holds() -> None:
    """Under `fifo` nothing that arrives matters, so every forecast is closed and right."""
    base = mo.Scenario(QUEUE, "2x1").replaced(interval_s=10.0, restart_s=0.0)
    first, found = (
        backtest(plan.Ask(base.replaced(policy=name)), seeds=(0, 1), every=25, continuations=5)
        for name in ("fifo", "srtf")
    )
    assert first.figures["open"] == 0
    assert first.figures["closed_right"] == first.figures["closed"] == len(first.rows)
    assert first.said[0] == "no forecast was open: nothing is known of the interval"
    rows = [dict(zip(found.header, row, strict=True)) for row in found.rows]
    opened = [row for row in rows if row["open"]]
    assert found.figures["forecasts"] == len(rows) >= 4
    assert 0 < found.figures["closed"] == len(rows) - len(opened) < len(rows)
    assert found.figures["coverage"] == sum(float(r["held"] or 0) for r in opened) / len(opened)
    for row in rows:
        low, actual, high = (float(row[k] or 0) for k in ("q10_s", "actual_s", "q90_s"))
        if not low - 1e-6 <= actual <= high + 1e-6:
            assert float(row["held"] or 0) < 1.0
        assert low <= float(row["q50_s"] or 0) <= high
        if not row["open"]:
            assert low == high
