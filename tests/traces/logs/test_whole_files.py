"""Published files, read whole: the numbers that were counted in them by hand and by other means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from morph_opt.traces.logs import Reading
from morph_opt.traces.logs.lint import lint
from tests.public_data import skip_without_data

WHOLE: list[tuple[str, str, Reading, int, int, float | None, dict[str, int], dict[str, int]]] = [
    ("acme", "acme/readme_rows_seren.csv", Reading(), 2, 2, 22_480, {}, {}),
    # The recorded durations would give 6,400.
    ("acme", "acme/readme_rows_kalos.csv", Reading(), 2, 2, 4_992, {},
     {"duration-mismatch": 2, "duration-is-end-minus-submit": 2}),
    ("helios", "helios/readme_rows.csv", Reading(), 3, 3, 713_077, {}, {}),
    ("sacct", "slurm/phillips.log", Reading(columns="xdmod"), 4_285, 2, 1_824_886,
     {"no-gpu": 4_283}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "how", "rows", "jobs", "gpu_s", "dropped", "findings"),
    WHOLE,
    ids=[f"{case[1]} {case[2].procs_per_gpu or ''}".strip() for case in WHOLE],
)
def test_a_published_file(
    name: str, file: str, how: Reading, rows: int, jobs: int, gpu_s: float | None,
    dropped: dict[str, int], findings: dict[str, int],
) -> None:  # fmt: skip
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
