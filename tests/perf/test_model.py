"""The analytic model as a speed model, and the zoo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import (
    A800_NODE,
    ExecutionPlan,
    GpuType,
    InputError,
    NodeType,
    PlanFamily,
    Shape,
    Span,
)
from morph_opt.inputs.perf.analytic.architecture import (
    CONSTANT_NAMES,
    PARTS,
    Architecture,
    Features,
)
from morph_opt.inputs.perf.analytic.model import AnalyticModel, constants_on
from morph_opt.inputs.perf.analytic.terms import parts_s, predict_s
from morph_opt.inputs.perf.analytic.zoo import builtin_model, zoo_on
from tests.perf.worlds import entry, pairs

MODELS = ("bert", "gpt2", "llama30", "llama7", "roberta", "t5", "vit")


def test_the_zoo_has_seven_models() -> None:
    assert tuple(builtin_model().models()) == MODELS


def test_builtin_model_and_its_configurations_are_cached() -> None:
    assert builtin_model() is builtin_model()
    first = builtin_model().configurations("bert", A800_NODE, 64, Span.LEAF)
    assert builtin_model().configurations("bert", A800_NODE, 64, Span.LEAF) is first


@pytest.mark.parametrize("model", MODELS)
def test_configurations_agree_with_single_questions(model: str) -> None:
    zoo = builtin_model()
    rows = zoo.configurations(model, A800_NODE, 64, Span.LEAF)
    assert rows
    for row in rows:
        span = Span.LEAF if row.shape.nodes > 1 else Span.NODE
        assert zoo.iteration_s(model, A800_NODE, row.shape, row.plan, span) == row.iteration_s
        assert AnalyticModel([zoo.entry(model)]).iteration_s(
            model, A800_NODE, row.shape, row.plan, span
        ) == pytest.approx(row.iteration_s)


@pytest.mark.parametrize("model", MODELS)
def test_a_wider_span_is_never_faster(model: str) -> None:
    zoo = builtin_model()
    near = zoo.configurations(model, A800_NODE, 64, Span.LEAF)
    far = zoo.configurations(model, A800_NODE, 64, Span.POD)
    for a, b in zip(near, far, strict=True):
        assert (a.shape, a.plan) == (b.shape, b.plan)
        assert b.iteration_s >= a.iteration_s
        assert (b.iteration_s > a.iteration_s) == (a.shape.nodes > 1 and a != b)


@pytest.mark.parametrize("model", MODELS)
def test_no_plan_changes_the_global_batch(model: str) -> None:
    batch = entry(model).architecture.global_batch
    for row in builtin_model().configurations(model, A800_NODE, 64, Span.LEAF):
        ranks = row.plan.dp if row.plan.family is PlanFamily.THREE_D else row.shape.gpus
        assert batch % ranks == 0


def test_models_run_only_what_fits() -> None:
    zoo = builtin_model()
    dp = ExecutionPlan.parse("dp+ga")
    assert zoo.iteration_s("llama7", A800_NODE, Shape.of(8), dp, Span.NODE) is None
    families = {r.plan.family for r in zoo.configurations("llama30", A800_NODE, 64, Span.LEAF)}
    assert families == {PlanFamily.THREE_D}
    assert {r.plan.tp for r in zoo.configurations("gpt2", A800_NODE, 5, Span.LEAF)} == {0, 1, 5}
    assert zoo.iteration_s("bert", A800_NODE, Shape.of(9), dp, Span.NODE) is None


def test_side_demands_are_held_where_they_arise() -> None:
    rows = builtin_model().configurations("llama7", A800_NODE, 64, Span.LEAF)
    for row in rows:
        offloads = row.plan.family is PlanFamily.ZERO_OFFLOAD
        assert (row.side.host_memory_gib > 0) == offloads
        if row.shape.nodes == 1:
            assert row.side.rdma_gb_per_s == 0.0
        assert row.side.rdma_gb_per_s * row.shape.parts[0] <= A800_NODE.rdma_gb_per_s
    alone = next(row for row in rows if row.shape == Shape.of(1))
    parameters = entry("llama7").architecture.parameters
    assert alone.side.host_memory_gib == pytest.approx(16 * parameters / 2**30)


def test_unknown_gpus_run_nothing_unless_told_how_fast() -> None:
    other = NodeType("h", GpuType("H100-80GB", 80.0), 8, 96, 1600.0, 900.0, 400.0)
    assert builtin_model().configurations("bert", other, 8, Span.LEAF) == ()
    faster = zoo_on({"H100-80GB": 2.5}).configurations("bert", other, 8, Span.LEAF)
    assert (
        faster[0].iteration_s
        < builtin_model().configurations("bert", A800_NODE, 8, Span.LEAF)[0].iteration_s
    )


def test_constants_move_with_the_bandwidth_of_the_node() -> None:
    known = entry().constants
    at = CONSTANT_NAMES.index("rail_gb_per_s")
    half = NodeType("half", A800_NODE.gpu_type, 8, 96, 1600.0, 400.0, 50.0)
    assert constants_on(known, half, Span.LEAF)[at] == pytest.approx(known.rail_gb_per_s / 2)
    assert constants_on(known, A800_NODE, Span.LEAF)[at] == pytest.approx(known.rail_gb_per_s)
    assert constants_on(known, A800_NODE, Span.NVLINK)[at] == pytest.approx(known.nvlink_gb_per_s)


def test_names_occur_once() -> None:
    with pytest.raises(InputError, match="'bert' occurs twice"):
        AnalyticModel([entry(), entry()])
    with pytest.raises(InputError, match="no entries"):
        AnalyticModel([])
    with pytest.raises(InputError, match="unknown model 'bart'"):
        builtin_model().configurations("bart", A800_NODE, 8, Span.LEAF)


def test_architecture_refuses_nonsense() -> None:
    with pytest.raises(InputError, match=r"architecture\.layers"):
        Architecture("x", 10, 0, 1, 1, 1, 1)


SHORTEN = {"overlap", "zero_overlap", "launch_overlap", "ring_power", "rail_power"}
LARGE = {"three_d_compute", "tensor_gb_per_s", "hop_s", "swap_s"}


@pytest.mark.parametrize("name", CONSTANT_NAMES)
def test_every_constant_matters_and_in_the_right_direction(name: str) -> None:
    known = entry("llama7" if name in LARGE else "gpt2")
    features = Features.of(pairs(known.architecture.name, 64))
    base = predict_s(known.architecture, known.constants.vector(), features)
    more = replace(known.constants, **{name: 1.3 * getattr(known.constants, name)}).vector()
    change = predict_s(known.architecture, more, features) - base
    if name == "forward_share":
        # moves compute from one pass to the other, and with it what gradients hide behind
        assert (np.abs(change) > 0).any()
        return
    # a faster link and more overlap shorten, everything else lengthens an iteration
    sign = -1.0 if name.endswith("gb_per_s") or name in SHORTEN else 1.0
    assert (sign * change >= -1e-12).all()
    assert (sign * change > 0).any()


@pytest.mark.parametrize("model", MODELS)
def test_parts_are_positive_and_sum_up(model: str) -> None:
    known = entry(model)
    features = Features.of(pairs(model, 64))
    parts = parts_s(known.architecture, known.constants.vector(), features)
    assert parts.shape == (len(PARTS), len(features))
    assert (parts >= -1e-12).all()
    total = predict_s(known.architecture, known.constants.vector(), features)
    assert np.allclose(parts.sum(axis=0), total)


@given(st.sampled_from(pairs("bert")), st.floats(0.5, 2.0))
def test_times_scale_with_all_times_of_the_constants(pair, factor: float) -> None:  # type: ignore[no-untyped-def]
    known = entry()
    scaled = known.constants.vector().copy()
    for index, name in enumerate(CONSTANT_NAMES):
        if name.endswith("gb_per_s"):
            scaled[index] /= factor
        elif name.endswith("_s"):
            scaled[index] *= factor
    features = Features.of([pair])
    base = predict_s(known.architecture, known.constants.vector(), features)
    assert np.allclose(predict_s(known.architecture, scaled, features), factor * base)
