"""Published files, read whole: the numbers that were counted in them by hand and by other means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.row import Reading
from tests.public_data import skip_without_data

WHOLE: list[tuple[str, str, Reading, int, int, float | None, dict[str, int], dict[str, int]]] = [
    ("acme", "acme/readme_rows_seren.csv", Reading(), 2, 2, 22_480, {}, {}),
    # The recorded durations would give 6,400.
    (
        "acme",
        "acme/readme_rows_kalos.csv",
        Reading(),
        2,
        2,
        4_992,
        {},
        {"duration-mismatch": 2, "duration-is-end-minus-submit": 2},
    ),
    ("helios", "helios/readme_rows.csv", Reading(), 3, 3, 713_077, {}, {}),
    (
        "sacct",
        "slurm/phillips.log",
        Reading(columns="xdmod"),
        4_285,
        2,
        1_824_886,
        {"no-gpu": 4_283},
        {},
    ),
    (
        "philly-table",
        "philly/philly-gpu-jobs.csv",
        Reading(),
        82_247,
        82_247,
        3_521_082_502,
        {},
        {"identical-rows": 65, "unsorted": 44_878},
    ),
    (
        "openb",
        "alibaba/gpu-v2023/openb_pod_list_default.csv",
        Reading(),
        8_152,
        3_630,
        159_815_474,
        {"fractional-gpu": 2_573, "no-gpu": 1_088, "not-started": 861},
        {"open-at-end": 21},
    ),
    (
        "swf",
        "swf/alea-hpc2n.swf",
        Reading(),
        3_170,
        3_145,
        503_655_194,
        {"no-duration": 25},
        {"over-time-limit": 320, "allocated-not-requested": 213, "header-disagrees": 1},
    ),
    (
        "swf",
        "swf/evalys-easy_mediumWL_smallPF.swf",
        Reading(),
        800,
        800,
        256_361.954,
        {},
        {"unsorted": 204},
    ),
    ("swf", "swf/accasim-workload.swf", Reading(), 25, 25, 6_851_022, {}, {}),
    (
        "swf",
        "swf/accasim-workload.swf",
        Reading(procs_per_gpu=8),
        25,
        15,
        370_192,
        {"fractional-gpu": 10},
        {},
    ),
    ("pollux", "pollux/workloads/workload-6.csv", Reading(), 160, 160, None, {}, {}),
    ("easyscale", "easyscale/workload-test.csv", Reading(), 68, 68, None, {}, {}),
    (
        "batsim",
        "batsim/example_workload_hpc_seed1_jobs250.json",
        Reading(),
        250,
        250,
        969_575.04,
        {},
        {},
    ),
]


@pytest.mark.parametrize(
    ("name", "file", "how", "rows", "jobs", "gpu_s", "dropped", "findings"),
    WHOLE,
    ids=[f"{case[1]} {case[2].procs_per_gpu or ''}".strip() for case in WHOLE],
)
def test_a_published_file(
    name: str,
    file: str,
    how: Reading,
    rows: int,
    jobs: int,
    gpu_s: float | None,
    dropped: dict[str, int],
    findings: dict[str, int],
) -> None:
    root = os.environ.get("MORPH_OPT_DATA")
    path = Path(root or "", file)
    if not root or not path.is_file():
        skip_without_data(f"{file} below MORPH_OPT_DATA")
    report = lint(path, None if how.procs_per_gpu else name, how).report
    assert report.format == name
    assert (report.rows, report.jobs) == (rows, jobs)
    assert report.gpu_seconds == (None if gpu_s is None else pytest.approx(gpu_s, abs=1e-3))
    assert dict(report.dropped) == dropped
    assert {code: report.findings[code].count for code in findings} == findings


def test_gpus_asked_for_where_no_duration_is_told() -> None:
    """The rows that the linter keeps on request, summed."""
    root = os.environ.get("MORPH_OPT_DATA")
    path = Path(root or "", "pollux/workloads/workload-6.csv")
    if not root or not path.is_file():
        skip_without_data("pollux/workloads/workload-6.csv below MORPH_OPT_DATA")
    rows = lint(path, with_rows=True).rows
    assert rows is not None
    assert sum(gpus for _, gpus, _ in rows) == 1_134
