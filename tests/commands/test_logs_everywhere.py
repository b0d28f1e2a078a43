"""A log that is a CSV file is taken wherever a trace or a log is: ``FORMAT:x.csv``."""

from __future__ import annotations

import importlib
import json
import os
import shlex
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.sweep import Cell, run_cells
from morph_opt.sweep import cell as cells_module
from tests.known import MAIN
from tests.sweep.inline import ON, run_cells_here

DAYS, EACH = 3, 4
LOG = "job,queued,gpus,start,end\n" + "".join(
    f"j{day}-{n},{day * 86_400 + n * 20_000},2,{day * 86_400 + n * 20_000 + 60 * n},"
    f"{day * 86_400 + n * 20_000 + 60 * n + 1_800}\n"
    for day in range(DAYS)
    for n in range(EACH)
)
SPEC = "table:logs/x.csv"
COLUMNS = "--columns submit=queued"
FEW = "--of-workloads 0.5 --confidence 0.8 --workloads 6 --quiet --json --out out"
SLO = "--slo 'p90 queued_s <= 900'"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    Path("logs/x.csv").write_text(LOG)
    Path("capacity.csv").write_text("date,total\n1970-01-01,16\n1970-01-02,8\n")
    Path("sweep.toml").write_text(
        f'[fixed]\ntrace = "{SPEC}"\ncolumns = "submit=queued"\ncluster = "1x4"\n'
        '[axes]\npolicy = ["fifo", "srtf"]\n'
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            f"replay --trace {SPEC} {COLUMNS} --policy fifo --cluster 1x4 --json --out out",
            '"jobs": 12',
        ),
        (
            f"replay --trace {SPEC}@86400..172800 {COLUMNS} --policy fifo --json --out out",
            '"jobs": 4',
        ),
        (
            f"replay --trace resampled/x2/days/{SPEC} {COLUMNS} --policy fifo --json --out out",
            '"jobs": 16',
        ),
        ("sweep run sweep.toml --out out --quiet", "2 done, 0 failed"),
        (
            f"plan growth --trace {SPEC} {COLUMNS} --cluster 1x4 --policy fifo:skip "
            f"{SLO} --load 1:1.5:0.5 {FEW}",
            '"question": "growth"',
        ),
        (
            f"plan fleet --trace {SPEC} {COLUMNS} --gpu-types ignore --policy fifo "
            f"{SLO} --types V100 --prices V100=2 --max-nodes 3 --exploration 2 {FEW}",
            '"question": "fleet"',
        ),
        (
            f"plan remove --trace {SPEC} {COLUMNS} --cluster 3x4 --policy fifo:skip "
            f"{SLO} --exploration 2 {FEW}",
            '"question": "remove"',
        ),
        (
            f"plan worth --trace {SPEC} {COLUMNS} --cluster 2x4 --policy fifo:skip "
            "--blocks days --seeds 2 --quiet --json --out out",
            '"question": "worth"',
        ),
        (
            f"plan compare --trace {SPEC} {COLUMNS} --cluster 1x4 --a '--policy fifo' "
            "--b '--policy srtf' --seeds 2 --no-noise --quiet --json --out out",
            '"question": "compare"',
        ),
        (
            f"plan eta --state state.json --history {SPEC} {COLUMNS} --continuations 5 "
            "--job a --quiet --json --out out",
            "2 days of history",
        ),
        (f"traces lint {SPEC} {COLUMNS}", "12 jobs"),
        (f"traces lint {SPEC}@86400.. {COLUMNS}", "8 jobs"),
        (f"traces describe {SPEC} {COLUMNS}", "12 jobs"),
        (f"audit {SPEC} --cluster 1x4 {COLUMNS}", "12 jobs"),
        (f"traces capacity capacity.csv --trace {SPEC} {COLUMNS} --cluster 2x8", "node-1,drain"),
    ],
    ids=lambda text: text[:40],
)
def test_commands_read_logs_of_every_format(
    line: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *words = shlex.split(line)
    if command == "plan" and words[0] != "eta":  # the processes of cells are a sweep's subject
        run_cells_here(monkeypatch, tmp_path)
        words += ON
    if "state.json" in words:
        write_state()
    assert importlib.import_module(MAIN[command]).main(words) == 0
    assert said in capsys.readouterr().out


def write_state() -> None:
    """The example's cluster with one job that waits, and no rules."""
    example = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"
    state = json.loads(example.read_text())
    del state["rules"]
    state["jobs"] = [state["jobs"][1] | {"name": "a"}]
    Path("state.json").write_text(json.dumps(state))


def test_python_reads_logs_of_every_format() -> None:
    assert len(mo.load_trace(SPEC, columns="submit=queued").trace.jobs) == 12
    scenario = mo.Scenario(
        workload=mo.Workload(trace=SPEC, columns="submit=queued"), cluster="1x4", policy="fifo"
    )
    assert scenario.run().summary.completed == 12


def test_a_cell_knows_its_log_by_its_bytes() -> None:
    """Not by where it lies, nor by when; and it is sent to where the cell runs."""

    def cell(spec: str) -> Cell:
        jobs = mo.Workload(trace=spec, columns="submit=queued")
        return Cell(mo.Scenario(workload=jobs, cluster="1x4", policy="fifo"))

    plain = cell(SPEC).key
    assert cell(f"table:{Path('logs/x.csv').resolve()}").key == plain
    assert cell(SPEC + "@0..80000").key != plain
    assert cell(f"resampled/x1.2/as-is/{SPEC}").key != plain
    assert cell(SPEC).files == ("logs/x.csv",)
    (found,) = run_cells([cell(SPEC + "@0..80000")], Path("out"), on="local:1")
    assert found.summary["jobs"] == EACH
    Path("logs/x.csv").write_text(LOG.replace("j0-0,0,2", "j0-0,0,1"))
    os.utime("logs/x.csv", (1, 1))
    cells_module._digests.clear()
    assert cell(SPEC).key != plain
