"""Objectives by hand: what a start, a stay and a guarantee are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.objectives import OBJECTIVES, Jct, Throughput, guarantee, kept, relative_speed
from formulations.round_problem import RoundProblem
from tests.formulations.random_rounds import random_round
from tests.formulations.rounds import Candidate, Hold, tiny


def base() -> RoundProblem:
    """Job 0 is queued, job 1 runs at half its promised speed and could start at double."""
    problem = tiny(
        [8, 8],
        [
            Candidate(0, (1,), iteration_s=4.0),
            Candidate(0, (4,), iteration_s=1.0),
            Candidate(1, (4,), iteration_s=2.0),
        ],
        holds=[Hold(1, 0, 1)],
        guaranteed=[1],
    )
    return replace(
        problem,
        jobs=replace(
            problem.jobs,
            iterations_left=np.asarray([100.0, 50.0]),
            request_iteration_s=np.asarray([2.0, 4.0]),
            stay_iteration_s=np.asarray([np.nan, 8.0]),
            restart_s=np.asarray([30.0, 60.0]),
            restart_left_s=np.asarray([0.0, 20.0]),
            weight=np.asarray([1.0, 3.0]),
        ),
        interval_s=60.0,
    )


def test_relative_speed() -> None:
    started, stayed = relative_speed(base())
    assert started.tolist() == [0.5, 2.0, 2.0]
    assert stayed.tolist() == [0.0, 0.5]


def test_a_kept_promise_counts_by_how_soon_it_is_settled_and_half_a_one_not_at_all() -> None:
    level = guarantee(base())
    np.testing.assert_allclose(level.value, [0.0, 0.0, 1 / (60 + 50 * 4.0)])
    assert level.stay_value.tolist() == [0.0, 0.0]
    quick = replace(base(), jobs=replace(base().jobs, stay_iteration_s=np.asarray([np.nan, 4.0])))
    np.testing.assert_allclose(guarantee(quick).stay_value, [0.0, 1 / (20 + 50 * 4.0)])


def test_kept_has_a_hair_of_tolerance() -> None:
    problem = base()
    table = replace(problem.candidates, iteration_s=np.asarray([2.0 * (1 + 1e-12), 2.1, 4.0]))
    assert kept(replace(problem, candidates=table))[0].tolist() == [True, False, True]


def test_throughput_amortises_the_start_up_over_the_horizon() -> None:
    (level,) = Throughput().levels(base())
    np.testing.assert_allclose(
        level.value, [0.5 * 60 / 90, 2.0 * 60 / 90, 3 * 2.0 * 60 / 120], rtol=1e-12
    )
    np.testing.assert_allclose(level.stay_value, [0.0, 3 * 0.5 * 60 / 80], rtol=1e-12)
    (longer,) = Throughput(horizon_s=600.0).levels(base())
    assert longer.value[1] == pytest.approx(2.0 * 600 / 630)


def test_jct_is_the_completion_rate() -> None:
    (level,) = Jct(restart_weight=2.0).levels(base())
    np.testing.assert_allclose(
        level.value, [1 / (60 + 400), 1 / (60 + 100), 3 / (120 + 100)], rtol=1e-12
    )
    np.testing.assert_allclose(level.stay_value, [0.0, 3 / (20 + 400)], rtol=1e-12)


def test_jct_counts_ends_within_the_round_alike() -> None:
    problem = base()
    nearly = replace(problem, jobs=replace(problem.jobs, iterations_left=np.asarray([1.0, 1.0]),
                     restart_s=np.zeros(2), restart_left_s=np.zeros(2)))  # fmt: skip
    (level,) = Jct().levels(nearly)
    np.testing.assert_allclose(level.value, [1 / 60, 1 / 60, 3 / 60])
    np.testing.assert_allclose(level.stay_value, [0.0, 3 / 60])


def test_objectives_by_name() -> None:
    assert {name: make().name for name, make in OBJECTIVES.items()} == {n: n for n in OBJECTIVES}
    for name, make in OBJECTIVES.items():
        assert [level.name for level in make().levels(base())] == [name]


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(OBJECTIVES)))
def test_values_are_finite_and_not_negative_and_queued_jobs_cannot_stay(
    seed: int, name: str
) -> None:
    problem = random_round(np.random.default_rng(seed))
    for level in (guarantee(problem), *OBJECTIVES[name]().levels(problem)):
        assert level.value.shape == (problem.candidates.count,)
        assert level.stay_value.shape == (problem.jobs.count,)
        for values in (level.value, level.stay_value):
            assert np.isfinite(values).all()
            assert (values >= 0).all()
        assert (level.stay_value[~problem.jobs.running] == 0).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(OBJECTIVES)), st.floats(1.01, 5.0))
def test_a_faster_configuration_is_never_worth_less(seed: int, name: str, factor: float) -> None:
    """What the removal of dominated candidates rests on."""
    problem = random_round(np.random.default_rng(seed))
    table = problem.candidates
    faster = replace(problem, candidates=replace(table, iteration_s=table.iteration_s / factor))
    for slow, fast in zip(
        (guarantee(problem), *OBJECTIVES[name]().levels(problem)),
        (guarantee(faster), *OBJECTIVES[name]().levels(faster)),
        strict=True,
    ):
        assert (fast.value >= slow.value * (1 - 1e-12)).all()
