"""Rounds of organisations against enumeration, and what their rules mean in simple rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import InputError, JobState
from morph_opt.scheduling.decision.rules.model import MinimumRun, OperatorRules, Rule
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.stranded import stranded_jobs
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.campaigns import blocks
from tests.decision.rules.organisations import differences, false_bounds
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import cluster, counts, queued, running, speeds, state

FOUR = speeds({"m": {"4": 1.0}})
WHOLE = Queue("all", nominal={"*": 8})


@pytest.mark.parametrize("block", range(blocks(1)))
def test_decisions_are_the_best_of_all(block: int) -> None:
    numbers = range(10_000 + 40 * block, 10_040 + 40 * block)
    found = [text for at in numbers if (text := differences(at, ladder=at % 2 == 0))]
    assert [text for text in found if text != "too large"] == []
    assert len(found) < 20


def test_bounds_of_blocks_are_never_false() -> None:
    found = [text for at in range(20_000, 20_006) if (text := false_bounds(at))]
    assert [text for text in found if text != "too large"] == []
    assert len(found) < 6


def decided(*jobs: JobState, rules: tuple[Rule, ...]) -> dict[str, int]:
    before = state(cluster(4, 4), *jobs)
    ruled = OperatorRules(rules)
    policy = MilpPolicy.of(FOUR, make_objective("jct"), HighsSolver(), EXACT, rules=ruled)
    return counts(policy.decide(before).allocation)


def old(name: str, node: int, ran_s: float, **other: object) -> JobState:
    known = running(name, {node: range(4)}, **other)  # type: ignore[arg-type]
    return replace(known, first_start_s=0.0, last_start_s=180.0 - ran_s)


@pytest.mark.parametrize(("ran_s", "waits"), [(50.0, True), (150.0, False)])
@pytest.mark.parametrize("borrowers", [None, 0.0, 10.0])
def test_an_owner_waits_for_a_borrower_no_longer_than_its_minimum_run(
    ran_s: float, waits: bool, borrowers: float | None
) -> None:
    """Without classes, in one class, and with borrowers of a higher class."""
    rules = (WHOLE, Queue("a", "all", {"*": 4}), Queue("b", "all", {"*": 4}), MinimumRun(100.0))
    classes = (PriorityClass("low", (0, 9)), PriorityClass("high", (10, 19)))
    rules += () if borrowers is None else classes
    priority = borrowers or 0.0
    x = old("x", 0, ran_s, tenant="a", weight=9.0, priority=priority)
    y = old("y", 1, ran_s, tenant="a", priority=priority)
    found = decided(x, y, queued("owner", 4, tenant="b"), rules=rules)
    assert ("owner" in found) is not waits


def test_an_owner_whose_job_can_never_run_lends() -> None:
    """Its limit is below its only configuration, so that others borrow what it owns."""
    rules = (WHOLE, Queue("a", "all", {"*": 4}), Queue("b", "all", {"*": 4}))
    jobs = (queued("x", 4, tenant="a"), queued("y", 4, tenant="a"), queued("z", 4, tenant="b"))
    assert set(decided(*jobs, rules=rules)) in ({"x", "z"}, {"y", "z"})
    limit = RunningLimit("queue", gpus=3, queues=("b",))
    assert set(decided(*jobs, rules=(*rules, limit))) == {"x", "y"}


@pytest.mark.parametrize(
    ("queues", "runs"),
    [
        # More than the queue owns and may borrow; as much.
        ((Queue("a", "all", {"*": 5}), Queue("b", "all", {"*": 3}, {"*": 0})), False),
        ((Queue("a", "all", {"*": 4}), Queue("b", "all", {"*": 4}, {"*": 0})), True),
        # More than the queue above it owns and may borrow.
        (
            (
                Queue("a", "all", {"*": 5}),
                Queue("c", "all", {"*": 3}, {"*": 0}),
                Queue("b", "c", {"*": 3}),
            ),
            False,
        ),
        # What a queue never lends is not there for others.
        ((Queue("a", "all", {"*": 5}, lend={"*": 0}), Queue("b", "all", {"*": 3})), False),
    ],
)
def test_a_job_that_its_queue_can_never_hold_ends_no_lending(
    queues: tuple[Queue, ...], runs: bool
) -> None:
    """The owner needs 4 GPUs, while a borrower holds 8 of the 8."""
    rules = (WHOLE, *queues)
    borrower = old("x", 0, 60.0, tenant="a"), old("y", 1, 60.0, tenant="a")
    found = decided(*borrower, queued("owner", 4, tenant="b"), rules=rules)
    assert ("owner" in found) is runs
    assert len(found) == 2 or queues[0].lend


def test_classes_come_before_values_and_stop_what_they_may() -> None:
    high, low = PriorityClass("high", (10, 19)), PriorityClass("low", (0, 9))
    jobs = old("x", 0, 60.0, weight=100.0), old("y", 1, 60.0, weight=200.0)
    late = queued("z", 4, priority=10.0, weight=0.001)
    assert set(decided(*jobs, late, rules=(high, low))) == {"y", "z"}
    silent = replace(high, preempts="nothing")
    assert set(decided(*jobs, late, rules=(silent, low))) == {"x", "y"}
    firm = replace(low, preemptible=False)
    assert set(decided(*jobs, late, rules=(high, firm))) == {"x", "y"}


def test_a_class_stops_none_of_its_own_unless_it_may() -> None:
    """Of two equal victims the one that started last goes."""
    low = PriorityClass("low", (0, 9))
    jobs = old("x", 0, 60.0), old("y", 1, 50.0)
    short = queued("z", 4, weight=1000.0)
    assert set(decided(*jobs, short, rules=(low,))) == {"x", "y"}
    own = replace(low, preempts="own")
    assert "z" in decided(*jobs, short, rules=(own,))
    urgent = queued("z", 4, priority=10.0)
    high = PriorityClass("high", (10, 19))
    assert set(decided(*jobs, urgent, rules=(low, high))) == {"x", "z"}
    jobs = old("x", 0, 50.0), old("y", 1, 60.0)
    assert set(decided(*jobs, urgent, rules=(low, high))) == {"y", "z"}


def test_a_class_between_may_stop_what_one_that_preempts_nothing_waits_for() -> None:
    """High waits for free GPUs; mid takes those of low, and high does not take them from mid."""
    rules = (
        PriorityClass("high", (20, 29), "nothing"),
        PriorityClass("mid", (10, 19)),
        PriorityClass("low", (0, 9)),
    )
    jobs = old("x", 0, 60.0, weight=9.0), old("y", 1, 60.0, weight=9.0, priority=25.0)
    late = queued("h", 4, priority=20.0), queued("m", 4, priority=10.0)
    assert set(decided(*jobs, *late, rules=rules)) == {"y", "m"}


def test_a_job_beyond_its_limit_or_queue_is_stranded() -> None:
    job = queued("j", 4, tenant="all.a", user="ann").job
    tree = (Queue("all", nominal={"*": 4}), Queue("a", "all", {"*": 2}, borrow={"*": 2}))
    for rules, words in (
        (tree, ""),
        ((tree[0], replace(tree[1], borrow={"*": 1.0})), "queue: a is in all and has 2 GPUs"),
        ((*tree, RunningLimit("user", gpus=3, users=("an?",))), "limit: jobs of a user"),
        ((*tree, RunningLimit("user", gpus=3, users=("bob",))), ""),
    ):
        found = stranded_jobs(OperatorRules(rules), [job], FOUR, cluster(4, 4))
        assert bool(found) is bool(words)
        assert all(words in reason for _, reason in found)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((Queue("a", "b"), Queue("b", "a")), "'a' is below itself"),
        ((Queue("a", "x"),), "there is no queue 'x' above 'a'"),
        ((WHOLE, Queue("a", "all", {"*": 9})), "queue 'a' has 9 GPUs, and its parent 'all' has 8"),
        (
            (WHOLE, Queue("a", "all", {"*": 5}), Queue("b", "all", {"*": 5})),
            "the queues below 'all' have 10 GPUs together, and it has 8",
        ),
        ((WHOLE, Queue("a", "all", {"H100": 1})), "a tree must count one way"),
        ((Queue("a"), Queue("b", "a"), Queue("a.b")), "'a.b' is both queue 'b' and queue 'a.b'"),
        ((Queue("a"), Queue("a")), "'a'"),
        (
            (PriorityClass("a", (1, 3)), PriorityClass("b", (3, 4))),
            "classes 'a' and 'b' share priority 3",
        ),
        ((WHOLE, RunningLimit("queue", 3, queues=("al",))), "there is no queue 'al'; the rules"),
    ],
)
def test_organisations_that_are_none_are_refused(rules: tuple[Rule, ...], words: str) -> None:
    with pytest.raises(InputError) as caught:
        OperatorRules(rules)
    assert words in str(caught.value)
