"""Files of published cases: counted, compared, refused; and the published files themselves."""

from __future__ import annotations

import json

import pytest

from benchmarks.published.__main__ import main
from benchmarks.published.cases import differences
from benchmarks.published.files import run_file
from tests.public_data import skip_without_data
from tests.shares.worlds import fixture_path

FILES = {"gavel.json": 150, "tiresias.json": 60, "baselines.json": 59, "gandiva.json": 53}
"""Published files and the least number of cases that they hold."""


def test_easyscale_figures_are_reproduced(public_data):
    if not (public_data / "easyscale").is_dir():
        skip_without_data("EasyScale's trace, which nobody may offer")
    outcome = run_file(fixture_path("easyscale.json"))
    right = {part: count.right for part, count in outcome.parts.items()}
    assert right["maps"] >= 30
    assert right["candidates"] >= 24
    assert right["rounds: elastic"] >= 8
    assert right["published: proposals"] >= 3
    assert right["published: runs"] >= 4
    told_nowhere = {"table C, easyscale, ties by rounded score", "table C, easyscale, exact maps"}
    assert {wrong.name for wrong in outcome.wrong if wrong.not_run} <= told_nowhere
    assert [wrong for wrong in outcome.wrong if not wrong.not_run] == []


@pytest.mark.parametrize("name", FILES)
def test_every_published_case_is_right(name, public_data):
    outcome = run_file(fixture_path(name))
    assert outcome.wrong == []
    assert outcome.all_right
    assert sum(part.right for part in outcome.parts.values()) >= FILES[name]


# One job on one type of one GPU at 2 steps/s: the largest share is all of it, 2 steps/s.
INSTANCE = {
    "id": "one",
    "worker_types": ["v100"],
    "cluster": {"v100": 1},
    "throughputs": [[2.0]],
    "scale_factors": [1],
    "weights": [1.0],
    "num_steps_remaining": [10.0],
    "times_since_start": [0.0],
    "solutions": {"max_sum_throughput_perf": {"exact_objective": 2.0}},
}
# Two gangs of 2 on 2 GPUs, first come first served: 0 to 30, then 30 to 40.
RUN = {
    "trace": "two",
    "cluster": {"total_gpus": 2},
    "schedule": "fifo",
    "reference": {
        "columns": ["job_id", "start_time", "end_time", "JCT", "preempt", "resume", "promote"],
        "rows": [[0, 0, 30, 30, 0, 0, 0], [1, 30, 40, 35, 0, 0, 0]],
    },
}
TRACES = {
    "two": [
        {"job_id": 0, "num_gpu": 2, "submit_time": 0, "duration": 30},
        {"job_id": 1, "num_gpu": 2, "submit_time": 5, "duration": 10},
    ]
}


def validate(tmp_path, capsys, document, *options):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(document))
    status = main([str(path), *options])
    return status, capsys.readouterr()


def test_right_cases_end_with_zero(tmp_path, capsys):
    document = {"source": "by hand", "instances": [INSTANCE], "traces": TRACES, "cases": [RUN]}
    status, told = validate(tmp_path, capsys, document)
    assert status == 0
    assert "max_sum_throughput_perf      1      0        0      1" in told.out


def test_a_wrong_value_is_named_with_both_numbers(tmp_path, capsys):
    off = json.loads(json.dumps(INSTANCE))
    off["solutions"]["max_sum_throughput_perf"]["exact_objective"] = 2.0001
    late = json.loads(json.dumps(RUN))
    late["reference"]["rows"][1][2] = 41
    document = {"instances": [INSTANCE, off], "traces": TRACES, "cases": [late]}
    status, told = validate(tmp_path, capsys, document)
    assert status == 1
    assert "objective: expected 2.0001, got 2.0" in told.out
    assert "two on 2 GPUs, fifo: job 1.end_time: expected 41, got 40" in told.out
    status, told = validate(tmp_path, capsys, document, "--json")
    found = json.loads(told.out)
    assert status == 1
    assert not found["all_right"]
    assert [part["right"] for part in found["files"][0]["parts"]] == [1, 0]
    assert [one["got"] for one in found["files"][0]["wrong"]] == [2.0, 40]


@pytest.mark.parametrize(
    "document",
    [
        {"instances": [INSTANCE], "a_new_part": [{}]},
        {"instances": [{**INSTANCE, "solutions": {"new_policy": {"exact_objective": 1.0}}}]},
    ],
)
def test_cases_that_were_not_run_do_not_count_as_right(document, tmp_path, capsys):
    status, told = validate(tmp_path, capsys, document)
    assert status == 1
    assert "not run: " in told.out


@pytest.mark.parametrize("lost", ["row", "column", "both rows"])
def test_cases_with_missing_parts_do_not_count_as_right(lost, tmp_path, capsys):
    """A job, or what is published of it, that a file lost was compared by nobody."""
    case = json.loads(json.dumps(RUN))
    table = case["reference"]
    if lost == "column":
        table["columns"][3] = "other"
    else:
        del table["rows"][0 if lost == "both rows" else 1 :]
    status, told = validate(tmp_path, capsys, {"traces": TRACES, "cases": [case]})
    assert status == 1
    assert f"{'job 0' if lost == 'column' else 'jobs'}: expected [" in told.out


def test_case_that_raises_is_wrong_and_the_others_still_run(tmp_path, capsys):
    wide = {**TRACES, "wide": [{"job_id": 0, "num_gpu": 9, "submit_time": 0, "duration": 1}]}
    document = {"traces": wide, "cases": [{**RUN, "trace": "wide"}, RUN]}
    status, told = validate(tmp_path, capsys, document)
    assert status == 1
    assert "expected 'an answer', got 'InputError" in told.out
    assert "cases: reference      1      1        0      2" in told.out


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "must be an object"),
        ({"source": "nobody"}, "holds no part"),
        ({"instances": [INSTANCE], "slices": []}, "slices: holds no case"),
        ({"instances": {}}, "instances: is not of the form of this part's cases: must be a list"),
        ({"instances": [{"id": "x"}]}, "instances[0]: is not of the form"),
        ({"cases": [RUN]}, "cases[0]: is not of the form of this part's cases: lacks 'traces'"),
        ({"cases": [{**RUN, "trace": 7}], "traces": TRACES}, "cases[0]: is not of the form"),
    ],
)
def test_bad_input_is_one_line(document, words, tmp_path, capsys):
    status, told = validate(tmp_path, capsys, document)
    assert status == 2
    assert told.out == ""
    assert words in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("expected", "got", "places"),
    [
        (1.0, 1.0 + 5e-7, []),
        (1.0, 1.0 + 5e-6, [""]),
        (1, 1.0, []),
        (1, 2, [""]),
        (True, 1, [""]),
        (None, 0, [""]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b"]),
        ({"a": 1}, {"a": 1, "b": 2}, [""]),
        ([1, 2], [1], [""]),
        ("x", "x", []),
    ],
)
def test_differences_are_placed(expected, got, places):
    assert [found.at for found in differences(expected, got)] == places
    assert list(differences(0.0, 1e-4, absolute=1e-3)) == []
