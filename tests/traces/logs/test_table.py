"""Tables with a line per job, whatever their columns are called, and refusals of what is none."""

from __future__ import annotations

import importlib
import json
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.core.extend import blamed_on, remember
from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.logs.guess import guessed
from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.registry import load_trace
from tests.traces.logs.samples import SAMPLES, read

DAY = 1_704_067_200.0
"""2024-01-01 00:00:00 UTC."""


def table(
    tmp_path: Path, text: str, columns: str | None = None, **more: str
) -> tuple[list[LogRow], Report]:
    return read(tmp_path, "table", text, Reading(columns=columns, **more), strict=True)


@pytest.mark.parametrize(
    ("header", "line", "submit_s", "gpus", "run_s"),
    [
        ("job,submit,gpus,duration", "a,5,8,60", 5, 8, 60),
        ("JobID;SubmitTime;NumGPUs;RunTime_min", "a;5;8;1.5", 5, 8, 90),
        ("id\tarrival_time\tgpu_count\telapsed (h)", "a\t5\t2.0\t0.5", 5, 2, 1800),
        ("submitted_at,n_gpus,runtime", "2024-01-01 00:00:07,4,1-00:00:01", DAY + 7, 4, 86401),
        (
            "submitted_at,n_gpus,runtime",
            '2024/01/01 00:00:07,4,"1 day, 0:00:01"',
            DAY + 7,
            4,
            86401,
        ),
        (
            "submit,gpus,start,end",
            "2024-01-01T00:00:00Z,1,2024-01-01T01:00:00+01:00,2024-01-01T01:00:30+01:00",
            DAY,
            1,
            30,
        ),
        ("submit,gpus,wait,end", "5,1,10,45", 5, 1, 30),
        ("submit,gpus,end", "5,1,45", 5, 1, 40),
        ("created_at,gpus,duration_ms", "1704067200000,1,1500", DAY, 1, 1.5),
        ("time,timestamp,submit,gpus,duration", "1,2,3,1,9", 3, 1, 9),
        ("submit,gpus,duration,end", "5,1,60,100", 5, 1, 60),
    ],
)
def test_usual_names_are_guessed(
    tmp_path: Path, header: str, line: str, submit_s: float, gpus: int, run_s: float
) -> None:
    text = f"{header}\n{line}\n"
    (job,), report = table(tmp_path, text)
    assert (job.submit_s, job.gpus, job.run_s) == (submit_s, gpus, pytest.approx(run_s))
    assert guessed(tmp_path / "log.txt") == ("table", {})
    assert report.assumed[0].startswith("columns are ")
    queued = "run time is end - submit, which contains the queueing"
    assert (queued in report.assumed) == (header == "submit,gpus,end")


def test_a_column_that_is_called_by_its_unit_counts_it(tmp_path: Path) -> None:
    text = "asked_at,cards,hours\n5,2,0.5\n"
    for asked, run_s in (("hours", 1800.0), ("hours[min]", 30.0)):
        (job,), report = table(tmp_path, text, f"submit=asked_at,duration={asked}")
        assert job.run_s == pytest.approx(run_s)
        assert f"{run_s / 0.5:.0f} s" in report.assumed[0]


def test_everything_that_a_table_may_tell(tmp_path: Path) -> None:
    header = "job_id,user,project,model_name,gpu_type,nodes,node_list,submit,start,end,gpus,State"
    lines = [
        f"{n},ada,ml,bert,A100,2,n[1-2],0,10,100,8,{state}"
        for n, state in enumerate(("COMPLETED", "Out of Memory", "killed", "RUNNING", "queued", ""))
    ]
    jobs, report = table(tmp_path, "\n".join((header, *lines)) + "\n")
    assert [job.outcome for job in jobs] == ["completed", "failed", "cancelled", "unknown"]
    assert dict(report.dropped) == {"still-running": 1, "not-started": 1}
    job = jobs[0]
    assert (job.user, job.tenant, job.kind, job.gpu_type) == ("ada", "ml", "bert", "A100")
    assert (job.nodes, job.hosts, job.start_s, job.queue_s) == (2, "n[1-2]", 10, 10)


def test_columns_that_are_named(tmp_path: Path) -> None:
    text = "who,when,cards,took,state\nada,5,8,2,odd\n"
    columns = "submit=when,gpus=cards,duration=took[h],user=who,state="
    (job,), report = table(tmp_path, text, columns)
    assert (job.name, job.submit_s, job.gpus, job.run_s) == ("line-2", 5, 8, 7200)
    assert (job.user, job.status) == ("ada", "")
    assert report.options == {"columns": columns}


def test_equal_lines_are_one_job_only_where_jobs_have_names(tmp_path: Path) -> None:
    jobs, report = table(tmp_path, "submit,gpus,duration\n5,1,60\n5,1,60\n")
    assert len(jobs) == 2
    assert report.findings["identical-rows"].count == 1
    jobs, report = table(tmp_path, "job,submit,gpus,duration\na,5,1,60\na,5,1,60\n")
    assert (len(jobs), dict(report.dropped)) == (1, {"duplicate": 1})


@pytest.mark.parametrize(
    ("header", "columns", "said"),
    [
        (
            "x,y",
            None,
            "line 1: no column is known as submit or as gpus or as duration: the header "
            "has x, y; name them with columns submit=COLUMN,gpus=COLUMN,duration=COLUMN, or end=",
        ),
        ("submit,gpus", None, "columns duration=COLUMN, or end=COLUMN"),
        ("submit,duration,gpu_hours", None, "columns gpus=COLUMN"),
        ("submit,req_gpus,alloc_gpus,run", None, "gpus: can be req_gpus or alloc_gpus: choose one"),
        ("submit,arrival,gpus,run", None, "submit: can be submit or arrival: choose one"),
        ("a,gpus,run", "submit=b", "columns: no column 'b'; the header has a, gpus, run"),
        ("when,gpus,run", "submit=wehn", r"no column 'wehn' \(did you mean 'when'\?\)"),
        ("when,gpus,run", "submitt=when", r"unknown column 'submitt' \(did you mean 'submit'\?\)"),
        ("when,gpus,run", "submit=when,duration=run[moons]", "unknown unit of duration: 'moons'"),
        ("when,gpus,run", "submit=when,gpus=run[h]", "unknown unit of gpus: 'h'"),
        ("when,gpus,run", "submit=when,submit=run", "names submit twice"),
        ("when,gpus,run", "submit", "must be WHAT=COLUMN,..., got 'submit'"),
    ],
)
def test_ambiguous_columns_are_asked_for(
    tmp_path: Path, header: str, columns: str | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        table(tmp_path, header + "\n", columns)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (",1,60", "submit: must not be empty"),
        ("1/2/2024 9:30,1,60", "submit: must be a time like 2023-07-01 09:30:00"),
        ("5,one,60", "gpus: must be a number"),
        ("5,1,soon", "duration: must be a duration like 1-02:03:04, got 'soon', or a number"),
    ],
)
def test_malformed_cells_are_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError, match=f"line 2, {said}"):
        table(tmp_path, f"submit,gpus,duration\n{line}\n")


def test_blank_cells_are_no_gpu_and_no_duration(tmp_path: Path) -> None:
    _, report = table(tmp_path, "submit,gpus,duration\n5,,60\n6,1,\n")
    assert dict(report.dropped) == {"no-gpu": 1, "no-duration": 1}


def test_a_window_is_of_dates_or_of_seconds_as_the_table_has_them(tmp_path: Path) -> None:
    seconds = "submit,gpus,duration\n5,1,60\n15,1,60\n"
    jobs, _ = table(tmp_path, seconds, window="10..20")
    assert [job.submit_s for job in jobs] == [15]
    dates = "submit,gpus,duration\n2024-01-01 00:00:07,1,60\n2024-01-02 00:00:07,1,60\n"
    jobs, _ = table(tmp_path, dates, window="2024-01-02..")
    assert [job.submit_s for job in jobs] == [DAY + 86407]


# ---------------------------------------------------------------- refusals that name what is near


@pytest.mark.parametrize(
    ("spec", "header", "said"),
    [
        ("{}", "job,submit,gpus,duration", "it looks like a log: table:x.csv"),
        ("{}", SAMPLES["helios"].head[0], "it looks like a log: helios:x.csv"),
        ("sacct:{}", "job,submit,gpus,duration", "it looks like a log: table:x.csv"),
        ("{}", "a,b", "as a table: no column is known as submit or as gpus or as duration"),
        (
            "{}",
            SAMPLES["openb"].head[0].replace("gpu_milli", "milli"),
            "nearest is openb, which also has gpu_milli",
        ),
    ],
)
def test_a_refused_table_names_what_it_is(
    tmp_path: Path, spec: str, header: str, said: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(header + "\n")
    with pytest.raises(InputError, match=said) as caught:
        load_trace(spec.format(path))
    assert "column is missing" in str(caught.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {
                "kind": "Workload",
                "apiVersion": "kueue.x-k8s.io/v1beta1",
                "status": {"conditions": [{"status": "True"}, {"status": "True"}]},
            },
            "it looks like a log: kueue:x.json",
        ),
        ({"jobs": [{"job_id": 1, "time": {}, "tres": {}}]}, "it looks like a log: sacct:x.json"),
        ({"a": "b"}, "it is of no known format"),
    ],
)
def test_json_without_a_format_names_what_it_is(tmp_path: Path, document: Any, said: str) -> None:
    for name, indent in (("x.json", None), ("x.json", 2)):
        path = tmp_path / name
        path.write_text(json.dumps(document, indent=indent))
        with pytest.raises(InputError, match=f"is JSON, and jobs are read from CSV; {said}"):
            load_trace(path)


def test_a_file_of_no_format_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(SAMPLES["helios"].head[0].replace("gpu_num", "devices") + "\n")
    with pytest.raises(InputError, match="nearest is helios, which also has gpu_num"):
        lint(path)


# ---------------------------------------------------------------- a log that is cut


@pytest.mark.parametrize("name", ["table", "sacct", "kueue", "philly"])
def test_a_cut_end_is_dropped_and_counted_where_that_is_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = SAMPLES[name]
    text = sample.text()
    cut = text[: text.rindex(sample.lines[-1]) + len(sample.lines[-1]) // 2]
    jobs, _ = read(tmp_path, name, sample.text(sample.lines[:-1]))
    with pytest.raises(InputError, match=r"log\.txt.*; malformed=drop leaves such rows out"):
        read(tmp_path, name, cut, strict=True)
    found, report = read(tmp_path, name, cut, Reading(malformed="drop"), strict=True)
    assert found == jobs
    assert report.dropped["malformed"] == 1
    assert main(["lint", f"{name}:{tmp_path / 'log.txt'}", "--malformed", "drop"]) == 1
    assert "warning  malformed-dropped: 1 of " in capsys.readouterr().out
    account = load_trace(f"{name}:{tmp_path / 'log.txt'}", malformed="drop", gpu_types="ignore")
    assert account.account is not None
    assert "malformed 1 (" in account.account.lines()["dropped"]


# ---------------------------------------------------------------- formats of one's own

OWN = """
from morph_opt.inputs.traces.logs.reading.reader import TableReader
from morph_opt.inputs.traces.logs.reading.row import LogRow
from morph_opt.inputs.traces.logs.formats.table import OwnTableReader

class Named(OwnTableReader):
    columns = "submit=when,gpus=cards,duration=took[min]"

class NoRow(TableReader):
    pass

class Five(TableReader):
    def row(self, record):
        return 5

class Broken(TableReader):
    def row(self, record):
        return 1 / 0

def function(argument, *, seed):
    pass

def fails(by):
    return 1 / by
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    name = f"own_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / "x.csv").write_text("when,cards,took\n5,8,2\n65,1,3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Path(name)


def test_columns_of_a_site_are_a_class_of_two_lines(own: Path) -> None:
    assert [job.iterations for job in load_trace(f"{own}:Named:x.csv").trace.jobs] == [120, 180]
    assert lint(f"{own}:Named:x.csv").report.gpu_seconds == 8 * 120 + 180
    assert lint("x.csv", f"{own}:Named").report.jobs == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NoRow", "is no log format: it has no row"),
        ("Five", "Five.row must return a morph_opt.*LogRow, got int"),
        ("function", "unknown log format .a class derived from Reader."),
        ("nothing", "cannot import .*nothing"),
    ],
)
def test_unknown_formats_are_refused(own: Path, name: str, said: str) -> None:
    for read_it in (load_trace, lint):
        with pytest.raises(InputError, match=said):
            read_it(f"{own}:{name}:x.csv")


def test_error_inside_a_custom_format_is_passed_through(own: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        lint(f"{own}:Broken:x.csv")
    assert str(blamed_on(caught.value)).startswith(f"{own}:Broken failed in Broken.row")


def test_an_error_is_blamed_on_a_function_and_not_on_its_partial(own: Path) -> None:
    module = importlib.import_module(str(own))
    mine = partial(module.fails, 0)
    remember(mine, "given:mine")
    remember(partial(len), "given:ours")
    with pytest.raises(ZeroDivisionError) as caught:
        mine()
    assert str(blamed_on(caught.value)).startswith("given:mine failed in fails")
    with pytest.raises(InputError) as refused:
        singledispatch(_refuse)(own)
    assert blamed_on(refused.value) is None


def _refuse(path: Path) -> None:
    raise InputError(f"{path}: refused")
