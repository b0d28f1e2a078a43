"""MPS files: what is written is read back bit for bit, and damage is named with its line."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import highspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.instances.library import load_mps
from benchmarks.instances.mps_reader import MpsError, from_mps
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.mps import to_mps
from morph_opt.core.documents.model import write_model
from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver
from tests.solvers import models


def same(one: LinearModel, two: LinearModel) -> None:
    for field in (
        "cost",
        "column_lower",
        "column_upper",
        "integer",
        "row_lower",
        "row_upper",
        "start",
        "index",
        "value",
    ):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), err_msg=field)
    assert one.offset == two.offset
    assert list(one.row_names()) == list(two.row_names())
    assert list(one.column_names()) == list(two.column_names())


def rich() -> LinearModel:
    """Every kind of row, bound and column, in families of one and two subscripts."""
    builder = ModelBuilder("rich model")
    inf = np.inf
    x = builder.add_columns("x", np.array([[0, 3], [0, 12], [1, 3]]), np.array([1.0, inf, 5.0]))
    builder.add_columns("free", np.array([[0]]), inf, lower=-inf, integer=False)
    builder.add_columns(
        "y",
        np.array([[0], [1], [2]]),
        np.array([2.5, inf, -1.0]),
        lower=np.array([-inf, -3.0, -2.0]),
        integer=False,
    )
    builder.add_columns("fixed", np.array([[7]]), 2.0, lower=2.0)
    builder.add_columns("nowhere", np.array([[0]]), inf, lower=-inf)
    rows = np.arange(6)
    builder.add_rows(
        "row",
        rows[:, None],
        np.array([-inf, 1.0, 2.0, -3.0, -inf, 0.0]),
        np.array([4.0, inf, 2.0, 0.1 + 0.2, inf, 5.0]),
        [
            (rows, np.array([0, 1, 2, 3, 4, 5]), np.linspace(0.1, 7, 6)),
            (rows, np.full(6, int(x[0])), 1 / 3),
        ],
    )
    return builder.build(np.array([1.0, 2.5, 0, -1, 0, 1e-7, 0, 3, 0]), -2.75)


@pytest.mark.parametrize("suffix", [".mps", ".mps.gz", ".mps.xz"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    write_model(rich(), path)
    first = path.read_bytes()
    same(drop_free_rows(rich()), load_mps(path))
    write_model(rich(), path)
    assert path.read_bytes() == first


def drop_free_rows(model: LinearModel) -> LinearModel:
    """MPS has no kind for a row without sides but that of objectives; readers leave it out."""
    keep = np.isfinite(model.row_lower) | np.isfinite(model.row_upper)
    names = [name for name, kept in zip(model.row_names(), keep, strict=True) if kept]
    builder = ModelBuilder(model.name)
    for block in model.column_blocks:
        span = slice(block.start, block.start + block.count)
        builder.add_columns(
            block.family,
            block.labels,
            model.column_upper[span],
            lower=model.column_lower[span],
            integer=bool(model.integer[span][0]),
        )
    labels = np.array([[int(name[4:-1])] for name in names])
    matrix = model.matrix()[keep].tocoo()
    builder.add_rows(
        "row",
        labels,
        model.row_lower[keep],
        model.row_upper[keep],
        [(matrix.coords[0], matrix.coords[1], matrix.data)],
    )
    return builder.build(model.cost, model.offset)


@given(st.integers(0, 2**32 - 1))
def test_random_models_survive(seed: int) -> None:
    model = models.random_small(np.random.default_rng(seed))
    same(model, from_mps(to_mps(model)))


def test_highs_reads_the_same_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        model = models.random_small(rng)
        best = models.brute_force(model)
        path = tmp_path / "model.mps"
        write_model(model, path)
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
        highs.run()
        if best is not None:
            assert highs.getInfo().objective_function_value == pytest.approx(-best, abs=1e-6)
        again = make_solver("highs").solve(load_mps(path), Limits(gap=0.0))
        assert again.usable == (best is not None)


def test_a_foreign_minimisation_becomes_a_maximisation() -> None:
    text = """* a comment
NAME foreign
ROWS
 N cost
 N spare
 G need
 E same
COLUMNS
    a cost 2 need 1
    a spare 9
    m 'MARKER' 'INTORG'
    b cost 3 need 1
    b same 2
    m 'MARKER' 'INTEND'
RHS
    rhs need 4.5 cost -1
    same 2
RANGES
    rng need 2
    rng same -2
BOUNDS
 UP bnd a 10
 BV bnd b
ENDATA
"""
    model = from_mps(text)
    assert list(model.column_names()) == ["a", "b"]
    assert list(model.row_names()) == ["need", "same"]
    assert model.cost.tolist() == [-2, -3]
    assert model.offset == -1
    assert model.row_lower.tolist() == [4.5, 0.0]
    assert model.row_upper.tolist() == [6.5, 2.0]
    assert model.integer.tolist() == [False, True]
    assert model.column_upper.tolist() == [10, 1]


def test_foreign_forms_of_maximisation_and_constants_are_read() -> None:
    text = "NAME m\nOBJSENSE\n    MAX\nROWS\n N c\nCOLUMNS\n x c 2\nRHS\n RHS c -3\nENDATA\n"
    model = from_mps(text)
    assert (model.cost.tolist(), model.offset) == ([2.0], 3.0)


def test_a_column_may_be_called_constant_where_there_is_none() -> None:
    builder = ModelBuilder("m")
    builder.add_columns("constant", np.zeros((1, 0), int), 1.0)
    model = builder.build(np.ones(1))
    same(model, from_mps(to_mps(model)))
    with pytest.raises(ValueError, match="holds the constant"):
        to_mps(builder.build(np.ones(1), 2.0))


GOOD = to_mps(models.single(0, 3, (1, 2), (1, 4), (2, 1)))


@pytest.mark.parametrize(
    ("old", "new", "reason", "culprit"),
    [
        ("ENDATA\n", "", "ends without ENDATA", " UP BND x[1] 3"),
        (" x[0] r[0] 1\n", " x[0] r[9] 1\n", "unknown row 'r[9]'", " x[0] r[9] 1"),
        (" x[0] r[0] 1\n", " x[0] r[0] one\n", "must be a number, got 'one'", " x[0] r[0] one"),
        (" x[0] r[0] 1\n", " x[0] r[0] nan\n", "must be a number, got 'nan'", " x[0] r[0] nan"),
        (" x[0] r[0] 1\n", " x[0] r[0]\n", "a column line is", " x[0] r[0]"),
        (" x[0] r[0] 1\n", " x[0] r[0] 1\n x[0] r[0] 1\n", "twice", " x[0] r[0] 1"),
        (" L r[0]\n", " L r[0]\n L r[0]\n", "named twice", " L r[0]"),
        (" L r[0]\n", " Q r[0]\n", "a row is a kind", " Q r[0]"),
        ("'INTORG'", "'INTOR'", "a marker is", " M0 'MARKER' 'INTOR'"),
        ("RANGES\n", "RANGE\n", "unknown section 'RANGE'", "RANGE"),
        ("RANGES\n", "RANGE of r\n", "unknown section 'RANGE'", "RANGE of r"),
        (" UP BND x[0] 3\n", " UP BND x[7] 3\n", "unknown column 'x[7]'", " UP BND x[7] 3"),
        (" UP BND x[0] 3\n", " XX BND x[0] 3\n", "unknown kind of bound 'XX'", " XX BND x[0] 3"),
        (" UP BND x[0] 3\n", " UP BND\n", "a bound is", " UP BND"),
        ("ROWS\n", "OBJSENSE\n    UP\nROWS\n", "the sense must be MAX or MIN", "    UP"),
        (" N objective\n", "", "unknown row 'objective'", " x[0] objective -2"),
        ("NAME m FREE\n", " stray\nNAME m FREE\n", "data before a section", " stray"),
        (" RNG r[0] 3\n", " RNG objective 3\n", "the objective has no range", " RNG objective 3"),
    ],
)
def test_damage_is_named(old: str, new: str, reason: str, culprit: str) -> None:
    """With the line that holds it; of a name given twice that is the second."""
    assert old in GOOD
    damaged = GOOD.replace(old, new, 1)
    with pytest.raises(MpsError) as caught:
        from_mps(damaged)
    assert reason in caught.value.reason
    lines = damaged.splitlines()
    assert caught.value.line == len(lines) - lines[::-1].index(culprit)


@pytest.mark.parametrize("name", ["x[007]", "x[-0]", "x[99999999999999999999]", "x[\u0663]"])
def test_a_name_that_only_looks_like_subscripts_is_kept(name: str) -> None:
    model = from_mps(GOOD.replace("x[0]", name))
    assert list(model.column_names()) == [name, "x[1]"]


def test_the_line_is_the_right_one() -> None:
    with pytest.raises(MpsError) as caught:
        from_mps(GOOD.replace(" x[0] r[0] 1\n", " x[0] r[9] 1\n"))
    assert GOOD.splitlines()[caught.value.line - 1] == " x[0] r[0] 1"


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_truncated_archive(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.mps{suffix}"
    write_model(rich(), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is damaged"):
        load_mps(path)
    path.write_bytes(gzip.compress(b"\xff\xfe\xff"))
    with pytest.raises(InputError):
        load_mps(path)


def test_names_with_blanks_are_refused() -> None:
    builder = ModelBuilder("m")
    builder.add_columns("my x", np.zeros((1, 1), int), 1.0)
    with pytest.raises(ValueError, match="no blanks"):
        to_mps(builder.build(np.zeros(1)))


def test_numbers_are_the_shortest_that_read_back() -> None:
    for value in (0.1 + 0.2, 1e-300, 1e22, math.pi, 1 / 3, 123456789012345.0):
        model = models.single(0, 3, (1, 1), (-np.inf, value), (2, 1))
        assert from_mps(to_mps(model)).row_upper[0] == value


def test_bounds_without_the_name_of_a_set() -> None:
    same(from_mps(GOOD.replace(" UP BND x", " UP x")), from_mps(GOOD))
    free = GOOD.replace(" UP BND x[0] 3\n", " FR x[0]\n")
    same(from_mps(free), from_mps(free.replace(" FR x", " FR BND x")))


OWN = """NAME own
ROWS
 N cost
 N other
 L most
 G need
 E same
COLUMNS
 M1 'MARKER' 'INTORG'
 a cost 1 most 1
 a need 1
 M2 'MARKER' 'INTEND'
 b cost 2 most 1
 b same 1 other 5
RHS
 RHS most 4 need -1
 RHS same 3
BOUNDS
 UP BND b 9
ENDATA
"""
"""An integer column without bounds, and a continuous one with an upper one."""


def bounds(text: str) -> dict[str, tuple[float, float]]:
    model = from_mps(text)
    sides = zip(model.column_lower.tolist(), model.column_upper.tolist(), strict=True)
    return dict(zip(model.column_names(), sides, strict=True))


@pytest.mark.parametrize(
    ("lines", "column", "expected"),
    [
        ("", "a", (0.0, 1.0)),  # an integer column without any bound is binary
        (" PL BND a\n", "a", (0.0, math.inf)),
        (" LO BND a 0\n", "a", (0.0, math.inf)),
        (" LI BND a 2\n", "a", (2.0, math.inf)),
        (" UI BND a 7\n", "a", (0.0, 7.0)),
        (" BV BND a 1\n", "a", (0.0, 1.0)),
        (" MI BND a\n", "a", (-math.inf, math.inf)),
        (" UP BND a -2\n", "a", (-math.inf, -2.0)),  # alone it opens the lower bound
        (" LO BND a -5\n UP BND a -2\n", "a", (-5.0, -2.0)),
        (" UP BND a -2\n LO BND a -5\n", "a", (-5.0, -2.0)),
        (" UP BND a 1e20\n", "a", (0.0, math.inf)),
        (" UP BND a Inf\n", "a", (0.0, math.inf)),
        (" LO BND a -1e30\n", "a", (-math.inf, math.inf)),
        (" UP OTHER a 5\n", "a", (0.0, 1.0)),  # only the first set of bounds counts
    ],
)
def test_bounds_are_as_the_manuals_state(
    lines: str, column: str, expected: tuple[float, float]
) -> None:
    assert bounds(OWN.replace("ENDATA", lines + "ENDATA"))[column] == expected
    assert bounds(OWN)["b"] == (0.0, 9.0)


def test_the_first_of_several_right_hand_sides_counts() -> None:
    model = from_mps(OWN.replace("BOUNDS", " SECOND most 1 same 1\nBOUNDS"))
    assert model.row_upper.tolist() == [4.0, math.inf, 3.0]
    assert model.row_lower.tolist() == [-math.inf, -1.0, 3.0]
    ranges = "RANGES\n R most 1\n R need 2\n R same -1\n S same 9\nBOUNDS"
    model = from_mps(OWN.replace("BOUNDS", ranges))
    assert model.row_lower.tolist() == [3.0, -1.0, 2.0]
    assert model.row_upper.tolist() == [4.0, 1.0, 3.0]
    # A set without a name belongs to the one that has.
    model = from_mps(OWN.replace(" RHS same 3", " same 3"))
    assert model.row_upper.tolist() == [4.0, math.inf, 3.0]


def test_the_objective_may_be_named_and_maximised() -> None:
    model = from_mps(OWN.replace("ROWS\n", "OBJSENSE\n  Maximise\nOBJNAME\n other\nROWS\n"))
    assert model.cost.tolist() == [0.0, 5.0]
    assert from_mps(OWN).cost.tolist() == [-1.0, -2.0]


def test_infinite_sides_are_open() -> None:
    model = from_mps(OWN.replace("most 4 need -1", "most 1e30 need -1e30"))
    assert model.row_lower.tolist() == [-math.inf, -math.inf, 3.0]
    assert model.row_upper.tolist() == [math.inf, math.inf, 3.0]


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        (" b cost 2", " b cost 2_0", 13, "must be a number, got '2_0'"),
        (" b cost 2", " b cost \u0662", 13, "must be a number"),
        (" b cost 2", " b cost 0x2", 13, "must be a number, got '0x2'"),
        (" b cost 2", " b cost inf", 13, "must be a finite number"),
        (" b cost 2", " b cost 1e999", 13, "must be a finite number"),
        (" b same 1", " a same 1", 14, "column 'a' comes again"),
        (" a need 1", " a need 1 cost 3", 11, "column 'a' has this row twice"),
        (" RHS same 3", " RHS same 3 same 4", 17, "row 'same' has two right-hand sides"),
        (" RHS same 3", " RHS cost 3 cost 4", 17, "the constant of the objective must be one"),
        (" RHS same 3", " RHS same 1e30", 17, "nothing can hold a row of kind E"),
        (" RHS same 3", " RHS most 4 need 1e30", 17, "row 'most' has two right-hand sides"),
        ("need -1", "need 1e30", 16, "nothing can hold a row of kind G"),
        (" UP BND b 9", " UP BND b 9\n UP BND b 8", 20, "two bounds of kind UP"),
        (" UP BND b 9", " FX BND b 1e20", 19, "kind FX must be a finite number"),
        (" UP BND b 9", " LO BND b 1e20", 19, "kind LO must be a finite number"),
        (" UP BND b 9", " UP BND b -1e20", 19, "kind UP must be a finite number"),
        (" UP BND b 9", " UP BND b 9 9", 19, "a bound is a kind, a set, a column and a number"),
        (" UP BND b 9", " SC BND b 9", 19, "unknown kind of bound 'SC'"),
        ("BOUNDS", "RANGES\n R same 1\n R same 1\nBOUNDS", 20, "row 'same' has two ranges"),
        ("ROWS", "OBJNAME\n third\nROWS", 22, "there is no objective row 'third'"),
        ("COLUMNS", "OBJNAME\n other\nCOLUMNS", 9, "OBJNAME must come before ROWS"),
        ("BOUNDS", "SOS1\nBOUNDS", 18, "unknown section 'SOS1'"),
    ],
)
def test_mps_lines_that_manuals_leave_open_are_refused(
    old: str, new: str, line: int, reason: str
) -> None:
    with pytest.raises(MpsError) as caught:
        from_mps(OWN.replace(old, new, 1))
    assert reason in caught.value.reason
    assert caught.value.line == line
