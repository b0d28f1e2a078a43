"""A pair for every operator's rule: from the rule as it is written to the rows that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from formulations import node_pattern
from morph_opt.core.domain import JobState, RoundState
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.rules.compile import apply_rules
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
from morph_opt.scheduling.decision.rules.organisation import Queue, RunningLimit
from morph_opt.scheduling.decision.rules.queues import CohortQuota, StrictOrder
from tests.formulations.worlds.pairs import Pair, Wanted
from tests.formulations.worlds.rounds import plain_level
from tests.policies.worlds import LINEAR, cluster, queued, running, state

NOW_S = 180.0
"""When the rounds of `tests.policies.worlds.state` begin."""


def _ruled(
    before: RoundState, rules: Sequence[Rule], *want: tuple[int, int]
) -> Callable[[], Wanted]:
    """A want of pairs (job, GPUs); 0 GPUs: the job stays."""

    def make() -> Wanted:
        view = apply_rules(
            CandidateBuilder(LINEAR).view(before), before, OperatorRules(tuple(rules))
        )
        table = view.problem.candidates
        starts = [
            next(k for k in range(table.count) if (table.job[k], table.gpus[k]) == (job, gpus))
            for job, gpus in want
            if gpus
        ]
        built = node_pattern.build(view.problem, plain_level(view.problem))
        return Wanted(built, tuple(starts), tuple(job for job, gpus in want if not gpus))

    return make


def _pair(
    before: RoundState, rules: Sequence[Rule], passes: tuple[int, int], forbids: tuple[int, int]
) -> Pair:
    return Pair(_ruled(before, rules, passes), _ruled(before, rules, forbids))


def _old(last_start_s: float) -> JobState:
    """Runs on two GPUs of the first node since then, and was restarted once before that."""
    return replace(
        running("old", {0: [0, 1]}),
        first_start_s=0.0,
        last_start_s=last_start_s,
        recent_starts_s=(100.0, last_start_s),
    )


_OLD = state(cluster(8, 8), _old(NOW_S - 50.0))
_MINE = queued("a", 8, tenant="mine")
_TREE = (CohortQuota("q", 2, parent="all", borrow=2, tenants=("mine",)), CohortQuota("all", 4))
_QUEUES = (
    Queue("all", nominal={"*": 8}),
    Queue("mine", "all", {"*": 2}, borrow={"*": 2}),
    Queue("theirs", "all", {"*": 6}, lend={"*": 3}),
)
_NO_A = GangLimit(("a",), least=99)
_BOTH = state(cluster(8, 8), queued("a", 2), queued("b", 2))
_QUOTAS = (TenantQuota("mine", 2, borrow_gpus=None), TenantQuota("theirs", 4))

RULE_PAIRS: dict[str, Pair] = {
    "rules.quota": _pair(state(cluster(8), _MINE), [TenantQuota("mine", 4)], (0, 4), (0, 8)),
    "rules.borrow": Pair(  # what its owner has a job for cannot be borrowed
        _ruled(state(cluster(8), _MINE), _QUOTAS, (0, 4)),
        _ruled(state(cluster(8), _MINE, queued("b", 8, tenant="theirs")), _QUOTAS, (0, 4)),
    ),
    "rules.cohort_quota": _pair(state(cluster(8), _MINE), _TREE, (0, 4), (0, 8)),
    "rules.queue": _pair(state(cluster(8), _MINE), _QUEUES, (0, 4), (0, 8)),
    "rules.limit": _pair(state(cluster(8), _MINE), [RunningLimit("user", gpus=4)], (0, 4), (0, 8)),
    "rules.strict_order": Pair(
        _ruled(_BOTH, [StrictOrder(("a", "b"))], (0, 2), (1, 2)),
        _ruled(replace(_BOTH, jobs=_BOTH.jobs), [StrictOrder(("a", "b")), _NO_A], (1, 2)),
    ),
    "rules.minimum_run": _pair(_OLD, [MinimumRun(60.0)], (0, 0), (0, 4)),
    "rules.no_preemption": _pair(_OLD, [NonPreemptible(("o*",))], (0, 0), (0, 4)),
    "rules.restart_limit": _pair(_OLD, [RestartLimit(2)], (0, 0), (0, 4)),
    "rules.node_rule": _pair(_OLD, [NodeRule(("*",), not_nodes=("n0",))], (0, 4), (0, 0)),
    "rules.gang_limit": _pair(_OLD, [GangLimit(("*",), most=2)], (0, 2), (0, 4)),
    "rules.maintenance": _pair(_OLD, [Maintenance(("n0",), NOW_S, 999.0)], (0, 4), (0, 0)),
}
