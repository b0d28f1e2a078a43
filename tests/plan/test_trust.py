"""What precedes the answer on a log: its hindcast, and what policies know of run times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt import plan
from morph_opt.core.domain import InputError
from morph_opt.plan.cli import main
from morph_opt.plan.site import Noise, Site
from tests.hindcast.test_hindcast import instant
from tests.sweep import inline
from tests.sweep.inline import run_cells_here

HEAD = (
    "JobID|User|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|NNodes|AllocTRES"
)
DAY_S = 86_400


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells are run at once, in this process; the keys that ran."""
    monkeypatch.chdir(tmp_path)
    return run_cells_here(monkeypatch, tmp_path)


def log(limits: Sequence[int | None] = (20,)) -> str:
    """Write three days, each with jobs of a whole node that wait for each other, and a last job."""
    rows, free_s = [], 0
    for number in range(13):
        day, nth = divmod(number, 4)
        submit_s, run_s = day * DAY_S + 60 * nth, 600 + 60 * (number % 3)
        start_s = max(submit_s, free_s)
        free_s = start_s + run_s
        limit = limits[number % len(limits)]
        submitted = instant(submit_s)
        rows.append(
            f"{number}|ada|gpu|{submitted}|{submitted}|{instant(start_s)}|{instant(free_s)}|{run_s}|"
            f"{'UNLIMITED' if limit is None else limit}|COMPLETED|1|gres/gpu=4,node=1"
        )
    Path("jobs.txt").write_text("\n".join([HEAD, *rows]) + "\n")
    return "sacct:jobs.txt"


def without_starts() -> str:
    rows = [f"2024-05-0{1 + n // 4} 0{n % 4}:00:00,4,600" for n in range(13)]
    Path("jobs.csv").write_text("\n".join(["submit,gpus,duration", *rows]) + "\n")
    return "table:jobs.csv"


SITE = [
    "--cluster",
    "1x4:A100-80GB",
    "--seeds",
    "2",
    "--no-noise",
    *inline.ON,
    "--quiet",
]


def compare(trace: str, *words: str) -> list[str]:
    return ["compare", "--trace", trace, *SITE, *words]


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(words) == 0
    return capsys.readouterr().out.splitlines()


def test_the_hindcast_comes_first_and_limits_are_known(
    here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = compare(log(), "--a", "--policy srtf", "--b", "--policy fifo")
    out = printed(words, capsys)
    assert out[0].startswith("hindcast: mean wait of 13 jobs ")
    assert "under slurm (10 shaken replays, " in out[0]
    assert out[1] == "durations: limits (the log states time limits; --durations true to override)"
    kept = json.loads(Path("runs/plan-compare/hindcast.json").read_text())
    assert kept["line"] == out[0]
    kept["line"] = "hindcast: kept"
    Path("runs/plan-compare/hindcast.json").write_text(json.dumps(kept))
    count = len(here)
    assert printed(words, capsys)[0] == "hindcast: kept"  # nothing is replayed again
    assert len(here) == count
    again = printed([*words, "--hindcast", "2"], capsys)
    assert "(2 shaken replays" in again[0]
    assert printed([*words, "--hindcast", "0"], capsys)[0].startswith("durations: limits")


def test_what_is_asked_for_wins(capsys: pytest.CaptureFixture[str]) -> None:
    trace = log()
    off = ["--hindcast", "0"]
    words = ["--a", "--policy srtf --durations true", "--b", "--policy srtf --durations blind"]
    assert not printed(compare(trace, *words, *off), capsys)[0].startswith("durations")
    # A policy that goes by limits anyway, or asks for nothing, has no line.
    words = ["--a", "--policy easy", "--b", "--policy fifo"]
    assert not printed(compare(trace, *words, *off), capsys)[0].startswith("durations")
    scenario = mo.Scenario(trace, "1x4:A100-80GB", policy="srtf")
    assert plan.Ask(scenario).knowing().scenario.scheduler.durations == "limits"
    assert plan.Ask(scenario, stated=True).knowing().scenario == scenario
    twin = mo.Scenario("naive", policy="srtf")
    assert plan.Ask(twin).knowing().scenario == twin
    variants = {"told": {"durations": "true"}, "as at the site": {}}
    ask = plan.Ask(scenario, "o", site=Site(0), on=inline.ON[1])
    found = plan.compare(ask, variants, seeds=(0, 1), noise=False)
    assert found.preface == (
        "durations: limits (the log states time limits; --durations true to override)",
    )
    assert found.rows[0][1] != found.rows[1][1] or found.rows[0][2] == 0


@pytest.mark.parametrize(
    ("limits", "lacks"), [([None], "no time limits"), ([20, None, 20], "no limit of 4 jobs")]
)
def test_a_log_without_limits_says_what_cannot_be_claimed(
    limits: Sequence[int | None], lacks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--a", "--policy srtf", "--b", "--policy fifo", "--hindcast", "0"]
    line = printed(compare(log(limits), *words), capsys)[0]
    assert line.startswith(f"durations: true (the log states {lacks}): policies know run times")
    assert "cannot be claimed" in line


def test_small_differences_are_noise(capsys: pytest.CaptureFixture[str]) -> None:
    trace = log()
    # The same schedule but for a few seconds, which shaking changes too.
    words = ["--a", "--policy fifo --interval 10", "--b", "--policy fifo --interval 12"]
    out = printed(compare(trace, *words, "--metric", "max waiting_s"), capsys)
    assert "NOT reproduced" not in out[0]
    assert "max waiting_s is within the noise of the replay" in out[1]
    answer = json.loads(Path("runs/plan-compare/answer.json").read_text())
    assert answer["preface"] == out[:1]
    assert answer["figures"]["replay_noise"]["replays"] == 10
    # A large one is not.
    words = ["--a", "--policy fifo", "--b", "--policy fifo --interval 1800"]
    out = printed(compare(trace, *words), capsys)
    assert "higher than" in out[1]
    # Rows of jobs do not have every figure.
    out = printed(compare(trace, *words, "--metric", "gpu_utilization"), capsys)
    assert out[0].startswith("hindcast: mean wait")
    assert "replay_noise" not in Path("runs/plan-compare/answer.json").read_text()
    assert Noise(10.0, 20.0, 5).hides(-9.0)
    assert not Noise(10.0, 20.0, 5).hides(-10.0)


def test_a_log_that_cannot_be_hindcast_is_still_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--a", "--policy fifo", "--b", "--policy srtf"]
    trace = without_starts()
    out = printed(compare(trace, *words), capsys)
    assert "hindcast: none (" in out[0]
    assert "no wait is recorded" in out[0]
    assert "--hindcast 0" in out[0]
    # But not if it is asked for.
    for more in (["--hindcast", "3"], ["--site-policy", "slurm:none.conf"]):
        assert main(compare(trace, *words, *more)) == 2
        assert "error: " in capsys.readouterr().err
    assert main(compare("naive", *words, "--hindcast", "3")) == 2
    assert "has an effect on logs only" in capsys.readouterr().err
    with pytest.raises(InputError, match="one replay has no spread"):
        Site(1)


def test_questions_that_name_no_cluster_of_today_need_that_of_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--of-workloads", "0.5", "--confidence", "0.7", "--exploration", "2"]
    words = ["nodes", "--trace", log(), "--policy", "fifo", "--slo", "avg jct_s <= 9000",
             "--node-type", "A100-80GB", "--gpus-per-node", "4", "--indifference", "0.4",
             *few, *inline.ON, "--quiet"]  # fmt: skip
    assert printed(words, capsys)[0].startswith("hindcast: none (no cluster of the log is named")
    words += ["--site-cluster", "1x4:A100-80GB", "--site-policy", "fifo", "--hindcast", "3"]
    out = printed(words, capsys)[0]
    assert "under fifo (3 shaken replays" in out
    assert out.endswith("reproduced")
