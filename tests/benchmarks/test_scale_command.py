"""What the measurement of rounds at scale refuses before it measures anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scale.cli import main, read


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--types", "4"], "--types"),  # speeds are known of three
        (["--sizes", "12", "--types", "1"], "--sizes: must be nodes of 8 GPUs"),
        (["--sizes", "64", "8", "--types", "3"], "got 8 GPUs"),  # one node is of one type
    ],
)
def test_impossible_clusters_are_refused(
    line: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*line, "--out", str(tmp_path / "out")])
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unusable_output_folder_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").touch()
    line = ["--sizes", "64", "--types", "1", "--out", str(tmp_path / "out")]
    assert main(line) == 2
    shown = capsys.readouterr()
    assert "is a file, not a folder" in shown.err
    assert not shown.out


def test_a_case_beyond_its_cpu_seconds_is_a_row_that_says_so(tmp_path: Path) -> None:
    # Only the import and the snapshot of so many GPUs take longer.
    line = ["--sizes", "65536", "--types", "3", "--leaves", "1", "--objectives", "jct"]
    assert main([*line, "--case-cpu-s", "1", "--out", str(tmp_path)]) == 0
    (row,) = read(tmp_path)
    assert (row.gpus, row.objective, row.solve_s) == (65_536, "jct", 1.0)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "| 1.000 | 1.000 | - | - | - | - | stopped | - |" in text
