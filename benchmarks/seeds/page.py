"""Write the tables of ``docs/seeds.md``: published figures, and ours read from the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.seeds.catalog import Number, Place, Seed, read_seeds
from benchmarks.seeds.cells import REPORTS, number_at
from morph_opt.core.table import Table

HEADER = ("figure or table", "shows", "published", "ours", "command", "why they differ")


def tables(seeds: Mapping[str, Sequence[Seed]] | None = None, reports: Path = REPORTS) -> str:
    """Return a heading and a table for each system.

    Raises
    ------
    InputError
        If a report lacks a number.
    """
    parts = []
    for system, found in (seeds or read_seeds()).items():
        rows = [_row(seed, reports) for seed in found]
        parts.append(f"## {system}\n\n{Table(HEADER, rows, 'l').to_markdown(spaced=True)}")
    return "\n\n".join(parts)


def _row(seed: Seed, reports: Path) -> tuple[str, ...]:
    published, ours = [], []
    for number in seed.numbers:
        value = number.published
        found = number_at(value, reports) if isinstance(value, Place) else value
        if found is not None:
            published.append(_text(number, found))
        ours.append(_text(number, _ours(number, reports)))
    return (
        f"**{seed.item}** ([report](../reports/{seed.report}))",
        seed.shows,
        f"{'; '.join(published) or 'no number'} ({seed.source})",
        "; ".join(ours),
        f"`{seed.command}`",
        seed.why,
    )


def _ours(number: Number, reports: Path) -> float:
    value = number_at(number.ours, reports)
    return value if number.over is None else value / number_at(number.over, reports)


def _text(number: Number, value: float) -> str:
    return f"{number.name} {value:{number.form}}"
