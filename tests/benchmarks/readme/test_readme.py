"""The README is what its committed data make it, and the generator does what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison.cli import FOLDER as COMPARISON
from benchmarks.comparison.cli import read_records
from benchmarks.comparison.records import REFERENCE, Record
from benchmarks.readme import figure, readme
from benchmarks.readme.__main__ import PAGES, main
from benchmarks.readme.cases import SCHEDULERS, TRACES, TWINS, Case, cases
from benchmarks.readme.rerun import read_measured, run_cases
from benchmarks.readme.results import (
    Measured,
    Results,
    Row,
    gpus_over_time,
    jct_quantiles_s,
    load,
    row_of,
    save,
)
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.simulation.runs.jobs import jobs_csv
from morph_opt.simulation.runs.read import Parts, Run, read_run
from morph_opt.simulation.runs.rounds import HEADER, row_to_line
from morph_opt.simulation.runs.summary import KEYS, Summary, summary_json
from tests.runs.worlds import job_row, round_row

DATA = Path("reports") / "readme"

BY_KEY = {scheduler.key: scheduler for scheduler in SCHEDULERS}


def row(**changes: object) -> Row:
    plain = Row(
        command="python -m morph_opt.replay --trace base --objective jct",
        trace_sha256="0" * 64,
        jobs=2,
        completed=2,
        gpus=8,
        rounds=10,
        avg_jct_s=1234.5,
        median_jct_s=1000.0,
        p99_jct_s=2000.0,
        makespan_s=7200.0,
        avg_queue_s=60.0,
        gpu_utilization=0.5,
        restarts_per_job=1.25,
        rounds_over_capacity=0,
        fallback_rounds=0,
        round_ms_p50=7.5,
        round_ms_p99=20.0,
        gap_max=0.001,
        avg_jct_lower_bound_s=600.0,
        makespan_lower_bound_s=3600.0,
        peak_rss_mib=123.0,
        guaranteed_jct_s=None,
        guarantee_misses=None,
        steps={"exact": 1, "knapsack": 9},
        measured=Measured(12.5, rerun_identical=True),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def results(**rows: Row) -> Results:
    named = {slug.replace("__", "."): value for slug, value in rows.items()}
    gpus = {slug: np.array([0.0, 4.0, 8.0]) for slug in named}
    jct_s = {slug: np.linspace(100.0, 2000.0, 101) for slug in named}
    return Results(named, gpus, jct_s, {"morph-opt": "0.1.0"})


def run_of(**changes: object) -> Run:
    """A run of two jobs and three rounds, with what the generator reads of it."""
    values = dict.fromkeys(KEYS, None) | {"trace": "t", "policy": "p", "nodes": 1, "preemptions": 0}
    values |= {name: getattr(row(), name) for name in row().__dataclass_fields__ if name in KEYS}
    jobs = [
        job_row(job="a", jct_s=10.0, guaranteed=True),
        job_row(job="b", jct_s=30.0),
    ]
    rounds = [
        round_row(time_s=60.0, gpus_used=8, guarantees_short=1, guarantees_possible=False),
        round_row(time_s=120.0, gpus_used=4, guarantees_short=1, guarantees_possible=True),
        round_row(time_s=660.0, gpus_used=6, guarantees_short=0, guarantees_possible=True),
    ]
    return Run(
        Parts(lambda: Summary.of(values | changes), lambda: jobs, lambda: rounds, lambda: ())
    )  # type: ignore[arg-type]


# ---------------------------------------------------------------- the committed README


def test_readme_shows_its_committed_data(project_root: Path) -> None:
    pages = [project_root / page for page in PAGES]
    records = read_records(project_root / COMPARISON / "results.csv")
    made = readme.rewritten(pages, load(project_root / DATA), records)
    for page in pages:
        stale = f"{page} is stale: python -m benchmarks.readme write"
        assert made[page] == page.read_text("utf-8"), stale


def test_readme_is_read_in_a_minute(project_root: Path) -> None:
    lines = (project_root / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 120
    first = "\n".join(lines[:40])
    assert "<!-- generated:headline -->" in first
    assert '<img src="reports/readme/base.svg" alt="' in first
    assert 'srcset="reports/readme/base-narrow.svg"' in first
    assert max(line.count("|") for line in lines) <= 4, "wide tables stand in the reports"


def test_readme_has_every_replay(project_root: Path) -> None:
    found = load(project_root / DATA)
    assert set(found.rows) == {case.slug for case in cases(TRACES)}
    assert {case.command for case in cases(TRACES)} == {r.command for r in found.rows.values()}


def test_promises_are_weighed_only_where_there_are_any() -> None:
    keys = {trace: {case.scheduler.key for case in cases((trace,))} for trace in TWINS}
    assert keys["mt"] - keys["base"] == {"lookahead-weight"}
    assert keys["base"] - keys["mt"] >= {"jct", "jct-blind", "sia", "fairness", "las"}
    assert keys["base"] & keys["bp"] & keys["mt"] >= {"auto", "throughput", "morphling", "srtf"}


@pytest.mark.parametrize("trace", TWINS)
def test_readme_shows_the_twins_as_they_are_now(trace: str, project_root: Path) -> None:
    found = load(project_root / DATA)
    now = load_trace(trace).trace.sha256
    for case in cases((trace,)):
        assert found.rows[case.slug].trace_sha256 == now, f"{case.slug} is stale: make readme"


def test_picture_shows_its_committed_data(project_root: Path) -> None:
    found = load(project_root / DATA)
    for name in ("base.svg", "base-narrow.svg"):
        text = (project_root / DATA / name).read_text("utf-8")
        assert figure.digest(found, "base") in text, f"{name} is stale: make readme"


# ---------------------------------------------------------------- reading runs


def test_row_of_a_run() -> None:
    found = row_of(run_of(avg_jct_s=777.0), "the command", Measured(3.0))
    assert found.avg_jct_s == 777.0
    assert found.guarantee_misses == 1  # in the first round it was impossible, in the third kept
    assert found.guaranteed_jct_s == 10.0
    assert found.measured == Measured(3.0, None)


def test_gpus_are_averaged_over_bins_with_idle_rounds() -> None:
    assert gpus_over_time(run_of()).tolist() == [(8 + 4) / 10, 6 / 10]


def test_quantiles_of_completion_times() -> None:
    found = jct_quantiles_s(run_of())
    assert (found[0], found[50], found[100]) == (10.0, 20.0, 30.0)


def test_row_with_missing_figures_is_refused() -> None:
    assert row_of(run_of(gap_max=None), "", None).gap_max is None
    with pytest.raises(InputError, match="makespan_s: has no value"):
        row_of(run_of(makespan_s=None), "", None)


def test_saved_results_are_read_back_and_saved_alike(tmp_path: Path) -> None:
    first = results(base__jct=row(), base__fifo=row(gap_max=None, measured=None))
    save(first, tmp_path / "a")
    again = load(tmp_path / "a")
    save(again, tmp_path / "b")
    for name in ("results.json", "gpus.csv", "jct.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert dict(again.rows) == dict(first.rows)


def test_no_data_yet_is_an_empty_result(tmp_path: Path) -> None:
    assert not load(tmp_path).rows


def test_damaged_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(InputError, match=r"results\.json: is not what"):
        load(tmp_path)


# ---------------------------------------------------------------- tables


def test_table_has_the_smallest_average_in_bold_and_the_bounds_last() -> None:
    made = results(base__jct=row(), base__fifo=row(avg_jct_s=5000.0, gap_max=None))
    lines = readme.comparison(made, "base").splitlines()
    assert lines[2].startswith("| MILP, `jct` | yes | yes | **1,23")
    assert lines[3].startswith("| `fifo` | no | no | 5,000 |")
    assert lines[3].endswith("| none |")
    assert lines[4].startswith("| *no schedule is below* |  |  | 600 |")
    assert len({line.count("|") for line in lines[:5]}) == 1


def test_replays_of_different_jobs_are_not_compared() -> None:
    made = results(base__jct=row(), base__fifo=row(trace_sha256="1" * 64))
    with pytest.raises(InputError, match="not of the same jobs"):
        readme.comparison(made, "base")


def test_guaranteed_jobs_have_a_column_where_there_are_any() -> None:
    made = readme.comparison(results(mt__fifo=row(guaranteed_jct_s=987.0)), "mt")
    lines = made.splitlines()
    assert "| average JCT (s) | of guaranteed jobs (s) |" in lines[0]
    assert lines[2].startswith("| `fifo` | no | no | **1,23")
    assert "** | 987 |" in lines[2]
    assert len({line.count("|") for line in lines[:4]}) == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"completed": 1}, "Not every job completes under MILP, `jct`."),
        ({"rounds_over_capacity": 3}, "Rounds over capacity: 3."),
        ({"fallback_rounds": 4}, "MILP, `jct` fell back in 4 of 10 rounds."),
        ({"gap_max": 1.5}, "The time limit ends a round of MILP, `jct` at 150 %."),
        ({"guarantee_misses": 2}, "leaves a guarantee short that could be kept in 2 of 10 rounds."),
    ],
)
def test_remarks_under_the_table_name_shortfalls(changes: dict[str, int], sentence: str) -> None:
    assert sentence in readme.comparison(results(base__jct=row(**changes)), "base")


def test_headline_has_the_objectives_first_and_then_peers() -> None:
    rows = {f"base.{key}": row() for key in ("fifo", "sia", "auto", "throughput", "srtf")}
    rows["base.throughput"] = row(avg_jct_s=1700.0, gap_max=0.02)
    text = readme.headline(Results(rows, {}, {}, {}))
    assert "no schedule has an average below 600 s" in text
    assert "every round proven within a gap of 0.1 %" in text
    shown = [line.split(" | ")[1] for line in text.splitlines()[4:]]
    assert shown == ["MILP, `throughput`", "MILP, the default", "`sia`", "`srtf`"]
    assert "| **1,700 s** | MILP, `throughput` |" in text


def record(policy: str, seed: int, avg_jct_s: float, **changes: object) -> Record:
    values: dict[str, object] = dict.fromkeys(Record.__dataclass_fields__, 0.0)
    values |= {"digest": "", "code": "", "trace": "base", "seed": seed, "policy": policy}
    values |= {"knows": "yes", "jobs": 2, "completed": 2, "avg_jct_s": avg_jct_s}
    return Record(**{**values, "makespan_s": 100.0, **changes})  # type: ignore[arg-type]


def test_policies_ahead_of_the_default_are_named_with_their_lead() -> None:
    records = [record(REFERENCE, seed, 110.0) for seed in (0, 1)]
    records += [record("`quick`", seed, 100.0, makespan_s=101.0) for seed in (0, 1)]
    records += [record("`once`", 0, 1.0), record("`left`", 0, 1.0, completed=1)]
    records += [replace(one, trace="mt") for one in records]
    assert readme.elsewhere(records) == (
        "Ahead of the default elsewhere, in means over twins: in average JCT `quick` on `base` "
        "(10.0 %) and `mt` (10.0 %)."
    )
    close = [record(REFERENCE, 0, 100.0), record("`close`", 0, 99.5)]
    assert readme.elsewhere(close) == ""
    assert readme.elsewhere([]) == ""


def test_table_4_has_printed_and_replayed_rows_of_each_trace() -> None:
    rows = {"morphling-bp.morphling": row(avg_jct_s=4500.0), "morphling-bp.sia": row()}
    lines = readme.table_4(Results(rows, {}, {}, {})).splitlines()
    assert "| `bp` | printed by its simulator | 3,638 | 58,680 |  |  |" in lines
    assert any(line.startswith("| `bp` | `morphling`, here | 4,500 | 7,200 |") for line in lines)
    assert not any("sia" in line for line in lines)


def test_targets_say_met_missed_and_not_measured() -> None:
    made = Results({"morphling-base.jct": row(avg_jct_s=1100.0, round_ms_p50=15.5)}, {}, {}, {})
    lines = readme.targets(made).splitlines()
    assert "| `morphling/base`, `jct`: average JCT | 1,150 s | 1,100 s | yes |" in lines
    assert "| `morphling/base`, `jct`: median round | 15 ms | 15.5 ms | no |" in lines
    assert any("`morphling/mt`" in line and "| not measured | no |" in line for line in lines)


def test_gain_over_greedy_and_rigid_matches_hand_computation() -> None:
    """1,200 over 1,000 by greed is 20 % more, 3,000 with rigid gangs 200 %."""
    times = {"lookahead": 1000.0, "greedy-lookahead": 1200.0, "srtf": 3000.0}
    rows = {f"base.{key}": row(avg_jct_s=seconds) for key, seconds in times.items()}
    said = readme.worth(Results(rows, {}, {}, {}))
    assert "on `base` greed costs 20.0 % of average JCT, and to keep jobs" in said
    assert "asked for 200 % (`srtf`)." in said
    del rows["base.srtf"]
    assert readme.worth(Results(rows, {}, {}, {})) == ""


# ---------------------------------------------------------------- markers


TEXT = "before\n<!-- generated:a -->\nold\n<!-- /generated:a -->\nafter\n"


def test_rounds_left_to_a_mip_solver_are_counted_by_step() -> None:
    some = results(base__auto=row(), base__throughput=row(steps={"stays": 4, "residual": 1}))
    text = readme.settled(some)
    assert text.endswith(
        "on `base` 1 of 10 rounds under the default objective, 1 of 5 rounds under `throughput`."
    )
    assert readme.settled(results(base__auto=row(steps={}))) == ""


def test_only_the_inside_of_a_block_is_rewritten() -> None:
    made = readme.rewrite(TEXT, {"a": r"new \1 line"})
    assert made == TEXT.replace("old", r"new \1 line")
    assert readme.block_in(made, "a") == r"new \1 line"
    assert readme.rewrite(made, {"a": "old"}) == TEXT


@pytest.mark.parametrize("text", ["nothing", TEXT + TEXT])
def test_markers_must_be_there_once(text: str) -> None:
    with pytest.raises(InputError, match="markers of block 'a' once"):
        readme.rewrite(text, {"a": "new"})


# ---------------------------------------------------------------- picture and command


def test_picture_has_the_same_bytes_for_the_same_numbers(tmp_path: Path) -> None:
    made = results(base__jct=row(), base__fifo=row())
    figure.draw(made, "base", tmp_path / "a.svg")
    figure.draw(made, "base", tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert text == (tmp_path / "b.svg").read_text("utf-8")
    assert figure.digest(made, "base") in text
    other = results(base__jct=row())
    assert figure.digest(other, "base") != figure.digest(made, "base")


def test_picture_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no replay of 'base'"):
        figure.draw(results(), "base", tmp_path / "a.svg")


def test_command_rewrites_a_readme_from_run_folders(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for case in (Case("base", BY_KEY["throughput"]), Case("mt", BY_KEY["fifo"])):
        folder, run = runs / case.slug, run_of()
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(summary_json(run.summary))
        (folder / "jobs.csv").write_text(jobs_csv(run.jobs))
        (folder / "rounds.csv").write_text(HEADER + "".join(map(row_to_line, run.rounds)))
    names = ("headline", "base", "mt", "commands", "versions", "elsewhere")
    page = tmp_path / "README.md"
    page.write_text("".join(TEXT.replace(":a", f":{name}") for name in names))
    call = ["write", "--runs", str(runs), "--data", str(tmp_path / "data"), "--readme", str(page)]
    assert main(call) == 0
    first = page.read_bytes()
    assert b"| MILP, `throughput` | yes | no | **1,23" in first
    assert b"old" not in first
    assert b"| **1,23" in first
    del call[1:3]  # from the gathered data alone
    assert main(call) == 0
    assert page.read_bytes() == first


@pytest.mark.parametrize(
    "call",
    [
        ["replay", "--only", "no.such"],
        ["write", "--runs", "no-such-folder", "--data", "{tmp}/data", "--readme", "{tmp}/none.md"],
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    call: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("{tmp}", str(tmp_path)) for word in call]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert shown.count("\n") == 1


# ---------------------------------------------------------------- running the replays


def test_replays_are_run_measured_and_compared_with_a_second_run(tmp_path: Path) -> None:
    case = Case("naive", BY_KEY["fifo"])
    run_cases([case], tmp_path, twice={case.slug}, at_once=1)
    measured = read_measured(case, tmp_path)
    assert measured is not None
    assert measured.rerun_identical is True
    assert measured.whole_s > 0.0
    found = row_of(read_run(tmp_path / case.slug), case.command, measured)
    assert found.completed == found.jobs
    assert not (tmp_path / f"{case.slug}.again").exists()


def test_replay_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    case = Case("no-such-trace", BY_KEY["fifo"])
    with pytest.raises(InputError, match=r"--trace no-such-trace --policy fifo: exit 2: error: "):
        run_cases([case], tmp_path, twice=(), at_once=1)
