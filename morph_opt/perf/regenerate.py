"""Regenerate the constants of the zoo from the public measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from morph_opt.perf.discrepancy import INDEPENDENT
from morph_opt.perf.fit import fit
from morph_opt.perf.modelfile import dump
from morph_opt.perf.population import population
from morph_opt.perf.public import inconsistent, read_tables
from morph_opt.perf.runs import Run
from morph_opt.perf.zoo import builtin_model

HEADER = "Constants and population: `python -m morph_opt.perf fit-zoo`; the rest by hand."


def consistent(runs: tuple[Run, ...]) -> list[Run]:
    """Runs without those that did not train the whole global batch (rule *scaling*)."""
    bad = {i for i, reason in inconsistent(runs).items() if reason.startswith("scaling")}
    return [run for index, run in enumerate(runs) if index not in bad]


def zoo_from(root: Path) -> str:
    """Text of ``zoo.toml`` with constants fitted to the tables under ``root``.

    Raises
    ------
    InputError
        If a table is missing or malformed.
    """
    zoo = builtin_model()
    tables = read_tables(root)
    runs = {name: consistent(table.runs) for name, table in tables.items()}
    entries = [
        replace(
            zoo.entry(name),
            constants=fit(tables[name].architecture, runs[name], scales=INDEPENDENT).constants,
        )
        for name in tables
    ]
    found = population([(tables[name].architecture, runs[name]) for name in tables])
    return dump(entries, found, HEADER)
