"""Victims by what they lose waste less than the youngest, and the high class waits no longer."""

from __future__ import annotations

from benchmarks.victims import rows


def test_victims_by_loss_waste_less_at_equal_waits_of_the_high_class() -> None:
    youngest, milp = rows("even", 0, 60)
    assert float(milp[3]) < 0.7 * float(youngest[3])
    assert float(milp[5]) <= float(youngest[5])
