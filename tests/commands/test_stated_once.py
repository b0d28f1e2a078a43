"""A field of an options dataclass is an option everywhere, and no option is stated elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from morph_opt.core.commandline.options import add_options, flagged, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.documents import Fields, key_lines, parse_toml, toml_text
from morph_opt.core.documents.fields import options_table, read_options
from morph_opt.core.domain import InputError, Range
from morph_opt.core.domain.errors import on_command_line
from morph_opt.core.domain.options import asked, changed, documented, option, settings
from morph_opt.replay.scenario import PARTS, Scenario, Scheduler
from morph_opt.sweep import spec as sweep
from tests.options_page import (
    METRICS,
    PAGE,
    REPLAY,
    SCHEMA,
    options_schema,
    page,
    schema,
    table,
)


@documented
@dataclass(frozen=True, slots=True)
class More(Scheduler):
    """A scheduler with options of every type."""

    patience_s: float | None = option(
        None, "seconds of patience", metavar="S", range=Range(0.0, 9.0), common=True
    )
    depth: int = option(3, "levels that are looked at", range=Range(1, 5, whole=True))
    tone: str = option("mild", "how it speaks", choices=("mild", "stern"))
    careful: bool = option(False, "look twice")
    costs: float = option(
        1.0, "of everything", metavar="X|A=X", range=Range(0.0, 2.0), by_name="costs_by_name"
    )
    costs_by_name: Mapping[str, float] = option({}, "of single names", hidden=True)


NEW = ("patience_s", "depth", "tone", "careful", "costs", "costs_by_name")


def parser() -> LineParser:
    made = LineParser(prog="p")
    add_options(made, More)
    return made


def test_a_new_field_is_an_option_of_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = "--patience-s=2 --depth=4 --tone=stern --careful --costs=0.5 --costs=a=2"
    words = text.split()
    given = parser().parse_args(words)
    made = More(**given_options(given, More))
    assert (made.patience_s, made.depth, made.tone, made.careful) == (2.0, 4, "stern", True)
    assert (made.costs, made.costs_by_name) == (0.5, {"a": 2.0})
    assert tuple(name for name in changed(made)) == NEW
    shown = parser().format_help()
    assert "seconds of patience" in shown
    assert "levels that are looked at (3)" in shown
    for wrong in ("--depth=6", "--tone=loud", "--patience-s=10", "--costs=b=3", "--careful=1"):
        with pytest.raises(SystemExit):
            parser().parse_args([wrong])
        assert capsys.readouterr().err.startswith(f"error: argument {wrong.partition('=')[0]}: ")
    with pytest.raises(InputError, match=r"^costs: given twice for a$"):
        given_options(parser().parse_args(["--costs", "a=1", "--costs", "a=2"]), More)


def test_a_new_field_is_in_files() -> None:
    made = More(patience_s=1.5, depth=2, tone="stern", careful=True, costs_by_name={"b": 1.0})
    text = toml_text({"x": options_table(made)})
    read = Fields(parse_toml(text, None)["x"], "x", "f.toml", settings(More), key_lines(text))
    assert read_options(read, More) == made
    for wrong, rule in (
        ("depth = 2", "depth = 9"),
        ('tone = "stern"', 'tone = "loud"'),
        ("careful = true", "careful = 1"),
        ("patience_s = 1.5", "patience_s = false"),
    ):
        changed_text = text.replace(wrong, rule)
        assert changed_text != text
        lines = key_lines(changed_text)
        table = parse_toml(changed_text, None)["x"]
        with pytest.raises(InputError, match=rf"^f.toml, line \d+, x.{wrong.split()[0]}: must be"):
            read_options(Fields(table, "x", "f.toml", settings(More), lines), More)


def test_a_new_field_is_in_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    names, known = sweep.options_of({**PARTS, "scheduler": More})
    assert set(NEW) <= set(names)
    assert known["depth"] == asked(More)["depth"]
    assert set(sweep.NAMES) == set(names) - set(NEW)


def test_a_new_field_is_in_schema_and_tables() -> None:
    found = options_schema(More)["properties"]
    assert found["depth"] == {
        "type": "integer",
        "description": "levels that are looked at",
        "default": 3,
        "minimum": 1,
        "maximum": 5,
    }
    assert found["tone"]["enum"] == ["mild", "stern"]
    rows = table(asked(More))
    assert "| `--depth` | `depth` | a whole number from 1 to 5 | levels that are looked" in rows
    assert "| - | `costs_by_name` |" in rows
    assert "Levels that are looked at (3)." in str(More.__doc__)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("depth", 6, "must be a whole number from 1 to 5, got 6"),
        ("depth", 2.5, "must be a whole number from 1 to 5, got 2.5"),
        ("depth", True, "must be a whole number from 1 to 5, got True"),
        ("depth", None, "must be a whole number from 1 to 5, got None"),
        ("patience_s", "x", "must be a number from 0 to 9, got 'x'"),
        ("patience_s", float("nan"), "must be a number from 0 to 9, got nan"),
        ("tone", "loud", "must be mild or stern, got 'loud'"),
        ("tone", 3, "must be text, got 3"),
        ("careful", 1, "must be true or false, got 1"),
        ("costs_by_name", 3, "must be a table of numbers, got 3"),
        ("policy", 3, "must be text, got 3"),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(name: str, value: object, rule: str) -> None:
    with pytest.raises(InputError) as refused:
        replace(More(), **{name: value})
    assert str(refused.value) == f"{name}: {rule}"
    if name != "costs_by_name":
        flag = "--" + name.replace("_", "-")
        with on_command_line():
            assert flagged(refused.value, More).field == flag


def test_pages_are_as_options_and_figures_are() -> None:
    """Mend a difference with `python -m tests.options_page`."""
    for path in (PAGE, METRICS, REPLAY):
        assert page(path.read_text("utf-8")) == path.read_text("utf-8")
    assert SCHEMA.read_text("utf-8") == schema()


def test_the_schema_holds_of_what_is_written(tmp_path: Path) -> None:
    """Every property that a config has is one of the schema, of its type."""
    types = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}
    written = parse_toml(Scenario().to_toml(), None)
    known = json.loads(SCHEMA.read_text("utf-8"))["properties"]
    for part in PARTS:
        for name, value in written[part].items():
            assert known[part]["properties"][name]["type"] == types[type(value)]
        assert set(known[part]["required"]) <= set(written[part])
