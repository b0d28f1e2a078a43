"""Accounts and QOS of Slurm as rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.rules.organisation import Queue, RunningLimit
from morph_opt.scheduling.decision.rules.spec import read_rules
from tests.policies.worlds import job

ACCOUNTS = """\
Account|ParentName|User|Share|GrpTRES|GrpJobs|MaxTRES|MaxJobs
root|||1||||
lab|root||3|gres/gpu=16||gres/gpu=8|
vision|lab||2||4||2
vision||ann|1|gres/gpu=2|||
"""
QOS = """\
Name|Priority|MaxTRESPU|MaxJobsPA|GrpTRES
normal|0|||
short|10|gres/gpu=4|3|gres/gpu=32
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "site.txt"
    path.write_text(text, "utf-8")
    return path


def test_accounts_are_a_tree_and_their_limits_rules(tmp_path: Path) -> None:
    found = read_rules(written(tmp_path, ACCOUNTS + QOS))
    lab, vision = ("lab",), ("vision",)
    assert found.rules == (
        Queue("root"),
        Queue("lab", "root", weight=3.0),
        RunningLimit("all", 16, queues=lab),
        RunningLimit("job", 8, queues=lab),
        Queue("vision", "lab", weight=2.0),
        RunningLimit("all", jobs=4, queues=vision),
        RunningLimit("user", jobs=2, queues=vision),
        RunningLimit("all", 2, users=("ann",), queues=vision),
        RunningLimit("all", 32, qos=("short",)),
        RunningLimit("user", 4, qos=("short",)),
        RunningLimit("queue", jobs=3, qos=("short",)),
    )
    below = job("j", tenant="vision", user="bob")
    limits = [rule for rule in found.rules if isinstance(rule, RunningLimit)]
    assert [bool(rule.named(below, found.tree)) for rule in limits] == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Account|User|Share|GrpTRES\nroot||1|cpu=8\n", "line 2: sets grptres cpu"),
        ("Account|User|Share|MaxWall\nroot||1|01:00:00\n", "line 2: sets maxwall"),
        ("Account|User|Share|GrpTRES\nroot||1|gres/gpu:a100=8\n", "sets grptres gres/gpu:a100"),
        ("Account|User|Share|GrpJobs\nroot||1|many\n", "grpjobs"),
        ("Name|Priority|MaxTRESPU\nq|0|node=2\n", "line 2: sets user node"),
        ("Account|ParentName|User|Share\na|x||1\n", "there is no queue 'x' above 'a'"),
        ("Account|ParentName|User|Share\na|b||1\nb|a||1\n", "'a' is below itself"),
    ],
)
def test_what_no_rule_follows_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rules(written(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
