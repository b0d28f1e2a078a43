"""Cells, keys, cache, failures as rows, executors; with real child processes where it matters."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import morph_opt as mo
from benchmarks.readme.cases import SCHEDULERS
from morph_opt.core.domain import InputError
from morph_opt.replay.cli import make_parser, scenario_from
from morph_opt.scheduling.policies.scheduler import require_scheduler
from morph_opt.simulation.runs.slo import Slo
from morph_opt.sweep import (
    Cell,
    CellStore,
    Done,
    Failure,
    Limits,
    SweepTable,
    run_cells,
    worker,
)
from morph_opt.sweep import cell as cells_module
from morph_opt.sweep.cli import main
from morph_opt.sweep.driver import Progress
from morph_opt.sweep.executors import executor
from morph_opt.sweep.order import MISSED, Order
from morph_opt.sweep.parameters import ProcessParams
from morph_opt.sweep.spec import Spec, list_text, read_spec, scenario_of
from tests.waiting import until

HEAD = (
    "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight,tenant,"
    "deadline\n"
)
TRACE = HEAD + "a,100,gpt2,8,64,zero-dp,900,0,1,t,-1\nb,160,gpt2,8,64,zero-dp,500,0,1,u,-1\n"
SPEC = """
[fixed]
trace = "jobs.csv"
cluster = "1x8"

[axes]
policy = ["fifo", {bad}]

[keep]
files = ["jobs.csv"]

[limits]
seconds = {seconds}
memory_mib = 6000
"""
SLOW = '"tests.sweep.poison:slow"'
BAD = '"tests.sweep.poison:crash", "tests.sweep.poison:hungry"'


def spec(bad: str, seconds: float = 600.0) -> str:
    """A good cell and these."""
    return SPEC.format(bad=bad, seconds=seconds)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project_root: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(project_root))
    (tmp_path / "jobs.csv").write_text(TRACE)
    return tmp_path


def test_failures_are_rows_and_the_table_is_the_same_everywhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash and a hunger for memory, with a good cell beside them, two at a time."""
    Path("sweep.toml").write_text(spec(BAD))
    words = ["run", "sweep.toml", "--out", "o", "--quiet", "--allow-code"]
    assert main([*words, "--on", "local:2"]) == 1
    assert capsys.readouterr().out == "1 done, 2 failed: o/results.csv\n"
    first = Path("o/results.csv").read_bytes()
    rows = first.decode().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == ["", "signal", "memory"]
    assert rows[2].split(",")[3] == "-11"
    # Again: failures stay, nothing is run, the same bytes.
    monkeypatch.setattr(worker, "work", lambda order: pytest.fail("was run again"))
    assert main([*words, "--on", "local:2"]) == 1
    assert Path("o/results.csv").read_bytes() == first
    capsys.readouterr()
    assert main(["status", "o"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "1 done, 2 failed, 0 missing of 3 cells"
    assert main(["table", "o", "--all"]) == 0
    assert capsys.readouterr().out.encode() == first
    assert main(["table", "o"]) == 0
    shown, hint = capsys.readouterr()
    assert shown.split("\n")[0].split()[:5] == [
        "policy", "failure", "failure_status", "failure_message", "avg_jct_s",
    ]  # fmt: skip
    assert re.fullmatch(r"\d+ more columns: --all, or some with --columns\n", hint)
    assert main(["table", "o", "--columns", "policy,avg_jct_s", "--out", "t.csv"]) == 0
    picked = [row.split(",")[0] for row in Path("t.csv").read_text().splitlines()]
    assert picked == [row.split(",")[0] for row in rows]
    for words_, answer in (
        (["--columns", "polcy"], "--columns: unknown column 'polcy' (did you mean 'policy'?)"),
        (["--columns", ","], "--columns: names no column"),
        (["--all", "--out", "t.csv"], "--all: cannot be combined with --columns or --out"),
    ):
        assert main(["table", "o", *words_]) == 2
        assert answer in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(here)
    # Another executor, another place of the file: the same table.
    Path("elsewhere").mkdir()
    Path("elsewhere/jobs.csv").write_text(TRACE)
    other = spec('"srtf"').replace('"jobs.csv"\n', '"elsewhere/jobs.csv"\n', 1)
    Path("other.toml").write_text(other)
    pool = "concurrent.futures:ProcessPoolExecutor"
    assert main(["run", "other.toml", "--out", "p", "--quiet", "--on", pool]) == 0
    assert Path("p/results.csv").read_text().splitlines()[1] == rows[1]
    kept = list(Path("p").rglob("jobs.csv"))
    assert len(kept) == 2
    # What somebody edited is not done.
    edited = next(Path("p").rglob("summary.json"))
    edited.write_text(edited.read_text() + " ")
    capsys.readouterr()
    for command in ("status", "table"):
        assert main([command, "p"]) == 2
        assert "is not what the replay wrote" in capsys.readouterr().err


def test_hanging_cell_is_ended_and_stays_a_failure(here: Path) -> None:
    cell = Cell(mo.Scenario("jobs.csv", "1x8", policy="tests.sweep.poison:slow"))
    limits = Limits(seconds=1.0, attempts=1)  # over before the first round, or while it hangs
    found = run_cells([cell], here / "o", on="local:1", limits=limits)[0]
    assert found.failure is not None
    assert (found.failure.kind, found.failure.message) == ("time", "took longer than 1 s")
    again = run_cells([cell], here / "o", on="tests.sweep.poison:Losing", limits=limits)[0]
    assert again.failure == found.failure


def test_cells_that_go_well_share_a_process(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One start for three; what crashes takes its process along; each result is as if alone."""
    started: list[int] = []
    start = worker._started

    def counted(order: Order, folder: Path) -> subprocess.Popen[bytes]:
        started.append(1)
        return start(order, folder)

    monkeypatch.setattr(worker, "_started", counted)
    base = mo.Scenario("jobs.csv", "1x8")
    names = ("fifo", "srtf", "tests.sweep.poison:crash", "fifo:skip")
    kept = ("events.jsonl", "jobs.csv")
    cells = [Cell(base.replaced(policy=name), keep=kept) for name in names]
    once = Limits(attempts=1)
    together = run_cells(cells, here / "a", on="local:1", limits=once)
    assert len(started) == 2
    assert together[2].failure is not None
    assert together[2].failure.kind == "signal"
    worker.end_idle()
    assert all(one.failure is None for one in together[:2] + together[3:])
    # Where memory is limited, what earlier cells left would count: a process each.
    started.clear()
    alone = run_cells(cells[:2], here / "b", on="local:1", limits=Limits(memory_mib=4000))[1]
    assert len(started) == 2
    # The second had a process that another had used; the others began theirs.
    for name, head in (("jobs.csv", 0), ("events.jsonl", 1)):
        mine, other = (f.file(name).read_bytes().splitlines()[head:] for f in (alone, together[1]))
        assert mine == other


def test_a_lost_worker_is_a_row_and_is_tried_again(here: Path) -> None:
    cell = Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"))
    lost = run_cells([cell], here / "o", on="tests.sweep.poison:Losing")[0]
    assert lost.failure is not None
    assert (lost.failure.kind, lost.failure.message) == (
        "lost", "ConnectionError: the worker is gone",
    )  # fmt: skip
    found = run_cells([cell], here / "o", on="tests.sweep.poison:Inline")[0]
    assert found.summary["completed"] == 2
    assert len(list((here / "o").rglob("cell.json"))) == 1


def test_a_child_does_not_outlive_its_worker(here: Path) -> None:
    """A driver killed by 9 leaves no process; what it finished is there when it is run again."""
    Path("sweep.toml").write_text(spec(SLOW))
    words = [sys.executable, "-m", "morph_opt.sweep", "run", "sweep.toml", "--out", "o"]
    words += ["--allow-code", "--on", "local:2"]
    running = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    until(lambda: running.poll() is not None or bool(list(Path("o").rglob("summary.json"))))
    assert running.poll() is None, "it ended by itself"
    children = _children(running.pid)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert children
    until(lambda: not any(map(_alive, children)))
    assert len(list(Path("o").rglob("summary.json"))) == 1


def _children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_key_is_of_what_decides_the_bytes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**changes: object) -> str:
        return Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo").replaced(**changes)).key

    plain = key()
    assert key() == plain
    assert Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"), (("a", 1),)).key == plain
    assert key(trace=str(here / "jobs.csv")) == plain  # the same file by another path
    assert len({plain, key(interval_s=30.0), key(policy="srtf"), key(cluster="2x8")}) == 4
    os.utime("jobs.csv", (1, 1))  # never by time
    cells_module._digests.clear()
    assert key() == plain
    Path("jobs.csv").write_text(TRACE + "c,170,gpt2,8,64,zero-dp,5,0,1,t,-1\n")
    cells_module._digests.clear()
    assert key() != plain
    Path("jobs.csv").write_text(TRACE)
    cells_module._digests.clear()
    assert key() == plain
    with monkeypatch.context() as later:
        later.setattr(cells_module, "versions", lambda solver: {"sources": "other"})
        assert key() != plain
    assert key(trace="resampled/x1.2/as-is/jobs.csv") != plain
    with pytest.raises(InputError, match=r"none\.csv"):
        key(trace="none.csv")
    with pytest.raises(InputError, match="is no file of a run"):
        Cell(mo.Scenario("naive"), keep=("secrets",))
    # The files in a policy's name decide as well, whatever their path.
    conf = here / "slurm.conf"
    conf.write_text("PartitionName=all Nodes=ALL\n")
    of_slurm = key(policy="slurm:slurm.conf")
    assert of_slurm == key(policy=f"slurm:{conf}") != key(policy="slurm")
    conf.write_text("PartitionName=all Nodes=ALL\nSchedulerType=sched/builtin\n")
    cells_module._digests.clear()
    assert key(policy="slurm:slurm.conf") != of_slurm


def test_a_cell_of_another_version_is_left_alone(here: Path) -> None:
    store, cell = CellStore(here / "o"), Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"))
    outcome = Done({"summary.json": b'{"completed": 2}\n'}, 1.5, "h")
    found = store.put(cell, outcome, Limits())
    assert store.put(cell, replace(outcome, wall_s=9.0), Limits()).times["wall_s"] == 1.5
    file = found.folder / "cell.json"
    document = json.loads(file.read_text())
    for change, complaint in (
        (document | {"schema": "morph-opt/cell/9"}, "is no cell of this version"),
        (document | {"keep": ["x"]}, "does not match the key"),
    ):
        file.write_text(json.dumps(change))
        with pytest.raises(InputError, match=complaint):
            run_cells([cell], store)
        assert (found.folder / "summary.json").exists()


def test_no_cell_runs_where_a_scheduler_has_no_name_that_is_known(here: Path) -> None:
    """The first cells are good: they would have run before the bad one was met."""
    trace = mo.Scenario("jobs.csv", "1x8", policy="fifo")
    cells = [Cell(trace), Cell(trace.replaced(policy="nope"))]
    with pytest.raises(InputError, match="unknown policy 'nope'"):
        run_cells(cells, here / "o")
    assert not (here / "o").exists()
    # One's own is looked for where the cell runs, which may be another machine.
    require_scheduler(trace.replaced(policy="tests.sweep.nowhere:policy").scheduler)


def test_a_result_that_somebody_edited_is_refused(here: Path) -> None:
    store, cell = CellStore(here / "o"), Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"))
    files = {"summary.json": b'{"completed": 2}\n', "jobs.csv": b"a,b\n"}
    found = store.put(cell, Done(files, 1.5, "h"), Limits())
    assert found.summary == {"completed": 2}
    for name, data in files.items():
        (found.folder / name).write_bytes(data.replace(b"2", b"3").replace(b"b", b"c"))
        with pytest.raises(InputError, match=f"{name}: is not what the replay wrote"):
            found.file(name)
    with pytest.raises(InputError, match="is not what the replay wrote"):
        assert found.summary
    (found.folder / "digests.json").unlink()
    with pytest.raises(InputError, match=r"has no digest of jobs\.csv"):
        found.file("jobs.csv")


def test_a_replay_that_was_ended_answers_its_target_and_no_other(here: Path) -> None:
    store, base = CellStore(here / "o"), Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"))
    tight, other, loose = (
        replace(base, slo=Slo.parse(f"max jct_s <= {target}")) for target in (0.25, 0.125, 1e9)
    )
    assert len({one.key for one in (base, tight, other, loose)}) == 4
    (found,) = run_cells([tight], store, on="local:1")
    assert found.missed is not None
    assert found.key == tight.key
    assert "target broken at" in found.missed["said"]
    assert store.find(base.key) is store.find(other.key) is None
    with pytest.raises(InputError, match=r"has no digest of summary\.json"):
        assert found.summary
    # One that came to its end is a result for all targets.
    (reached,) = run_cells([loose], store, on="local:1")
    assert reached.missed is None
    assert reached.key == base.key
    assert store.find(loose.key) is None
    assert [one.key for one in run_cells([tight, other, base], store, on="x:y")] == 3 * [base.key]
    (found.folder / MISSED).write_text('{"at_least": 9.0, "said": "", "time_s": 1.0}')
    with pytest.raises(InputError, match="is not what the replay wrote"):
        assert found.missed


def test_limits_that_are_wider_try_again() -> None:
    slow, big = Failure("time", None, ""), Failure("memory", 1, "")
    assert slow.may_change(Limits(seconds=9), Limits(seconds=5))
    assert not slow.may_change(Limits(seconds=5), Limits(seconds=5))
    assert big.may_change(Limits(), Limits(memory_mib=100))
    assert not big.may_change(Limits(memory_mib=100), Limits())
    assert not Failure("signal", -9, "").may_change(Limits(seconds=9), Limits(seconds=5))


def test_remaining_time_is_estimated_from_finished_cells() -> None:
    """10 cells, 2 cached, 4 run in 8 s: 2 s each (two at a time or not), 4 are left: 8 s."""
    assert Progress(10, 5, 1, 2, 8.0).left_s == 8.0
    assert Progress(10, 2, 0, 2, 8.0).left_s is None


def test_axes_multiply_and_zip(here: Path) -> None:
    text = '[axes]\ntrace = ["jobs.csv", "naive"]\ncluster = ["1x8", "2x8"]\nseed = [1, 2]\n'
    Path("s.toml").write_text('zip = [["trace", "cluster"]]\n' + text)
    cells = read_spec(Path("s.toml")).cells()
    assert [dict(cell.axes) for cell in cells] == [
        {"trace": t, "cluster": c, "seed": s}
        for t, c in (("jobs.csv", "1x8"), ("naive", "2x8"))
        for s in (1, 2)
    ]
    assert cells[1].scenario.failures.seed == 2
    apart = scenario_of({"trace": "naive", "workload.seed": 3, "scheduler.seed": 4})
    seeds = apart.workload.seed, apart.scheduler.seed, apart.failures.seed
    assert seeds == (3, 4, 0)


def test_variants_are_run_with_every_combination_of_the_axes(here: Path) -> None:
    text = '[fixed]\ntrace = "jobs.csv"\ncluster = "1x8"\npolicy = "srtf"\n[axes]\nseed = [1, 2]\n'
    text += '[[variant]]\nname = "best"\npolicy = "milp"\nobjective = "jct"\ngap = 0.01\n'
    Path("s.toml").write_text(text + '[[variant]]\nname = "plain"\n')
    cells = read_spec(Path("s.toml")).cells()
    assert [dict(cell.axes) for cell in cells] == [
        {"variant": name, "seed": seed} for name in ("best", "plain") for seed in (1, 2)
    ]
    assert [cell.scenario.scheduler.policy for cell in cells] == ["milp", "milp", "srtf", "srtf"]
    assert cells[1].scenario.scheduler.gap == 0.01
    # The name is a label: the same replay is found under any.
    assert (
        Spec({"trace": "jobs.csv", "cluster": "1x8", "policy": "srtf", "seed": 1}).cells()[0].key
        == cells[2].key
    )
    assert main(["run", "s.toml", "--out", "o", "--quiet"]) == 0
    table = Path("o/results.csv").read_text().splitlines()
    assert table[0].startswith("variant,seed,")
    assert [line.split(",")[0] for line in table[1:]] == ["best", "best", "plain", "plain"]


def test_the_tutorial_has_the_first_table_of_the_readme(here: Path) -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "tutorial.md").read_text("utf-8")
    block = text.partition("# readme.toml\n")[2].partition("```")[0]
    Path("readme.toml").write_text(block)
    cells = read_spec(Path("readme.toml")).cells()
    wanted = [
        scenario_from(make_parser().parse_args(["--trace", "base", *one.arguments]))
        for one in SCHEDULERS
        if "base" in one.on
    ]
    assert [cell.scenario for cell in cells] == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[fixed]\ntrace = "naive"\nnope = 3\n', "s.toml, line 3, fixed.nope: unknown field"),
        ('[axes]\npolicy = ["fifo"]\nnope = [1]\n', "s.toml, line 3, axes.nope: unknown field"),
        ("[axes]\ninterval_s = [60.0, -1.0]\n", "s.toml, line 2, axes.interval_s: must be"),
        ('[axes]\ninterval_s = ["x"]\n', "s.toml, line 2, axes.interval_s"),
        ('[axes]\npolicy = "fifo"\n', "line 2, axes.policy: must be a list"),
        ("[axes]\npolicy = []\n", "axes.policy: has no values"),
        ('[axes]\npolicy = ["fifo", "fifo"]\n', "axes.policy: has a value twice"),
        ('[fixed]\npolicy = "fifo"\n[axes]\npolicy = ["fifo"]\n', "is fixed as well"),
        ('zip = [["seed", "gap"]]\n[axes]\nseed = [1]\n', "s.toml, line 1, zip: 'gap' is no axis"),
        ('zip = [["seed", "gap"]]\n[axes]\nseed = [1]\ngap = [0.1, 0.2]\n', "must be as long as"),
        ('[keep]\nfiles = ["x"]\n', "is no file of a run"),
        ("[fixed]\npolicy = 3\n[axes]\nseed = [1]\n", "line 2, fixed.policy: must be text"),
        ("[limits]\nseconds = 0\n", "line 2, limits.seconds: must be"),
        ("[limits]\nnope = 0\n", "limits.nope: unknown field"),
        ("[other]\n", "other: unknown field"),
        ("[axes]\ninterval_s = [60, 60.0]\n", "axes.interval_s: has a value twice"),
        ('[fixed]\ncluster = "nope"\n', "nope"),
        ('[axes]\npolicy = ["fifo", "nope"]\n', "line 2, axes.policy: unknown policy 'nope'"),
        ('[axes]\npolicy = ["fifo", "fifo:nope"]\n', "line 2, axes.policy: unknown policy"),
        ('[axes]\nobjective = ["jct", "nope"]\n', "unknown objective 'nope'; known are"),
        ('[fixed]\nsolver = "nope"\n', "s.toml, line 2, fixed.solver: unknown solver 'nope'"),
        ('[fixed]\nbelief = "nope"\n', "s.toml, line 2, fixed.belief: unknown belief"),
        ('[fixed]\npolicy = "fifo"\nobjective = "jct"\n', "line 3, fixed.objective: policy"),
        ('[[variant]]\npolicy = "fifo"\n', "variant[0].name: is missing"),
        ('[[variant]]\nname = "a"\nnope = 1\n', "variant[0].nope: unknown field"),
        (
            '[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n',
            "variant[1].name: is duplicated: 'a'",
        ),
        ('[[variant]]\nname = "a"\npolicy = "nope"\n', "variant[0].policy: unknown policy 'nope'"),
        ('[axes]\nseed = [1]\n[[variant]]\nname = "a"\nseed = 2\n', "is varied under [axes] as"),
        (
            '[axes]\ngap = [0.1]\n[[variant]]\nname = "m"\n'
            '[[variant]]\nname = "f"\npolicy = "fifo"\n',
            "axes.gap: policy 'fifo' does not know it",
        ),
    ],
)
def test_a_wrong_spec_is_one_line(
    text: str, complaint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.toml").write_text(text)
    before = sorted(here.rglob("*"))
    assert main(["run", "s.toml"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert complaint in said, said
    assert sorted(here.rglob("*")) == before


def test_a_trace_that_is_no_file_is_refused_before_it_is_opened(here: Path) -> None:
    """Reading a FIFO that nobody writes never ends."""
    os.mkfifo("fifo.csv")
    with pytest.raises(InputError, match=r"fifo\.csv: must be a file, it is a FIFO"):
        Cell(mo.Scenario("fifo.csv", "1x8", policy="fifo")).key  # noqa: B018


@pytest.mark.parametrize("damage", [{"key": "../../x"}, {"axes": {"policy": {"a": 1}}}])
def test_a_damaged_list_of_cells_is_refused(
    damage: dict[str, object], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that no cell can have is not one that is missing."""
    cell = Cell(mo.Scenario("jobs.csv", "1x8", policy="fifo"), (("policy", "fifo"),))
    document = json.loads(list_text([cell], {"python": "3"}))
    document["cells"][0] |= damage
    Path("sweep.json").write_text(json.dumps(document))
    assert main(["table", "."]) == 2
    assert f"cells[0].{min(damage)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("on", "complaint"),
    [
        ("local:0", "must be local:N"),
        ("nope", "must be local:N"),
        ("tests.sweep.poison:TRACE", "cannot import"),
        ("tests.sweep.poison:crash", "must be callable as executor"),
        ("dask:tcp://127.0.0.1:9", "no Dask scheduler answers"),
        ("dask:", "must be dask:tcp://HOST:PORT"),
        ("dask:nonsense://x", "must be dask:tcp://HOST:PORT"),
        ("dask:no-such-scheduler.json", "no-such-scheduler.json: cannot be read"),
    ],
)
def test_unavailable_executor_is_refused(
    on: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on.startswith("dask"):
        pytest.importorskip("distributed")
    monkeypatch.setattr("morph_opt.sweep.executors.PROCESSES", ProcessParams(connect_s=0.3))
    with pytest.raises(InputError, match=complaint), executor(on):
        pass


def test_a_thousand_cells_are_a_table(tmp_path: Path) -> None:
    """Written to both kinds of file; the clock's columns are apart."""
    cells = [Cell(mo.Scenario("naive"), (("n", n),)) for n in range(3)]
    store = CellStore(tmp_path)
    summary = json.dumps({"jobs": 3, "wall_s": 0.5, "solve_ms_p50": 1.0}).encode()
    found = [store.put(cells[0], Done({"summary.json": summary}, 1.0, "h"), Limits())] * 3
    table = SweepTable(cells, found)
    with pytest.raises(InputError, match=f"^found: must be one for each of {len(cells)} cells"):
        SweepTable(cells, [])
    assert table.to_csv().splitlines()[0] == "n,key,failure,failure_status,failure_message,jobs"
    assert table.times[0]["cell_host"] == "h"
    assert table.to_pandas()["n"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="must end in"):
        table.write(tmp_path / "x.xls")
    pytest.importorskip("pyarrow")
    import pandas as pd

    table.write(tmp_path / "x.parquet")
    assert pd.read_parquet(tmp_path / "x.parquet")["jobs"].tolist() == [3, 3, 3]


def test_a_folder_of_another_version_and_failures_that_are_tried_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sweep.toml").write_text(spec('"srtf"'))
    words = ["run", "sweep.toml", "--out", "o", "--on", "tests.sweep.poison:Inline", "--quiet"]
    ran: list[str] = []

    def failing(order: object) -> Failure:
        ran.append("x")
        return Failure("error", 70, "a defect")

    monkeypatch.setattr(worker, "work", failing)
    assert main(words) == 1
    assert main(words) == 1
    assert len(ran) == 2
    assert main([*words, "--retry-failed"]) == 1
    assert len(ran) == 4
    monkeypatch.setattr(worker, "work", lambda order: Done({"summary.json": b"{}"}, 1.0, ""))
    assert main([*words, "--retry-failed"]) == 0
    document = json.loads(Path("o/sweep.json").read_text())
    document["versions"]["sources"] = "other"
    Path("o/sweep.json").write_text(json.dumps(document))
    before = sorted(Path("o").rglob("*"))
    capsys.readouterr()
    assert main(words) == 2
    assert "was begun by another version (sources)" in capsys.readouterr().err
    assert sorted(Path("o").rglob("*")) == before
    assert main([*words, "--other-version"]) == 0
    assert main(["table", "o", "--out", "t.csv"]) == 0
    assert Path("t.csv").read_bytes() == Path("o/results.csv").read_bytes()
    Path("o/sweep.json").write_text(json.dumps(document | {"schema": "morph-opt/sweep/9"}))
    for command in (["table", "o"], ["status", "o"], [*words, "--other-version"][:1] + words[1:]):
        assert main(command) == 2
        assert "must be 'morph-opt/sweep/1'" in capsys.readouterr().err
