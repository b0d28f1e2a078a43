"""Memory of plans: formulas by hand, the public measurements, and words for what does not fit."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import A800_NODE, GPU_TYPES, ExecutionPlan, InputError, NodeType, Shape
from morph_opt.inputs.perf.analytic.architecture import Architecture
from morph_opt.inputs.perf.memory.facts import ModelFacts, facts_of, published_facts
from morph_opt.inputs.perf.memory.plan import (
    FRAMEWORK_GIB,
    Degrees,
    fits,
    judge,
    memory_columns,
    plan_memory,
    tensor_group,
)
from morph_opt.inputs.traces.morphling import plan_of

GIB = 2.0**30
P = ExecutionPlan.parse
FACTS = published_facts()

# 10 layers with f = 4h: 12h^2 = 120,000 parameters each, embeddings of 200 x 100 on top.
TOY = ModelFacts(Architecture("toy", 1_220_000, 10, 100, 50, 8, 5), 200)


def memory(plan: str, shape: str, facts: ModelFacts = TOY, micro: int | None = None) -> object:
    return plan_memory(facts, P(plan), Shape.parse(shape), micro_batch=micro)


def test_training_state_is_sixteen_bytes_per_parameter_split_as_zero_says() -> None:
    count = TOY.architecture.parameters
    plain, sharded, offload = (
        plan_memory(TOY, P(plan), Shape.parse("4")) for plan in ("dp+ga", "zero-dp", "zero-offload")
    )
    assert plain.parameters_gib * GIB == pytest.approx(2 * count)
    assert plain.gradients_gib * GIB == pytest.approx(2 * count)
    assert plain.optimizer_gib * GIB == pytest.approx(12 * count)
    assert sharded.parameters_gib == plain.parameters_gib
    assert sharded.gradients_gib == pytest.approx(plain.gradients_gib / 4)
    assert sharded.optimizer_gib == pytest.approx(plain.optimizer_gib / 4)
    assert (offload.gradients_gib, offload.optimizer_gib) == (0.0, 0.0)
    assert offload.host_gib_per_gpu * GIB == pytest.approx(16 * count / 4)
    assert (plain.host_gib_per_gpu, sharded.host_gib_per_gpu) == (0.0, 0.0)


def test_a_layer_keeps_34_sbh_plus_5_as2b_and_checkpointing_2_sbh() -> None:
    s, h, a, layers = 50, 100, 5, 10
    head = 4 * s * (h + 200)
    layer = 34 * s * h + 5 * a * s * s
    full = plan_memory(TOY, P("dp+ga"), Shape.parse("1"))
    assert full.activations_gib * GIB == pytest.approx(layers * layer + head)
    short = plan_memory(TOY, P("dp+ga+gc"), Shape.parse("1"))
    assert short.activations_gib * GIB == pytest.approx(layers * 2 * s * h + layer + head)


def test_tensor_parallelism_shards_24_of_34_and_the_scores() -> None:
    s, h, a, t = 50, 100, 5, 4
    layer = s * h * (10 + 24 / t) + 5 * a * s * s / t
    found = plan_memory(TOY, P("pp1-tp4-dp1"), Shape.parse("4"))
    assert found.activations_gib * GIB == pytest.approx(10 * layer + 4 * s * (h + 200 / t))
    assert found.parameters_gib * GIB == pytest.approx(2 * 1_220_000 / t)


def test_the_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    s, h, a = 50, 100, 5
    layer = 34 * s * h + 5 * a * s * s
    found = plan_memory(TOY, P("pp2-tp1-dp1"), Shape.parse("2"))
    assert found.activations_gib * GIB == pytest.approx(2 * (5 * layer + s * h))
    assert found.parameters_gib * GIB == pytest.approx(2 * (5 * 120_000 + 20_000))
    # one sample per rank: nothing to fill the pipeline with, the last stage is the fuller one
    single = plan_memory(TOY, P("pp2-tp1-dp8"), Shape.parse("8+8"))
    assert single.activations_gib * GIB == pytest.approx(5 * layer + 4 * s * (h + 200))


def test_plain_data_parallelism_passes_its_share_at_once_unless_it_accumulates() -> None:
    assert plan_memory(TOY, P("dp"), Shape.parse("2")).micro_batch == 4
    assert plan_memory(TOY, P("dp+gc"), Shape.parse("8")).micro_batch == 1
    assert {
        plan_memory(TOY, P(plan), Shape.parse("2")).micro_batch
        for plan in ("dp+ga", "zero-dp", "zero-offload+gc", "pp2-tp1-dp1")
    } == {1}
    assert plan_memory(TOY, P("dp+ga"), Shape.parse("2"), micro_batch=3).micro_batch == 3


def test_parts_add_up_and_are_listed_largest_first() -> None:
    found = plan_memory(FACTS["llama7"], P("dp"), Shape.parse("8"))
    assert found.gpu_gib == pytest.approx(sum(found.parts().values()))
    assert list(found.parts().values()) == sorted(found.parts().values(), reverse=True)
    assert found.parts()["framework"] == FRAMEWORK_GIB


def test_layers_are_as_wide_as_their_parameters_say() -> None:
    assert TOY.feed_forward == pytest.approx(400.0)
    # a gated block of width 11008 (LLaMA-7B) has the parameters of a plain one of 3/2 the width
    assert FACTS["llama7"].feed_forward == pytest.approx(1.5 * 11008, rel=1e-3)
    for name in ("bert", "gpt2", "roberta", "vit"):
        facts = FACTS[name]
        assert facts.feed_forward == pytest.approx(4 * facts.architecture.hidden, rel=0.02)


DEGREES = st.sampled_from([1, 2, 4, 8])


@given(pp=DEGREES, tp=DEGREES, dp=DEGREES, gc=st.booleans())
def test_columns_and_single_plans_agree_and_sharding_never_costs_state(
    pp: int, tp: int, dp: int, gc: bool
) -> None:
    flags = "+gc" if gc else ""
    plans = [P(f"pp{pp}-tp{tp}-dp{dp}{flags}"), P(f"zero-dp{flags}"), P(f"zero-offload{flags}")]
    gpus = [pp * tp * dp, dp, dp]
    columns = memory_columns(TOY, Degrees.of(TOY.architecture, plans, gpus))
    state = ("parameters_gib", "gradients_gib", "optimizer_gib")
    for row, (plan, count) in enumerate(zip(plans, gpus, strict=True)):
        single = plan_memory(TOY, plan, Shape((count,)))
        for name, column in columns.items():
            assert column[row] == getattr(single, name)
    whole = plan_memory(TOY, P("dp"), Shape((1,)))
    for name in state:
        assert np.all(columns[name] <= getattr(whole, name))


def test_a_micro_batch_must_be_positive_and_a_3d_plan_have_its_gpus() -> None:
    with pytest.raises(InputError, match="micro_batch: must be at least 1"):
        memory("dp+ga", "1", micro=0)
    with pytest.raises(InputError, match="needs 2 GPUs, the shape 4 has 4"):
        memory("pp2-tp1-dp1", "4")


def test_facts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="do not fill 10 layers"):
        ModelFacts(TOY.architecture, 12_000)


# ---------------------------------------------------------------- words


def why(model: str, plan: str, shape: str, node: NodeType = A800_NODE) -> str | None:
    return fits(FACTS[model], P(plan), Shape.parse(shape), node)


@pytest.mark.parametrize(
    ("model", "plan", "shape", "words"),
    [
        ("llama7", "dp", "8", r"needs 1\d\d\.\d GiB per GPU \(75\.3 optimizer state, .*has 80$"),
        ("llama7", "dp+ga+gc", "8", r"GiB per GPU \(75\.3 optimizer state, .*has 80$"),
        ("llama30", "zero-dp", "4", r"90\.9 optimizer state.* 60\.6 parameters, 15\.1 gradients"),
        ("llama30", "zero-dp+gc", "4", "per GPU"),
        ("llama30", "zero-dp", "8", "cannot divide the global batch of 4 over 8 data-parallel"),
        ("llama7", "pp40-tp1-dp1", "8+8+8+8+8", "40 pipeline stages, the model has 32 layers"),
        ("gpt2", "dp", "16", "needs 16 GPUs on a node, a800-80gb-x8 has 8"),
        ("gpt2", "pp2-tp2-dp2", "4", "needs 8 GPUs, the shape has 4"),
    ],
)
def test_memory_refusals_name_the_missing_amount(
    model: str, plan: str, shape: str, words: str
) -> None:
    reason = why(model, plan, shape)
    assert reason is not None
    assert re.search(words, reason), reason


def test_host_memory_bounds_offloading() -> None:
    small = NodeType("small-host", A800_NODE.gpu_type, 8, 96, 96.0, 400.0, 100.0)
    assert why("llama7", "zero-offload", "1") is None
    assert why("llama7", "zero-offload", "1", small) == (
        "needs 100.4 GiB of host memory on a node for offloaded optimizer state and "
        "gradients, small-host has 96"
    )
    # two nodes share the state, so that each holds half of it
    assert why("llama7", "zero-offload", "1+1", small) is None


def test_a_smaller_gpu_refuses_what_a_larger_one_runs() -> None:
    v100 = NodeType("v100", GPU_TYPES["V100"], 8, 96, 480.0, 300.0, 12.5)
    assert why("gpt2", "dp+ga", "8") is None
    assert "the V100 has 16" in str(why("gpt2", "dp+ga", "8", v100))
    assert why("bert", "dp+ga", "8", v100) is None


@pytest.mark.parametrize(
    ("plan", "shape", "inside"),
    [
        ("pp1-tp8-dp1", "8", True),
        ("pp1-tp4-dp2", "4+4", True),
        ("pp1-tp8-dp2", "4+4+4+4", False),
        ("pp3-tp4-dp4", "6+6+6+6+6+6+6+6", False),
        ("pp2-tp1-dp1", "1+1", True),
        ("zero-dp", "1+1", True),
        ("pp1-tp4-dp2", "6+2", False),
    ],
)
def test_tensor_parallel_groups_stay_in_their_node(plan: str, shape: str, inside: bool) -> None:
    reason = tensor_group(P(plan), Shape.parse(shape))
    assert (reason is None) is inside
    assert tensor_group(P(plan), Shape.parse(shape), nvlink_domain=True) is None


# ---------------------------------------------------------------- public measurements

# Rows that the artifact lists with a time of 0, and what this model says of each; the second is
# about where the ranks lie and the third about the batch, neither about memory.
ZERO_ROWS = {
    ("llama7b_bsz16", "111", "1"): "GiB per GPU",
    ("llama7b_bsz16", "182", "4444"): "tensor-parallel groups of 8 GPUs",
    ("llama7b_bsz16", "zero-offload+gc", "8888"): "cannot divide the global batch of 16 over 32",
}
# Measured although their tensor-parallel groups leave the node.
STRADDLING = {
    ("llama30", "344", "66666666"),
    ("llama30", "642", "66666666"),
    ("llama30", "524", "55555555"),
}


def public_rows(data: Path) -> Iterator[tuple[str, str, str, float]]:
    for file in sorted((data / "morphling/simulator/traces").glob("*/placements.csv")):
        with file.open(encoding="utf-8-sig", newline="") as lines:
            for row in csv.DictReader(lines):
                yield file.parent.name, row["exec_plan"], row["placement"], float(row["iter_time"])


def test_every_public_measurement_fits_and_every_zero_row_is_refused(public_data: Path) -> None:
    zero, straddling, measured = set(), set(), 0
    for model, label, placement, seconds in public_rows(public_data):
        shape = Shape.of(*map(int, placement))
        plan = plan_of(label, shape.gpus)
        facts = facts_of(model)
        assert facts is not None, model
        reason = judge(facts, plan, shape, A800_NODE).reason
        outside = tensor_group(plan, shape)
        key = (model, label, placement)
        if seconds > 0.0:
            measured += 1
            assert reason is None, (key, reason)
            if outside:
                straddling.add(key)
        else:
            zero.add(key)
            assert ZERO_ROWS[key] in f"{reason} {outside}", (key, reason, outside)
    assert measured > 500
    assert zero == set(ZERO_ROWS)
    assert straddling == STRADDLING


def test_threads_in_a_model_name_do_not_change_its_memory() -> None:
    assert facts_of("llama7b_bsz16@4cpu") is FACTS["llama7b_bsz16"]
    assert facts_of("mine") is None
