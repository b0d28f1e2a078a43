"""Series of consecutive rounds: files sound, jobs named, each round follows from the one before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances.checking import check_solution, choice_of, placed
from benchmarks.instances.library import default_folder, load, load_best, load_round, read_table
from benchmarks.instances.series import (
    FOLDER,
    ROUNDS,
    SERIES,
    Series,
    read_jobs,
    write_jobs,
)

OWN = default_folder() / FOLDER
TABLE = {row.name: row for row in read_table(OWN)}
JOBS = read_jobs(OWN)


def test_three_series_of_twenty_rounds_are_stored() -> None:
    assert len(SERIES) == 3
    names = [name for one in SERIES for name in one.names]
    assert len(names) == 3 * ROUNDS == 60
    assert set(names) == set(TABLE) == set(JOBS)
    files = {f"{name}{end}" for name in names for end in (".mps.xz", ".round.json.xz", ".sol")}
    assert {path.name for path in OWN.iterdir()} == files | {
        "library.csv",
        "jobs.csv",
        "SHA256SUMS",
    }
    assert sum(path.stat().st_size for path in OWN.iterdir()) < 2 * 2**20


@pytest.mark.parametrize("name", list(TABLE)[::4])
def test_best_known_solutions_are_good_schedules(name: str) -> None:
    verdict = check_solution(OWN, TABLE[name], OWN / f"{name}.sol")
    assert verdict.complaints == ()
    assert verdict.placeable
    assert not verdict.improves


@pytest.mark.parametrize("one", SERIES, ids=lambda one: one.name)
def test_rounds_follow_from_one_another(one: Series) -> None:
    """Jobs keep their order; a job that runs was decided so in the round before, or it was new.

    What remains of a job never grows, and at least one job of each round is in the next.
    """
    before: dict[str, float] = {}
    for name in one.names:
        problem, jobs = load_round(OWN, name), JOBS[name]
        assert len(jobs) == problem.jobs.count == TABLE[name].jobs
        assert len(set(jobs)) == len(jobs)
        left = dict(zip(jobs, problem.jobs.iterations_left.tolist(), strict=True))
        stayed = before.keys() & left.keys()
        assert stayed or not before
        assert all(left[job] <= before[job] for job in stayed)
        before = left


def test_what_a_round_decides_is_where_the_next_one_begins() -> None:
    one = SERIES[0]
    for name, after in zip(one.names, one.names[1:], strict=False):
        model, problem = load(OWN, name), load_round(OWN, name)
        choice = choice_of(problem, model, load_best(OWN, name, model))
        assert placed(problem, choice) is not None
        decided = {JOBS[name][j] for j in np.flatnonzero(choice >= 0).tolist()}
        following = load_round(OWN, after)
        running = {JOBS[after][j] for j in np.flatnonzero(following.jobs.running).tolist()}
        # Optima may differ between this solution and the replay's; most jobs agree.
        common = set(JOBS[name]) & set(JOBS[after])
        assert len(running & decided) >= 0.8 * len(running & common)


def test_jobs_are_read_back(tmp_path: Path) -> None:
    write_jobs(tmp_path, {"b": ("x", "y"), "a": ()})
    assert read_jobs(tmp_path) == {"a": (), "b": ("x", "y")}
