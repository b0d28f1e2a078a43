"""The memory filter: what it withholds, what it adds, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import A800_NODE, ExecutionPlan, NodeType, Shape, SideDemand, Span
from morph_opt.inputs.perf.cli import main
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement

GPU = A800_NODE.gpu_type.name


def row(model: str, plan: str, shape: str, side: SideDemand | None = None) -> Measurement:
    label, gpus = ExecutionPlan.parse(plan), Shape.parse(shape)
    return Measurement(model, GPU, gpus, label, 1.0, side or SideDemand())


TABLE = MeasuredTable(
    [
        row("llama7", "dp+ga", "8"),
        row("llama7", "zero-offload", "4"),
        row("llama7", "pp1-tp8-dp1", "4+4"),
        row("llama7", "pp1-tp8-dp1", "8"),
        row("mine", "dp", "8"),
        row("mine", "zero-offload", "8"),
    ]
)
SIEVE = MemoryFilter(TABLE)


def offered(model: str, sieve: MemoryFilter = SIEVE, span: Span = Span.LEAF) -> list[str]:
    rows = sieve.configurations(model, A800_NODE, 64, span)
    return [f"{r.plan} {r.shape}" for r in rows]


def test_only_plans_that_fit_are_offered_with_a_time() -> None:
    assert offered("llama7") == ["zero-offload 4", "pp1-tp8-dp1 8"]
    dp, offload = ExecutionPlan.parse("dp+ga"), ExecutionPlan.parse("zero-offload")
    assert SIEVE.iteration_s("llama7", A800_NODE, Shape((8,)), dp, Span.NODE) is None
    assert SIEVE.iteration_s("llama7", A800_NODE, Shape((4,)), offload, Span.NODE) == 1.0
    assert SIEVE.iteration_s("llama7", A800_NODE, Shape((2,)), offload, Span.NODE) is None
    assert (SIEVE.name, SIEVE.models()) == (TABLE.name, TABLE.models())


def test_tensor_groups_may_cross_nodes_inside_a_domain_or_by_choice() -> None:
    assert "pp1-tp8-dp1 4+4" in offered("llama7", span=Span.NVLINK)
    assert "pp1-tp8-dp1 4+4" in offered("llama7", MemoryFilter(TABLE, tensor_inside_nvlink=False))


def test_configurations_are_cached() -> None:
    first = SIEVE.configurations("llama7", A800_NODE, 64, Span.LEAF)
    assert SIEVE.configurations("llama7", A800_NODE, 64, Span.LEAF) is first


def test_offloading_holds_host_memory() -> None:
    found = SIEVE.configurations("llama7", A800_NODE, 64, Span.LEAF)
    assert [r.side.host_memory_gib for r in found] == [pytest.approx(25.1, abs=0.05), 0.0]


def test_a_host_demand_of_the_speed_model_is_kept() -> None:
    known = SideDemand(cpus=2, host_memory_gib=7.0)
    sieve = MemoryFilter(MeasuredTable([row("llama7", "zero-offload", "4", known)]))
    assert sieve.configurations("llama7", A800_NODE, 64, Span.LEAF)[0].side == known


def test_models_without_facts_pass_and_are_named() -> None:
    assert SIEVE.unjudged == ("mine",)
    assert offered("mine") == ["dp 8", "zero-offload 8"]


def test_refusals_of_rows_and_unoffered_plans_have_a_reason() -> None:
    refusals = SIEVE.refusals("llama7", A800_NODE)
    said = {f"{r.plan} {r.shape}": r.reason for r in refusals}
    assert [f"{r.plan} {r.shape}" for r in refusals[:2]] == ["dp+ga 8", "pp1-tp8-dp1 4+4"]
    assert "optimizer state" in said["dp 8"]
    assert "leave their NVLink domain" in said["pp1-tp8-dp1 4+4"]
    assert "zero-offload 4" not in said
    assert {r.shape.gpus for r in refusals} == {1, 2, 4, 8}
    assert SIEVE.refusals("mine", A800_NODE) == []


def test_no_refusal_is_offered_and_every_withheld_row_is_refused() -> None:
    tiny = NodeType("tiny-host", A800_NODE.gpu_type, 8, 96, 50.0, 400.0, 100.0)
    for node in (A800_NODE, tiny, replace(tiny, name="half", gpus=4)):
        refused = {(r.shape, r.plan) for r in SIEVE.refusals("llama7", node)}
        kept = {(r.shape, r.plan) for r in SIEVE.configurations("llama7", node, 64, Span.LEAF)}
        rows = {(r.shape, r.plan) for r in TABLE.configurations("llama7", node, 64, Span.LEAF)}
        assert not refused & kept
        assert rows == kept | (refused & rows)


def test_the_command_tells_parts_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "llama7", "zero-offload", "1"]) == 0
    out = capsys.readouterr().out
    assert "on the host, per GPU     100.4 GiB" in out
    assert out.endswith("fits\n")
    assert main(["memory", "llama7", "pp1-tp8-dp2", "4+4+4+4", "--gpu", "V100"]) == 0
    assert capsys.readouterr().out.count("cannot run: ") == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nope", "dp", "8"], "error: argument MODEL: invalid choice: 'nope' (choose from bert"),
        (["bert", "dq", "8"], "error: plan: unknown plan 'dq'"),
        (["bert", "dp", "0"], "error: shape: must look like"),
        (
            ["bert", "pp2-tp4-dp1", "4"],
            "error: shape: plan pp2-tp4-dp1 needs 8 GPUs, the shape 4 has",
        ),
        (["bert", "dp", "8", "--gpu", "B52"], "error: argument --gpu: invalid choice: 'B52'"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(error)
    assert captured.err.count("\n") == 1
