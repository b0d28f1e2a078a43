"""The command line: output, exit statuses, and every kind of bad input in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from morph_opt.replay import cli
from morph_opt.scheduling.policies.steps import STEPS
from morph_opt.simulation.runs.read import read_run
from morph_opt.simulation.runs.summary import KEYS, settled_rounds
from tests.waiting import PATIENCE_S

TOY = ["--trace", "tests.engine.toys:trace", "--policy", "tests.engine.toys:make_fifo"]
HEADER = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_table_on_stdout_notes_on_stderr(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(TOY) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["trace", "toy-0", "file"]
    assert any(line.startswith("average JCT") for line in lines)
    assert len({len(line) - len(line[20:].lstrip()) for line in lines}) <= 2
    assert "toy trace of the tests" in captured.err
    assert "run folder: runs/tests.engine.toys-trace-tests.engine.toys-make_fifo-" in captured.err
    assert len(list((here / "runs").iterdir())) == 1


@pytest.mark.parametrize(
    ("method", "settled", "said"),
    [
        ("auto", r"tables \(knapsack\) 20", "decided 0 of 20 rounds; with --method exact"),
        ("exact", "exact by highs-default 20", "decided 20 of 20 rounds\n"),
    ],
)
def test_replay_states_how_many_rounds_each_step_settled(
    method: str, settled: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", "naive", "--until-s", "1200", "--method", method]
    assert cli.main([*words, "--solver", "highs-default"]) == 0
    shown = capsys.readouterr()
    assert re.search(f"^settled by +{settled}$", shown.out, re.MULTILINE)
    assert f"--solver highs-default {said}" in shown.err
    assert cli.main([*words, "--json"]) == 0
    shown = capsys.readouterr()
    counts = settled_rounds(json.loads(shown.out))
    assert counts == dict.fromkeys(STEPS, 0) | {"exact" if method == "exact" else "knapsack": 20}
    assert "--solver" not in shown.err


def test_rounds_without_anything_to_do_are_counted_and_solved_by_the_exact_method(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that runs in its best option: `stays` settles its later rounds, but not under exact."""
    words = ["--trace", "tests.engine.toys:trace/2", "--cluster", "2x4", "--objective", "jct"]
    found = {}
    for method in ("auto", "exact"):
        assert cli.main([*words, "--method", method, "--out", method, "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        found[method] = settled_rounds(summary)
        rows = read_run(here / method).rounds
        assert found[method] == {s: rows.column("step").count(s) for s in STEPS}
        assert sum(found[method].values()) == summary["rounds"]
    assert found["auto"]["stays"] > 0
    assert found["exact"]["exact"] == sum(found["exact"].values())
    logs = [(here / name / "events.jsonl").read_bytes().splitlines() for name in found]
    assert logs[0][1:] == logs[1][1:]  # the first line has the digest of the options


def test_policies_without_steps_count_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(TOY) == 0
    assert "settled by" not in capsys.readouterr().out


def test_default_folder_is_never_reused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(TOY) == 0
    assert cli.main(TOY) == 0
    del capsys
    first, second = sorted(path.name for path in (here / "runs").iterdir())
    assert second == first + "-2"


def test_json_is_alone_on_stdout(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*TOY, "--json", "--quiet", "--out", "run"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert tuple(summary)[: len(KEYS)] == KEYS
    assert captured.err == ""
    assert json.loads((here / "run" / "summary.json").read_text()) == summary


def test_settings_reach_the_engine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del here
    more = ["--interval", "30", "--restart-s", "10", "--restart-s", "m=0", "--until-s", "600"]
    assert cli.main([*TOY, *more, "--cluster", "1x4", "--json", "--seed", "2"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["interval_s"], summary["gpus"], summary["ended"]) == (30.0, 4, "horizon")
    assert summary["gpu_productive_share"] == 1.0
    assert summary["completed"] < summary["jobs"]


def test_a_stalled_replay_is_not_a_success(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del here
    command = ["--trace", "tests.engine.toys:trace/2", "--policy", "tests.engine.toys:make_lazy"]
    assert cli.main(command) == 1
    assert "the replay stalled" in capsys.readouterr().err


def test_violation_is_exit_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del here
    command = ["--trace", "tests.engine.toys:trace", "--policy", "tests.engine.toys:make_breaker"]
    assert cli.main([*command, "--quiet"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: round ")
    assert "one_holder: node node-0, job " in err


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a bad command gets; nothing may be left behind."""
    before = sorted(Path().rglob("*"))
    status = cli.main(arguments)
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert sorted(Path().rglob("*")) == before
    return captured.err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trace", "nothing"], ["unknown trace 'nothing'", "base"]),
        (["--trace", "none.csv"], ["none.csv", "no such file"]),
        (["--objective", "joy"], ["unknown objective 'joy'", "throughput"]),
        (["--solver", "abacus"], ["abacus", "highs"]),
        (["--policy", "coin"], ["unknown policy 'coin'", "srtf"]),
        (["--policy", "no.such:thing"], ["no.such:thing"]),
        (["--belief", "hope"], ["--belief", "hope"]),
        ([*TOY, "--nodes", "0"], ["--nodes", "from 1 to 1000000, got '0'"]),
        ([*TOY, "--nodes", "two"], ["--nodes", "got 'two'"]),
        ([*TOY, "--gpus-per-node", "-1"], ["--gpus-per-node", "from 1 to 1024, got '-1'"]),
        ([*TOY, "--gpu-type", "Abacus"], ["unknown GPU type 'Abacus'"]),
        ([*TOY, "--cluster", "8y8"], ["8y8", "must be a file, or look like 8x8"]),
        ([*TOY, "--cluster", "0x8"], ["at least 1, got '0x8'"]),
        ([*TOY, "--cluster", "none.toml"], ["none.toml", "No such file"]),
        ([*TOY, "--cluster", "2x8", "--nodes", "3"], ["--cluster", "--nodes"]),
        ([*TOY, "--interval", "0"], ["--interval", "got '0'"]),
        ([*TOY, "--interval", "nan"], ["--interval", "got 'nan'"]),
        ([*TOY, "--restart-s", "-1"], ["--restart-s", "from 0 to 10000000, got '-1'"]),
        ([*TOY, "--restart-s", "soon"], ["--restart-s", "'soon'"]),
        ([*TOY, "--restart-s", "m=-3"], ["--restart-s", "got '-3'"]),
        ([*TOY, "--gap", "nan"], ["--gap", "got 'nan'"]),
        ([*TOY, "--time-limit-s", "-1"], ["--time-limit-s", "got '-1'"]),
        ([*TOY, "--lost-work", "inf"], ["--lost-work", "got 'inf'"]),
        ([*TOY, "--seed", "-1"], ["--seed", "got '-1'"]),
        ([*TOY, "--mtbf-s", "5000"], ["--mtbf-s", "together with --mttr-s"]),
        ([*TOY, "--events", "none.jsonl"], ["none.jsonl", "No such file"]),
        ([*TOY, "--until-s", "-1"], ["--until-s", "got '-1'"]),
        ([*TOY, "--colour", "red"], ["unrecognized arguments: --colour red"]),
        (["--resume", "nothing"], ["nothing", "is no run folder"]),
        (["--resume", "x", "--seed", "1"], ["--resume", "leave out --seed"]),
    ],
)
def test_bad_usage(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(arguments, capsys)
    assert all(word.lower() in message.lower() for word in words), message


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        (HEADER, [], ["no jobs"]),
        (HEADER.replace("steps", "stops"), ["a,0,gpt2,1,12,dp,10,0"], ["line 1", "steps"]),
        (HEADER, ["a,-5,gpt2,1,12,gc,10,0"], ["line 2", "submission_time", "-5"]),
        (HEADER, ["a,nan,gpt2,1,12,gc,10,0"], ["line 2", "submission_time", "nan"]),
        (HEADER, ["a,0,gpt9,1,12,gc,10,0"], ["line 2", "gpt9"]),
        (HEADER, ["a,0,gpt2,1,12,gc,10,0", "a,1,gpt2,1,12,gc,10,0"], ["'a'"]),
        (
            HEADER,
            ["a,0,llama30,1,12,dp,10,0"],
            ["job a", "can never run: plan dp of llama30 fits no GPUs", "--skip-impossible"],
        ),
    ],
    ids=["empty", "column", "negative", "nan", "model", "duplicate", "plan"],
)
def test_bad_traces(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    header: str,
    rows: list[str],
    words: list[str],
) -> None:
    path = here / "mine.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    message = refused(["--trace", "mine.csv"], capsys)
    assert "mine.csv" in message
    assert all(word.lower() in message.lower() for word in words), message


@pytest.mark.usefixtures("here")
def test_job_larger_than_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*TOY, "--cluster", "1x2"]
    message = refused(command, capsys)
    assert "can never run: requests 4 GPUs, cluster '1x2 A800-80GB' has 2" in message
    assert "job j" in message
    assert cli.main([*command, "--skip-impossible", "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    dropped = captured.err.count("dropped: job ")
    assert summary["skipped_jobs"] == dropped > 0
    assert summary["jobs"] == summary["completed"] == 12 - dropped


@pytest.mark.usefixtures("here")
def test_replay_completes_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*TOY, "--cluster", "2x8", "--cpus-per-node", "1"]
    message = refused(command, capsys)
    assert "cannot be combined" in message
    command = [*TOY, "--nodes", "2", "--cpus-per-node", "1", "--skip-impossible"]
    message = refused(command, capsys)
    assert "no job of the trace can ever run" in message


def test_output_folder_in_use(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run").mkdir()
    (here / "run" / "precious").write_text("x")
    assert "not empty: choose another folder, or" in refused([*TOY, "--out", "run"], capsys)
    (here / "run" / "events.jsonl").write_text("")
    said = refused([*TOY, "--out", "run"], capsys)
    assert "not empty and its run is finished: choose another folder" in said
    assert "resume" not in said
    (here / "file").write_text("x")
    assert "is a file" in refused([*TOY, "--out", "file"], capsys)
    assert "cannot be written" in refused([*TOY, "--out", "file/run"], capsys)


def test_output_folder_unwritable(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test may run as root, who may write everywhere; so the answer of the system is set."""
    monkeypatch.setattr("morph_opt.simulation.runs.write.os.access", lambda *_: False)
    assert "cannot be written" in refused([*TOY, "--out", "locked/run"], capsys)
    assert list(here.iterdir()) == []


def test_bad_events_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "e.csv").write_text("time_s,node,event\n1,node-99,fail\n")
    message = refused([*TOY, "--events", "e.csv"], capsys)
    assert "e.csv, line 2, node: 'node-99' is not a node" in message


def test_changed_inputs_on_resume(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "e.csv").write_text("time_s,node,event\n100,node-0,drain\n")
    assert cli.main([*TOY, "--events", "e.csv", "--out", "run"]) == 0
    (here / "run" / "events.jsonl").rename(here / "run" / "events.jsonl.partial")
    (here / "e.csv").write_text("time_s,node,event\n100,node-1,drain\n")
    capsys.readouterr()
    assert "is not the events that the run began with" in refused(
        ["--resume", "run", "--allow-code"], capsys
    )


def test_command_runs_without_a_terminal(project_root: Path, tmp_path: Path) -> None:
    """No progress bar outside a terminal, exit status and streams as documented."""
    done = subprocess.run(
        [sys.executable, "-m", "morph_opt.replay", *TOY, "--out", str(tmp_path / "run")],
        cwd=project_root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert done.stdout.startswith("trace ")
