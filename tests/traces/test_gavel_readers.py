"""Gavel's files and ours: what is read, what is refused with file, line, field and rule."""

import json

import pytest

from morph_opt.core.domain import InputError, NodeType, Shape, Span
from morph_opt.core.domain.catalog import GPU_TYPES
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang
from morph_opt.inputs.perf.tables.gavel import GavelTable, read_throughputs
from morph_opt.inputs.traces.gavel import load, read_rows, read_trace
from morph_opt.inputs.traces.registry import absolute_spec, load_trace, trace_files
from morph_opt.inputs.traces.twins.gavel import TYPES, gavel_twin, twin_throughputs
from morph_opt.replay import cli

TABLE = {
    "v100": {
        "('A (batch size 4)', 1)": {"null": 4.0, "('B', 1)": [3.0, 1.0]},
        "('B', 1)": {"null": 2.0, "('A (batch size 4)', 1)": [1.0, 3.0]},
        "('B', 4)": {"null": 6.0},
        "('C', 1)": {"null": 0.0},
    },
    "v100_unconsolidated": {"('B', 4)": {"null": 3.0}},
    "k80": {"('A (batch size 4)', 1)": {"null": 1.0}, "('C', 1)": {"null": 0.0}},
}
TEN = "A (batch size 4)\tcmd\tdir\t-n\t1\t{steps}\t{gang}\t{weight}\t{slo}\t{arrival}"
SEVEN = "B\tcmd\t-n\t1\t77\t12.5\t4"


def node(name, gpus):
    return NodeType(f"{name}-{gpus}", GPU_TYPES[name], gpus, 32, 256.0, 20.0, 10.0)


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def line(**changes):
    values = {"steps": "10", "gang": "1", "weight": "1", "slo": "-1.0", "arrival": "0"}
    return TEN.format(**values | changes)


def test_throughputs_alone_spread_and_in_pairs(tmp_path):
    table = read_throughputs(write(tmp_path / "t.json", TABLE))
    assert table.types == ("k80", "v100")
    assert table.paired["v100"][("A (batch size 4)", 1), ("B", 1)] == (3.0, 1.0)
    speeds = GavelTable(table)
    wide = Gang(4, "B").name
    v100 = node("V100", 2)
    assert speeds.iteration_s(wide, node("V100", 4), Shape((4,)), RIGID_PLAN, Span.NODE) == 1 / 6
    assert speeds.iteration_s(wide, v100, Shape((2, 2)), RIGID_PLAN, Span.LEAF) == 1 / 3
    assert speeds.iteration_s(wide, node("K80", 4), Shape((4,)), RIGID_PLAN, Span.NODE) is None
    assert [row.shape.label for row in speeds.configurations(wide, v100, 8, Span.LEAF)] == [
        "2+2",
        "2+1+1",
        "1+1+1+1",
    ]
    assert list(speeds.configurations(wide, v100, 3, Span.LEAF)) == []
    with pytest.raises(InputError, match="unknown model 'Z'"):
        speeds.iteration_s("Z", v100, Shape((1,)), RIGID_PLAN, Span.NODE)


def test_a_cluster_type_or_job_type_that_the_table_lacks_is_named(tmp_path):
    table = read_throughputs(write(tmp_path / "t.json", TABLE))
    table.require_types(["V100", "K80"])
    with pytest.raises(InputError, match="no type 'P100'; it has k80, v100"):
        table.require_types(["V100", "P100"])
    with pytest.raises(InputError, match="unknown job type 'B' with 2 GPUs"):
        table.require_key(("B", 2))
    with pytest.raises(InputError, match="throughput 0 on every type"):
        table.require_key(("C", 1))


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("{", "is not JSON"),
        ([], "must map GPU types"),
        ({"v100": 3}, "must map job keys"),
        ({"v100": {"B": {"null": 1}}}, "must look like"),
        ({"v100": {"('B', 0)": {"null": 1}}}, "gang of at least 1"),
        ({"v100": {"('B', 1)": {}}}, "needs the speed without a partner"),
        ({"v100": {"('B', 1)": {"null": -1}}}, "at least 0"),
        ({"v100": {"('B', 1)": {"null": 1, "('B', 1)": [1]}}}, "two speeds"),
        ({"v100_unconsolidated": {}}, "no consolidated"),
    ],
)
def test_bad_tables(tmp_path, content, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read_throughputs(write(tmp_path / "t.json", content))
    assert "t.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_replay_on_a_type_that_the_table_lacks_is_refused_in_one_line(capsys):
    call = ["--trace", "gavel-96", "--cluster", "1x4:V100+1x8:H100-80GB", "--policy", "fifo"]
    assert cli.main(call) == 2
    error = capsys.readouterr().err.strip()
    assert "no type 'H100-80GB'; it has k80, p100, v100" in error
    assert "\n" not in error


def test_both_layouts_are_read(tmp_path):
    rows = read_rows(write(tmp_path / "a.trace", line(slo="1.2", weight="5") + "\n" + SEVEN + "\n"))
    assert [(r.job_type, r.steps, r.gang, r.weight, r.slo, r.arrival_s) for r in rows] == [
        ("A (batch size 4)", 10, 1, 5.0, 1.2, 0.0),
        ("B", 77, 4, 1.0, None, 12.5),
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a\tb", "line 1: must have 10 or 7"),
        (line(steps="0"), "total_steps"),
        (line(steps="1.5"), "total_steps"),
        (line(gang="x"), "scale_factor"),
        (line(weight="0"), "priority_weight: must be above 0"),
        (line(slo="0"), "SLO"),
        (line(slo="nan"), "SLO"),
        (line(arrival="-3"), "arrival_time"),
        (line(arrival="9") + "\n" + line(arrival="8"), "line 2, arrival_time"),
        ("", "has no jobs"),
    ],
)
def test_bad_traces(tmp_path, text, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read_rows(write(tmp_path / "bad.trace", text))
    assert "bad.trace" in str(caught.value)


def test_a_trace_becomes_rigid_jobs_from_instant_0(tmp_path):
    table = read_throughputs(write(tmp_path / "t.json", TABLE))
    text = line(arrival="100") + "\n" + SEVEN.replace("12.5", "160")
    trace = read_trace(write(tmp_path / "a.trace", text), name="a", throughputs=table)
    assert [(j.model, j.submission_s, j.iterations, j.requested_gpus) for j in trace.jobs] == [
        ("A (batch size 4) x1", 0.0, 10, 1),
        ("B x4", 60.0, 77, 4),
    ]
    other = line().replace("A (batch size 4)", "Z")
    with pytest.raises(InputError, match="line 1, job_type: unknown job type 'Z'"):
        read_trace(write(tmp_path / "b.trace", other), name="b", throughputs=table)


def test_originals_by_name(public_data):
    trace, speeds, notice = load(public_data / "gavel", "max_min_fairness")
    assert len(trace.jobs) == 96
    assert "original" in notice
    assert {job.model for job in trace.jobs} <= set(speeds.models())
    older, speeds, _ = load(public_data / "gavel", "msr_seed0/2869ce")
    assert len(older.jobs) > 400
    measured = GavelTable(speeds.throughputs).models()
    unmeasured = [job for job in older.jobs if job.model not in measured]
    assert unmeasured
    assert not speeds.configurations(unmeasured[0].model, node("V100", 8), 8, Span.LEAF)
    with pytest.raises(InputError, match="unknown trace 'gavel/nope'"):
        load(public_data / "gavel", "nope")


def test_the_twin_is_seeded_labelled_and_runs_on_its_own_table():
    trace, speeds = gavel_twin(0)
    again, _ = gavel_twin(0)
    other, _ = gavel_twin(1)
    assert trace.sha256 == again.sha256 != other.sha256
    assert "not the original" in trace.description
    assert len(trace.jobs) == 96
    assert {job.model for job in trace.jobs} <= set(speeds.models())
    table = twin_throughputs()
    assert table.types == TYPES
    gangs = sorted({one[1] for one, _ in table.paired["v100"]})
    assert gangs == [1, 2, 4, 8], "pairs of every gang size"
    with pytest.raises(InputError, match="seed"):
        gavel_twin(-1)


def test_own_files_are_named_by_path(tmp_path, monkeypatch):
    trace = write(tmp_path / "mine.trace", line() + "\n" + line(arrival="60") + "\n")
    table = write(tmp_path / "table.json", TABLE)
    loaded = load_trace(f"gavel:{trace},{table}")
    assert loaded.kind == "file"
    assert [job.submission_s for job in loaded.trace.jobs] == [0.0, 60.0]
    assert trace_files(f"gavel:{trace},{table}") == (str(trace), str(table))
    monkeypatch.chdir(tmp_path)
    assert absolute_spec("gavel:mine.trace,table.json") == f"gavel:{trace},{table}"
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path / "none"))
    with pytest.raises(InputError, match="the data set is not on this machine"):
        load_trace("gavel:mine.trace")


def test_a_trace_of_twelve_columns_is_shockwaves(tmp_path):
    file = write(tmp_path / "s.trace", line() + "\tstatic\t1\n")
    with pytest.raises(InputError, match=r"got 12 \(12 are Shockwave's: keep Gavel's ten\)"):
        read_rows(file)
