"""Tiny hand-made artifact folders in the layout of the public Morphling artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

WORKLOAD_HEADER = (
    "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla"
)
WORKLOAD_ROWS = (
    "alpha,0,12.5,gpt2,8,64,0,zero-dp,99,0",
    "beta,30,5,gpt2,8,32,1.25,222,0,1",
)
TABLE_HEADER = "exec_plan,placement,iter_time,forward,overlap_sync,optimize"
TABLE_ROWS = (
    "zero-dp,8,0.5,1,2,3",
    "ga,35,0.75,1,2,3",
    "222,44,0.25,1,2,3",
)


def text_of(header: str, rows: tuple[str, ...]) -> str:
    """The text of a CSV file."""
    return "\n".join((header, *rows)) + "\n"


@pytest.fixture
def workload_text() -> str:
    """A valid workload of two jobs (lines 2 and 3)."""
    return text_of(WORKLOAD_HEADER, WORKLOAD_ROWS)


@pytest.fixture
def table_text() -> str:
    """A valid table of three measurements (lines 2 to 4)."""
    return text_of(TABLE_HEADER, TABLE_ROWS)


@pytest.fixture
def artifact(tmp_path: Path, workload_text: str, table_text: str) -> Path:
    """Root of an artifact with one model and one workload under all four names."""
    root = tmp_path / "data" / "morphling"
    table = root / "simulator" / "traces" / "gpt2" / "placements.csv"
    table.parent.mkdir(parents=True)
    table.write_text(table_text, encoding="utf-8")
    workloads = root / "simulator" / "workloads"
    workloads.mkdir()
    for file in ("workload-base.csv", "workload-bp.csv", "workload-mt.csv", "naive.csv"):
        (workloads / file).write_text(workload_text, encoding="utf-8")
    return root
