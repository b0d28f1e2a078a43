"""The pages say what the code does: examples run, the TOML is read, no word is missing."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from pathlib import Path

from morph_opt.core.documents import Fields
from morph_opt.scheduling.decision.rules.model import Maintenance, TenantQuota
from morph_opt.scheduling.decision.rules.spec import KINDS, RULE_FIELDS, rules_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/rules.md"
ROWS = ROOT / "docs/formulations/operator-rules.md"


def emitted() -> set[str]:
    """Words of all rows that `morph_opt.scheduling.decision.rules` can write."""
    folder = ROOT / "morph_opt/scheduling/decision/rules"
    trees = [ast.parse(path.read_text("utf-8")) for path in folder.glob("*.py")]
    calls = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add"
        and node.args
    ]
    return {
        word.value
        for call in calls
        for word in ast.walk(call.args[0])
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }


def test_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 5
    assert result.failed == 0


def test_the_example_file_has_a_rule_of_every_kind() -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    rules = rules_of(Fields(tomllib.loads(block[1]), "", None, RULE_FIELDS))
    assert {type(rule) for rule in rules.rules} == set(KINDS.values())
    assert rules.fewer_moves
    assert rules.tighter_packing
    assert TenantQuota("vision", 32, 16) in rules.rules
    assert Maintenance(("node-7",), 86400, 90000, 600) in rules.rules


def test_every_row_is_on_both_pages_and_has_a_golden_text() -> None:
    words = emitted()
    assert len(words) == 12
    page, rows = PAGE.read_text("utf-8"), ROWS.read_text("utf-8")
    golden = {path.stem for path in (ROOT / "tests/formulations/golden").glob("rules.*.lp")}
    for word in words:
        assert f"| `{word}` |" in page
        assert "mathtt{" + word.replace("_", r"\_") + "}" in rows
    assert golden == {f"rules.{word}" for word in words}
