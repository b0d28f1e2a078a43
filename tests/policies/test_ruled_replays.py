"""Replays of every policy under operator's rules, each decision audited by the rules as written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from morph_opt.core.domain import Allocation, Assignment, Cluster, Job, Placement, RoundState, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StrictOrder,
)
from morph_opt.scheduling.decision.rules.stranded import stranded_jobs
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import POLICIES, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import EndReason, Event, Started
from morph_opt.simulation.runs.result import ReplayResult
from tests.campaigns import TIMES, blocks
from tests.decision.rules.worlds import plain_view, sizes_in
from tests.policies.worlds import cluster, job, speeds

NAMES = sorted(name for name, spec in POLICIES.items() if spec.workers != "only")
"""Policies for jobs without workers that take turns."""

FEW = ("fifo", "srtf", "easy", "gavel:ftf", "tiresias:gittins", "kueue", "gandiva", "pollux:counts")
"""Policies of the sample: in order, by remaining work, by plan, by shares, with a memory."""

UNIFORM = ("gandiva", "pollux")
"""Families that know nodes of one type only."""


def drawn_policies(sample: int) -> list[str]:
    """Policies of a campaign: a sample in the suite, all of them in ``make oracle``."""
    return [*FEW[:sample], *NAMES * TIMES][: blocks(sample)]


TABLE = speeds(
    {
        "m": {"1": 8.0, "2": 4.0, "4": 2.0, "2+2": 2.2},
        "w": {"1": 4.0, "2": 2.5, "4": 1.5, "2 dp+gc": 3.0},
    }
)
CONFIG = ReplayConfig(
    restart_s=20.0, first_start_s=20.0, stall_rounds=200, at_stop="checkpoint", checkpoint_s=90.0
)


def nodes(name: str) -> Cluster:
    """Two nodes of four GPUs and one of two or, for some policies, of four; all with a price."""
    where = cluster(4, 4, 4 if name.partition(":")[0] in UNIFORM else 2)
    return where.with_prices({where.nodes[0].type.gpu_type.name: 1.0})


def jobs_of(draw: np.random.Generator, count: int = 9) -> Trace:
    """Jobs of two queues, three users and four priorities that come within eight minutes."""
    made: list[Job] = []
    for at in range(count):
        gpus = int(draw.choice([1, 1, 2, 4]))
        made.append(
            job(
                f"j{at:02d}",
                gpus,
                model=str(draw.choice(["m", "w"])),
                submission_s=float(draw.integers(0, 480)),
                iterations=int(draw.integers(20, 120)),
                tenant=str(draw.choice(["a", "b"])),
                user=str(draw.choice(["u", "v", "x"])),
                priority=float(draw.integers(0, 4)),
                time_limit_s=3_600.0,
            )
        )
    return Trace.of("ruled", made)


def rules_of(draw: np.random.Generator, trace: Trace, where: Cluster) -> OperatorRules:
    """Some rules of all kinds under which every job can run."""
    while True:
        found = OperatorRules((*_of_teams(draw), *_of_jobs(draw, trace)))
        if not list(stranded_jobs(found, trace.jobs, TABLE, where)):
            return found


def _of_teams(draw: np.random.Generator) -> Iterator[Rule]:
    """Quotas of one kind, limits, or none."""
    kind = int(draw.integers(5))
    if kind == 0:
        yield TenantQuota("a", int(draw.integers(0, 7)), [None, 0, 4][int(draw.integers(3))])
        yield TenantQuota("b", int(draw.integers(4, 8)), [None, 0, 2][int(draw.integers(3))])
    elif kind == 1:
        yield CohortQuota("a", float(draw.integers(2, 5)), parent="all", tenants=("a",))
        yield CohortQuota("b", 4.0, parent="all", borrow=2.0, tenants=("b",))
        yield CohortQuota("all", float(draw.integers(0, 3)))
    elif kind == 2:
        yield Queue("all", nominal={"*": 10.0})
        yield Queue("a", "all", {"*": float(draw.integers(0, 5))}, lend={"*": 1.0})
        yield Queue("b", "all", {"*": float(draw.integers(2, 5))}, borrow={"*": 4.0})
    if draw.random() < 0.4:
        yield RunningLimit("user", gpus=int(draw.integers(4, 7)))
        yield RunningLimit("queue", jobs=int(draw.integers(1, 4)), queues=("b",))


def _of_jobs(draw: np.random.Generator, trace: Trace) -> Iterator[Rule]:
    """Some rules about jobs; nothing that must stay is on a node that must be empty."""

    def some() -> tuple[str, ...]:
        return (f"j?{draw.integers(10)}", f"j?{draw.integers(10)}", f"j?{draw.integers(10)}")

    seconds = float(draw.choice([0.0, 130.0, 300.0]))
    if draw.random() < 0.5:
        yield NonPreemptible(some())
        yield PriorityClass("high", (2, 3), preemptible=False)
        yield PriorityClass("low", (0, 1), "nothing")
    else:
        yield Maintenance(("n1",), 400.0, 1_100.0, lead_s=seconds + 60.0)
        yield Priority(some(), 2)
    order = draw.permutation([one.name for one in trace.jobs])[:3].tolist()
    every = (
        MinimumRun(seconds),
        RestartLimit(int(draw.integers(1, 4))),
        NodeRule(some(), only_nodes=("n0", "n2")),
        NodeRule(some(), not_nodes=("n0",)),
        GangLimit(some(), most=2),
        StrictOrder(tuple(order)),
        NodePreference(some(), ("x2", "x4")),
    )
    yield from (rule for rule in every if draw.random() < 0.4)


class Audited(Policy):
    """A policy whose decisions are held against the rules by independent code."""

    def __init__(self, policy: Policy, rules: OperatorRules) -> None:
        self.name, self._policy, self._rules = policy.name, policy, rules

    @property
    def remembers(self) -> bool:
        return self._policy.remembers

    def observe(self, state: RoundState) -> None:
        self._policy.observe(state)

    def decide(self, state: RoundState) -> Decision:
        decision = self._policy.decide(state)
        rules, sizes = self._rules, None
        if any(isinstance(rule, TenantQuota | Queue) for rule in rules.rules):
            sizes = sizes_in(plain_view(TABLE, state, rules), state, rules).__getitem__
        found = audit(state, decision.allocation, rules, sizes)
        assert found == (), [str(one) for one in found]
        for stopped, other in stopped_by_their_class(state, decision.allocation, rules):
            assert audit(state, other, rules, sizes), f"{stopped} could stay"
        return decision


def stopped_by_their_class(
    state: RoundState, decided: Allocation, rules: OperatorRules
) -> Iterator[tuple[str, Allocation]]:
    """Running jobs that are stopped or moved though nodes could hold them, next to higher classes.

    With the decision in which they stay and no job of their class or below starts.
    """
    classes = sorted(rules.classes, key=lambda one: one.priorities)
    rank = {
        known.job.name: next((at for at, one in enumerate(classes, 1) if one.has(known.job)), 0)
        for known in state.jobs
    }
    before, after = state.held.by_job(), decided.by_job()
    for name, held in before.items():
        if not rank[name] or after.get(name) == held or state.failed & {*held.placement.nodes}:
            continue
        if name in after and _faster(after[name], held):
            continue
        others = [
            one
            for one in decided.assignments
            if one.job != name and (rank[one.job] > rank[name] or before.get(one.job) == one)
        ]
        taken = {
            (node, gpu) for one in others for node, gpus in one.placement.parts for gpu in gpus
        }
        if not any((node, gpu) in taken for node, gpus in held.placement.parts for gpu in gpus):
            yield name, Allocation((*others, held))


def _faster(there: Assignment, held: Assignment) -> bool:
    """All jobs of these replays are faster on more GPUs."""
    return there.placement.gpus > held.placement.gpus


def replayed(
    trace: Trace, where: Cluster, name: str, rules: OperatorRules, config: ReplayConfig = CONFIG
) -> ReplayResult:
    """A replay with an audit of every decision."""
    policy = make_policy(name, TABLE, PolicyOptions(rules=rules))
    if rules.rules:
        policy = Audited(policy, rules)
    return replay(trace, where, policy, TABLE, config)


@pytest.mark.parametrize(("block", "name"), [*enumerate(drawn_policies(7))])
def test_no_decision_breaks_a_rule_and_every_job_completes(block: int, name: str) -> None:
    draw, where = np.random.default_rng(block), nodes(name)
    trace = jobs_of(draw)
    found = replayed(trace, where, name, rules_of(draw, trace, where))
    assert found.history.ended.reason is EndReason.COMPLETE


LOOSE = OperatorRules((TenantQuota("a", 12), TenantQuota("b", 12), RunningLimit("user", gpus=12)))
"""Rules that nothing can break on twelve GPUs."""


@pytest.mark.parametrize(("block", "name"), [*enumerate(drawn_policies(4))])
def test_rules_that_bind_nobody_change_nothing(block: int, name: str) -> None:
    """A policy's decisions are carried out as they are: on the same nodes, in the same plans."""
    trace, where = jobs_of(np.random.default_rng(50 + block)), nodes(name)
    runs = [replayed(trace, where, name, rules) for rules in (OperatorRules(), LOOSE)]
    logs = [[_without_numbers(event) for event in run.events] for run in runs]
    assert logs[0] == logs[1]


def _without_numbers(event: Event) -> Event:
    """The event with the first GPUs of each node: those of a node are alike."""
    if not isinstance(event, Started):
        return event
    parts = {node: range(len(gpus)) for node, gpus in event.placement.parts}
    return replace(event, placement=Placement.of(parts))
