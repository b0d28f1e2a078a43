"""Hard instances: files true to seed and table, best known values checked, runs that add up."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances import hunting
from benchmarks.instances.__main__ import main
from benchmarks.instances.building import make_hard
from benchmarks.instances.checking import check_point
from benchmarks.instances.hard import FAMILIES, FOLDER, HARD, Hard, build_hard
from benchmarks.instances.hunting import OURS, TimedHighs, hunt
from benchmarks.instances.library import (
    SUMS,
    Instance,
    default_folder,
    load,
    load_round,
    read_sums,
    read_table,
    sums_of,
    write_sums,
)
from benchmarks.instances.messy import KINDS, messy_round
from benchmarks.instances.named import named
from benchmarks.instances.runs import GAP, Run, read_runs, settled, with_run, write_runs
from benchmarks.instances.series import FOLDER as SERIES_FOLDER
from benchmarks.instances.solution import read_solution
from benchmarks.instances.submission import compared, form, status, summary, tags
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.round.check import check
from formulations.round.tables import Selection
from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.solvers.outcome import Limits, Status

OWN = default_folder() / FOLDER
TABLE = read_table(OWN)
RUNS = read_runs(OWN)
TINY = Hard("busy", "lookahead", 4)
"""Not in the library: solved in a moment."""


def name_of(row: Instance) -> str:
    return row.name


def test_ten_to_fifteen_hard_instances_of_each_family_are_stored() -> None:
    for family in FAMILIES:
        of = [row for row in TABLE if row.objective == family]
        assert 10 <= len(of) <= 15, family
        assert {row.formulation for row in of} == {"node_pattern", "node_assignment"}
    assert {row.name.partition("-")[0] for row in TABLE} == set(KINDS)
    assert {row.name for row in TABLE} <= {one.name for one in HARD}
    assert len({one.name for one in HARD}) == len(HARD)


def test_every_file_has_a_row_and_all_are_small() -> None:
    ends = (".mps.xz", ".round.json.xz", ".sol")
    files = {f"{row.name}{end}" for row in TABLE for end in ends}
    there = {path.name for path in OWN.iterdir()}
    assert there == files | {"library.csv", "runs.csv", "submission.md", "SHA256SUMS"}
    assert sum(path.stat().st_size for path in OWN.iterdir()) < 6 * 2**20


@pytest.mark.parametrize("folder", [FOLDER, SERIES_FOLDER])
def test_checksums_are_those_of_the_files(folder: str) -> None:
    own = default_folder() / folder
    assert read_sums(own) == sums_of(own)


def test_checksums_show_a_changed_file_and_damage(tmp_path: Path) -> None:
    (tmp_path / "a.sol").write_text("x")
    write_sums(tmp_path)
    assert read_sums(tmp_path) == sums_of(tmp_path)
    (tmp_path / "a.sol").write_text("y")
    assert read_sums(tmp_path) != sums_of(tmp_path)
    (tmp_path / SUMS).write_text("none\n")
    with pytest.raises(InputError, match="line 1: must be a checksum"):
        read_sums(tmp_path)


@pytest.mark.parametrize("row", TABLE[::6], ids=name_of)
def test_the_table_is_true_and_the_best_known_solution_a_good_one(row: Instance) -> None:
    """A sample: the checker accepts a solution before it is stored, and checksums hold it."""
    model, problem = load(OWN, row.name), load_round(OWN, row.name)
    assert (model.rows, model.columns, model.nonzeros) == (row.rows, row.columns, row.nonzeros)
    assert model.integer.all()
    assert (problem.jobs.count, problem.candidates.count, problem.nodes.count) == (
        row.jobs,
        row.candidates,
        row.nodes,
    )
    point = read_solution(OWN / f"{row.name}.sol", model)
    verdict = check_point(model, problem, point, row)
    assert verdict.complaints == ()
    assert not verdict.improves
    assert verdict.objective == pytest.approx(row.best, rel=1e-9)
    assert row.bound >= row.best


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_bound_and_prover_are_those_of_the_runs(row: Instance) -> None:
    """No run of any solver contradicts another, and none found better than the best known."""
    own = [run for run in RUNS if run.instance == row.name]
    slack = 1e-5 * max(1.0, abs(row.best))
    for run in own:
        assert run.bound >= row.best - slack, run
        assert run.value <= row.bound + slack, run
        assert run.value <= row.best + slack, run
    again = settled(replace(row, bound=float("inf"), proof=ALONE), own)
    assert again.proof == row.proof
    assert again.bound == row.bound or row.proof == ALONE


@pytest.mark.parametrize("one", HARD[::17], ids=lambda one: one.name)
def test_rounds_are_made_from_their_seeds(one: Hard) -> None:
    """The stored round is the generator's; the rest of the model follows from it."""
    state, speeds = messy_round(one.kind, one.nodes, one.seed)
    again, _ = messy_round(one.kind, one.nodes, one.seed)
    assert state == again
    if not speeds.measures_pairs:
        plain = CandidateBuilder(speeds).view(state).problem
        stored = load_round(OWN, one.name)
        np.testing.assert_array_equal(stored.holds.node, plain.holds.node)
        np.testing.assert_array_equal(stored.jobs.iterations_left, plain.jobs.iterations_left)
        assert stored.nodes.count == plain.nodes.count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_running_jobs_of_messy_rounds_fit_where_they_are(kind: str, seed: int) -> None:
    state, speeds = messy_round(kind, 9, seed)
    problem = CandidateBuilder(speeds).view(state).problem
    nowhere = ((),) * problem.jobs.count
    check(problem, Selection(problem.options.stay, nowhere))
    asked = sum(held.job.requested_gpus for held in state.jobs)
    assert asked >= KINDS[kind].load * state.cluster.gpus
    assert (KINDS[kind].held > 0) == bool(problem.jobs.running.any())


def test_a_small_instance_is_made_and_hunted(tmp_path: Path) -> None:
    made = make_hard(tmp_path, TINY)
    own = tmp_path / FOLDER
    assert made.best <= made.bound
    first = hunt(own, made, "highs-default", 20.0, threads=1, start=False)
    assert first.solved
    (row,) = read_table(own)
    assert row.best == pytest.approx(first.value, rel=1e-6)
    assert row.bound - row.best <= 2 * GAP * abs(row.best)
    assert "HiGHS" in row.proof
    # A better solution that is there is kept, and the same seed gives the same bytes.
    before = {path.name: path.read_bytes() for path in own.iterdir()}
    make_hard(tmp_path, TINY)
    assert {path.name: path.read_bytes() for path in own.iterdir()} == before


def test_ours_is_asked_for_rounds_by_seed_alone(tmp_path: Path) -> None:
    make_hard(tmp_path, TINY)
    (row,) = read_table(tmp_path / FOLDER)
    with pytest.raises(InputError, match="decides rounds by seed"):
        hunt(tmp_path / FOLDER, row, OURS, 1.0, threads=1, start=False)


def test_a_solver_that_does_not_take_a_model_is_named_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CP-SAT requires bounds; no run is recorded of a model without."""
    make_hard(tmp_path, TINY)
    before = read_runs(tmp_path / FOLDER)
    command = ["hunt", "--folder", str(tmp_path), "--solver", "cpsat", "--cpu-s", "1"]

    def unbounded(folder: Path, name: str) -> LinearModel:
        model = load(folder, name)
        return replace(model, column_upper=np.full(model.columns, np.inf))

    with monkeypatch.context() as patched:
        patched.setattr(hunting, "load", unbounded)
        assert main(command) == 2
    assert f"--solver: {TINY.name}: column " in capsys.readouterr().err
    assert read_runs(tmp_path / FOLDER) == before
    assert main(command) == 0
    assert len(read_runs(tmp_path / FOLDER)) == len(before) + 1


def test_the_limit_on_processor_time_ends_a_run() -> None:
    row = next(row for row in TABLE if row.bound - row.best > 0.01)
    outcome = TimedHighs(0.2).solve(load(OWN, row.name), Limits(gap=GAP, time_s=600.0))
    assert outcome.status is not Status.OPTIMAL


ALONE = "each job alone"
"""Proof of the bound of an instance that no solver was run on."""


def run_of(value: float, bound: float, cpu_s: float, solver: str = "highs-default") -> Run:
    return Run("one", solver, f"{solver} 1", 1, cpu_s, 0, "feasible", value, bound, started=False)


def test_the_longest_run_is_kept_and_the_quickest_of_equal_proofs() -> None:
    short, long = run_of(1.0, 3.0, 5.0), run_of(2.0, 2.5, 60.0)
    assert with_run((long,), short) == (long,)
    assert with_run((short,), long) == (long,)
    proof = run_of(2.0, 2.0, 1.0)
    assert with_run((long,), proof) == (proof,)
    row = replace(TABLE[0], name="one", best=2.0, bound=9.0, proof="")
    slow = run_of(2.0, 2.0, 30.0, "cpsat")
    assert settled(row, (long, slow, proof)).proof == "highs-default 1, 1 s, 1 thread"
    assert settled(row, (short,)).bound == 3.0
    assert settled(row, ()) == row


def test_runs_are_read_back(tmp_path: Path) -> None:
    runs = (run_of(1.25, 3.0, 5.0), run_of(float("-inf"), float("inf"), 2.0, "cpsat"))
    write_runs(tmp_path, runs)
    assert set(read_runs(tmp_path)) == set(runs)
    (tmp_path / "runs.csv").write_text((tmp_path / "runs.csv").read_text().replace(",5.0,", ",x,"))
    with pytest.raises(InputError, match="cpu_s"):
        read_runs(tmp_path)


def test_the_checker_sees_a_better_value_than_the_bound_and_a_broken_rule(tmp_path: Path) -> None:
    row = TABLE[0]
    known = named(default_folder(), row.name)
    assert known.problem is not None
    assert known.solution is not None
    point = read_solution(known.solution, known.model)
    low = replace(known, bound=row.best - 0.1 * abs(row.best))
    (said,) = check_point(known.model, known.problem, point, low).complaints
    assert "is better than the proven bound" in said
    lines = known.solution.read_text().splitlines(keepends=True)
    started = [line for line in lines if line.startswith(("x[", "s["))]
    path = tmp_path / "bad.sol"
    path.write_text("".join(line for line in lines if line != started[0]))
    assert main(["check", row.name, str(path)]) == 1


def test_the_model_of_a_stored_instance_is_that_of_its_seed() -> None:
    """For one with a single goal, whose model asks no solver.

    Files stay as they were stored: since then columns `f` have upper limits, which cut off no
    solution, and values are computed in another order.
    """
    one = next(o for o in HARD if o.objective == "lookahead" and o.kind == "scarce")
    built, stored = build_hard(one).model, load(OWN, one.name)
    assert list(built.column_names()) == list(stored.column_names())
    assert list(built.row_names()) == list(stored.row_names())
    for field in ("start", "index", "integer"):
        assert np.array_equal(getattr(built, field), getattr(stored, field))
    for field in ("cost", "value", "row_lower", "row_upper", "column_lower"):
        np.testing.assert_allclose(getattr(built, field), getattr(stored, field), rtol=1e-12)
    limited = np.isfinite(stored.column_upper)
    assert np.array_equal(built.column_upper[limited], stored.column_upper[limited])
    names = np.asarray(list(stored.column_names()))
    assert {name[0] for name in names[np.isfinite(built.column_upper) & ~limited]} == {"f"}


def test_the_pages_show_the_library_as_it_is() -> None:
    assert (OWN / "submission.md").read_text("utf-8") == form(default_folder())
    page = (default_folder() / "README.md").read_text("utf-8")
    for table in (summary(default_folder()), compared(default_folder())):
        assert table in page


def test_tags_are_the_classes_of_rows() -> None:
    builder = ModelBuilder("rows")
    x = np.asarray(builder.add_columns("x", np.arange(3)[:, None], 1.0))
    y = np.asarray(builder.add_columns("y", np.arange(1)[:, None], 9.0))
    cases = {
        "set packing": ([(0, x, [1, 1, 1])], -np.inf, 1.0),
        "set partitioning": ([(0, x, [1, 1, 1])], 1.0, 1.0),
        "set covering": ([(0, x, [1, 1, -1])], 0.0, np.inf),
        "cardinality": ([(0, x, [1, 1, 1])], 2.0, 2.0),
        "invariant knapsack": ([(0, x, [1, 1, 1])], -np.inf, 2.0),
        "knapsack": ([(0, x, [2, 3, 4])], -np.inf, 5.0),
        "equation knapsack": ([(0, x, [2, 3, 4])], 5.0, 5.0),
        "integer knapsack": ([(0, x, [2, 3, 4]), (0, y, [2])], -np.inf, 5.0),
        "general linear": ([(0, x, [2, 3, 4]), (0, y, [-2])], -np.inf, 5.0),
        "singleton": ([(0, y, [1])], -np.inf, 5.0),
    }
    for entries, low, high in cases.values():
        terms = [(np.zeros(len(v), np.int64), c, np.asarray(v, float)) for _, c, v in entries]
        builder.add_rows("row", np.zeros((1, 1), np.int64), low, high, terms)
    model = builder.build(np.zeros(4))
    assert tags(model) == sorted(cases)


def test_status_is_that_of_the_reference() -> None:
    row = replace(TABLE[0], name="one")
    assert status(row, ()) == ""
    assert status(row, (run_of(2.0, 2.5, 60.0),)) == "open (after 60 s)"
    assert status(row, (run_of(2.0, 2.0, 6.0),)) == "easy (6 s)"
    assert status(row, (replace(run_of(2.0, 2.0, 6.0), started=True),)) == ""


def test_hunt_refuses_a_name_that_none_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in ("library.csv", "runs.csv"):
        (tmp_path / FOLDER).mkdir(exist_ok=True)
        shutil.copy(OWN / file, tmp_path / FOLDER / file)
    assert main(["hunt", "--only", "nosuch", "--folder", str(tmp_path)]) == 2
    assert "no hard instance has 'nosuch'" in capsys.readouterr().err
