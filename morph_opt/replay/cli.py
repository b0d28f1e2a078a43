"""Command line of the replay: stdout has the result, stderr the progress and the notes."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.commandline.options import add_options, flagged, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import NamedNumbers, named_numbers, whole
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.options import asked
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.clusters.equal import EqualNodes
from morph_opt.inputs.traces.format import STATE_TRACE
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.replay.scenario import (
    PARTS,
    Failures,
    Scenario,
    Workload,
    read_scenario,
    resolve_cluster,
)
from morph_opt.scheduling.policies.options import OPTIONS, Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

if TYPE_CHECKING:
    from morph_opt.replay.prepare import Prepared
    from morph_opt.simulation.runs.summary import Summary

CLUSTER_SIZES = tuple(one.flag for one in asked(EqualNodes).values())

WATCHING = {"quiet", "watch", "explain", "dump_rounds", "dump_every", "dump_gz"}
"""Options that show a run without changing it; allowed with ``--resume``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    began = time.perf_counter()
    return run_command(make_parser(), lambda given: _begin_or_resume(given, began), argv)


def _begin_or_resume(given: argparse.Namespace, began: float) -> int:
    """Run a scenario, or finish an interrupted run, and print the result."""
    from morph_opt.core.extend import named_by_file
    from morph_opt.replay.terminal import require_watchable
    from morph_opt.simulation.runs.read import read_run
    from morph_opt.simulation.runs.write import CONFIG, EVENTS, require_free

    if getattr(given, "watch", False):
        require_watchable()
    if "resume" not in given:
        scenario = scenario_from(given)
        if "out" in given:
            require_free(given.out)
        return _print(_run(scenario, given, began), given)
    folder, allow_code = given.resume, getattr(given, "allow_code", False)
    with named_by_file(str(folder / CONFIG), allow_code=allow_code):
        _require_resumable(given)
        scenario = read_scenario(folder / CONFIG)
        if not (folder / EVENTS).exists():
            return _print(_run(scenario, given, began), given)
    _note("the run is complete already", given)
    return _print(read_run(folder).summary, given)


def _require_resumable(given: argparse.Namespace) -> None:
    """Refuse options that ``--resume`` takes from the interrupted run."""
    others = sorted(set(vars(given)) - {"resume", "allow_code", "json"} - WATCHING)
    if others:
        options_of = {action.dest: action.option_strings[-1] for action in make_parser()._actions}
        names = ", ".join(options_of[name] for name in others)
        raise InputError(f"takes all options from the run; leave out {names}", field="--resume")


def _run(scenario: Scenario, given: argparse.Namespace, began: float) -> Summary:
    """Prepare a scenario, run it, and return its figures."""
    from morph_opt.replay.prepare import prepare
    from morph_opt.replay.run import run_prepared
    from morph_opt.replay.terminal import shown_progress
    from morph_opt.replay.watching import watched

    prepared = prepare(scenario)
    _announce(prepared, given)
    resume = "resume" in given
    out = given.resume if resume else getattr(given, "out", None)
    out = out or _free_default(prepared.scenario)
    prepared = watched(prepared, out, vars(given))
    shown = shown_progress(
        len(prepared.trace.jobs),
        scenario.cluster.gpus,
        f"{scenario.workload.trace}, {prepared.policy.name}, {scenario.cluster.name}",
        quiet=getattr(given, "quiet", False),
        watch=getattr(given, "watch", False),
    )
    with _resumable(out), shown as progress:
        result = run_prepared(prepared, out, resume=resume, progress=progress, began=began)
    _note(f"run folder: {out}", given)
    solver, summary = scenario.scheduler.solver, result.parts.summary()
    if scenario.scheduler.policy == "milp" and solver != Scheduler().solver:
        _note(_asked(summary, solver), given)
    return summary


def make_parser() -> LineParser:
    """Build the parser; an option that is not given is absent from the namespace."""
    parser = LineParser(
        prog="python -m morph_opt.replay",
        description="Replay a trace of training jobs with one decision per scheduling round.",
        epilog="Policies, objectives and their options: python -m morph_opt.policies; "
        "solvers: python -m morph_opt.solvers. "
        "Exit status: 0 done; 1 finished, but some round fell back, a check failed or jobs "
        "are left unfinished; 2 bad usage or bad input.",
        argument_default=argparse.SUPPRESS,
    )
    jobs = parser.add_argument_group("workload")
    add_options(jobs, Workload, [n for n in asked(Workload) if n not in LOG_OPTIONS])
    add_options(
        parser.add_argument_group("jobs of a log (--trace FORMAT:PATH, see docs/logs.md)"),
        LogOptions,
    )
    nodes = parser.add_argument_group("cluster (default: 8 nodes x 8 A800-80GB)")
    nodes.add_argument(
        "--cluster", metavar="SPEC.toml|8x8:A800-80GB", help="cluster spec or short form"
    )
    add_prices(nodes)
    add_options(nodes, EqualNodes)
    deciding = parser.add_argument_group("scheduler; a policy refuses options that it does not use")
    add_options(deciding, Scheduler)
    rules = parser.add_argument_group("engine, and failures of nodes")
    add_options(rules, ReplayConfig)
    add_options(rules, Failures)
    _output(parser.add_argument_group("output"))
    _effects(parser)
    common = [
        one.flag
        for subject in (*PARTS.values(), EqualNodes)
        for one in asked(subject).values()
        if one.about.common
    ]
    parser.abridge(*common, "--cluster", "--out", "--resume", "--json", "--quiet", "--explain")
    return parser


def add_prices(group: argparse._ActionsContainer) -> None:
    """Add the option for prices of GPUs."""
    group.add_argument(
        "--prices",
        type=NamedNumbers(),
        default=argparse.SUPPRESS,
        metavar="TYPE=USD,...",
        help="dollars per GPU-hour of each type, for objective cost and for the bill",
    )


def require_failures(parser: LineParser) -> None:
    """Refuse options on failures of nodes if no node can fail."""
    parser.only_with("--mtbf-s", "--mttr-s")
    parser.only_with("--mttr-s", "--mtbf-s")
    parser.only(
        "--checkpoint-s",
        "has an effect together with --events or --mtbf-s only: it sets the cost of a failure",
        lambda given: "events" in given or "mtbf_s" in given,
    )


def _effects(parser: LineParser) -> None:
    """Refuse options without effect."""

    def drawn(given: argparse.Namespace) -> bool:
        from morph_opt.scheduling.policies.registry import draws

        return draws(getattr(given, "policy", "milp"), packing="packing" in given)

    require_failures(parser)
    parser.only_with("--failure-seed", "--mtbf-s")
    parser.only("--solver-seed", "has no effect on this policy", drawn)
    parser.only_with("--dump-every", "--dump-rounds")
    parser.only_with("--dump-gz", "--dump-rounds")
    parser.only_with("--allow-code", "--resume")
    parser.only(
        "--watch", "shows nothing with --quiet", lambda given: not getattr(given, "quiet", False)
    )
    parser.only(
        "--explain",
        "explains the policy milp only",
        lambda given: getattr(given, "policy", "milp") == "milp",
    )
    for option in ("--cluster", *CLUSTER_SIZES):
        parser.only(
            option,
            "cannot be combined with --from-state, which brings a cluster",
            lambda given: "from_state" not in given,
        )
    for option in CLUSTER_SIZES:
        parser.only(
            option, "cannot be combined with --cluster", lambda given: "cluster" not in given
        )


def _output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--out", type=Path, metavar="DIR", help="run folder; default runs/TRACE-POLICY-DIGEST"
    )
    group.add_argument("--resume", type=Path, metavar="RUN", help="finish an interrupted run")
    group.add_argument(
        "--allow-code",
        action="store_true",
        help="import code that the run's config.toml names as package.module:attribute "
        "(with --resume)",
    )
    group.add_argument("--json", action="store_true", help="print the summary alone, as JSON")
    group.add_argument("--quiet", action="store_true", help="no progress, no notes")
    group.add_argument(
        "--watch", action="store_true", help="show figures of the run in the terminal while it runs"
    )
    group.add_argument(
        "--explain", action="store_true", help="explain every round, in explain.jsonl of the run"
    )
    group.add_argument(
        "--dump-rounds", type=Path, metavar="DIR", help="write states for python -m morph_opt.round"
    )
    group.add_argument(
        "--dump-every", type=whole(1, 10**9), metavar="N", help="write every N-th round (1)"
    )
    group.add_argument("--dump-gz", action="store_true", help="compress the states")


def scenario_from(arguments: argparse.Namespace) -> Scenario:
    """Return the scenario of a command line.

    Raises
    ------
    InputError
        If a value is out of range or two options contradict each other.
    """
    try:
        return _scenario(arguments)
    except InputError as error:
        raise flagged(error, *PARTS.values(), EqualNodes) from error


def _scenario(given: argparse.Namespace) -> Scenario:
    from morph_opt.inputs.traces.registry import home_cluster
    from morph_opt.round.reader import read_snapshot
    from morph_opt.scheduling.policies.registry import require_understood

    options = {part: given_options(given, kind) for part, kind in PARTS.items()}
    workload, scheduler = options["workload"], options["scheduler"]
    cluster = _cluster(given)
    if "state" in workload:
        begin = read_snapshot(workload["state"]).state
        cluster = begin.cluster
        workload.setdefault("trace", STATE_TRACE)
        options["engine"].setdefault("interval_s", begin.interval_s)
    asked_for = Workload(**workload)
    # Refuse options that do not apply to the trace, whatever the cluster.
    home_cluster(asked_for.trace, **asked_for.trace_options)
    require_understood(
        scheduler.get("policy", Scheduler().policy),
        scheduler.get("objective", Scheduler().objective),
        [name for name in scheduler if name in OPTIONS],
    )
    if "seed" in workload:
        _require_seeded(options)
        for part in ("failures", "scheduler"):
            options[part].setdefault("seed", workload["seed"])
    if "prices" in given:
        prices = named_numbers(given.prices, "--prices")
        cluster = resolve_cluster(cluster, asked_for)
        try:
            cluster = cluster.with_prices(prices)
        except InputError as error:
            raise InputError(error.rule, field="--prices") from error
    return Scenario(
        cluster=cluster, **{part: kind(**options[part]) for part, kind in PARTS.items()}
    )


def _cluster(given: argparse.Namespace) -> Cluster | None:
    """Return the given cluster; None for that of the trace."""
    equal: dict[str, Any] = given_options(given, EqualNodes)
    if "cluster" in given:
        return load_cluster(given.cluster)
    return EqualNodes(**equal).cluster() if equal else None


def _require_seeded(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a seed that has no effect."""
    from morph_opt.inputs.traces.registry import takes_seed
    from morph_opt.scheduling.policies.registry import draws

    workload, scheduler, failures = (options[n] for n in ("workload", "scheduler", "failures"))
    trace = workload.get("trace", Workload().trace)
    policy = scheduler.get("policy", Scheduler().policy)
    by_failures = "mtbf_s" in failures and "seed" not in failures
    by_policy = draws(policy, packing="packing" in scheduler) and "seed" not in scheduler
    if not (by_failures or by_policy or takes_seed(trace, workload.get("jobs_as"))):
        rule = f"has no effect: nothing is drawn in trace {trace!r}, nor by this policy"
        raise InputError(rule, field="--seed")


def _asked(summary: Summary, solver: str) -> str:
    """Return how many rounds the solver decided, and how it decides all of them."""
    from morph_opt.scheduling.policies.steps import SOLVING
    from morph_opt.simulation.runs.summary import settled_rounds

    settled = settled_rounds(summary.values)
    asked = sum(settled.get(step, 0) for step in SOLVING)
    said = f"--solver {solver} decided {asked:,} of {summary.rounds:,} rounds"
    return said if asked == summary.rounds else f"{said}; with --method exact it is asked in all"


def _announce(prepared: Prepared, given: argparse.Namespace) -> None:
    """Print the source of the jobs, and the dropped ones."""
    _note(prepared.source.notice, given)
    if prepared.scenario.scheduler.chosen is not None:
        _note(prepared.scenario.scheduler.chosen, given)
    if prepared.source.account is not None:
        for line in prepared.source.account.texts():
            _note(line, given)
    for job, rule in prepared.jobs.skipped:
        print(f"dropped: job {job.name} can never run: {rule}", file=sys.stderr)
    for job, rule in prepared.jobs.infeasible:
        print(f"dropped: the SLO of job {job.name}: {rule}", file=sys.stderr)


def _free_default(scenario: Scenario) -> Path:
    """Return ``runs/TRACE-POLICY-DIGEST``, with a number appended if that exists."""
    from morph_opt.simulation.runs.write import require_free

    scheduler, trace = scenario.scheduler, scenario.workload.trace
    decider = scheduler.objective if scheduler.policy == "milp" else scheduler.policy
    short = re.sub(r"^([\w-]+:).*/", r"\1", trace)  # without the folders of a log
    parts = (Path(trace).stem if trace.endswith(".csv") else short, decider)
    plain = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-.") for part in parts)
    base = Path("runs") / f"{plain}-{scenario.digest[:8]}"
    out, number = base, 2
    while out.exists():
        out, number = base.with_name(f"{base.name}-{number}"), number + 1
    require_free(out)
    return out


def _print(summary: Summary, given: argparse.Namespace) -> int:
    """Print the result and return the exit status."""
    from morph_opt.replay.terminal import result_table
    from morph_opt.simulation.runs.summary import summary_json

    sys.stdout.write(summary_json(summary) if "json" in given else result_table(summary.values))
    problems = [
        text
        for count, text in (
            (summary.fallback_rounds, "rounds fell back"),
            (summary.rounds_over_capacity, "rounds over capacity"),
            (summary.ended == "stalled", "jobs can never start: the replay stalled"),
        )
        if count
    ]
    for text in problems:
        print(f"warning: {text}", file=sys.stderr)
    return 1 if problems else 0


def _note(text: str, given: argparse.Namespace) -> None:
    """Print a line on stderr, unless --quiet."""
    if "quiet" not in given:
        print(text, file=sys.stderr)


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Add a note on how to resume to errors that interrupt the run."""
    from morph_opt.simulation.runs.write import CONFIG, EVENTS, PARTIAL

    try:
        yield
    except (OSError, MemoryError, KeyboardInterrupt, InputError) as error:
        outside = not isinstance(error, InputError) or isinstance(error.__cause__, OSError)
        if outside and all((out / name).is_file() for name in (CONFIG, EVENTS + PARTIAL)):
            error.add_note(
                f"no decision is lost: python -m morph_opt.replay --resume {out} finishes the run"
            )
        raise
