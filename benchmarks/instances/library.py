"""The library on disk: per instance a model, a round, a solution, and one row of a table.

``NAME.mps.xz`` is the MILP, ``NAME.round.json.xz`` the round that it came from, ``NAME.sol`` the
best solution known, ``library.csv`` the table of features and best-known values.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.instances.mps_reader import MpsError, from_mps
from benchmarks.instances.round_json import RoundJsonError, from_json
from benchmarks.instances.solution import read_solution
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from formulations.round.tables import RoundProblem
from morph_opt.core.documents import (
    JSON_BYTES,
    LINES_BYTES,
    Row,
    parse_json,
    read_rows,
    read_text,
    write_atomically,
)
from morph_opt.core.domain import InputError

TABLE, SUMS = "library.csv", "SHA256SUMS"

MINIMISED = ("best", "bound")
"""Columns that the table has in the sense of the MPS files: negated, and minimised."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A row of the table.

    Parameters
    ----------
    name
        Key and stem of the files.
    source
        How the round came about: trace and seeds, policy, round number.
    objective, formulation
        Words of the command line.
    gpus, nodes
        Of the cluster.
    jobs, running, guaranteed
        Active jobs, those that hold GPUs, those with a guarantee.
    load
        GPUs requested by all active jobs over the GPUs of the cluster.
    candidates, rows, columns, nonzeros
        Size of round and model; all columns are integer.
    best, bound
        Maximised objective of the best-known solution, and the best proven upper bound on it.
    proof
        What proved the bound: solver and gap.
    """

    name: str
    source: str
    objective: str
    formulation: str
    gpus: int
    nodes: int
    jobs: int
    running: int
    guaranteed: int
    load: float
    candidates: int
    rows: int
    columns: int
    nonzeros: int
    best: float
    bound: float
    proof: str

    @property
    def size_class(self) -> str:
        """``"<= 64 GPUs"``, ``"<= 256 GPUs"``, ``"<= 1024 GPUs"`` or ``"> 1024 GPUs"``."""
        for limit in (64, 256, 1024):
            if self.gpus <= limit:
                return f"<= {limit} GPUs"
        return "> 1024 GPUs"

    @property
    def words(self) -> str:
        """Line of a log: size, best value and bound in the sense of the files, and the proof."""
        return (
            f"{self.name}: {self.jobs} jobs, {self.columns} columns, "
            f"best {-self.best:.6g}, bound {-self.bound:.6g} ({self.proof})"
        )


def default_folder() -> Path:
    """``instances/`` of the checkout, or ``$MORPH_OPT_INSTANCES``.

    Raises
    ------
    InputError
        If there is neither.
    """
    named = os.environ.get("MORPH_OPT_INSTANCES")
    if named:
        return Path(named)
    folder = Path(__file__).resolve().parents[2] / "instances"
    if not (folder / TABLE).is_file():
        raise InputError(
            "no instance library here: work in a checkout, set MORPH_OPT_INSTANCES, or build one",
            file=str(folder / TABLE),
        )
    return folder


def read_table(folder: Path) -> tuple[Instance, ...]:
    """All rows of ``library.csv``.

    Raises
    ------
    InputError
        If the table is missing or damaged; it names line and field.
    """
    path = folder / TABLE
    wanted = [field.name for field in fields(Instance)]
    return tuple(_row(row) for row in read_rows(path, wanted))


def _row(row: Row) -> Instance:
    values: dict[str, object] = {}
    for field in fields(Instance):
        text, kind = row.cells[field.name], str(field.type)
        if kind == "float":
            value = row.number(field.name, at_least=-math.inf)
            values[field.name] = -value if field.name in MINIMISED else value
        else:
            values[field.name] = row.integer(field.name, at_least=0) if kind == "int" else text
    return Instance(**values)  # type: ignore[arg-type]  # each was just converted to its type


def write_table(folder: Path, rows: Iterable[Instance]) -> None:
    """Write ``library.csv``, sorted by GPUs and name."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(Instance)], lineterminator="\n")
    writer.writeheader()
    for row in sorted(rows, key=lambda instance: (instance.gpus, instance.name)):
        values = asdict(row)
        writer.writerow(values | {name: -values[name] for name in MINIMISED})
    write_atomically(folder / TABLE, text.getvalue())


def write_sums(folder: Path) -> None:
    """Write ``SHA256SUMS`` of a folder's data, for ``sha256sum --check``."""
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums_of(folder).items())]
    write_atomically(folder / SUMS, "".join(lines))


def sums_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder by name, but for pages and ``SHA256SUMS``."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != SUMS and path.suffix != ".md"
    }


def read_sums(folder: Path) -> dict[str, str]:
    """Return the checksums of ``SHA256SUMS`` by file name.

    Raises
    ------
    InputError
        If the file is missing or a line is damaged.
    """
    path = folder / SUMS
    found = {}
    for at, line in enumerate(read_text(path, LINES_BYTES).splitlines(), start=1):
        digest, gap, name = line.partition("  ")
        if not (gap and name and re.fullmatch("[0-9a-f]{64}", digest)):
            raise InputError("must be a checksum, two spaces and a name", file=str(path), line=at)
        found[name] = digest
    return found


def load(folder: Path, name: str) -> LinearModel:
    """Model of an instance.

    Raises
    ------
    InputError
        If the file is missing or damaged; it names line and reason.
    """
    return load_mps(folder / f"{name}.mps.xz")


def load_mps(path: Path) -> LinearModel:
    """Model of an MPS file, with errors as `InputError`."""
    text = read_text(path, LINES_BYTES)
    try:
        return from_mps(text)
    except MpsError as error:
        raise InputError(error.reason, file=str(path), line=error.line) from error


def load_round(folder: Path, name: str) -> RoundProblem:
    """Round of an instance, with errors as `InputError`."""
    path = folder / f"{name}.round.json.xz"
    text = read_text(path, JSON_BYTES)
    parse_json(text, str(path))  # its limits; the mathematics reads plain JSON
    try:
        return from_json(text)
    except RoundJsonError as error:
        raise InputError(str(error), file=str(path)) from error


def load_best(folder: Path, name: str, model: LinearModel) -> Floats:
    """Best-known solution of an instance, shape (columns,)."""
    return read_solution(folder / f"{name}.sol", model).x
