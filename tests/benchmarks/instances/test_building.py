"""Making instances: states set side by side keep what they are, and a build can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.instances.__main__ import main
from benchmarks.instances.building import Recipe, build, recipes
from benchmarks.instances.checking import placed
from benchmarks.instances.library import default_folder, read_table
from benchmarks.instances.rounds import by_load, replayed_states, requested_gpus, side_by_side
from formulations.round.check import check
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder


def test_names_are_unique_and_the_committed_ones_are_there() -> None:
    found = list(recipes())
    names = [recipe.name for recipe in found]
    assert len(set(names)) == len(names)
    there = {row.name for row in read_table(default_folder())}
    assert there <= set(names)


def test_rounds_side_by_side() -> None:
    states, speeds = replayed_states("naive", 0, "srtf", "auto")
    parts = [by_load(states, q) for q in (0.2, 0.6, 1.0)]
    whole = side_by_side(parts)
    assert len(whole.jobs) == sum(len(part.jobs) for part in parts)
    assert len(whole.cluster.nodes) == 24
    assert requested_gpus(whole) == sum(map(requested_gpus, parts))
    problem = CandidateBuilder(speeds).view(whole).problem
    assert int(problem.jobs.running.sum()) == sum(len(part.held.assignments) for part in parts)
    # All can stay where they were: the parts do not get into each other's way.
    selection = placed(problem, problem.options.stay)
    assert selection is not None
    check(problem, selection)


def test_loads_are_in_order() -> None:
    states, _ = replayed_states("naive", 0, "srtf", "auto")
    loads = [requested_gpus(by_load(states, q)) for q in (0.0, 0.5, 1.0)]
    assert loads == sorted(loads)
    assert loads[2] == max(map(requested_gpus, states))


def test_a_build_can_be_repeated_byte_for_byte(tmp_path: Path) -> None:
    recipe = Recipe("naive", "throughput", "peak")
    said: list[str] = []
    for folder in ("one", "two"):
        build(tmp_path / folder, [recipe], 60.0, said.append)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert said[0].startswith("naive-throughput-64g-peak: ")
    # A second build keeps the rows that it does not make.
    rows = build(tmp_path / "one", [Recipe("naive", "throughput", "busy")], 60.0, said.append)
    assert {row.name for row in rows} == {recipe.name, "naive-throughput-64g-busy"}


def test_a_name_that_no_instance_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make", "--only", "nosuch"]) == 2
    said = capsys.readouterr().err
    assert "no instance has 'nosuch'" in said
    assert said.count("\n") == 1
