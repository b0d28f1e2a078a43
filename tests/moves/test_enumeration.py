"""Answers on random states against enumeration; ``python -m benchmarks.checks.moves`` is longer."""

from __future__ import annotations

from benchmarks.checks.moves import compare
from tests.campaigns import blocks


def test_least_losses_are_those_of_enumeration_and_orders_can_be_carried_out() -> None:
    found, steps = [], 0
    for seed in range(5000, 5000 + blocks(25)):
        _, carried, different = compare(seed)
        found += different
        steps += carried
    assert found == []
    assert steps
