"""Jobs from logs as a replay takes them, with an account of all that was assumed.

A log has one pair of GPUs and run time per job. Iterations, model, plan and scaling are not in it
and cannot be identified from it: they are assumed in one of three ways, which the account states.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path

from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, Job, Span, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang, GangTable, curve_of
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.logs.reading.reader import Reader
from morph_opt.inputs.traces.logs.reading.report import ROUND_S, Account, Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.options import LogOptions
from morph_opt.inputs.traces.requested import RequestedSpeeds

_SHOWN_KINDS = 12


def _require_mapping(mapped: LogOptions) -> None:
    """Refuse unknown models, empty shares and an unknown scaling curve."""
    known = builtin_model().models()
    for model, share in (mapped.mix or {}).items():
        if model not in known:
            raise InputError(unknown("model", model, known), field="mix")
        if share <= 0.0:
            raise InputError(f"must have shares above 0, got {model}={share:g}", field="mix")
    if mapped.jobs_as == "anchored":
        curve_of(_scaling(mapped))


def _scaling(mapped: LogOptions) -> str:
    """Return the curve of anchored jobs; see `morph_opt.inputs.perf.tables.gangs.curve_of`."""
    return mapped.scaling or "linear"


Read = Callable[[Path, type[Reader], Reading], tuple[list[LogRow], Scan]]
"""Function that reads the rows of a log that become jobs, and the pass that it made."""


def ended_rows(path: Path, known: type[Reader], how: Reading) -> tuple[list[LogRow], Scan]:
    """Return the rows of jobs that have ended."""
    scan = Scan(path, known, how)
    return list(scan.jobs()), scan


def load_log(
    path: Path,
    known: type[Reader],
    how: Reading,
    mapped: LogOptions,
    *,
    name: str,
    seed: int = 0,
    terms: Mapping[str, str] | None = None,
    read_rows: Read = ended_rows,
) -> LoadedTrace:
    """Load the jobs of a log, with their speeds.

    Parameters
    ----------
    path, known, how
        The log, its format, and how it is read.
    mapped
        Options of how rows become jobs.
    name
        Name for the user.
    seed
        Seed of ``sampled`` jobs.
    terms
        Licence and citation of a published log.
    read_rows
        Reads the rows: by default those of jobs that have ended.

    Raises
    ------
    InputError
        For the first malformed row, if no job is left, or if neither log nor user states run
        times.
    """
    _require_mapping(mapped)
    if "procs_per_gpu" in known.needed and how.procs_per_gpu is None:
        rule = f"is needed: format {known.name} counts processors and knows no GPUs"
        raise InputError(rule, field="procs_per_gpu")
    read, scan = read_rows(path, known, how)
    rows = [_timed(row, mapped, str(scan.path)) for row in read]
    account = Account(scan.report, [], [], terms or {})
    if not rows:
        dropped = account.lines()["dropped"] if scan.report.rows else "none of its 0 rows"
        raise InputError(f"has no job: dropped are {dropped}", file=str(path))
    _require_kinds("run_s", mapped.run_s or {}, (row for row in read if row.run_s is None))
    _require_kinds("guarantee", () if mapped.guarantee is None else (mapped.guarantee,), rows)
    account.short = sum((row.run_s or 0.0) < ROUND_S for row in rows)
    account.assumed += _assumed(mapped, scan.report)
    rows = _ready(rows, account)
    rows, clock_s = _shifted(rows, known, account)
    if mapped.jobs_as == "sampled":
        jobs, truth = _sampled(rows, mapped, seed, account, str(path))
    else:
        jobs, truth = _gangs(rows, mapped, account, str(path))
    account.assumed.append("run times contain the first start-up; CPU threads are not replayed")
    account.assumed += _pools(read)
    notice = f"{name}: jobs of a log as {truth.name} gangs"
    if mapped.jobs_as == "sampled":
        notice = f"{name}: run times and GPUs of a log, models drawn (seed {seed})"
    return LoadedTrace(Trace.of(name, jobs, notice), truth, "file", notice, account, 0.0, clock_s)


def _assumed(mapped: LogOptions, report: Report) -> Iterator[str]:
    """Yield the assumptions about run times and the begin of the window."""
    if mapped.run_s:
        listed = ", ".join(f"{kind} {run_s:g} s" for kind, run_s in mapped.run_s.items())
        yield f"run times by kind: {listed}"
    started = report.findings.get("running-at-window-start")
    if started is not None:
        gpu_s = float(started.details["gpu_s"])
        yield (
            f"the cluster is empty when the window begins; {started.count:,} jobs were running and "
            f"held {gpu_s:,.0f} GPU-seconds after that"
        )


def _pools(rows: Iterable[LogRow]) -> Iterator[str]:
    """Yield the assumption about partitions, queues or virtual clusters."""
    pools = sorted({row.pool for row in rows if row.pool})
    if len(pools) > 1:
        listed = ", ".join(pools[:_SHOWN_KINDS]) + (", ..." if len(pools) > _SHOWN_KINDS else "")
        yield f"{len(pools)} partitions are one pool to every policy but slurm ({listed})"


def _require_kinds(option: str, named: Iterable[str], rows: Iterable[LogRow]) -> None:
    """Refuse an option whose kinds no job has: it would have no effect."""
    kinds, listed = {row.kind for row in rows if row.kind is not None}, list(named)
    if listed and not kinds & set(listed):
        known = ", ".join(sorted(kinds)[:_SHOWN_KINDS]) or "none"
        rule = f"has no effect: no job needs it that is {' or '.join(listed)}; kinds are {known}"
        raise InputError(rule, field=option)


def _timed(row: LogRow, mapped: LogOptions, file: str) -> LogRow:
    """Return the row, with the user's run time for its kind if the log has none."""
    if row.run_s is not None:
        return row
    run_s = mapped.run_s or {}
    if row.kind is None or row.kind not in run_s:
        option = f"{typed('--run-s')} KIND=S,..."
        rule = f"has no run time, and none was given for kind {row.kind!r} ({option})"
        raise InputError(rule, file=file, line=row.line, field="run_s")
    return row._replace(run_s=run_s[row.kind])


def _ready(rows: list[LogRow], account: Account) -> list[LogRow]:
    """Return rows submitted when they were eligible: before that no scheduler may start them."""
    late = sum(row.submit_s < row.ready_s < inf for row in rows)
    if late:
        account.changed.append(
            f"{late:,} jobs arrive when they were eligible, after their submission"
        )
    return [row._replace(submit_s=row.ready_s) if row.ready_s < inf else row for row in rows]


def _shifted(
    rows: list[LogRow], known: type[Reader], account: Account
) -> tuple[list[LogRow], float]:
    """Return rows by submission on a clock that begins with the first, and that instant."""
    rows.sort(key=lambda row: row.submit_s)
    if known.relative:
        return rows, 0.0
    first_s = rows[0].submit_s
    account.changed.append(f"times count from the first job ({first_s:.10g} s of the log's clock)")
    for at, row in enumerate(rows):
        deadline_s = None if row.deadline_s is None else row.deadline_s - first_s
        rows[at] = row._replace(submit_s=row.submit_s - first_s, deadline_s=deadline_s)
    return rows, first_s


def _gangs(
    rows: list[LogRow], mapped: LogOptions, account: Account, file: str
) -> tuple[list[Job], SpeedModel]:
    """Return jobs whose iteration takes a second on the GPUs of the log."""
    gangs: dict[Gang, None] = {}
    added_s = 0.0
    jobs = []
    for row, name in zip(rows, unique_names(rows), strict=True):
        gang = Gang(int(row.gpus), types=_types(row) if mapped.gpu_types != "ignore" else ())
        gangs[gang] = None
        seconds = max(1, round(row.run_s or 0.0))
        added_s += float(row.gpus) * (seconds - (row.run_s or 0.0))
        jobs.append(_job(row, name, gang.name, seconds, RIGID_PLAN, mapped, file))
    scaling = _scaling(mapped) if mapped.jobs_as == "anchored" else None
    exact = "a job runs on exactly the GPUs that it had"
    curve = f"speed on other numbers of GPUs is {scaling}: a curve, no measurement"
    account.assumed.append(exact if scaling is None else curve)
    account.changed.append(
        f"run times rounded to whole seconds of at least 1 ({added_s:+,.1f} GPU-seconds)"
    )
    typed = sum(1 for row in rows if row.gpu_type)
    if typed and mapped.gpu_types == "ignore":
        account.changed.append(f"GPU types of {typed:,} jobs ignored")
    _attempts(rows, account)
    return jobs, GangTable(gangs, scaling)


def _sampled(
    rows: list[LogRow], mapped: LogOptions, seed: int, account: Account, file: str
) -> tuple[list[Job], SpeedModel]:
    """Return jobs of built-in models that need the recorded time on the recorded GPUs."""
    truth = builtin_model()
    mix = dict(mapped.mix or {}) or dict.fromkeys(truth.models(), 1.0)
    speeds, draw = RequestedSpeeds(truth), random.Random(f"log/{seed}")
    choices: dict[int, list[tuple[str, list[ExecutionPlan]]]] = {}
    jobs: list[Job] = []
    left: Counter[int] = Counter()
    added_s = 0.0
    for row, name in zip(rows, unique_names(rows), strict=True):
        gpus = int(row.gpus)
        if gpus not in choices:
            choices[gpus] = _plans(truth, mix, gpus)
        if not choices[gpus]:
            left[gpus] += 1
            continue
        weights = [mix[model] for model, _ in choices[gpus]]
        model, plans = draw.choices(choices[gpus], weights)[0]
        plan = draw.choice(plans)
        step_s = speeds.iteration_s(model, gpus, plan)
        iterations = max(1, round((row.run_s or 0.0) / step_s))
        added_s += gpus * (iterations * step_s - (row.run_s or 0.0))
        jobs.append(_job(row, name, model, iterations, plan, mapped, file))
    if not jobs:
        rule = f"has no job that a model of the mix runs at its {', '.join(map(str, left))} GPUs"
        raise InputError(rule, file=file, field="mix")
    shares = ", ".join(f"{model} {share / sum(mix.values()):.0%}" for model, share in mix.items())
    account.assumed.append(f"model and plan drawn with seed {seed} among those that fit: {shares}")
    account.changed.append(f"run times rounded to whole iterations ({added_s:+,.1f} GPU-seconds)")
    if left:
        counts = ", ".join(f"{n} of {gpus}" for gpus, n in sorted(left.items())[:8])
        rest = f"{left.total():,} jobs left out, no model runs on their GPUs: {counts}"
        account.changed.append(rest)
    if any(row.gpu_type for row in rows):
        account.changed.append("GPU types ignored")
    _attempts(rows, account)
    return jobs, truth


def _plans(
    truth: SpeedModel, mix: Iterable[str], gpus: int
) -> list[tuple[str, list[ExecutionPlan]]]:
    """Return, by model, the plans that run on ``gpus`` GPUs."""
    found = []
    for model in mix:
        rows = truth.configurations(model, A800_NODE, gpus, Span.LEAF)
        plans = sorted({row.plan for row in rows if row.shape.gpus == gpus}, key=str)
        if plans:
            found.append((model, plans))
    return found


def _attempts(rows: list[LogRow], account: Account) -> None:
    """Add to the account the GPU-seconds by which attempts held less than the folded jobs."""
    surplus = sum(
        float(row.gpus * (row.run_s or 0.0)) - row.gpu_s for row in rows if row.gpu_s is not None
    )
    if surplus:
        account.changed.append(f"attempts and components held less: {surplus:+,.1f} GPU-seconds")


def _types(row: LogRow) -> tuple[str, ...]:
    return tuple(row.gpu_type.split("|")) if row.gpu_type else ()


def unique_names(rows: list[LogRow]) -> Iterable[str]:
    """Yield the names of rows in order of submission; a repeated name gets ``#2``."""
    times: Counter[str] = Counter()
    taken: set[str] = set()
    for row in rows:
        name = row.name
        times[row.name] += 1
        while name in taken or times[row.name] > 1:
            name = f"{row.name}#{max(2, times[row.name])}"
            if name not in taken:
                break
            times[row.name] += 1
        taken.add(name)
        yield name


def _job(
    row: LogRow,
    name: str,
    model: str,
    iterations: int,
    plan: ExecutionPlan,
    mapped: LogOptions,
    file: str,
) -> Job:
    try:
        return Job(
            name,
            model,
            row.submit_s,
            iterations,
            int(row.gpus),
            plan,
            guaranteed=mapped.guarantee is not None and row.kind == mapped.guarantee,
            tenant=row.tenant or row.user or "default",
            deadline_s=row.deadline_s,
            time_limit_s=row.limit_s or None,
            nodes=row.nodes if row.nodes and int(row.gpus) % row.nodes == 0 else None,
            partition=row.pool,
            qos=row.qos,
            user=row.user,
            priority=row.priority,
            checkpoint_s=row.checkpoint_s,
        )
    except InputError as error:
        raise error.located(file=file, line=row.line) from None
