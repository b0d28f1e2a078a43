"""Of two waiting jobs of equal value the earlier one is served, by every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from morph_opt.core.domain import Allocation, JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import pair_speeds
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN
from morph_opt.inputs.perf.tables.gavel import GavelTable, GavelThroughputs
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import RoundMethod
from morph_opt.scheduling.decision.params import CoreParams, LadderParams
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.rules.model import GangLimit, OperatorRules, TenantQuota
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_policy
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits
from tests.policies.worlds import (
    LINEAR,
    FakeSolver,
    cluster,
    counts,
    job,
    queued,
    random_world,
    running,
    speeds,
    state,
)

SOLVER = HighsSolver()
NO_TABLES = LadderParams(small=0, core=CoreParams(additions=0))
STEPS: dict[str, RoundMethod] = {
    "tables": Ladder(SOLVER),
    "search": Ladder(SOLVER, LadderParams(core=CoreParams(partial_choices=40))),
    "prices": Ladder(SOLVER, replace(NO_TABLES, shaped_gap=np.inf, exact_columns=0)),
    "slots": Ladder(SOLVER, replace(NO_TABLES, exact_gap=np.inf, shaped_gap=0.0)),
    "exact": ExactMip(SOLVER),
    "named nodes": ExactMip(SOLVER, "node_assignment"),
    "fallback": ExactMip(FakeSolver("nothing")),
}
LIMITS = Limits(gap=1e-6, time_s=600.0)


def decided(
    method: str, before: RoundState, objective: str = "jct", rules: OperatorRules | None = None
) -> Allocation:
    """Return the decision of a method."""
    poser = RoundPoser(LINEAR, OBJECTIVES[objective](), rules)
    policy = MilpPolicy(poser, STEPS[method], LIMITS, ties_by_arrival=True)
    return policy.decide(before).allocation


def arrived(known: JobState, at_s: float) -> JobState:
    """Return the job as one that arrived at another time."""
    return replace(known, job=replace(known.job, submission_s=at_s))


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("objective", ["jct", "throughput"])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_earlier_of_equal_jobs_starts(method: str, objective: str, names: str) -> None:
    """One node of four, half of it taken: one of three equal jobs of two GPUs starts."""
    first, last = names
    jobs = [
        running("old", {0: [0, 1]}, done=99.0),
        arrived(queued(last, 2), 60.0),
        arrived(queued("c", 2), 20.0),
        arrived(queued(first, 2), 10.0),
    ]
    limit = OperatorRules((GangLimit(("*",), least=2, most=2),))
    found = counts(decided(method, state(cluster(4), *jobs), objective, limit))
    assert found == {"old": 2, first: 2}


@pytest.mark.parametrize("method", STEPS)
def test_the_earlier_of_equal_jobs_has_more(method: str) -> None:
    """Three GPUs for two equal jobs: whatever is chosen, the earlier has no fewer."""
    before = state(cluster(2, 1), arrived(queued("b", 1), 0.0), arrived(queued("a", 1), 60.0))
    found = counts(decided(method, before))
    assert found.get("b", 0) >= found.get("a", 0)


def test_at_the_same_time_the_name_decides() -> None:
    before = state(cluster(1), queued("b"), queued("a"))
    assert set(counts(decided("tables", before))) == {"a"}


def test_a_rule_that_names_the_earlier_is_kept() -> None:
    """The earlier may not hold a single GPU, so it does not take the place of the later."""
    before = state(cluster(1), queued("a"), arrived(queued("b"), 60.0))
    rules = OperatorRules((GangLimit(("a",), least=2),))
    assert set(counts(decided("tables", before, rules=rules))) == {"b"}


def test_jobs_that_differ_are_no_tie() -> None:
    """The later job is worth more under `jct`: it has less to do."""
    short = replace(queued("b"), job=job("b", 1, iterations=10, submission_s=60.0))
    assert set(counts(decided("tables", state(cluster(1), queued("a"), short)))) == {"b"}


@pytest.mark.parametrize("method", ["tables", "prices", "slots", "exact"])
@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_the_input_changes_nothing(method: str, seed: int) -> None:
    """With every job twice, the copy two minutes later: no copy starts before its original."""
    draw = np.random.default_rng((seed, 72))
    belief, before = random_world(draw)
    copies = [
        arrived(replace(known, job=replace(known.job, name=f"copy-{known.job.name}")), 110.0)
        for known in before.jobs
        if known.running is None
    ]
    jobs = [*before.jobs, *copies]
    poser = RoundPoser(belief, OBJECTIVES["jct"]())
    policy = MilpPolicy(poser, STEPS[method], LIMITS).with_ties_by_arrival()
    found = []
    for _ in range(3):
        shuffled = tuple(jobs[at] for at in draw.permutation(len(jobs)).tolist())
        found.append(policy.decide(replace(before, jobs=shuffled)).allocation)
    assert found[0] == found[1] == found[2]
    served = counts(found[0])
    for known in copies:
        assert served.get(known.job.name, 0) <= 0 or known.job.name.removeprefix("copy-") in served


TIMES = {"1": 8.0, "2": 4.0, "4": 2.0}
MODELS = speeds({"m": TIMES, "w": dict(reversed(TIMES.items()))})
"""Two models of equal speed, whose rows are listed in different orders."""


def served(
    objective: str, *jobs: JobState, rules: Sequence[object] = (), gpus: int = 4, nodes: int = 1
) -> list[str]:
    """Return the jobs that start on equal nodes, which no order of the input changes."""
    options = PolicyOptions(objective=objective, rules=OperatorRules(tuple(rules)))  # type: ignore[arg-type]
    policy = make_policy("milp", MODELS, options)
    assert isinstance(policy, MilpPolicy)
    policy = policy.with_ties_by_arrival()
    one, other = (
        sorted(counts(policy.decide(state(cluster(*[gpus] * nodes), *order)).allocation))
        for order in (jobs, jobs[::-1])
    )
    assert one == other
    return one


GANG = GangLimit(("*",), least=4)


@pytest.mark.parametrize("objective", ["jct", "throughput", "auto"])
@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("tenants", ["xy", "yx"])
@pytest.mark.parametrize("models", ["mm", "mw", "wm"])
def test_the_earlier_starts_whatever_its_tenant_and_model(
    objective: str, names: str, tenants: str, models: str
) -> None:
    early, late = (
        queued(name, 4, model=model, tenant=tenant, submission_s=at)
        for name, tenant, model, at in zip(names, tenants, models, (10.0, 60.0), strict=True)
    )
    assert served(objective, early, late, rules=[GANG]) == [names[0]]


@pytest.mark.parametrize("objective", ["jct", "throughput", "auto"])
@pytest.mark.parametrize("tenants", ["xy", "yx"])
def test_the_earlier_borrows_from_the_cohort(objective: str, tenants: str) -> None:
    early, late = (
        queued(name, 4, tenant=tenant, submission_s=at)
        for name, tenant, at in zip("ba", tenants, (10.0, 60.0), strict=True)
    )
    rules = [
        GANG,
        CohortQuota("all", 4),
        CohortQuota("left", 0, parent="all", tenants=("x",)),
        CohortQuota("right", 0, parent="all", tenants=("y",)),
    ]
    assert served(objective, early, late, rules=rules, gpus=8) == ["b"]


@pytest.mark.parametrize("objective", ["jct", "throughput", "auto"])
def test_a_spent_quota_of_the_earlier_keeps_the_later(objective: str) -> None:
    """The first may not start; of the others, of two tenants more, the earlier one does."""
    jobs = [
        queued(name, 4, tenant=name, submission_s=at)
        for name, at in (("c", 10.0), ("b", 20.0), ("a", 60.0))
    ]
    rules = [GANG, TenantQuota("c", 0)]
    assert served(objective, *jobs, rules=rules) == ["b"]


@pytest.mark.parametrize("objective", ["jct", "throughput"])
def test_many_jobs_start_by_arrival_within_their_quotas(objective: str) -> None:
    """Of 240 equal jobs of four tenants 32 fit: the first that the quotas admit."""
    jobs = [
        queued(
            f"j{at:03}", 4, tenant=f"t{at % 4}", model="mw"[at % 3 == 0], submission_s=240.0 - at
        )
        for at in range(240)
    ]
    rules = [GANG, TenantQuota("t0", 0), TenantQuota("t1", 12), TenantQuota("t2", 400)]
    left, first = {"t0": 0, "t1": 3, "t2": 100, "t3": 100}, []
    for known in reversed(jobs):
        if left[known.job.tenant] and len(first) < 32:
            left[known.job.tenant] -= 1
            first.append(known.job.name)
    assert served(objective, *jobs, rules=rules, gpus=8, nodes=16) == sorted(first)


def test_equal_value_of_different_work_is_a_tie() -> None:
    """By speed alone, the job with more work left is worth as much as the other."""
    early = queued("b", 4, iterations=3700, submission_s=10.0)
    late = queued("a", 4, iterations=3600, submission_s=60.0)
    assert served("throughput", early, late, rules=[GANG]) == ["b"]
    assert served("jct", early, late, rules=[GANG]) == ["a"]


A, B, C = ("A", 1), ("B", 1), ("C", 1)
PAIRED = GavelTable(
    GavelThroughputs(
        alone={"v100": dict.fromkeys((A, B, C), 10.0)},
        spread={},
        paired={"v100": {(A, B): (8.0, 6.0)}},
    )
)


@pytest.mark.parametrize(
    ("jobs", "gpus", "served"),
    [("z:A y:A x:B", 1, "xz"), ("z:C y:C x:A w:B", 2, "wxz"), ("x:B z:A y:A w:A", 1, "xz")],
)
def test_the_earlier_starts_where_jobs_may_share(jobs: str, gpus: int, served: str) -> None:
    """Alone or with a partner: of equal jobs, listed by arrival, the later ones wait."""
    waiting = [
        queued(name, model=f"{kind} x1", requested_plan=RIGID_PLAN, submission_s=at)
        for at, (name, kind) in enumerate(one.split(":") for one in jobs.split())
    ]
    poser = RoundPoser(PAIRED, OBJECTIVES["throughput"](), None, pair_speeds(PAIRED))
    policy = MilpPolicy(poser, ExactMip(SOLVER), LIMITS, ties_by_arrival=True)
    where = load_cluster(f"1x{gpus}:V100")
    for order in (waiting, waiting[::-1]):
        found = policy.decide(RoundState(3, 180.0, 60.0, where, tuple(order))).allocation
        assert sorted(counts(found)) == list(served)
