"""The benchmark beside Slurm: a cell of it, and the page of what was measured."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.checks.live.counted import Counted, record
from benchmarks.checks.live.real import until
from benchmarks.live.beside import JOB, PARTS
from benchmarks.live.compare import average_jct_s
from benchmarks.live.page import against, write
from benchmarks.live.workload import ARMS, drawn


def test_a_cell_is_the_same_every_time() -> None:
    cell = "+ stops", 0, 4, 1.6, "exact"
    first = average_jct_s(*cell)
    assert first == average_jct_s(*cell)
    jobs = drawn(0, 4, 1.6, "unknown")
    assert [job.at_s for job in jobs] == [job.at_s for job in drawn(0, 4, 1.6, "sigma 0.5")]
    assert not any("iterations" in job.words for job in jobs)


def test_page_names_the_losing_variant(tmp_path: Path) -> None:
    for seed in range(3):
        for k, who in enumerate(ARMS):
            jct_s = 100.0 + seed + (20.0 if who == "order" else -5.0 * k)
            row = {"load": 1.6, "belief": "exact", "who": who, "seed": seed, "jobs": 4}
            record(tmp_path / "comparison.csv", row | {"avg_jct_s": jct_s})
    about = {"slurm": "24.11.5", "slurmdbd": True, "word": "act", "chaos": True, "seed": 7}
    counts = dict.fromkeys(("jobs", "restarts", "commands", "kills", "by_slurm", "forgotten"), 3)
    faults = dict.fromkeys(Counted.fault_names(), 0)
    record(tmp_path / "chaos-22.05-first.csv", about | counts | faults | {"lost": 2})
    write(tmp_path)
    page = (tmp_path / "README.md").read_text()
    order = next(line for line in page.splitlines() if "| order |" in line)
    assert order.count("**loses**") == 2
    stops = next(line for line in page.splitlines() if "| + stops |" in line)
    assert stops.count("**gains**") == 2
    assert "| 2 lost" in page
    assert "`chaos-22.05-first.csv`: the first series" in page
    assert "powers.svg" in page
    assert (tmp_path / "powers.svg").read_text().startswith("<?xml")


def test_orders_in_the_report_cover_all_beliefs(tmp_path: Path) -> None:
    for part in PARTS:
        for load, belief, who in part:
            for seed in range(3):
                jct_s = 10.0 + seed + load - (belief == "unknown")
                row = {"load": load, "belief": belief, "who": who, "seed": seed, "jobs": 4}
                figures = {"avg_jct_s": jct_s, "restarts": 6, "turns": 9, "turn_s": 0.4}
                more = {"ran_again": int(belief == "unknown"), "slurm": "22.05.8"}
                record(tmp_path / "beside.csv", row | figures | more | {"machine_load": 2.0})
    write(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "and 6 jobs of 324 restarts" in " ".join(page.split())
    assert "(beliefs: time limits alone)" in " ".join(page.split())
    assert len([line for line in page.splitlines() if "**gains**" in line]) == 2


def test_a_job_beside_a_real_slurm_goes_on_where_it_was(tmp_path: Path) -> None:
    """A second of work on two GPUs: stopped, then on four GPUs, of two nodes, to its end."""
    script = tmp_path / "job.sh"
    script.write_text(JOB.format(folder=tmp_path, scaling=1.0, start_up=0.01))
    words, log = ["bash", str(script), "j", "1.0", "2"], tmp_path / "j.log"
    held = {**os.environ, "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NODELIST": "n1"}
    with subprocess.Popen(words, env=held | {"SLURM_JOB_NUM_NODES": "1"}) as first:
        until("the start", lambda: log.exists() and "start" in log.read_text())
        time.sleep(0.2)
        first.send_signal(signal.SIGTERM)
    left = float((tmp_path / "j.left").read_text())
    assert 0.0 <= left < 1.0
    more = {"SLURM_JOB_NUM_NODES": "2", "SLURM_RESTART_COUNT": "1"}
    subprocess.run(words, env=held | more, check=True)
    assert [line.split()[0] for line in log.read_text().splitlines()] == [
        "start",
        "stop",
        "start",
        "end",
    ]


def test_an_interval_is_students() -> None:
    mean, half = against([110.0, 90.0], [100.0, 100.0])
    assert mean == pytest.approx(0.0, abs=1e-9)
    assert half == pytest.approx(12.706 * 10.0, rel=1e-3)


def test_faults_are_counted_from_lost_on() -> None:
    assert Counted.fault_names()[0] == "lost"
    assert Counted(by_slurm=5, forgotten=2, lost=1, misread=1, notes=["x"]).faults == 2
