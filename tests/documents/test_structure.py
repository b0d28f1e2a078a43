"""Dataclasses from parsed values: what is taken, and where a complaint says that it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from morph_opt.core.documents import Fields, key_lines, parse_toml, plain, structure
from morph_opt.core.domain import ExecutionPlan, InputError
from morph_opt.core.domain._validate import require_int


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    size: int
    plan: ExecutionPlan
    colour: Colour = Colour.RED

    def __post_init__(self) -> None:
        require_int("part.size", self.size, at_least=1)


@dataclass(frozen=True, slots=True)
class Whole:
    name: str
    share: float = 1.0
    open: bool = False
    pair: tuple[float, float] = (0.0, 0.0)
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    most: int | None = None


PART = {"size": 2, "plan": "dp+ga", "colour": "blue"}
GOOD = {
    "name": "a", "share": 3, "open": True, "pair": [1, 2.5], "parts": [PART],
    "by_name": {"x.y": PART}, "most": None,
}  # fmt: skip


def test_everything_is_read_and_written_back() -> None:
    part = Part(2, ExecutionPlan.parse("dp+ga"), Colour.BLUE)
    found = structure(Whole, GOOD)
    assert found == Whole("a", 3.0, True, (1.0, 2.5), (part,), {"x.y": part})
    assert type(found.share) is float
    assert found.parts[0].colour is Colour.BLUE
    assert structure(Whole, plain(found)) == found
    assert "most" not in plain(found, optional=("most",))


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"name": 3}, "name", "must be text, got 3"),
        ({"name": None}, "name", "must be text, got null"),
        ({"share": "1"}, "share", "must be a number, got '1'"),
        ({"share": True}, "share", "must be a number, got true"),
        ({"share": float("nan")}, "share", "must be a finite number"),
        ({"share": 10**400}, "share", "must be a finite number"),
        ({"open": 1}, "open", "must be true or false, got 1"),
        ({"most": 1.0}, "most", "must be a whole number, got 1.0"),
        ({"most": 1 << 63}, "most", f"must be at most {(1 << 63) - 1}, got {1 << 63}"),
        ({"pair": [1.0]}, "pair", "must have 2 numbers, got 1"),
        ({"pair": "ab"}, "pair", "must be a list, got 'ab'"),
        ({"pair": [1.0, "b"]}, "pair[1]", "must be a number, got 'b'"),
        ({"parts": {}}, "parts", "must be a list, got an object"),
        ({"parts": [PART, 3]}, "parts[1]", "must be an object, got 3"),
        ({"parts": [{"plan": "dp"}]}, "parts[0].size", "is missing"),
        ({"parts": [PART | {"size": 0}]}, "parts[0].size", "must be at least 1, got 0"),
        ({"parts": [PART | {"plan": 1}]}, "parts[0].plan", "must be text, got 1"),
        (
            {"parts": [PART | {"colour": "rde"}]},
            "parts[0].colour",
            "must be one of red, blue, got 'rde'",
        ),
        ({"by_name": []}, "by_name", "must be an object, got a list"),
        (
            {"by_name": {"x": PART | {"clour": 1}}},
            "by_name.x.clour",
            "unknown field (did you mean 'colour'?); known are size, plan, colour",
        ),
        ({"nme": 1}, "nme", "unknown field (did you mean 'name'?)"),
    ],
)
def test_a_refusal_names_its_place(change: dict[str, object], field: str, rule: str) -> None:
    with pytest.raises(InputError) as refused:
        structure(Whole, GOOD | change)
    assert (refused.value.field or "").removeprefix(".") == field
    assert refused.value.rule.startswith(rule)


TEXT = """
[whole]
name = "a"
[[whole.parts]]
size = 1
plan = "dp"
[[whole.parts]]
size = 1
plan = "pd"
"""


def test_a_line_and_file_come_with_it() -> None:
    tables = parse_toml(TEXT, "f.toml")
    top = Fields(tables, "", "f.toml", ("whole",), key_lines(TEXT))
    with pytest.raises(InputError, match=r"f.toml, line 9, whole.parts\[1\].plan: unknown plan"):
        top.object("whole", ("name", "parts")).make(Whole)
    with pytest.raises(InputError, match=r"f.toml, line 9, whole.parts\[1\].plan: unknown plan"):
        top.value("whole", Whole)


def test_fields_passed_separately_are_not_read_from_the_table() -> None:
    row = Fields({"plan": "dp"}, "row", "f.json", ("plan", "colour"))
    assert row.make(Part, size=1).size == 1
    with pytest.raises(InputError, match=r"^f.json, row: must be at least 1, got 0"):
        row.make(Part, size=0)
