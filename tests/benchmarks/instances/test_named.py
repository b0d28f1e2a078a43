"""Every name that ``list`` shows can be solved, checked and written as MPS."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.instances.__main__ import main
from benchmarks.instances.certificates import SEEDED
from benchmarks.instances.fleets import FLEETS
from benchmarks.instances.library import TABLE, default_folder, load_mps, read_table
from benchmarks.instances.named import FOLDERS, every_name, named, require_stored, tables
from benchmarks.instances.solution import read_solution
from formulations.mps import to_mps
from morph_opt.core.domain import InputError

FOLDER = default_folder()
NAMES = every_name(FOLDER)
SAMPLE = [
    *(min(rows, key=lambda row: row.columns).name for rows in tables(FOLDER).values()),
    SEEDED[0].name,
    FLEETS[0].name,
]
"""Smallest instance of every kind."""


def test_the_list_shows_every_name_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if line.split()[:1] and line.split()[0] in NAMES] == (
        NAMES
    )
    assert len(set(NAMES)) == len(NAMES)
    assert set(tables(FOLDER)) == set(FOLDERS)
    assert {one.name for one in (*SEEDED, *FLEETS)} < set(NAMES)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith(("scaled", "fleet"))])
def test_every_stored_name_is_found_with_its_files(name: str) -> None:
    folder, row = require_stored(FOLDER, name)
    assert row.name == name
    for end in (".mps.xz", ".round.json.xz", ".sol"):
        assert (folder / f"{name}{end}").is_file()


@pytest.mark.parametrize("name", SAMPLE)
def test_instances_of_every_kind_are_solved_checked_and_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "found.sol"
    assert main(["solve", name, "--out", str(found), "--gap", "0.5"]) == 0
    assert "best known" in capsys.readouterr().out
    assert main(["check", name, str(found)]) == 0
    capsys.readouterr()
    lines = found.read_text().splitlines(keepends=True)
    assert len(lines) > 2
    found.write_text("".join([*lines[:1], f"{lines[1].split()[0]} 12345\n", *lines[2:]]))
    assert main(["check", name, str(found)]) == 1
    assert "claims" in capsys.readouterr().err
    assert main(["make", "--mps", "--only", name, "--out", str(tmp_path / "mps")]) == 0
    written = load_mps(tmp_path / "mps" / f"{name}.mps.xz")
    assert to_mps(written) == to_mps(named(FOLDER, name).model)


def test_the_solution_of_a_round_by_seed_reaches_its_certificate(tmp_path: Path) -> None:
    """The model of the round, in the unit of its goal, has the optimum of the certificate."""
    name, found = SEEDED[0].name, tmp_path / "found.sol"
    assert main(["solve", name, "--out", str(found), "--gap", "0"]) == 0
    known = named(FOLDER, name)
    point = read_solution(found, known.model)
    assert known.model.objective(point.x) == pytest.approx(known.best, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["make", "--mps"], "--mps: needs --out FOLDER and --only TEXT"),
        (["make", "--mps", "--out", "x", "--only", "nosuch"], "no instance has 'nosuch'"),
        (["solve", SEEDED[0].name, "--start"], "no solution of a round by seed is stored"),
        (["solve", "odd-lookahed-20n"], "did you mean 'odd-lookahead-20n'?"),
    ],
)
def test_wrong_uses_are_refused_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_library_without_further_folders_is_one(tmp_path: Path) -> None:
    (tmp_path / TABLE).write_bytes((FOLDER / TABLE).read_bytes())
    assert set(tables(tmp_path)) == {""}
    assert every_name(tmp_path) == [row.name for row in read_table(FOLDER)]
    with pytest.raises(InputError, match="shows the 35 that there are"):
        require_stored(tmp_path, "nosuch")
