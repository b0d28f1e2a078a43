"""The benchmark of the speed of batch schedulers."""

from __future__ import annotations

import pytest

from benchmarks.backfill.speed import GPUS, NODES, POLICIES, draw, main


def test_drawn_jobs_load_the_cluster_as_asked() -> None:
    jobs = draw(400, 0.5).jobs
    work_gpu_s = sum(job.requested_gpus * job.iterations for job in jobs)
    assert work_gpu_s / (8 * NODES) / 0.5 == pytest.approx(jobs[-1].submission_s, rel=0.1)
    assert {job.requested_gpus for job in jobs} == set(GPUS)


def test_each_policy_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["30"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == [f"| `{policy}`" for policy in POLICIES]
    assert all(int(row[3]) >= 31 for row in rows)
