"""What the pages show is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from morph_opt.round import cli
from morph_opt.round.decide import DECISION_SCHEMA, decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.round.snapshot import SCHEMA, SPEEDS_SCHEMA

COMMAND = re.compile(r"^```text\n\$ python -m morph_opt\.round ([^\n]*)\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize(("page", "count"), [("round.md", 1), ("explanation.md", 2)])
def test_commands_print_what_is_shown(
    page: str,
    count: int,
    project_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project_root)
    text = (project_root / "docs" / page).read_text("utf-8")
    shown = COMMAND.findall(text)
    assert len(shown) == count
    for arguments, output in shown:
        cli.main(shlex.split(arguments))
        captured = capsys.readouterr()
        assert captured.out + captured.err == output


def test_the_page_names_every_field_and_format(project_root: Path) -> None:
    page = (project_root / "docs" / "round.md").read_text("utf-8")
    for schema in (SCHEMA, SPEEDS_SCHEMA, DECISION_SCHEMA):
        assert f"`{schema}`" in page
    example = project_root / "docs" / "schema" / "example-state.json"
    found = decide_round(read_snapshot(example)).to_json()
    for field in found:
        assert f"`{field}`" in page or f"`{field}[]." in page or field == "schema", field
