"""The polytope of target shares: what is refused, and each rule of the checker."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fairness.kernel import raise_model
from formulations.shares.model import slo_model, value_model
from formulations.shares.problem import (
    PairTable,
    ShareProblem,
    check_shares,
    equal_share_rates,
    isolated_rates,
    isolated_shares,
)

TWO = ShareProblem(np.array([[2.0, 1.0], [3.0, 1.0]]), np.array([1, 2]), np.array([2.0, 1.0]))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"throughput": np.array([[1.0, -1.0], [1.0, 1.0]])}, "at least 0"),
        ({"throughput": np.array([[1.0, np.nan], [1.0, 1.0]])}, "finite"),
        ({"throughput": np.ones((3, 2))}, "must match"),
        ({"gang": np.array([0, 1])}, "job 0: gang"),
        ({"gang": np.array([1, 9])}, "job 1: a gang of 9 is larger than every type"),
        ({"capacity": np.array([-1.0, 2.0])}, "capacity"),
        ({"throughput": np.array([[0.0, 0.0], [1.0, 1.0]])}, "job 0: throughput is 0"),
        ({"throughput": np.array([[1.0, 1.0], [0.0, 1.0]])}, "job 1: throughput is 0"),
        ({"pairs": PairTable(np.array([0]), np.array([1]), np.ones((1, 3, 2)))}, "pairs"),
    ],
)
def test_bad_problems_are_refused_with_job_and_rule(change, rule):
    whole = {
        "throughput": TWO.throughput,
        "gang": TWO.gang,
        "capacity": TWO.capacity,
    } | change
    with pytest.raises(ValueError, match=rule):
        ShareProblem(**whole)


def test_a_gang_larger_than_a_type_has_no_share_there_unless_asked_for():
    assert TWO.allowed.tolist() == [[True, True], [True, False]]
    loose = ShareProblem(TWO.throughput, TWO.gang, TWO.capacity, oversize=True)
    assert loose.allowed.all()


@pytest.mark.parametrize(
    ("shares", "rule"),
    [
        ([[0.5, 0.5], [0.75, 0.0]], None),
        ([[-0.1, 0.0], [0.0, 0.0]], "nonnegative"),
        ([[0.0, 0.0], [0.0, 0.1]], "allowed: job 1"),
        ([[0.7, 0.4], [0.0, 0.0]], "time: job 0"),
        ([[0.1, 0.0], [1.0, 0.0]], "capacity: type 0"),
    ],
)
def test_every_rule_of_the_checker_has_a_case(shares, rule):
    if rule is None:
        check_shares(TWO, np.array(shares))
        return
    with pytest.raises(ValueError, match=rule):
        check_shares(TWO, np.array(shares))


def test_pairs_count_for_the_time_of_both_jobs_and_once_for_capacity():
    problem = ShareProblem(
        np.ones((2, 1)),
        np.array([1, 1]),
        np.array([1.0]),
        pairs=PairTable(np.array([0]), np.array([1]), np.full((1, 1, 2), 0.8)),
    )
    check_shares(problem, np.zeros((2, 1)), np.ones((1, 1)))
    assert problem.rates(np.zeros((2, 1)), np.ones((1, 1))).tolist() == [0.8, 0.8]
    with pytest.raises(ValueError, match="time: job 0"):
        check_shares(problem, np.array([[0.1], [0.0]]), np.ones((1, 1)))
    none = PairTable(np.array([0]), np.array([1]), np.zeros((1, 1, 2)))
    blocked = ShareProblem(np.ones((2, 1)), np.array([1, 1]), np.array([1.0]), pairs=none)
    with pytest.raises(ValueError, match="allowed: a pair"):
        check_shares(blocked, np.zeros((2, 1)), np.ones((1, 1)))


def test_normalisers_by_hand():
    assert equal_share_rates(TWO) == pytest.approx([5 / 3, 7 / 3])
    # job 0: 2/2 + 1/2 = 1.5 is scaled to 1; job 1: 2/4 of its time, no type b holds its 2 GPUs.
    assert isolated_shares(TWO) == pytest.approx(np.array([[2 / 3, 1 / 3], [0.5, 0.0]]))
    assert isolated_rates(TWO) == pytest.approx([5 / 3, 1.5])
    large = replace(TWO, oversize=True)
    assert isolated_shares(large)[1] == pytest.approx([0.5, 0.25])
    assert isolated_rates(large) == pytest.approx([5 / 3, 1.75])


def test_rows_and_columns_carry_the_words_of_the_page():
    model = raise_model(TWO, np.zeros(2), np.ones(2)).model
    assert list(model.row_names()) == [
        "time[0]",
        "time[1]",
        "capacity[0]",
        "capacity[1]",
        "share[0]",
        "share[1]",
    ]
    assert list(model.column_names()) == ["x[0,0]", "x[0,1]", "x[1,0]", "t"]
    floor = np.array([0.0, 1.0])
    assert list(value_model(TWO, np.ones((2, 2)), floor).model.row_names())[-1] == "slo[1]"
    assert list(slo_model(TWO, floor).model.column_names())[-1] == "keep[1]"
