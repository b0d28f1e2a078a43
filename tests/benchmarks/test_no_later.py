"""A sample of the check of the rule ``no_later_than``; the campaign is a command."""

from __future__ import annotations

from pathlib import Path

from benchmarks.checks.no_later import found
from benchmarks.streams import Row, stream


def test_no_job_ends_later_than_the_bound_and_without_the_rule_some_do(tmp_path: Path) -> None:
    rows: list[Row] = [
        (name, submit_s // 8, min(gpus, 16), run_s // 3)
        for name, submit_s, gpus, run_s in stream("st95-5", 0)[:45]
    ]
    assert found(rows, None, tmp_path, gpus=16).late
    for after_h in (0.0, 0.5):
        one = found(rows, after_h, tmp_path, gpus=16)
        assert one.late == ()
        assert one.spare_s >= 0.0
