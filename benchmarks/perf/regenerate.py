"""Regenerate the constants of the zoo from the public measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.perf.complete import fit_complete
from benchmarks.perf.population import population
from benchmarks.perf.public import Table, inconsistent, read_tables
from morph_opt.inputs.perf.analytic.model import ModelEntry
from morph_opt.inputs.perf.analytic.modelfile import dump
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.runs import Run

HEADER = "Constants and population: `python -m benchmarks.perf fit-zoo`; the rest by hand."


def consistent(runs: tuple[Run, ...]) -> list[Run]:
    """Runs without those that did not train the whole global batch (rule *scaling*)."""
    bad = {i for i, reason in inconsistent(runs).items() if reason.startswith("scaling")}
    return [run for index, run in enumerate(runs) if index not in bad]


def entries_from(tables: Mapping[str, Table]) -> list[ModelEntry]:
    """The zoo's entries with constants fitted to the tables."""
    zoo = builtin_model()
    return [
        replace(
            zoo.entry(name),
            constants=fit_complete(table.architecture, consistent(table.runs)).constants,
        )
        for name, table in tables.items()
    ]


def zoo_from(root: Path) -> str:
    """Text of ``zoo.toml`` from the tables under ``root``.

    Raises
    ------
    InputError
        If a table is missing or malformed.
    """
    tables = read_tables(root)
    found = population([(t.architecture, consistent(t.runs)) for t in tables.values()])
    return dump(entries_from(tables), found, HEADER)
