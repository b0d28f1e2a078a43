"""Ranked goals by the ladder and by an exact MIP."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.checks.ranks import rounds


def test_values_of_a_morning_are_those_of_an_exact_mip() -> None:
    found = list(rounds("las", 6, until_s=7200.0))
    assert len(found) >= 12
    assert [row.fault for row in found if row.fault] == []
    row = max(found, key=lambda row: row.ladder)
    assert replace(row, exact=1.01 * row.ladder).fault == "the exact MIP found more"
    assert replace(row, bound=0.99 * row.ladder).fault == "the bound lies below a decision"
    assert replace(row, bound=2.0 * row.bound, gap=0.5).fault == "not proven"
