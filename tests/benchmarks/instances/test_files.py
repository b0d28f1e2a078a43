"""Rounds and solutions as files: read back bit for bit, damage named by line and reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances.round_json import RoundJsonError, from_json, to_json
from benchmarks.instances.solution import read_solution, write_solution
from formulations.round.tables import (
    CandidateTable,
    HoldTable,
    JobTable,
    NodeTable,
    RoundProblem,
)
from morph_opt.core.domain import InputError
from tests.solvers import models


def round_problem() -> RoundProblem:
    """Two jobs on two nodes of two GPUs; the first runs, the second waits."""
    return RoundProblem(
        JobTable(
            iterations_left=np.array([10.0, 1 / 3]),
            request_iteration_s=np.array([1.0, 2.0]),
            guaranteed=np.array([True, False]),
            restart_s=np.array([260.0, 260.0]),
            restart_left_s=np.array([0.0, 0.0]),
            stay_iteration_s=np.array([1.5, np.nan]),
            attained_gpu_s=np.array([60.0, 0.0]),
            submission_s=np.array([0.0, 30.0]),
            weight=np.array([1.0, 1.0]),
        ),
        CandidateTable(
            job=np.array([0, 1, 1]),
            node_class=np.zeros(3, dtype=np.int64),
            iteration_s=np.array([1.0, 2.0, 0.9]),
            gpus=np.array([2, 1, 4]),
            part_start=np.array([0, 1, 2, 4]),
            part_gpus=np.array([2, 1, 2, 2]),
            side=np.array([[8.0, 0.5, 0.0], [8.0, 0.0, 0.0], [8.0, 0.0, 12.5]]),
        ),
        NodeTable(
            node_class=np.zeros(2, dtype=np.int64),
            capacity=np.array([[2.0, 16.0, 100.0, 100.0]]),
            open=np.array([True, True]),
        ),
        HoldTable(np.array([0]), np.array([1]), np.array([[1.0, 8.0, 0.0, 0.0]])),
    )


def test_a_round_is_read_back_bit_for_bit() -> None:
    problem = round_problem()
    again = from_json(to_json(problem))
    assert to_json(again) == to_json(problem)
    assert again.interval_s == problem.interval_s
    for table in ("jobs", "candidates", "nodes", "holds"):
        one, two = getattr(problem, table), getattr(again, table)
        for name in one.__slots__:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
            assert np.asarray(getattr(one, name)).dtype == np.asarray(getattr(two, name)).dtype


def test_missing_optional_fields_get_their_defaults() -> None:
    document = json.loads(to_json(round_problem()))
    for word in ("rules", "interval_s"):
        document.pop(word)
    for word in ("leaf", "domain", "uplink_gb_per_s", "sets"):
        document["nodes"].pop(word)
    assert to_json(from_json(json.dumps(document))) == to_json(round_problem())


def test_a_round_without_running_jobs() -> None:
    problem = round_problem()
    jobs = from_json(to_json(problem)).jobs
    idle = json.loads(to_json(problem))
    idle["jobs"]["stay_iteration_s"] = [None, None]
    idle["holds"] = {"job": [], "node": [], "demand": {"shape": [0, 4], "values": []}}
    again = from_json(json.dumps(idle))
    assert again.holds.count == 0
    assert again.holds.demand.shape == (0, 4)
    assert jobs.running.tolist() == [True, False]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.update(format="x"), "format must be"),
        (lambda d: d.update(version=2), "version must be 1, got 2"),
        (lambda d: d.update(resources=["gpu"]), "resources must be"),
        (lambda d: d.pop("nodes"), "table nodes is missing"),
        (lambda d: d["jobs"].pop("weight"), "column jobs.weight is missing"),
        (lambda d: d["candidates"].update(job=[0, 1, 7]), "candidates.job must lie in"),
        (lambda d: d["candidates"].update(gpus=[1.5, 1, 4]), "column candidates.gpus must hold"),
        (lambda d: d["candidates"].update(gpus=["a"]), "column candidates.gpus must hold"),
        (lambda d: d["candidates"]["side"].update(shape=[3, 2]), "column candidates.side is dama"),
        (lambda d: d["candidates"]["side"].update(shape=0.5), "the shape of the column cand"),
        (lambda d: d["candidates"]["side"].update(shape=[3, -1]), "must be a list of counts"),
        (lambda d: d["candidates"].update(side=7), "column candidates.side is no list"),
        (lambda d: d["rules"].update(name="a"), "column rules.name is no list"),
        (lambda d: d.update(interval_s="60"), "interval_s must be a number, got '60'"),
        (lambda d: d.update(pairs={"job": [0]}), "unknown table .pairs.; known are"),
        (lambda d: d["nodes"].update(slot=[1]), "unknown column .nodes.slot.; known"),
        (lambda d: d["holds"]["demand"].update(values=[9, 8, 0, 0]), "holds must not exceed"),
    ],
)
def test_a_damaged_round_is_named(change: object, reason: str) -> None:
    document = json.loads(to_json(round_problem()))
    change(document)  # type: ignore[operator]
    with pytest.raises(RoundJsonError, match=reason):
        from_json(json.dumps(document))


def test_a_text_that_is_no_json_is_named_by_line() -> None:
    with pytest.raises(RoundJsonError, match="line 2"):
        from_json('{"format":\n oops}')
    with pytest.raises(RoundJsonError, match="format must be"):
        from_json("[]")


MODEL = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))


def test_a_solution_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.sol"
    write_solution(path, MODEL, np.array([3.0, 0.5]), 6.5)
    point = read_solution(path, MODEL)
    assert point.x.tolist() == [3.0, 0.5]
    assert point.claim == 6.5
    path.write_text("x[1] 1 # a comment\n\n")
    point = read_solution(path, MODEL)
    assert point.claim is None
    assert point.x.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x[0] 1\nx[9] 1\n", 2, "unknown column"),
        ("x[0] 1\nx[0] 1\n", 2, "is duplicated"),
        ("# c\n\nx[0] one\n", 3, "must be a finite number, got 'one'"),
        ("x[0] inf\n", 1, "must be a finite number"),
        ("x[0] 1 2\n", 1, "must be a column and a number"),
    ],
)
def test_a_damaged_solution_is_named(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = tmp_path / "a.sol"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_solution(path, MODEL)
    assert caught.value.line == line
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_solution(tmp_path / "none.sol", MODEL)
    path = tmp_path / "bytes.sol"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="must be UTF-8 text"):
        read_solution(path, MODEL)
