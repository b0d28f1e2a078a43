"""The twins alone: fixed by their seed, possible on the default cluster, as many as published."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import (
    A800_NODE,
    ExecutionPlan,
    InputError,
    NodeType,
    Shape,
    Span,
    default_cluster,
)
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.traces.requested import RequestedSpeeds
from morph_opt.inputs.traces.twins.morphling import TWINS, twin
from morph_opt.inputs.traces.twins.sampling import assign, match_total, stratified
from morph_opt.inputs.traces.twins.stats import load_stats
from morph_opt.simulation.metrics.bounds.demands import why_impossible

SHA256 = {
    "base": "477ef3be1be78f96a63dcefb661be4c906394f1bc6be388b4c9917378e8d35f0",
    "bp": "e210d1f7200cbc8c7aada5acb1331fde2f77504b831c5a43d6041d93b1e3806e",
    "mt": "2ec59a13e6c8ad4ee39109c6a40df9a3bc9f433d1f1336ce463a645f831f4879",
    "naive": "076e7aa381362c964c18a3e500654efa34d969ece36a0dc4e544f56ec4b70655",
}
"""Digests of the fixed twins under `UnitSpeeds`: they pin the generator and its statistics, and do
not move with the constants of the built-in model."""


class UnitSpeeds:
    """Every requested plan takes a tenth of a second per iteration on packed nodes."""

    name = "unit"

    def models(self) -> list[str]:
        """Models of the twins."""
        return sorted({cell.model for cell in load_stats()[0]["base"].cells})

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """A tenth of a second."""
        del model, node_type, shape, plan, span
        return 0.1

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> list[Configuration]:
        """Packed shapes of ``max_gpus`` GPUs with every plan that a twin may request."""
        del model, span
        stats, variants = load_stats()
        plans = {ExecutionPlan.parse(cell.plan) for cell in stats["base"].cells}
        plans |= {plan for choice in variants.free_plans.values() for plan in choice}
        whole, rest = divmod(max_gpus, node_type.gpus)
        shape = Shape.of(*[node_type.gpus] * whole, *([rest] if rest else []))
        return [Configuration(shape, p, 0.1) for p in sorted(plans) if p.gpus in (None, max_gpus)]


SPAN_S = {"base": 47_550.0, "bp": 47_550.0, "mt": 47_550.0, "naive": 5_586.0}
JOBS = {"base": 406, "bp": 406, "mt": 406, "naive": 10}


@pytest.mark.parametrize("name", TWINS)
def test_default_member_is_pinned(name: str) -> None:
    assert twin(name, speeds=UnitSpeeds()).sha256 == SHA256[name]


@pytest.mark.parametrize("name", TWINS)
def test_seed_decides(name: str) -> None:
    assert twin(name, seed=5) == twin(name, seed=5)
    assert twin(name, seed=5).sha256 != twin(name, seed=6).sha256


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", TWINS)
def test_counts_span_and_names(name: str, seed: int) -> None:
    trace = twin(name, seed=seed)
    assert len(trace.jobs) == JOBS[name]
    assert trace.jobs[0].submission_s == 0.0
    assert trace.jobs[-1].submission_s == SPAN_S[name]
    assert all(job.submission_s == int(job.submission_s) for job in trace.jobs)
    assert [job.name for job in trace.jobs] == [f"{j.model}-{i}" for i, j in enumerate(trace.jobs)]
    assert sum(job.guaranteed for job in trace.jobs) == (194 if name == "mt" else 0)
    assert f"(seed {seed}), not the original" in trace.description


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", TWINS)
def test_every_request_is_possible_on_the_default_cluster(name: str, seed: int) -> None:
    truth, cluster = builtin_model(), default_cluster()
    steps = RequestedSpeeds(truth)
    trace = twin(name, seed=seed)
    for job in trace.jobs:
        assert steps.iteration_s(job.model, job.requested_gpus, job.requested_plan) > 0.0
        assert job.requested_gpus <= cluster.gpus
        assert job.cpus_per_gpu * A800_NODE.gpus <= A800_NODE.cpus
    one_of_each = {job.model: job for job in trace.jobs}.values()
    assert all(why_impossible(job, truth, cluster) is None for job in one_of_each)


@pytest.mark.parametrize("seed", range(5))
def test_total_work_is_calibrated_for_every_seed(seed: int) -> None:
    steps = RequestedSpeeds(builtin_model())
    stats, variants = load_stats()
    base = sum(map(steps.gpu_hours, twin("base", seed=seed).jobs))
    assert base == pytest.approx(sum(c.gpu_hours for c in stats["base"].cells), rel=0.02)
    bp = sum(map(steps.gpu_hours, twin("bp", seed=seed).jobs))
    assert bp == pytest.approx(variants.free_plans_gpu_hours, rel=0.05)
    guaranteed = [job for job in twin("mt", seed=seed).jobs if job.guaranteed]
    hours = sum(map(steps.gpu_hours, guaranteed))
    assert hours == pytest.approx(variants.guaranteed_gpu_hours, rel=0.05)


def test_bp_and_mt_are_base_with_other_plans_and_guarantees() -> None:
    base, bp, mt = twin("base").jobs, twin("bp").jobs, twin("mt").jobs
    pairs = zip(base, bp, strict=True)
    assert all(replace(b, requested_plan=a.requested_plan) == a for a, b in pairs)
    assert tuple(replace(m, guaranteed=False) for m in mt) == base
    assert bp != base


def test_twin_needs_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)
    assert twin("base").jobs


def test_unknown_twin() -> None:
    with pytest.raises(InputError, match="unknown twin 'best'; known are base, bp, mt, naive"):
        twin("best")


@given(count=st.integers(1, 60), seed=st.integers(0, 1000))
def test_stratified_has_one_draw_per_stratum(count: int, seed: int) -> None:
    levels, values = (0.0, 0.5, 1.0), (0.01, 1.0, 100.0)
    drawn = stratified(levels, values, count, np.random.default_rng(seed))
    cdf = np.interp(np.log(drawn), np.log(values), levels)
    assert (np.floor(np.clip(cdf * count + 1e-9, 0, count - 1e-9)) == np.arange(count)).all()


@given(count=st.integers(4, 60), total=st.floats(1.0, 100.0))
def test_match_total_moves_only_the_tail(count: int, total: float) -> None:
    values = np.linspace(0.001, 0.01, count)
    matched = match_total(values, total)
    assert matched.sum() == pytest.approx(total)
    assert (matched[: count // 2] == values[: count // 2]).all()


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_deal_fills_every_bin_to_its_count(sizes: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = np.array(sizes).T
    kinds = np.repeat([0, 1], counts.sum(axis=1))
    values = rng.lognormal(size=len(kinds))
    totals = rng.random(len(sizes)).tolist()
    bins = assign(values, counts, totals, rng, kinds)
    for kind in (0, 1):
        spread = np.bincount(bins[kinds == kind], minlength=len(sizes))
        assert (spread == counts[kind]).all()
