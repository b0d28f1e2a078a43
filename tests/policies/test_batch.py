"""Batch schedulers as policies: limits, partitions, priorities, rounds at events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from morph_opt.core.domain import InputError, Job, RoundState, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.batch import Conservative, Easy
from morph_opt.scheduling.policies.rigid import Fifo
from morph_opt.scheduling.policies.slurm import Site, SlurmPolicy
from morph_opt.simulation.engine.config import ReplayConfig
from tests.engine.toys import DP, ToySpeeds, cluster

SPEEDS = ToySpeeds({"m": 1.0}, counts=(1, 2, 4, 8))
EVENTS = ReplayConfig(rounds="events", restart_s=0.0)
NODES = cluster(2, 4)


def job(name: str, at_s: float, gpus: int, run_s: float, limit_s: float | None, **more) -> Job:
    """A job that runs for ``run_s`` seconds on the GPUs that it asks for."""
    return Job(name, "m", at_s, round(run_s * gpus), gpus, DP, time_limit_s=limit_s, **more)


def starts(policy: Policy, *jobs: Job, config: ReplayConfig = EVENTS) -> dict[str, float | None]:
    found = replay(Trace.of("toy", jobs), NODES, policy, SPEEDS, config)
    return {one.job.name: one.starting_s for one in found.history.jobs}


QUEUE = (
    job("running", 0.0, 4, 100.0, 100.0),
    job("gang", 1.0, 8, 50.0, 50.0),
    job("short", 2.0, 4, 90.0, 98.0),
    job("long", 3.0, 2, 200.0, 200.0),
)


class TestEasy:
    def test_a_job_passes_only_if_it_ends_before_the_first_blocked_one_starts(self) -> None:
        found = starts(Easy(SPEEDS), *QUEUE)
        # The gang runs in two nodes, half again as slow.
        assert found == {"running": 0.0, "gang": 100.0, "short": 2.0, "long": 175.0}

    def test_plain_backfill_would_delay_the_gang(self) -> None:
        found = starts(Fifo(SPEEDS, skip_blocked=True), *QUEUE)
        assert found["gang"] > 100.0

    def test_limits_and_not_run_times_are_known(self) -> None:
        # It would end in time, but its limit does not say so.
        longer = replace(QUEUE[2], time_limit_s=99.0)
        assert starts(Easy(SPEEDS), *QUEUE[:2], longer)["short"] == 175.0

    def test_priorities_go_before_arrival(self) -> None:
        jobs = [job(name, 1.0, 8, 10.0, 60.0, priority=p) for name, p in (("a", 0.0), ("b", 5.0))]
        found = starts(Easy(SPEEDS), QUEUE[0], *jobs)
        assert found["b"] < found["a"]

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            ("", {"old": 100.0, "short": 100.0, "wide": 190.0}),
            ("sjbf", {"old": 100.0, "short": 100.0, "wide": 190.0}),
            ("lxf", {"short": 100.0, "wide": 109.0, "old": 139.0}),
            ("wfp", {"wide": 100.0, "short": 130.0, "old": 130.0}),
        ],
    )
    def test_orders_decide_who_has_the_reservation(
        self, order: str, expected: dict[str, float]
    ) -> None:
        # At 100 s they have waited 90, 60 and 20 s: expansion factors are 1.9, 2.5 and 3, and
        # (wait / limit)^3 x GPUs are 2.9, 27 and 16. The wide one takes 30 s in two nodes.
        jobs = (
            job("running-0", 0.0, 4, 100.0, 150.0),
            job("running-1", 0.0, 4, 100.0, 150.0),
            job("old", 10.0, 4, 90.0, 100.0),
            job("wide", 40.0, 8, 20.0, 40.0),
            job("short", 80.0, 2, 9.0, 10.0),
        )
        found = starts(Easy(SPEEDS, order=order), *jobs)
        assert {name: found[name] for name in expected} == expected

    def test_a_job_without_a_limit_is_refused(self) -> None:
        with pytest.raises(InputError, match="job x: has no time_limit_s"):
            starts(Easy(SPEEDS), job("x", 0.0, 1, 10.0, None))


class Watched(Conservative):
    """Conservative backfill that records every plan."""

    def __init__(self) -> None:
        super().__init__(SPEEDS)
        self.plans: list[dict[str, float]] = []

    def decide(self, state: RoundState) -> Decision:
        found = super().decide(state)
        self.plans.append({name: one.start_s for name, one in self.planned.items()})
        return found


@pytest.mark.parametrize("early", [False, True])
def test_no_planned_start_of_conservative_moves_back_in_a_replay(early: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        jobs = []
        for i in range(40):
            gpus, run_s = int(rng.choice([1, 2, 4, 8])), float(rng.integers(10, 200))
            limit_s = (1.5 if gpus == 8 else 1.0) * run_s
            limit_s *= float(rng.choice([1.0, 2.0])) if early else 1.0
            jobs.append(job(f"j{i:02}", float(rng.integers(0, 1_500)), gpus, run_s, limit_s))
        policy = Watched()
        starts(policy, *jobs)
        for before, after in zip(policy.plans, policy.plans[1:], strict=False):
            for name in before.keys() & after.keys():
                assert after[name] <= before[name] + 1e-9
        assert any(policy.plans)


def site(tmp_path: Path, text: str, shares: str = "") -> Site:
    conf = tmp_path / "slurm.conf"
    conf.write_text(text)
    if not shares:
        return Site.read(str(conf))
    (tmp_path / "shares.txt").write_text(shares)
    return Site.read(f"{conf},{tmp_path / 'shares.txt'}")


def first_come_first_served(jobs: list[Job]) -> dict[str, float]:
    """Return the start of each job, on two nodes of four GPUs, if none may pass another."""
    free, ends, found = [4, 4], [], {}
    for one in jobs:
        now_s = max([one.submission_s, *found.values()])
        parts = (4, 4) if one.requested_gpus == 8 else (one.requested_gpus,)
        while True:
            for end in sorted(end for end in ends if end[0] <= now_s):
                ends.remove(end)
                for node, gpus in end[1]:
                    free[node] += gpus
            fits = [n for n in (0, 1) if free[n] >= parts[0]]
            if len(fits) >= len(parts):
                break
            now_s = min(ends)[0]
        held = list(zip(fits, parts, strict=False))
        for node, gpus in held:
            free[node] -= gpus
        seconds = one.iterations / one.requested_gpus * (1.5 if len(parts) > 1 else 1.0)
        ends.append((now_s + seconds, held))
        found[one.name] = now_s
    return found


class TestSlurm:
    def test_builtin_is_first_come_first_served_event_by_event(self, tmp_path: Path) -> None:
        text = "SchedulerType=sched/builtin\nSchedulerParameters=batch_sched_delay=0"
        conf = site(tmp_path, text)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            sizes = [int(rng.choice([1, 2, 4, 8])) for _ in range(40)]
            jobs = [
                job(f"j{i:02}", at_s, gpus, float(rng.integers(20, 200)), 600.0)
                for i, (gpus, at_s) in enumerate(
                    zip(sizes, sorted(rng.uniform(0, 900, 40)), strict=True)
                )
            ]
            policy = SlurmPolicy(SPEEDS, conf, instant=True)
            assert starts(policy, *jobs) == first_come_first_served(jobs)

    def test_periods_of_priorities_end_later_than_they_begin(self, tmp_path: Path) -> None:
        # By whatever phase: an instant computed as now less a rest may be rounded down to now.
        text = "PriorityType=priority/multifactor\nPriorityWeightAge=10"
        conf = site(tmp_path, text)
        jobs = [job(f"j{i}", 0.1 + 7.3 * i, 8, 3_000.0, 4_000.0) for i in range(3)]
        for phase_s in np.random.default_rng(0).uniform(-300.0, 0.0, 20).tolist():
            policy = SlurmPolicy(SPEEDS, conf, phase_s)
            assert len(starts(policy, *jobs)) == 3

    def test_backfill_plans_whole_nodes(self) -> None:
        # One GPU of node 1 is planned for `next`, so `other` may not be there at that time.
        jobs = (
            job("a", 0.0, 4, 600.0, 600.0),
            job("b", 0.0, 2, 300.0, 300.0),
            job("gang", 1.0, 4, 60.0, 60.0),
            job("other", 2.0, 1, 600.0, 900.0),
        )
        found = starts(SlurmPolicy(SPEEDS, Site()), *jobs)
        assert 300.0 <= found["gang"] <= 331.0
        assert found["other"] >= 360.0

    def test_a_partition_has_its_nodes_and_its_rank(self, tmp_path: Path) -> None:
        conf = site(
            tmp_path,
            "NodeName=n[1-2]\n"
            "PartitionName=all Default=YES\nPartitionName=urgent Nodes=n2 PriorityTier=9",
        )
        jobs = (
            job("a", 0.0, 4, 100.0, 600.0),
            job("b", 0.0, 4, 100.0, 600.0),
            job("c", 1.0, 4, 50.0, 600.0),
            job("d", 2.0, 4, 50.0, 600.0, partition="urgent"),
        )
        found = replay(Trace.of("toy", jobs), NODES, SlurmPolicy(SPEEDS, conf), SPEEDS, EVENTS)
        held = {one.job.name: one for one in found.history.jobs}
        assert held["d"].starting_s <= held["c"].starting_s
        assert held["d"].segments[0].placement.nodes == (1,)

    def test_what_a_site_sets_and_no_rule_follows_is_noted(self, tmp_path: Path) -> None:
        text = "JobSubmitPlugins=lua\nSchedulerParameters=bf_licenses\nPartitionName=all"
        (note,) = SlurmPolicy(SPEEDS, site(tmp_path, text)).notes()
        assert note.endswith("left out: JobSubmitPlugins, SchedulerParameters: bf_licenses")
        assert SlurmPolicy(SPEEDS, Site()).notes() == ()

    def test_an_unknown_partition_is_refused_with_those_that_are_known(
        self, tmp_path: Path
    ) -> None:
        other = job("a", 0.0, 1, 10.0, 60.0, partition="gpu")
        conf = site(tmp_path, "PartitionName=all")
        with pytest.raises(InputError, match=r"partition 'gpu' is not in slurm\.conf; it has all"):
            starts(SlurmPolicy(SPEEDS, conf), other)
        assert starts(SlurmPolicy(SPEEDS, Site()), other) == {"a": 0.0}

    def test_a_user_who_used_less_goes_first(self, tmp_path: Path) -> None:
        conf = site(
            tmp_path,
            "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nPriorityCalcPeriod=1",
        )
        mine = {"tenant": "ml", "user": "heavy"}
        jobs = (
            job("a", 0.0, 8, 600.0, 900.0, **mine),
            job("b", 100.0, 8, 60.0, 900.0, **mine),
            job("c", 200.0, 8, 60.0, 900.0, tenant="ml", user="light"),
        )
        found = starts(SlurmPolicy(SPEEDS, conf), *jobs)
        assert found["c"] < found["b"]

    def test_nodes_that_do_not_fit_the_cluster_are_refused(self, tmp_path: Path) -> None:
        policy = SlurmPolicy(SPEEDS, site(tmp_path, "NodeName=n[1-3]\nPartitionName=all"))
        with pytest.raises(InputError, match=r"slurm\.conf has 3 nodes"):
            starts(policy, job("a", 0.0, 1, 10.0, 60.0))


@pytest.mark.parametrize("make", [Conservative, lambda belief: SlurmPolicy(belief, Site())])
def test_an_interrupted_run_at_events_is_finished_as_if_it_had_not_been(make, tmp_path) -> None:
    trace, whole, part = Trace.of("toy", QUEUE), tmp_path / "whole", tmp_path / "part"
    replay(trace, NODES, make(SPEEDS), SPEEDS, EVENTS, out=whole)

    class Stop(Exception):
        pass

    def stop(event, _) -> None:
        if event.index == 4:
            raise Stop

    with pytest.raises(Stop):
        replay(trace, NODES, make(SPEEDS), SPEEDS, EVENTS, out=part, progress=stop)
    replay(trace, NODES, make(SPEEDS), SPEEDS, EVENTS, out=part, resume=True)
    assert (part / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()
