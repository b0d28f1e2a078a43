"""Lookup of instances by name: stored ones in every folder of the library, and those by seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.instances.certificates import FOLDER as BOUNDS
from benchmarks.instances.certificates import (
    SEEDED,
    Certificate,
    Seeded,
    read_certificate,
    seeded,
    tables_of,
)
from benchmarks.instances.fleets import FLEETS, Fleet, fleet_named, read_fleet_certificate
from benchmarks.instances.fleets import FOLDER as FLEET_FOLDER
from benchmarks.instances.hard import FOLDER as HARD_FOLDER
from benchmarks.instances.library import TABLE, Instance, load, load_round, read_table
from benchmarks.instances.series import FOLDER as SERIES_FOLDER
from formulations import node_pattern
from formulations.linear_model import LinearModel
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean

FOLDERS = ("", HARD_FOLDER, SERIES_FOLDER)
"""Folders with a table of stored instances, in the order of the list."""


@dataclass(frozen=True, slots=True)
class Named:
    """An instance of any kind.

    Parameters
    ----------
    model
        Its MILP.
    best, bound
        Best value known and best proven bound, both maximised.
    problem
        Round that a solution is checked against; None for a fleet, which has a check of its own.
    solution
        File of the best solution known; None if none is stored.
    """

    model: LinearModel
    best: float
    bound: float
    problem: RoundProblem | None
    solution: Path | None


def tables(folder: Path) -> dict[str, tuple[Instance, ...]]:
    """Return the rows of every table of a library by folder; the first table must be there."""
    return {
        name: read_table(folder / name)
        for name in FOLDERS
        if not name or (folder / name / TABLE).is_file()
    }


def stored(folder: Path, name: str) -> tuple[Path, Instance] | None:
    """Return the folder and row of a stored instance; None if none has the name."""
    for own, rows in tables(folder).items():
        for row in rows:
            if row.name == name:
                return folder / own, row
    return None


def require_stored(folder: Path, name: str) -> tuple[Path, Instance]:
    """Return the folder and row of a stored instance.

    Raises
    ------
    InputError
        If none has the name; it names the nearest of all that ``list`` shows.
    """
    found = stored(folder, name)
    if found is None:
        names = every_name(folder)
        hint = did_you_mean(name, names)
        raise InputError(
            f"unknown instance {name!r}{hint}; "
            f"python -m benchmarks.instances list shows the {len(names)} that there are",
            field="INSTANCE",
        )
    return found


def every_name(folder: Path) -> list[str]:
    """Return the names that ``list`` shows, in its order."""
    return [
        *(row.name for rows in tables(folder).values() for row in rows),
        *(one.name for one in SEEDED if (folder / BOUNDS / f"{one.name}.json").is_file()),
        *(one.name for one in FLEETS if (folder / FLEET_FOLDER / f"{one.name}.json").is_file()),
    ]


def certificate(folder: Path, one: Seeded) -> Certificate:
    """Return the stored certificate of a round by seed.

    Raises
    ------
    InputError
        If the file is missing, damaged, or of another round.
    """
    path = folder / BOUNDS / f"{one.name}.json"
    found = read_certificate(path)
    if found.instance != one.name:
        rule = f"must be {one.name!r}, got {found.instance!r}"
        raise InputError(rule, file=str(path), field="instance")
    return found


def seeded_model(problem_of: Seeded) -> tuple[RoundProblem, LinearModel]:
    """Return a round by seed and its MILP, with every candidate and in the unit of its goal."""
    problem, level = tables_of(problem_of)
    return problem, node_pattern.build(problem, level).model


def named(folder: Path, name: str) -> Named:
    """Return the instance of a name.

    Raises
    ------
    InputError
        If none has it, or a file is missing or damaged.
    """
    one, fleet = seeded(name), fleet_named(name)
    if one is not None:
        known = certificate(folder, one)
        problem, model = seeded_model(one)
        return Named(model, known.best, known.least, problem, None)
    if fleet is not None:
        return _fleet(folder / FLEET_FOLDER, fleet)
    own, row = require_stored(folder, name)
    solution = own / f"{name}.sol"
    return Named(load(own, name), row.best, row.bound, load_round(own, name), solution)


def _fleet(folder: Path, one: Fleet) -> Named:
    found = read_fleet_certificate(folder / f"{one.name}.json")
    solution = folder / f"{one.name}.sol"
    return Named(load(folder, one.name), -found.best, -found.bound, None, solution)
