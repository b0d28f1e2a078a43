"""Share problems from a file: what is read, what is refused, what is answered."""

from __future__ import annotations

import json

import numpy as np
import pytest

from formulations.shares.problem import check_shares
from morph_opt.scheduling.shares.cli import main
from morph_opt.scheduling.shares.request import SHARE_POLICIES
from morph_opt.scheduling.shares.share_file import FIELDS, read_instances
from tests.shares.worlds import fixture, random_problem, with_pairs

NAMES = {
    "fairness": "max_min_fairness_perf",
    "fairness-agnostic": "max_min_fairness",
    "ftf": "finish_time_fairness_perf",
    "makespan": "min_total_duration_perf",
    "max_throughput": "max_sum_throughput_perf",
}
"""Our names of the policies in the published instances."""


def entry(seed=0, packed=False, crowd=0, **other):
    problem = random_problem(seed, jobs=crowd, scale=0.05) if crowd else random_problem(seed)
    rng = np.random.default_rng(seed)
    types = ["a", "b", "c"]
    found = {
        "id": f"random-{seed}",
        "worker_types": types,
        "cluster": dict(zip(types, problem.capacity.tolist(), strict=True)),
        "throughputs": problem.throughput.tolist(),
        "scale_factors": problem.gang.tolist(),
        "weights": rng.choice([1.0, 2.0], problem.jobs).tolist(),
        "num_steps_remaining": rng.uniform(100, 1000, problem.jobs).tolist(),
        "times_since_start": rng.uniform(0, 10, problem.jobs).tolist(),
        "cumulative_isolated_time": rng.uniform(0, 5, problem.jobs).tolist(),
        "entities": rng.choice(["x", "y"], problem.jobs).tolist(),
        "entity_weights": {"x": 2.0},
        "SLOs": [None, 1e9, *[None] * (problem.jobs - 2)],
        "costs": {"a": 0.5, "b": 1.0, "c": 3.0},
    }
    if packed:
        table = with_pairs(problem, seed).pairs
        found["pairs"] = [
            {"jobs": [int(one), int(two)], "throughputs": speeds.tolist()}
            for one, two, speeds in zip(table.first, table.second, table.throughput, strict=True)
        ]
    return found | other


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "instance.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.mark.parametrize("policy", SHARE_POLICIES)
def test_every_policy_answers_with_a_bound(policy, file, capsys):
    path = file({"instances": [entry(1), entry(2)]})
    assert main([str(path), "--policy", policy]) == 0
    printed = capsys.readouterr()
    answers = [json.loads(line) for line in printed.out.splitlines()]
    assert [a["id"] for a in answers] == ["random-1", "random-2"]
    assert printed.err == ""
    for answer, instance in zip(answers, read_instances(path), strict=True):
        problem = instance.request.problem
        own = problem.agnostic() if policy == "fairness-agnostic" else problem
        check_shares(own, np.asarray(answer["shares"]))
        if policy not in ("hierarchical", "hierarchical-fifo", "water-filling"):
            assert answer["bound"] == pytest.approx(answer["objective"], rel=1e-6)


def test_pairs_raise_what_all_get(file, capsys):
    levels = []
    for packed in (False, True):
        assert main([str(file(entry(3, packed=packed, crowd=20)))]) == 0
        levels.append(json.loads(capsys.readouterr().out)["objective"])
    assert levels[1] > levels[0] * 1.01


@pytest.mark.parametrize("policy", NAMES)
def test_published_instances(policy, file, capsys):
    published = fixture("gavel.json")["instances"]
    for instance in published:  # the isolated time stands with the answer there
        solution = instance["solutions"]["finish_time_fairness_perf"]
        instance["cumulative_isolated_time"] = solution["cumulative_isolated_time"]
    path = file({"instances": published})
    assert main([str(path), "--policy", policy, "--oversize"]) == 0
    printed = capsys.readouterr()
    assert "fields not looked at: derived" in printed.err
    for line, instance in zip(printed.out.splitlines(), published, strict=True):
        exact = instance["solutions"][NAMES[policy]]["exact_objective"]
        assert json.loads(line)["objective"] == pytest.approx(exact, rel=1e-6)


def test_instance_is_chosen_by_id(file, capsys):
    path = file([entry(1), entry(2)])
    assert main([str(path), "--id", "random-2"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "random-2"
    assert main([str(path), "--id", "nope"]) == 2
    assert "has no instance 'nope'" in capsys.readouterr().err


BAD = {
    "no json": ("{", "is not JSON"),
    "empty": ([], "must be an instance or a list"),
    "a number": ([3], "instance 0: must be an object"),
    "no throughputs": (entry(throughputs=None), "throughputs: must be a list, got null"),
    "no jobs": (entry(throughputs=[]), "throughputs: must be a list with a row per job"),
    "no cluster": (entry(cluster=[8]), "cluster: must be an object, got a list"),
    "tiny": (entry(weights=[1.0, 1e-31] * 4), "weights[1]: must be 0 or of a size between"),
    "tiny price": (entry(costs={"a": 1, "b": 1e31, "c": 1}), "costs.b: must be 0 or of a size"),
    "short row": (entry(throughputs=[[1.0]]), "throughputs[0]: must have 3 numbers"),
    "text": (entry(throughputs=[[1.0, "x", 2.0]] * 8), "throughputs[0][1]: must be a number"),
    "infinite": (entry(weights=[float("inf")] * 8), "must be a finite number"),
    "weight 0": (entry(weights=[0.0] * 8), "job 0: weight must be above 0, got 0"),
    "nowhere": (entry(throughputs=[[0.0] * 3] * 8), "job 0: throughput is 0 on every type"),
    "large": (entry(scale_factors=[999] * 8), "job 0: a gang of 999 is larger than every type"),
    "huge": (entry(scale_factors=[1e25] * 8), "scale_factors: must be whole numbers of at most"),
    "half": (entry(scale_factors=[0.5] * 8), "scale_factors: must be whole numbers"),
    "type": (entry(cluster={"a": 1, "b": 1}), "cluster: type 'c' is missing"),
    "stray": (entry(costs=dict.fromkeys("abcd", 1)), "costs: type 'd' is not among"),
    "owner": (entry(entity_weights={"z": 1}), "entity_weights: unknown entity 'z'"),
    "owner weight": (entry(entity_weights={"x": 0}), "entity_weights.x: must be above 0"),
    "no owners": (entry(entities=None), "entity_weights: has no meaning without entities"),
    "length": (entry(weights=[1.0]), "weights: must be a list of 8 numbers"),
    "pair": (
        entry(pairs=[{"jobs": [0, 0], "throughputs": [[1, 1]] * 3}]),
        "pairs[0]: must name two of the 8 jobs",
    ),
    "pair of three": (
        entry(pairs=[{"jobs": [0, 1, 2], "throughputs": [[1, 1]] * 3}]),
        "pairs[0].jobs: must have 2 numbers, got 3",
    ),
    "pair rows": (
        entry(pairs=[{"jobs": [0, 1], "throughputs": [[1, 1]]}]),
        "pairs[0].throughputs: must have 3 rows",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_one_line(case, file, capsys):
    content, rule = BAD[case]
    assert main([str(file(content))]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert rule in printed.err


@pytest.mark.parametrize(
    ("policy", "other", "rule"),
    [
        ("makespan", {"num_steps_remaining": None}, "num_steps_remaining: policy makespan needs"),
        ("hierarchical", {"entities": None, "entity_weights": None}, "entities: policy hier"),
        ("cost", {"costs": None}, "costs: policy cost needs it"),
        ("cost", {"SLOs": [-5.0, *[None] * 7]}, "job 0: its SLO is in the past"),
    ],
)
def test_share_policies_refuse_missing_or_impossible_fields(policy, other, rule, file, capsys):
    assert main([str(file(entry(**other))), "--policy", policy]) == 2
    assert rule in capsys.readouterr().err


def test_missing_file_and_option(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["x.json", "--policy", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_field_is_on_the_page():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "target-shares.md").read_text(encoding="utf-8")
    assert {f for f in FIELDS if f"`{f}`" not in page} <= {"id"}
