"""Streams are what their names say, and equal seeds give equal ones."""

from __future__ import annotations

import pytest

from benchmarks.streams import BIG, GPUS, LENGTH_S, WIDE, main, stream, text_of
from morph_opt.core.domain import InputError


@pytest.mark.parametrize(("case", "load", "wide"), [("st80-1", 0.8, 0.01), ("st95-5", 0.95, 0.05)])
def test_a_stream_has_its_load_and_its_share_of_wide_jobs(
    case: str, load: float, wide: float
) -> None:
    rows = [row for seed in range(20) for row in stream(case, seed)]
    work = sum(gpus * run_s for _, _, gpus, run_s in rows) / (20 * GPUS * LENGTH_S)
    assert work == pytest.approx(load, rel=0.01)
    share = sum(gpus in WIDE for _, _, gpus, _ in rows) / len(rows)
    assert share == pytest.approx(wide, rel=0.2)
    assert all(0 <= submit_s < LENGTH_S for _, submit_s, _, _ in rows)


def test_one_gang_comes_after_an_hour() -> None:
    rows = stream("one95", 3)
    assert [row for row in rows if row[2] > 8] == [BIG]
    assert rows == sorted(rows, key=lambda row: row[1]) == stream("one95", 3) != stream("one95", 4)
    lines = text_of(rows).splitlines()
    assert lines[0] == "job,submit,gpus,duration"
    assert "big,3600,64,7200" in lines
    assert len(lines) == len(rows) + 1


def test_other_cases_and_worlds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="must be one95 or stLOAD-PERCENT"):
        stream("st95", 0)
    assert main(["--worlds", "auto;none"]) == 2
    assert "'none' is none of" in capsys.readouterr().err
