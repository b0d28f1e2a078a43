"""Jobs from logs: every format replays, GPU-seconds are kept, and everything assumed is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from morph_opt.core.domain import A800_NODE, InputError, Span
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable, curve_of
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.cli import main
from morph_opt.replay.scenario import Scenario, read_scenario
from morph_opt.simulation.runs.read import Run
from tests.traces.logs.samples import SACCT, SAMPLES, put, sacct
from tests.traces.logs.test_traps import pod

NEEDED = {
    "pollux": {"run_s": {"bert": 300.0, "ncf": 60.0}},
    "easyscale": {"run_s": {"bert": 300.0}},
    "swf": {"procs_per_gpu": 1},
}
"""What the jobs of a sample cannot be had without."""


def spec_of(name: str, tmp_path: Path) -> str:
    sample = SAMPLES[name]
    return f"{name}:{put(tmp_path, name, sample.text(), sample.name)}"


def load(tmp_path: Path, text: str, name: str = "sacct", **options: object) -> LoadedTrace:
    path = put(tmp_path, name, text, SAMPLES[name].name)
    return load_trace(f"{name}:{path}", **options)


@pytest.mark.parametrize("name", LOG_FORMATS)
def test_every_format_replays_and_keeps_its_gpu_seconds(name: str, tmp_path: Path) -> None:
    """On a cluster where nobody waits for GPUs, what is held is what the log has."""
    options = {"gpu_types": "ignore", **NEEDED.get(name, {})}
    scenario = Scenario(spec_of(name, tmp_path), "16x8:A800-80GB", policy="fifo")
    run = scenario.replaced(interval_s=10.0, **options).run(tmp_path / "run")
    assert run.summary.completed == len(SAMPLES[name].lines)
    told = json.loads((tmp_path / "run" / "log.json").read_text("utf-8"))
    held = sum(job.gpu_s_held for job in run.jobs)
    rounded = float(told["account"]["changed"].partition("least 1 (")[2].split()[0])
    if told["gpu_seconds"] is not None:
        assert held == pytest.approx(told["gpu_seconds"] + rounded, abs=0.1)
    summary = run.summary.values
    assert [summary[f"trace_{key}"] for key in ("read", "dropped", "assumed", "changed")] == list(
        told["account"].values()
    )
    assert read_scenario(tmp_path / "run" / "config.toml").workload.trace.startswith(f"{name}:/")


@pytest.mark.parametrize("name", NEEDED)
def test_missing_facts_of_a_log_are_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_trace(spec_of(name, tmp_path))
    assert next(iter(NEEDED[name])) in str(caught.value)


def test_attempts_of_other_gpus_hold_what_is_printed(tmp_path: Path) -> None:
    first = sacct(end="08:10:10", elapsed="600", state="NODE_FAIL", held="gres/gpu=4")
    found = load(tmp_path, "\n".join((SACCT, first, sacct(start="09:00:00", end="10:00:00"))))
    job = found.trace.jobs[0]
    assert found.account is not None
    # 4 GPUs for 600 s count as 8: 2,400 GPU-seconds more than were held.
    assert (job.requested_gpus, job.iterations) == (8, 4200)
    assert "held less: +2,400.0 GPU-seconds" in found.account.lines()["changed"]


def test_a_window_says_what_ran_when_it_began_and_what_is_short(tmp_path: Path) -> None:
    spec = f"{spec_of('acme', tmp_path)}@2023-04-02T01:30:00.."
    account = load_trace(spec).account
    assert account is not None
    # 16 GPUs from 9:00:07 to 10:00:07, the window from 9:30 on.
    assert "1 jobs were running and held 28,912 GPU-seconds" in account.lines()["assumed"]
    assert account.lines()["read"].endswith("; 0 run for less than a round of 60 s")


def test_names_that_occur_twice_get_numbers(tmp_path: Path) -> None:
    row = "{0},60,bert,8,16,4,1,v100,{1}"
    names = ("a", "a", "a#2", "a", "b")
    rows = (row.format(name, i) for i, name in enumerate(names))
    text = SAMPLES["easyscale"].text(rows)
    found = load(tmp_path, text, "easyscale", run_s={"bert": 60.0})
    assert [job.name for job in found.trace.jobs] == ["a", "a#2", "a#2#2", "a#3", "b"]


def test_absolute_clocks_count_from_the_first_job_and_relative_ones_do_not(tmp_path: Path) -> None:
    late = load(tmp_path, "\n".join((SACCT, sacct("8", submit="09:00:00"), sacct())))
    assert [(job.name, job.submission_s) for job in late.trace.jobs] == [("7", 0.0), ("8", 3600.0)]
    openb = load(tmp_path, SAMPLES["openb"].text(), "openb")
    assert [job.submission_s for job in openb.trace.jobs] == [40.0, 50.0]


def test_tenants_guarantees_and_types(tmp_path: Path) -> None:
    text = SAMPLES["spot"].text()
    jobs = load(tmp_path, text, "spot", guarantee="HP").trace.jobs
    assert [(job.tenant, job.guaranteed, job.model) for job in jobs] == [
        ("4", False, "A10 x8"),
        ("5", True, "A100 x16"),
    ]
    jobs = load(tmp_path, text, "spot", gpu_types="ignore").trace.jobs
    assert {job.model for job in jobs} == {"gang x8", "gang x16"}


@pytest.mark.parametrize(
    ("types", "fits"),
    [
        ((), True),
        (("a800-80gb",), True),
        (("A800",), True),
        (("V100", "a800"), True),
        (("A80",), False),
        (("H100",), False),
    ],
)
def test_a_type_is_known_by_its_name_or_the_part_before_a_dash(
    types: tuple[str, ...], fits: bool
) -> None:
    gang = Gang(2, types=types)
    assert gang.fits(A800_NODE) == fits
    rows = GangTable([gang]).configurations(gang.name, A800_NODE, 8, Span.NODE)
    assert bool(rows) == fits


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    jobs=st.lists(
        st.tuples(
            st.integers(0, 300), st.sampled_from([1, 2, 3, 6, 8, 12, 16]), st.integers(1, 900)
        ),
        min_size=1,
        max_size=8,
    ),
    scaling=st.sampled_from(["linear", "amdahl:0.9", "gpt2"]),
)
def test_rigid_policy_replays_alike_under_any_scaling_curve(
    tmp_path: Path, jobs: list[tuple[int, int, int]], scaling: str
) -> None:
    rows = [
        pod("Succeeded", f"{g},1000", f"{s},{s + r},{s}", f"p{i}")
        for i, (s, g, r) in enumerate(jobs)
    ]
    path = put(tmp_path, "openb", SAMPLES["openb"].text(rows), "log.txt")
    rigid = Scenario(f"openb:{path}", "2x8:A800-80GB", policy="fifo")
    anchored = rigid.replaced(jobs_as="anchored", scaling=scaling)

    def ends(run: Run) -> list[tuple[str, float, float]]:
        return [(job.job, job.start_s, job.finish_s) for job in run.jobs]

    assert ends(rigid.run()) == ends(anchored.run())


def test_other_gpu_counts_follow_the_scaling_curve() -> None:
    """At 4 GPUs, Amdahl with P = 0.8: S(4) = 1/0.4 = 2.5, S(8) = 1/0.3, S(1) = 1, S(2) = 1/0.6."""
    gang = Gang(4)
    rows = GangTable([gang], "amdahl:0.8").configurations(gang.name, A800_NODE, 64, Span.NODE)
    by_gpus = {row.shape.gpus: row.iteration_s for row in rows}
    assert by_gpus == pytest.approx({1: 2.5, 2: 1.5, 4: 1.0, 8: 0.75, 16: 2.5 * 0.25})


def test_a_gang_goes_from_a_fourth_to_four_times_its_gpus() -> None:
    gang = Gang(12)
    rows = GangTable([gang], "linear").configurations(gang.name, A800_NODE, 999, Span.NODE)
    assert sorted({row.shape.gpus for row in rows}) == [4, 8, 12, 16, 24, 32, 40, 48]
    assert {row.shape.nodes for row in rows if row.shape.gpus == 24} == {3}


@pytest.mark.parametrize("text", ["cubic", "amdahl", "amdahl:2", "amdahl:-1", "amdahl:0.5x", ""])
def test_malformed_scaling_curve_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be linear, amdahl:P"):
        curve_of(text)


def test_sampled_jobs_need_the_recorded_time_and_follow_the_seed(tmp_path: Path) -> None:
    path = put(tmp_path, "acme", SAMPLES["acme"].text(), "log.txt")
    spec = f"acme:{path}"
    mix = {"t5": 3.0, "bert": 1.0}
    one, two = (load_trace(spec, seed=s, jobs_as="sampled", mix=mix) for s in (1, 2))
    assert one.trace.sha256 == load_trace(spec, seed=1, jobs_as="sampled", mix=mix).trace.sha256
    assert one.trace.sha256 != two.trace.sha256
    for job, run_s in zip(one.trace.jobs, (3600.0, 100.0), strict=True):
        assert job.model in mix
        steps = [
            row.iteration_s
            for row in one.truth.configurations(job.model, A800_NODE, job.requested_gpus, Span.LEAF)
            if row.plan == job.requested_plan and row.shape.gpus == job.requested_gpus
        ]
        # The nearest whole number of iterations, and at least one.
        assert any(job.iterations == max(1, round(run_s / step_s)) for step_s in steps)
    assert one.account is not None
    assert "t5 75%, bert 25%" in one.account.lines()["assumed"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"jobs_as": "elastic"}, "jobs_as: must be rigid or anchored or sampled"),
        ({"scaling": "linear"}, "scaling: has an effect together with jobs_as anchored"),
        ({"mix": {"gpt2": 1.0}}, "mix: has an effect together with jobs_as sampled"),
        ({"jobs_as": "sampled", "mix": {"gpt9": 1.0}}, "mix: unknown model 'gpt9'"),
        ({"procs_per_gpu": 8}, "procs_per_gpu: has no effect on format acme"),
        ({"timezone": "Mars/Olympus"}, "timezone: unknown time zone"),
        ({"gpu_shares": "halve"}, "gpu_shares: must be drop or round-up"),
        ({"guarantee": "HP"}, "guarantee: has no effect: no job .* HP; kinds are "),
        ({"run_s": {"SFT": 60.0}}, "run_s: has no effect: no job .* SFT; kinds are none"),
        ({"jobs": 7}, "jobs: has no effect on trace"),
        ({"days": 0.0}, "days: has no effect on trace"),
    ],
)
def test_an_option_without_effect_is_refused(
    tmp_path: Path, options: dict[str, object], rule: str
) -> None:
    with pytest.raises(InputError, match=rule):
        load_trace(spec_of("acme", tmp_path), **options)


@pytest.mark.parametrize(
    ("window", "rule"),
    [
        ("2023..2024", "must be a date or a time"),
        ("2023-05-01..2023-04-01", "must end after it begins"),
        ("..", "must be FROM..TO"),
        ("1990-01-01..1990-01-02", "has no job: dropped are outside-window 2"),
    ],
)
def test_malformed_window_is_refused(tmp_path: Path, window: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        load_trace(f"{spec_of('acme', tmp_path)}@{window}")


def test_the_command_replays_a_window_and_goes_on_after_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    spec_of("acme", tmp_path)
    words = ["--trace", "acme:log.txt@2023-04-02..2023-04-03", "--policy", "fifo", "--json"]
    assert main([*words, "--cluster", "2x8", "--out", "run"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["trace_read"].startswith("2 rows, 2 jobs")
    assert "dropped  nothing\n" in captured.err
    assert (tmp_path / "run" / "log.json").is_file()
    whole = (tmp_path / "run" / "events.jsonl").read_bytes()
    # As a kill between two rounds leaves it.
    for name in ("events.jsonl", "rounds.csv"):
        lines = (tmp_path / "run" / name).read_bytes().splitlines(keepends=True)
        (tmp_path / "run" / f"{name}.partial").write_bytes(b"".join(lines[:4]))
        (tmp_path / "run" / name).unlink()
    monkeypatch.chdir("/")
    assert main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == whole


def test_a_broken_line_ends_the_command_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = SAMPLES["acme"]
    path = put(tmp_path, "acme", sample.text((*sample.lines, sample.broken)), "log.txt")
    assert main(["--trace", f"acme:{path}", "--policy", "fifo"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "log.txt, line 4, gpu_num: must be a number of at least 0, got 'sixteen'" in error


@pytest.mark.parametrize("name", ["acme/seren", "helios/venus", "philly"])
def test_a_published_log_that_is_not_here_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=f"fetch {name.split('/', maxsplit=1)[0]}"):
        load_trace(name)


def test_a_log_of_other_gpus_says_how_it_can_run(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("submit,gpus,duration,gpu_type\n0,2,600,h100\n5,2,600,a800\n")
    scenario = Scenario(f"table:{path}", "1x8:A800-80GB", policy="fifo")
    said = "the log's GPU types are h100, the cluster has A800-80GB: name one with cluster"
    with pytest.raises(InputError, match=f"{said}.*with gpu_types ignore"):
        scenario.run()
    assert scenario.replaced(skip_impossible=True).run().summary.completed == 1
    path.write_text("submit,gpus,duration,gpu_type\n0,2,600,h100\n")
    with pytest.raises(InputError, match=f"no job of the trace can ever run; {said}"):
        scenario.replaced(skip_impossible=True).run()
    assert scenario.replaced(gpu_types="ignore").run().summary.completed == 1
    path.write_text("submit,gpus,duration\n0,9,600\n")  # of no type, and too large
    with pytest.raises(InputError) as caught:
        scenario.run()
    assert "--gpu-types" not in str(caught.value)


def test_a_job_arrives_when_it_was_eligible_with_its_quality_of_service(tmp_path: Path) -> None:
    log = tmp_path / "jobs.txt"
    day = "2024-05-01T"
    rows = [
        "JobID|QOS|Submit|Eligible|Start|End|State|ReqTRES|AllocTRES",
        f"1|high|{day}08:00:00|{day}08:00:00|{day}08:00:10|{day}09:00:00|COMPLETED|gres/gpu=1|gres/gpu=1",
        f"2||{day}08:00:00|{day}08:30:00|{day}08:40:00|{day}09:00:00|COMPLETED|gres/gpu=1|gres/gpu=1",
        f"3||{day}08:10:00|{day}09:30:00|{day}08:20:00|{day}09:00:00|COMPLETED|gres/gpu=1|gres/gpu=1",
    ]
    log.write_text("\n".join(rows) + "\n")
    found = load_trace(f"sacct:{log}")
    assert [(job.name, job.submission_s, job.qos) for job in found.trace.jobs] == [
        ("1", 0.0, "high"),
        ("3", 1_200.0, ""),  # requeued after its first start
        ("2", 1_800.0, ""),
    ]
    assert "2 jobs arrive when they were eligible, after their submission" in " ".join(
        found.account.texts()
    )
