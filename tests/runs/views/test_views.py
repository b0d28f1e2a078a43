"""What is drawn of a run is what happened in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.simulation.runs.read import read_run
from morph_opt.simulation.runs.views.explanations import read_prices, read_waits
from morph_opt.simulation.runs.views.nodes import NodeMap
from morph_opt.simulation.runs.views.view import open_run, open_runs
from tests.runs.views.worlds import moved, paired


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return moved(tmp_path_factory.mktemp("views") / "moved")


def test_areas_are_the_gpu_seconds_held(folder: Path) -> None:
    view = open_run(folder)
    assert view.rectangles.gpu_s == pytest.approx(view.values["gpu_s_held"], rel=1e-9)
    assert {segment.ended_by for _, segment in view.segments} >= {"complete", "node-failure"}
    for job, numbers in view.segments_by_job.items():
        mine = [view.segments[number][1] for number in numbers]
        assert sum(s.held_s for s in mine) == pytest.approx(view.jobs[job].held_s)
        assert [s.start_s for s in mine] == sorted(s.start_s for s in mine)


def test_no_two_rectangles_overlap(folder: Path, tmp_path: Path) -> None:
    for run in (folder, paired(tmp_path / "pair")):
        r = open_run(run).rectangles
        for one in range(len(r)):
            for two in range(one):
                apart_s = r.end_s[one] <= r.start_s[two] or r.end_s[two] <= r.start_s[one]
                apart = r.top[one] <= r.bottom[two] or r.top[two] <= r.bottom[one]
                assert apart_s or apart


def test_a_pair_has_half_of_its_gpu_each(tmp_path: Path) -> None:
    r = open_run(paired(tmp_path / "pair")).rectangles
    rows = zip(r.job, r.start_s, r.end_s, r.bottom, r.top, r.partner, strict=True)
    assert [tuple(map(float, row)) for row in rows] == [
        (0, 60.0, 120.0, 0.0, 1.0, -1),
        (0, 120.0, 230.0, 0.0, 0.5, 1),
        (0, 230.0, 302.0, 0.0, 1.0, -1),
        (1, 120.0, 230.0, 0.5, 1.0, 0),
    ]
    assert r.gpu_s == 242.0


def test_outages_are_those_of_the_log(folder: Path) -> None:
    (outage,) = open_run(folder).outages
    assert (outage.node, outage.start_s, outage.end_s) == (1, 750.0, 2700.0)
    assert outage.status == "failed"


def test_a_cluster_is_made_up_from_sizes_only_where_none_is_known(folder: Path) -> None:
    nodes = NodeMap.of_log(read_run(folder).events)
    assert (nodes.names, nodes.gpus, nodes.known) == (("node-0", "node-1"), (4, 4), False)
    assert nodes.first_gpu.tolist() == [0, 4, 8]


def test_runs_are_told_apart(folder: Path, tmp_path: Path) -> None:
    other = moved(tmp_path / "other", seed=2)
    two = paired(tmp_path / "pair")
    assert [view.name for view in open_runs([folder, other, two])] == [
        "shuffler, moved",
        "shuffler, other",
        "scripted",
    ]
    with pytest.raises(InputError, match="given twice"):
        open_runs([folder, folder])
    with pytest.raises(InputError, match="at least one"):
        open_runs([])


def test_waits_in_a_row_are_one(folder: Path, tmp_path: Path) -> None:
    """Queued for the same reason in rounds 0 and 1, for another one in 2, again in 4."""
    option = {"gpus": 4, "plan": "dp", "node_type": "x4", "value": 2.0, "price": 6.0}
    queued = {"job": "j", "action": "queue", "best": option, "reason": "price"}
    ruled = queued | {"reason": "rule", "blocked_by": ["quota: none left"]}
    price = {
        "node_type": "x4", "gpu_type": "A", "leaf": "l", "nodes": 2, "gpu_price": 0.6,
        "gpu_s_price": 0.01,
    }  # fmt: skip
    lines = [
        {
            "round": k,
            "time_s": 60.0 * k,
            "unit": "u",
            "prices": [price],
            "jobs": [job] if job else [],
        }
        for k, job in enumerate([queued, queued, ruled, None, queued])
    ]
    copy = tmp_path / "run"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "explain.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    view = open_run(copy)
    assert [(w.from_s, w.until_s, w.rounds, w.why) for w in read_waits(view)["j"]] == [
        (0.0, 60.0, 2, "4 GPUs as dp on x4 would cost others 3 times what they add"),
        (120.0, 120.0, 1, "a rule is in the way: quota: none left"),
        (240.0, 240.0, 1, "4 GPUs as dp on x4 would cost others 3 times what they add"),
    ]
    assert [p.per_gpu_s for p in read_prices(view)] == [0.01] * 5
    with (copy / "explain.jsonl").open("a") as file:
        file.write('{"round": 5\n')
    with pytest.raises(InputError, match=r"explain.jsonl, line 6"):
        read_waits(view)


def test_a_damaged_log_is_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    lines = (folder / "jobs.csv").read_text().splitlines(keepends=True)
    (copy / "jobs.csv").write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match=r"events.jsonl.*not in jobs.csv"):
        _ = open_run(copy).segments
    (copy / "events.jsonl").rename(copy / "events.jsonl.partial")
    with pytest.raises(InputError, match="resume finishes it"):
        open_run(copy)
