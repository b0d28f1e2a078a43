"""Every option has an effect: with it a command ends, prints or writes something else.

What only repeats the options (`config.toml`, digests, labels of a summary) and what is measured on
a clock does not count. An option without a line here fails `test_every_option_has_a_line`.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.commands.described import described
from tests.known import KNOWN, MAIN, parser_of

ROOT = Path(__file__).parents[2]

WHERE = {
    "TOY": "--trace tests.engine.toys:trace/6 --policy tests.engine.toys:make_fifo",
    "FIFO": "--policy tests.engine.toys:make_fifo --until-s 2000",
    "MILP": "--trace tests.engine.toys:trace/6 --cluster 2x4",
    "CAPACITY": "capacity c.csv --trace helios:helios.csv --cluster 1x8",
    "LOG": "--policy fifo --trace helios:helios.csv",
    "SHUFFLE": "--trace tests.engine.toys:trace/6 --policy tests.engine.toys:make_shuffler",
    "SEARCH": "--trace search-twin --objective feedback --restart-s 20 --until-s 5200",
    "NAIVE": "--trace naive --policy srtf --until-s 2000",
    "QUEUES": "--trace tiresias-480 --policy tiresias:2d-las --interval 600 --until-s 20000",
    "PAIRS": "--trace gavel-96 --interval 3600 --until-s 15000",
    "PROMISED": "--trace promised.csv --nodes 1 --interval 600",
    "TENANTS": "--trace jobs.csv --nodes 1 --objective hierarchical --interval 600",
    "ASK": "--solver tests.commands.fakes:Recorder",
    "EXACT": "--method exact --solver tests.commands.fakes:Recorder",
    "SOLVE": "solve base-jct-64g-light",
    "STATE": f"--state {ROOT}/docs/schema/example-state.json",
    "BARE": "--state bare.json",
    "CONFLICT": f"--rules {ROOT}/docs/schema/example-conflict.toml",
    "PLAN": "plan-profiling --model bert",
    "SHARE": "share.json",
    "TWIN": "--trace acme-twin --policy fifo --restart-s 0 --until-s 1200",
    "WORKERS": "--trace easyscale-twin --gap 0.01 --until-s 540",
    "RIGID": "tiresias --trace t.csv --gpus 4",
}

LINES = """
replay --seed | TOY --cluster 2x4 | --seed 2
replay --failure-seed | TOY --mtbf-s 4000 --mttr-s 300 | --failure-seed 2
replay --solver-seed | MILP EXACT --until-s 2400 | --solver-seed 7
replay --trace | FIFO | --trace tests.engine.toys:trace/6
replay --jobs | TWIN --gpus 8 | --jobs 20
replay --gpus | TWIN --jobs 20 | --gpus 8
replay --days | TWIN --jobs 20 --gpus 8 | --days 0.01
replay --jobs-as | LOG | --jobs-as anchored
replay --scaling | --trace helios:helios.csv --jobs-as anchored | --scaling amdahl:0.5
replay --mix | LOG --jobs-as sampled | --mix bert=1
replay --gpu-types | --policy fifo --trace spot:spot.csv --skip-impossible | --gpu-types ignore
replay --guarantee | --policy fifo --trace spot:spot.csv --gpu-types ignore | --guarantee HP
replay --run-s | --policy fifo --trace pollux:p.csv | --run-s bert=60
replay --timezone | LOG | --timezone UTC
replay --procs-per-gpu | --policy fifo --trace swf:one.swf | --procs-per-gpu 2
replay --columns | --policy fifo --trace sacct:helios.csv | --columns xdmod
replay --gpu-resource | --policy fifo --trace kueue:list.json | --gpu-resource amd.com/gpu
replay --gpu-shares | LOG | --gpu-shares round-up
replay --only | LOG | --only completed
replay --malformed | --policy fifo --trace table:cut.csv | --malformed drop
replay --first-start-s | LOG | --first-start-s 60
replay --skip-impossible | TOY --cluster 1x2 | --skip-impossible
replay --from-state | TOY | --from-state bare.json
replay --cluster | TOY | --cluster 2x4
replay --prices | TOY | --prices A800-80GB=2
replay --nodes | TOY | --nodes 1
replay --gpus-per-node | TOY --nodes 1 | --gpus-per-node 4
replay --gpu-type | TOY | --gpu-type V100
replay --cpus-per-node | NAIVE | --cpus-per-node 8
replay --host-memory-gib | NAIVE | --host-memory-gib 1
replay --nvlink-gb-per-s | NAIVE | --nvlink-gb-per-s 20
replay --rdma-gb-per-s | NAIVE | --rdma-gb-per-s 1
replay --policy | MILP | --policy srtf
replay --objective | MILP | --objective las
replay --solver | MILP --method exact | ASK
replay --formulation | MILP EXACT | --formulation node_assignment
replay --rules | MILP | --rules r.toml
replay --method | MILP ASK | --method exact
replay --gap | MILP EXACT | --gap 0.5
replay --time-limit-s | MILP EXACT | --time-limit-s 77
replay --node-limit | MILP EXACT | --node-limit 77
replay --promises | PROMISED | --promises rank
replay --durations | MILP --objective lookahead | --durations blind
replay --durations | MILP --objective jct | --durations noisy:2
replay --packing | PAIRS | --packing
replay --packing | PAIRS --policy gavel:gandiva | --packing
replay --packing | PAIRS --cluster 1x4:V100 --policy gandiva | --packing
replay --solver-seed | PAIRS --policy gavel:gandiva --packing | --solver-seed 7
replay --waste-filter | WORKERS | --waste-filter 0.01
replay --entity-weights | TENANTS EXACT | --entity-weights u=50
replay --feedback-share | SEARCH | --feedback-share 0.2
replay --starvation-knob | QUEUES | --starvation-knob 0.1
replay --belief | MILP | --belief model
replay --belief | PAIRS --objective jct --packing | --belief measured:0.6
replay --online-fit | MILP --objective las | --online-fit
replay --interval | TOY | --interval 120
replay --restart-s | TOY | --restart-s 10
replay --resume-s | SHUFFLE --cluster 2x4 | --resume-s 10
replay --migrate-s | SHUFFLE --cluster 2x4 | --migrate-s 10
replay --lost-work | SHUFFLE --cluster 2x4 | --lost-work 50
replay --checkpoint-s | TOY --events e.csv --restart-s 10 | --checkpoint-s 1
replay --events | TOY | --events e.csv
replay --mtbf-s | TOY | --mtbf-s 4000 --mttr-s 300
replay --mttr-s | TOY | --mttr-s 300 --mtbf-s 4000
replay --until-s | TOY | --until-s 1000
replay --out | TOY | --out elsewhere
replay --resume | --trace nope | --resume nothing
replay --json | TOY | --json
replay --quiet | TOY | --quiet
replay --watch | TOY | --watch
replay --explain | MILP --until-s 2400 | --explain
replay --dump-rounds | MILP --until-s 2400 | --dump-rounds d
replay --dump-every | MILP --until-s 2400 --dump-rounds d | --dump-every 2
replay --dump-gz | MILP --until-s 2400 --dump-rounds d | --dump-gz
round --state | | --state bare.json
round --from | | --from slurm:none,none
round --why | STATE | --why alice-1
round --policy | BARE | --policy equal_split
round --objective | STATE | --objective jct
round --solver | STATE --method exact | ASK
round --formulation | STATE EXACT | --formulation node_assignment
round --rules | STATE | CONFLICT
round --gap | STATE EXACT | --gap 0.5
round --time-limit-s | STATE EXACT | --time-limit-s 77
round --node-limit | STATE EXACT | --node-limit 77
round --promises | --state promised.json | --promises weight:50
round --durations | STATE --objective jct | --durations blind
round --packing | STATE | --packing
round --waste-filter | STATE | --waste-filter 0.5
round --feedback-share | STATE --objective feedback | --feedback-share 0.1
round --entity-weights | STATE --objective hierarchical | --entity-weights alice=50
round --starvation-knob | --state starved.json --policy tiresias:2d-las | --starvation-knob 1
round --method | STATE ASK | --method exact
round --seed | STATE EXACT | --seed 7
round --explain | STATE | --explain
round --explain-jobs | STATE --explain | --explain-jobs 0
round --explain-nodes | STATE --explain | --explain-nodes
round --format | STATE | --format text
round --write-model | STATE | --write-model m.lp
round --indent | STATE | --indent 2
report.picture timeline --colour | timeline run --out t.svg | --colour size
report.picture cdf --of | cdf run --out c.svg | --of stretch
compare --out | run again | --out a.html
compare --markdown | run again | --markdown
report --out | run | --out other.html
export --out | run --to perfetto | --out x.json.gz
export --per-job | run --to batsim | --per-job
export --format | run --to tables | --format parquet
policies --markdown | | --markdown
instances list --folder | list | --folder none
instances solve --folder | SOLVE ASK | --folder none
instances solve --solver | SOLVE | ASK
instances solve --gap | SOLVE ASK | --gap 0.5
instances solve --time-limit-s | SOLVE ASK | --time-limit-s 77
instances solve --nodes | SOLVE ASK | --nodes 77
instances solve --seed | SOLVE ASK | --seed 7
instances solve --start | SOLVE ASK | --start
instances solve --out | SOLVE | --out x.sol
instances check --folder | check base-jct-64g-light none | --folder none
traces lint --format | lint helios.csv | --format sacct
traces lint --cluster | lint helios.csv | --cluster 1x2
traces lint --capacity | lint helios.csv | --capacity c.csv
traces capacity --out | CAPACITY | --out e2.csv
traces capacity --timezone | capacity c.csv --cluster 1x8 --trace acme:a.csv | --timezone Asia/Tokyo
traces capacity --columns | capacity c.csv --cluster 1x8 --trace sacct:helios.csv | --columns xdmod
traces capacity --only | CAPACITY | --only completed
traces capacity --malformed | capacity c.csv --cluster 1x8 --trace table:cut.csv | --malformed drop
traces capacity --gpu-shares | CAPACITY | --gpu-shares round-up
traces capacity --procs-per-gpu | CAPACITY | --procs-per-gpu 2
traces capacity --gpu-resource | CAPACITY | --gpu-resource x
traces lint --json | lint helios.csv | --json r.json
traces lint --rows | lint helios.csv --json r.json | --rows
traces describe --format | describe helios.csv | --format sacct
traces describe --out | describe helios.csv | --out page
traces describe --pictures | describe helios.csv --out page | --pictures pdf
traces lint --timezone | lint helios.csv | --timezone UTC
traces lint --columns | lint helios.csv --format sacct | --columns xdmod
traces lint --gpu-shares | lint helios.csv | --gpu-shares round-up
traces lint --malformed | lint table:cut.csv | --malformed drop
traces lint --only | lint helios.csv | --only completed
traces lint --procs-per-gpu | lint one.swf | --procs-per-gpu 8
traces lint --gpu-resource | lint list.json | --gpu-resource amd.com/gpu
audit --cluster | helios:helios.csv | --cluster 1x8
audit --every | run:run | --every 60
audit --json | run:run --every 60 | --json a.json
audit --picture | run:run --every 60 | --picture a.svg
perf plan-profiling --architecture | PLAN --max-gpus 1 | --architecture none
perf plan-profiling --runs | PLAN --max-gpus 1 | --runs runs.csv
perf plan-profiling --count | PLAN --max-gpus 1 | --count 2
perf plan-profiling --max-gpus | PLAN --count 2 | --max-gpus 1
perf plan-profiling --without-phases | PLAN --max-gpus 4 | --without-phases
perf fit --architecture | fit --model bert --runs none --out m | --architecture other
perf plot --architecture | plot --model bert --runs none --out m.svg | --architecture other
perf predict --architecture | predict --model bert | --architecture none
perf predict --runs | predict --model bert | --runs none
perf predict --shape | predict --model bert | --shape 2
perf predict --plan | predict --model bert | --plan dp+gc
perf predict --max-gpus | predict --model bert | --max-gpus 2
perf memory --gpu | memory llama7 dp 8 | --gpu V100
shares --policy | SHARE | --policy makespan
shares --id | SHARE | --id b
shares --oversize | SHARE | --oversize
published --json | cases.json | --json
published.figures tiresias --schedule | RIGID | --schedule fifo
published.figures tiresias --times | RIGID | --times 3
published.figures tiresias --starvation-knob | RIGID --times 100 | --starvation-knob 0.5
published.figures tiresias --samples | RIGID --schedule dlas-gpu-gittins | --samples s.csv
published.figures tiresias --artifact-quirks | RIGID --times 200 | --artifact-quirks
"""

ELSEWHERE = {
    "explain": "of a run that is over; tests/replay/test_why.py",
    "plan nodes": "replays by the dozen; tests/plan",
    "plan fleet": "replays by the dozen; tests/plan",
    "plan remove": "replays by the dozen; tests/plan",
    "plan worth": "replays by the dozen; tests/plan",
    "plan growth": "replays by the dozen; tests/plan",
    "plan compare": "replays by the dozen; tests/plan",
    "plan eta": "replays by the dozen; tests/plan",
    "live observe": "beside a pretended Slurm; tests/live",
    "live advise": "beside a pretended Slurm; tests/live",
    "live act": "beside a pretended Slurm; tests/live",
    "live release-all": "beside a pretended Slurm; tests/live",
    "round --snapshot": "of what a scheduler answers; tests/round/live",
    "sweep run": "starts processes; tests/sweep",
    "sweep table": "of a sweep that has run; tests/sweep",
    "replay --allow-code": "tests/replay, with run folders that name code",
    "published.figures gavel": "needs the published table; tests with public data",
    "instances make": "makes the library anew, minutes",
    "data fetch": "goes to the network; tests/data has a server",
    "readme replay": "runs the README's replays, minutes; tests/benchmarks/readme",
    "readme write": "tests/benchmarks/readme",
    "acme": "draws for seconds; tests/benchmarks",
    "perf-study report": "fits for minutes; tests/benchmarks/perf",
}
"""What is tried where it is cheap, or not at all."""

ROWS = [tuple(part.strip() for part in line.split("|")) for line in LINES.strip().split("\n")]

ECHO = {
    "trace", "trace_sha256", "objective", "policy", "solver", "cluster", "belief", "seed", "config",
    "restart_s", "interval_s", "peak_rss_mib", "wall_s", "trace_notice",
}  # fmt: skip
CLOCK = re.compile(r".*_ms(_.*)?$")


def plain(record: dict[str, object]) -> dict[str, object]:
    """A record without what repeats an option and what a clock measured."""
    return {k: v for k, v in record.items() if k not in ECHO and not CLOCK.match(k)}


def told(text: str) -> object:
    """What is said, less clocks and labels: JSON records as such, other text by the line."""
    kept = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            kept.append(json.dumps(plain(record)))
        elif not re.match(r"^(seconds|solver|median round|wall time|cluster|run folder)", line):
            kept.append(re.sub(r"(run|[0-9a-f]{8})$", "", line))
    return kept


def written(file: Path) -> object:
    """What is in a file, likewise."""
    if file.name in ("config.toml", "versions.json"):
        return None
    if file.name == "summary.json":
        return plain(json.loads(file.read_text()))
    if file.name == "rounds.csv":
        with file.open(newline="") as lines:
            return [plain(dict(row)) for row in csv.DictReader(lines)]
    return told(file.read_text()) if file.suffix == ".jsonl" else file.read_bytes()


@cache
def run_folder() -> dict[str, bytes]:
    """Files of a finished run."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        words = WHERE["TOY"].split()
        importlib.import_module(MAIN["replay"]).main([*words, "--out", str(out), "--quiet"])
        return {file.name: file.read_bytes() for file in out.iterdir()}


WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "a", "creationTimestamp": "2024-05-01T08:00:00Z"},
    "spec": {
        "podSets": [
            {"template": {"spec": {"containers": [{"resources": {"limits": {"amd.com/gpu": 1}}}]}}}
        ]
    },
}


def inputs(folder: Path) -> None:
    """The small files that the lines name."""
    for run in ("run", "again"):
        (folder / run).mkdir(parents=True)
        for name, content in run_folder().items():
            (folder / run / name).write_bytes(content)
    texts = {
        "e.csv": "time_s,node,event\n"
        + "".join(f"{t},node-0,fail\n{t + 60},node-0,return\n" for t in range(700, 4000, 300)),
        "r.toml": '[[maintenance]]\nnodes = ["node-0"]\nstart_s = 0\nend_s = 2000\n',
        "jobs.csv": "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,"
        "weight,tenant,deadline\na,100,gpt2,8,64,zero-dp,900,0,1,t,-1\n"
        "b,100,gpt2,8,64,zero-dp,500,0,1,u,-1\n",
        "promised.csv": "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,"
        "weight,tenant,deadline\na,100,gpt2,8,64,zero-dp,900,1,1,t,-1\n"
        "b,100,gpt2,8,64,zero-dp,500,1,1,u,-1\n",
        "t.csv": "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "1,4,0,1,m,90,0\n2,1,5,1,m,60,0\n3,4,9,1,m,30,0\n4,2,12,1,m,40,0\n",
        "cut.csv": "submit,gpus,duration\n2020-07-03 08:00:00,1,60\n2020-07-03 08:",
        "s.csv": "duration\n5\n300\n9000\n",
        "c.csv": "date,total\n2020-07-01,8\n2020-07-04,4\n",
        "p.csv": "name,time,application,num_replicas,batch_size\na,0,bert,1,8\n",
        "spot.csv": "job_name,organization,gpu_model,gpu_request,worker_num,submit_time,duration,"
        "job_type\n1,o,A800,1,1,0,90,HP\n2,o,T4,1,1,0,90,Spot\n",
        "one.swf": "1 0 0 90 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1\n",
        "list.json": json.dumps({"items": [WORKLOAD]}),
        "helios.csv": "job_id,user,vc,gpu_num,node_num,state,submit_time,start_time,end_time\n"
        "1,u,v,2,1,FAILED,2020-07-03 08:00:00,2020-07-03 08:00:00,2020-07-03 09:00:00\n"
        "2,u,v,2.5,1,FAILED,2020-07-03 07:00:00,2020-07-03 07:00:00,2020-07-03 09:00:00\n",
        "a.csv": "job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time\n"
        "1,u,1,2,t,FAILED,2020-07-03 08:00:00Z,2020-07-03 08:00:00Z,2020-07-03 09:00:00Z\n",
        "runs.csv": "shape,plan,iteration_s\n1,dp,0.9\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    state = json.loads((ROOT / "docs/schema/example-state.json").read_text())
    del state["rules"]
    (folder / "bare.json").write_text(json.dumps(state))
    state["cluster"]["nodes"].pop()
    past = {"attained_gpu_s": 50000, "starts": 1, "first_start_s": 20, "last_start_s": 20}
    both = [job | {"requested_gpus": 8, "guaranteed": True} for job in state["jobs"][1:3]]
    both.append(state["jobs"][3] | {"guaranteed": True})
    (folder / "promised.json").write_text(json.dumps(state | {"jobs": both}))
    old, new = (job | {"requested_gpus": 4} for job in (state["jobs"][0], state["jobs"][1]))
    del old["running"]
    served = old | past | {"executed_s": 700, "last_stop_s": 770}
    (folder / "served.json").write_text(json.dumps(state | {"jobs": [served, new]}))
    starved = new | past | {"submission_s": 5, "executed_s": 100, "last_stop_s": 300}
    (folder / "starved.json").write_text(json.dumps(state | {"jobs": [served, starved]}))
    problem = {
        "worker_types": ["v", "k"], "cluster": {"v": 1, "k": 4},
        "throughputs": [[4.0, 1.0], [3.0, 2.0]], "scale_factors": [1, 2],
        "weights": [1.0, 1.0], "num_steps_remaining": [100.0, 500.0],
    }  # fmt: skip
    solved = {"solutions": {"max_sum_throughput_perf": {"exact_objective": 1.0}}}
    cases = {"instances": [problem | solved | {"id": "a", "times_since_start": [0.0, 0.0]}]}
    (folder / "cases.json").write_text(json.dumps(cases))
    (folder / "share.json").write_text(json.dumps([problem | {"id": i} for i in ("a", "b")]))


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, ...], object]:
    """What command lines led to, so that a line that is compared with often runs once."""
    return {}


@pytest.fixture(autouse=True)
def _without_the_costliest_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay's summary has others, which show what an option changes in them."""
    monkeypatch.setattr(
        "morph_opt.simulation.metrics.bounds.lower.completion_jct_s", lambda *a: None
    )


def outcome(
    words: tuple[str, ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> object:
    """Exit status, what was printed and what was written."""
    inputs(folder)
    monkeypatch.chdir(folder)
    before = set(folder.rglob("*"))
    status = importlib.import_module(MAIN[words[0]]).main(words[1:])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    files = {
        re.sub(r"^runs/[^/]*", "runs", str(file.relative_to(folder))): written(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file not in before
    }
    return status, told(captured.out), told(captured.err), files


@pytest.mark.parametrize(("option", "base", "more"), ROWS, ids=[row[0] for row in ROWS])
def test_the_option_changes_something(
    option: str,
    base: str,
    more: str,
    seen: dict[tuple[str, ...], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = option.split(maxsplit=1)[0]
    assert (
        more.split(maxsplit=1)[0] == option.rsplit(maxsplit=1)[-1]
        or {"ASK", "EXACT"} & {*more.split()}
        or "CONFLICT" in more
    )
    for name, text in WHERE.items():
        base, more = (re.sub(rf"\b{name}\b", text, line) for line in (base, more))
    without = (command, *base.split())
    if without not in seen:
        seen[without] = outcome(without, tmp_path / "a", monkeypatch, capsys)
    found = outcome((*without, *more.split()), tmp_path / "b", monkeypatch, capsys)
    assert found != seen[without]


def test_every_option_has_a_line() -> None:
    shown = {row[0] for row in ROWS}
    for command in KNOWN:
        for fact in described(parser_of(command.name)):
            name = " ".join((command.name, *fact.words))
            tried = {name, f"{name} {fact.name}"} & set(ELSEWHERE)
            # Options of reading a log are one declaration, and tried where they are at home.
            reads = name in ("audit", "traces describe")
            tried |= {f"traces lint {fact.name}"} & shown if reads else set()
            if not (fact.required or fact.positional or tried):
                assert f"{name} {fact.name}" in shown
    assert not shown & set(ELSEWHERE)
