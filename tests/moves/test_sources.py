"""The command on what it can be asked of: a replay's state, Slurm's answers; its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.checks.robustness import schedulers
from morph_opt.moves.cli import main
from morph_opt.replay.cli import main as replay
from tests.moves.states import HELD, document


@pytest.fixture
def state(tmp_path: Path) -> str:
    file = tmp_path / "state.json"
    file.write_text(json.dumps(document(HELD, {"new": 4})))
    return str(file)


def test_a_state_that_a_replay_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--trace naive --policy fifo --cluster 8x8:A800-80GB --until-s 3600 --dump-every 10"
    folder = tmp_path / "states"
    out = ["--dump-rounds", str(folder), "--out", str(tmp_path / "run"), "--quiet"]
    assert replay([*words.split(), *out]) == 0
    capsys.readouterr()
    written = [(file, json.loads(file.read_text())) for file in sorted(folder.glob("round-*.json"))]
    last, held = next(
        (file, job) for file, state in written[::-1] for job in state["jobs"] if job["running"]
    )
    node = held["running"]["nodes"][0]["node"]
    status = main(["--state", str(last), "--drain", node])
    out_, err = capsys.readouterr()
    assert (status, err) in ((0, ""), (1, ""))
    assert out_.startswith(f"empty {node}: ")
    status = main(["--state", str(last), "--drain", node, "--may-stop", "*"])
    out_, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert held["name"] in out_


def test_answers_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.json").write_bytes(schedulers.squeue()[0])
    Path("nodes.json").write_bytes(schedulers.slurm_nodes()[0])
    asked = ["--from", "slurm:jobs.json,nodes.json", "--format", "json"]
    assert main([*asked, "--slots", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["table"][0]["what"] == "1 GPU"
    assert main([*asked, "--start", "nobody"]) == 2
    assert "there is no job 'nobody'" in capsys.readouterr().err


def test_status_states_whether_there_is_an_answer(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state", state, "--start", "new"]) == 0
    assert main(["--state", state, "--start", "a4"]) == 0
    assert main(["--state", state, "--free", "1 node"]) == 1
    assert main(["--state", state, "--free", "1 node of b200"]) == 2
    capsys.readouterr()
    picture = tmp_path / "moves.svg"
    assert main(["--state", state, "--start", "new", "--picture", str(picture)]) == 0
    drawn = picture.read_bytes()
    assert b"before" in drawn
    assert b"new" in drawn
    assert main(["--state", state, "--start", "new", "--picture", str(picture)]) == 0
    assert picture.read_bytes() == drawn


def test_rules_of_a_file_hold(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[non_preemptible]]\njobs = ["?2"]\n')
    assert main(["--state", state, "--start", "new", "--rules", str(rules)]) == 1
    assert "impossible" in capsys.readouterr().out
