"""What every format keeps; a new one is tested by being in the registry and having a sample."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.logs.guess import guessed
from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS
from tests.traces.logs.samples import SAMPLES, Sample, put, read

EACH = pytest.mark.parametrize(("name", "sample"), SAMPLES.items(), ids=list(SAMPLES))
FEW = settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def balanced(report: Report) -> bool:
    return report.rows == report.jobs + report.dropped.total() + report.folded


def status_of(name: str) -> int:
    """Status of a faultless log: 1 if a replay of its format needs an option."""
    known = LOG_FORMATS[name]
    return int(bool(known.needed) or not known.durations)


def test_every_format_has_a_sample() -> None:
    assert list(SAMPLES) == list(LOG_FORMATS)


@EACH
def test_a_good_log_is_read_to_the_last_row(name: str, sample: Sample, tmp_path: Path) -> None:
    jobs, report = read(tmp_path, name, sample.text(), sample.how, strict=True, name=sample.name)
    assert balanced(report)
    assert report.rows == report.jobs == len(jobs) == len(sample.lines)
    assert report.gpu_seconds == sample.gpu_s
    assert report.worst in (None, "note"), list(report.sentences())
    assert len({job.line for job in jobs}) == len(jobs)


@EACH
def test_format_of_each_sample_is_guessed(name: str, sample: Sample, tmp_path: Path) -> None:
    path = put(tmp_path, name, sample.text(), sample.name)
    found, layout = guessed(path)
    assert found == name
    assert lint(path).guess
    how = replace(sample.how, **layout)  # type: ignore[arg-type]
    assert lint(path, name, how).status == status_of(name)


@EACH
def test_a_broken_row_stops_one_reader_and_is_counted_by_the_other(
    name: str, sample: Sample, tmp_path: Path
) -> None:
    text = sample.text((sample.lines[0], sample.broken, *sample.lines[1:]))
    line = 1 + text[: text.index(sample.broken)].count("\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path, name, text, sample.how, strict=True, name=sample.name)
    assert caught.value.line == line
    assert caught.value.file is not None
    assert caught.value.field
    assert "\n" not in str(caught.value)
    jobs, report = read(tmp_path, name, text, sample.how, name=sample.name)
    assert balanced(report)
    assert report.dropped == {"malformed": 1}
    assert report.findings["malformed"].lines == [line]
    assert len(jobs) == len(sample.lines)
    assert report.worst == "error"


@EACH
def test_a_row_with_an_id_counts_once(name: str, sample: Sample, tmp_path: Path) -> None:
    text = sample.text((*sample.lines, sample.lines[0]))
    jobs, report = read(tmp_path, name, text, sample.how, name=sample.name)
    assert balanced(report)
    if LOG_FORMATS[name].ids:
        assert report.dropped == {"duplicate": 1}
        assert report.gpu_seconds == sample.gpu_s
    else:
        assert len(jobs) == len(sample.lines) + 1
        assert report.findings["identical-rows"].count == 1


@EACH
@FEW
@given(data=st.data())
def test_the_order_of_rows_changes_nothing_but_their_order(
    name: str, sample: Sample, tmp_path: Path, data: st.DataObject
) -> None:
    lines = data.draw(st.permutations((*sample.lines, sample.broken)))
    _, plain = read(tmp_path, name, sample.text(), sample.how, name=sample.name)
    _, report = read(tmp_path, name, sample.text(lines), sample.how, name=sample.name)
    assert (report.jobs, report.gpu_seconds) == (plain.jobs, plain.gpu_seconds)
    assert report.dropped == {"malformed": 1}


@EACH
def test_two_halves_add_up(name: str, sample: Sample, tmp_path: Path) -> None:
    _, whole = read(tmp_path, name, sample.text(), sample.how, name=sample.name)
    parts = [
        read(tmp_path, name, sample.text(half), sample.how, name=sample.name)[1]
        for half in (sample.lines[:1], sample.lines[1:])
    ]
    assert whole.rows == sum(part.rows for part in parts)
    assert whole.jobs == sum(part.jobs for part in parts)
    if sample.gpu_s is not None:
        assert whole.gpu_seconds == sum(part.gpu_seconds or 0.0 for part in parts)


@EACH
def test_another_zone_changes_no_difference(name: str, sample: Sample, tmp_path: Path) -> None:
    if LOG_FORMATS[name].zone is None:
        how = replace(sample.how, timezone="UTC")
        with pytest.raises(InputError, match="timezone: has no effect"):
            read(tmp_path, name, sample.text(), how, name=sample.name)
        return
    jobs, _ = read(tmp_path, name, sample.text(), sample.how, name=sample.name)
    for zone in ("Europe/Berlin", "-03:30"):
        how = replace(sample.how, timezone=zone)
        moved, _ = read(tmp_path, name, sample.text(), how, name=sample.name)
        assert [job.run_s for job in moved] == [job.run_s for job in jobs]
        assert [job.queue_s for job in moved] == [job.queue_s for job in jobs]
        gaps = [job.submit_s - jobs[0].submit_s for job in jobs]
        assert [job.submit_s - moved[0].submit_s for job in moved] == gaps


@EACH
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n \n",
    ],
    ids=["crlf", "byte-order mark", "no last line break", "blank lines"],
)
def test_the_bytes_around_rows_do_not_matter(
    name: str, sample: Sample, tmp_path: Path, change: object
) -> None:
    assert callable(change)
    jobs, _ = read(tmp_path, name, sample.text(), sample.how, name=sample.name)
    again, report = read(tmp_path, name, change(sample.text()), sample.how, name=sample.name)
    assert again == jobs
    assert balanced(report)


@EACH
def test_files_named_in_the_output_are_written(
    name: str, sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, name, sample.text(), sample.name)
    options = [f"--{key.replace('_', '-')}={value}" for key, value in sample.how.given().items()]
    json_file = tmp_path / "report.json"
    assert main(["lint", str(path), "--json", str(json_file), "--rows", *options]) == status_of(
        name
    )
    assert f"format   {name} (guessed" in capsys.readouterr().out
    found = json.loads(json_file.read_text("utf-8"))
    assert list(found)[:8] == [
        "format",
        "rows",
        "jobs",
        "folded",
        "gpu_seconds",
        "dropped",
        "findings",
        "first_lines",
    ]
    assert found["gpu_seconds"] == sample.gpu_s
    assert found["submission_s"] == sorted(found["submission_s"])
    assert len(found["gpus"]) == len(found["duration_s"]) == found["jobs"]
    if sample.gpu_s is not None:
        rows = zip(found["gpus"], found["duration_s"], strict=True)
        assert sum(gpus * run for gpus, run in rows) == pytest.approx(sample.gpu_s)
    assert len(found["sha256"]) == 64
