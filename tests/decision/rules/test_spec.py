"""Rules from TOML: what is read, and what is refused with file, field and rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.rules.known import require_known_nodes
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.spec import RULE_FIELDS, read_rules, rules_of, to_dict
from tests.policies.worlds import GPU, cluster

EVERYTHING = """
fewer_moves = true
tighter_packing = true

[[quota]]
tenant = "vision"
gpus = 16
borrow_gpus = 8

[[quota]]
tenant = "speech"
gpus = 0
borrow_gpus = "unlimited"

[[minimum_run]]
seconds = 300

[[restart_limit]]
per_hour = 4
jobs = ["bert-*"]

[[non_preemptible]]
jobs = ["release"]

[[node_rule]]
jobs = ["old-*"]
not_nodes = ["n0"]
only_gpu_types = ["A800*"]

[[gang_limit]]
jobs = ["*"]
least = 2
most = 8

[[maintenance]]
nodes = ["n1"]
start_s = 3600
end_s = 7200.5
lead_s = 600
"""

RULES = OperatorRules(
    (
        TenantQuota("vision", 16, 8),
        TenantQuota("speech", 0, None),
        MinimumRun(300),
        RestartLimit(4, ("bert-*",)),
        NonPreemptible(("release",)),
        NodeRule(("old-*",), not_nodes=("n0",), only_gpu_types=("A800*",)),
        GangLimit(("*",), 2, 8),
        Maintenance(("n1",), 3600, 7200.5, 600),
    ),
    fewer_moves=True,
    tighter_packing=True,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_kind_of_rule_is_read(tmp_path: Path) -> None:
    assert read_rules(written(tmp_path, EVERYTHING)) == RULES


def test_an_empty_file_holds_no_rules(tmp_path: Path) -> None:
    assert read_rules(written(tmp_path, "")) == OperatorRules()


@pytest.mark.parametrize("rules", [RULES, OperatorRules()])
def test_rules_survive_a_round_trip(rules: OperatorRules) -> None:
    assert rules_of(Fields(to_dict(rules), "", None, RULE_FIELDS)) == rules


def test_every_rule_says_what_it_demands_by_its_word() -> None:
    said = [rule.words for rule in RULES.rules]
    assert [text.partition(":")[0] for text in said] == [
        "quota",
        "quota",
        "minimum_run",
        "restart_limit",
        "no_preemption",
        "node_rule",
        "gang_limit",
        "maintenance",
    ]
    assert said[0] == "quota: tenant vision has 16 GPUs and may borrow 8"
    assert said[5].endswith("run not on nodes n0 and only on GPU types A800*")


BAD = {
    "unknown table": (
        "[[qota]]\ntenant = 'a'",
        "line 1, qota: unknown field (did you mean 'quota'",
    ),
    "unknown key": ("fewer_move = true", "line 1, fewer_move: unknown field"),
    "table, not array": (
        "[quota]\ntenant = 'a'",
        "line 1, quota: must be a list, got an object: in TOML a list of tables is written [[quot",
    ),
    "number, not array": ("maintenance = 3", "line 1, maintenance: must be a list, got 3"),
    "array of numbers": ("quota = [3]", "quota[0]: must be a table, got 3"),
    "flag of another type": ("fewer_moves = 1", "fewer_moves: must be true or false, got 1"),
    "unknown field": ("[[minimum_run]]\nsecs = 3", "line 2, minimum_run[0].secs: unknown field"),
    "missing field": ("[[quota]]\ngpus = 3", "line 1, quota[0].tenant: is missing"),
    "second of two": (
        "[[minimum_run]]\nseconds = 3\n[[minimum_run]]\n",
        "line 3, minimum_run[1].seconds: is missing",
    ),
    "tenant twice": (
        "[[quota]]\ntenant = 'a'\ngpus = 1\n[[quota]]\ntenant = 'a'\ngpus = 2",
        "quota.tenant: must be unique, 'a' occurs twice",
    ),
    "negative quota": (
        "[[quota]]\ntenant = 'a'\ngpus = -1",
        "line 3, quota[0].gpus: must be at least 0",
    ),
    "fraction of a GPU": ("[[quota]]\ntenant = 'a'\ngpus = 1.5", "must be a whole number, got 1.5"),
    "tenant of no name": (
        "[[quota]]\ntenant = ''\ngpus = 1",
        "quota[0].tenant: must be a non-empty",
    ),
    "borrow a word": (
        "[[quota]]\ntenant = 'a'\ngpus = 1\nborrow_gpus = 'lots'",
        "quota[0].borrow_gpus: must be a whole number, got 'lots'",
    ),
    "borrow a list": (
        "[[quota]]\ntenant = 'a'\ngpus = 1\nborrow_gpus = ['a']",
        "quota[0].borrow_gpus: must be a whole number",
    ),
    "negative seconds": (
        "[[minimum_run]]\nseconds = -1",
        "minimum_run[0].seconds: must be at least",
    ),
    "endless seconds": ("[[minimum_run]]\nseconds = inf", "must be a finite number"),
    "seconds in words": ("[[minimum_run]]\nseconds = '5'", "must be a number, got '5'"),
    "no restart at all": (
        "[[restart_limit]]\nper_hour = 0",
        "restart_limit[0].per_hour: must be at least 1, got 0",
    ),
    "true restarts": ("[[restart_limit]]\nper_hour = true", "must be a whole number, got true"),
    "jobs not listed": (
        "[[non_preemptible]]\njobs = 'release'",
        "non_preemptible[0].jobs: must be a list, got 'release'",
    ),
    "jobs are numbers": (
        "[[non_preemptible]]\njobs = [1]",
        "non_preemptible[0].jobs[0]: must be text, got 1",
    ),
    "no jobs": ("[[non_preemptible]]\njobs = []", "jobs: must name at least one pattern"),
    "blank job": ("[[non_preemptible]]\njobs = [' ']", "jobs: must be a non-empty name"),
    "node rule of nothing": ("[[node_rule]]\njobs = ['*']", "must have one of only_nodes"),
    "node not listed": (
        "[[node_rule]]\njobs = ['*']\nonly_nodes = 'n0'",
        "node_rule[0].only_nodes: must be a list",
    ),
    "gang of none": ("[[gang_limit]]\njobs = ['*']\nleast = 0", "least: must be at least 1"),
    "most below least": (
        "[[gang_limit]]\njobs = ['*']\nleast = 4\nmost = 2",
        "gang_limit[0].most: must be at least 4, got 2",
    ),
    "window that ends first": (
        "[[maintenance]]\nnodes = ['n0']\nstart_s = 5\nend_s = 5",
        "maintenance[0].end_s: must be above 5",
    ),
    "window without end": (
        "[[maintenance]]\nnodes = ['n0']\nstart_s = 5",
        "maintenance[0].end_s: is missing",
    ),
    "negative lead": (
        "[[maintenance]]\nnodes = ['n0']\nstart_s = 5\nend_s = 6\nlead_s = -1",
        "maintenance[0].lead_s: must be at least 0",
    ),
    "window on no node": (
        "[[maintenance]]\nnodes = []\nstart_s = 5\nend_s = 6",
        "maintenance[0].nodes: must name at least one pattern",
    ),
    "no TOML": ("[[quota", "is not TOML"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rules_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_rules(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert message in said
    assert "\n" not in said


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read \(No such file"):
        read_rules(tmp_path / "none.toml")


def test_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="must be UTF-8 text, byte 0"):
        read_rules(path)


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (Maintenance(("n0", "n9"), 0.0, 1.0), "maintenance.nodes"),
        (NodeRule(("*",), only_nodes=("n9",)), "node_rule.only_nodes"),
        (NodeRule(("*",), not_nodes=("n9",)), "node_rule.not_nodes"),
        (NodeRule(("*",), only_gpu_types=("n9",)), "node_rule.only_gpu_types"),
        (NodeRule(("*",), not_gpu_types=("n9",)), "node_rule.not_gpu_types"),
    ],
)
def test_a_node_that_the_cluster_does_not_have_is_refused(
    rule: Maintenance | NodeRule, field: str
) -> None:
    with pytest.raises(InputError, match=f"{field}: 'n9' matches nothing in cluster toy"):
        require_known_nodes(OperatorRules((rule,)), cluster(8, 8))


def test_nodes_that_the_cluster_has_are_accepted() -> None:
    rules = (Maintenance(("n?",), 0.0, 1.0), NodeRule(("x",), ("n1",), ("n0",), (GPU,)))
    require_known_nodes(OperatorRules((*rules, MinimumRun(5.0))), cluster(8, 8))


def test_patterns_match_whole_names() -> None:
    assert matches("bert-3", ("vit", "bert-*"))
    assert matches("n1", ("n[01]",))
    assert not matches("bert-3", ("bert",))
    assert not matches("BERT", ("bert",))


def test_rules_are_left_out_by_identity() -> None:
    twice = OperatorRules((MinimumRun(5.0), MinimumRun(6.0)), fewer_moves=True)
    assert twice.without(twice.rules[0]).rules == (twice.rules[1],)
    assert twice.only([twice.rules[0]]) == OperatorRules((MinimumRun(5.0),), fewer_moves=True)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ((MinimumRun(5.0), {"gpus": 4}), r"rules\.1: must be a rule .* got \{"),
        ((MinimumRun,), r"rules\.0: must be a rule .* got <class"),
        ((None,), r"rules\.0: must be a rule .* got None"),
        ((OperatorRules(),), r"rules\.0: must be a rule .* got OperatorRules"),
        (MinimumRun(5.0), r"rules: must be a tuple of rules, got MinimumRun"),
        ((rule for rule in ()), r"rules: must be a tuple of rules, got <generator"),
    ],
)
def test_objects_that_are_no_rules_are_refused(rules: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OperatorRules(rules)
