"""Good documents of every format: by our own writers where there is one, else by hand."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import lzma
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.instances.library import Instance, write_table
from benchmarks.instances.round_json import to_json
from benchmarks.instances.solution import write_solution
from benchmarks.readme import results
from formulations import node_pattern
from formulations.linear_model import LinearModel
from formulations.mps import to_mps
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import ExecutionPlan, Shape, default_cluster
from morph_opt.inputs.clusters import cluster_from_toml, cluster_to_toml
from morph_opt.inputs.perf.analytic.modelfile import dump, entries_of, population_of
from morph_opt.inputs.perf.analytic.zoo import ZOO_FILE, zoo_text
from morph_opt.inputs.perf.fitting.runs import Run
from morph_opt.inputs.topology.files import write_graph
from morph_opt.replay.cli import main as replay_main
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver
from morph_opt.simulation.runs.read import read_run
from morph_opt.sweep.spec import SCHEMA
from tests.formulations.worlds.random_rounds import random_level, random_round
from tests.perf.worlds import runs_to_csv
from tests.round.documents import DOCUMENT

MODEL = "bert"
"""Model of the files of the performance model."""

Documents = list[bytes]

WORKLOAD = """\
name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla,weight
alpha,0,12.5,gpt2,8,64,0,zero-dp,99,0,1
beta,30,5,gpt2,8,32,1.25,222,40,1,2.5
gamma,95.5,7,bert,4,16,0,gc,700,0,1
delta,4000,7,vit,2,8,0,ga,12,0,0.25
"""
MEASURED = """\
exec_plan,placement,iter_time,forward,overlap_sync,optimize
zero-dp,8,0.5,0.1,0.2,0.1
ga,35,0.75,0.2,0.3,0.1
222,44,0.25,0.05,0.1,0.05
gc,1,3.5,1.2,0.3,0.2
"""
TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
1,1,0,500,vgg16,1200,2
2,4,60,800,resnet50,900,2
3,8,75,100,alexnet,3000,2
"""


def workload() -> Documents:
    return [WORKLOAD.encode()]


def measured() -> Documents:
    return [MEASURED.encode()]


def gavel_trace() -> Documents:
    ten = [
        "LM (batch size 20)\tpython main.py\tlm\t--steps\t0\t9000\t1\t1.0\t-1\t0.0",
        "ResNet-18 (batch size 16)\tpython main.py\trn\t--steps\t0\t800\t2\t2.0\t1.5\t60.5",
    ]
    seven = [
        "LM (batch size 20)\tpython main.py\t--steps\t0\t9000\t0.0\t1",
        "ResNet-18 (batch size 16)\tpython main.py\t--steps\t0\t800\t30.5\t2",
    ]
    return ["\n".join([*rows, ""]).encode() for rows in (ten, seven)]


def throughputs() -> Documents:
    alone = {
        "('LM (batch size 20)', 1)": {"null": 10.0, "('ResNet-18 (batch size 16)', 1)": [6.0, 2.0]},
        "('ResNet-18 (batch size 16)', 1)": {"null": 4.0, "('LM (batch size 20)', 1)": [2.0, 6.0]},
        "('ResNet-18 (batch size 16)', 2)": {"null": 7.5},
    }
    slow = {"('LM (batch size 20)', 1)": {"null": 2.0}}
    slow["('ResNet-18 (batch size 16)', 1)"] = {"null": 1.0}
    slow["('ResNet-18 (batch size 16)', 2)"] = {"null": 1.5}
    return [json.dumps({"v100": alone, "k80": slow}).encode()]


def tiresias_trace() -> Documents:
    return [TIRESIAS.encode()]


def elastic_trace() -> Documents:
    return [
        b"name,time,application,max_parallelism,batch_size,epochs,"
        b"enable_heterogeneous_deterministic,preferred_gpu,\n"
        b"one,0,bert,4,8,2,1,v100,0.4\ntwo,30,resnet50,8,64,3,0,p100\n"
    ]


def overhead() -> Documents:
    return [
        b"model,bs,gpu,ddp_nondeterminism,ddp_determinism,ddp_hetero\n"
        b"Bert,8,v100,0.2,0.3,0.4\nResNet50,64,p100,0.2,0.3,0.6\n"
    ]


def samples() -> Documents:
    return [b"duration\n120\n4000.5\n77\n900\n"]


@cache
def clusters() -> Documents:
    folder = Path(__file__).resolve().parents[3] / "instances" / "clusters"
    shipped = [path.read_bytes() for path in sorted(folder.glob("*.toml"))]
    return [cluster_to_toml(default_cluster()).encode(), *shipped]


@cache
def graphs(ending: str) -> Documents:
    """Graphs of clusters: those of the specs, the largest left out."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for text in clusters()[:4]:
            path = Path(folder) / f"graph{ending}"
            write_graph(cluster_from_toml(text.decode()), path)
            found.append(path.read_bytes())
    return sorted(found, key=len)[:3]


def rules() -> Documents:
    text = """\
fewer_moves = true

[[quota]]
tenant = "red"
gpus = 8
borrow_gpus = "unlimited"

[[minimum_run]]
seconds = 300

[[restart_limit]]
per_hour = 4
jobs = ["bert-*"]

[[node_rule]]
jobs = ["b*"]
not_nodes = ["n1"]
only_gpu_types = ["A800*"]

[[gang_limit]]
jobs = ["*"]
least = 1
most = 8

[[maintenance]]
nodes = ["n2"]
start_s = 600
end_s = 900.5
"""
    return [text.encode()]


def node_events_csv() -> Documents:
    return [b"time_s,node,event\n600,node-0,fail\n660.5,node-3,drain\n900,node-0,return\n"]


def node_events_jsonl() -> Documents:
    rows = [(600, "node-0", "fail"), (660.5, "node-3", "drain"), (900, "node-0", "return")]
    names = "time_s", "node", "event"
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    return ["\n".join([*lines, ""]).encode()]


def snapshots() -> Documents:
    plain = copy.deepcopy(DOCUMENT)
    del plain["rules"]
    plain["jobs"] = plain["jobs"][1:]
    return [json.dumps(DOCUMENT, indent=1).encode(), json.dumps(plain).encode()]


def speeds() -> Documents:
    rows = DOCUMENT["speeds"]["rows"]
    return [json.dumps({"schema": "morph-opt/speeds/1", "rows": rows}).encode()]


def snapshot_beside_speeds() -> dict[str, bytes]:
    return {"state.json": json.dumps(DOCUMENT | {"speeds": {"file": "speeds.json"}}).encode()}


def runs() -> Documents:
    rows = [("1", "dp+ga", 1.9), ("2", "dp+ga", 1.0), ("4", "dp+gc", 0.7), ("8", "zero-dp", 0.33)]
    made = [Run(Shape.parse(s), ExecutionPlan.parse(p), seconds) for s, p, seconds in rows]
    return [runs_to_csv(made).encode()]


@cache
def models() -> Documents:
    entry = next(e for e in entries_of(zoo_text(), ZOO_FILE) if e.architecture.name == MODEL)
    return [dump([entry], population_of(zoo_text(), ZOO_FILE), "A model.").encode()]


def shares() -> Documents:
    one = {
        "id": "one",
        "worker_types": ["k80", "v100"],
        "cluster": {"k80": 2, "v100": 2},
        "throughputs": [[1.0, 4.0], [1.0, 1.5], [0.0, 3.0]],
        "scale_factors": [1, 2, 1],
        "weights": [1.0, 2.0, 1.0],
        "num_steps_remaining": [100.0, 50.0, 900.0],
        "entities": ["a", "b", "a"],
        "entity_weights": {"a": 2.0},
        "SLOs": [None, 1e4, None],
        "costs": {"k80": 0.5, "v100": 3.0},
        "pairs": [{"jobs": [0, 2], "throughputs": [[0.5, 0.0], [3.0, 2.0]]}],
    }
    return [json.dumps({"instances": [one]}).encode(), json.dumps(one | {"pairs": []}).encode()]


# ------------------------------------------------------------------ planning, validation


def sweeps() -> Documents:
    text = """zip = [["trace", "cluster"]]
[fixed]
policy = "fifo"
restart_s = 30.0
[axes]
trace = ["naive", "base"]
cluster = ["2x8", "8x8"]
seed = [1, 2, 3]
[keep]
files = ["jobs.csv"]
[limits]
seconds = 25
memory_mib = 6000
"""
    return [text.encode()]


def sweep_list() -> Documents:
    rows = [{"key": "ab" * 32, "axes": {"seed": 1}}, {"key": "cd" * 32, "axes": {"seed": 2}}]
    document = {"schema": SCHEMA, "versions": {"numpy": "2.0"}, "cells": rows}
    return [json.dumps(document).encode()]


def prices() -> Documents:
    return [b"V100 = 2.5\nK80 = 1\n"]


def capacity() -> Documents:
    return [b"date,vcA,vcB,total\n2020-07-01,8,8,16\n2020-07-02,8,8,16\n2020-07-03,16,8,24\n"]


def cases() -> Documents:
    """Two jobs on two GPUs, first come first served: the second waits for 25 s."""
    columns = ["job_id", "start_time", "end_time", "JCT", "preempt", "resume", "promote"]
    rows = [[0, 0, 30, 30, 0, 0, 0], [1, 30, 40, 35, 0, 0, 0]]
    jobs = [
        {"job_id": 0, "num_gpu": 2, "submit_time": 0, "duration": 30},
        {"job_id": 1, "num_gpu": 2, "submit_time": 5, "duration": 10},
    ]
    run = {
        "trace": "two",
        "cluster": {"total_gpus": 2},
        "schedule": "fifo",
        "reference": {"columns": columns, "rows": rows},
    }
    return [json.dumps({"source": "by hand", "traces": {"two": jobs}, "cases": [run]}).encode()]


# ------------------------------------------------------------------ instances


@cache
def _instance() -> tuple[RoundProblem, LinearModel]:
    draw = np.random.default_rng(4)
    problem = random_round(draw)
    return problem, node_pattern.build(problem, random_level(draw, problem)).model


def mps() -> Documents:
    return [to_mps(_instance()[1]).encode()]


def rounds() -> Documents:
    return [to_json(_instance()[0]).encode()]


@cache
def _in_file(write: Callable[[Path], None], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return Path(folder, name).read_bytes()


def _write_solution(folder: Path) -> None:
    model = _instance()[1]
    found = make_solver("highs").solve(model, Limits(gap=0.0, time_s=600.0))
    assert found.x is not None
    write_solution(folder / "small.sol", model, found.x, found.objective)


def solutions() -> Documents:
    return [_in_file(_write_solution, "small.sol")]


def certificates() -> Documents:
    prices = {"gpu": [0.5, 0.25, 0], "side": [[0.0, 0.125, 0.0]] * 3, "uplink": 0.5}
    name = "scaled-throughput-64g-3t"
    given = {"instance": name, "bound": 64.5, "best": 53.25, "prices": prices}
    return [json.dumps(given, indent=1).encode()]


def fleet_certificates() -> Documents:
    document = {"instance": "x", "bound": 8.0, "best": 9.5, "nodes": [1, 0], "prices": [[0.5, 0]]}
    return [json.dumps(document).encode()]


def _write_table(folder: Path) -> None:
    problem, model = _instance()
    row = Instance(
        "small",
        "by hand",
        "throughput",
        "node_pattern",
        8,
        2,
        problem.jobs.count,
        1,
        0,
        1.5,
        problem.candidates.count,
        model.rows,
        model.columns,
        model.nonzeros,
        1.0,
        1e6,
        "none",
    )
    write_table(folder, [row])


def instance_table() -> Documents:
    return [_in_file(_write_table, "library.csv")]


def instance_files() -> dict[str, bytes]:
    return {
        "library.csv": instance_table()[0],
        "small.sol": solutions()[0],
        "small.mps.xz": lzma.compress(mps()[0]),
        "small.round.json.xz": lzma.compress(rounds()[0]),
    }


# ------------------------------------------------------------------ run folders

RUN = ("--trace", "naive", "--policy", "srtf", "--until-s", "3000", "--quiet", "--json")


@cache
def _run(*words: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "run")
        with contextlib.redirect_stdout(io.StringIO()):
            assert replay_main([*words, "--out", str(folder)]) == 0
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def finished_folder() -> dict[str, bytes]:
    """A run folder whose jobs are all complete."""
    return dict(_run("--trace", "naive", "--policy", "srtf", "--interval", "600", "--quiet"))


def whole_run() -> dict[str, bytes]:
    """The run of `run_folder`, uninterrupted."""
    return dict(_run(*RUN))


@cache
def _interrupted() -> dict[str, bytes]:
    files = whole_run()
    rows = files.pop("rounds.csv").split(b"\n")
    events = files.pop("events.jsonl").split(b"\n")
    whole = [number for number, line in enumerate(events) if b'"event":"round"' in line]
    files["rounds.csv.partial"] = b"\n".join([*rows[:21], b""])
    files["events.jsonl.partial"] = b"\n".join([*events[: whole[19] + 1], b""])
    del files["jobs.csv"], files["summary.json"]
    return files


def run_folder() -> dict[str, bytes]:
    """The same run, killed after its twentieth round."""
    return dict(_interrupted())


def run_file(name: str) -> Callable[[], Documents]:
    return lambda: [_interrupted()[name]]


def finished_file(name: str) -> Callable[[], Documents]:
    return lambda: [finished_folder()[name]]


@cache
def _readme() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        for name, content in finished_folder().items():
            (folder / name).write_bytes(content)
        run = read_run(folder)
        row = results.row_of(run, "a command", None)
        series = {"naive": results.gpus_over_time(run)}
        made = results.Results({"naive": row}, series, series, {"python": "3"})
        results.save(made, folder / "out")
        return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def readme_files() -> dict[str, bytes]:
    return dict(_readme())


def readme_results() -> Documents:
    return [_readme()["results.json"]]
