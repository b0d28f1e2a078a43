"""Model files, users' runs and the command line."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.perf.public_runs import public_plan, read_public
from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.inputs.perf import cli
from morph_opt.inputs.perf.analytic.modelfile import dump, entries_of, outlines_of, population_of
from morph_opt.inputs.perf.analytic.zoo import builtin_model, builtin_population, zoo_text
from morph_opt.inputs.perf.fitting.runs import Run, read_runs
from tests.perf.worlds import entry, pairs, runs_to_csv, true_runs

ZOO = [builtin_model().entry(name) for name in builtin_model().models()]


def test_a_model_file_reads_back() -> None:
    text = dump(ZOO, builtin_population(), "test")
    again = entries_of(text, "x.toml")
    assert [e.architecture for e in again] == [e.architecture for e in ZOO]
    assert [e.support for e in again] == [e.support for e in ZOO]
    assert [e.quirks for e in again] == [e.quirks for e in ZOO]
    for one, other in zip(again, ZOO, strict=True):
        assert one.constants.vector() == pytest.approx(other.constants.vector(), rel=1e-5)
    assert (population_of(text, "x").shift == builtin_population().shift).all()


def test_the_zoo_file_is_as_dump_writes_it() -> None:
    first = zoo_text().splitlines()[0].removeprefix("# ")
    assert dump(ZOO, builtin_population(), first) == zoo_text()


ARCHITECTURE = """
[models.mine.architecture]
parameters = 1000000000
layers = 24
hidden = 2048
sequence = 1024
global_batch = 32
heads = 16
[models.mine.support]
plans = ["dp", "dp+gc", "zero-dp"]
gpus = [1, 2, 4, 8]
three_d = ["pp2-tp4-dp1"]
parts = [8]
"""


def test_an_architecture_alone_is_an_outline() -> None:
    (outline,) = outlines_of(ARCHITECTURE, "a.toml", builtin_population())
    assert outline.constants.compute_s > 0.0
    with pytest.raises(InputError, match=r"a\.toml, line 2, models\.mine\.constants: is missing"):
        entries_of(ARCHITECTURE, "a.toml")


@pytest.mark.parametrize(
    ("constant", "value"),
    [("forward_share", 1.5), ("overlap", 1e3), ("compute_s", 1e10), ("barrier_s", 0.0)],
)
def test_constants_with_which_no_time_can_be_predicted(constant: str, value: float) -> None:
    (outline,) = outlines_of(ARCHITECTURE, "a.toml", builtin_population())
    with pytest.raises(InputError, match=rf"constants\.{constant}: must be (at most|above)"):
        replace(outline.constants, **{constant: value})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[models", "is not TOML"),
        ("", "has no"),
        ("x = 1", "x: unknown field"),
        (ARCHITECTURE.replace("layers = 24\n", ""), "layers"),
        (ARCHITECTURE.replace("layers = 24", "layers = -1"), "at least 1"),
        (ARCHITECTURE.replace('"dp"', '"dq"'), "unknown plan"),
        (ARCHITECTURE.replace("heads = 16", "heads = 16\nheight = 3"), "height"),
        (ARCHITECTURE.replace('["pp2-tp4-dp1"]', '["dp"]'), "must list 3D plans only"),
        (ARCHITECTURE.replace('["dp", "dp+gc", "zero-dp"]', '["pp1-tp2-dp1"]'), "must not list"),
    ],
)
def test_bad_model_files_are_refused(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        outlines_of(text, "bad.toml", builtin_population())


def test_runs_read_back(tmp_path: Path) -> None:
    runs = true_runs("bert", pairs()[::11])
    file = tmp_path / "runs.csv"
    file.write_text(runs_to_csv(runs))
    assert read_runs(file) == runs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shape,plan\n8,dp\n", "line 1, iteration_s: column is missing"),
        ("shape,plan,iteration_s\n", "has no rows"),
        ("shape,plan,iteration_s\n8,dp,-1\n", "line 2, iteration_s: must be at least 0"),
        ("shape,plan,iteration_s\n8,dp,0\n", "line 2, iteration_s: must be above 0"),
        ("shape,plan,iteration_s\n8,dp,nan\n", "line 2, iteration_s: must be a finite number"),
        ("shape,plan,iteration_s\n8,dp,fast\n", "line 2, iteration_s: must be a finite number"),
        ("shape,plan,iteration_s\n8,dq,1\n", "line 2, plan: unknown plan"),
        ("shape,plan,iteration_s\n8;,dp,1\n", "line 2, shape: must look like"),
        ("shape,plan,iteration_s\n8,dp\n", "line 2: must have 3 cells"),
        ("shape,plan,iteration_s\n8,pp2-tp2-dp1,1\n", "line 2, shape: plan pp2-tp2-dp1 needs 4"),
        ("shape,plan,iteration_s\n8,dp,1\n8,dp,2\n", r"line 3, plan: dp on 8 occurs twice"),
    ],
)
def test_bad_runs_name_line_field_and_rule(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_runs(file)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    for read in (read_runs, read_public):
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "none.csv")


def test_impossible_public_rows_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "placements.csv"
    file.write_text("exec_plan,placement,iter_time\n842,88,1.4\nga,53,0.5\nga,8,0\n")
    runs, refused = read_public(file)
    assert runs == [Run(Shape.of(5, 3), ExecutionPlan.parse("dp+ga"), 0.5)]
    assert [(row.line, row.plan) for row in refused] == [(2, "842"), (4, "ga")]
    assert refused[0].reason == "plan pp8-tp4-dp2 needs 64 GPUs, the shape has 16"


@pytest.mark.parametrize(
    ("label", "plan"),
    [("ga", "dp+ga"), ("248", "pp2-tp4-dp8"), ("tp+ga", "pp1-tp3-dp1+ga"), ("zero-dp", "zero-dp")],
)
def test_public_plan_names(label: str, plan: str) -> None:
    assert public_plan(label, 3).label == plan


# --- command line -----------------------------------------------------------------------------


def said(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    assert cli.main(arguments) == status
    out, err = capsys.readouterr()
    return err if status else out


@pytest.fixture
def runs_file(tmp_path: Path) -> Path:
    file = tmp_path / "runs.csv"
    chosen = [pair for pair in pairs() if pair[0].label in {"8", "2", "4+4", "1"}]
    file.write_text(runs_to_csv(true_runs("bert", chosen)))
    return file


def test_plan_profiling_names_runs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan-profiling", "--model", "bert", "--count", "3", "--max-gpus", "4"]
    lines = said(arguments, capsys).splitlines()
    assert lines[0] == "bert: 0 runs known, 32 configurations"
    assert len(lines) == 3 + 3


def test_fit_then_predict(
    tmp_path: Path, runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.toml"
    table = said(["fit", "--model", "bert", "--runs", str(runs_file), "--out", str(model)], capsys)
    assert table.startswith("constant,value,uncertainty_percent,told_by_runs_percent")
    arguments = ["--model", "bert", "--shape", "4", "--plan", "dp+ga"]
    by_file = said(["predict", *arguments, "--architecture", str(model)], capsys)
    by_runs = said(["predict", *arguments, "--runs", str(runs_file)], capsys)
    truth = true_runs("bert", [(Shape.of(4), ExecutionPlan.parse("dp+ga"))])[0].iteration_s
    for text in (by_file, by_runs):
        shape, plan, seconds, _ = text.splitlines()[1].split(",")
        assert (shape, plan) == ("4", "dp+ga")
        assert float(seconds) == pytest.approx(truth, rel=0.05)


def test_plot_writes_the_same_figure_twice(
    tmp_path: Path, runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        said(["plot", "--model", "bert", "--runs", str(runs_file), "--out", str(file)], capsys)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_figure_needs_a_suffix(
    tmp_path: Path, runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["plot", "--model", "bert", "--runs", str(runs_file), "--out", str(tmp_path)]
    assert "--out: must end in .svg, .pdf, .png" in said(asked, capsys, status=2)
    assert not tmp_path.with_suffix(".png").exists()


@pytest.mark.parametrize("row", ["64,dp+ga,1", "16,dp+ga,1", "8,pp2-tp4-dp1,1"])
def test_runs_that_the_model_cannot_have_are_refused(
    row: str, tmp_path: Path, runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "more.csv"
    file.write_text(runs_file.read_text() + row + "\n")
    asked = ["fit", "--model", "bert", "--runs", str(file), "--out", str(tmp_path / "m.toml")]
    message = said(asked, capsys, status=2)
    assert f"bert cannot run {row.split(',')[1]} on {row.split(',', maxsplit=1)[0]}" in message


def test_a_model_without_constants_is_predicted_with_all_its_uncertainty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from morph_opt.inputs.perf.analytic.zoo import zoo_text

    tables = tomllib.loads(zoo_text())["models"]["bert"]
    file = tmp_path / "own.toml"
    numbers = "\n".join(f"{key} = {value}" for key, value in tables["architecture"].items())
    support = "\n".join(f"{key} = {value!r}" for key, value in tables["support"].items())
    file.write_text(f"[models.bert.architecture]\n{numbers}\n[models.bert.support]\n{support}\n")
    asked = ["predict", "--model", "bert", "--shape", "2", "--plan", "dp+ga"]
    prior = said([*asked, "--architecture", str(file)], capsys).splitlines()[-1]
    zoo = said(asked, capsys).splitlines()[-1]
    assert float(prior.split(",")[-1]) > 3 * float(zoo.split(",")[-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["predict", "--model", "bart"],
            "zoo.toml, --model: unknown model 'bart' (did you mean 'bert'?)",
        ),
        (["predict", "--model", "bert", "--shape", "9"], "no configuration"),
        (["predict", "--model", "llama7", "--shape", "8", "--plan", "dp"], "cannot run dp on 8"),
        (
            ["plan-profiling", "--model", "bert", "--count", "0"],
            "--count: must be a whole number",
        ),
        (["plan-profiling", "--model", "bert", "--count", "999"], "asks for 999 runs"),
        (["plan-profiling", "--model", "bert", "--architecture", "none.toml"], "cannot be read"),
        (["plan-profiling", "--model", "llama30", "--max-gpus", "8"], "no configuration fits 8"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(arguments, capsys, status=2)
    assert message in text
    assert text.startswith("error: ")
    assert text.count("\n") == 1


def test_an_unwritable_file_is_one_line(
    tmp_path: Path, runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "no" / "model.toml"
    arguments = ["fit", "--model", "bert", "--runs", str(runs_file), "--out", str(target)]
    assert "cannot be written" in said(arguments, capsys, status=2)


def test_milliseconds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ms.csv"
    runs = [replace(r, iteration_s=1e3 * r.iteration_s) for r in true_runs("bert", pairs()[::9])]
    file.write_text(runs_to_csv(runs))
    text = said(["predict", "--model", "bert", "--runs", str(file)], capsys, status=2)
    assert "these look like milliseconds" in text


def test_a_model_of_ones_own_from_its_architecture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(ARCHITECTURE)
    text = said(["predict", "--model", "mine", "--architecture", str(file)], capsys)
    assert len(text.splitlines()) > 40
    assert entry().architecture.name == "bert"
