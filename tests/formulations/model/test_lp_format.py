"""LP and MPS text: what it looks like, and that a solver reads the same model out of it."""

from __future__ import annotations

from pathlib import Path

import highspy
import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.lp import to_lp
from formulations.mps import number_text, to_mps
from tests.formulations.worlds.random_rounds import random_level, random_round
from tests.formulations.worlds.solving import solve_model


def mixed() -> LinearModel:
    """Every kind of row and bound at once."""
    builder = ModelBuilder("mixed")
    x = builder.add_columns("x", np.asarray([[0, 1], [0, 2]]), 1.0)
    y = builder.add_columns("y", np.asarray([[3]]), np.inf, integer=False, lower=-np.inf)
    zero = np.zeros(1, dtype=np.int64)
    for family, low, high in (
        ("upper", -np.inf, 2.0),
        ("lower", -1.0, np.inf),
        ("range", -4.0, 4.0),
        ("equal", 1.0, 1.0),
    ):
        builder.add_rows(
            family, np.asarray([[0]]), low, high, [(zero, x[:1], 1.5), (zero, y, -1.0)]
        )
    return builder.build(np.asarray([1.0, 0.0, 0.25]), 3.0)


def test_text_by_hand() -> None:
    assert to_lp(mixed()) == (
        "\\ mixed\n"
        "Maximize\n"
        " obj: + 1 x(0_1) + 0.25 y(3) + 3 constant\n"
        "Subject To\n"
        " upper(0): + 1.5 x(0_1) - 1 y(3) <= 2\n"
        " lower(0): + 1.5 x(0_1) - 1 y(3) >= -1\n"
        " range(0).up: + 1.5 x(0_1) - 1 y(3) <= 4\n"
        " range(0).lo: + 1.5 x(0_1) - 1 y(3) >= -4\n"
        " equal(0): + 1.5 x(0_1) - 1 y(3) = 1\n"
        "Bounds\n"
        " 0 <= x(0_1) <= 1\n"
        " 0 <= x(0_2) <= 1\n"
        " -inf <= y(3)\n"
        " constant = 1\n"
        "Generals\n"
        " x(0_1)\n"
        " x(0_2)\n"
        "End\n"
    )


def read_and_solve(model: LinearModel, file: Path) -> highspy.Highs:
    file.write_text({".lp": to_lp, ".mps": to_mps}[file.suffix](model), "utf-8")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(file)) == highspy.HighsStatus.kOk
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.run()
    return highs


def worth(model: LinearModel, file: Path) -> float:
    """What a solver finds the model in a file to be worth; MPS is of the negated one."""
    value: float = read_and_solve(model, file).getInfo().objective_function_value
    return value if file.suffix == ".lp" else -value


@pytest.fixture(params=[".lp", ".mps"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return (tmp_path / "model").with_suffix(request.param)


@pytest.mark.parametrize("text", ["3", "-2", "0.1", "1e-07", "999999999999999", "2.5e+16"])
def test_a_whole_number_has_no_point(text: str) -> None:
    assert number_text(float(text)) == text


def test_a_solver_reads_the_mixed_model(file: Path) -> None:
    assert worth(mixed(), file) == pytest.approx(1.0 + 0.125 + 3.0)


def test_a_row_without_columns_is_still_a_row(file: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    never = mixed().with_row("guarantee", [5], none, np.zeros(0), 1.0, np.inf)
    highs = read_and_solve(never, file)
    assert highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible


@pytest.mark.parametrize("seed", range(12))
def test_a_solver_reads_random_rounds(seed: int, file: Path) -> None:
    draw = np.random.default_rng((21, seed))
    problem = random_round(draw)
    level = random_level(draw, problem)
    for build in (node_pattern.build, node_assignment.build):
        model = build(problem, level).model
        assert worth(model, file) == pytest.approx(solve_model(model).objective, rel=1e-6, abs=1e-9)
