"""``--audit-rounds``: what is printed, recorded and refused, and that it finds what is wrong."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formulations.round.tables import NONE, Selection
from morph_opt.replay import cli
from morph_opt.replay.second_look import AUDITED, sample
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.policies import milp
from morph_opt.simulation.runs.write import PARTIAL

RUN = ["--trace", "tests.engine.toys:trace/6", "--cluster", "2x4", "--objective", "jct"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audited(folder: Path) -> list[dict[str, str]]:
    with (folder / AUDITED).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def test_a_sample_has_a_round_of_each_stretch_of_the_run() -> None:
    rounds = list(range(100, 1100))
    found = sorted(sample(rounds, 10, seed=3))
    assert [(one - 100) // 100 for one in found] == list(range(10))
    assert sample(rounds, 10, seed=3) == set(found) != sample(rounds, 10, seed=4)
    assert sample(rounds, 2000, seed=0) == sample(rounds, 1000, seed=0) == set(rounds)


def test_an_honest_run_agrees_and_the_record_says_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*RUN, "--out", "plain"]) == 0
    assert "audit" not in capsys.readouterr().out
    assert not (here / "plain" / AUDITED).exists()
    assert cli.main([*RUN, "--out", "run", "--audit-rounds", "7"]) == 0
    shown = capsys.readouterr()
    row = r"^rounds audited +7 +7 agree, 0 not settled, 0 disagree$"
    assert re.search(row, shown.out, re.MULTILINE)
    rounds = figures(here / "run")["rounds"]
    said = f"audit: 7 of {rounds} rounds solved again as exact MIPs by highs: 7 agree within"
    assert said in shown.err
    rows = audited(here / "run")
    assert [row["verdict"] for row in rows] == ["agrees"] * 7
    for row in rows:
        assert float(row["exact_value"]) == pytest.approx(float(row["value"]), rel=1e-4)
    assert figures(here / "run")["audited_agreeing"] == 7
    for name in ("events.jsonl", "jobs.csv"):
        assert (here / "run" / name).read_bytes() == (here / "plain" / name).read_bytes()


def without_last_start(problem: Any, solved: Solved) -> Solved:
    """Instead of `milp.completed`: drop the last job that starts, and claim the rest as optimal."""
    del problem
    assert solved.selection is not None
    choice = solved.selection.choice.copy()
    runs = np.flatnonzero(choice != NONE)
    if runs.size < 2:
        return solved
    choice[runs[-1]] = NONE
    nodes = tuple(() if job == runs[-1] else own for job, own in enumerate(solved.selection.nodes))
    poor = Selection(choice, nodes)
    values = [poor.value(level) for level in solved.levels]
    outcomes = tuple(
        replace(one, objective=value, bound=value, gap=0.0)
        for one, value in zip(solved.outcomes, values, strict=True)
    )
    return replace(solved, selection=poor, outcomes=outcomes)


def test_decisions_made_worse_on_purpose_are_an_error_with_round_and_values(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(milp, "completed", without_last_start)
    assert cli.main([*RUN, "--out", "run", "--quiet", "--audit-rounds", "5000"]) == 1
    shown = capsys.readouterr()
    wrong = [row for row in audited(here / "run") if row["verdict"] == "disagrees"]
    assert wrong
    assert figures(here / "run")["audited_disagreeing"] == len(wrong)
    assert figures(here / "run")["audited_rounds"] == figures(here / "run")["rounds"]
    for row in wrong:
        assert float(row["exact_value"]) > float(row["bound"])
        assert f"warning: round {row['round']} at" in shown.err
        assert f"jct {float(row['value']):.9g}" in shown.err
        assert f"exact MIP {float(row['exact_value']):.9g}" in shown.err
    assert "warning: audited rounds disagree with an exact MIP" in shown.err
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert cli.main(["--resume", "run", "--allow-code"]) == 1  # the record still says so


def test_a_record_that_claims_too_much_is_found_later(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished run is audited by --resume; its recorded values are what is compared."""
    assert cli.main([*RUN, "--out", "run"]) == 0
    assert cli.main(["--resume", "run", "--allow-code", "--audit-rounds", "5000"]) == 0
    rows = here / "run" / "rounds.csv"
    with rows.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    stated = next(row for row in lines if row["objective"])
    stated["objective"] = repr(1.5 * float(stated["objective"]))
    with rows.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(stated), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    capsys.readouterr()
    assert cli.main(["--resume", "run", "--allow-code", "--audit-rounds", "5000"]) == 1
    assert f"round {stated['round']} at" in capsys.readouterr().err


def test_an_interrupted_run_is_audited_over_all_its_rounds(here: Path) -> None:
    assert cli.main([*RUN, "--out", "run"]) == 0
    for name in ("jobs.csv", "summary.json"):
        (here / "run" / name).unlink()
    for name in ("rounds.csv", "events.jsonl"):
        lines = (here / "run" / name).read_text().splitlines(keepends=True)
        (here / "run" / name).unlink()
        (here / "run" / (name + PARTIAL)).write_text("".join(lines[: len(lines) // 2]))
    assert cli.main(["--resume", "run", "--allow-code", "--audit-rounds", "5000"]) == 0
    found = figures(here / "run")
    assert found["audited_agreeing"] == found["audited_rounds"] == found["rounds"]


def test_rounds_cut_by_the_clock_are_no_disagreement(here: Path) -> None:
    words = [*RUN, "--time-limit-s", "0", "--out", "run", "--audit-rounds", "5000"]
    assert cli.main(words) in (0, 1)  # rounds may fall back
    found = figures(here / "run")
    assert found["audited_disagreeing"] == 0
    assert found["audited_agreeing"] + found["audited_open"] == found["rounds"]


@pytest.mark.parametrize("out", ["new", "old"])
def test_policies_that_solve_no_rounds_are_refused(
    out: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["--trace", "tests.engine.toys:trace", "--policy", "srtf", "--cluster", "2x4"]
    if out == "old":
        assert cli.main([*plain, "--out", "old"]) == 0
        plain = ["--resume", "old", "--allow-code"]
    capsys.readouterr()
    assert cli.main([*plain, "--audit-rounds", "3"]) == 2
    assert "needs a policy that solves rounds (milp)" in capsys.readouterr().err
    assert not (here / "new").exists()
    assert not (here / "old" / AUDITED).exists()
