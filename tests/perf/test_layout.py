"""Amounts of work and traffic, checked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import ExecutionPlan, InputError, Shape, partitions
from morph_opt.inputs.perf.analytic.layout import layout, rails


def of(shape: str, plan: str):  # type: ignore[no-untyped-def]
    return layout(Shape.parse(shape), ExecutionPlan.parse(plan))


@pytest.mark.parametrize(("gpus", "cards"), [(1, 1), (2, 1), (3, 2), (4, 2), (7, 4), (8, 4)])
def test_two_gpus_share_a_network_card(gpus: int, cards: int) -> None:
    assert rails(gpus) == cards


def test_one_gpu_sends_nothing() -> None:
    alone = of("1", "dp")
    assert (alone.work, alone.gradient_nvlink, alone.gradient_rails) == (1.0, 0.0, 0.0)


def test_a_ring_inside_a_node_uses_nvlink_only() -> None:
    node = of("8", "dp+ga")
    assert node.gradient_nvlink == pytest.approx(2 * 7 / 8)
    assert node.gradient_rails == 0.0


@pytest.mark.parametrize(("shape", "cards"), [("4+4", 2), ("6+2", 1), ("5+3", 2), ("1+1", 1)])
def test_a_ring_is_as_slow_as_its_narrowest_node(shape: str, cards: int) -> None:
    gpus = Shape.parse(shape).gpus
    assert of(shape, "dp").gradient_rails == pytest.approx(2 * (gpus - 1) / gpus / cards)


def test_only_sharded_plans_gather_and_share_the_optimizer() -> None:
    assert of("4+4", "dp").gather_rails == 0.0
    assert of("4+4", "dp").optimizer == 1.0
    assert of("4+4", "zero-dp").gather_rails == pytest.approx(1 / 2)
    assert of("8", "zero-dp").gather_nvlink == pytest.approx(7 / 8)
    assert of("4+4", "zero-offload").optimizer == pytest.approx(1 / 8)


def test_data_parallel_rings_of_3d_plans_leave_a_node_once_per_tensor_rank() -> None:
    # two stages of 16 GPUs on two nodes each; four rings of four ranks cross 4 cards per node
    plan = of("8+8+8+8", "pp2-tp4-dp4")
    assert plan.gradient_rails == pytest.approx(2 * 3 / 4 / 8 * 4 / 4)
    # nodes of 4 GPUs have 2 cards for the same rings
    assert of("4+4+4+4+4+4+4+4", "pp2-tp4-dp4").gradient_rails == pytest.approx(
        2 * plan.gradient_rails
    )


def test_stages_inside_a_node_synchronise_over_nvlink() -> None:
    plan = of("8+8+8+8+8", "pp5-tp4-dp2")
    assert plan.gradient_rails == 0.0
    assert plan.gradient_nvlink == pytest.approx(2 * 1 / 2 / 20)


def test_stages_that_straddle_nodes_pay_for_their_narrowest_part() -> None:
    # stages of 8 on nodes of 5: two rings squeeze through the single card of two GPUs
    plan = of("5+5+5+5+5+5+5+5", "pp5-tp2-dp4")
    assert plan.gradient_rails == pytest.approx(2 * 3 / 4 / 10 * 2 / 1)


def test_tensor_groups_that_straddle_nodes_use_the_network() -> None:
    assert of("8+8", "pp2-tp8-dp1").tensor_rails == 0.0
    assert of("6+6+6+6+6+6+6+6", "pp3-tp4-dp4").tensor_rails > 0.0


@pytest.mark.parametrize("shape", ["8", "4+4", "2+2+2+2", "6+2", "1"])
def test_even_shapes_and_single_nodes_do_not_stall(shape: str) -> None:
    assert of(shape, "dp").ragged == 0.0


@pytest.mark.parametrize("shape", ["1+1", "5+3", "2+2+2+1+1"])
def test_odd_parts_on_several_nodes_stall(shape: str) -> None:
    assert 0.0 < of(shape, "dp").ragged < 1.0


def test_a_3d_plan_must_fit_its_shape() -> None:
    with pytest.raises(InputError, match="needs 16 GPUs, the shape 8 has 8"):
        of("8", "pp2-tp8-dp1")


@given(st.integers(1, 12).flatmap(lambda g: st.sampled_from(partitions(g, 8))))
def test_amounts_are_finite_and_not_negative(shape: Shape) -> None:
    for plan in ("dp", "zero-dp+gc", "zero-offload"):
        amounts = of(shape.label, plan)
        for name in amounts.__slots__:
            assert 0.0 <= getattr(amounts, name) < 100.0
