"""Every option has an effect: with it a command ends, prints or writes something else.

What only repeats the options (`config.toml`, digests, labels of a summary) and what is measured on
a clock does not count. An option that several commands share is one declaration, and tried once.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from morph_opt.commands import COMMANDS
from tests.commands.described import OptionFacts, described
from tests.known import MAIN, parser_of
from tests.moves.states import HELD, document

ROOT = Path(__file__).parents[2]
TOY = "replay --trace tests.engine.toys:trace/6"
FIFO = f"{TOY} --policy tests.engine.toys:make_fifo"
SHUFFLE = f"{TOY} --policy tests.engine.toys:make_shuffler --cluster 2x4"
MILP = f"{TOY} --cluster 2x4"
ASK = "--solver tests.commands.fakes:Recorder"
EXACT = f"--method exact {ASK}"
LOG = "replay --policy fifo --trace"
TWIN = f"{LOG} acme-twin --restart-s 0 --until-s 1200"
NAIVE = "replay --trace naive --policy srtf --until-s 2000"
PAIRS = "replay --trace gavel-96 --interval 3600 --until-s 15000"
STATE = f"round --state {ROOT}/docs/schema/example-state.json"
PLAN = "perf plan-profiling --model bert"

ROWS = {
    FIFO: "--cluster 2x4 | --prices A800-80GB=2 | --nodes 1 | --gpu-type V100 | --interval 120"
    " | --rounds events"
    "| --restart-s 10 | --events e.csv | --mtbf-s 4000 --mttr-s 300 | --mttr-s 300 --mtbf-s 4000"
    "| --until-s 1000 | --out elsewhere | --json | --quiet | --watch | --from-state bare.json",
    f"{FIFO} --nodes 1": "--gpus-per-node 4 | --rules r.toml",
    f"{FIFO} --cluster 1x2": "--skip-impossible",
    f"{FIFO} --cluster 2x4": "--seed 2",
    f"{FIFO} --mtbf-s 4000 --mttr-s 300": "--failure-seed 2",
    f"{FIFO} --events e.csv --restart-s 10": "--checkpoint-s 1",
    "replay --policy srtf --until-s 2000": "--trace naive",
    "replay --trace nope": "--resume nothing",
    SHUFFLE: "--resume-s 10 | --migrate-s 10 | --lost-work 50 | --at-stop checkpoint",
    TWIN: "--jobs 20 --gpus 8 | --gpus 8 --jobs 20 | --days 0.01 --jobs 20 --gpus 8",
    f"{LOG} helios:helios.csv": "--jobs-as anchored | --timezone UTC | --gpu-shares round-up"
    "| --only completed | --first-start-s 60",
    "replay --trace helios:helios.csv --jobs-as anchored": "--scaling amdahl:0.5",
    f"{LOG} helios:helios.csv --jobs-as sampled": "--mix bert=1",
    f"{LOG} spot:spot.csv --skip-impossible": "--gpu-types ignore",
    f"{LOG} spot:spot.csv --gpu-types ignore": "--guarantee HP",
    f"{LOG} pollux:p.csv": "--run-s bert=60",
    f"{LOG} swf:one.swf": "--procs-per-gpu 2",
    f"{LOG} sacct:helios.csv": "--columns xdmod",
    f"{LOG} kueue:list.json": "--gpu-resource amd.com/gpu",
    f"{LOG} table:cut.csv": "--malformed drop",
    NAIVE: "--cpus-per-node 8 | --host-memory-gib 1 | --nvlink-gb-per-s 20 | --rdma-gb-per-s 1",
    MILP: "--policy srtf | --objective las | --rules r.toml | --belief model",
    f"{MILP} --method exact": ASK,
    f"{MILP} {ASK}": "--method exact",
    f"{MILP} {EXACT}": "--formulation node_assignment | --gap 0.5 | --time-limit-s 77"
    "| --node-limit 77",
    f"{MILP} {EXACT} --until-s 2400": "--solver-seed 7",
    f"{MILP} --objective lookahead": "--durations blind",
    f"{MILP} --objective jct": "--durations noisy:2",
    f"{MILP} --objective las": "--online-fit",
    f"{MILP} --until-s 2400": "--explain | --dump-rounds d | --audit-rounds 2",
    f"{MILP} --until-s 2400 --dump-rounds d": "--dump-every 2 | --dump-gz",
    "replay --trace promised.csv --nodes 1 --interval 600": "--promises rank",
    f"{MILP} --until-s 2400 --rules stays.toml": "--plan-ahead promised",
    PAIRS: "--packing",
    f"{PAIRS} --objective jct --packing": "--belief measured:0.6",
    f"{PAIRS} --policy gavel:gandiva": "--packing",
    f"{PAIRS} --cluster 1x4:V100 --policy gandiva": "--packing",
    f"{PAIRS} --policy gavel:gandiva --packing": "--solver-seed 7",
    "replay --trace easyscale-twin --gap 0.01 --until-s 540": "--waste-filter 0.01",
    f"replay --trace jobs.csv --nodes 1 --objective hierarchical --interval 600 {EXACT}": (
        "--entity-weights u=50"
    ),
    "replay --trace search-twin --objective feedback --restart-s 20 --until-s 5200": (
        "--feedback-share 0.2"
    ),
    "replay --trace tiresias-480 --policy tiresias:2d-las --interval 600 --until-s 20000": (
        "--starvation-knob 0.1"
    ),
    "replay --trace search-twin --policy easy --durations limits:exact --until-s 4000": (
        "--rules r.toml"
    ),
    "round --state bare.json": "--policy equal_split",
    "round": "--state bare.json | --from slurm:none,none",
    STATE: "--why alice-1 | --explain | --format text | --write-model m.lp | --indent 2"
    f"| --rules {ROOT}/docs/schema/example-conflict.toml | --packing",
    f"{STATE} --explain": "--explain-jobs 0 | --explain-nodes",
    f"{STATE} {EXACT}": "--seed 7",
    "moves --state full.json": "--start new | --free 1x4GPUs | --drain n1 | --slots 4",
    "moves --start new": "--state full.json | --from slurm:none,none",
    "moves --state full.json --start new": "--most-moves 1 | --exempt ?2 | --checkpoint-s 400"
    "| --rules fixed.toml | --format json | --picture p.svg | --solver nope",
    "moves --state full.json --start new --most-moves 1": "--may-stop *",
    "moves --state full.json --start new --format json": "--indent 2",
    "moves --state full.json --free 1x4GPUs": "--table",
    "moves --state full.json --drain n1": "--until-s 9999",
    f"moves --state full.json --start new {ASK}": "--gap 0.5 | --time-limit-s 77",
    "report.picture timeline run --out t.svg": "--colour size",
    "report.picture cdf run --out c.svg": "--of stretch",
    "compare run again": "--out a.html | --markdown | --hindcast none.json",
    "report run": "--out other.html",
    "export run --to perfetto": "--out x.json.gz",
    "export run --to batsim": "--per-job",
    "export run --to tables": "--format parquet",
    "traces lint helios.csv": "--format sacct | --cluster 1x2 | --capacity c.csv | --json r.json",
    "traces lint helios.csv --json r.json": "--rows",
    "traces capacity c.csv --trace helios:helios.csv --cluster 1x8": "--out e2.csv",
    "traces describe helios.csv": "--format sacct | --out page",
    "traces describe helios.csv --out page": "--pictures pdf",
    "audit helios:helios.csv": "--cluster 1x8",
    "audit run:run": "--every 60",
    "audit run:run --every 60": "--json a.json | --picture a.svg",
    "hindcast helios:helios.csv --cluster 1x8 --policy fifo": "--replays 2 | --seed 1 | --json"
    "| --quiet",
    PLAN: "--max-gpus 1 | --without-phases --max-gpus 4",
    f"{PLAN} --max-gpus 1": "--architecture none | --runs runs.csv | --count 2",
    "perf fit --model bert --runs none --out m": "--architecture other",
    "perf plot --model bert --runs none --out m.svg": "--architecture other",
    "perf predict --model bert": "--architecture none | --runs none | --shape 2 | --plan dp+gc"
    "| --max-gpus 2",
    "perf memory llama7 dp 8": "--gpu V100",
    "shares share.json": "--policy makespan | --id b | --oversize",
}
"""Options to try, by the command line without them; what else an option needs follows it."""

ELSEWHERE = {
    "explain": "of a finished run; tests/explain",
    "plan": "replays by the dozen; tests/plan",
    "live": "next to a pretended Slurm; tests/live",
    "sweep": "starts processes; tests/sweep",
    "data": "uses the network; tests/data has a server",
    "round --snapshot": "of what a scheduler answers; tests/round/live",
    "replay --allow-code": "tests/replay, with run folders that name code",
}
"""Commands and options that are tried where it is cheap."""

ECHO = {
    "trace", "trace_sha256", "objective", "policy", "solver", "cluster", "belief", "seed", "config",
    "restart_s", "interval_s", "peak_rss_mib", "wall_s", "trace_notice",
}  # fmt: skip
CLOCK = re.compile(r".*_ms(_.*)?$")


def plain(record: dict[str, object]) -> dict[str, object]:
    """Return a record without what repeats an option and what a clock measured."""
    return {k: v for k, v in record.items() if k not in ECHO and not CLOCK.match(k)}


def told(text: str) -> list[str]:
    """Return the lines of an output without clocks and labels."""
    kept = []
    for line in text.splitlines():
        if line.startswith("{") and line.endswith("}"):
            kept.append(json.dumps(plain(json.loads(line))))
        elif not re.match(r"^(seconds|solver|median round|wall time|cluster|run folder)", line):
            kept.append(re.sub(r"(run|[0-9a-f]{8})$", "", line))
    return kept


def written(file: Path) -> object:
    """Return the content of a file without clocks and labels."""
    if file.name in ("config.toml", "versions.json"):
        return None
    if file.name == "summary.json":
        return plain(json.loads(file.read_text()))
    if file.name == "rounds.csv":
        return [plain(dict(row)) for row in csv.DictReader(file.read_text().splitlines())]
    return told(file.read_text()) if file.suffix == ".jsonl" else file.read_bytes()


NEWS = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight,tenant"
FAILURES = [f"{t},node-0,fail\n{t + 60},node-0,return" for t in range(700, 4000, 300)]
CONTAINER = {"resources": {"limits": {"amd.com/gpu": 1}}}
WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "a", "creationTimestamp": "2024-05-01T08:00:00Z"},
    "spec": {"podSets": [{"template": {"spec": {"containers": [CONTAINER]}}}]},
}
SHARES = {
    "worker_types": ["v", "k"], "cluster": {"v": 1, "k": 4}, "scale_factors": [1, 2],
    "throughputs": [[4.0, 1.0], [3.0, 2.0]], "weights": [1.0, 1.0],
    "num_steps_remaining": [100.0, 500.0],
}  # fmt: skip
FILES = {
    "e.csv": "\n".join(["time_s,node,event", *FAILURES, ""]),
    "stays.toml": '[[non_preemptible]]\njobs = ["*"]\n',
    "r.toml": '[[maintenance]]\nnodes = ["node-0"]\nstart_s = 0\nend_s = 2000\n',
    "jobs.csv": f"{NEWS},deadline\n"
    "a,100,gpt2,8,64,zero-dp,900,0,1,t,-1\nb,100,gpt2,8,64,zero-dp,500,0,1,u,-1\n",
    "promised.csv": f"{NEWS},deadline\n"
    "a,100,gpt2,8,64,zero-dp,900,1,1,t,-1\nb,100,gpt2,8,64,zero-dp,500,1,1,u,-1\n",
    "cut.csv": "submit,gpus,duration\n2020-07-03 08:00:00,1,60\n2020-07-03 08:",
    "c.csv": "date,total\n2020-07-01,8\n2020-07-04,4\n",
    "p.csv": "name,time,application,num_replicas,batch_size\na,0,bert,1,8\n",
    "spot.csv": "job_name,organization,gpu_model,gpu_request,worker_num,submit_time,duration,"
    "job_type\n1,o,A800,1,1,0,90,HP\n2,o,T4,1,1,0,90,Spot\n",
    "one.swf": "1 0 0 90 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1\n",
    "list.json": json.dumps({"items": [WORKLOAD]}),
    "helios.csv": "job_id,user,vc,gpu_num,node_num,state,submit_time,start_time,end_time\n"
    "1,u,v,2,1,FAILED,2020-07-03 08:00:00,2020-07-03 08:00:00,2020-07-03 09:00:00\n"
    "2,u,v,2.5,1,FAILED,2020-07-03 07:00:00,2020-07-03 07:00:00,2020-07-03 09:00:00\n",
    "runs.csv": "shape,plan,iteration_s\n1,dp,0.9\n",
    "full.json": json.dumps(document(HELD, {"new": 4})),
    "fixed.toml": '[[non_preemptible]]\njobs = ["?2"]\n',
    "share.json": json.dumps([SHARES | {"id": i} for i in ("a", "b")]),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the small files that the rows name, and of two runs."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    state = json.loads((ROOT / "docs/schema/example-state.json").read_text())
    del state["rules"]
    (folder / "bare.json").write_text(json.dumps(state))
    for run in ("run", "again"):
        words = [*FIFO.split()[1:], "--out", str(folder / run), "--quiet"]
        assert importlib.import_module(MAIN["replay"]).main(words) == 0
    return folder


@pytest.fixture(autouse=True)
def _without_the_costliest_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay's summary has others, which show what an option changes in them."""
    monkeypatch.setattr(
        "morph_opt.simulation.metrics.bounds.lower.completion_jct_s", lambda *a: None
    )


@pytest.mark.parametrize("base", ROWS)
def test_options_change_what_a_command_prints_or_writes(
    base: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def outcome(words: list[str], folder: Path) -> object:
        shutil.copytree(inputs, folder)
        monkeypatch.chdir(folder)
        before = set(folder.rglob("*"))
        status = importlib.import_module(MAIN[words[0]]).main(words[1:])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        new = sorted(file for file in set(folder.rglob("*")) - before if file.is_file())
        names = [re.sub(r"^runs/[^/]*", "runs", str(file.relative_to(folder))) for file in new]
        files = dict(zip(names, map(written, new), strict=True))
        return status, told(captured.out), told(captured.err), files

    without = outcome(base.split(), tmp_path / "base")
    for place, more in enumerate(ROWS[base].split("|")):
        assert outcome([*base.split(), *more.split()], tmp_path / str(place)) != without, more


def options(command: str) -> Iterator[OptionFacts]:
    """Yield the options of a command that may be left out."""
    for fact in described(parser_of(command)):
        if not (fact.required or fact.positional):
            yield fact


def test_every_option_is_in_a_row() -> None:
    shown = set()
    for base, rows in ROWS.items():
        command, *words = base.split()
        known = {
            fact.name: fact.help
            for fact in options(command)
            if [*fact.words] == words[: len(fact.words)]
        }
        shown |= {(name, known[name]) for name in (more.split()[0] for more in rows.split("|"))}
    left = {
        f"{command.name} {fact.name}"
        for command in COMMANDS
        for fact in options(command.name)
        if (fact.name, fact.help) not in shown and command.name not in ELSEWHERE
    }
    assert left == {name for name in ELSEWHERE if "--" in name}
