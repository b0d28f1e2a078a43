"""Figures of the Acme study: published numbers, and the same of logs by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.acme.command import FIGURES, main, plots
from benchmarks.acme.frame import box_of, read_log
from benchmarks.acme.published import CLUSTERS, published, quantile
from morph_opt.core.documents.style import plain_number
from morph_opt.core.domain import InputError
from morph_opt.core.table import Cell
from morph_opt.inputs.traces.logs.frame import num_cdf, sum_cdf
from morph_opt.inputs.traces.logs.reading.row import Reading


def table(name: str, *specs: str, as_published: bool = False) -> dict[str, list[Cell]]:
    """Rows of a figure's table by their leading texts."""
    logs = [read_log(spec, Reading(), as_published=as_published) for spec in specs]
    (plot,) = plots(logs, [name])
    found = {}
    for row in plot.table.rows:
        words = [cell for cell in row if isinstance(cell, str)]
        found["/".join(words)] = [cell for cell in row if not isinstance(cell, str)]
    return found


@pytest.mark.parametrize(
    ("figure", "place", "expected", "within"),
    [  # Seren, Kalos, Philly, Helios, PAI
        ("A1", 1, (48.91, 50.48, 26.99, 37.81, 28.95), 0.02),
        ("A1", 2, (88.03, 85.94, 54.91, 75.25, 60.79), 0.02),
        ("A1", 3, (99.64, 99.66, 94.86, 97.77, 99.03), 0.02),
        ("A3", 0, (54.04, 86.28, 82.42, 72.19, 97.07), 0.1),
        ("A3", 2, (96.75, 93.92, 98.91, 94.69, 100.0), 0.1),
        ("A4", 1, (11.92, 0.62, 88.03, 41.34, 100.0), 0.1),
    ],
)
def test_published_curves_of_all_clusters(
    figure: str, place: int, expected: tuple[float, ...], within: float
) -> None:
    rows = table(figure)
    assert [rows[name][place] for name in CLUSTERS.values()] == pytest.approx(expected, abs=within)


def test_gpu_time_above_256_gpus() -> None:
    rows = table("A4")
    above = [100.0 - float(rows[name][3] or 0) for name in ("Seren", "Kalos")]
    assert above == pytest.approx([43.7, 75.1], abs=0.1)


def test_states_follow_from_the_gpu_seconds() -> None:
    rows = table("A5")
    assert rows["Seren"] == pytest.approx([49.7, 7.5, 42.9, 21.2, 66.4, 12.4], abs=0.06)
    assert rows["Kalos"] == pytest.approx([54.1, 6.2, 39.7, 31.3, 60.7, 8.0], abs=0.06)
    for name in ("Seren", "Kalos", "Philly", "Helios"):
        rates = published()["summary"][name]
        shares = [100 * rates[f"{word}_rate_gpu_time"] for word in ("complete", "cancel", "fail")]
        assert rows[name][3:] == pytest.approx(shares, abs=0.06)


def test_types_durations_queues_and_sizes() -> None:
    types = table("A6")
    order = ("Eval", "Pretrain", "SFT", "MLLM", "Debug", "Other")
    by = dict(zip(order, types["Seren/jobs"], strict=False))
    assert (by["Eval"], by["SFT"], by["Pretrain"]) == pytest.approx((64.85, 14.86, 0.89), abs=0.02)
    by = dict(zip(order, types["Kalos/GPU time"], strict=False))
    assert (by["Pretrain"], by["Eval"], by["SFT"]) == pytest.approx((95.48, 0.42, 0.0), abs=0.02)
    runs, waits, sizes = table("A7"), table("A8"), table("A9")
    assert runs["Seren Pretrain"][1] == pytest.approx(73.42, abs=0.02)
    assert runs["Kalos Debug"][1] == pytest.approx(88.83, abs=0.02)
    assert waits["Seren Debug"][0] == pytest.approx(97.07, abs=0.02)
    for cluster in ("Seren", "Kalos"):  # evaluation waits longest
        at_16 = {name: row[0] for name, row in waits.items() if name.startswith(cluster)}
        assert min(at_16, key=lambda name: float(at_16[name] or 0)) == f"{cluster} Eval"
    assert sizes["Seren/Pretrain"] == [64.0, 128.0, 256.0]
    assert sizes["Kalos/Debug"] == [32.0, 128.0, 512.0]


@pytest.mark.parametrize(
    ("curve", "median"),
    [
        ("gpu_util_seren", 99.0),
        ("gpu_util_kalos", 97.0),
        ("gpu_util_philly", 48.57),
        ("sm_seren", 50.2),
        ("sm_kalos", 33.5),
        ("tensor_seren", 14.0),
        ("tensor_kalos", 9.4),
        ("cpu_seren", 8.0),
        ("cpu_kalos", 20.1),
        ("host_memory_seren", 15.0),
        ("host_memory_kalos", 7.2),
        ("gpu_memory_seren", 39.3),
        ("gpu_memory_kalos", 75.5),
        ("ib_send_seren", 0.0),
        ("core_temp_seren", 39.0),
        ("core_temp_kalos", 40.0),
        ("memory_temp_seren", 51.0),
        ("memory_temp_kalos", 51.0),
        ("gpu_power_seren", 96.5),
        ("gpu_power_kalos", 101.5),
        ("server_power_gpu", 2520.0),
        ("server_power_cpu", 546.0),
    ],
)
def test_medians_of_the_nodes(curve: str, median: float) -> None:
    assert quantile(curve, 50) == pytest.approx(median, abs=0.05)


def test_captions_name_contradictions_in_the_log() -> None:
    words = {
        "A1": "end minus submission", "A2": "fall 19 times", "A3": "four selections",
        "A4": "never multiplies by instances", "A6": "vanish without a word",
        "A10": "pairs 4 and 5 of the files are equal", "A11": "exceeds 100 % in 0.7 %",
        "A12": "Over half the samples are 0", "A14": "7.9 % and 12.5 %", "B2": "second-hand",
        "T1": "another set of jobs",
    }  # fmt: skip
    captions = {plot.name: " ".join(plot.notes) for plot in plots()}
    assert set(captions) == set(FIGURES)
    for name, text in words.items():
        assert text in captions[name], name
    assert all(captions.values())


def test_summary_has_the_columns_of_the_publisher() -> None:
    rows = table("T1")
    assert len(rows) == 27
    assert rows["avg_run_time_gpu"][:5] == pytest.approx(
        [1414.3, 1259.7, 18006.1, 6651.7, 4787.1], abs=0.06
    )
    assert rows["med_run_time_gpu"][:5] == pytest.approx([122, 124, 874, 206, 480.7], abs=0.06)


def test_formulas_by_hand() -> None:
    """Of 1, 2, 2, 8 half are at most 2 but one; GPU time 1, 4, 2, 16 of 23."""
    values = pd.Series([1.0, 2.0, 2.0, 8.0, np.nan])
    assert num_cdf(values, [0.5, 1.0, 2.0, 8.0]) == [0.0, 25.0, 75.0, 100.0]
    weight = pd.Series([1.0, 4.0, 2.0, 16.0, 0.0])
    found = sum_cdf(values.fillna(9.0), weight, [1.0, 2.0, 8.0])
    assert found == pytest.approx([100 / 23, 700 / 23, 100.0])
    # Quartiles of 0..8 are 2, 4, 6, so whiskers reach to -4 and 12; 30 is beyond.
    assert box_of(pd.Series([float(v) for v in range(8)] + [30.0])) == (0.0, 2.0, 4.0, 6.0, 7.0)
    assert [plain_number(v) for v in (0.5, 512, 4096, 2097152)] == ["0.5", "512", "4.1k", "2.1M"]


HEADER = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,"
    "queue,gpu_time"
)


def log(folder: Path) -> str:
    """Four jobs of Kalos' kind: duration is end minus submission, one type is not listed.

    Run 8, 100, 100 and 20 s after queues of 10, 0, 20 and 5 s, on 8, 1, 2 and 0 GPUs.
    """
    rows = [
        "a,u1,1,8,8,Eval,COMPLETED,00:00:00,00:00:10,00:00:18,18,10,144.0",
        "b,u1,1,1,8,Eval,FAILED,00:01:00,00:01:00,00:02:40,100,0,100.0",
        "c,u2,1,2,8,Foo,CANCELLED,00:01:00,00:01:20,00:03:00,120,20,240.0",
        "d,u2,1,0,8,Eval,COMPLETED,00:05:00,00:05:05,00:05:25,25,5,0.0",
    ]
    lines = [
        ",".join(
            f"2024-01-01 {cell}+00:00" if cell.count(":") == 2 else cell for cell in row.split(",")
        )
        for row in rows
    ]
    file = folder / "mine.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return f"acme:{file}"


def test_log_is_drawn_next_to_the_published_curves(tmp_path: Path) -> None:
    spec = log(tmp_path)
    # 64 s: a of three GPU jobs; 128 s: all.
    assert table("A1", spec)["mine"] == pytest.approx([100 / 3, 100.0, 100.0, 100.0])
    # GPU-seconds 64, 100, 200: on 1 GPU 100 of 364.
    assert table("A4", spec)["mine"][0] == pytest.approx(100 * 100 / 364)
    by_type = table("A6", spec)
    assert by_type["mine/jobs"][0] == pytest.approx(200 / 3)
    assert by_type["mine/jobs"][-1] == pytest.approx(100 / 3)  # Foo is not listed
    # With d, on 0 GPUs, as in the notebook: quartiles of 0, 1, 8.
    assert table("A9", spec)["mine/Eval"] == [0.5, 1.0, 4.5]
    summary = {name: row[-1] for name, row in table("T1", spec).items()}
    assert (summary["job_num"], summary["cpu_job_num"], summary["max_gpu"]) == (4, 1, 8.0)
    assert summary["avg_que_time_gpu"] == pytest.approx(10.0)
    assert summary["cancel_gpu_time"] == pytest.approx(200.0)


def test_as_published_takes_the_recorded_durations(tmp_path: Path) -> None:
    """18 instead of 8 s: of Kalos' kind the recorded duration contains the queue."""
    spec = log(tmp_path)
    mean = {name: row[-1] for name, row in table("T1", spec).items()}["avg_run_time_gpu"]
    assert mean == pytest.approx((8 + 100 + 100) / 3)
    rows = table("T1", spec, as_published=True)
    assert rows["avg_run_time_gpu"][-1] == pytest.approx((18 + 100 + 120) / 3)
    notes = " ".join(read_log(spec, Reading(), as_published=True).notes)
    assert "mine: recorded durations differ from end minus start: the recorded ones used" in notes


def test_the_command_writes_pictures_captions_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["--trace", log(tmp_path), "--out", str(out), "--pictures", "svg"]
    chosen = ("A1", "A2", "A5", "A6", "A9", "B1", "T1")
    assert main([*words, *(w for name in chosen for w in ("--figure", name)), "--gpus", "16"]) == 0
    assert capsys.readouterr().out == f"7 figures: {out}/index.md\n"
    assert {file.name for file in out.iterdir()} == {
        "index.md",
        *(f"{name}.svg" for name in chosen if name != "T1"),
    }
    page = (out / "index.md").read_text("utf-8")
    for part in ("CC-BY-4.0", "mine: 4 rows, 4 jobs", "## T1 Summary", "| mine |", "(A1.svg)"):
        assert part in page


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--trace", "mine.csv"], "--trace: must be FORMAT:PATH"),
        (["--trace", "lsf:mine.csv"], "--trace: must be FORMAT:PATH"),
        (["--trace", "acme:none.csv"], "none.csv: cannot be read"),
        (["--figure", "A16"], "--figure"),
        (["--as-published"], "--as-published"),
        (["--gpus", "8"], "--gpus"),
        (["--timezone", "UTC"], "--timezone"),
        (["--trace", "{log}", "--trace", "{log}"], "two logs of one name"),
    ],
)
def test_bad_usage_is_one_line(
    words: list[str], rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = [word.format(log=log(tmp_path)) for word in words]
    assert main(["--out", str(out), *given]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert rule in error
    assert not out.exists()


def test_a_log_without_a_job(tmp_path: Path) -> None:
    file = tmp_path / "empty.csv"
    file.write_text(HEADER + "\n")
    with pytest.raises(InputError, match="has no job"):
        read_log(f"acme:{file}", Reading(), as_published=False)


@pytest.mark.parametrize(
    ("curve", "file", "pair"),
    [
        ("gpu_util_seren", "util_gpu_seren", 1),
        ("sm_kalos", "util_gpu_kalos_full", 3),
        ("gpu_power_kalos", "gpu_power_kalos", 1),
        ("server_power_cpu", "server_power", 2),
        ("host_memory_seren", "util_cpu_mem_seren", 2),
    ],
)
def test_committed_quantiles_are_the_publisher_s(
    curve: str, file: str, pair: int, public_data: Path
) -> None:
    with (public_data / "acme" / "utilization" / f"{file}.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    x = [float(row[f"x{pair}"]) for row in rows]
    y = [float(row[f"y{pair}"]) for row in rows]
    levels = published()["levels"]
    found = published()["curves"][curve]
    assert found == pytest.approx([x[min(np.searchsorted(y, p), len(x) - 1)] for p in levels])


def test_committed_summary_is_the_publisher_s(public_data: Path) -> None:
    with (public_data / "acme" / "cluster_summary.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            given = {name: float(v) for name, v in row.items() if name != "id" and v}
            assert published()["summary"][row["id"]] == pytest.approx(given, rel=1e-9)
