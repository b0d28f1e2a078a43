"""Why a job of a finished run got what it got: asked afterwards, at no price to the replay."""

from __future__ import annotations

from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError
from morph_opt.explain.cli import main
from morph_opt.explain.why import stretches, why
from morph_opt.replay.prepare import prepare
from morph_opt.replay.run import repeated
from morph_opt.replay.scenario import read_scenario
from morph_opt.scheduling.policies.objectives.plain import Jct
from morph_opt.simulation import runs
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import RoundDecided
from morph_opt.simulation.runs.write import CONFIG

TRACE = "tests.engine.toys:trace/6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("why") / "run"
    mo.Scenario(TRACE, "1x4", objective="jct").run(out=out)
    return out


def test_rounds_are_those_that_were_decided(folder: Path) -> None:
    """Every state's jobs, and who holds what, are those that the log tells."""
    events = tuple(mo.read_run(folder).events)
    rounds = [event for event in events if isinstance(event, RoundDecided)]
    wanted = {event.index for event in rounds[::5]}
    found = list(repeated(prepare(read_scenario(folder / CONFIG)), events, wanted))
    assert {state.index for state, _ in found} == wanted
    by_index = {event.index: event for event in rounds}
    for state, decision in found:
        told = by_index[state.index]
        assert (state.time_s, len(state.jobs)) == (told.time_s, told.active)
        assert (len(decision.allocation.assignments), decision.allocation.gpus) == (
            told.running,
            told.gpus,
        )


def test_stretches_are_those_of_the_job(folder: Path) -> None:
    run = mo.read_run(folder)
    for row in run.jobs:
        found = stretches(tuple(run.events), row.job, 0.0, float("inf"))
        waited = sum(one.until_s - one.from_s for one in found if one.words == "queued")
        assert waited == pytest.approx(row.queued_s)
        assert found[-1].until_s == row.finish_s
    half = stretches(tuple(run.events), row.job, row.submission_s, row.finish_s - 1.0)
    assert half[-1].until_s == row.finish_s - 1.0


def test_explanation_is_in_sentences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = mo.read_run(folder)
    longest = max(run.jobs, key=lambda row: row.queued_s)
    assert main([str(folder), longest.job, "--rounds", "2", "--allow-code"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{longest.job} was queued from ")
    assert f": {longest.job}: queue" in said
    words = run.why(longest.job, longest.submission_s)
    assert words.startswith("at ")
    assert longest.job in words


def test_a_run_in_memory_is_explained_as_its_folder(folder: Path) -> None:
    """Also one whose objective is a value that no file can name."""
    read, longest = mo.read_run(folder), max(mo.read_run(folder).jobs, key=lambda row: row.queued_s)
    by_name = mo.Scenario(TRACE, "1x4", objective="jct").run()
    by_value = mo.Scenario(TRACE, "1x4", objective=Jct()).run()
    told = read.why(longest.job, longest.submission_s)
    assert by_name.why(longest.job, longest.submission_s) == told
    assert by_value.why(longest.job, longest.submission_s) == told
    with pytest.raises(InputError, match="the round has no job 'nobody'"):
        by_name.why("nobody", longest.submission_s)


def test_job_that_waits_for_a_boundary_is_explained_at_its_first_round(tmp_path: Path) -> None:
    """Both are submitted at 0 and given GPUs at 60 s, the first boundary: no round leaves them."""
    run = mo.Scenario("search-twin/2", "1x2:V100", engine=ReplayConfig(until_s=240.0)).run(
        out=tmp_path / "r"
    )
    for row in run.jobs:
        assert (row.submission_s, row.start_s) == (0.0, 60.0)
        *_, said = why(tmp_path / "r", row.job, rounds=5)
        assert said.startswith("at ")


def test_workers_that_take_turns_are_explained_by_their_gpus(tmp_path: Path) -> None:
    """Alone in the first round, with a GPU for each of 16 workers, wherever these are."""
    rules = ReplayConfig(restart_s=20.0, until_s=330.0)
    mo.Scenario("easyscale-twin", engine=rules).run(out=tmp_path / "r")
    *_, said = why(tmp_path / "r", "job-00", rounds=5)
    assert "job-00: start 16 est16-d2-V100 on " in said
    assert "1+1" not in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nobody"], "the run has no job 'nobody'"),
        (["j0", "--from-h", "900"], "is not active from 900 h"),
        (["j0", "--from-h", "2", "--until-h", "1"], "--until-h: must be after --from-h"),
    ],
)
def test_runs_that_cannot_be_explained_are_refused(
    words: list[str], complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder), *words, "--allow-code"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert complaint in said.err


def test_only_runs_of_policies_with_reasons_are_explained(folder: Path, tmp_path: Path) -> None:
    mo.Scenario(TRACE, "1x4", policy="srtf").run(out=tmp_path / "r")
    with pytest.raises(
        InputError,
        match="explains milp, easy, conservative, slurm and kueue only, not 'srtf'",
    ):
        why(tmp_path / "r", "j0", rounds=5)
    with pytest.raises(
        InputError,
        match="explains milp, easy, conservative, slurm and kueue only, not 'srtf'",
    ):
        mo.Scenario(TRACE, "1x4", policy="srtf").run().why("j0", 0.0)
    with pytest.raises(InputError, match=r"mo\.read_run"):
        runs.read.read_run(folder).why("j0", 0.0)
    with pytest.raises(InputError, match="no round at 1e\\+09 s"):
        mo.read_run(folder).why("j0", 1e9)
    assert main([str(tmp_path / "none"), "j0"]) == 2


def test_a_folder_that_names_code_is_not_trusted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longest = max(mo.read_run(folder).jobs, key=lambda row: row.queued_s)
    assert main([str(folder), longest.job]) == 2
    assert "--allow-code runs it" in capsys.readouterr().err
