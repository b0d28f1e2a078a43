"""Prices of rules by queue, on rows written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.plan.questions.rule_prices import prices_of_rules
from morph_opt.simulation.runs.jobs import JobRow
from tests.runs.worlds import job_row


def rows(shift_s: float, workload: int) -> list[JobRow]:
    """Two jobs of queue a that wait longer by ``shift_s``, and one of queue b."""
    plain = job_row(gpu_s_held=3600.0, preemptions=1, gpu_s_lost=1800.0)
    waits = {"a0": 10.0 + shift_s, "a1": 20.0 + shift_s + workload, "b0": 5.0}
    return [
        replace(plain, job=name, tenant=name[0], waiting_s=wait_s) for name, wait_s in waits.items()
    ]


def test_each_queue_has_its_figures_and_the_waits_that_differ_a_sentence() -> None:
    runs = [*(rows(0.0, k) for k in range(6)), *(rows(30.0, k) for k in range(6))]
    found, said = prices_of_rules(runs, ["free", "ruled"], 6, 0.95)
    by_name = {str(row[0]): row for row in found}
    assert len(by_name) == 3 * 5
    of_a = by_name["queue a: avg waiting_s: ruled"]
    assert of_a[1:3] == pytest.approx([15.0 + 2.5 / 2 + 30.0, 30.0])
    assert of_a[7] == 6
    assert by_name["queue b: avg waiting_s: ruled"][2] == 0.0
    assert by_name["all jobs: GPU-hours: ruled"][1:3] == pytest.approx([3.0, 0.0])
    assert by_name["queue a: GPU-hours lost: ruled"][1] == pytest.approx(1.0)
    assert by_name["all jobs: evictions: ruled"][1] == 3.0
    assert [line.partition(" is ")[0] for line in said] == [
        "all jobs: avg waiting_s", "all jobs: p90 waiting_s",
        "queue a: avg waiting_s", "queue a: p90 waiting_s",
    ]  # fmt: skip
    assert "queue a: avg waiting_s is 30 higher under ruled (30 to 30)" in said


def test_a_queue_that_some_workload_lacks_is_left_out() -> None:
    runs = [rows(0.0, 0), rows(0.0, 1)[:2], rows(1.0, 0), rows(1.0, 1)]
    found, _ = prices_of_rules(runs, ["free", "ruled"], 2, 0.95)
    assert {str(row[0]).partition(":")[0] for row in found} == {"all jobs"}
