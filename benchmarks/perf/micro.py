"""The three micro-benchmarks of the public Morphling artifact, with our round MILP.

Each writes a table and a figure under ``reports/perf/``::

    python -m benchmarks.perf.micro reconfigure   # LLaMA-2-7B under shrinking limits (Figure 7)
    python -m benchmarks.perf.micro two-jobs      # RoBERTa and T5-3B on four GPUs (Figure 8)
    python -m benchmarks.perf.micro batch         # the global batch over changes (Figure 9)

The first needs the public data (`MORPH_OPT_DATA`). The second takes the speeds that Figure 8 prints
where they are not at hand.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.perf.batch import split_batch
from benchmarks.perf.figures import dot_rows, over_time
from benchmarks.perf.public_runs import public_plan, read_public
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import LINES_BYTES, read_text
from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    RoundState,
    Shape,
    Span,
    Trace,
)
from morph_opt.core.table import Table
from morph_opt.inputs.data import find, locate
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Started

GPU = A800_NODE.gpu_type.name
LLAMA = "llama7b_bsz16"
LLAMA_BATCH = 16


# --- (a) reconfigure ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """Resources that the job may have: equal nodes, CPU threads per GPU."""

    name: str
    nodes: int
    gpus: int
    threads: int

    def shape(self) -> Shape:
        """All of it."""
        return Shape((self.gpus,) * self.nodes)


LIMITS = (
    Limit("4 x 8 GPUs", 4, 8, 2),
    Limit("4 x 4 GPUs", 4, 4, 2),
    Limit("4 GPUs", 1, 4, 2),
    Limit("1 GPU", 1, 1, 2),
    Limit("1 GPU, twice the CPUs", 1, 1, 4),
)


def llama_table(root: Path, threads: int) -> MeasuredTable:
    """Measured times with so many CPU threads per GPU; rows with time 0 ran out of memory."""
    file = root / "simulator" / "traces" / LLAMA / "placements.csv"
    rows = []
    for row in csv.DictReader(file.read_text(encoding="utf-8-sig").splitlines()):
        seconds, shape = float(row["iter_time"]), Shape.of(*map(int, row["placement"]))
        if seconds > 0.0 and int(row["cpu_threads"]) == threads:
            plan = public_plan(row["exec_plan"], shape.gpus)
            rows.append(Measurement(LLAMA, GPU, shape, plan, seconds))
    return MeasuredTable(rows)


def static_plans(limit: Limit) -> dict[str, ExecutionPlan]:
    """What the four static strategies would use (as in the artifact)."""
    total = limit.nodes * limit.gpus
    found = {
        "TP+DP": ExecutionPlan.three_d(1, limit.gpus, limit.nodes),
        "TP+PP": ExecutionPlan.three_d(limit.nodes, limit.gpus, 1),
        "ZeRO-Offload+GC": ExecutionPlan.parse("zero-offload+gc"),
    }
    if total % 4 == 0:
        found["Megatron 3D"] = ExecutionPlan.three_d(2, 2, total // 4)
    return found


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The MILP's choice under a limit, with the static strategies' times (None: cannot run)."""

    limit: Limit
    plan: ExecutionPlan
    iteration_s: float
    status: str
    static_s: dict[str, float | None]


def reconfigure(root: Path) -> list[Reconfigured]:
    """Micro-benchmark (a): the same job under each limit."""
    found = []
    for limit in LIMITS:
        node = replace(
            A800_NODE, name=f"a800-x{limit.gpus}", gpus=limit.gpus, cpus=limit.gpus * limit.threads
        )
        table = llama_table(root, limit.threads)
        asked = ExecutionPlan.parse("zero-offload+gc")
        job = Job(LLAMA, LLAMA, 0.0, 1000, 1, asked, cpus_per_gpu=limit.threads)
        state = round_of(Cluster.uniform(limit.nodes, node), job)
        decision = make_policy(
            "milp", table, PolicyOptions(objective="throughput", gap=0.0)
        ).decide(state)
        held = decision.allocation.assignments[0]
        chosen = (held.placement.shape, held.plan)
        seconds = table.iteration_s(LLAMA, node, *chosen, Span.LEAF)
        assert seconds is not None
        static = {
            name: table.iteration_s(LLAMA, node, limit.shape(), plan, Span.LEAF)
            for name, plan in static_plans(limit).items()
        }
        found.append(Reconfigured(limit, held.plan, seconds, decision.report.status, static))
    return found


def round_of(cluster: Cluster, *jobs: Job) -> RoundState:
    """The first round of these jobs on an empty cluster, without start-up costs."""
    return RoundState(0, 60.0, 60.0, cluster, tuple(JobState(job) for job in jobs))


STRATEGIES = ("TP+DP", "TP+PP", "Megatron 3D", "ZeRO-Offload+GC")


def write_reconfigure(found: Sequence[Reconfigured], out: Path) -> list[Path]:
    """Table and figure of (a)."""
    rows = []
    for row in found:
        static = [row.static_s.get(name) for name in STRATEGIES]
        cells = ("-" if seconds is None else f"{seconds:g}" for seconds in static)
        rows.append((row.limit.name, str(row.plan), f"{row.iteration_s:g}", *cells))
    lines = [
        *_head("reconfigure", "Figure 7: LLaMA-2-7B under shrinking limits, global batch 16"),
        "Seconds per iteration (measured); `-`: cannot run. The plan is what the round MILP "
        "chooses, proven optimal.",
        "",
        Table(("limit", "our plan", "ours", *STRATEGIES), rows, align="llr").to_markdown(),
    ]
    table, figure = out / "micro-reconfigure.md", out / "micro-reconfigure.svg"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    series = {"round MILP": [LLAMA_BATCH / row.iteration_s for row in found]}
    for name in STRATEGIES:
        times = [row.static_s.get(name) for row in found]
        series[name] = [0.0 if t is None else LLAMA_BATCH / t for t in times]
    dot_rows(
        [row.limit.name for row in found], series, "samples per second (0: cannot run)", figure
    )
    return [table, figure]


# --- (b) two jobs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shared:
    """GPUs, plan and normalised throughput of both jobs under one way to share."""

    name: str
    gpus: tuple[int, int]
    plans: tuple[ExecutionPlan, ExecutionPlan]
    normalised: tuple[float, float]

    @property
    def total(self) -> float:
        """Sum of the normalised throughputs."""
        return sum(self.normalised)


PAIR = ("roberta", "t5_3B")
FOUR = 4
FIGURE_8 = Path(__file__).resolve().parents[2] / "docs" / "schema" / "figure-8.json"
"""Snapshot with the speeds that the figure prints (artifact, ``Figure8.md`` at 24d6671).

An iteration on four GPUs under the usual plan takes a second there, so times are 1 over speed-ups.
"""


def pair_table(root: Path | None) -> MeasuredTable:
    """Return the times of both models: measured ones, or those of Figure 8 without a folder."""
    if root is None:
        rows = json.loads(read_text(FIGURE_8, LINES_BYTES))["speeds"]["rows"]
        names = dict(zip(dict.fromkeys(row["model"] for row in rows), PAIR, strict=True))
        return MeasuredTable(
            Measurement(
                names[row["model"]],
                GPU,
                Shape.parse(row["shape"]),
                ExecutionPlan.parse(row["plan"]),
                row["iteration_s"],
            )
            for row in rows
        )
    return MeasuredTable(
        Measurement(name, GPU, run.shape, run.plan, run.iteration_s)
        for name in PAIR
        for run in read_public(root / "simulator" / "traces" / name / "placements.csv")[0]
    )


ASKED = (ExecutionPlan.parse("dp+ga"), ExecutionPlan.parse("pp1-tp4-dp1+ga"))
NODE = replace(A800_NODE, name="a800-x4", gpus=FOUR)


def two_jobs(root: Path | None) -> tuple[Shared, Shared, float]:
    """Return equal split, the MILP's answer, and the best sum by enumeration: benchmark (b)."""
    table = pair_table(root)
    speeds = (_speeds(table, 0), _speeds(table, 1))
    halves = tuple(max(of[2].items(), key=lambda item: item[1]) for of in speeds)
    equal = Shared(
        "equal split", (2, 2), (halves[0][0], halves[1][0]), (halves[0][1], halves[1][1])
    )
    best = max(
        sum(max(of[gpus].values(), default=0.0) for of, gpus in zip(speeds, counts, strict=True))
        for counts in itertools.product(range(FOUR + 1), repeat=2)
        if sum(counts) <= FOUR
    )
    return equal, _by_milp(table, speeds), best


def _speeds(table: MeasuredTable, index: int) -> list[dict[ExecutionPlan, float]]:
    """For 0 to 4 GPUs, the normalised throughput of each plan of a job."""
    reference = table.iteration_s(PAIR[index], NODE, Shape.of(FOUR), ASKED[index], Span.NODE)
    assert reference is not None
    rows = table.configurations(PAIR[index], NODE, FOUR, Span.LEAF)
    return [
        {row.plan: reference / row.iteration_s for row in rows if row.shape.parts == (gpus,)}
        for gpus in range(FOUR + 1)
    ]


def _by_milp(table: MeasuredTable, speeds: Sequence[list[dict[ExecutionPlan, float]]]) -> Shared:
    jobs = [Job(name, name, 0.0, 1000, FOUR, plan) for name, plan in zip(PAIR, ASKED, strict=True)]
    policy = make_policy("milp", table, PolicyOptions(objective="throughput", gap=0.0))
    held = policy.decide(round_of(Cluster.uniform(1, NODE), *jobs)).allocation.by_job()
    first, second = (held[name] for name in PAIR)
    gpus = (first.placement.gpus, second.placement.gpus)
    return Shared(
        "round MILP",
        gpus,
        (first.plan, second.plan),
        (speeds[0][gpus[0]][first.plan], speeds[1][gpus[1]][second.plan]),
    )


_MEASURED = (
    "The times are the public ones, among them RoBERTa's row on one GPU, which did half of the "
    "global batch (see protocol.md)."
)
_PRINTED = "The speeds are those that Figure 8 prints, to two digits."


def write_two_jobs(
    found: tuple[Shared, Shared, float], out: Path, speeds: str = _MEASURED
) -> list[Path]:
    """Write table and figure of (b), with a sentence on its speeds."""
    equal, ours, best = found
    header = (
        "policy",
        "RoBERTa GPUs, plan",
        "RoBERTa speed",
        "T5-3B GPUs, plan",
        "T5-3B speed",
        "sum",
    )
    rows = [
        (
            row.name,
            f"{row.gpus[0]}, {row.plans[0]}",
            f"{row.normalised[0]:.2f}",
            f"{row.gpus[1]}, {row.plans[1]}",
            f"{row.normalised[1]:.2f}",
            f"{row.total:.4f}",
        )
        for row in (equal, ours)
    ]
    lines = [
        *_head("two-jobs", "Figure 8: RoBERTa and T5-3B on four GPUs"),
        "Throughput relative to the same job alone on four GPUs with its usual plan. Best of all "
        f"ways to share, by enumeration: {best:.4f}.",
        "",
        speeds,
        "",
        Table(header, rows, align="llrlrr").to_markdown(),
    ]
    table, figure = out / "micro-two-jobs.md", out / "micro-two-jobs.svg"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    series = {row.name: [*row.normalised, row.total] for row in (equal, ours)}
    unit = "throughput (times that on four GPUs alone)"
    dot_rows(["RoBERTa", "T5-3B", "sum"], series, unit, figure)
    return [table, figure]


# --- (c) the global batch ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogLine:
    """One start or change of a job, with the split of its batch."""

    time_s: float
    job: str
    model: str
    gpus: int
    plan: ExecutionPlan
    ranks: int
    samples: int

    @property
    def global_batch(self) -> int:
        """Samples per iteration."""
        return self.ranks * self.samples


def batch_log(jobs: int = 60) -> list[LogLine]:
    """Micro-benchmark (c): every start in a replay of the Base twin's first jobs.

    Restarts cost 60 s here, so that the policy reconfigures more often than it otherwise would.
    """
    loaded = load_trace("base")
    trace = Trace(loaded.trace.name, loaded.trace.jobs[:jobs])
    policy = make_policy("milp", loaded.truth, PolicyOptions(objective="jct"))
    cluster = Cluster.uniform(2, A800_NODE)
    fitting = Trace(trace.name, tuple(j for j in trace.jobs if j.requested_gpus <= cluster.gpus))
    result = replay(
        fitting, cluster, policy, loaded.truth, ReplayConfig(interval_s=60.0, restart_s=60.0)
    )
    model = {job.name: job.model for job in fitting.jobs}
    found = []
    for event in result.events:
        if isinstance(event, Started):
            name = model[event.job]
            architecture = builtin_model().entry(name).architecture
            split = split_batch(architecture, event.placement.shape, event.plan)
            found.append(
                LogLine(
                    event.time_s,
                    event.job,
                    name,
                    event.placement.gpus,
                    event.plan,
                    split.ranks,
                    split.samples,
                )
            )
    return found


def write_batch(found: Sequence[LogLine], out: Path) -> list[Path]:
    """Table of the jobs that were reconfigured most, and figure of (c)."""
    often = sorted(
        {line.job for line in found},
        key=lambda job: (-sum(line.job == job for line in found), job),
    )[:5]
    shown = [line for line in found if line.job in often]
    rows = [
        (
            f"{line.time_s:g}",
            line.job,
            line.gpus,
            str(line.plan),
            f"{line.ranks} x {line.samples}",
            line.global_batch,
        )
        for line in sorted(shown, key=lambda line: (often.index(line.job), line.time_s))
    ]
    header = ("time, s", "job", "GPUs", "plan", "ranks x samples", "global batch")
    lines = [
        *_head("batch", "Figure 9: the global batch over a reconfiguration log"),
        "A replay of the Base twin's first jobs on 16 GPUs. A start or change keeps the global "
        "batch if it is that of its model:",
        "",
        Table(
            ("starts and changes", "models", "pairs of model and global batch"),
            [
                (
                    len(found),
                    len({line.model for line in found}),
                    len({(line.model, line.global_batch) for line in found}),
                )
            ],
        ).to_markdown(),
        "",
        "The five jobs that were reconfigured most:",
        "",
        Table(header, rows, align="rlrlrr").to_markdown(),
    ]
    table, figure = out / "micro-batch.md", out / "micro-batch.svg"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    one = [line for line in shown if line.job == often[0]]
    panels = {
        "GPUs": [float(line.gpus) for line in one],
        "samples per rank and iteration": [float(line.samples) for line in one],
        "global batch (samples per iteration)": [float(line.global_batch) for line in one],
    }
    # How long the last holds is not in the log: as long as those before it, in the mean.
    begins_h = [line.time_s / 3600.0 for line in one]
    end_h = begins_h[-1] + (begins_h[-1] - begins_h[0]) / max(1, len(one) - 1)
    over_time([*begins_h, end_h], panels, f"{often[0]}: starts and changes", figure)
    return [table, figure]


def _head(command: str, title: str) -> list[str]:
    return [
        f"<!-- generated by `python -m benchmarks.perf.micro {command}`; do not edit -->",
        "",
        f"# {title}",
        "",
    ]


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.perf.micro", description=__doc__)
    parser.add_argument("which", choices=("reconfigure", "two-jobs", "batch"))
    parser.add_argument("--out", type=Path, default=Path("reports/perf"))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one micro-benchmark and write its files."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    if options.which == "reconfigure":
        written = write_reconfigure(reconfigure(locate("morphling")), options.out)
    elif options.which == "two-jobs":
        root = find("morphling")
        speeds = _PRINTED if root is None else _MEASURED
        written = write_two_jobs(two_jobs(root), options.out, speeds)
    else:
        written = write_batch(batch_log(), options.out)
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
