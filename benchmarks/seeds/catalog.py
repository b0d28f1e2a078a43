"""Read ``seeds.toml``: published figures and tables, and where this project's numbers are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from morph_opt.core.documents import read_text

SEEDS = Path(__file__).with_name("seeds.toml")
_PLACE = ("file", "row", "column", "mean", "having")


@dataclass(frozen=True, slots=True)
class Place:
    """A column in some rows of a table under ``reports/``.

    Parameters
    ----------
    file
        Path below ``reports/``: CSV, Markdown tables, or the results of the README.
    row
        Cells that a row must have, and headings above its table.
    column
        Header of the column.
    mean
        Whether several rows may match and their mean is meant.
    having
        Columns that rows of a mean must have a number in, besides the column itself.
    """

    file: str
    row: tuple[str, ...]
    column: str
    mean: bool = False
    having: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """One published number with ours.

    Parameters
    ----------
    name
        Label in the row.
    published
        The number, where a report has it, or None if the publication has none.
    ours
        Where a report has ours.
    over
        Divisor of ours; None if ours is a cell as it is.
    form
        Format of both.
    """

    name: str
    published: float | Place | None
    ours: Place
    over: Place | None = None
    form: str = ",.0f"


@dataclass(frozen=True, slots=True)
class Seed:
    """One figure, table or claim.

    Parameters
    ----------
    item
        Such as "Figure 8".
    shows
        Its subject.
    source
        Of the published numbers.
    command
        Command that makes ours.
    report
        Path below ``reports/`` of the page with ours.
    why
        Reasons for the difference.
    numbers
        At least one.
    """

    item: str
    shows: str
    source: str
    command: str
    report: str
    why: str
    numbers: tuple[Number, ...] = field(default=())


def read_seeds(path: Path = SEEDS) -> dict[str, tuple[Seed, ...]]:
    """Return the seeds by system, in the order of the file."""
    systems = tomllib.loads(read_text(path, 1_000_000))["system"]
    return {
        system["name"]: tuple(_seed(table, system["source"]) for table in system["seed"])
        for system in systems
    }


def _seed(table: Mapping[str, Any], source: str) -> Seed:
    shared = {name: table[name] for name in (*_PLACE, "form") if name in table}
    numbers = tuple(_number({**shared, **number}) for number in table["numbers"])
    given = {name: table[name] for name in ("item", "shows", "command", "report", "why")}
    return Seed(**given, source=table.get("source", source), numbers=numbers)


def _number(table: Mapping[str, Any]) -> Number:
    published, over = table.get("published"), table.get("over")
    place = {name: table[name] for name in _PLACE if name in table}
    return Number(
        table["name"],
        _place({**place, **published}) if isinstance(published, dict) else published,
        _place(place),
        None if over is None else _place({**place, **over}),
        table.get("form", ",.0f"),
    )


def _place(table: Mapping[str, Any]) -> Place:
    lists = {name: tuple(table.get(name, ())) for name in ("row", "having")}
    return Place(**{**table, **lists})
