"""Sequences of requeues: who is tried again, when, and in which place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import Job, Trace
from morph_opt.inputs.kueue.queues import Preemption
from morph_opt.replay.run import replay
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.rounds import settle
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.policies.kueue import KueuePolicy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus
from tests.engine.toys import DP, cluster
from tests.kueue.sites import GPU, held, job, queue, site
from tests.kueue.test_policy import SPEEDS
from tests.kueue.test_policy import queue as object_of
from tests.kueue.test_policy import site as files_of

SLOT = "main", GPU


def test_a_victim_waits_a_second_and_goes_before_younger_ones() -> None:
    among = site(queue("a", 2, preemption=Preemption("LowerPriority")))
    low = held("low", "a", 2, priority=-1, created_s=0.0)
    snapshot, pending = Snapshot(among, [low]), Pending(among)
    pending.add(job("high", "a", 2, created_s=5.0))
    pending.add(job("young", "a", 2, priority=-1, created_s=6.0))
    assert [*settle(snapshot, pending, 10.0).victims] == ["team/low"]
    assert pending.next_s == 11.0
    (high,) = snapshot.held["a"].values()
    snapshot.remove(high)
    pending.wake("a", 10.5)  # the victim may not be tried yet, the younger one may
    assert [*settle(snapshot, pending, 10.5).admitted] == ["team/young"]
    snapshot.remove(next(iter(snapshot.held["a"].values())))
    pending.due(11.0)
    pending.add(job("third", "a", 2, priority=-1, created_s=7.0))
    pending.wake("a", 11.0)
    assert [*settle(snapshot, pending, 11.0).admitted] == ["team/low"]


def test_a_queue_is_woken_by_ends_in_its_tree_and_by_no_others() -> None:
    among = site(queue("a", 2, "lab"), queue("b", 2, "lab"), queue("c", 2))
    full = [held(name, name, 2) for name in "abc"]
    snapshot, pending = Snapshot(among, full), Pending(among)
    pending.add(job("waits", "a", 2))
    assert settle(snapshot, pending, 0.0).cycles == 1
    for at_s, other, expected in ((1.0, "c", []), (2.0, "b", ["team/waits"])):
        snapshot.remove(next(iter(snapshot.held[other].values())))
        pending.wake(other, at_s)
        assert [*settle(snapshot, pending, at_s).admitted] == expected


def test_a_strict_queue_keeps_its_head_and_others_park_it() -> None:
    for strict, waiting in ((True, (["team/big"], [])), (False, ([], ["team/big"]))):
        among = site(queue("a", 2, strict=strict))
        snapshot, pending = Snapshot(among, [held("h", "a", 1)]), Pending(among)
        pending.add(job("big", "a", 2))
        settle(snapshot, pending, 0.0)
        assert pending.of("a") == waiting


def ready(**strategy: Any) -> dict[str, Any]:
    given = {"timeout": "1m40s", "requeuingStrategy": strategy}
    return {"kind": "Configuration", "waitForPodsReady": given}


@pytest.mark.parametrize(("strategy", "tries"), [
    ({}, [0.0, 160.0, 380.0, 720.0]),
    ({"backoffBaseSeconds": 10, "backoffMaxSeconds": 25}, [0.0, 110.0, 230.0, 355.0, 480.0]),
])  # fmt: skip
def test_timeouts_double_the_backoff_up_to_its_limit(
    tmp_path: Path, strategy: dict[str, Any], tries: list[float]
) -> None:
    """A node is drained, so a job with quota waits 100 s for it, again and again."""
    policy = files_of(tmp_path, object_of("alice", 8), ready(**strategy))
    decides = KueuePolicy(SPEEDS, KueueSite.read(policy.removeprefix("kueue:")))
    machines = cluster(2, 4)
    jobs = [Job("j", "m", 0.0, 10, 8, DP, tenant="alice")]
    until_s = tries[-1] + 1.0
    drained = [NodeEvent(0.0, 1, NodeStatus.DRAINED), NodeEvent(until_s, 1, NodeStatus.UP)]
    config = ReplayConfig(rounds="events", restart_s=0.0)
    result = replay(Trace.of("toy", jobs), machines, decides, SPEEDS, config, node_events=drained)
    assert decides.evictions == {"PodsReadyTimeout": len(tries) - 1}
    assert result.jobs[0].start_s == until_s


@pytest.mark.parametrize(("config", "starts"), [
    ({"apiVersion": "config.kueue.x-k8s.io/v1beta2"}, [0.0, 40.0, 1.0]),
    ({"apiVersion": "config.kueue.x-k8s.io/v1beta1"}, [0.0, 40.0, 55.0]),
    ({}, [0.0, 40.0, 1.0]),
])  # fmt: skip
def test_nobody_is_admitted_before_the_last_has_its_nodes(
    tmp_path: Path, config: dict[str, Any], starts: list[float]
) -> None:
    """The second has quota at once and waits 40 s for nodes; the third would fit beside the first.

    In v1beta1 of Kueue's configuration the third is not admitted in the meantime.
    """
    policy = files_of(tmp_path, object_of("alice", 16), ready() | config)
    decides = KueuePolicy(SPEEDS, KueueSite.read(policy.removeprefix("kueue:")))
    sizes = ((0.0, 40 * 4, 4), (0.0, 10 * 8, 8), (1.0, 10, 1))
    jobs = [Job(f"j{n}", "m", at, it, gpus, DP, tenant="alice")
            for n, (at, it, gpus) in enumerate(sizes)]  # fmt: skip
    rounds = ReplayConfig(rounds="events", restart_s=0.0)
    result = replay(Trace.of("toy", jobs), cluster(2, 4), decides, SPEEDS, rounds)
    assert [row.start_s for row in result.jobs] == starts
