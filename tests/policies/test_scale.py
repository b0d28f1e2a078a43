"""All times in another unit: every completion time follows, but for rules with times of their own.

Iteration times, submissions, deadlines, restarts, rounds and checkpoints are multiplied by a power
of two, which rounds nothing. Replays at the two ends of the range, half a million apart, then cross
whatever second stands in a rule.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    GpuType,
    Job,
    JobState,
    Node,
    RoundState,
    Shape,
    Trace,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.catalog import PolicySpec
from morph_opt.scheduling.policies.malleable import pollux_rule
from morph_opt.scheduling.policies.malleable.pollux_rule import Budget
from morph_opt.scheduling.policies.objectives.share_book import ShareBook
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES, PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from tests.policies.worlds import DP, job

SHORT, LONG = 1.0 / 512, 1024.0
"""Units of time, seconds: iterations of 3.4 ms to 39 ms, and of half an hour to almost six."""

SECONDS = {
    "m": {"1": 8.0, "2": 4.5, "4": 2.5, "4+4": 1.75},
    "w": {"2": 8.25, "4": 5.0},
    "x": {"1": 20.0},
}
"""On the faster type; the other takes one and a half times as long, and ``x`` runs on no other."""

KINDS = tuple(
    replace(A800_NODE, name=name, gpus=4, gpu_type=GpuType(name, 80.0, price_per_hour=price))
    for name, price in (("fast", 3.0), ("slow", 1.0))
)

World = tuple[Trace, Cluster, SpeedModel]


def gangs(unit_s: float, *, mixed: bool) -> World:
    """Seven jobs of three models and two tenants on four nodes, of two types or of one."""
    kinds = KINDS if mixed else KINDS[:1]
    table = MeasuredTable(
        Measurement(model, kind.gpu_type.name, Shape.parse(shape), DP, time * slower * unit_s)
        for model, times in SECONDS.items()
        for shape, time in times.items()
        for kind, slower in zip(kinds, (1.0, 1.5), strict=False)
        if model != "x" or kind is kinds[0]
    )
    nodes = tuple(Node(f"n{i}", kinds[i % len(kinds)]) for i in range(4))
    rows = [
        # model, GPUs, submission, iterations, deadline
        ("m", 1, 0.0, 60, None), ("w", 4, 30.0, 100, 2500.0), ("x", 1, 70.0, 30, None),
        ("m", 4, 200.0, 150, None), ("w", 2, 260.0, 100, None), ("m", 2, 300.0, 200, 2000.0),
        ("m", 1, 330.0, 150, None),
    ]  # fmt: skip
    jobs = [
        job(
            f"j{i}",
            gpus,
            model=model,
            submission_s=at * unit_s,
            iterations=work,
            tenant=f"t{i % 2}",
            deadline_s=None if until is None else until * unit_s,
        )
        for i, (model, gpus, at, work, until) in enumerate(rows)
    ]
    return Trace.of("gangs", jobs), Cluster("toy", nodes), table


def workers(unit_s: float) -> World:
    """Four jobs whose workers take turns on GPUs of one type or of two; times of whole 0.1 us."""
    table = ElasticTable({"m": {"V100": str(0.512 * unit_s), "P100": str(1.28 * unit_s)}})
    jobs = [
        Job(
            f"j{i}",
            "m",
            100.0 * i * unit_s,
            400 + 200 * i,
            4,
            ExecutionPlan.ests(4, ("d1", "d2")[i % 2], "V100"),
        )
        for i in range(4)
    ]
    return Trace.of("workers", jobs), load_cluster("1x4:V100+1x4:P100"), table


def completion_times(spec: PolicySpec[object], unit_s: float) -> list[float]:
    """Of every job in units of time; infinite of one that never completes."""
    if spec.workers == "only":
        trace, cluster, truth = workers(unit_s)
    else:
        # Pollux' fitness knows nothing of types.
        trace, cluster, truth = gangs(unit_s, mixed=not spec.name.startswith("pollux"))
    config = ReplayConfig(
        interval_s=64.0 * unit_s,
        restart_s=32.0 * unit_s,
        checkpoint_s=1800.0 * unit_s,
        stall_rounds=100,
    )
    name, options = spec.name, PolicyOptions()
    if OBJECTIVES.get(name) is spec:
        name, options = "milp", PolicyOptions(objective=name, time_limit_s=600.0)
    if spec.limits:
        limit_s = 1e6 * unit_s
        trace = trace.of_jobs(replace(job, time_limit_s=limit_s) for job in trace.jobs)
    done = replay(trace, cluster, make_policy(name, truth, options), truth, config)
    found = [record.turnaround_s for record in done.history.jobs]
    return [math.inf if time_s is None else time_s / unit_s for time_s in found]


def test_fair_finishes_follow_the_unit() -> None:
    """Also where they are less than a second."""
    found = []
    for unit_s in (SHORT / 4, LONG):
        trace, cluster, truth = gangs(unit_s, mixed=True)
        jobs = tuple(JobState(job) for job in trace.jobs[:3])
        book = ShareBook(truth, "fairness")
        book.observe(RoundState(2, 128.0 * unit_s, 64.0 * unit_s, cluster, jobs))
        found.append(book.fair_finish_s / unit_s)
    assert found[0].min() * SHORT / 4 < 1.0
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize(
    "spec",
    [spec for spec in (*POLICIES.values(), *OBJECTIVES.values()) if spec.name != "milp"],
    ids=lambda spec: f"{'policy' if POLICIES.get(spec.name) is spec else 'objective'}-{spec.name}",
)
def test_the_unit_of_time_is_not_seen(
    spec: PolicySpec[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever says that its rule has times of its own shows them here as well."""
    monkeypatch.setattr(pollux_rule, "Budget", partial(Budget, population=8, generations=4))
    short, long = completion_times(spec, SHORT), completion_times(spec, LONG)
    if spec.own_times:
        assert long != pytest.approx(short, rel=1e-9), "no time of its own is seen: scale-free?"
        return
    assert math.inf not in short
    assert long == pytest.approx(short, rel=1e-9)
