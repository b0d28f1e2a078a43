"""Batch schedulers on what a site keeps back: reservations, limits of QOS, several partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from morph_opt.core.domain import Job, Trace
from morph_opt.core.domain.reservation import Reservation
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.model import Maintenance, OperatorRules, TenantQuota
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.batch import Conservative, Easy
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import resolve
from morph_opt.scheduling.policies.slurm import Site, SlurmPolicy
from tests.policies.test_batch import EVENTS, NODES, SPEEDS, job

DAY_S = 86_400.0


def held(policy: Policy, *jobs: Job) -> dict[str, tuple[float, tuple[int, ...]]]:
    """Return the start and the nodes of each job."""
    found = replay(Trace.of("toy", jobs), NODES, policy, SPEEDS, EVENTS)
    return {
        one.job.name: (one.starting_s, one.segments[0].placement.nodes)
        for one in found.history.jobs
        if one.starting_s is not None
    }


def site(tmp_path: Path, conf: str, *files: str) -> Site:
    paths = [tmp_path / f"{i}.txt" for i in range(len(files) + 1)]
    for path, text in zip(paths, (conf, *files), strict=True):
        path.write_text(text)
    return Site.read(",".join(map(str, paths)))


def made(kind: str, *kept: Reservation) -> Policy:
    if kind == "easy":
        return Easy(SPEEDS, reservations=kept)
    return Conservative(SPEEDS, kept) if kind == "conservative" else SlurmPolicy(
        SPEEDS, Site(), reservations=kept
    )  # fmt: skip


KINDS = pytest.mark.parametrize("kind", ["easy", "conservative", "slurm"])
OWN = Reservation("course", 600.0, 1_200.0, frozenset(("node-0",)), frozenset(("ann",)))


@KINDS
class TestReservations:
    def test_no_job_starts_whose_limit_reaches_into_a_maintenance(self, kind: str) -> None:
        every = Reservation("upgrade", 600.0, 1_200.0)
        jobs = (
            job("before", 0.0, 4, 300.0, 540.0),
            job("into", 0.0, 4, 300.0, 660.0),
            job("gang", 10.0, 8, 60.0, 660.0),
        )
        found = held(made(kind, every), *jobs)
        assert found["before"][0] < 60.0
        assert all(1_200.0 <= found[name][0] <= 1_700.0 for name in ("into", "gang"))

    def test_other_nodes_are_used_meanwhile(self, kind: str) -> None:
        jobs = [job(name, 0.0, 4, 300.0, 900.0) for name in ("a", "b")]
        found = held(made(kind, replace(OWN, users=frozenset())), *jobs)
        assert found["a"][1] == (1,)
        assert found["a"][0] < 60.0
        assert found["b"][0] >= 300.0

    def test_a_reservation_takes_the_jobs_of_its_users(self, kind: str) -> None:
        jobs = [job(name, 0.0, 4, 300.0, 900.0, user=name) for name in ("ann", "bob", "eve")]
        found = held(made(kind, OWN), *jobs)
        assert found["ann"][1] == (0,)
        assert found["bob"][1] == (1,)
        assert found["eve"][0] >= 300.0

    def test_one_that_recurs_is_kept_each_time(self, kind: str) -> None:
        daily = Reservation("night", 0.0, DAY_S / 2, every_s=DAY_S)
        long = 0.4 * DAY_S
        jobs = [job(name, 1.0, 8, long / 1.5, long) for name in ("a", "b")]
        starts = sorted(at_s for at_s, _ in held(made(kind, daily), *jobs).values())
        assert 0.5 * DAY_S <= starts[0] <= 0.5 * DAY_S + 120.0
        assert 1.5 * DAY_S <= starts[1] <= 1.5 * DAY_S + 120.0


class TestRules:
    @KINDS
    def test_a_maintenance_of_the_rules_is_obeyed(self, kind: str) -> None:
        rules = OperatorRules((Maintenance(("node-*",), 600.0, 1_200.0, lead_s=300.0),))
        policy = resolve(kind).make(SPEEDS, PolicyOptions(rules=rules))
        found = held(policy, job("a", 0.0, 4, 120.0, 360.0), job("b", 0.0, 4, 120.0, 280.0))
        assert found["a"][0] >= 1_200.0
        assert found["b"][0] < 60.0

    def test_maintenance_alone_needs_no_wrapper(self) -> None:
        maintenance = Maintenance(("node-*",), 600.0, 1_200.0)
        assert resolve("easy").obeys(OperatorRules((maintenance,)))
        assert not resolve("fifo").obeys(OperatorRules((maintenance,)))
        assert not resolve("easy").obeys(OperatorRules((maintenance, TenantQuota("ml", 4))))


def test_reservations_of_scontrol_are_on_the_clock_of_the_log(tmp_path: Path) -> None:
    text = (
        "ReservationName=upgrade StartTime=2027-01-01T01:00:00 EndTime=2027-01-01T02:00:00\n"
        "   Nodes=n[1-2] Flags=MAINT,SPEC_NODES\n"
    )
    conf = "NodeName=n[1-2]\nPartitionName=all"
    policy = SlurmPolicy(SPEEDS, site(tmp_path, conf, text))
    assert "the trace has no clock" in policy.notes()[0]
    policy.begins_at(1_798_761_600.0 + 3_000.0)  # 00:50 of that day
    assert policy.notes() == ()
    found = held(
        policy.phased(0.0, 0.0), job("a", 0.0, 4, 300.0, 540.0), job("b", 0.0, 4, 9.0, 660.0)
    )
    assert found["a"][0] < 60.0
    assert 4_200.0 <= found["b"][0] <= 4_270.0


ENFORCED = "AccountingStorageEnforce=limits\nNodeName=node-[0-1]\nPartitionName=all"
QOS = "Name|Priority|GrpTRES|GrpJobs|MaxTRESPU|MaxJobsPU\n"


class TestQos:
    def jobs(self) -> list[Job]:
        return [job(f"j{i}", 0.0, 1, 100.0, 200.0, qos="low", user="ann") for i in range(4)]

    @pytest.mark.parametrize(
        ("limits", "at_once"),
        [("|||2", 2), ("gres/gpu=3|||", 3), ("|1||", 1), ("||node=2|", 2)],
    )
    def test_a_limit_keeps_further_jobs_back(
        self, tmp_path: Path, limits: str, at_once: int
    ) -> None:
        conf = site(tmp_path, ENFORCED, f"{QOS}low|1|{limits}\n")
        starts = sorted(at_s for at_s, _ in held(SlurmPolicy(SPEEDS, conf), *self.jobs()).values())
        assert sum(at_s < 60.0 for at_s in starts) == at_once

    def test_it_keeps_nobody_else_back(self, tmp_path: Path) -> None:
        conf = site(tmp_path, ENFORCED, f"{QOS}low|1||||1\n")
        jobs = (*self.jobs()[:2], job("other", 1.0, 4, 9.0, 60.0, qos="low", user="bob"))
        found = held(SlurmPolicy(SPEEDS, conf), *jobs)
        assert found["other"][0] < found["j1"][0]

    def test_limits_that_are_not_enforced_are_noted(self, tmp_path: Path) -> None:
        conf = site(tmp_path, ENFORCED.partition("\n")[2], f"{QOS}low|1||||1\n")
        policy = SlurmPolicy(SPEEDS, conf)
        assert "limits of QOS (AccountingStorageEnforce has no limits)" in policy.notes()[0]
        assert all(at_s < 60.0 for at_s, _ in held(policy, *self.jobs()).values())

    def test_its_priority_is_a_factor(self, tmp_path: Path) -> None:
        text = "PriorityType=priority/multifactor\nPriorityWeightQOS=1000\n"
        assert "PriorityWeightQOS" in SlurmPolicy(SPEEDS, site(tmp_path, text)).notes()[0]
        conf = site(tmp_path, text, "Name|Priority\nhigh|100\nlow|10\n")
        jobs = (
            job("first", 0.0, 8, 60.0, 120.0),
            job("low", 1.0, 8, 60.0, 120.0, qos="low"),
            job("high", 2.0, 8, 60.0, 120.0, qos="high"),
        )
        policy = SlurmPolicy(SPEEDS, conf)
        found = held(policy, *jobs)
        assert policy.notes() == ()
        assert found["first"] < found["high"] < found["low"]


TWO = """
NodeName=node-[0-1]
PartitionName=a Nodes=node-0
PartitionName=b Nodes=node-1 PriorityTier=2
"""


class TestPartitions:
    def test_a_job_of_several_starts_in_the_first_that_can(self, tmp_path: Path) -> None:
        conf = site(tmp_path, TWO)
        full = job("full", 0.0, 4, 300.0, 600.0, partition="b")
        both = job("both", 1.0, 4, 30.0, 600.0, partition="a,b")
        assert held(SlurmPolicy(SPEEDS, conf), both)["both"][1] == (1,)  # by its tier
        start_s, nodes = held(SlurmPolicy(SPEEDS, conf), full, both)["both"]
        assert (start_s < 60.0, nodes) == (True, (0,))

    def test_a_partition_that_is_down_starts_nothing(self, tmp_path: Path) -> None:
        conf = site(tmp_path, TWO.replace("Nodes=node-1", "Nodes=node-1 State=DOWN"))
        both = job("both", 1.0, 4, 30.0, 600.0, partition="b,a")
        assert held(SlurmPolicy(SPEEDS, conf), both)["both"][1] == (0,)

    def test_least_loaded_nodes_may_be_of_one_partition_alone(self, tmp_path: Path) -> None:
        text = "NodeName=node-[0-1]\nPartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL LLN=YES\n"
        first = job("first", 0.0, 1, 300.0, 600.0, partition="a")
        for partition, node in (("a", 0), ("b", 1)):
            other = job("other", 1.0, 1, 300.0, 600.0, partition=partition)
            found = held(SlurmPolicy(SPEEDS, site(tmp_path, text)), first, other)
            assert found["other"][1] == (node,)

    def test_a_priority_given_by_hand_stays(self, tmp_path: Path) -> None:
        text = "PriorityType=priority/multifactor\nPriorityWeightJobSize=1000\n"
        jobs = (
            job("first", 0.0, 8, 60.0, 120.0),
            job("large", 1.0, 8, 60.0, 120.0),
            job("urgent", 2.0, 4, 60.0, 120.0, priority=5_000.0),
        )
        found = held(SlurmPolicy(SPEEDS, site(tmp_path, text)), *jobs)
        assert found["urgent"][0] < found["large"][0]
