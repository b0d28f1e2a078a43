"""Cycles of Kueue: small cases by hand, and what holds on random trees of quotas."""

from __future__ import annotations

import math

import pytest

from benchmarks.checks.trees import faults
from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.queues import Cohort, Fungibility, Preemption
from morph_opt.scheduling.kueue.cycle import Head, Outcome, cycle
from morph_opt.scheduling.kueue.flavors import Mode
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.rounds import Settled, ended, settle
from morph_opt.scheduling.kueue.shares import shares
from morph_opt.scheduling.kueue.site import Site, Snapshot, available, cohort_key
from morph_opt.scheduling.kueue.workloads import Held, Placed, PodSet, Workload
from tests.campaigns import blocks
from tests.kueue.sites import ANY, GPU, held, job, queue, site

SLOT = "main", GPU


def heads(*workloads: Workload) -> list[Head]:
    return [Head(one) for one in workloads]


def settled(among: Site, holding: list[Held], *waiting: Workload) -> tuple[Settled, Snapshot]:
    snapshot, pending = Snapshot(among, holding), Pending(among)
    for one in waiting:
        pending.add(one)
    return settle(snapshot, pending, 0.0), snapshot


def test_a_queue_borrows_what_others_lend_and_keeps_what_they_do_not() -> None:
    among = site(queue("a", 4, "all"), queue("b", {"main": Quota(6, lend=2)}, "all"))
    found = available(among, {"a": {SLOT: 1}, "b": {SLOT: 1}})
    assert found == {"a": {SLOT: (5, 6)}, "b": {SLOT: (8, 10)}}


def test_a_borrowing_limit_holds_at_every_level() -> None:
    cohorts = [Cohort("left", "all", {SLOT: Quota(0, borrow=1)}), Cohort("right", "all")]
    among = site(queue("a", 2, "left"), queue("b", 9, "right"), cohorts=cohorts)
    assert available(among, {})["a"][SLOT] == (3, 3)


def test_of_equal_priorities_the_older_goes_first_and_of_others_the_higher() -> None:
    among = site(queue("a", 1, strict=True))
    old, new = job("old", "a", created_s=0.0), job("new", "a", created_s=1.0)
    found, _ = settled(among, [], new, old)
    assert [*found.admitted] == ["team/old"]
    found, _ = settled(among, [], old, job("high", "a", priority=1, created_s=9.0))
    assert [*found.admitted] == ["team/high"]


def test_the_next_flavor_is_taken_where_the_first_is_full() -> None:
    among = site(queue("a", {"main": 2, "spot": 4}))
    result = cycle(Snapshot(among, [held("h", "a", 2)]), heads(job("j", "a")), 0.0)
    assert [dict(one.placed[0].flavors) for one in result.admitted] == [{GPU: "spot"}]


@pytest.mark.parametrize(("preference", "flavor"), [
    ("BorrowingOverPreemption", "main"), ("PreemptionOverBorrowing", "spot"),
])  # fmt: skip
def test_a_queue_prefers_to_borrow_or_to_preempt(preference: str, flavor: str) -> None:
    rule = Fungibility("TryNextFlavor", "TryNextFlavor", preference)
    mine = queue("a", {"main": 0, "spot": 2}, "all", ANY, fungibility=rule)
    among = site(mine, queue("b", {"main": 4, "spot": 0}, "all"))
    low = held("low", "a", 2, "spot", priority=-1)
    result = cycle(Snapshot(among, [low]), heads(job("j", "a", 2)), 0.0)
    (one,) = result.nominees
    assert one.assignment.pod_sets[0].flavors[GPU].flavor == flavor
    assert [victim.held for victim, _ in result.victims] == ([low] if flavor == "spot" else [])


def test_one_that_can_never_fit_says_so_and_one_without_flavor_too() -> None:
    among = site(queue("a", 2, strict=True), queue("b", 2))
    other = Workload("team/cpu", "b", (PodSet({"cpu": 1}),))
    result = cycle(Snapshot(among), heads(job("big", "a", 3), other), 0.0)
    found = {one.workload.name: (one.outcome, one.reason) for one in result.nominees}
    assert found == {
        "team/big": (Outcome.NO_FIT, "ExceedsMaxQuota"),
        "team/cpu": (Outcome.NO_FIT, "NoMatchingFlavor"),
    }


def test_the_fewest_victims_are_taken_those_of_others_first() -> None:
    among = site(queue("a", 4, "all", ANY), queue("b", 4, "all"))
    holding = [
        held("own", "a", 2, priority=-1),
        held("b1", "b", 3, since_s=1.0),
        held("b2", "b", 1, since_s=2.0),
        held("b3", "b", 2, since_s=3.0),
    ]
    snapshot = Snapshot(among, holding)
    result = cycle(snapshot, heads(job("j", "a", 2)), 0.0)
    assert {v.held.workload.name: v.reason for v, _ in result.victims} == {
        "team/b3": "InCohortReclamation"
    }
    assert result.nominees[0].assignment.mode is Mode.PREEMPT


def test_a_victim_ends_and_the_newcomer_is_admitted_in_the_same_round() -> None:
    among = site(queue("a", 2, preemption=Preemption("LowerPriority")))
    low = held("low", "a", 2, priority=-1)
    found, snapshot = settled(among, [low], job("high", "a", 2))
    assert [*found.admitted] == ["team/high"]
    assert {n: v.reason for n, (v, _) in found.victims.items()} == {"team/low": "InClusterQueue"}
    assert snapshot.free("a", SLOT) == 0


def test_two_preemptors_do_not_share_a_victim() -> None:
    among = site(queue("a", 2, "all", ANY), queue("b", 2, "all", ANY), queue("c", 0, "all"))
    result = cycle(
        Snapshot(among, [held("c", "c", 4)]), heads(job("a", "a", 2), job("b", "b", 2)), 0.0
    )
    outcomes = [one.outcome for one in result.nominees]
    assert outcomes == [Outcome.PREEMPTING, Outcome.PREEMPTING]
    assert len(result.victims) == 1  # the second waits for the same to end


def test_quota_is_kept_for_one_that_cannot_preempt() -> None:
    never = Preemption("Never", "Never", "LowerPriority")
    mine, other = queue("a", 4, "all", never), queue("b", 4, "all")
    snapshot = Snapshot(site(mine, other), [held("b", "b", 7)])
    big, small = job("big", "a", 3, priority=1), job("small", "b", 1)
    result = cycle(snapshot, heads(big, small), 0.0)
    assert [one.outcome for one in result.nominees] == [Outcome.NO_VICTIMS, Outcome.SKIPPED]


def test_a_workload_is_admitted_with_as_many_pods_as_fit() -> None:
    sets = (PodSet({GPU: 2}, 10, min_count=2),)
    found, _ = settled(site(queue("a", 9)), [], Workload("team/j", "a", sets))
    assert found.admitted["team/j"].placed[0].count == 4
    found, _ = settled(site(queue("a", 9), partial=False), [], Workload("team/j", "a", sets))
    assert not found.admitted


def test_a_strict_queue_waits_for_its_head_and_another_passes_it() -> None:
    for strict, expected in ((True, []), (False, ["team/small"])):
        among = site(queue("a", 2, strict=strict))
        big, small = job("big", "a", 9, created_s=0.0), job("small", "a", created_s=1.0)
        found, _ = settled(among, [], big, small)
        assert [*found.admitted] == expected


def test_equal_workloads_are_not_tried_again_until_something_ends() -> None:
    among = site(queue("a", 2))
    full = held("full", "a", 2)
    snapshot, pending = Snapshot(among, [full]), Pending(among)
    for number in range(50):
        pending.add(job(f"j{number}", "a", created_s=float(number)))
    assert settle(snapshot, pending, 0.0).cycles == 1
    assert settle(snapshot, pending, 1.0).cycles == 0
    snapshot.remove(full)
    pending.wake("a", 2.0)
    assert [*settle(snapshot, pending, 2.0).admitted] == ["team/j0", "team/j1"]


def test_the_lowest_share_goes_first_and_the_highest_ends_first() -> None:
    queues = [queue(name, 2, "all", ANY) for name in "ab"]
    among = site(*queues, queue("c", 4, "all"), fair_sharing=True)
    usage = {"a": {SLOT: 4}, "b": {SLOT: 3}}
    found = {k: one.rounded for k, one in shares(among, usage).items()}
    assert found == {"a": 250, "b": 125, "c": 0, cohort_key("all"): 0}
    holding = [held(f"a{n}", "a", since_s=float(n)) for n in range(5)]
    holding += [held(f"b{n}", "b", since_s=float(n)) for n in range(3)]
    result = cycle(Snapshot(among, holding), heads(job("b", "b")), 0.0)
    assert {v.held.workload.name: v.reason for v, _ in result.victims} == {
        "team/a4": "InCohortFairSharing"
    }


def test_a_queue_of_weight_zero_that_borrows_is_above_all() -> None:
    queues = [queue("a", 0, "all", weight=0.0), queue("b", 0, "all"), queue("c", 9, "all")]
    among = site(*queues, fair_sharing=True)
    found = shares(among, {"a": {SLOT: 1}, "b": {SLOT: 8}}, ("a", "b"))
    assert (found["a"].rounded, found["b"].rounded) == (math.inf, 889)
    assert found["a"].rank > found["b"].rank


def test_an_entry_of_the_lower_share_wins_the_tournament() -> None:
    among = site(queue("a", 0, "all"), queue("b", 2, "all"), fair_sharing=True)
    snapshot = Snapshot(among, [held("b", "b", 1)])
    result = cycle(snapshot, heads(job("a", "a", created_s=0.0), job("b", "b")), 0.0)
    assert [one.workload.queue for one in result.admitted] == ["b"]


def test_without_assigning_anew_one_whose_victim_is_taken_is_skipped() -> None:
    queues = [queue("a", 2, "all", ANY), queue("b", 2, "all", ANY), queue("c", 0, "all")]
    snapshot = Snapshot(site(*queues, assign_anew=False), [held("c", "c", 4)])
    result = cycle(snapshot, heads(job("a", "a", 2), job("b", "b", 2)), 0.0)
    assert [one.outcome for one in result.nominees] == [Outcome.PREEMPTING, Outcome.SKIPPED]


def test_without_shapes_every_workload_is_tried_by_itself() -> None:
    among = site(queue("a", 2), equal_shapes=False)
    jobs = [job(f"j{number}", "a", 3, created_s=float(number)) for number in range(5)]
    assert settled(among, [], *jobs)[0].cycles == 5


def test_quota_goes_before_shares_unless_a_gate_is_closed() -> None:
    def reasons(**gates: bool) -> set[str]:
        queues = [queue("a", 4, "all", ANY), queue("b", 0, "all")]
        snapshot = Snapshot(site(*queues, fair_sharing=True, **gates), [held("b", "b", 4)])
        result = cycle(snapshot, heads(job("a", "a", 2)), 0.0)
        return {victim.reason for victim, _ in result.victims}

    assert reasons() == {"InCohortReclamation"}
    assert reasons(nominal_first=False) == {"InCohortFairSharing"}


def test_a_queue_that_borrows_goes_after_one_that_does_not_unless_a_gate_is_closed() -> None:
    """The share of `a` is the lower by its weight, and only `a` would borrow."""
    for gate, first in ((True, "b"), (False, "a")):
        queues = [
            queue("a", 0, "all", weight=1e6),
            queue("b", {"main": 4, "spot": 0}, "all"),
            queue("c", {"main": 0, "spot": 8}, "all"),
        ]
        among = site(*queues, fair_sharing=True, unborrowed_first=gate)
        snapshot = Snapshot(among, [held("s", "b", 1, "spot")])
        result = cycle(snapshot, heads(job("a", "a"), job("b", "b")), 0.0)
        assert result.nominees[0].workload.queue == first


@pytest.mark.parametrize("part", range(blocks(2)))
def test_on_random_trees_no_limit_is_exceeded_and_nobody_is_lost(part: int) -> None:
    assert [fault for seed in range(100 * part, 100 * (part + 1)) for fault in faults(seed)] == []


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot in which anything fits exceeds limits, and nodes of the topology."""
    monkeypatch.setattr(Snapshot, "fits", lambda *_: True)
    found = [fault for seed in range(100) for fault in faults(seed)]
    assert any("is beyond its limits of main" in one for one in found)


def test_a_preempted_workload_queues_by_its_creation_or_after_its_preemptor() -> None:
    one = ended(job("j", "a", created_s=1.0), "InCohortReclaimWhileBorrowing", 5.0)
    assert site(queue("a")).settings.queued_s(one) == 1.0
    assert site(queue("a"), by_priority=False).settings.queued_s(one) == pytest.approx(5.001)


def test_usage_counts_every_pod_set_by_flavor() -> None:
    sets = (Placed("x", 1, {GPU: "main"}, {GPU: 500}), Placed("y", 2, {GPU: "main"}, {GPU: 2000}))
    assert Held(job("j", "a"), sets).usage == {SLOT: 2500}
