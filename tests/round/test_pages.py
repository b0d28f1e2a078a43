"""What the pages show is what the commands print."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.round import cli
from morph_opt.round.decide import DECISION_SCHEMA, decide, decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.round.snapshot import SCHEMA, SPEEDS_SCHEMA

COMMAND = re.compile(r"^```text\n\$ python -m morph_opt\.round ([^\n]*)\n(.*?)^```$", re.M | re.S)


SMALLEST = re.compile(r"^```json\n(\{\n.*?)^```$", re.M | re.S)


def _paths(value: object) -> Iterator[tuple[str | int, ...]]:
    """Of every field and element within a value."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, one in inner:
        yield (key,)
        yield from ((key, *rest) for rest in _paths(one))


def test_the_smallest_snapshot_has_nothing_that_could_be_left_out(project_root: Path) -> None:
    page = (project_root / "docs" / "round.md").read_text("utf-8")
    (text,) = SMALLEST.findall(page)
    whole = json.loads(text)
    assert decide(whole).decision.allocation.assignments
    idle = [("jobs", 0), *(("speeds", "rows", row) for row in (0, 1))]  # a round decides without
    for path in _paths(whole):
        less = json.loads(text)
        within = less
        for key in path[:-1]:
            within = within[key]
        del within[path[-1]]
        if path not in idle:
            with pytest.raises(InputError):
                decide(less)


@pytest.mark.parametrize(("page", "count"), [("round.md", 2), ("explanation.md", 2)])
def test_commands_print_what_is_shown(
    page: str,
    count: int,
    project_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (project_root / "docs" / page).read_text("utf-8")
    (tmp_path / "docs").symlink_to(project_root / "docs")
    (tmp_path / "mine.json").write_text("".join(SMALLEST.findall(text)))
    monkeypatch.chdir(tmp_path)
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
