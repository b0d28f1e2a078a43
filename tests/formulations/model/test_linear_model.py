"""`LinearModel` and its builder: names, violation, copies with a change, pickling."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from formulations import node_assignment, node_pattern
from formulations.linear_model import Block, LinearModel, ModelBuilder
from formulations.round.tables import Level
from tests.formulations.worlds.random_rounds import RoundSize, random_level, random_round


def violation(model: LinearModel, x: np.ndarray) -> tuple[float, str]:
    """Largest absolute violation of a bound, row or integrality, and who has it."""
    activity = model.matrix() @ x
    rows = np.maximum(model.row_lower - activity, activity - model.row_upper)
    bounds = np.maximum(model.column_lower - x, x - model.column_upper)
    columns = np.maximum(bounds, np.where(model.integer, np.abs(x - np.round(x)), 0.0))
    worst = float(rows.max(initial=0.0)), float(columns.max(initial=0.0))
    if max(worst) <= 0.0:
        return 0.0, ""
    name = model.row_name if worst[0] >= worst[1] else model.column_name
    return max(worst), name(int((rows if worst[0] >= worst[1] else columns).argmax()))


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def small() -> LinearModel:
    """Maximise 3 a0 + 2 a1 - b + 5 with 1 <= a0 + 2 a1 <= 4, a1 - b = 0; b is continuous."""
    builder = ModelBuilder("small")
    a = builder.add_columns("a", np.asarray([[0], [1]]), 3.0)
    b = builder.add_columns("b", np.asarray([[7, 9]]), 2.5, integer=False, lower=-1.0)
    builder.add_rows("both", np.asarray([[0]]), 1.0, 4.0, [(ints(0, 0, 0), a[[0, 1, 1]], 1.0)])
    builder.add_rows("same", np.asarray([[0]]), 0.0, 0.0, [(ints(0), a[1:], 1.0), (ints(0), b, -1)])
    return builder.build(np.asarray([3.0, 2.0, -1.0]), 5.0)


def same_bytes(a: LinearModel, b: LinearModel) -> None:
    for item in fields(LinearModel):
        left, right = getattr(a, item.name), getattr(b, item.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes(), item.name
    assert list(a.row_names()) == list(b.row_names())
    assert list(a.column_names()) == list(b.column_names())
    assert (a.name, a.offset) == (b.name, b.offset)


def test_builder_adds_up_coefficients_and_counts() -> None:
    model = small()
    assert (model.rows, model.columns, model.nonzeros) == (2, 3, 4)
    assert model.matrix().toarray().tolist() == [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]
    assert model.integer.tolist() == [True, True, False]
    assert model.column_lower.tolist() == [0.0, 0.0, -1.0]


def test_coefficients_that_cancel_are_not_stored() -> None:
    builder = ModelBuilder("cancel")
    a = builder.add_columns("a", np.asarray([[0]]), 1.0)
    builder.add_rows("r", np.asarray([[0]]), 0.0, 1.0, [(ints(0), a, 1.0), (ints(0), a, -1.0)])
    assert builder.build(np.zeros(1)).nonzeros == 0


def test_names_in_order_and_by_index() -> None:
    model = small()
    assert list(model.column_names()) == ["a[0]", "a[1]", "b[7,9]"]
    assert [model.column_name(i) for i in range(3)] == list(model.column_names())
    assert (
        [model.row_name(i) for i in range(2)] == list(model.row_names()) == ["both[0]", "same[0]"]
    )
    for ask in (model.row_name, model.column_name):
        with pytest.raises(IndexError, match="no row or column 3"):
            ask(3)


@pytest.mark.parametrize(
    ("x", "amount", "culprit"),
    [
        ([2.0, 1.0, 1.0], 0.0, ""),
        ([3.0, 1.0, 1.0], 1.0, "both[0]"),  # above the upper side
        ([0.0, 0.0, 0.0], 1.0, "both[0]"),  # below the lower side
        ([2.0, 1.0, 0.25], 0.75, "same[0]"),
        ([4.0, 0.0, 0.0], 1.0, "a[0]"),  # above its bound
        ([2.5, 0.5, 0.5], 0.5, "a[0]"),  # not whole
        ([1.0, 0.0, -3.0], 3.0, "same[0]"),
    ],
)
def test_violation_names_the_worst(x: list[float], amount: float, culprit: str) -> None:
    worst, who = violation(small(), np.asarray(x))
    assert who == culprit
    assert worst == pytest.approx(amount)


def test_objective_has_the_offset() -> None:
    assert small().objective(np.asarray([1.0, 1.0, 1.0])) == 3 + 2 - 1 + 5


def test_with_row_adds_at_the_end_and_leaves_the_original() -> None:
    model = small()
    more = model.with_row("extra", [4, 2], ints(0, 2), np.asarray([1.0, -1.0]), -np.inf, 0.5)
    assert (model.rows, more.rows) == (2, 3)
    assert more.row_name(2) == "extra[4,2]"
    assert more.matrix().toarray()[2].tolist() == [1.0, 0.0, -1.0]
    assert (more.row_lower[2], more.row_upper[2]) == (-np.inf, 0.5)
    assert violation(more, np.asarray([2.0, 1.0, 1.0])) == (0.5, "extra[4,2]")


def test_with_row_may_be_empty() -> None:
    none = np.zeros(0, dtype=np.int64)
    more = small().with_row("never", [0], none, np.zeros(0), 1.0, np.inf)
    assert violation(more, np.asarray([2.0, 1.0, 1.0])) == (1.0, "never[0]")


def test_with_objective_keeps_the_rest_and_refuses_another_shape() -> None:
    model = small()
    other = model.with_objective(np.asarray([0.0, 0.0, 1.0]))
    assert (other.objective(np.asarray([1.0, 1.0, 1.0])), other.rows) == (1.0, model.rows)
    with pytest.raises(ValueError, match=r"cost has shape \(2,\), the model \(3,\)"):
        model.with_objective(np.zeros(2))
    with pytest.raises(ValueError, match=r"cost has shape \(1,\), expected \(0,\)"):
        ModelBuilder("empty").build(np.zeros(1))


def test_relaxed_forgets_integrality_only() -> None:
    model = small()
    assert not model.relaxed().integer.any()
    assert violation(model.relaxed(), np.asarray([2.5, 0.5, 0.5]))[0] == 0.0


def test_an_empty_model_is_a_model() -> None:
    model = ModelBuilder("empty").build(np.zeros(0), 2.0)
    assert (model.rows, model.columns, model.nonzeros) == (0, 0, 0)
    assert model.objective(np.zeros(0)) == 2.0
    assert violation(model, np.zeros(0)) == (0.0, "")


def test_a_block_knows_its_members() -> None:
    block = Block("slots", 10, np.asarray([[0, 8], [1, 4]]))
    assert (block.count, block.name(11)) == (2, "slots[1,4]")


@given(st.integers(0, 2**32 - 1))
def test_pickling_gives_the_same_model(seed: int) -> None:
    draw = np.random.default_rng(seed)
    problem = random_round(draw)
    level = random_level(draw, problem)
    for build in (node_pattern.build, node_assignment.build):
        model = build(problem, level).model
        same_bytes(model, pickle.loads(pickle.dumps(model)))


@given(st.integers(0, 2**32 - 1))
def test_violation_agrees_with_the_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    problem = random_round(draw)
    model = node_pattern.build(problem, random_level(draw, problem)).model
    x = draw.integers(0, 2, model.columns) + draw.choice([0.0, 0.25], model.columns)
    activity = model.matrix().toarray() @ x
    rows = np.maximum(model.row_lower - activity, activity - model.row_upper)
    columns = np.maximum(model.column_lower - x, x - model.column_upper)
    whole = np.abs(x - np.round(x))[model.integer]
    worst = max(0.0, *rows, *columns, *whole, 0.0)
    amount, culprit = violation(model, x)
    assert amount == pytest.approx(worst)
    assert bool(culprit) == (worst > 0)


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        small().name = "other"  # type: ignore[misc]
    assert replace(small(), name="other").name == "other"


@pytest.mark.parametrize("seed", range(20))
def test_entries_are_compressed_as_scipy_does(seed: int) -> None:
    """Entries of one place add up, also to nothing; halves add up exactly in any order."""
    draw = np.random.default_rng(seed)
    rows, columns, entries = (int(draw.integers(1, top)) for top in (7, 7, 60))
    row, column = draw.integers(0, rows, entries), draw.integers(0, columns, entries)
    value = draw.integers(-2, 3, entries) / 2
    builder = ModelBuilder("compressed")
    builder.add_columns("x", np.arange(columns)[:, None], 1.0)
    builder.add_rows("row", np.arange(rows)[:, None], -np.inf, 1.0, [(row, column, value)])
    model = builder.build(np.zeros(columns))
    whole = np.zeros((rows, columns))
    np.add.at(whole, (row, column), value)
    known = sparse.csr_array(whole)
    np.testing.assert_array_equal(model.start, known.indptr)
    np.testing.assert_array_equal(model.index, known.indices)
    np.testing.assert_array_equal(model.value, known.data)
    x = draw.integers(-3, 4, columns).astype(np.float64)
    np.testing.assert_array_equal(model.activity(x), whole @ x)


@pytest.mark.parametrize("seed", range(20))
def test_what_rows_are_taken_from_changes_no_model(seed: int) -> None:
    """Candidates alike are looked at once (`CandidateTable.templates`); copies know no source."""
    draw = np.random.default_rng(seed)
    problem = random_round(draw, RoundSize(leaves=2, node_sets=2, mixed=0.3))
    drawn = np.sort(draw.integers(0, problem.candidates.count, 2 * problem.candidates.count))
    taken = problem.candidates.take(drawn)
    source, which = taken.templates
    assert source.count < taken.count
    np.testing.assert_array_equal(source.take(which).part_gpus, taken.part_gpus)
    for name in ("job", "iteration_s", "gpus", "side", "scope", "node_set", "strict", "mixed"):
        column = getattr(problem.candidates, name)[drawn]
        np.testing.assert_array_equal(getattr(taken, name), column)
    for at, k in enumerate(drawn.tolist()):
        rows = slice(*taken.part_start[at : at + 2].tolist())
        assert tuple(taken.part_gpus[rows].tolist()) == problem.candidates.parts(k)
        classes = taken.part_class[rows], taken.classes_of(at), problem.candidates.classes_of(k)
        assert len({tuple(own.tolist()) for own in classes}) == 1
        assert (taken.part_candidate[rows] == at).all()
        assert taken.sends(at, 3) == problem.candidates.sends(k, 3)
        np.testing.assert_array_equal(taken.demand(at, 2), problem.candidates.demand(k, 2))
    with pytest.raises(AttributeError, match="no column 'colour'"):
        taken.colour()
    both = [replace(problem, candidates=table) for table in (taken, replace(taken))]
    assert both[1].candidates.templates[0] is both[1].candidates
    level = Level("ones", "", np.ones(both[0].options.count))
    one, other = (node_pattern.build(known, level).model for known in both)
    for name in ("row_lower", "row_upper", "start", "index", "value", "column_upper"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert list(one.row_names()) == list(other.row_names())
