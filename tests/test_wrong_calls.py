"""Whoever calls a public name, or types a command, wrongly is answered in words of their own."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest

import morph_opt as mo
from morph_opt.__main__ import main
from morph_opt.domain.nearest import guessing
from morph_opt.explain.why import stretches

STATE = Path(__file__).parents[1] / "docs" / "schema" / "example-state.json"

CALLS = """
mo.Scenario(trace=5) | trace: must be a name, a file, a Trace or what load_trace gives, got 5
mo.Scenario(trace=["base"]) | trace: must be a name
mo.Scenario(nodes=12) | Scenario() has no parameter 'nodes'; it has trace, cluster, policy
mo.Scenario(objectiv="jct") | no parameter 'objectiv' (did you mean 'objective'?)
mo.Scenario("naiv").run() | unknown trace 'naiv' (did you mean 'naive'?)
mo.Scenario("naive", 8) | cluster: must be text, a path, a Cluster or None, got 8
mo.Scenario("naive", "8x") | cluster: must be a file, or look like 8x8
mo.Scenario("naive", "8x8:H100") | unknown GPU type 'H100' (did you mean 'H100-80GB'?)
mo.Scenario("naive", policy="lookahead").run() | is an objective of the policy milp
mo.Scenario("naive", policy=3) | policy: must be a name, an object of mo.Policy
mo.Scenario("naive", objective=3) | objective: must be a name, an object of mo.Objective
mo.Scenario("naive", seed="a") | seed: must be a whole number or None, got 'a'
mo.Scenario("naive", seed=True) | seed: must be a whole number or None, got True
mo.Scenario("naive", workload=mo.Workload(trace="mt")) | trace: is 'naive' and, in mo.Workload
mo.Scenario("naive", cluster=("8x8",)) | cluster: must be text, a path, a Cluster or None
mo.Scenario("naive", workload=mo.Workload) | workload: must be a Workload or None, got the class
mo.Scenario("naive", state=3) | state: must be text, a path or None, got 3
mo.Scenario("naive", workload="base") | workload: must be a Workload or None, got 'base'
mo.Scenario("naive", scheduler="fifo") | scheduler: must be a Scheduler or None
mo.Scenario("naive", engine={"interval_s": 30}) | engine: must be a ReplayConfig or None
mo.Scenario("naive", "8x8", "fifo") | Scenario() takes 2 values without a name, got 3
SCENARIO.replaced(intervall_s=30) | is no field of a scenario (did you mean 'interval_s'?)
SCENARIO.replaced(cluster=3) | cluster: must be text
SCENARIO.replaced(workload="base") | workload: must be a mo.Workload, got 'base'
SCENARIO.replaced(3) | takes 0 values without a name
SCENARIO.replaced(interval_s="30") | interval_s: must be a number
SCENARIO.run(out=3) | out: must be text, a path or None, got 3
SCENARIO.run(progress=3) | progress: must be a function or None, got 3
SCENARIO.run("nowhere", resume="yes") | resume: must be True or False, got 'yes'
mo.decide({"a": 1}) | state, a: unknown
mo.decide({"nodes": []}) | a snapshot of a round is JSON of schema 'morph-opt/round-state/1'
mo.decide({"a": {1, 2}}) | state: is not what JSON can say
mo.decide(5) | state: must be text, a path, a Snapshot or a dict, got 5
mo.decide([1, 2]) | state: must be text, a path, a Snapshot or a dict, got [1, 2]
mo.decide(STATE, objective=5) | objective: must be text, an Objective, a class or None, got 5
mo.decide(STATE, policy=5) | policy: must be text, a Policy or a function, got 5
mo.decide(STATE, options={"gap": 1}) | options: must be a PolicyOptions or None
mo.decide(STATE, objective="jctt") | unknown objective 'jctt' (did you mean 'jct'?)
mo.decide("nowhere.json") | nowhere.json: cannot be read
mo.decide(STATE).why(5) | job: must be text, got 5
mo.decide(STATE).why("nobody") | the round has no job 'nobody'; it has alice-1
mo.read_snapshot(5) | path: must be text or a path, got 5
mo.read_snapshot(None) | path: must be text or a path, got None
mo.load_trace(5) | spec: must be text or a path, got 5
mo.load_trace("base", seed="x") | seed: must be a whole number, got 'x'
mo.load_trace("base", jobz=3) | jobz: has no effect on trace 'base'
mo.load_cluster(5) | text: must be text or a path, got 5
mo.load_cluster("8x8:H100") | did you mean 'H100-80GB'?
mo.plan.nodes("naive", "avg jct_s <= 10") | ask: must be an Ask, got 'naive'
mo.plan.nodes(SCENARIO, "avg jct_s <= 10") | ask: must be an Ask, got Scenario('naive'
mo.plan.nodes(ASK, 5) | slo: must be a Slo or text, got 5
mo.plan.nodes(ASK, "avg jct_s <= x") | slo: must end in a number, got 'x'
mo.plan.nodes(ASK, "avg jct_s <= 10", most="8") | most: must be a whole number, got '8'
mo.plan.nodes(ASK, "avg jct_s <= 10", seeds=5) | seeds: must be several, each a whole number
mo.plan.nodes(ASK, "avg jct_s <= 10", confidence="high") | confidence: must be a number
mo.plan.Ask("naive") | scenario: must be a Scenario, got 'naive'
mo.plan.Ask(SCENARIO, load="much") | load: must be a number, got 'much'
mo.plan.eta(5) | must be
mo.plan.growth(5, 5, 5) | ask: must be an Ask, got 5
mo.plan.needed("a", 3) | share: must be a number, got 'a'
mo.plan.needed(2, 0.9) | share: must be between 0 and 1, got 2
mo.plan.compare("a", {}) | ask: must be an Ask, got 'a'
mo.plan.fleet(ASK, "b") | fleet() needs types
mo.plan.Slo.parse("avg a <= 3") | slo: unknown metric 'a'
mo.sweep.run_cells([SCENARIO], "cache") | cells: must be several, each a Cell
mo.sweep.run_cells(5, "cache") | cells: must be several, each a Cell, got 5
mo.sweep.run_cells([mo.sweep.Cell(SCENARIO)], 5) | store: must be a CellStore, text or a path
mo.sweep.Cell("naive") | scenario: must be a Scenario, got 'naive'
mo.sweep.Cell(SCENARIO, keep="jobs.csv") | keep: must be several, each text, got 'jobs.csv'
mo.sweep.Cell(mo.Scenario(mo.load_trace("naive"))).key | trace: is a value of this process
mo.sweep.CellStore(5) | folder: must be text or a path, got 5
mo.sweep.read_spec(5) | path: must be text or a path, got 5
mo.report(5) | runs: must be a Run, text, a path or several
mo.report(["nowhere"], out=5) | out: must be text, a path or None, got 5
mo.read_run(5) | folder: must be text or a path, got 5
mo.read_run("nowhere") | nowhere: is no run folder (it has no summary.json)
mo.read_scenario(5) | path: must be text or a path, got 5
mo.Table(5, 5) | header: must be several, each text, got 5
mo.Table(["a"], [1]) | rows: must be several, each several
mo.Table(["a"], [[1, 2]]) | 1 columns, but 2 cells
mo.Table(["a"], [[object()]]) | a: a cell is text or a number, got object
mo.Table(["a"], [[1]], align=5) | align: must be text, got 5
mo.Workload(trace=5) | trace: must be text, got 5
mo.Scheduler(gap="small") | gap: must be a number from 0 to 1, got 'small'
mo.Scheduler(entity_weights=[1]) | entity_weights: must be a table of numbers, got [1]
mo.Failures(mtbf_s="x") | mtbf_s: must be a number
mo.ReplayConfig(interval_s="60") | interval_s: must be a number
mo.Trace("x", []) | jobs: the trace has no jobs
mo.Trace("x", 5) | jobs: must be several, each a Job, got 5
mo.Trace("x", [JOB, "b"]) | jobs: must be several, each a Job
mo.Trace.of("x", 5) | jobs: must be several, each a Job, got 5
mo.Job("a") | Job() needs model
mo.Cluster("x", ("n1",)) | nodes: must be several, each a Node, got ('n1',)
mo.Cluster.uniform("8", None) | nodes: must be a whole number, got '8'
mo.Snapshot(5, 5) | state: must be a RoundState, got 5
mo.Run(5) | parts: must be a Parts, got 5
mo.RoundDecision(5) | RoundDecision() needs policy
mo.Scenario("") | trace: must not be empty
mo.Scenario("naive", policy="") | policy: must not be empty
mo.Scenario("naive", objective="") | objective: must not be empty
mo.Scenario("naive", "") | cluster: must not be empty
mo.Scenario("naive", state="") | state: must not be empty
mo.Scenario("naive", policy=mo.Policy) | Policy is to be completed: a class of your own has decide
mo.Scenario("naive", policy=mo.FillingPolicy) | a class of your own has fill
mo.Scenario("naive", objective=mo.Objective) | a class of your own has levels, observe
mo.Scenario("naive", objective=mo.Stateless) | a class of your own has goals
mo.Scenario("naive", policy=mo.Objective) | policy: must be a name, an object of mo.Policy
mo.Scenario("naive", policy=lambda: 3).run() | must be callable as policy(belief, options)
mo.Scenario("naive", policy=lambda belief, options: None).run() | makes no policy: None
mo.Scenario("naive", seed=np.float64(3)) | seed: must be a whole number or None
mo.Scenario("naive", seed=np.arange(3)) | seed: must be a whole number or None
mo.Scenario(mo.Trace) | trace: must be a name, a file, a Trace
mo.Scenario("table:").run() | table: names no file: give table:PATH
mo.Scenario("tabel:own.csv").run() | unknown format 'tabel' (did you mean 'table'?)
mo.Scenario("naive", scheduler=mo.Scheduler(solver="nope")).run() | unknown solver 'nope'
mo.Workload(seeds=1) | Workload() has no parameter 'seeds' (did you mean 'seed'?)
mo.Scheduler(polcy="fifo") | Scheduler() has no parameter 'polcy' (did you mean 'policy'?)
mo.Scheduler(policy="") | policy: must not be empty
mo.Scheduler(entity_weights={1: 2.0}) | entity_weights: must name what its numbers are of
mo.Failures(mtbf=5) | Failures() has no parameter 'mtbf' (did you mean 'mtbf_s'?)
mo.ReplayConfig(interval=5) | ReplayConfig() has no parameter 'interval' (did you mean
mo.ReplayConfig(interval_s=float("nan")) | interval_s: must be a number from 0.1
SCENARIO.replaced(trace="") | trace: must not be empty
SCENARIO.run("") | out: must not be empty
SCENARIO.run(resume=True) | resume: has an effect together with out only
SCENARIO.run("x\\0y") | the output folder cannot be written
SCENARIO.run("a" * 5000) | the output folder cannot be written
SCENARIO.run().jobs.column("jct") | unknown column 'jct' (did you mean 'jct_s'?)
SCENARIO.run().events.column("nope") | unknown column 'nope'
mo.decide("") | state: must not be empty
mo.decide(STATE, policy=mo.Policy) | Policy is to be completed
mo.decide(STATE, objective=mo.Stateless) | Stateless is to be completed
mo.report([None]) | runs: must be a Run, text, a path or several
mo.report([]) | at least one run is needed
mo.report("") | runs: must not be empty
mo.report(".") | is no run folder (it has no summary.json)
mo.read_run(".") | is no run folder (it has no summary.json)
mo.read_snapshot("") | path: must not be empty
mo.load_cluster("") | text: must not be empty
mo.load_trace("") | must not be empty
mo.FillingPolicy() | Can't instantiate abstract class FillingPolicy
mo.Summary() | Summary() needs trace
mo.Summary(5) | Summary() takes 0 values without a name, got 1
mo.Summary.of(5) | values: must be a dict, got 5
mo.InputError(5) | InputError: rule must be text, got 5
mo.Scenario("naive", policy="os.path:join").run() | policy: 'os.path:join' must be callable as
mo.report([mo.Run]) | each a Run, text or a path, got [the class Run]
mo.Scenario("naive", policy="fifoo").run() | policy: unknown policy 'fifoo' (did you mean 'fifo'?)
mo.Scenario("naive", objective="jctt").run() | unknown objective 'jctt' (did you mean 'jct'?)
mo.Scenario("naive", policy="lookahead").run() | of the policy milp: give it as objective
mo.Scheduler(durations="some") | durations: must be true, blind or noisy:SIGMA, got 'some'
mo.Scheduler(promises="some") | promises: must be rank, weight
mo.Scenario("naive", policy="fifo", objective="jct").run() | objective: policy 'fifo' does not know
mo.Scenario("naive", "1x1", policy="fifo").run() | skip_impossible drops such jobs
mo.decide(STATE, policy="fifoo") | policy: unknown policy 'fifoo' (did you mean 'fifo'?)
mo.Scenario("naive", policy=WRONG).run() | Wrong.decide must return a morph_opt.Decision, got int
mo.plan.nodes(ASK, "avg jct_s <= 10", most=0) | most: must be from 1 to 1000000, got 0
mo.plan.nodes(ASK, "avg jct_s <= 10", node_type="V1000") | node_type: unknown GPU type 'V1000'
mo.plan.nodes(ASK, "avg jct_s <= 10", indifference=0.5) | indifference: must be above 0 and below
mo.plan.growth(ASK, "avg jct_s <= 10", [2.0, 1.0]) | loads: must ascend
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V100"], prices={}) | prices: has no price of V100
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V1000"], prices={}) | types: unknown GPU type 'V1000'
mo.plan.eta(mo.plan.Ask(mo.Scenario(state=STATE)), jobs=["nobody"]) | jobs: the state has no job
mo.plan.eta(mo.plan.Ask(mo.Scenario(state=STATE)), continuations=1) | continuations: 10 and 90 %
mo.plan.Ask(SCENARIO, on="nope") | on: must be local:N
mo.report(["nowhere"], out="x.txt") | out: must end in .html, got 'x.txt'
SCENARIO.run("nowhere", resume=True) | nowhere: holds no run that could be finished
mo.Decision(None) | allocation: must be an Allocation, got None
mo.Allocation(5) | assignments: must be a tuple of Assignment, got 5
mo.Allocation(["a"]) | assignments: must be a tuple of Assignment, got ['a']
mo.PolicyOptions(gap="x") | gap: must be a number, got 'x'
mo.PolicyOptions(gapp=1) | no parameter 'gapp' (did you mean 'gap'?)
mo.plan.Slo.parse(None) | text: must be text, got None
mo.plan.Slo("jct_s", "avg", at_most="10") | at_most: must be a number or None, got '10'
mo.plan.Ask(SCENARIO, load=0) | load: must be a number from 0.01 to 100, got 0
mo.plan.Ask(SCENARIO, load=float("nan")) | load: must be a number from 0.01 to 100, got nan
mo.plan.Ask(SCENARIO, blocks="months") | blocks: must be weeks or days, got 'months'
mo.plan.Answer("nodes") | Answer() needs asked
mo.plan.nodes(ASK, "avg jct_s <= 10", seeds=[]) | fresh ones to confirm, a seed each
mo.plan.nodes(ASK, "avg jct_s <= 10", seeds=[-1]) | seeds: must be a whole number from 0
mo.plan.nodes(ASK, "avg jct_s <= 10", exploration=-5) | exploration: must be at least 1, got -5
mo.plan.nodes(ASK, "avg jct_s <= 10", of_workloads=90) | of_workloads: must be between 0 and 1
mo.plan.nodes(ASK, "avg jct_s <= 10", node_type="") | must not be empty
mo.plan.nodes(ASK, "avg jct_s <= 10", gpus_per_node=0) | must be at least 1, got 0
mo.plan.worth(mo.plan.Ask(mo.Scenario(mo.load_trace("naive")))) | give a name or a file
mo.plan.compare(ASK, {"a": {}, "b": 5}) | variants: b: must be a dict, got 5
mo.plan.compare(ASK, {"a": {}, "b": {}}, confidence=5) | confidence: must be between 0 and 1, got 5
mo.plan.worth(ASK, metric="") | metric: must look like 'avg jct_s' or 'makespan_s'
mo.plan.worth(ASK, every=0) | every: must be at least 1, got 0
mo.plan.worth(ASK, confidence=float("nan")) | confidence: must be between 0 and 1, got nan
mo.plan.remove(ASK, "avg jct_s <= 10", seeds=[0]) | 1 workloads are fewer than the statement needs
mo.plan.fleet(ASK, "avg jct_s <= 9", types=[], prices={}) | names no type
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V100"], prices={"V100": 1}, budget=-1) | must be above
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V100"], prices={"V100": 1}, most=0) | most: must be at
mo.plan.eta(mo.plan.Ask(mo.Scenario(state=STATE)), history="") | history: must not be empty
mo.plan.eta(mo.plan.Ask(mo.Scenario(state=STATE)), seed=-1) | seed: must be a whole number from 0
mo.sweep.Limits(timeout_s=1) | Limits() has no parameter 'timeout_s'
mo.sweep.CellStore("") | folder: must not be empty
mo.sweep.SweepTable() | SweepTable() needs cells
mo.sweep.Failure() | Failure() needs kind
mo.Scenario(pd.DataFrame({"a": [1]})) | trace: must be a name, a file, a Trace
mo.sweep.run_cells([mo.sweep.Cell(SCENARIO)], STATE) | is a file, not a folder
mo.sweep.Spec(axes={"policy": "fifo"}) | axes: policy: must be several
mo.Table(["a"], [[1]], formats={"a": "z%%"}) | a: 'z%%' is no format of a number
mo.plan.fleet(ASK, "avg jct_s <= 9", types=["V100"], prices={"V100": "3"}) | V100: must be a
"""

ATTRIBUTES = """
mo.dcide | module 'morph_opt' has no attribute 'dcide' (did you mean 'decide'?)
mo.plan.nods | module 'morph_opt.plan' has no attribute 'nods' (did you mean 'nodes'?)
mo.sweep.runcells | (did you mean 'run_cells'?)
SCENARIO.polcy | 'Scenario' object has no attribute 'polcy' (did you mean 'policy'?)
SCENARIO.cluster.node | (did you mean 'nodes'?)
RUN.sumary | 'Run' object has no attribute 'sumary' (did you mean 'summary'?)
RUN.summary.avg_jct | 'Summary' object has no attribute 'avg_jct' (did you mean 'avg_jct_s'?)
RUN.jobs.to_panda | (did you mean 'to_pandas'?)
RUN.jobs[0].jct | 'JobRow' object has no attribute 'jct' (did you mean 'jct_s'?)
mo.load_trace("naive").tracee | (did you mean 'trace'?)
mo.decide(STATE).decison | (did you mean 'decision'?)
mo.decide(STATE).nonsense | 'RoundDecision' object has no attribute 'nonsense'
JOB.requested_gpu | (did you mean 'requested_gpus'?)
"""

LINES = """
nope | unknown command 'nope'
help | unknown command 'help'
replay --trace naiv | did you mean 'naive'?
replay --polcy fifo | --polcy
replay --policies fifo | --policies fifo (did you mean '--policy'?)
replay --out {place}/own.csv | own.csv, --out: is a file, not a folder
sweep run {place}/code.toml | line 4, axes.policy: names code to run, 'mine:Mine'; --allow-code
sweep run {place}/traces.toml | names code to run, 'mine:burst'
replay --policy lookahead | is an objective of the policy milp
replay --policy fifoo | did you mean 'fifo'?
replay --objective jctt | did you mean 'jct'?
replay --cluster 8x | must be a file, or look like 8x8
replay --cluster 8x8:H100 | error: --cluster: unknown GPU type 'H100' (did you mean 'H100-80GB'?)
replay --gpu-type H100 | error: --gpu-type: unknown GPU type 'H100' (did you mean 'H100-80GB'?)
replay --policy mine.py:Mine | must look like package.module:attribute; of a file it is mine:Mine
replay --policy mine.py | must look like package.module:attribute; of a file it is mine:NAME
replay --policy ./a/mine.py:Mine | of a file it is mine:Mine typed in a
replay --policy nowhere:Mine | 'nowhere'; it is looked for in the current folder and on PYTHONPATH
replay --policy {place}:Mine | must look like package.module:attribute
round --state {state} --why bob | the round has no job 'bob' (did you mean 'bob-2'?)
plan eta --state {state} --job alice | the state has no job 'alice' (did you mean 'alice-1'?)
replay --gap small | --gap: must be a number from 0 to 1
replay --seed x | --seed: must be a whole number
replay --solver nope | unknown solver 'nope'
replay --trace nowhere.csv | nowhere.csv
replay --resume nowhere | nowhere
replay --interval 0 | --interval
replay base | unrecognized arguments: base (did you mean '--trace base'?)
replay --trace resampled/x0/naive | must look like resampled/x1.2/weeks/TRACE
replay --nodes 0 | --nodes: must be a whole number from 1
traces lint table:{place}/empty.json | has no header, which needs submit, gpus, duration
live release-all --config x.toml | --yes: is needed: release-all changes jobs of the cluster
live observe --config x.toml --turns 0 | --turns: must be a whole number from 1
live replay x.jsonl --out y | x.jsonl: cannot be read
round mine.json | unrecognized arguments: mine.json (did you mean '--state mine.json'?)
round --state {place}/own.csv | is not JSON: Expecting value; a snapshot of a round is JSON
round --state nowhere.json | nowhere.json: cannot be read
round | --state
round --state {state} --policy nope | unknown policy 'nope'
round --state {state} --explain yes | yes
plan | QUESTION
plan nodez | nodez
plan nodes | --slo
plan nodes --slo fast | slo: must look like 'p90 queued_s <= 900'
plan nodes --slo avg_jct_s<=x | must end in a number
plan nodes --trace naive --slo avg?jct_s<=9 --node-type H100 | did you mean 'H100-80GB'?
sweep run nowhere.toml | nowhere.toml
sweep | COMMAND
traces lint nowhere.csv | nowhere.csv
traces show naive | choose from lint, describe, capacity
audit nowhere | nowhere
report nowhere | nowhere: is no run folder (it has no summary.json)
plan worth --b | unrecognized arguments: --b (see python -m morph_opt.plan worth --help)
plan worth --metrc x | --metrc x (did you mean '--metric'?) (see python -m morph_opt.plan worth
plan nodes --max-node 0 | (did you mean '--max-nodes'?)
plan nodes --slo avg?jct_s<=9 --max-nodes 0 | --max-nodes: must be a whole number from 1
plan nodes --slo avg?jct_s<=9 --trace {place}/folder | it is a folder
plan nodes --slo avg?jct_s<=9 --trace naive --on locl:3 | (did you mean 'local'?)
plan nodes --slo avg?jct_s<=nan --trace naive | needs a finite target, got nan
plan nodes --slo avg?jct_s<=9 --at-load nan | --at-load: must be a number from 0.01
plan nodes --slo avg?jct_s<=9 --trace naive --gapp 0.1 | did you mean '--gap'?
plan nodes --slo avg?jct_s<=9 --trace naive --out {place}/own.csv | is a file, not a folder
plan nodes --slo | --slo: expected one argument
plan fleet --slo avg?jct_s<=9 --types V1000 --prices V1000=3 | --types: unknown GPU type 'V1000'
plan fleet --slo avg?jct_s<=9 --types V100 --prices V100 | must look like NAME=NUMBER
plan growth --slo avg?jct_s<=9 --loads 1,x | did you mean '--load'?
plan compare --a --policy?fifo --b --policyy?srtf | did you mean '--policy'?
plan eta --state {state} --policy fifo | --state: has rules: policy 'fifo' does not know
plan compare --a fifo --b srtf | --a: must be options, like '--policy srtf', got 'fifo'
plan eta --from slrum:a,b | (did you mean 'slurm'?)
plan eta --state {place}/folder | must be a file, it is a folder
plan eta --state {state} --job nobody | the state has no job 'nobody'
plan eta --state {state} --history tabel:own.csv | unknown format 'tabel' (did you mean 'table'?)
traces lnt {place}/own.csv | argument COMMAND: invalid choice: 'lnt' (did you mean 'lint'?)
traces lint tabel:own.csv | unknown format 'tabel' (did you mean 'table'?)
traces lint table: | names no file: give table:PATH
traces lint {place}/own.csv --columns submitt=submit | (did you mean 'submit'?)
traces lint table:{place}/own.csv --columns duration=duration[wk] | error: --columns: unknown unit
traces lint {place}/own.csv --json {place}/folder | it is a folder
traces describe {place}/own.csv --out {place}/own.csv | own.csv: is a file, not a folder
traces capacity {place}/own.csv --trace tabel:own.csv --cluster 2x8 | did you mean 'table'?
audit tabel:own.csv --cluster 2x8 | unknown format 'tabel' (did you mean 'table'?)
audit table: | names no file: give table:PATH
audit table:{place}/folder --cluster 2x8 | must be a file, it is a folder
audit table:{place}/own.csv --every nan | --every: must be a number from 0.001
explain {place}/folder a | folder: is no run folder (it has no summary.json)
explain nowhere a | nowhere: is no run folder (it has no summary.json)
explain {place}/own.csv a | own.csv: is no run folder (it has no summary.json)
explain {place}/run a | run: explains the policy milp only, not 'fifo'
compare {place}/folder | folder: is no run folder (it has no summary.json)
compare {place}/run | RUN: needs two run folders or more, got
compare {place}/run {place}/folder | folder: is no run folder
export {place}/run --to perfeto | (did you mean 'perfetto'?)
export {place}/run --to tables --out {place}/own.csv | is a file, not a folder
policies fif | unknown policy or objective 'fif' (did you mean 'fifo'?)
policies lookahed | (did you mean 'lookahead'?)
solvers highss | unknown solver 'highss' (did you mean 'highs'?)
solvers check cplex | unknown solver 'check'; known are highs
topology draw 2x8 --ot x.svg | --ot x.svg (did you mean '--out'?)
topology show {place}/folder | must be a file, it is a folder
perf predict --modle gpt2 | (did you mean '--model'?)
perf predict --model gpt3 --shape 8 | unknown model 'gpt3' (did you mean 'gpt2'?)
live act --confg x.toml | (did you mean '--config'?)
live observe --config {place}/own.csv | own.csv, line 1: is not TOML
replay --trace {place}/folder | it is a folder
replay --policy os.path:join | 'os.path:join' must be callable as policy(belief, options)
replay --objective os.path:join | must be callable as objective(belief, options)
replay --interval nan | --interval: must be a number from 0.1
replay --interval -1 | --interval: must be a number from 0.1
replay --rules {place}/folder | must be a file, it is a folder
replay --trace naive --dump-rounds {place}/own.csv | --dump-rounds: is a file, not a folder
replay --resume {place}/own.csv | own.csv: is no run folder
round --state {place}/empty.json | empty.json, line 1: is not JSON
round --state {state} --objective jctt | (did you mean 'jct'?)
round --from slrm:a,b | (did you mean 'slurm'?)
sweep run {place}/folder | must be a file, it is a folder
sweep status {place}/own.csv | own.csv: is no folder of a sweep
data fetch gavl | unknown data set 'gavl' (did you mean 'gavel'?)
shares {place}/empty.json | empty.json, line 1: is not JSON
compare nowhere elsewhere | nowhere: is no run folder
export nowhere --to perfetto | nowhere
export nowhere | --to
explain nowhere job | nowhere
solvers nope | unknown solver 'nope'
policies nope | nope
perf nope | nope
topology show 8x | 8x8
perf predict --model nope | nope
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


@pytest.fixture(scope="module")
def run() -> mo.Run:
    return mo.Scenario("naive", policy="fifo").run()


@pytest.mark.parametrize(("wrong", "answer"), _cases(ATTRIBUTES))
def test_wrong_attributes_are_answered_with_what_was_meant(
    wrong: str, answer: str, run: mo.Run
) -> None:
    scenario = mo.Scenario("naive", policy="fifo")
    known = {"mo": mo, "SCENARIO": scenario, "STATE": STATE, "RUN": run}
    known["JOB"] = mo.load_trace("naive").trace.jobs[0]
    with pytest.raises(AttributeError) as found:
        eval(wrong, known)
    assert answer in str(found.value)
    # Python's own guess would stand behind ours.
    assert "Did you mean" not in traceback.format_exception_only(found.value)[-1]


def test_a_property_that_fails_says_so_itself() -> None:
    @guessing
    class Broken:
        @property
        def value(self) -> int:
            return None.real  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'real'"):
        _ = Broken().value


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


def test_there_are_enough_of_both() -> None:
    assert len(_lines(CALLS)) >= 180
    assert len(_lines(LINES)) >= 100
    called = {name for name in mo.__all__ if f"mo.{name}" in CALLS}
    assert called | {"InputError"} == set(mo.__all__)


def test_numbers_of_numpy_are_taken_as_pythons_own() -> None:
    scenario = mo.Scenario("naive", policy="fifo", seed=np.int64(3))
    scenario = scenario.replaced(interval_s=np.float32(30), skip_impossible=np.True_)
    same = mo.Scenario("naive", policy="fifo", seed=3)
    assert scenario == same.replaced(interval_s=30.0, skip_impossible=True)
    assert scenario.to_toml() == same.replaced(interval_s=30.0, skip_impossible=True).to_toml()
    assert type(mo.Scheduler(entity_weights={"a": np.int64(2)}).entity_weights["a"]) is int
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
def test_one_name_alone_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
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
