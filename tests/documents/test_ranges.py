"""Numbers of files have ranges, and complaints about them name file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.published import figures as published
from morph_opt.core.domain import InputError
from morph_opt.inputs.clusters import cluster_from_toml, parse_short
from morph_opt.inputs.traces import gavel, tiresias
from morph_opt.replay import cli

HEADER = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight\n"
JOBS = [
    ("a,1e308,bert,1,1,ga,10,0,1", "line 2, submission_s: must be at most 1e+10"),
    ("a,0,bert,1,1,ga,999999999999999999,0,1", "line 2, iterations: must be at most 1000000000000"),
    ("a,0,bert,1,1,ga,900000000000,0,1", "job a: can never run: 900000000001 iterations of bert"),
    ("a,0,bert,1,1,ga,10,0,1e-300", "line 2, weight: must be at least 1e-09"),
    ("a,0,bert,1,1,ga,10,0,1e300", "line 2, weight: must be at most 1e+09"),
    ("a,0,bert,1000000000000,1000000000000,ga,10,0,1", "line 2, requested_gpus: must be at most"),
]


@pytest.mark.parametrize(("row", "words"), JOBS)
def test_jobs(row: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + row + "\n")
    out = tmp_path / "run"
    given = ["--trace", str(path), "--cluster", "1x8", "--policy", "fifo", "--out", str(out)]
    assert cli.main(given) == 2
    assert f"jobs.csv, {words}" in capsys.readouterr().err
    assert not out.exists()


GAVEL = "ResNet-18 (batch size 16)\tc\td\ta\t0\t{steps}\t{gang}\t{weight}\t-1\t{arrival}\n"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": "1e300"}, "total_steps: must be a whole number from 1 to 1e+12"),
        ({"steps": "1e13"}, "total_steps"),
        ({"gang": "1e300"}, "scale_factor"),
        ({"weight": "1e-300"}, "priority_weight: must be at least 1e-09"),
        ({"arrival": "1e308"}, "arrival_time: must be at most 1e+10"),
        ({"arrival": "1_0"}, "arrival_time: must be a finite number"),
    ],
)
def test_gavel_counts_lines_not_jobs(wrong: dict[str, str], words: str, tmp_path: Path) -> None:
    good = {"steps": "10", "gang": "1", "weight": "1", "arrival": "0"}
    path = tmp_path / "x.trace"
    path.write_text("\n\n" + GAVEL.format(**good) + "\n" + GAVEL.format(**(good | wrong)))
    with pytest.raises(InputError, match=r"x\.trace, line 5, ") as caught:
        gavel.read_rows(path)
    assert words in str(caught.value)


def test_the_published_simulators_name_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "x.trace"
    good = {"steps": "10", "gang": "1", "weight": "1", "arrival": "0"}
    trace.write_text("\n" + GAVEL.format(**good).replace("ResNet", "Nonesuch"))
    table = tmp_path / "table.json"
    table.write_text('{"v100": {"(\'ResNet-18 (batch size 16)\', 1)": {"null": 1.0}}}')
    given = ["gavel", "--trace", str(trace), "--table", str(table), "--gpus", "v100=1"]
    assert published.main(given) == 2
    assert "x.trace, line 2, job_type: unknown job type 'Nonesuch-18" in capsys.readouterr().err
    jobs = tmp_path / "jobs.csv"
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    jobs.write_text(header + "\n1,4,0,10,a,10,1\n")
    assert published.main(["tiresias", "--trace", str(jobs), "--gpus", "2"]) == 2
    assert "jobs.csv, line 3, job 1: asks for 4 GPUs" in capsys.readouterr().err


@pytest.mark.parametrize("times", ["10000000000000", "1" * 18, "1" * 5_000, "0", "01", "-1", "²"])
def test_times_of_tiresias(times: str, tmp_path: Path) -> None:
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    (tmp_path / "60_job.csv").write_text(header + "1,4,0,10,a,1000,1\n")
    with pytest.raises(InputError, match=r"at most 1e\+12 seconds|unknown trace"):
        tiresias.load(tmp_path, f"60x{times}")


@pytest.mark.parametrize("data", ["gavel/x", "gavel/max_min_fairness", "morphling/base"])
def test_an_empty_data_folder_is_named(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / data.partition("/")[0]).mkdir()
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    assert cli.main(["--trace", data]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path) in said
    assert "known are" not in said


SPEC = """[node_type.a]
gpu_type = "V100"
gpus = 8
cpus = {cpus}
host_memory_gib = 1
nvlink_gb_per_s = 1
rdma_gb_per_s = 1
[[nodes]]
type = "a"
count = {count}
"""


@pytest.mark.parametrize(
    ("count", "cpus", "words"),
    [
        (1_000_000_000, 1, r"line 10, nodes\[0\].count: a cluster has at most 1000000 nodes"),
        (0, 1, r"line 10, nodes\[0\].count: must be at least 1"),
        (1, 10**18, "line 4, node_type.a.cpus: must be at most"),
        (1, 10**30, "line 4, node_type.a.cpus: must be at most"),
    ],
)
def test_clusters(count: int, cpus: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cluster_from_toml(SPEC.format(count=count, cpus=cpus))


@pytest.mark.parametrize("text", ["1x" + "9" * 5_000, "9" * 9 + "x1", "600000x1+600000x1:V100"])
def test_short_forms(text: str) -> None:
    with pytest.raises(InputError):
        parse_short(text)
