"""The command line, with Slurm's commands as small scripts that print what a fake one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morph_opt.live.cli import main
from tests.live.fake import FakeSlurm

PARTS = ("observe", "advise")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's commands on the path, a cluster with jobs that wait, and settings."""
    fake = FakeSlurm(1)
    for seconds in (300, 50, 20):
        fake.submit(8, float(seconds), f"morph checkpoint seconds={seconds}")
    fake.advance(2.0)
    said = {
        "squeue": fake(("squeue", "--json"), 1.0),
        "sinfo": fake(("sinfo", "--json"), 1.0),
        "scontrol": fake(("scontrol", "show", "config"), 1.0),
    }
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in said.items():
        (bin_ / f"{name}.out").write_text(text)
        refuse = 'case "$*" in *nodes*) echo invalid option >&2; exit 1;; esac\n'
        (bin_ / name).write_text(f"#!/bin/sh\n{refuse}/bin/cat {bin_}/{name}.out\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_))
    (tmp_path / "live.toml").write_text('partitions = ["gpu"]\npoll_s = 0.05\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("word", PARTS)
def test_looking(site: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word, "--config", "live.toml", "--folder", "out", "--turns", "1", "--watch"]
    assert main([*words, "--objective", "jct", "--belief", "measured"]) == 0
    assert f"turn 0 of {word} on fake" in capsys.readouterr().out
    begun, turn = map(json.loads, (site / "out/audit.jsonl").read_text().splitlines())
    assert (begun["policy"], begun["options"]["objective"]) == ("milp", "jct")
    assert {record["outcome"] for record in turn["commands"]} == {"would"}
    assert (site / "out/commands.txt").exists() is (word == "advise")
    assert "morph_opt_live_free_gpus 0" in (site / "out/metrics.prom").read_text()


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_refusals_are_one_line(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    act = ["act", "--config", "live.toml", "--folder", "out"]
    assert "--yes: is needed" in refused(act, capsys)
    assert "must name powers" in refused([*act, "--yes"], capsys)
    Path("live.toml").write_text('partitions = ["gpu"]\npowers = ["placement"]\n')
    assert "0 of 20 turns were observed" in refused([*act, "--yes"], capsys)
    assert "is needed" in refused(["release-all", *act[1:]], capsys)
    assert main(["release-all", *act[1:], "--yes"]) == 0
    assert "0 jobs given back" in capsys.readouterr().out
    assert main(["release-all", *act[1:], "--yes", "--older-than", "5"]) == 0
    assert "0 jobs given back" in capsys.readouterr().out
    (site / "bin/scontrol").unlink()
    observe = ["observe", *act[1:], "--turns", "1"]
    assert "scontrol: is not on this machine" in refused(observe, capsys)


def test_the_run_of_a_log(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", "live.toml", "--folder", "out", "--turns", "1"]
    assert main(["observe", *words]) == 0
    assert main(["replay", "out/audit.jsonl", "--out", "run"]) == 0
    assert (site / "run/summary.json").exists()
    assert "not empty" in refused(["replay", "out/audit.jsonl", "--out", "run"], capsys)
