"""Every file that the package reads: a good one, who reads it, and a command that goes on."""

from __future__ import annotations

import gzip
import lzma
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from benchmarks.checks.robustness import documents as good
from benchmarks.checks.robustness import live, schedulers
from benchmarks.instances import library, solution
from benchmarks.instances.certificates import read_certificate
from benchmarks.instances.fleets import read_fleet_certificate
from benchmarks.perf.public_runs import read_public
from benchmarks.published.files import run_file
from benchmarks.published.parts import tiresias_samples
from benchmarks.readme import results
from morph_opt.compare.cli import read_noise
from morph_opt.core.domain import Cluster, default_cluster
from morph_opt.inputs.clusters.spec import read_cluster
from morph_opt.inputs.kueue.files import read_files
from morph_opt.inputs.perf.analytic.modelfile import entries_of, outlines_of, population_of
from morph_opt.inputs.perf.analytic.zoo import builtin_population
from morph_opt.inputs.perf.fitting.runs import read_runs
from morph_opt.inputs.perf.tables.gavel import read_throughputs
from morph_opt.inputs.slurm.conf import read_slurm_conf
from morph_opt.inputs.slurm.site import read_site_files
from morph_opt.inputs.topology.files import read_graph
from morph_opt.inputs.traces import easyscale, gavel, morphling, tiresias
from morph_opt.inputs.traces.logs.capacity import read_capacity
from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import log_format
from morph_opt.moves.following import read_steps
from morph_opt.plan.cli import read_prices
from morph_opt.replay.scenario import read_scenario
from morph_opt.round.live.sources import read_live
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.shares.share_file import read_instances
from morph_opt.simulation.engine.node_events import read_node_events
from morph_opt.simulation.runs.read import read_run
from morph_opt.simulation.runs.write import Recorded
from morph_opt.sweep.spec import read_list, read_spec
from tests.traces.logs.samples import PLAIN, SAMPLES, Sample

Command = tuple[str, tuple[str, ...]]
"""Name behind ``morph_opt.`` and words; ``{}`` is the file, ``{folder}`` its folder."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A format of files and its reader.

    Parameters
    ----------
    name
        Of the format, for reports.
    file
        Name of the file.
    kind
        How it is mutated, see `benchmarks.checks.robustness.mutate.mutated`.
    seeds
        Good contents.
    read
        The reader, given the path.
    use
        A command that reads such a file and goes on from there; None if no cheap one does.
    beside
        Other files that must stand in the folder: name and content.
    """

    name: str
    file: str
    kind: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    use: Command | None = None
    beside: Callable[[], dict[str, bytes]] = dict

    def place(self, folder: Path) -> Path:
        """Fill an empty folder with good files; the path of the one to be mutated."""
        for name, content in self.beside().items():
            (folder / name).write_bytes(content)
        path = folder / self.file
        path.write_bytes(self.seeds()[0])
        return path


def _text_reader(read: Callable[[str, str], object]) -> Callable[[Path], object]:
    """A reader of text; what stands before it reads the file as the command does."""

    def opened(path: Path) -> object:
        from morph_opt.inputs.perf.cli import make_parser  # the command owns the opening

        options = make_parser().parse_args(
            ["predict", "--model", good.MODEL, "--architecture", str(path), "--max-gpus", "2"]
        )
        options.run(options)
        return read(path.read_text("utf-8-sig"), str(path))

    return opened


@cache
def _home() -> Cluster:
    return default_cluster()


_TRACE = ("--cluster", "2x4", "--policy", "srtf", "--skip-impossible", "--quiet", "--out")
_ROUND = ("--state", "{}", "--time-limit-s", "1")


def _recorded(path: Path) -> object:
    return Recorded(path.parent)


def _finished(path: Path) -> object:
    run = read_run(path.parent)
    row = results.row_of(run, "x", None)
    return row, results.gpus_over_time(run), results.jct_quantiles_s(run), list(run.segments)


def _log(format_name: str, sample: Sample) -> Reader:
    """A log of a cluster: the linter takes what the strict reader refuses."""
    first = next(iter(sample.head or sample.lines))
    kind = "json" if first[:1] in "[{" else "csv" if "," in first else "lines"

    def read(path: Path) -> object:
        report = lint(path, format_name, sample.how)
        counted = report.report
        if counted.rows != counted.jobs + counted.dropped.total() + counted.folded:
            raise RuntimeError("a row is in no place, or in two")
        report.as_text()
        return list(Scan(path, log_format(format_name), sample.how, strict=True).jobs())

    file = Path(sample.name).name
    use = None if sample.how != PLAIN else ("traces", ("lint", "{}", "--format", format_name))
    beside = {Path(name).name: text.encode() for name, text in sample.beside.items()}
    seeds = [sample.text().encode()]
    return Reader(f"log {format_name}", file, kind, lambda: seeds, read, use, lambda: beside)


SLURM_CONF = b"""\
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=60,bf_window=2880
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
NodeName=n[1-4] CPUs=64
PartitionName=batch Nodes=n[1-4] Default=YES MaxTime=1-0
PartitionName=fast Nodes=n[3-4] PriorityTier=2
"""
SHARES = b"Account|ParentName|User|Share\nroot|||1\nml|root||2\nml||ann|3\n"
QOS = b"Name|Priority|GrpTRES|MaxJobsPU\nnormal|0||\nhigh|9|cpu=8,gres/gpu=4|2\n"
HINDCAST = (
    b'{"schema": "morph-opt/hindcast/1", "trace": "sacct:jobs.txt", "line": "hindcast: close",'
    b' "spreads": {"mean_wait_s": [1.5, 2.5]}}'
)
_SETTINGS = {"workload": {"trace": "sacct:jobs.txt"}}
RESERVATIONS = b"""\
ReservationName=upgrade StartTime=2027-01-01T01:00:00 EndTime=2027-01-01T02:00:00
   Nodes=n[1-4] NodeCnt=4 CoreCnt=256 Features=(null) Flags=MAINT,SPEC_NODES,DAILY
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE
"""
MOVES = (
    b'{"schema": "morph-opt/moves/1", "question": "start new", "status": "optimal", "steps": ['
    b'{"kind": "move", "job": "a", "from": [{"node": "n1", "gpus": [0, 1]}],'
    b' "to": [{"node": "n2", "gpus": [2, 3]}]},'
    b'{"kind": "start", "job": "new", "from": [], "to": [{"node": "n1", "gpus": [0, 1]}]}]}'
)
"""Answer of `moves`, as `live --moves` reads it."""

READERS = (
    *(_log(name, sample) for name, sample in SAMPLES.items()),
    Reader("capacity CSV", "capacity.csv", "csv",
           lambda: [b"date,a,total\n2020-07-01,8,8\n2020-07-02,4,4\n"],
           lambda p: read_capacity(p, "Asia/Shanghai")),
    Reader(
        "workload CSV", "jobs.csv", "csv", good.workload,
        lambda p: morphling.read_workload(p, name="own", models=("gpt2", "bert", "vit", "roberta")),
        ("replay", ("--trace", "{}", *_TRACE, "{folder}/out")),
    ),
    Reader(
        "measured table CSV", "placements.csv", "csv", good.measured, morphling.read_table,
    ),
    Reader("public runs CSV", "placements.csv", "csv", good.measured, read_public),
    Reader("Gavel trace", "gavel.trace", "tsv", good.gavel_trace, gavel.read_rows),
    Reader("Gavel throughputs JSON", "simulation_throughputs.json", "json", good.throughputs,
           read_throughputs,
           ("published.figures", ("gavel", "--trace", "{folder}/gavel.trace", "--table", "{}",
                                     "--gpus", "v100=2,k80=2")),
           lambda: {"gavel.trace": good.gavel_trace()[0]}),
    Reader("Tiresias trace", "60.csv", "csv", good.tiresias_trace, tiresias.read_trace_rows,
           ("published.figures", ("tiresias", "--trace", "{}", "--gpus", "8"))),
    Reader("EasyScale trace", "workload-test.csv", "csv", good.elastic_trace,
           easyscale.read_elastic_rows),
    Reader("EasyScale times", "overhead.csv", "csv", good.overhead, easyscale.read_overhead),
    Reader("Tiresias samples", "samples.csv", "csv", good.samples, tiresias_samples.read_samples),
    Reader("Kueue configuration JSON", "site.json", "json", schedulers.kueue_site,
           lambda p: read_files([str(p)])),
    Reader("slurm.conf", "slurm.conf", "lines", lambda: [SLURM_CONF], read_slurm_conf),
    Reader("Slurm site", "site.txt", "lines", lambda: [SHARES, QOS, RESERVATIONS],
           lambda p: read_site_files([p])),
    Reader("answer of moves JSON", "moves.json", "json", lambda: [MOVES], read_steps),
    Reader("hindcast JSON", "hindcast.json", "json", lambda: [HINDCAST],
           lambda p: read_noise(p, SimpleNamespace(name="run", settings=_SETTINGS))),
    Reader("cluster TOML", "cluster.toml", "toml", good.clusters, read_cluster,
           ("topology", ("show", "{}"))),
    Reader("cluster GraphML", "cluster.graphml", "lines", lambda: good.graphs(".graphml"),
           read_graph, ("topology", ("show", "{}"))),
    Reader("cluster node-link JSON", "cluster.json", "json", lambda: good.graphs(".json"),
           read_graph, ("topology", ("export", "{}", "--out", "{folder}/out.graphml"))),
    Reader("rules TOML", "rules.toml", "toml", good.rules, lambda p: read_rules(p, None),
           ("round", ("--state", "{folder}/state.json", "--rules", "{}", "--time-limit-s", "1")),
           lambda: {"state.json": good.snapshots()[0]}),
    Reader("node events CSV", "events.csv", "csv", good.node_events_csv,
           lambda p: read_node_events(p, _home())),
    Reader("node events JSONL", "events.jsonl", "json", good.node_events_jsonl,
           lambda p: read_node_events(p, _home()),
           ("replay", (*good.RUN, "--events", "{}", "--out", "{folder}/out"))),
    Reader("snapshot JSON", "state.json", "json", good.snapshots, read_snapshot,
           ("round", _ROUND)),
    Reader("snapshot JSON.gz", "state.json.gz", "json.gz",
           lambda: [gzip.compress(text, mtime=0) for text in good.snapshots()], read_snapshot),
    Reader("speeds JSON", "speeds.json", "json", good.speeds,
           lambda p: read_snapshot(p.with_name("state.json")),
           ("round", ("--state", "{folder}/state.json", "--time-limit-s", "1")),
           good.snapshot_beside_speeds),
    Reader("profiled runs CSV", "runs.csv", "csv", good.runs, read_runs,
           ("perf", ("plan-profiling", "--model", good.MODEL, "--max-gpus", "4", "--count", "1",
                    "--runs", "{}"))),
    Reader("model TOML", "model.toml", "toml", good.models, _text_reader(
        lambda text, file: (outlines_of(text, file, builtin_population()), entries_of(text, file),
                            population_of(text, file)))),
    Reader("share instances JSON", "shares.json", "json", good.shares, read_instances,
           ("shares", ("{}", "--policy", "fairness"))),
    Reader("MPS", "model.mps", "lines", good.mps, library.load_mps),
    Reader("MPS.gz", "model.mps.gz", "lines.gz",
           lambda: [gzip.compress(text, mtime=0) for text in good.mps()], library.load_mps),
    Reader("MPS.xz", "small.mps.xz", "lines.xz",
           lambda: [lzma.compress(text) for text in good.mps()], library.load_mps,
           ("instances", ("solve", "small", "--folder", "{folder}", "--time-limit-s", "1")),
           good.instance_files),
    Reader("round JSON.xz", "small.round.json.xz", "json.xz",
           lambda: [lzma.compress(text) for text in good.rounds()],
           lambda p: library.load_round(p.parent, "small"),
           ("instances", ("check", "small", "{folder}/small.sol", "--folder", "{folder}")),
           good.instance_files),
    Reader("solution", "small.sol", "lines", good.solutions,
           lambda p: solution.read_solution(p, library.load_mps(p.with_name("small.mps.xz"))),
           ("instances", ("check", "small", "{}", "--folder", "{folder}")),
           good.instance_files),
    Reader("instance table CSV", "library.csv", "csv", good.instance_table,
           lambda p: library.read_table(p.parent), ("instances", ("list", "--folder", "{folder}"))),
    Reader("bound certificate JSON", "bound.json", "json", good.certificates, read_certificate),
    Reader("fleet certificate JSON", "fleet.json", "json", good.fleet_certificates,
           read_fleet_certificate),
    Reader("run folder config.toml", "config.toml", "toml", good.run_file("config.toml"),
           read_scenario, ("replay", ("--resume", "{folder}", "--quiet")), good.run_folder),
    Reader("run folder events", "events.jsonl.partial", "json",
           good.run_file("events.jsonl.partial"), _recorded,
           ("replay", ("--resume", "{folder}", "--quiet")), good.run_folder),
    Reader("run folder rounds", "rounds.csv.partial", "csv", good.run_file("rounds.csv.partial"),
           _recorded, ("replay", ("--resume", "{folder}", "--quiet")), good.run_folder),
    Reader("run folder summary.json", "summary.json", "json", good.finished_file("summary.json"),
           _finished, None, good.finished_folder),
    Reader("run folder jobs.csv", "jobs.csv", "csv", good.finished_file("jobs.csv"), _finished,
           None, good.finished_folder),
    Reader("run folder rounds.csv", "rounds.csv", "csv", good.finished_file("rounds.csv"),
           _finished, None, good.finished_folder),
    Reader("run folder events.jsonl", "events.jsonl", "json", good.finished_file("events.jsonl"),
           _finished, None, good.finished_folder),
    Reader("squeue JSON", "jobs.json", "json", schedulers.squeue,
           lambda p: read_live(f"slurm:{p},{p.parent}/nodes.json"),
           ("round", ("--from", "slurm:{},{folder}/nodes.json", "--time-limit-s", "1")),
           lambda: {"nodes.json": schedulers.slurm_nodes()[0]}),
    Reader("Slurm nodes JSON", "nodes.json", "json", schedulers.slurm_nodes,
           lambda p: read_live(f"slurm:{p},{p.parent}/jobs.json"),
           ("round", ("--from", "slurm:{},{folder}/jobs.json", "--time-limit-s", "1")),
           lambda: {"jobs.json": schedulers.squeue()[0]}),
    Reader("Kueue workloads JSON", "w.json", "json", schedulers.workloads,
           lambda p: read_live(f"kueue:{p},{p.parent}/k.json"),
           ("round", ("--from", "kueue:{},{folder}/k.json", "--time-limit-s", "1")),
           lambda: {"k.json": schedulers.kubernetes()[0]}),
    Reader("Kubernetes objects JSON", "k.json", "json", schedulers.kubernetes,
           lambda p: read_live(f"kueue:{p},{p.parent}/w.json"),
           ("round", ("--from", "kueue:{},{folder}/w.json", "--time-limit-s", "1")),
           lambda: {"w.json": schedulers.workloads()[0]}),
    Reader("live.toml", "live.toml", "toml", live.settings, live.take_settings),
    Reader("live jobs.json", "jobs.json", "json", live.memories, live.take_memory, None,
           live.beside),
    Reader("live report JSON", "1.json", "json", live.reports, live.take_report, None,
           live.beside),
    Reader("live audit log", "audit.jsonl", "json", live.audits, live.take_audit,
           ("report", ("{folder}/run", "--out", "{folder}/report.html"))),
    Reader("sweep TOML", "sweep.toml", "toml", good.sweeps, read_spec),
    Reader("sweep list JSON", "sweep.json", "json", good.sweep_list, read_list),
    Reader("prices TOML", "prices.toml", "toml", good.prices, read_prices),
    Reader("capacity CSV", "capacity.csv", "csv", good.capacity, lambda p: read_capacity(p, "UTC")),
    Reader("published cases JSON", "cases.json", "json", good.cases, run_file,
           ("published", ("{}", "--json"))),
    Reader("README results.json", "results.json", "json", good.readme_results,
           lambda p: results.load(p.parent), None, good.readme_files),
)  # fmt: skip
"""All of them; a reader that is missing here fails `test_fuzz.test_every_reader_is_registered`."""


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def filled(command: Command, path: Path) -> tuple[str, list[str]]:
    """A command with the file's name in it."""
    name, words = command
    return name, [w.replace("{}", str(path)).replace("{folder}", str(path.parent)) for w in words]
