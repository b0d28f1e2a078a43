"""Prices, SLOs, weights and the starvation knob on the command line: works, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morph_opt.replay import cli
from morph_opt.replay.scenario import read_scenario

HEADER = (
    "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,"
    "weight,tenant,deadline\n"
)
GOOD = "a,100,gpt2,8,64,zero-dp,500,0,1,t,900000\nb,100,gpt2,8,64,zero-dp,500,0,1,u,-1\n"
PRICE = ["--prices", "a800-80gb=2"]
COST = ["--objective", "cost"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a good trace, and no data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)
    (tmp_path / "jobs.csv").write_text(HEADER + GOOD)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of a refused command; nothing was written."""
    try:
        status = cli.main([*arguments, "--out", "run"])
    except SystemExit as stopped:
        status = stopped.code if isinstance(stopped.code, int) else 1
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert not Path("run").exists()
    return captured.err


def summary(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert cli.main([*arguments, "--json", "--quiet", "--out", "run"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_cost_needs_nothing_but_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--interval", "3600", "--restart-s", "0"]
    found = summary(capsys, "--trace", "gavel-96", *COST, *more)
    assert found["cluster"] == "1x4:V100+1x4:P100+1x4:K80"
    assert found["completed"] == 96
    assert isinstance(found["cost_usd"], float)
    assert (found["slo_none"], found["slo_dropped"]) == (96, 0)


def test_drops_are_in_log_table_and_rows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--interval", "3600", "--until-s", "40000"]
    assert cli.main(["--trace", "gavel-96/slo", *COST, *more, "--out", "run", "--quiet"]) == 0
    table = capsys.readouterr().out
    assert "SLOs met" in table
    assert " $ per completed job" in table
    events = [json.loads(line) for line in (here / "run" / "events.jsonl").read_text().splitlines()]
    named = {e["job"] for e in events if e["event"] == "slo" and e["change"] == "dropped"}
    found = json.loads((here / "run" / "summary.json").read_text())
    assert len(named) == found["slo_dropped"] > 0
    assert set(found["slo_dropped_jobs"].split()) == named
    rows = (here / "run" / "jobs.csv").read_text().splitlines()
    assert ",deadline_s,slo,cost_usd" in rows[0]
    at = rows[0].split(",").index("slo")
    states = [row.split(",")[at] for row in rows[1:]]
    assert states.count("met") == found["slo_met"]
    assert states.count("missed") == found["slo_missed"]


def test_a_run_with_drops_is_finished_by_resume(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorded rounds are repeated, SLO events included, and the rest is as it was."""
    more = ["--interval", "3600", "--until-s", "60000", "--quiet"]
    assert cli.main(["--trace", "gavel-96/slo", *COST, *more, "--out", "run"]) == 0
    run = here / "run"
    whole = {name: (run / name).read_bytes() for name in ("events.jsonl", "jobs.csv")}
    lines = whole["events.jsonl"].splitlines(keepends=True)
    assert any(b'"event":"slo"' in line for line in lines[: len(lines) // 2])
    (run / "events.jsonl.partial").write_bytes(b"".join(lines[: len(lines) // 2]))
    (run / "rounds.csv").rename(run / "rounds.csv.partial")
    for name in ("events.jsonl", "jobs.csv", "summary.json"):
        (run / name).unlink()
    assert cli.main(["--resume", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert {name: (run / name).read_bytes() for name in whole} == whole


def test_prices_and_weights_are_kept_in_the_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = ["--entity-weights", "t=3,u=1"]
    found = summary(capsys, "--trace", "jobs.csv", "--objective", "hierarchical", *PRICE, *weights)
    assert isinstance(found["cost_usd"], float)
    kept = read_scenario(here / "run" / "config.toml")
    assert [kind.price_per_hour for kind in kept.cluster.gpu_types] == [2.0]
    assert kept.scheduler.entity_weights == {"t": 3.0, "u": 1.0}


def test_weights_of_tenants_change_who_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    """Two tenants with eight jobs each on two nodes; the heavier one is done sooner."""
    rows = "".join(f"{t}{n},0,gpt2,8,64,zero-dp,4000,0,1,{t},-1\n" for n in range(4) for t in "tu")
    Path("two.csv").write_text(HEADER + rows)
    ends = {}
    for weights in ("t=8,u=1", "t=1,u=8"):
        arguments = ["--trace", "two.csv", "--nodes", "2", "--policy", "gavel:hierarchical"]
        assert cli.main([*arguments, "--entity-weights", weights, "--quiet", "--out", weights]) == 0
        jobs = [line.split(",") for line in (Path(weights) / "jobs.csv").read_text().splitlines()]
        end = jobs[0].index("finish_s")
        ends[weights] = sum(float(job[end]) for job in jobs[1:] if job[0].startswith("t"))
    capsys.readouterr()
    assert ends["t=8,u=1"] < ends["t=1,u=8"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,100,gpt2,8,64,zero-dp,9,0,1,t,50", "SLO in the past: job a (gpt2) must be complete by"),
        ("a,100,gpt2,8,64,zero-dp,9,0,1,t,100", "SLO in the past: job a (gpt2)"),
        ("a,100,gpt2,8,64,zero-dp,9,0,1,t,-5", "line 2, deadline: must be at least -1, got -5"),
        ("a,100,gpt2,8,64,zero-dp,9,0,1,t,nan", "line 2, deadline: must be a finite number"),
        ("a,100,gpt2,8,64,zero-dp,9,0,0,t,-1", "weight: must be above 0, got 0 (job a, gpt2)"),
        ("a,100,gpt2,8,64,zero-dp,9,0,-1,t,-1", "weight: must be above 0, got -1 (job a, gpt2)"),
        (
            "a,100,gpt2,8,64,zero-dp,9000,0,1,t,110",
            "job a: its SLO cannot be kept: gpt2 needs",
        ),
    ],
)
def test_bad_rows(row: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text(HEADER + row + "\n")
    assert message in refusal(capsys, "--trace", "bad.csv", *COST, *PRICE)


def test_an_infeasible_slo_names_the_type_and_may_be_dropped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("bad.csv").write_text(HEADER + "a,100,gpt2,8,64,zero-dp,900,0,1,t,110\n")
    line = refusal(capsys, "--trace", "bad.csv", *COST, *PRICE)
    assert "alone on A800-80GB, its fastest GPU type" in line
    found = summary(capsys, "--trace", "bad.csv", *COST, *PRICE, "--skip-impossible")
    assert (found["completed"], found["slo_missed"], found["slo_dropped"]) == (1, 1, 1)
    # Other objectives do not promise it.
    assert cli.main(["--trace", "bad.csv", "--quiet", "--out", "other"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (COST, "A800-80GB of cluster '8x8 A800-80GB' has none: give price_per_hour"),
        (["--policy", "gavel:cost"], "cost needs a price of every GPU type, A800-80GB"),
        ([*COST, "--prices", "v100=1"], "--prices: cluster '8x8 A800-80GB' has no GPU type 'v100'"),
        (
            [*COST, "--prices", "A800-80GB=0"],
            "--prices: A800-80GB must be a number from 1e-06",
        ),
        (
            [*COST, "--prices", "A800-80GB=nan"],
            "--prices: A800-80GB must be a number from 1e-06",
        ),
        ([*COST, "--prices", "A800-80GB"], "--prices: must look like NAME=NUMBER"),
        ([*COST, "--prices", "A800-80GB=1,a800-80gb=2"], "--prices: GPU type 'a800-80gb' is named"),
        ([*COST, "--prices", ""], "--prices: must not be empty"),
        (
            ["--objective", "hierarchical", "--entity-weights", "z=2"],
            "--entity-weights: unknown tenant 'z'; trace 'jobs.csv' has t, u",
        ),
        (
            ["--objective", "hierarchical", "--entity-weights", "t=0"],
            "--entity-weights: t must be a number from 1e-06 to 1000000, got",
        ),
        (["--objective", "hierarchical", "--entity-weights", ""], "must not be empty"),
        (["--objective", "hierarchical", "--entity-weights", "t=1,t=2"], "t is named twice"),
        (["--objective", "jct", "--entity-weights", "t=2"], "objective 'jct' does not know it"),
        (["--objective", "jct", "--starvation-knob", "2"], "--starvation-knob: objective 'jct'"),
        (
            ["--objective", "las", "--starvation-knob", "-1"],
            "from 0 to 1000000, got '-1'",
        ),
        (["--policy", "tiresias:2d-las", "--starvation-knob", "x"], "from 0 to 1000000, got 'x'"),
        (["--policy", "nope", "--rules", "rules.toml"], "unknown policy 'nope'"),
    ],
)
def test_bad_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rules.toml").write_text('[[quota]]\ntenant = "t"\ngpus = 2\n')
    assert message in refusal(capsys, "--trace", "jobs.csv", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "os:getcwd"], "--policy: 'os:getcwd' must be callable as policy(belief, op"),
        (["--trace", "os:getcwd"], "trace: 'os:getcwd' must be callable as source(argument, *, se"),
        (["--objective", "os:getcwd"], "--objective: 'os:getcwd' must be callable as objective("),
        (["--policy", "builtins:dict"], "--policy: 'builtins:dict' must be callable as policy("),
        (["--trace", "builtins:dict"], "trace: 'builtins:dict' makes no LoadedTrace: dict has no"),
        (["--trace", "gavel-96/nope"], "trace: gavel-96 takes no argument or slo"),
    ],
)
def test_things_of_another_kind(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(capsys, *arguments)


def test_a_gang_larger_than_every_type(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "--trace", "gavel-96", "--cluster", "1x2:V100+1x2:P100", *COST)
    assert "its gang of 4 GPUs (" in line
    assert "is larger than every GPU type" in line
    assert "V100 2, P100 2" in line


@pytest.mark.parametrize(
    "policy",
    ["tiresias:2d-las", "tiresias:gittins"],
)
def test_the_starvation_knob_reaches_the_policy(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--trace", "tiresias-480", "--cluster", "1x16:P100", "--policy", policy, "--quiet"]
    base += ["--until-s", "12000", "--restart-s", "0"]
    logs = []
    for number, extra in enumerate(([], ["--starvation-knob", "0.5"])):
        assert cli.main([*base, *extra, "--out", str(number)]) == 0
        lines = (Path(str(number)) / "events.jsonl").read_text().splitlines()
        logs.append([line for line in lines if '"start"' in line])
    capsys.readouterr()
    assert logs[0] != logs[1]
