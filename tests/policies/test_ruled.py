"""Baselines under the rules of a snapshot: they decide, and the rules are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from morph_opt.core.domain import InputError, RoundState
from morph_opt.round.decide import decide_round
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    Maintenance,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StartBy,
    StrictOrder,
)
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import BASELINES, resolve
from tests.policies.worlds import cluster, queued, running, speeds, state

FIXED = speeds({"m": {"1": 8.0, "2": 4.0, "4": 2.0, "8": 1.0, "4+4": 1.0}})
RIGID = ("fifo", "fifo:skip", "srtf", "tiresias:2d-las", "allox", "gandiva")


def started(before: RoundState, policy: str, *rules: Rule) -> dict[str, tuple[int, ...]]:
    """Nodes of the jobs that a policy starts; its decision keeps the rules."""
    own = OperatorRules(rules)
    decided = decide_round(Snapshot(before, FIXED, own), PolicyOptions(), policy=policy)
    allocation = decided.decision.allocation
    assert audit(before, allocation, own) == ()
    held = {known.job.name for known in before.jobs if known.running is not None}
    found = allocation.by_job()
    return {name: one.placement.nodes for name, one in found.items() if name not in held}


@pytest.mark.parametrize("policy", RIGID)
def test_the_higher_priority_starts_whoever_came_first(policy: str) -> None:
    before = state(cluster(8), queued("early", 8), queued("urgent", 8, submission_s=60.0))
    assert set(started(before, policy, Priority(("urgent",), 1))) == {"urgent"}
    assert set(started(before, policy, Priority(("early",), 1))) == {"early"}


@pytest.mark.parametrize("policy", RIGID)
def test_quotas_and_stays_are_kept_and_others_go_on(policy: str) -> None:
    """16 GPUs, 4 in use: a's 8 are beyond its quota of 6, b's 8 are not."""
    before = state(
        cluster(8, 8),
        running("r", {0: [0, 1, 2, 3]}, tenant="a"),
        queued("a", 8, tenant="a"),
        queued("b", 8, tenant="b"),
    )
    rules = (NonPreemptible(("*",)), CohortQuota("a", 6, tenants=("a",)))
    assert started(before, policy, *rules) == {"b": (1,)}


@pytest.mark.parametrize("policy", RIGID)
def test_jobs_go_to_nodes_that_they_may_use(policy: str) -> None:
    before = state(cluster(8, 8), queued("a", 4), queued("b", 4))
    rules = (NodeRule(("a",), only_nodes=("n1",)), NodeRule(("b",), only_nodes=("n1",)))
    assert started(before, policy, *rules) == {"a": (1,), "b": (1,)}


def test_a_strict_order_is_kept_where_the_first_does_not_fit() -> None:
    """The only node of the first is in use; so the second waits, too."""
    before = state(cluster(4, 8), running("r", {0: [0]}), queued("first", 4), queued("second", 2))
    rules = (NodeRule(("first",), only_nodes=("n0",)), StrictOrder(("first", "second")))
    assert started(before, "fifo:skip", *rules) == {}


def test_a_policy_keeps_its_order_on_the_nodes_that_a_rule_leaves() -> None:
    """fifo passes nobody on n0, where the first must wait; on n1 the others start."""
    jobs = queued("first", 4), queued("second", 2), queued("third", 2)
    before = state(cluster(4, 4), running("r", {0: [0, 1]}), *jobs)
    assert started(before, "fifo", NodeRule(("first",), only_nodes=("n0",))) == {
        "second": (1,), "third": (1,)
    }  # fmt: skip


def test_a_size_that_rules_never_allow_becomes_the_next_smaller_one() -> None:
    before = state(cluster(8), queued("a", 8, tenant="t"))
    decided = started(before, "fifo", TenantQuota("t", 5))
    assert decided == {"a": (0,)}


@pytest.mark.parametrize("policy", ["srtf", "tiresias:2d-las"])
def test_jobs_that_must_stay_are_not_preempted_and_others_are(policy: str) -> None:
    """Both would go for the new short job; only the one that may be stopped does."""
    old = {"iterations": 900, "done": 300.0}
    before = state(
        cluster(4, 4),
        replace(running("kept", {0: range(4)}, **old), attained_gpu_s=90_000.0),
        replace(running("free", {1: range(4)}, **old), attained_gpu_s=90_000.0),
        queued("new", 4, iterations=2),
    )
    assert started(before, policy, NonPreemptible(("kept",))) == {"new": (1,)}
    assert started(before, policy, NonPreemptible(("free",))) == {"new": (0,)}


@pytest.mark.parametrize("policy", ["srtf", "tiresias:2d-las", "milp"])
def test_a_running_job_makes_way_for_higher_classes_alone(policy: str) -> None:
    """Two long jobs run; a short one arrives."""
    old = {"iterations": 900, "done": 300.0, "priority": 1.0}
    long = replace(running("a", {0: range(4)}, **old), attained_gpu_s=90_000.0, last_start_s=0.0)
    late = replace(running("b", {1: range(4)}, **old), attained_gpu_s=90_000.0, last_start_s=60.0)

    def node(preempts: str, priority: float) -> dict[str, tuple[int, ...]]:
        classes = PriorityClass("low", (0, 9), preempts), PriorityClass("high", (10, 19))
        before = state(cluster(4, 4), long, late, queued("new", 4, iterations=2, priority=priority))
        return started(before, policy, *classes)

    assert node("lower", 1.0) == node("nothing", 1.0) == {}
    assert set(node("own", 1.0)) == set(node("lower", 10.0)) == {"new"}


def test_jobs_prefer_the_first_type_of_their_list() -> None:
    before = state(cluster(4, 8), queued("a", 2))
    first, second = (node.type.name for node in before.cluster.nodes)
    assert first != second
    for order, node in (((first, second), 0), ((second, first), 1)):
        assert started(before, "fifo", NodePreference(("a",), order)) == {"a": (node,)}


def test_what_cannot_be_put_under_rules_is_refused_by_name() -> None:
    quota = OperatorRules((TenantQuota("a", 4),))
    with pytest.raises(InputError, match=r"cannot be combined with \S*packing of policy 'gandiva'"):
        resolve("gandiva").make(FIXED, PolicyOptions(rules=quota, packing=True))
    with pytest.raises(InputError, match="start_by is a rule of policy milp only"):
        resolve("fifo").make(FIXED, PolicyOptions(rules=OperatorRules((StartBy(60.0),))))


def test_rules_that_contradict_each_other_are_named() -> None:
    before = state(cluster(4), running("r", {0: [0]}))
    rules = NonPreemptible(("r",)), Maintenance(("n0",), 0.0, 900.0)
    with pytest.raises(InputError, match=r"contradict each other .* maintenance of r, which"):
        started(before, "fifo", *rules)


ASK_MORE = {"easyscale:yarn-cs", "easyscale:homo", "easyscale:heter", "gavel:cost"}
"""Baselines that need jobs of workers, or prices."""


@pytest.mark.parametrize("policy", sorted(set(BASELINES) - ASK_MORE))
def test_every_baseline_decides_under_rules(policy: str) -> None:
    draw = np.random.default_rng(3)
    sizes = draw.choice([1, 2, 4, 8], 6).tolist()
    more = {"time_limit_s": 3_600.0} if BASELINES[policy].limits else {}
    jobs = [queued(f"q{at}", gpus, tenant="ab"[at % 2], **more) for at, gpus in enumerate(sizes)]
    before = state(cluster(8, 8), running("r", {0: [0, 1]}, tenant="a", **more), *jobs)
    rules = (
        NonPreemptible(("*",)),
        CohortQuota("a", 4, parent="all", tenants=("a",)),
        CohortQuota("b", 2, parent="all", borrow=2, tenants=("b",)),
        CohortQuota("all", 2),
        Priority(("q1", "q4"), 5),
    )
    assert "r" not in started(before, policy, *rules)
