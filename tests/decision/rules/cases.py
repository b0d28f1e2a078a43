"""One case per rule: a tiny round, a decision that keeps the rule and several that break it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from morph_opt.core.domain import Allocation, Assignment, JobState, Placement, RoundState
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.queues import CohortQuota, StrictOrder
from tests.policies.worlds import DP, GC, GPU, cluster, queued, running, state

NOW_S = 180.0
Grants = dict[str, dict[int, list[int]]]


@dataclass(frozen=True)
class Case:
    """A round with its rules.

    Parameters
    ----------
    word
        The rule's word.
    subject
        Job or tenant that a breach names.
    good
        Decisions that keep the rules: GPUs by node and job.
    bad
        Decisions that break this rule alone.
    """

    word: str
    subject: str
    before: RoundState
    rules: tuple[Rule, ...]
    good: tuple[Grants, ...]
    bad: tuple[Grants, ...]


def allocation(before: RoundState, grants: Grants) -> Allocation:
    """The decision that gives these GPUs; a job that holds the same ones already stays."""
    held = {known.job.name: known.running for known in before.jobs}
    found: list[Assignment] = []
    for name, parts in grants.items():
        old, placement = held[name], Placement.of(parts)
        stays = old is not None and old.placement == placement
        found.append(old if stays and old is not None else Assignment(name, DP, placement))
    return Allocation(tuple(found))


def _old(ran_s: float, restarts: tuple[float, ...] = ()) -> JobState:
    start_s = NOW_S - ran_s
    known = running("old", {0: [0, 1]})
    return replace(
        known, first_start_s=0.0, last_start_s=start_s, recent_starts_s=restarts, starts=2
    )


TWO = cluster(8, 8)
_STAY: Grants = {"old": {0: [0, 1]}}
_ELSEWHERE: Grants = {"old": {1: [0, 1]}}
_LARGER: Grants = {"old": {0: [0, 1, 2, 3]}}
_OTHER_GPUS: Grants = {"old": {0: [4, 5]}}
_MOVES = (_ELSEWHERE, _LARGER, _OTHER_GPUS)
_MINE, _OURS = queued("a", 8, tenant="mine"), queued("c", 8, tenant="mine")
_THEIRS = queued("b", 2, tenant="theirs")
_POOL = (TenantQuota("mine", 2, borrow_gpus=None), TenantQuota("theirs", 4))
_AGAIN = replace(
    queued("old", 2), first_start_s=0.0, last_start_s=60.0, recent_starts_s=(60.0, 120.0)
)

CASES: dict[str, Case] = {
    "quota": Case(
        "quota",
        "mine",
        state(TWO, _MINE, _OURS),
        (TenantQuota("mine", 4),),
        ({}, {"a": {0: [0, 1, 2, 3]}}, {"a": {0: [0, 1]}, "c": {1: [0, 1]}}),
        (
            {"a": {0: list(range(8))}},
            {"a": {0: [0, 1, 2, 3]}, "c": {0: [4]}},
            {"a": {0: [0, 1, 2, 3]}, "c": {1: [0, 1]}},
        ),
    ),
    "quota with a limit on borrowing": Case(
        "quota",
        "mine",
        state(TWO, _MINE),
        (TenantQuota("mine", 2, borrow_gpus=2), TenantQuota("theirs", 8)),
        ({"a": {0: [0, 1, 2, 3]}},),
        ({"a": {0: list(range(8))}},),
    ),
    "quota of a running job": Case(
        "quota",
        "default",
        state(TWO, _old(100.0), queued("new", 4)),
        (TenantQuota("default", 4),),
        (_STAY, {**_STAY, "new": {1: [0, 1]}}, {"new": {1: [0, 1, 2, 3]}}),
        ({**_STAY, "new": {1: [0, 1, 2, 3]}},),
    ),
    "borrow": Case(
        "borrow",
        "mine",
        state(TWO, _MINE, _THEIRS),
        _POOL,
        # One job on eight GPUs could use all that its owner has: nothing is lent.
        ({"a": {0: [0, 1]}}, {"a": {0: [0]}, "b": {1: [0, 1, 2, 3]}}),
        ({"a": {0: [0, 1, 2, 3]}}, {"a": {0: [0, 1, 2, 3]}, "b": {1: [0, 1, 2, 3]}}),
    ),
    "borrow where the owner is away": Case(
        "borrow",
        "mine",
        state(TWO, _MINE, _OURS),
        _POOL,
        ({"a": {0: [0, 1, 2, 3]}, "c": {1: [0, 1]}},),
        ({"a": {0: list(range(8))}}, {"a": {0: [0, 1, 2, 3]}, "c": {1: [0, 1, 2, 3]}}),
    ),
    "cohort_quota": Case(
        "cohort_quota",
        "a",
        state(TWO, _MINE, _THEIRS),
        # Mine has 2 and borrows at most 1 of what theirs lends, which is 2 of its 4.
        (
            CohortQuota("mine", 2, parent="all", borrow=1, tenants=("mine",)),
            CohortQuota("theirs", 4, parent="all", lend=2, tenants=("theirs",)),
            CohortQuota("all", 0),
        ),
        ({"a": {0: [0, 1]}, "b": {1: [0, 1, 2, 3]}}, {"a": {0: [0, 1]}}, {"b": {0: [0, 1, 2, 3]}}),
        ({"a": {0: [0, 1, 2, 3]}}, {"a": {0: list(range(8))}}),
    ),
    "cohort_quota of a root": Case(
        "cohort_quota",
        "b",
        state(TWO, _MINE, _THEIRS),
        (
            CohortQuota("mine", 2, parent="all", tenants=("mine",)),
            CohortQuota("theirs", 0, parent="all", tenants=("theirs",)),
            CohortQuota("all", 3),
        ),
        ({"a": {0: [0, 1, 2, 3]}}, {"a": {0: [0, 1]}, "b": {1: [0, 1]}}),
        ({"a": {0: [0, 1]}, "b": {1: [0, 1, 2, 3]}}, {"b": {0: list(range(8))}}),
    ),
    "cohort_quota of a running job and of others": Case(
        "cohort_quota",
        "new",
        state(TWO, _old(100.0), queued("new", 4)),
        # The job that runs must stay and is beyond the limit with what others use.
        (
            NonPreemptible(("old",)),
            CohortQuota("q", 4, tenants=("default",), used=3),
        ),
        (_STAY,),
        ({**_STAY, "new": {1: [0, 1]}}, {**_STAY, "new": {1: [0]}}),
    ),
    "cohort_quota by amounts": Case(
        "cohort_quota",
        "b",
        state(TWO, _MINE, _THEIRS),
        (
            CohortQuota(
                "q", 10, "cpu", tenants=("mine", "theirs"), jobs=("a", "b"), amounts=(6.0, 5.0)
            ),
        ),
        ({"a": {0: list(range(8))}}, {"b": {0: [0, 1]}}),
        ({"a": {0: [0]}, "b": {1: [0]}},),
    ),
    "queue that borrows what nobody wants": Case(
        "queue",
        "mine",
        state(TWO, _MINE),
        (
            Queue("all", nominal={"*": 8}),
            Queue("mine", "all", {"*": 2}, borrow={"*": 2}),
            Queue("theirs", "all", {"*": 6}),
        ),
        ({}, {"a": {0: [0, 1]}}, {"a": {0: [0, 1, 2, 3]}}),
        ({"a": {0: list(range(8))}},),
    ),
    "queue whose owner has a job": Case(
        "queue",
        "all",
        state(TWO, queued("a", 8, tenant="all.left.mine"), _THEIRS),
        (
            Queue("all", nominal={GPU: 6}),
            Queue("left", "all"),
            Queue("mine", "left", {GPU: 2}),
            Queue("theirs", "all", {GPU: 4}),
        ),
        ({"a": {0: [0, 1]}, "b": {1: [0, 1, 2, 3]}}, {"b": {1: [0, 1, 2, 3]}}),
        ({"a": {0: [0, 1, 2, 3]}}, {"a": {0: [0, 1, 2, 3]}, "b": {1: [0, 1]}}),
    ),
    "queue that lends a part": Case(
        "queue",
        "all",
        state(TWO, _MINE),
        (
            Queue("all", nominal={"*": 8}),
            Queue("mine", "all", {"*": 2}),
            Queue("theirs", "all", {"*": 6}, lend={GPU: 9, "*": 2}),
        ),
        ({"a": {0: [0, 1, 2, 3]}},),
        ({"a": {0: list(range(8))}},),
    ),
    "queue of a job that must stay": Case(
        "queue",
        "all",
        state(TWO, _old(1e5), _THEIRS),
        (
            NonPreemptible(("old",)),
            Queue("all", nominal={"*": 1}),
            Queue("default", "all"),
            Queue("theirs", "all", {"*": 1}),
        ),
        (_STAY, {**_STAY, "b": {1: [0]}}),
        ({**_STAY, "b": {1: [0, 1]}},),
    ),
    "limit of a user": Case(
        "limit",
        "user ann",
        state(TWO, queued("a", 8, user="ann"), queued("b", 2, user="ann"), queued("c", 2)),
        (RunningLimit("user", gpus=4, users=("a*",)),),
        ({"a": {0: [0, 1, 2, 3]}, "c": {1: list(range(8))}}, {"a": {0: [0, 1]}, "b": {0: [2, 3]}}),
        ({"a": {0: list(range(8))}}, {"a": {0: [0, 1, 2, 3]}, "b": {1: [0]}}),
    ),
    "limit of jobs in a queue and below it": Case(
        "limit",
        "queue all",
        state(TWO, _MINE, _OURS, _THEIRS),
        (
            Queue("all", nominal={"*": 16}),
            Queue("mine", "all", {"*": 16}),
            RunningLimit("queue", jobs=1, queues=("all",)),
        ),
        ({"a": {0: [0, 1]}, "b": {1: [0]}}, {"c": {0: [0]}}),
        ({"a": {0: [0]}, "c": {0: [1]}},),
    ),
    "limit of each job": Case(
        "limit",
        "job a",
        state(TWO, queued("a", 8, qos="small"), queued("b", 8)),
        (RunningLimit("job", gpus=2, qos=("small",), gpu_types=(GPU,)),),
        ({"a": {0: [0, 1]}, "b": {1: list(range(8))}},),
        ({"a": {0: [0, 1, 2, 3]}},),
    ),
    "class that is not preempted": Case(
        "no_preemption",
        "old",
        state(TWO, _old(1e5)),
        (PriorityClass("prod", (0, 9), preemptible=False),),
        (_STAY,),
        (*_MOVES, {}),
    ),
    "strict_order": Case(
        "strict_order",
        "b",
        state(TWO, _MINE, _THEIRS),
        (StrictOrder(("a", "gone", "b")),),
        ({}, {"a": {0: [0, 1]}}, {"a": {0: [0, 1]}, "b": {1: [0, 1]}}),
        ({"b": {0: [0, 1]}},),
    ),
    "minimum_run": Case(
        "minimum_run",
        "old",
        state(TWO, _old(59.0)),
        (MinimumRun(60.0),),
        (_STAY,),
        (*_MOVES, {}),
    ),
    "no_preemption": Case(
        "no_preemption",
        "old",
        state(TWO, _old(1e5)),
        (NonPreemptible(("o*",)),),
        (_STAY,),
        (*_MOVES, {}),
    ),
    "restart_limit": Case(
        "restart_limit",
        "old",
        state(TWO, _old(60.0, (100.0, 120.0))),
        (RestartLimit(2),),
        (_STAY, {}),
        _MOVES,
    ),
    "restart_limit of a queued job": Case(
        "restart_limit",
        "old",
        state(TWO, _AGAIN),
        (RestartLimit(2),),
        ({},),
        (_STAY, _ELSEWHERE),
    ),
    "node_rule": Case(
        "node_rule",
        "old",
        state(TWO, _old(60.0)),
        (NodeRule(("old",), not_nodes=("n0",)),),
        (_ELSEWHERE, {}),
        (_STAY, _LARGER, {"old": {0: [4], 1: [4]}}),
    ),
    "node_rule by GPU type": Case(
        "node_rule",
        "old",
        state(TWO, _old(60.0), queued("new", 1)),
        (NodeRule(("old",), not_gpu_types=(GPU,)),),
        ({}, {"new": {0: [0]}}),
        (_STAY, _ELSEWHERE),
    ),
    "node_rule that pins": Case(
        "node_rule",
        "new",
        state(TWO, queued("new", 2)),
        (NodeRule(("new",), only_nodes=("n1",)),),
        ({"new": {1: [0, 1]}},),
        ({"new": {0: [0, 1]}}, {"new": {0: [0], 1: [0]}}),
    ),
    "gang_limit": Case(
        "gang_limit",
        "old",
        state(TWO, _old(60.0)),
        (GangLimit(("old",), 3, 4),),
        (_LARGER, {"old": {1: [0, 1, 2, 3]}}, {}),
        (_STAY, {"old": {0: [0]}}, {"old": {0: list(range(8))}}),
    ),
    "maintenance": Case(
        "maintenance",
        "old",
        state(TWO, _old(60.0)),
        (Maintenance(("n0",), NOW_S + 59.0, 999.0),),
        (_ELSEWHERE, {}),
        (_STAY, _LARGER),
    ),
    "maintenance, ahead of it": Case(
        "maintenance",
        "old",
        state(TWO, _old(60.0)),
        (Maintenance(("n0",), NOW_S + 60.0, 999.0, lead_s=60.0),),
        (_STAY, _ELSEWHERE, {}),
        (_LARGER, _OTHER_GPUS),
    ),
}

OTHER_PLAN = GC
