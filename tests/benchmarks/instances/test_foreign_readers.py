"""Any solver reads the files: those that are no part of this project, where they are installed."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances.library import default_folder, load, read_table
from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.core.documents.model import write_model
from tests.solvers import models
from tests.waiting import PATIENCE_S

READERS = {
    "glpsol": (["--freemps", "{file}", "-o", "{out}"], r"Objective: +\S+ = (\S+) \(MINimum\)"),
    "cbc": (["{file}", "solve", "solution", "{out}"], r"Objective value: +(\S+)"),
    "lp_solve": (["-fmps", "{file}", "-e", "1e-7"], r"Value of objective function: +(\S+)"),
}
FOLDER = default_folder()
TABLE = read_table(FOLDER)
SMALL = [row for row in TABLE if row.columns <= 250]


def minimum(reader: str, model: LinearModel, folder: Path) -> float:
    """What a foreign command says the smallest objective of the file is."""
    command = shutil.which(reader)
    if command is None:
        pytest.skip(f"{reader} is not installed")
    words, pattern = READERS[reader]
    file, out = folder / "model.mps", folder / "out.txt"
    write_model(model, file)
    arguments = [word.format(file=file, out=out) for word in words]
    ran = subprocess.run(
        [command, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    said = ran.stdout + (out.read_text() if out.is_file() else "")
    found = re.findall(pattern, said)
    assert found, said
    return float(found[-1])


@pytest.mark.parametrize("reader", READERS)
def test_foreign_solvers_find_the_best_known_values(reader: str, tmp_path: Path) -> None:
    for row in SMALL:
        found = minimum(reader, load(FOLDER, row.name), tmp_path)
        assert found == pytest.approx(-row.best, rel=1e-6), row.name


@pytest.mark.parametrize("reader", READERS)
def test_foreign_solvers_read_every_kind_of_row_bound_and_constant(
    reader: str, tmp_path: Path
) -> None:
    """An optimum by hand: 2 a + b - c + 7 with a <= 2.5, integer b in -3..4 and a + b <= 5.5.

    c is at least -1.5 and at most 9, 1 <= c + b <= 8 asks c >= 1 - b: with b = 4, c = -1.5 and
    a = 1.5 it is 3 + 4 + 1.5 + 7 = 15.5; with b = 3, c = -1.5, a = 2.5: 5 + 3 + 1.5 + 7 = 16.5.
    """
    builder = ModelBuilder("by hand")
    builder.add_columns("a", np.zeros((1, 1), int), 2.5, integer=False)
    builder.add_columns("b", np.zeros((1, 1), int), 4.0, lower=-3.0)
    builder.add_columns("c", np.zeros((1, 1), int), 9.0, lower=-1.5, integer=False)
    builder.add_rows(
        "row",
        np.arange(2)[:, None],
        np.asarray([-np.inf, 1.0]),
        np.asarray([5.5, 8.0]),
        [(np.asarray([0, 0, 1, 1]), np.asarray([0, 1, 1, 2]), np.ones(4))],
    )
    model = builder.build(np.asarray([2.0, 1.0, -1.0]), 7.0)
    assert minimum(reader, model, tmp_path) == pytest.approx(-16.5)


# lp_solve reads these models right (its -wlp shows them) and calls worse points optimal.
@pytest.mark.parametrize("reader", ["glpsol", "cbc"])
def test_foreign_solvers_agree_with_brute_force(reader: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    for _ in range(15):
        model = models.random_small(draw)
        best = models.brute_force(model)
        if best is not None:
            assert minimum(reader, model, tmp_path) == pytest.approx(-best, abs=1e-6)


def test_no_two_instances_are_the_same() -> None:
    for suffix in (".mps.xz", ".round.json.xz"):
        rounds = {
            (
                row.formulation,
                hashlib.sha256((FOLDER / f"{row.name}{suffix}").read_bytes()).digest(),
            )
            for row in TABLE
        }
        assert len(rounds) == len(TABLE), suffix
