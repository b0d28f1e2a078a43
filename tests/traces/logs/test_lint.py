"""The linter as a command, capacity over time, and content that means harm."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import get_args

import pytest

from morph_opt.core.domain import InputError
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.logs.capacity import Step, node_events, read_capacity
from morph_opt.inputs.traces.logs.lint import lint, published_near
from morph_opt.inputs.traces.logs.reading.clock import Clock, zone_of
from morph_opt.inputs.traces.logs.reading.report import CHECKS, Report, Severity
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.simulation.engine.node_events import read_node_events
from tests.traces.logs.samples import SACCT, SAMPLES, put, read, sacct

HELIOS = SAMPLES["helios"]


def test_checks_are_sorted_and_their_sentences_can_be_said() -> None:
    severities = get_args(Severity)
    ranks = [severities.index(check.severity) for check in CHECKS.values()]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (HELIOS.text(), 0, "note     naive-time: 6 times have no zone"),
        (HELIOS.text(HELIOS.lines[:1] * 2), 0, "dropped  duplicate: 1 (50.0%)"),
        (HELIOS.text((HELIOS.lines[0].replace("TIMEOUT", "LOST"),)), 1, "state LOST is not one"),
        (HELIOS.text((HELIOS.broken,)), 2, "1 of 1 rows are malformed; the first: line 2, submit"),
        (HELIOS.text().replace("gpu_num", "devices"), 2, "error: "),
    ],
)
def test_the_exit_status_is_that_of_the_worst_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, said: str
) -> None:
    path = put(tmp_path, "helios", text, "log.csv")
    assert main(["lint", str(path)]) == status
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_missing_columns_in_a_format_that_was_named(tmp_path: Path) -> None:
    path = put(tmp_path, "openb", "name,num_gpu,gpu_milli\np,1,1000\n", "pods.csv")
    found = lint(path)
    assert found.guess
    assert found.status == 2
    header = SAMPLES["openb"].head[0].replace("scheduled_time", "placed")
    found = lint(put(tmp_path, "openb", header + "\n", "pods.csv"), "openb")
    sentences = [text for _, _, text in found.report.sentences()]
    assert sentences == [
        "trace has no column scheduled_time (format openb): run times cannot be known"
    ]


@pytest.mark.parametrize("name", [n for n, one in SAMPLES.items() if one.head and not one.tail])
def test_a_log_without_a_row_is_an_error(name: str, tmp_path: Path) -> None:
    head = "\n".join(SAMPLES[name].head) + "\n"
    found = lint(put(tmp_path, name, head, SAMPLES[name].name), name)
    assert list(found.report.findings) == ["no-rows"]
    assert found.report.worst == "error"


def test_a_log_whose_header_was_cut_off_says_so(tmp_path: Path) -> None:
    # The cells gpu and 8 of a row may stand twice: that is no column that occurs twice.
    _, report = read(tmp_path, "sacct", sacct("gpu") + "\n" + sacct("8") + "\n")
    assert list(report.findings) == ["no-header"]


def test_two_formats_are_an_error_and_no_choice(tmp_path: Path) -> None:
    both = HELIOS.head[0] + ",type"
    path = put(tmp_path, "helios", both + "\n", "log.csv")
    with pytest.raises(InputError, match="can be acme or helios; choose one with format"):
        lint(path)


def test_a_published_count_that_is_not_reached_is_a_selection() -> None:
    near = [published_near(rows, (100, 1000)) for rows in (100, 81, 49, 999)]
    assert near == [None, 100, None, 1000]


def test_the_line_of_a_broken_row_far_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = "9 0 0 60 1 -1 -1 1 -1 -1 1 1 1 -1 1 1 -1 -1\n"
    path = put(tmp_path, "swf", good * 30_000 + "9 0 0 60\n" + good, "log.swf")
    assert main(["lint", str(path)]) == 2
    assert "line 30001: must have 18 fields, got 4" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"log\.swf, line 30001: must have 18 fields, got 4"):
        read(tmp_path, "swf", path.read_text("utf-8"), strict=True, name="log.swf")


# ---------------------------------------------------------------- capacity

CAPACITY = "date,vcA,vcB,total\n2020-07-01,8,8,16\n2020-07-02,8,8,16\n2020-07-03,16,8,24\n"
CAPACITY += "2020-07-04,8,2,10\n"
DAY_S = 86400.0


def test_capacity_is_read_as_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "capacity.csv"
    path.write_text(CAPACITY)
    steps = read_capacity(path, "Asia/Shanghai")
    assert [step.gpus for step in steps] == [16, 24, 10]
    assert steps[1].time_s - steps[0].time_s == 2 * DAY_S


def test_nodes_come_and_go_with_the_capacity() -> None:
    """Nodes of 8: 16 GPUs are two of three, 24 all, and of 10 one whole node."""
    steps = (Step(0.0, 16), Step(2 * DAY_S, 24), Step(3 * DAY_S, 10))
    cluster = load_cluster("3x8:A800-80GB")
    names = [node.name for node in cluster.nodes]
    assert list(node_events(steps, cluster, 0.5 * DAY_S)) == [
        (0.0, names[2], "drain"),
        (1.5 * DAY_S, names[2], "return"),
        (2.5 * DAY_S, names[1], "drain"),
        (2.5 * DAY_S, names[2], "drain"),
    ]
    assert list(node_events(steps, cluster, 9 * DAY_S)) == [
        (0.0, names[1], "drain"),
        (0.0, names[2], "drain"),
    ]
    with pytest.raises(InputError, match="at least the 24 GPUs of the largest capacity, has 16"):
        list(node_events(steps, load_cluster("2x8:A800-80GB"), 0.0))


def test_the_command_writes_node_events_that_a_replay_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = put(tmp_path, "helios", HELIOS.text(), "cluster_log.csv")
    beside = tmp_path / "cluster_gpu_number.csv"
    beside.write_text(CAPACITY)
    events = tmp_path / "events.csv"
    words = ["capacity", str(beside), "--trace", f"helios:{log}", "--cluster", "3x8:A800-80GB"]
    assert main([*words, "--out", str(events)]) == 0
    assert "3 steps, 10 to 24 GPUs" in capsys.readouterr().err
    found = read_node_events(events, load_cluster("3x8:A800-80GB"))
    # The first job is submitted at 8:00 of the third day: 24 GPUs then, 10 after 16 hours.
    assert [event.time_s for event in found] == [16 * 3600.0] * 2
    # The linter finds the table beside a log of Helios by itself.
    report = lint(log).report
    assert report.findings["capacity-varies"].count == 2
    assert "(10 to 24 GPUs)" in lint(log).as_text()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("date,all\n2020-07-01,8\n", "line 1, total: column is missing"),
        ("day,total\n2020-07-01,8\n", "date: column is missing: capacity has no time"),
        ("date,total\n2020-07-01,8\n2020-07-01,9\n", "line 3, date: must be later"),
        ("date,total\n2020-13-01,8\n", "line 2, date: must be a time that exists"),
        ("date,total\n2020-07-01,-8\n", "line 2, total: must be at least 0"),
        ("date,total\n", "has a header but no capacity"),
    ],
)
def test_a_wrong_capacity_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "capacity.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rule):
        read_capacity(path, "UTC")


# ---------------------------------------------------------------- harm


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_has_no_header(tmp_path: Path, text: str) -> None:
    path = put(tmp_path, "helios", text, "log.csv")
    found = lint(path, "helios")
    assert list(found.report.findings) == ["no-header"]
    assert found.status == 2
    with pytest.raises(InputError, match=r"log\.csv, line 1"):
        read(tmp_path, "helios", text, strict=True, name="log.csv")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_logs_are_read(tmp_path: Path, suffix: str) -> None:
    packed = (gzip if suffix == ".gz" else lzma).compress(HELIOS.text().encode())
    path = tmp_path / f"log.csv{suffix}"
    path.write_bytes(packed)
    assert lint(path).report.gpu_seconds == HELIOS.gpu_s
    path.write_bytes(packed[:-9])
    with pytest.raises(InputError, match="is damaged"):
        lint(path, "helios")


def test_a_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    """300 MiB of one line: neither the line nor the file is ever held."""
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(6):
            file.write(b"a" * (1 << 20))
    with pytest.raises(InputError, match="line 1: must have at most 4000000 characters"):
        lint(path, "helios")


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("helios", ",".join("c" * 10**6) + "\n", "at most 1000 columns"),
        ("helios", HELIOS.head[0] + "\n" + "," * 10**6 + "\n", "must have 12 fields, got 1000001"),
        ("helios", HELIOS.head[0] + ",user\n", "line 1, user: column occurs twice"),
        ("helios", HELIOS.head[0] + "\n\x1b[2J,b\n", "must have 12 fields, got 2"),
        ("helios", HELIOS.text((HELIOS.lines[0].replace("88", '"88'),)), "is not a CSV line"),
        ("philly", "[" * 100_000, "is not JSON"),
        ("philly", '[{"jobid": 1} {"jobid": 2}]', "line 1: is not JSON"),
        ("philly", '[{"jobid": "a", "jobid": "b"}]', "jobid: is given twice"),
        ("philly", '[{"jobid": NaN}]', "line 1, jobid: must be a finite number"),
        ("philly", "[" + "9" * 10_000 + "]", "is not JSON: a number of thousands of digits"),
        ("philly", '["' + "a" * 5_000_000 + '"]', "must have entries of at most 4000000"),
        ("philly", "[1,\n2,\n]", "line 3: is not JSON: a comma before ]"),
        ("philly", "[7]", "must be an object, got 7"),
        ("kueue", '{"items": 3}', "must be JSON with a list 'items'"),
        ("kueue", '{"kind": "List"}', "items: is missing"),
        ("batsim", '{"jobs": []}', "profiles: is missing"),
        ("kueue", '{"items": []}\n{"items": []}', "line 2: must be one JSON document"),
        ("kueue", '{"items": [],\n"items": []}', "line 2, items: occurs twice"),
        ("kueue", '{"items": []', "line 1: is not JSON: expecting '}'"),
        ("philly", "[]\n[]", "line 2: must be one JSON document"),
    ],
)
def test_hostile_content_is_refused_in_one_line(
    tmp_path: Path, name: str, text: str, rule: str
) -> None:
    with pytest.raises(InputError) as caught:
        # What is no JSON any more stops the linter too; a malformed row before it does not.
        read(tmp_path, name, text, strict="is not JSON" not in rule)
    said = str(caught.value)
    assert rule in said
    assert said.isprintable()
    assert len(said) < 1000


def test_control_characters_of_a_log_are_escaped(tmp_path: Path) -> None:
    lines = (
        sacct("7\x1b[31m", state="\x1b]0;owned\x07"),
        sacct("8", held="gres/gpu=\x1b[2J"),
        sacct("9"),
    )
    path = put(tmp_path, "sacct", "\n".join((SACCT, *lines)) + "\n", "log\x1b[1m.txt")
    text = lint(path).as_text()
    assert "unknown-status" in text
    assert "malformed" in text
    assert all(line.isprintable() for line in text.splitlines())
    json.loads(lint(path).as_json())


def test_a_name_with_control_characters_is_no_job_of_a_replay(tmp_path: Path) -> None:
    path = put(tmp_path, "sacct", f"{SACCT}\n{sacct('7' + chr(27))}\n", "log.txt")
    with pytest.raises(InputError, match=r"line 2, name: must be a non-empty name"):
        load_trace(f"sacct:{path}")


def test_another_format_further_down_is_malformed(tmp_path: Path) -> None:
    text = HELIOS.text() + SAMPLES["acme"].text()
    _, report = read(tmp_path, "helios", text)
    assert dict(report.dropped) == {"malformed": 3}
    assert report.jobs == 2


@pytest.mark.parametrize(
    "name", ["Mars", "../../etc/passwd", "UTC+25:00", "+24:00", "a/b/c/d", "\n"]
)
def test_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="timezone: unknown time zone"):
        zone_of(name)


@pytest.mark.parametrize(("name", "file"), [("pai", "pai_job_table.csv"), ("helios", "none.csv")])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str, file: str) -> None:
    (tmp_path / "pai_job_table.csv").write_text("j,i,u,Terminated,1,2\n")
    with pytest.raises(InputError, match=r"needs the task table|cannot be read"):
        lint(tmp_path / file, name)


@pytest.mark.parametrize("command", ["lint", "capacity"])
def test_a_report_does_not_replace_the_log_that_it_is_of(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, "helios", HELIOS.text(), "log.csv")
    (tmp_path / "same.csv").symlink_to(path)
    out = str(tmp_path / "." / "same.csv")
    words = ["lint", str(path), "--json", out]
    if command == "capacity":
        words = ["capacity", "other.csv", "--trace", f"helios:{path}", "--cluster", "1x8"]
        words += ["--out", out]
    assert main(words) == 2
    assert "is an input: name another file" in capsys.readouterr().err
    assert path.read_text("utf-8") == HELIOS.text()


def test_readings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="procs_per_gpu: must be a whole number from 1"):
        Reading(procs_per_gpu=0)


def test_a_report_adds_its_details() -> None:
    report = Report("x")
    report.found("start-before-submit", 3, worst=2.0)
    report.found("start-before-submit", 5, worst=1.0)
    report.found("retried", 5, wasted_gpu_s=1.0)
    report.found("retried", 6, wasted_gpu_s=2.0)
    assert report.findings["start-before-submit"].details == {"worst": 2.0}
    assert report.findings["retried"].details == {"wasted_gpu_s": 3.0}
    assert report.findings["retried"].lines == [5, 6]


def test_an_instant_that_no_calendar_has_is_malformed(tmp_path: Path) -> None:
    text = "; UnixStartTime: 0\n1 1e300 5 1e308 8 -1 -1 8 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
    path = tmp_path / "a.swf"
    path.write_text(text)
    report = lint(path, "swf", Reading(procs_per_gpu=1)).report
    assert report.dropped == {"malformed": 1}
    assert "must be within 5e+09 s" in str(report.first_malformed)


def test_an_hour_of_which_the_second_half_exists_twice_is_ambiguous() -> None:
    """On Lord Howe Island clocks go back by half an hour at two: from 1:30 on it is told twice."""
    clock = Clock("Australia/Lord_Howe")
    clock.seconds("2023-04-02 00:45:00")
    assert (clock.naive, clock.ambiguous) == (1, 0)
    clock.seconds("2023-04-02 01:45:00")
    assert (clock.naive, clock.ambiguous) == (2, 1)
