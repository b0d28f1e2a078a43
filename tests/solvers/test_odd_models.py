"""Odd models: no adapter passes on a false optimum, or a false proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.checks.adapters import KINDS, odd_model, optimum, rows, text_of
from morph_opt.scheduling.solvers.registry import installed
from morph_opt.scheduling.solvers.tighter import column_units, tightened
from tests.solvers import models

SEEDS = (*range(2 * len(KINDS)), 190, 336, 379, 519, 533, 680)
"""Two of each kind, and some that libraries answered falsely."""


def test_no_adapter_claims_what_is_false() -> None:
    found = list(rows(SEEDS, installed()))
    assert not [text_of(row) for row in found if row.wrong]
    assert all(row.settled for row in found if row.solver == "highs")


def test_the_enumeration_is_that_of_integer_points() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        model = models.random_small(rng)
        best = models.brute_force(model)
        assert optimum(model, 1e-9) == (best if best is None else pytest.approx(best))


def test_a_false_answer_is_called_wrong() -> None:
    row = next(rows((2 * len(KINDS),), ("highs",)))
    assert row.least is not None
    assert not row.wrong
    low = replace(row.outcome, objective=row.least - 1.0, bound=row.least - 0.5)
    assert "bound" in replace(row, outcome=low).wrong
    assert "worth more" in replace(row, outcome=replace(low, objective=row.least + 1.0)).wrong


def test_switches_have_entries_no_larger_than_their_rows_need() -> None:
    """y <= 1 switches 4 x <= 11.5, x <= 1e9 y: 2.875 y does."""
    model = odd_model(519)[1]
    assert tightened(model) is model  # its continuous column may be as large as the entry
    units = column_units(model)
    assert units is not None
    assert units[-1] > 1e7
    row = models.single(0, 1, (1.0, 1.0, -1e9), (-np.inf, 0.0), (1, 1, -1))
    row.integer[:2] = False
    assert tightened(row).value.tolist() == pytest.approx([1.0, 1.0, -2.0])
    assert tightened(models.single(0, 1, (1, 1), (-np.inf, 1), (1, 1))).value.tolist() == [1, 1]
