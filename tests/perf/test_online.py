"""The belief that learns."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import pytest

from benchmarks.perf.biased import BiasedModel
from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, PlanFamily, Shape, Span
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.online import OnlineModel
from morph_opt.inputs.perf.parameters import LearningParams
from morph_opt.inputs.perf.speed import Configuration

ZOO = builtin_model()
WRONG = BiasedModel(ZOO, PlanFamily.ZERO_DP, 2.0)
ROWS = ZOO.configurations("bert", A800_NODE, 8, Span.LEAF)


def seen(online: OnlineModel, *indices: int) -> OnlineModel:
    for index in indices:
        row = ROWS[index]
        span = Span.LEAF if row.shape.nodes > 1 else Span.NODE
        online.observe("bert", A800_NODE, row.shape, row.plan, span, row.iteration_s)
    return online


def zero_dp() -> list[int]:
    return [i for i, row in enumerate(ROWS) if row.plan.family is PlanFamily.ZERO_DP]


def test_online_model_without_observations_equals_its_base() -> None:
    online = OnlineModel(WRONG)
    rows = online.configurations("bert", A800_NODE, 8, Span.LEAF)
    base = WRONG.configurations("bert", A800_NODE, 8, Span.LEAF)
    assert [r.iteration_s for r in rows] == [r.iteration_s for r in base]
    assert online.name == "model[zero-dp x 2]+online"


def test_an_observed_configuration_takes_its_time_exactly() -> None:
    at = zero_dp()[0]
    online = seen(OnlineModel(WRONG), at)
    row = ROWS[at]
    assert online.iteration_s("bert", A800_NODE, row.shape, row.plan, Span.NODE) == row.iteration_s
    assert online.configurations("bert", A800_NODE, 8, Span.LEAF)[at].iteration_s == row.iteration_s
    assert online.version == 1


def test_a_wrong_family_is_mended_by_one_observation_and_others_stay() -> None:
    at = zero_dp()
    online = seen(OnlineModel(WRONG), at[0])
    after = online.configurations("bert", A800_NODE, 8, Span.LEAF)
    for index in at:
        assert after[index].iteration_s == pytest.approx(ROWS[index].iteration_s, rel=0.25)
    for index, row in enumerate(ROWS):
        if row.plan.family is not PlanFamily.ZERO_DP and row.shape != ROWS[at[0]].shape:
            assert after[index].iteration_s == row.iteration_s


def test_a_family_that_is_wrong_for_one_model_is_suspect_for_all() -> None:
    online = seen(OnlineModel(WRONG), zero_dp()[0])
    rows = online.configurations("gpt2", A800_NODE, 8, Span.LEAF)
    truth = ZOO.configurations("gpt2", A800_NODE, 8, Span.LEAF)
    for row, true in zip(rows, truth, strict=True):
        if row.plan.family is PlanFamily.ZERO_DP:
            assert true.iteration_s < row.iteration_s < 1.5 * true.iteration_s
        else:
            assert row.iteration_s == true.iteration_s


def test_small_differences_are_no_news() -> None:
    online = OnlineModel(ZOO)
    row = ROWS[0]
    where = ("bert", A800_NODE, row.shape, row.plan, Span.NODE)
    assert not online.observe(*where, 1.02 * row.iteration_s)
    assert online.version == 0
    assert online.observe(*where, 1.10 * row.iteration_s)
    assert online.iteration_s(*where) == 1.10 * row.iteration_s


def test_the_order_of_observation_changes_no_bit() -> None:
    def rows(*order: int) -> Sequence[Configuration]:
        online = seen(OnlineModel(WRONG, LearningParams(news=0.0)), *order)
        return online.configurations("bert", A800_NODE, 8, Span.LEAF)

    a, b = rows(3, 40, 70, 95), rows(95, 3, 70, 40)
    assert a == b


def test_only_the_first_observation_of_a_configuration_counts() -> None:
    at = zero_dp()[0]
    online = seen(OnlineModel(WRONG), at)
    row = ROWS[at]
    assert not online.observe("bert", A800_NODE, row.shape, row.plan, Span.NODE, 99.0)
    assert online.version == 1


def test_copies_believe_the_same() -> None:
    online = seen(OnlineModel(WRONG), 3, *zero_dp()[::7])
    want = online.configurations("bert", A800_NODE, 8, Span.LEAF)
    for twin in (pickle.loads(pickle.dumps(online)), copy.deepcopy(online)):
        assert twin.configurations("bert", A800_NODE, 8, Span.LEAF) == want


def test_plans_impossible_in_the_base_stay_impossible() -> None:
    online = seen(OnlineModel(ZOO), 3)
    plan = ExecutionPlan.parse("pp1-tp8-dp1")
    assert online.iteration_s("bert", A800_NODE, Shape.of(8), plan, Span.NODE) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_bad_times_are_refused(bad: float) -> None:
    row = ROWS[0]
    with pytest.raises(InputError, match="iteration_s"):
        OnlineModel(ZOO).observe("bert", A800_NODE, row.shape, row.plan, Span.NODE, bad)


def test_a_bias_must_be_positive() -> None:
    with pytest.raises(InputError, match="factor"):
        BiasedModel(ZOO, PlanFamily.DP, 0.0)
