"""The reader of the Morphling artifact: what it makes of good files, what it says of bad ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, Shape, Span
from morph_opt.inputs.traces.morphling import plan_of, read_table, read_tables, read_workload


def read(path: Path) -> None:
    read_workload(path, name="t", models=["gpt2", "t5"])


def test_workload_fields(artifact: Path) -> None:
    path = artifact / "simulator" / "workloads" / "workload-base.csv"
    trace = read_workload(path, name="morphling/base", models=["gpt2"])
    alpha, beta = trace.jobs
    assert (alpha.name, alpha.model, alpha.submission_s) == ("alpha", "gpt2", 0.0)
    assert alpha.iterations == 100, "the artifact counts steps + 1 iterations"
    assert (alpha.requested_gpus, alpha.cpus_per_gpu, alpha.guaranteed) == (8, 8, False)
    assert alpha.requested_plan == ExecutionPlan.parse("zero-dp")
    assert (beta.iterations, beta.cpus_per_gpu, beta.guaranteed) == (1, 4, True)
    assert beta.requested_plan == ExecutionPlan.three_d(2, 2, 2)


def test_jobs_are_sorted_by_submission_and_ties_keep_their_order(
    tmp_path: Path, workload_text: str
) -> None:
    path = tmp_path / "w.csv"
    path.write_text(
        workload_text + "late,9,1,gpt2,1,8,0,ga,1,0\ntie,9,1,gpt2,1,8,0,ga,1,0\n", encoding="utf-8"
    )
    trace = read_workload(path, name="t", models=["gpt2"])
    assert [job.name for job in trace.jobs] == ["alpha", "late", "tie", "beta"]


def test_optional_columns(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text(
        "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight,tenant\n"
        "a,0,gpt2,1,8,ga,1,0,2.5,vision\n",
        encoding="utf-8",
    )
    (job,) = read_workload(path, name="t", models=["gpt2"]).jobs
    assert (job.weight, job.tenant) == (2.5, "vision")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_byte_order_mark_line_ends_and_blank_lines_are_accepted(
    tmp_path: Path, workload_text: str, encoding: str, newline: str
) -> None:
    path = tmp_path / "w.csv"
    text = workload_text.replace("\n", newline) + newline
    path.write_bytes(text.encode(encoding))
    assert len(read_workload(path, name="t", models=["gpt2"]).jobs) == 2


@pytest.mark.parametrize(
    ("label", "gpus", "expected"),
    [
        ("ga", 2, "dp+ga"),
        ("gc", 2, "dp+gc"),
        ("zero-dp", 2, "zero-dp"),
        ("zero-offload", 1, "zero-offload"),
        ("zero-offload+gc", 1, "zero-offload+gc"),
        ("tp+ga", 4, "pp1-tp4-dp1+ga"),
        ("624", 48, "pp6-tp2-dp4"),
        ("dp+ga+gc", 3, "dp+ga+gc"),
        ("pp2-tp1-dp16", 32, "pp2-tp1-dp16"),
    ],
)
def test_plan_labels(label: str, gpus: int, expected: str) -> None:
    assert plan_of(label, gpus).label == expected


BAD_CELLS = [
    ("submission_time", "-1", "must be at least 0, got -1"),
    ("submission_time", "nan", "must be a finite number, got 'nan'"),
    ("submission_time", "inf", "must be a finite number, got 'inf'"),
    ("submission_time", "1_0", "must be a finite number, got '1_0'"),
    ("submission_time", "soon", "must be a finite number, got 'soon'"),
    ("submission_time", "", "must not be empty"),
    ("duration", "-3", "must be at least 0, got -3"),
    ("bandwidth", "nan", "must be a finite number, got 'nan'"),
    ("application", "gpt5", "unknown model 'gpt5'; the speed model knows gpt2, t5"),
    ("num_gpus", "0", "must be at least 1, got 0"),
    ("num_gpus", "2.0", "must be a whole number, got '2.0'"),
    ("num_gpus", "9" * 30, "must be a whole number, got"),
    ("num_cpus", "63", "must be a multiple of num_gpus (8), got 63"),
    ("num_cpus", "-8", "must be at least 0, got -8"),
    ("steps", "1e3", "must be a whole number, got '1e3'"),
    ("steps", "-1", "must be at least 0, got -1"),
    ("exec_plan", "magic", "unknown plan 'magic'; known are ga, gc,"),
    ("exec_plan", "224", "plan 224 needs 16 GPUs, the row has 8"),
    ("exec_plan", "204", "unknown plan '204'"),
    ("is_sla", "yes", "must be 0 or 1, got 'yes'"),
    ("name", "", "must not be empty"),
    ("name", "alpha", "must be unique, 'alpha' is also on line 2"),
    ("name", "a\x07b", "must be a non-empty name"),
]


@pytest.mark.parametrize(("column", "value", "rule"), BAD_CELLS)
def test_bad_cell_is_named_in_one_line(
    tmp_path: Path, workload_text: str, column: str, value: str, rule: str
) -> None:
    header, alpha, beta = workload_text.splitlines()
    cells = beta.split(",")
    cells[header.split(",").index(column)] = value
    path = tmp_path / "w.csv"
    path.write_text("\n".join((header, alpha, ",".join(cells))), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 3, {column}: {rule}")
    assert "\n" not in message


BAD_TEXTS = [
    ("", 1, None, "is empty; it needs a header with name,"),
    ("\n\n", 1, None, "is empty; it needs a header with name,"),
    ("name,name\n", 1, "name", "column occurs twice"),
    ("name,submission_time\n", 1, "application", "column is missing; the header has name,"),
]


@pytest.mark.parametrize(("text", "line", "field", "rule"), BAD_TEXTS)
def test_bad_file(
    tmp_path: Path, text: str, line: int | None, field: str | None, rule: str
) -> None:
    path = tmp_path / "w.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert (error.file, error.line, error.field) == (str(path), line, field)
    assert error.rule.startswith(rule)


@pytest.mark.parametrize(
    ("change", "line", "field", "rule"),
    [
        (lambda t: t.replace("is_sla", "is_slo"), 1, "is_sla", "column is missing"),
        (lambda t: t.replace("duration", "durations"), 1, "durations", "unknown column"),
        (lambda t: t.splitlines()[0], None, None, "has a header but no jobs"),
        (lambda t: t + "gamma,1,2\n", 4, None, "must have 10 cells like the header, got 3"),
        (lambda t: t + '"gamma,1\n', 4, None, "is not a CSV line: unexpected end of data"),
        (lambda t: t.replace("alpha", "al\x00pha"), 2, "name", "must be a non-empty name"),
    ],
)
def test_bad_structure(
    tmp_path: Path, workload_text: str, change: object, line: int, field: str, rule: str
) -> None:
    assert callable(change)
    path = tmp_path / "w.csv"
    path.write_text(change(workload_text), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert (error.file, error.line, error.field) == (str(path), line, field)
    assert error.rule.startswith(rule)


def test_missing_file_folder_and_encoding(tmp_path: Path, workload_text: str) -> None:
    for path, rule in (
        (tmp_path / "absent.csv", "cannot be read (No such file"),
        (tmp_path, "must be a file, it is a folder"),
    ):
        with pytest.raises(InputError, match=re.escape(f"{path}: {rule}")):
            read(path)
    wide = tmp_path / "wide.csv"
    wide.write_bytes(workload_text.encode("utf-16"))
    with pytest.raises(InputError, match="must be UTF-8 text, byte 0 is not"):
        read(wide)


def test_tables_become_one_speed_model(artifact: Path) -> None:
    table = read_tables(artifact)
    assert list(table.models()) == ["gpt2"]
    shape = Shape.of(5, 3)
    plan = ExecutionPlan.parse("dp+ga")
    assert table.iteration_s("gpt2", A800_NODE, shape, plan, Span.LEAF) == 0.75
    assert len(table.configurations("gpt2", A800_NODE, 64, Span.LEAF)) == 3


def micro_table(artifact: Path, model: str, text: str) -> Path:
    path = artifact / "simulator" / "traces" / model / "placements.csv"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return path


def test_zero_time_of_a_micro_benchmark_means_impossible(artifact: Path) -> None:
    micro_table(
        artifact,
        "llama7b_bsz16",
        "exec_plan,placement,cpu_threads,iter_time\n"
        "111,1,2,0\nzero-offload+gc,1,2,60\nzero-offload+gc,1,4,40\n",
    )
    table = read_tables(artifact)
    assert list(table.models()) == ["gpt2", "llama7b_bsz16", "llama7b_bsz16@4cpu"]
    (slow,) = table.configurations("llama7b_bsz16", A800_NODE, 64, Span.LEAF)
    (fast,) = table.configurations("llama7b_bsz16@4cpu", A800_NODE, 64, Span.LEAF)
    assert (slow.iteration_s, fast.iteration_s) == (60.0, 40.0)


@pytest.mark.parametrize(
    ("row", "field", "rule"),
    [
        ("ga,8,0,1,2,3", "iter_time", "must be above 0, got 0"),
        ("ga,8,-1,1,2,3", "iter_time", "must be at least 0, got -1"),
        ("ga,8,nan,1,2,3", "iter_time", "must be a finite number"),
        ("ga,8,inf,1,2,3", "iter_time", "must be a finite number"),
        ("ga,80,1,1,2,3", "placement", "must be one digit 1-9 per node, got '80'"),
        ("ga,,1,1,2,3", "placement", "must not be empty"),
        ("444,88,1,1,2,3", "exec_plan", "plan 444 needs 64 GPUs, the row has 16"),
        ("hope,8,1,1,2,3", "exec_plan", "unknown plan 'hope'"),
        ("ga,53,1,1,2,3", "placement", "ga on 5+3 is also on line 3"),
    ],
)
def test_bad_measurement(artifact: Path, row: str, field: str, rule: str) -> None:
    path = artifact / "simulator" / "traces" / "gpt2" / "placements.csv"
    path.write_text(path.read_text(encoding="utf-8") + row + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_tables(artifact)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 5, {field}: {rule}")


def test_bad_tables(artifact: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no <model>/placements\.csv"):
        read_tables(tmp_path / "elsewhere")
    path = micro_table(artifact, "t5_3B", "exec_plan,placement,iter_time\n")
    with pytest.raises(InputError, match="has a header but no measurements"):
        read_table(path)
    path.write_text("exec_plan,placement,time\n", encoding="utf-8")
    with pytest.raises(InputError, match="iter_time: column is missing"):
        read_table(path)


def test_originals(public_data: Path) -> None:
    root = public_data / "morphling"
    table = read_tables(root)
    assert {"bert", "gpt2", "llama7", "llama30", "roberta", "t5", "vit"} < set(table.models())
    assert {"t5_3B", "llama7b_bsz16", "llama7b_bsz16@4cpu"} < set(table.models())
    for model in table.models():
        for row in table.configurations(model, A800_NODE, 64, Span.LEAF):
            assert 0.01 < row.iteration_s < 100, f"{model}: not in seconds?"
