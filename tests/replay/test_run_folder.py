"""Run folder: files, interruption at every point, damage."""

from __future__ import annotations

import csv
import json
import shutil
import tomllib
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.replay import cli
from morph_opt.scheduling.policies.base import Policy
from morph_opt.simulation.events.log import EndReason, RoundDecided, event_from_line
from morph_opt.simulation.runs.rounds import COLUMNS, row_from_line, row_to_line
from morph_opt.simulation.runs.summary import KEYS
from morph_opt.simulation.runs.write import RunWriter, create_folder, require_free
from tests.engine.toys import make_shuffler

COMMAND = ["--trace", "tests.engine.toys:trace/14", "--policy", "tests.engine.toys:make_shuffler"]
COMMAND += ["--cluster", "2x4", "--restart-s", "30", "--lost-work", "5", "--quiet"]
COMMAND += ["--mtbf-s", "4000", "--mttr-s", "300", "--seed", "3"]
FILES = {"config.toml", "versions.json", "jobs.csv", "rounds.csv", "events.jsonl", "summary.json"}
SAME = ("config.toml", "versions.json", "jobs.csv", "groups.csv", "events.jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert cli.main([*COMMAND, "--out", str(folder)]) == 0
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def interrupted(whole: Path, folder: Path, events_bytes: int, rows: int) -> None:
    """What a kill leaves behind after so many bytes of events and rows of rounds."""
    folder.mkdir()
    for name in ("config.toml", "versions.json"):
        shutil.copy(whole / name, folder / name)
    events = (whole / "events.jsonl").read_bytes()
    (folder / "events.jsonl.partial").write_bytes(events[:events_bytes])
    lines = (whole / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv.partial").write_text("".join(lines[: rows + 1]))


def assert_same(folder: Path, whole: Path) -> None:
    assert names(folder) == names(whole)
    assert names(whole) - {"groups.csv"} == FILES
    for name in names(whole).intersection(SAME):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    mine, theirs = (
        [line.split(",")[:18] for line in (f / "rounds.csv").read_text().splitlines()]
        for f in (folder, whole)
    )
    assert mine == theirs


def test_files_of_a_run(whole: Path) -> None:
    assert names(whole) == FILES
    summary = json.loads((whole / "summary.json").read_text())
    assert tuple(summary)[: len(KEYS)] == KEYS
    assert not any(isinstance(value, dict | list) for value in summary.values())
    config = tomllib.loads((whole / "config.toml").read_text())
    assert config["engine"]["restart_s"] == 30.0
    assert config["workload"]["sha256"] == summary["trace_sha256"]
    with (whole / "jobs.csv").open() as file:
        jobs = list(csv.DictReader(file))
    assert len(jobs) == summary["jobs"] == 14
    for row in jobs:
        wait, run = float(row["queued_s"]), float(row["held_s"])
        assert float(row["jct_s"]) == pytest.approx(wait + run)
        assert float(row["finish_s"]) - float(row["submission_s"]) == pytest.approx(
            float(row["jct_s"])
        )
        assert row["state"] == "completed"
    with (whole / "rounds.csv").open() as file:
        rounds = list(csv.DictReader(file))
    assert len(rounds) == summary["rounds"]
    assert max(int(row["gpus_used"]) for row in rounds) <= 8
    assert sum(int(row["starts"]) for row in rounds) == 14


def test_no_wall_time_in_the_deterministic_files(whole: Path) -> None:
    for name in ("jobs.csv", "events.jsonl"):
        text = (whole / name).read_text()
        assert "_ms" not in text
        assert "wall" not in text


def test_rerun_gives_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert cli.main([*COMMAND, "--out", str(again)]) == 0
    assert_same(again, whole)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.37, 0.5, 0.83, 0.999, 1.0])
@pytest.mark.parametrize("ahead", [0, 1])
def test_resume_from_any_byte(whole: Path, tmp_path: Path, share: float, ahead: int) -> None:
    """Torn lines, torn rounds, a row of rounds.csv without its events: all the same."""
    events = (whole / "events.jsonl").read_bytes()
    cut = int(share * len(events))
    decided = events[:cut].count(b'{"event":"round"')
    folder = tmp_path / "run"
    interrupted(whole, folder, cut, decided + ahead)
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 0
    assert_same(folder, whole)


def test_resume_with_fewer_rows_than_rounds(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted(whole, folder, len((whole / "events.jsonl").read_bytes()) // 2, 5)
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 0
    assert_same(folder, whole)


def test_resume_after_a_kill_between_the_last_renames(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "events.jsonl").rename(folder / "events.jsonl.partial")
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 0
    assert_same(folder, whole)


def test_resume_of_a_complete_run_changes_nothing(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p.name: p.read_bytes() for p in whole.iterdir()}
    assert cli.main(["--resume", str(whole), "--allow-code"]) == 0
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == before
    captured = capsys.readouterr()
    assert "complete already" in captured.err
    assert "average JCT" in captured.out


def test_recorded_decisions_are_taken_not_decided_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a decision that depended on the wall clock survives a resume."""
    folder = tmp_path / "run"
    size = len((whole / "events.jsonl").read_bytes())
    interrupted(whole, folder, size // 2, 10_000)
    asked: list[int] = []

    class Spy(Policy):
        name = "shuffler"

        def __init__(self) -> None:
            self._inner = make_shuffler(None, None)

        def decide(self, state):  # type: ignore[no-untyped-def]
            asked.append(state.index)
            return self._inner.decide(state)

    monkeypatch.setattr("tests.engine.toys.make_shuffler", lambda *_: Spy())
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 0
    assert_same(folder, whole)
    kept = (whole / "events.jsonl").read_bytes()[: size // 2].splitlines()[:-1]
    decided = [e for e in map(event_from_line, map(bytes.decode, kept)) if type(e) is RoundDecided]
    assert min(asked) == decided[-1].index + 1


def spoil(path: Path, line: int, old: str, new: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("name", "line", "old", "new", "message"),
    [
        ("events.jsonl.partial", 1, '"jobs":14', '"jobs":15', "line 1: does not follow"),
        ("events.jsonl.partial", 1, '"version":1', '"version":9', "line 1: log version 9"),
        ("events.jsonl.partial", 2, '"event"', '"evnt"', "line 2: is not an event"),
        ("events.jsonl.partial", 2, '"time_s":', '"time_s":1', "line 2: does not follow"),
        ("events.jsonl.partial", 2, "{", "", "line 2: is not an event"),
        ("rounds.csv.partial", 1, "round", "rund", "line 1: has no such header"),
        ("rounds.csv.partial", 3, ",", ",,", "line 3: must have"),
        ("config.toml", 1, "2", "1", "version: must be 2, got 1"),
        ("config.toml", 3, "[workload]", "[work]", "work: unknown field"),
        ("config.toml", 4, '"', "", "is not TOML"),
    ],
)
def test_damaged_run_folders_are_refused_in_one_line(
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    line: int,
    old: str,
    new: str,
    message: str,
) -> None:
    folder = tmp_path / "run"
    interrupted(whole, folder, len((whole / "events.jsonl").read_bytes()) // 2, 10_000)
    spoil(folder / name, line, old, new)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{folder / name}" in err
    assert message in err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["config.toml", "events.jsonl.partial", "rounds.csv.partial"])
def test_missing_file_on_resume(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / "run"
    interrupted(whole, folder, 2000, 10)
    (folder / name).unlink()
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert name in err


@pytest.mark.parametrize("text", ["", "{}", "[", '{"trace": "x"}'])
def test_damaged_summary_of_a_complete_run(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "summary.json").write_text(text)
    assert cli.main(["--resume", str(folder), "--allow-code"]) == 2
    assert "summary.json" in capsys.readouterr().err


def test_a_folder_that_is_being_written_cannot_be_resumed(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    interrupted(whole, folder, 2000, 10_000)
    writer = RunWriter(folder)
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 2
    assert "another process" in capsys.readouterr().err
    writer.close()
    assert cli.main(["--resume", str(folder), "--allow-code", "--quiet"]) == 0


def test_a_violation_leaves_the_log_without_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    breaker = [word.replace("make_shuffler", "make_breaker") for word in COMMAND]
    command = [*breaker, "--out", str(folder)]
    assert cli.main(command) == 1
    err = capsys.readouterr().err
    assert "one_holder: node node-0" in err
    assert err.count("\n") == 1
    assert "summary.json" not in names(folder)


@pytest.mark.parametrize("name", ["jobs.csv", "summary.json", "rounds.csv", "events.jsonl"])
def test_unwritable_results_are_refused_before_the_first_round(name: str, tmp_path: Path) -> None:
    """Else a run would be replayed to its end, fail there, and fail again whenever resumed."""
    folder = tmp_path / "run"
    create_folder(folder, {})
    (folder / name).mkdir()
    with pytest.raises(InputError, match=rf"{name}: cannot be written \(it is a folder\)"):
        RunWriter(folder)


def test_create_folder_is_all_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        create_folder(tmp_path / "run", {"no/such/folder": "x"})
    assert list(tmp_path.iterdir()) == []
    create_folder(tmp_path / "run", {"config.toml": "x"})
    assert names(tmp_path / "run") == {"config.toml", "events.jsonl.partial", "rounds.csv.partial"}
    with pytest.raises(InputError, match="not empty"):
        require_free(tmp_path / "run")
    write_atomically(tmp_path / "file", "x")
    with pytest.raises(InputError, match="is a file"):
        require_free(tmp_path / "file")


def test_rows_read_back(whole: Path) -> None:
    lines = (whole / "rounds.csv").read_text().splitlines(keepends=True)
    assert lines[0].strip().split(",") == list(COLUMNS)
    for line in lines[1:]:
        assert row_to_line(row_from_line(line)) == line
    with pytest.raises(InputError, match="round: got 'x'"):
        row_from_line(lines[1].replace(lines[1].split(",")[0], "x", 1))


def test_last_event(whole: Path) -> None:
    last = event_from_line((whole / "events.jsonl").read_text().splitlines()[-1])
    assert getattr(last, "reason", None) is EndReason.COMPLETE


def test_settings_that_the_policy_does_not_follow_are_in_the_folder(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("PriorityType=priority/multifactor\nPriorityWeightTRES=GRES/gpu=9\n")
    told = {"durations": "limits:modal", "skip_impossible": True}
    run = mo.Scenario("naive", policy=f"slurm:{conf}").replaced(**told).run(tmp_path / "slurm")
    assert run.summary.completed == 10
    text = (tmp_path / "slurm" / "notes.txt").read_text("utf-8")
    assert text.startswith("slurm: not modelled, and left out: ")
    assert "PriorityWeightTRES" in text
    mo.Scenario("naive", policy="fifo").run(tmp_path / "fifo")
    assert not (tmp_path / "fifo" / "notes.txt").exists()
