"""Wrong calls of public names and wrong command lines are refused in one plain line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest

import morph_opt as mo
from morph_opt.__main__ import main
from morph_opt.explain.why import stretches

STATE = Path(__file__).parents[1] / "docs" / "schema" / "example-state.json"

CALLS = """
mo.Scenario(trace=5) | trace: must be a name, a file, a Trace or what load_trace gives, got 5
mo.Scenario("naiv").run() | unknown trace 'naiv' (did you mean 'naive'?)
mo.Scenario("naive", 8) | cluster: must be text, a path, a Cluster or None, got 8
mo.Scenario("naive", "8x") | cluster: must be a file, or look like 8x8
mo.Scenario("naive", "8x8:H100") | unknown GPU type 'H100' (did you mean 'H100-80GB'?)
mo.Scenario("naive", policy=3) | policy: must be a name, an object of mo.Policy
mo.Scenario("naive", objective=3) | objective: must be a name, an object of mo.Objective
mo.Scenario("naive", seed="a") | seed: must be a whole number from 0 to 2147483647, got 'a'
mo.Scenario("naive", seed=np.arange(3)) | seed: must be a whole number from 0
mo.Scenario("naive", workload=mo.Workload(trace="mt")) | trace: is given twice: 'naive'
mo.Scenario("naive", workload=mo.Workload) | workload: must be a Workload or None, got the class
mo.Scenario("naive", state=3) | state: must be text, a path or None, got 3
mo.Scenario("naive", engine={"interval_s": 30}) | engine: must be a ReplayConfig or None
mo.Scenario("") | trace: must not be empty
mo.Scenario("naive", "") | cluster: must not be empty
mo.Scenario("naive", policy=mo.FillingPolicy) | a class of your own must define fill
mo.Scenario("naive", objective=mo.Stateless) | a class of your own must define goals
mo.Scenario("naive", policy=lambda: 3).run() | must be callable as policy(belief, options)
mo.Scenario("naive", policy=WRONG).run() | Wrong.decide must return a morph_opt.Decision, got int
mo.Scenario("naive", scheduler=mo.Scheduler(solver="nope")).run() | unknown solver 'nope'
mo.Scenario(pd.DataFrame({"a": [1]})) | trace: must be a name, a file, a Trace
SCENARIO.replaced(intervall_s=30) | is no field of a scenario (did you mean 'interval_s'?)
SCENARIO.replaced(workload="base") | workload: must be a mo.Workload, got 'base'
SCENARIO.replaced(interval_s="30") | interval_s: must be a number
SCENARIO.run(out=3) | out: must be text, a path or None, got 3
SCENARIO.run(progress=3) | progress: must be a function or None, got 3
SCENARIO.run("nowhere", resume="yes") | resume: must be True or False, got 'yes'
SCENARIO.run("") | out: must not be empty
SCENARIO.run(resume=True) | resume: has an effect together with out only
SCENARIO.run("x\\0y") | the output folder cannot be written
SCENARIO.run().jobs.column("jct") | unknown column 'jct' (did you mean 'jct_s'?)
mo.Scheduler(gap="small") | gap: must be a number from 0 to 1, got 'small'
mo.Scheduler(policy="") | policy: must not be empty
mo.Scheduler(entity_weights=[1]) | entity_weights: must be a table of numbers, got [1]
mo.Scheduler(entity_weights={1: 2.0}) | entity_weights: must have names as keys
mo.Workload(trace=5) | trace: must be text, got 5
mo.ReplayConfig(interval_s=float("nan")) | interval_s: must be a number from 0.1
mo.decide({"a": 1}) | state, a: unknown
mo.decide({"a": {1, 2}}) | state: cannot be written as JSON
mo.decide(5) | state: must be text, a path, a Snapshot or a dict, got 5
mo.decide(STATE, policy=5) | policy: must be a name, an object of mo.Policy
mo.decide(STATE, options={"gap": 1}) | options: must be a PolicyOptions or None
mo.decide(STATE).why(5) | job: must be text, got 5
mo.decide(STATE).why("nobody") | the round has no job 'nobody'; it has alice-1
mo.read_snapshot(5) | path: must be text or a path, got 5
mo.Snapshot(5, 5) | state: must be a RoundState, got 5
mo.PolicyOptions(gap="x") | gap: must be a number from 0 to 1, got 'x'
mo.load_trace(5) | spec: must be text or a path, got 5
mo.load_trace("base", seed="x") | seed: must be a whole number, got 'x'
mo.load_trace("base", jobz=3) | jobz: has no effect on trace 'base'
mo.load_cluster(5) | text: must be text or a path, got 5
mo.load_cluster("") | text: must not be empty
mo.plan.nodes("naive", "avg jct_s <= 10") | ask: must be an Ask, got 'naive'
mo.plan.nodes(ASK, 5) | slo: must be a Slo or text, got 5
mo.plan.nodes(ASK, "avg jct_s <= 10", most="8") | most: must be a whole number, got '8'
mo.plan.nodes(ASK, "avg jct_s <= 10", seeds=5) | seeds: must be a sequence of whole numbers, got 5
mo.plan.nodes(ASK, "avg jct_s <= 10", confidence="high") | confidence: must be a number
mo.plan.Ask("naive") | scenario: must be a Scenario, got 'naive'
mo.plan.Ask(SCENARIO, load="much") | load: must be a number from 0.01 to 100, got 'much'
mo.plan.compare(ASK, {"a": {}, "b": 5}) | variants: b: must be a dict, got 5
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V100"], prices={"V100": "3"}) | V100: must be a
mo.plan.Slo("jct_s", "avg", at_most="10") | at_most: must be a number or None, got '10'
mo.sweep.run_cells([SCENARIO], "cache") | cells: must be a sequence of Cell, entry 0 is Scen
mo.sweep.Cell("naive") | scenario: must be a Scenario, got 'naive'
mo.sweep.Cell(SCENARIO, keep="jobs.csv") | keep: must be a sequence of texts, got 'jobs.csv'
mo.sweep.CellStore(5) | folder: must be text or a path, got 5
mo.sweep.Spec(axes={"policy": "fifo"}) | axes.policy: must be a sequence, got 'fifo'
mo.report(5) | runs: must be a Run, text, a path or an iterable, got 5
mo.report([None]) | runs: must be a sequence of Run, texts or paths, entry 0 is None
mo.report(["nowhere"], out=5) | out: must be text, a path or None, got 5
mo.read_run("nowhere") | nowhere: is no run folder (it has no summary.json)
mo.read_scenario(5) | path: must be text or a path, got 5
mo.Run(5) | parts: must be a Parts, got 5
mo.Summary.of(5) | values: must be a dict, got 5
mo.Table(5, 5) | header: must be a sequence of texts, got 5
mo.Table(["a"], [1]) | rows: must be a sequence of sequences, entry 0 is 1
mo.Table(["a"], [[object()]]) | a: a cell is text or a number, got object
mo.Table(["a"], [[1]], align=5) | align: must be text, got 5
mo.Trace("x", []) | jobs: the trace has no jobs
mo.Trace("x", [JOB, "b"]) | jobs: must be a sequence of Job, entry 1 is 'b'
mo.Trace.of("x", 5) | jobs: must be an iterable, got 5
mo.Cluster("x", ("n1",)) | nodes: must be a sequence of Node, entry 0 is 'n1'
mo.Cluster.uniform("8", None) | nodes: must be a whole number, got '8'
mo.InputError(5) | InputError: rule must be text, got 5
mo.Decision(None) | allocation: must be an Allocation, got None
mo.Allocation(["a"]) | assignments: must be a tuple of Assignment, got ['a']
"""

LINES = """
nope | unknown command 'nope'
help | unknown command 'help'
replay --trace naiv | did you mean 'naive'?
replay --policies fifo | --policies fifo (did you mean '--policy'?)
replay --out {place}/own.csv | own.csv, --out: is a file, not a folder
sweep run {place}/code.toml | line 4, axes.policy: names code to run, 'mine:Mine'; --allow-code
sweep run {place}/traces.toml | names code to run, 'mine:burst'
replay --policy lookahead | is an objective of the policy milp
replay --policy fifoo | did you mean 'fifo'?
replay --cluster 8x8:H100 | error: --cluster: unknown GPU type 'H100' (did you mean 'H100-80GB'?)
replay --policy mine.py:Mine | must look like package.module:attribute; of a file it is mine:Mine
replay --policy ./a/mine.py:Mine | of a file it is mine:Mine typed in a
replay --policy nowhere:Mine | 'nowhere'; it is looked for in the current folder and on PYTHONPATH
replay --policy os.path:join | 'os.path:join' must be callable as policy(belief, options)
round --state {state} --why bob | the round has no job 'bob' (did you mean 'bob-2'?)
replay --gap small | --gap: must be a number from 0 to 1
replay --seed x | --seed: must be a whole number
replay --interval nan | --interval: must be a number from 0.1
replay --solver nope | unknown solver 'nope'
replay --trace {place}/folder | it is a folder
replay base | unrecognized arguments: base (did you mean '--trace base'?)
replay --resume {place}/own.csv | own.csv: is no run folder
live release-all --config x.toml | --yes: is needed: release-all changes jobs of the cluster
live observe --config x.toml --turns 0 | --turns: must be a whole number from 1
live replay x.jsonl --out y | x.jsonl: cannot be read
live observe --config {place}/own.csv | own.csv, line 1: is not TOML
round | --state
round --state nowhere.json | nowhere.json: cannot be read
round --state {place}/empty.json | empty.json, line 1: is not JSON
round --from slrm:a,b | (did you mean 'slurm'?)
plan | QUESTION
plan nodes --slo fast | slo: must look like 'p90 queued_s <= 900'
plan nodes --slo | --slo: expected one argument
plan worth --metrc x | --metrc x (did you mean '--metric'?) (see python -m morph_opt.plan worth
plan nodes --slo avg?jct_s<=9 --max-nodes 0 | --max-nodes: must be a whole number from 1
plan nodes --slo avg?jct_s<=9 --trace naive --on locl:3 | (did you mean 'local'?)
plan nodes --slo avg?jct_s<=9 --trace naive --gapp 0.1 | did you mean '--gap'?
plan nodes --slo avg?jct_s<=9 --trace naive --out {place}/own.csv | is a file, not a folder
plan fleet --slo avg?jct_s<=9 --types V100 --prices V100 | must look like NAME=NUMBER
plan compare --a fifo --b srtf | --a: must be options, like '--policy srtf', or a rules file
plan eta --state {state} --job nobody | the state has no job 'nobody'
traces lnt {place}/own.csv | argument COMMAND: invalid choice: 'lnt' (did you mean 'lint'?)
traces lint tabel:own.csv | unknown format 'tabel' (did you mean 'table'?)
traces lint {place}/own.csv --columns submitt=submit | (did you mean 'submit'?)
traces describe {place}/own.csv --out {place}/own.csv | own.csv: is a file, not a folder
audit table: | names no file: give table:PATH
explain {place}/run a | run: explains milp, easy, conservative, slurm and kueue only, not 'fifo'
compare {place}/run | RUN: needs two run folders or more, got
export {place}/run --to perfeto | (did you mean 'perfetto'?)
policies lookahed | (did you mean 'lookahead'?)
solvers check cplex | unknown solver 'check'; known are highs
topology draw 2x8 --ot x.svg | --ot x.svg (did you mean '--out'?)
perf predict --model gpt3 --shape 8 | unknown model 'gpt3' (did you mean 'gpt2'?)
sweep run {place}/folder | must be a file, it is a folder
data fetch gavl | unknown data set 'gavl' (did you mean 'gavel'?)
shares {place}/empty.json | empty.json, line 1: is not JSON
report nowhere | nowhere: is no run folder (it has no summary.json)
"""


def _cases(text: str) -> list[tuple[str, str]]:
    return [(a.strip(), b.strip()) for a, _, b in (one.partition(" | ") for one in _lines(text))]


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


INTERNAL = re.compile(
    r"NoneType|has no attribute|not subscriptable|not iterable|unsupported operand|object is not"
    r"|os\.PathLike|__\w+__|morph_opt\.[a-z]|Traceback|defect of morph-opt|^--[a-z]"
)
"""What only says something to whoever wrote the package."""
COMMAND = re.compile(r"python -m morph_opt\.\w+")


class _Wrong(mo.Policy):
    """A policy that decides nothing that is a decision."""

    name = "wrong"

    def __init__(self, *_: object) -> None:
        """Take belief and options."""

    def decide(self, state: object) -> mo.Decision:
        """Five."""
        return cast(mo.Decision, 5)


@pytest.mark.parametrize(("call", "answer"), _cases(CALLS))
def test_wrong_calls(
    call: str, answer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scenario = mo.Scenario("naive", policy="fifo")
    known = {
        "mo": mo,
        "np": np,
        "pd": pd,
        "SCENARIO": scenario,
        "STATE": STATE,
        "ASK": mo.plan.Ask(scenario),
        "WRONG": _Wrong,
        "JOB": mo.load_trace("naive").trace.jobs[0],
    }
    monkeypatch.chdir(tmp_path)
    with pytest.raises((mo.InputError, TypeError)) as found:
        eval(call, known)
    assert answer in str(found.value)
    assert not INTERNAL.search(COMMAND.sub("", str(found.value)))
    assert list(tmp_path.iterdir()) == []


class _Nameless(mo.Policy):
    """A policy without a name."""

    def __init__(self, *_: object) -> None:
        """Take belief and options."""

    def decide(self, state: object) -> mo.Decision:
        """Nothing."""
        raise NotImplementedError


class _Unmade(_Nameless):
    """A policy that is called with nothing."""

    def __init__(self) -> None:
        """Take nothing."""


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (_Nameless, r"makes no policy yet: give class _Nameless the line name = \"_nameless\""),
        (
            _Unmade,
            r"callable as policy\(belief, options\), so write def __init__\(self, belief",
        ),
    ],
)
def test_a_policy_that_is_not_complete_is_told_what_to_write(
    policy: type[mo.Policy], answer: str
) -> None:
    with pytest.raises(mo.InputError, match=answer):
        mo.Scenario("naive", policy=policy).run()


def test_numbers_of_numpy_are_taken_as_pythons_own() -> None:
    scenario = mo.Scenario("naive", policy="fifo", seed=np.int64(3))
    scenario = scenario.replaced(interval_s=np.float32(30), skip_impossible=np.True_)
    same = mo.Scenario("naive", policy="fifo", seed=3)
    assert scenario == same.replaced(interval_s=30.0, skip_impossible=True)
    assert scenario.to_toml() == same.replaced(interval_s=30.0, skip_impossible=True).to_toml()
    assert type(mo.Scheduler(entity_weights={"a": np.int64(2)}).entity_weights["a"]) is int
    job = mo.load_trace("naive").trace.jobs[0]
    own = replace(job, submission_s=np.float32(2), iterations=np.int64(5), guaranteed=np.False_)
    kinds = type(own.submission_s), type(own.iterations), type(own.guaranteed)
    assert kinds == (float, int, bool)
    assert mo.Trace("x", np.array([own])).jobs == (own,)  # type: ignore[arg-type]
    assert mo.Table(np.array(["a"]), np.array([[1.5]])).rows == [[1.5]]
    cell = mo.sweep.Cell(scenario)
    assert cell.key == mo.sweep.Cell(same.replaced(interval_s=30.0, skip_impossible=True)).key


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, an empty folder, an empty file and a run."""
    found = tmp_path_factory.mktemp("place")
    (found / "own.csv").write_text("job,submit,gpus,duration\na,0,1,60\nb,10,2,100\n")
    (found / "folder").mkdir()
    (found / "empty.json").touch()
    fixed = '[fixed]\ntrace = "naive"\n'
    (found / "code.toml").write_text(f'{fixed}[axes]\npolicy = ["mine:Mine", "fifo"]\n')
    (found / "traces.toml").write_text('[axes]\ntrace = ["naive", "mine:burst/5"]\n')
    mo.Scenario("naive", "8x8", policy="fifo").run(out=found / "run")
    return found


def test_a_slip_in_the_name_of_a_job_is_told(place: Path) -> None:
    with pytest.raises(mo.InputError, match=r"no job 'gpt2-00' \(did you mean 'gpt2-0'\?\)"):
        stretches(mo.read_run(place / "run").events, "gpt2-00", 0.0, 1.0)


@pytest.mark.parametrize("command", ["policies", "solvers"])
def test_single_allowed_name_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = {"policies": "lookahead", "solvers": "highs"}[command]
    assert main([command, name]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [name]


@pytest.mark.parametrize(("line", "answer"), _cases(LINES))
def test_wrong_lines(
    line: str,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line.format(state=STATE, place=place).split()
    assert main([word.replace("?", " ") for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert answer in said.err
    assert not INTERNAL.search(COMMAND.sub("", said.err))
    assert list(tmp_path.iterdir()) == []
