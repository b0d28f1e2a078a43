"""The measured table: exact look-up, filters, and refusals."""

from __future__ import annotations

import pytest

from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, NodeType, Shape, Span
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement

GPU = A800_NODE.gpu_type.name
SMALL_NODE = NodeType("small", A800_NODE.gpu_type, 4, 48, 800.0, 400.0, 50.0)


def row(shape: str, plan: str, seconds: float, model: str = "bert") -> Measurement:
    return Measurement(model, GPU, Shape.parse(shape), ExecutionPlan.parse(plan), seconds)


ROWS = [
    row("8", "dp+ga", 0.5),
    row("4+4", "dp+ga", 0.7),
    row("8+8", "pp2-tp8-dp1", 0.9),
    row("1", "zero-dp", 2.0, "vit"),
]
TABLE = MeasuredTable(ROWS)


def seconds(shape: str, plan: str, node: NodeType = A800_NODE, span: Span = Span.LEAF) -> object:
    return TABLE.iteration_s("bert", node, Shape.parse(shape), ExecutionPlan.parse(plan), span)


def test_a_measured_configuration_has_its_time_on_every_span() -> None:
    assert TABLE.name == "table"
    assert TABLE.models() == ("bert", "vit")
    assert [seconds("4+4", "dp+ga", span=span) for span in (Span.LEAF, Span.POD)] == [0.7, 0.7]


@pytest.mark.parametrize(("shape", "plan"), [("5+3", "dp+ga"), ("8", "dp+gc")])
def test_unmeasured_configurations_cannot_run(shape: str, plan: str) -> None:
    assert seconds(shape, plan) is None


def test_configurations_keep_the_order_and_respect_node_size_and_gpu_count() -> None:
    def shapes(node: NodeType, gpus: int) -> list[str]:
        return [c.shape.label for c in TABLE.configurations("bert", node, gpus, Span.LEAF)]

    assert shapes(A800_NODE, 64) == ["8", "4+4", "8+8"]
    assert shapes(A800_NODE, 8) == ["8", "4+4"]
    assert shapes(SMALL_NODE, 64) == ["4+4"]
    assert seconds("8", "dp+ga", SMALL_NODE) is None


def test_configurations_are_cached() -> None:
    first = TABLE.configurations("bert", A800_NODE, 64, Span.LEAF)
    assert TABLE.configurations("bert", A800_NODE, 64, Span.POD) is first


def test_other_gpu_types_have_no_configurations() -> None:
    other = NodeType("other", type(A800_NODE.gpu_type)("V100", 16.0), 8, 96, 800.0, 300.0, 50.0)
    assert TABLE.configurations("bert", other, 64, Span.LEAF) == ()


def test_a_configuration_measured_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"bert on A800-80GB with dp\+ga on 8 occurs twice"):
        MeasuredTable([*ROWS, row("8", "dp+ga", 0.6)])


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        MeasuredTable([])


def test_an_unknown_model_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown model 'bart'.*bert, vit"):
        TABLE.configurations("bart", A800_NODE, 64, Span.LEAF)
    with pytest.raises(InputError, match="unknown model 'bart'"):
        TABLE.iteration_s("bart", A800_NODE, Shape.of(1), ExecutionPlan.parse("dp"), Span.NODE)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_times_must_be_positive_and_finite(bad: float) -> None:
    with pytest.raises(InputError, match="iteration_s"):
        row("8", "dp", bad)


def test_a_3d_plan_must_fit_its_shape() -> None:
    with pytest.raises(InputError, match="needs 64 GPUs, the shape has 16"):
        row("8+8", "pp8-tp4-dp2", 1.0)
