"""The committed library: every file is sound, and the commands say so."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances import checking
from benchmarks.instances.__main__ import main
from benchmarks.instances.checking import check_solution, choice_of, placed
from benchmarks.instances.library import (
    Instance,
    default_folder,
    load,
    load_best,
    load_round,
    read_table,
    write_table,
)
from benchmarks.instances.named import require_stored
from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.recheck import violated
from morph_opt.scheduling.solvers.registry import installed, make_solver

FOLDER = default_folder()
TABLE = read_table(FOLDER)
SMALL = [row for row in TABLE if row.columns <= 1500]


def name_of(instance: Instance) -> str:
    return instance.name


def test_library_covers_the_listed_kinds_of_rounds() -> None:
    assert 20 <= len(TABLE) <= 99
    assert min(row.gpus for row in TABLE) == 64
    assert max(row.gpus for row in TABLE) == 2048
    assert {"throughput", "jct"} <= {row.objective for row in TABLE}
    assert {"node_pattern", "node_assignment"} == {row.formulation for row in TABLE}
    assert any(row.running for row in TABLE)
    assert any(row.guaranteed for row in TABLE)
    assert min(row.load for row in TABLE) < 1.0 < max(row.load for row in TABLE)
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 5 * 2**20


def test_every_instance_file_has_a_row_in_the_table() -> None:
    named = {f"{row.name}{end}" for row in TABLE for end in (".mps.xz", ".round.json.xz", ".sol")}
    there = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert there == named | {"library.csv", "README.md"}


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_the_table_is_true_and_the_best_known_solution_a_good_schedule(
    row: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, problem = load(FOLDER, row.name), load_round(FOLDER, row.name)
    assert (model.rows, model.columns, model.nonzeros) == (row.rows, row.columns, row.nonzeros)
    assert model.integer.all()
    assert problem.jobs.count == row.jobs
    assert problem.candidates.count == row.candidates
    assert problem.nodes.count == row.nodes
    best = load_best(FOLDER, row.name, model)
    assert violated(model, best) == ""
    assert model.objective(best) == pytest.approx(row.best, rel=1e-9)
    assert row.bound >= row.best
    monkeypatch.setattr(checking, "load", lambda *_: model)  # reading is most of the time
    monkeypatch.setattr(checking, "load_round", lambda *_: problem)
    verdict = check_solution(FOLDER, row, FOLDER / f"{row.name}.sol")
    assert verdict.complaints == ()
    assert verdict.placeable
    assert not verdict.improves


@pytest.mark.parametrize("row", SMALL, ids=name_of)
def test_highs_finds_the_best_known_value(row: Instance) -> None:
    outcome = make_solver("highs").solve(load(FOLDER, row.name), Limits(gap=1e-4, time_s=600.0))
    if outcome.status is Status.OPTIMAL:
        assert outcome.objective >= row.best - 1e-4 * abs(row.best) - 1e-9
    assert outcome.objective <= row.bound + 1e-6 * max(1.0, abs(row.bound))
    assert outcome.bound >= row.best - 1e-6 * max(1.0, abs(row.best))


@pytest.mark.parametrize("name", installed())
def test_all_adapters_agree(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # first import of old bindings
        solver = make_solver(name)
    for row in SMALL:
        if row.columns > 500:
            continue
        outcome = solver.solve(load(FOLDER, row.name), Limits(gap=1e-3, time_s=600.0))
        slack = 1e-6 * max(1.0, abs(row.best))
        assert outcome.usable, f"{row.name}: {outcome}"
        assert outcome.objective <= row.bound + slack, row.name
        assert outcome.bound >= row.best - slack, row.name
        if outcome.status is Status.OPTIMAL:
            assert outcome.objective >= row.best - slack - 1e-3 * abs(outcome.objective), row.name


def running_instance() -> Instance:
    return next(row for row in TABLE if row.running and row.formulation == "node_pattern")


def test_the_checker_sees_a_broken_row(tmp_path: Path) -> None:
    row = running_instance()
    model = load(FOLDER, row.name)
    x = load_best(FOLDER, row.name, model)
    blocks = {block.family: block for block in model.column_blocks}
    x[blocks["x"].start : blocks["x"].start + blocks["x"].count] = 1.0
    path = tmp_path / "bad.sol"
    path.write_text("".join(f"{n} {v:g}\n" for n, v in zip(model.column_names(), x, strict=True)))
    verdict = check_solution(FOLDER, row, path)
    assert verdict.complaints[0].startswith("violates ")
    assert main(["check", row.name, str(path)]) == 1


def test_the_checker_sees_a_wrong_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = TABLE[0]
    text = (FOLDER / f"{row.name}.sol").read_text()
    path = tmp_path / "claim.sol"
    path.write_text(text.replace("=obj= -", "=obj= -1"))
    assert main(["check", row.name, str(path)]) == 1
    assert "claims an objective" in capsys.readouterr().err


def test_the_checker_knows_the_round_not_only_the_rows() -> None:
    row = running_instance()
    model, problem = load(FOLDER, row.name), load_round(FOLDER, row.name)
    everything = np.ones(model.columns)
    choice = choice_of(problem, model, everything)
    assert np.isin(problem.options.stays, choice).sum() == row.running
    # All jobs at once do not fit, whatever the model's rows say.
    assert placed(problem, choice) is None


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = TABLE[0]
    assert main(["list"]) == 0
    assert row.name in capsys.readouterr().out
    path = tmp_path / "found.sol"
    assert main(["solve", row.name, "--out", str(path), "--gap", "0"]) == 0
    assert "status     optimal" in capsys.readouterr().out
    assert main(["check", row.name, str(path)]) == 0
    assert "objective" in capsys.readouterr().out
    assert main(["solve", row.name, "--start"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "nosuch"], "unknown instance 'nosuch'"),
        (["solve", TABLE[0].name, "--solver", "cplex"], "unknown solver 'cplex'; installed are"),
        (["solve", TABLE[0].name, "--gap", "-1"], "--gap: must be a number from 0 to 1, got '-1'"),
        (["check", TABLE[0].name, "nosuch.sol"], "nosuch.sol: cannot be read"),
        (["list", "--folder", "nosuch"], "library.csv: cannot be read"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_damaged_instance_is_named_by_line_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = TABLE[0]
    write_table(tmp_path, [row])
    (tmp_path / f"{row.name}.mps.xz").write_bytes(b"no archive")
    assert main(["solve", row.name, "--folder", str(tmp_path)]) == 2
    assert f"{row.name}.mps.xz: is damaged" in (capsys.readouterr().err)
    (tmp_path / f"{row.name}.round.json.xz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"round\.json"):
        load_round(tmp_path, row.name)


def test_a_damaged_table_is_named_by_line_and_field(tmp_path: Path) -> None:
    write_table(tmp_path, TABLE[:2])
    assert read_table(tmp_path) == tuple(sorted(TABLE[:2], key=lambda r: (r.gpus, r.name)))
    path = tmp_path / "library.csv"
    good = path.read_text()
    path.write_text(good.replace(",64,", ",many,", 1))
    with pytest.raises(InputError, match=r"line 2, gpus: must be a whole number, got 'many'"):
        read_table(tmp_path)
    path.write_text(good.replace("name,source", "name", 1))
    with pytest.raises(InputError, match="line 1"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="unknown instance"):
        require_stored(FOLDER, "nosuch")
