"""Facts about library versions that this project leans on; each fails when it stops being true."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.registry import make_solver
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("order", ["import highspy, ortools", "import ortools, highspy"])
def test_highspy_and_ortools_load_in_one_process(order: str) -> None:
    if importlib.util.find_spec("ortools") is None:
        pytest.skip("ortools is not installed")
    program = (
        f"{order}; from ortools.sat.python import cp_model; "
        "h = highspy.Highs(); h.setOptionValue('output_flag', False); h.run(); print(h.version())"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("1.")


def cover() -> LinearModel:
    """HiGHS issue 2957: min x + 2y, x + y >= 20.1, x integer in 0..20, y in 8..20; it is 28.2."""
    builder = ModelBuilder("cover")
    x = builder.add_columns("x", np.zeros((1, 1), int), 20.0)
    y = builder.add_columns("y", np.zeros((1, 1), int), 20.0, lower=8.0, integer=False)
    builder.add_rows(
        "cover",
        np.zeros((1, 1), int),
        20.1,
        np.inf,
        [(np.zeros(2, int), np.concatenate([x, y]), 1.0)],
    )
    return builder.build(np.array([-1.0, -2.0]))


def exclusive() -> LinearModel:
    """HiGHS issue 3094: two big-M links, two balances, one exclusion, weights 10 and 8.

    The optimum of min 10 d0 + 8 d1 is 8000; HiGHS 1.14.0 stops at 10000 and calls it optimal.
    """
    builder = ModelBuilder("exclusive")
    on = builder.add_columns("on", np.arange(2)[:, None], 1.0)
    served = builder.add_columns("served", np.arange(2)[:, None], 1000.0, integer=False)
    lost = builder.add_columns("lost", np.arange(2)[:, None], 1000.0, integer=False)
    two = np.arange(2)
    builder.add_rows("link", two[:, None], -np.inf, 0.0, [(two, served, 1.0), (two, on, -1000.0)])
    builder.add_rows(
        "balance", two[:, None], 1000.0, 1000.0, [(two, served, 1.0), (two, lost, 1.0)]
    )
    builder.add_rows("one", np.zeros((1, 1), int), -np.inf, 1.0, [(np.zeros(2, int), on, 1.0)])
    return builder.build(np.array([0.0, 0.0, 0.0, 0.0, -10.0, -8.0]))


@pytest.mark.parametrize(("make", "best"), [(cover, -28.2), (exclusive, -8000.0)])
def test_highs_solves_what_1_14_gets_wrong(make: object, best: float) -> None:
    outcome = make_solver("highs").solve(make(), Limits(gap=0.0))  # type: ignore[operator]
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == pytest.approx(best)


def test_cbc_solves_what_its_preprocessing_gets_wrong() -> None:
    """max 3.92 a + 1.511 b - 1.818 c - 1 with 2.9 <= 2.5 a - 1.5 b + 1.5 c <= 6.9: it is 8.351."""
    if importlib.util.find_spec("pulp") is None:
        pytest.skip("pulp is not installed")
    builder = ModelBuilder("cbc")
    x = builder.add_columns(
        "x", np.arange(3)[:, None], np.array([2.0, 2.0, 1.0]), lower=np.array([-1.0, 0.0, 0.0])
    )
    builder.add_rows(
        "r", np.zeros((1, 1), int), 2.9, 6.9, [(np.zeros(3, int), x, np.array([2.5, -1.5, 1.5]))]
    )
    model = builder.build(np.array([3.92, 1.511, -1.818]), -1.0)
    outcome = make_solver("cbc").solve(model, Limits(gap=0.0))
    assert outcome.objective == pytest.approx(8.351)
