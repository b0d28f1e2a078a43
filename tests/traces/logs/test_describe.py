"""Tables of a log's jobs by hand, through the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.core.table import Cell
from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.logs.describe import parts_of
from morph_opt.inputs.traces.logs.frame import read_frame
from morph_opt.inputs.traces.logs.guess import chosen
from morph_opt.inputs.traces.logs.reading.row import Reading

HEAD = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,"
    "queue,gpu_time"
)
ROWS = """
a,u1,1,8,8,Eval,COMPLETED,00:00:00,00:00:10,00:00:18,8,10,64.0
b,u1,1,1,8,Eval,FAILED,00:01:00,00:01:00,00:02:40,100,0,100.0
c,u2,1,2,8,Foo,CANCELLED,00:01:00,00:01:20,00:03:00,100,20,200.0
d,u2,1,0,8,Eval,COMPLETED,00:05:00,00:05:05,00:05:25,20,5,0.0
"""


def log(folder: Path, rows: str = ROWS) -> Path:
    """Run 8, 100, 100 and 20 s after queues of 10, 0, 20 and 5 s, on 8, 1, 2 and 0 GPUs."""
    path = folder / "mine.csv"
    lines = [
        ",".join(f"2024-01-01 {c}+00:00" if c.count(":") == 2 else c for c in row.split(","))
        for row in rows.strip().splitlines()
    ]
    path.write_text("\n".join((HEAD, *lines)) + "\n")
    return path


def tables(path: Path) -> dict[str, dict[Cell, list[Cell]]]:
    """Rows by table and leading cell."""
    parts = parts_of(read_frame(chosen(path, "acme", Reading())))
    return {part.title: {row[0]: list(row[1:]) for row in part.table.rows} for part in parts}


def test_the_tables_by_hand(tmp_path: Path) -> None:
    found = tables(log(tmp_path))
    assert list(found) == ["Distribution", "By GPUs", "By state", "By type", "By user"]
    # Without d, which has no GPU: 64 + 100 + 200 GPU-seconds.
    assert found["Distribution"]["GPUs"][:2] == [3, pytest.approx(11 / 3)]
    assert found["Distribution"]["queueing (s)"][3] == pytest.approx(10.0)
    assert list(found["By GPUs"]) == ["1", "2 to 7", "8"]
    assert found["By GPUs"]["8"] == pytest.approx([1, 100 / 3, 6400 / 364, 8, 8, 10, 10])
    assert list(found["By state"]) == ["cancelled", "failed", "completed"]
    assert found["By type"]["Eval"] == pytest.approx([2, 200 / 3, 16400 / 364, 4.5, 54, 5, 9])
    assert found["By user"]["u2"][:3] == pytest.approx([1, 100 / 3, 20000 / 364])


def test_beyond_the_largest_ten_are_the_others(tmp_path: Path) -> None:
    row = "{n},u{n},1,{n},8,Eval,COMPLETED,00:00:00,00:00:10,00:00:20,10,10,0"
    path = log(tmp_path, "\n".join(row.format(n=n) for n in range(1, 14)))
    by_user = tables(path)["By user"]
    assert list(by_user) == [*(f"u{n}" for n in range(13, 3, -1)), "others"]
    assert by_user["others"][:3] == pytest.approx([3, 300 / 13, 600 / 91])
    by_gpus = tables(path)["By GPUs"]
    assert [row[0] for row in by_gpus.values()] == [1, 6, 1, 5]


def test_the_command_prints_or_writes_a_page_with_its_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path)
    assert main(["describe", str(path), "--format", "acme"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("mine: 4 rows, 4 jobs")
    assert "By type" in text
    pytest.importorskip("matplotlib")
    pages = []
    for name in ("one", "two"):
        out = tmp_path / name
        assert main(["describe", str(path), "--format", "acme", "--out", str(out)]) == 0
        assert capsys.readouterr().out == f"{out / 'index.md'}\n"
        pages.append({file.name: file.read_bytes() for file in out.iterdir()})
    assert set(pages[0]) == {"index.md", "jobs.svg"}
    assert pages[0] == pages[1]
    assert b"## By user" in pages[0]["index.md"]


def test_a_log_without_gpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path, ROWS.strip().splitlines()[-1])
    assert main(["describe", str(path), "--format", "acme", "--out", str(tmp_path / "out")]) == 2
    assert "mine: has no job with GPUs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
