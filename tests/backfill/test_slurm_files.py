"""Files of Slurm: slurm.conf, shares, and priorities by them."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.slurm.conf import parse_slurm_conf, read_slurm_conf, time_s
from morph_opt.inputs.slurm.reservations import parse_reservations
from morph_opt.inputs.slurm.shares import Association
from morph_opt.inputs.slurm.site import read_site_files
from morph_opt.scheduling.backfill.multifactor import Account, Totals, Usage, Weights, priority

CONF = """
# the head
ClusterName=toy
SlurmctldPort=6817
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=60,bf_window=2880,bf_continue,bf_min_prio_reserve=10
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityWeightFairshare=1000
JobSubmitPlugins=lua
NodeName=DEFAULT CPUs=64 \\
    Gres=gpu:8
NodeName=n[1-4]
PartitionName=DEFAULT MaxTime=1-0
PartitionName=batch Nodes=n[1-4] Default=YES
PartitionName=fast Nodes=n[3-4] PriorityTier=2 MaxTime=60 PreemptMode=off
"""


class TestConf:
    def test_what_decides_is_read_and_what_is_not_modelled_is_listed(self) -> None:
        conf = parse_slurm_conf(CONF)
        assert conf.nodes == ("n1", "n2", "n3", "n4")
        batch, fast = conf.partitions
        assert (batch.default, batch.max_time_s, batch.tier) == (True, 86_400.0, 1)
        assert (fast.nodes, fast.max_time_s, fast.tier) == (frozenset(("n3", "n4")), 3_600.0, 2)
        assert conf.number("bf_interval", 30.0) == 60.0
        assert conf.unmodelled == (
            "PartitionName=fast PreemptMode",
            "JobSubmitPlugins",
            "SchedulerParameters: bf_min_prio_reserve",
        )

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("PreemptType=preempt/qos", "PreemptType: preempt/qos is not modelled"),
            ("TopologyPlugin=topology/tree", "TopologyPlugin: topology/tree is not modelled"),
            ("A=1\nnonsense here", "line 2: must be pairs like Key=value"),
            ("Include more.conf", "line 1: includes another file"),
            ("PartitionName=x MaxTime=soon", "line 1, MaxTime: must be a time like"),
            ("PartitionName=x PriorityTier=-1", "line 1, PriorityTier: must be a number from 0"),
        ],
    )
    def test_what_cannot_be_followed_is_refused_by_name(self, text: str, rule: str) -> None:
        with pytest.raises(InputError, match=rule.replace("(", r"\(")):
            parse_slurm_conf(text)

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90", 5_400.0),
            ("90:30", 5_430.0),
            ("1:30:00", 5_400.0),
            ("2-12", 216_000.0),
            ("1-0:30", 88_200.0),
            ("UNLIMITED", None),
        ],
    )
    def test_times_are_minutes_unless_written_otherwise(
        self, text: str, seconds: float | None
    ) -> None:
        assert time_s(text, "MaxTime") == seconds

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"slurm\.conf"):
            read_slurm_conf(tmp_path / "slurm.conf")


class TestShares:
    def test_accounts_and_users_are_read_next_to_other_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "assoc.txt"
        path.write_text("Account|User|Share|QOS\nroot||1|n\nml||2|n\nml|ann|3|n\nName|Priority\n")
        assert read_site_files([path]).shares == (
            Association("root", "", 1.0, ""),
            Association("ml", "", 2.0, "root"),
            Association("ml", "ann", 3.0, "root"),
        )

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("Account|User|Share\nml||many\n", "line 2, Share: must be a number"),
            ("Account|User|Share\nml|ann\n", "line 2: has 2 cells, its table has 3 columns"),
            ("Account|User|Fair\nml|ann|1\n", "line 1: must have the columns Account, User"),
            ("Name|Priority|GrpJobs\nlow|1|few\n", "line 2, grpjobs: must be a number from 0"),
            ("", "is empty: must be a table"),
        ],
    )
    def test_what_is_no_table_of_a_site_is_refused(
        self, tmp_path: Path, text: str, rule: str
    ) -> None:
        path = tmp_path / "site.txt"
        path.write_text(text)
        with pytest.raises(InputError, match=rule):
            read_site_files([path])

    def test_limits_that_no_rule_follows_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "site.txt"
        path.write_text(
            "Account|User|Share|GrpTRES|MaxJobs\nml||2||4\n"
            "Name|Priority|GraceTime|MaxWall|GrpTRES|UsageFactor\n"
            "normal|0|00:00:00|1-00:00:00|gres/gpu=8,license/a=1|1.000000\n"
        )
        assert read_site_files([path]).unmodelled == (
            "associations: maxjobs",
            "QOS normal: grptres license/a",
            "QOS normal: maxwall",
        )


class TestQos:
    def test_limits_are_read_by_whose_jobs_count(self, tmp_path: Path) -> None:
        path = tmp_path / "qos.txt"
        path.write_text(
            "Name|Priority|GrpTRES|GrpJobs|MaxTRESPU|MaxJobsPU|MaxTRESPerJob\n"
            "high|100|cpu=64,gres/gpu=8||node=2|3|gres/gpu=4\nlow||||||\n"
        )
        high, low = read_site_files([path]).qos.values()
        assert (high.priority, low.priority) == (100.0, 0.0)
        assert dict(high.most) == {
            "all": (8.0, 64.0, inf, inf),
            "user": (inf, inf, 2.0, 3.0),
            "job": (4.0, inf, inf, inf),
        }
        assert low.most == ()


TEXT = """ReservationName=upgrade StartTime=1970-01-02T00:00:00 EndTime=1970-01-02T02:00:00 Duration=02:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=128 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   TRES=cpu=128
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)

ReservationName=course StartTime=1970-01-01T08:00:00 EndTime=1970-01-01T09:00:00
   Nodes=n3 Flags=DAILY Users=ann,bob Accounts=ml
"""  # noqa: E501
PARSED = [
    Reservation("upgrade", 86_400.0, 93_600.0, frozenset(("n1", "n2"))),
    Reservation(
        "course",
        28_800.0,
        32_400.0,
        frozenset(("n3",)),
        frozenset(("ann", "bob")),
        frozenset(("ml",)),
        86_400.0,
    ),
]


class TestReservations:
    def test_text_and_json_are_read_alike(self) -> None:
        assert list(parse_reservations(TEXT)) == PARSED
        rows = [
            {
                "name": "upgrade",
                "start_time": 86_400,
                "end_time": {"set": True, "number": 93_600},
                "node_list": "n[1-2]",
                "users": "root",
                "accounts": "",
                "flags": ["MAINT", "SPEC_NODES"],
            },
            {
                "name": "course",
                "start_time": 28_800,
                "end_time": 32_400,
                "node_list": "n3",
                "users": "ann,bob",
                "accounts": "ml",
                "flags": ["DAILY"],
            },
        ]
        assert list(parse_reservations(json.dumps({"reservations": rows}))) == PARSED
        assert list(parse_reservations("No reservations in the system\n")) == []

    @pytest.mark.parametrize(
        ("old", "new", "rule"),
        [
            ("DAILY", "WEEKDAY", "reservation course: has the flag WEEKDAY"),
            ("Users=ann,bob", "Users=-ann", "reservation course: excludes -ann"),
            ("Nodes=n3", "Nodes=(null)", "reservation course: names no nodes"),
            ("T09:00:00", "T07:00:00", "reservation course: end: must be after its begin"),
            ("1970-01-01T09:00:00", "Unknown", "EndTime: must be an instant"),
        ],
    )
    def test_what_is_not_modelled_is_refused_by_name(self, old: str, new: str, rule: str) -> None:
        with pytest.raises(InputError, match=rule):
            list(parse_reservations(TEXT.replace(old, new)))

    def test_one_that_recurs_has_all_intervals_that_overlap(self) -> None:
        daily = PARSED[1]
        found = list(daily.intervals(32_400.0, 2 * 86_400.0 + 28_801.0))
        assert found == [(115_200.0, 118_800.0), (201_600.0, 205_200.0)]
        assert list(daily.intervals(0.0, 28_800.0)) == []
        assert list(PARSED[0].intervals(93_600.0, inf)) == []


TREE = Account(
    "", 1.0, (Account("admin"), Account("ml", 1.0, (Account("ann", 3.0), Account("bob"))))
)


class TestFairShare:
    def test_unused_associations_tie_at_the_top(self) -> None:
        assert Usage(TREE, Weights()).factor == {"admin": 1.0, "ann": 1.0, "bob": 1.0}

    def test_users_are_ranked_by_level_within_their_account(self) -> None:
        usage = Usage(TREE, Weights(half_life_s=0.0))
        usage.add("ann", 10.0, 100.0)  # three quarters of the shares, half of the use
        usage.add("bob", 10.0, 100.0)
        usage.recompute(300.0, [])
        assert usage.factor == {
            "admin": 1.0,
            "ann": pytest.approx(2 / 3),
            "bob": pytest.approx(1 / 3),
        }

    def test_usage_halves_in_a_half_life_but_for_slurms_own_rounding(self) -> None:
        usage = Usage(TREE, Weights(half_life_s=3_600.0))
        usage.add("ann", 1.0, 1.0)
        usage.recompute(3_600.0, [])
        assert usage.used["ann"] == pytest.approx(0.5, rel=1e-3)

    def test_without_the_tree_the_factor_is_a_power_of_two(self) -> None:
        usage = Usage(TREE, Weights(half_life_s=0.0, fair_tree=False))
        usage.add("ann", 10.0, 100.0)
        usage.recompute(300.0, [])
        # All of the use with three eighths of the shares.
        assert usage.factor["ann"] == pytest.approx(2.0 ** (-8.0 / 3.0))

    def test_a_priority_adds_its_weighted_factors(self) -> None:
        weights = Weights(age=1_000.0, fair_share=100.0, job_size=10.0, max_age_s=100.0)
        found = priority(weights, Totals(4, 256.0), age_s=50.0, fair_share=0.5, nodes=2, cpus=128.0)
        assert found.total == 500 + 50 + 5
        assert str(found) == "priority 555: age 500 + fair share 50 + job size 5"
