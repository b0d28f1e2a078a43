"""Command line of the replay: stdout has the result, stderr the progress and the notes."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.commandline.options import add_options, flagged, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import NamedNumbers, named_numbers, whole
from morph_opt.core.domain import Cluster, InputError, PlanFamily
from morph_opt.core.domain.options import asked
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.clusters.short import EqualNodes
from morph_opt.inputs.traces.format import STATE_TRACE
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.replay.scenario import PARTS, Failures, Scenario, Workload, read_scenario
from morph_opt.scheduling.policies.options import OPTIONS, Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

if TYPE_CHECKING:
    from morph_opt.replay.prepare import Prepared
    from morph_opt.simulation.runs.summary import Summary

CLUSTER_SIZES = tuple(one.flag for one in asked(EqualNodes).values())

WATCHING = {"quiet", "watch", "explain", "dump_rounds", "dump_every", "dump_gz", "audit_rounds"}
"""Options that show a run without changing it; allowed with ``--resume``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    began = time.perf_counter()
    return run_command(make_parser(), lambda given: _print(_run(given, began), given), argv)


def _run(given: argparse.Namespace, began: float) -> Summary:
    """Run a scenario, or finish an interrupted run, and return its figures."""
    from morph_opt.core.extend import named_by_file
    from morph_opt.replay.terminal import require_watchable
    from morph_opt.simulation.runs.read import read_run
    from morph_opt.simulation.runs.write import CONFIG, EVENTS, require_free

    if "watch" in given:
        require_watchable()
    if "resume" not in given:
        scenario = scenario_from(given)
        if "out" in given:
            require_free(given.out)
        return _replayed(scenario, given, began)
    config = given.resume / CONFIG
    with named_by_file(str(config), allow_code="allow_code" in given):
        _require_resumable(given)
        scenario = read_scenario(config)
        if "audit_rounds" in given:
            from morph_opt.replay.second_look import require_solving

            require_solving(scenario.scheduler.policy)
        if not (given.resume / EVENTS).exists():
            return _replayed(scenario, given, began)
        _note("the run is complete already", given)
        if "audit_rounds" in given:
            from morph_opt.replay.prepare import prepare

            return _audited(prepare(scenario), given.resume, given)
    return read_run(given.resume).summary


def _require_resumable(given: argparse.Namespace) -> None:
    """Refuse options that ``--resume`` takes from the interrupted run."""
    others = sorted(set(vars(given)) - {"resume", "allow_code", "json"} - WATCHING)
    if others:
        options_of = {action.dest: action.option_strings[-1] for action in make_parser()._actions}
        names = ", ".join(options_of[name] for name in others)
        raise InputError(f"takes all options from the run; leave out {names}", field="--resume")


def _replayed(scenario: Scenario, given: argparse.Namespace, began: float) -> Summary:
    """Prepare a scenario, run it, and return its figures."""
    from morph_opt.replay.prepare import prepare
    from morph_opt.replay.run import run_prepared
    from morph_opt.replay.terminal import Meter, shown_progress

    prepared = prepare(scenario)
    for line in prepared.notes():
        _note(line, given)
    for line in prepared.dropped():
        print(f"dropped: {line}", file=sys.stderr)
    resume = "resume" in given
    out = given.resume if resume else getattr(given, "out", None)
    out = out or _free_default(prepared.scenario)
    prepared = watched(prepared, out, vars(given))
    meter = Meter(len(prepared.trace.jobs), scenario.cluster.gpus)
    shown = shown_progress(
        meter,
        f"{scenario.workload.trace}, {prepared.policy.name}, {scenario.cluster.name}",
        quiet="quiet" in given,
        watch="watch" in given,
    )
    with _resumable(out), shown as progress:
        result = run_prepared(
            prepared, out, resume=resume, progress=progress, foresee=meter.foresee, began=began
        )
    _note(f"run folder: {out}", given)
    solver, summary = scenario.scheduler.solver, result.parts.summary()
    if scenario.scheduler.policy == "milp" and solver != Scheduler().solver:
        _note(_asked(summary, solver), given)
    return _audited(prepared, out, given) if "audit_rounds" in given else summary


def _audited(prepared: Prepared, out: Path, given: argparse.Namespace) -> Summary:
    """Audit the finished run of a folder, print the result, and return its figures."""
    from morph_opt.replay.second_look import recorded_audit
    from morph_opt.scheduling.policies.second_solve import Verdict

    audit, summary = recorded_audit(prepared, out, given.audit_rounds)
    _note(audit.text(), given)
    for text in audit.texts(Verdict.OPEN):
        _note(text, given)
    for text in audit.texts(Verdict.DISAGREES):
        print(f"warning: {text}", file=sys.stderr)
    return summary


def watched(prepared: Prepared, out: Path, given: Mapping[str, Any]) -> Prepared:
    """Attach the watchers that the command line asks for to the run's policy.

    Parameters
    ----------
    prepared
        The run.
    out
        Its folder, where ``explain.jsonl`` goes.
    given
        Arguments by name: ``explain``, ``dump_rounds``, ``dump_every``, ``dump_gz``, ``resume``.

    Raises
    ------
    InputError
        If the policy cannot be watched so, or the folder of states is in use.
    """
    explain, folder = bool(given.get("explain")), given.get("dump_rounds")
    rules = prepared.policy_options.rules
    if not (explain or folder is not None or rules.rules):
        return prepared

    from morph_opt.round.decide import make_explainer
    from morph_opt.round.watch import ExplanationLog, RoundDumper, WatchedPolicy, Watcher
    from morph_opt.scheduling.explanation.report import Effort
    from morph_opt.simulation.runs.write import EXPLAIN

    options = prepared.scenario.scheduler
    watchers: list[Watcher] = []
    if folder is not None:
        if any(job.requested_plan.family is PlanFamily.EST for job in prepared.trace.jobs):
            rule = "cannot store the speeds of workers that take turns"
            raise InputError(rule, field="--dump-rounds")
        if options.learns and options.policy != "milp":
            rule = f"needs the policy milp with {options.learns}, not {options.policy!r}"
            raise InputError(rule, field="--dump-rounds")
        watchers.append(
            RoundDumper(
                folder,
                None if options.learns else prepared.belief,
                prepared.scenario.cluster,
                sorted({job.model for job in prepared.trace.jobs}),
                rules,
                pairs=options.packing,
                every=given.get("dump_every", 1),
                compress=bool(given.get("dump_gz")),
                resume=given.get("resume") is not None,
            )
        )
    if explain:
        if options.policy != "milp":
            rule = f"explains the policy milp only, not {options.policy!r}"
            raise InputError(rule, field="--explain")
        # Prices of this solve only; displaced jobs are searched when a job is asked about.
        explainer = make_explainer(prepared.policy_options, Effort(jobs=0))
        watchers.append(ExplanationLog(out / EXPLAIN, explainer))
    asked = make_explainer(prepared.policy_options) if rules.rules else None
    return replace(prepared, policy=WatchedPolicy(prepared.policy, watchers, asked))


def make_parser() -> LineParser:
    """Build the parser; an option that is not given is absent from the namespace."""
    parser = LineParser(
        prog="python -m morph_opt.replay",
        description="Replay a trace of training jobs with one decision per scheduling round.",
        epilog="Policies, objectives and their options: python -m morph_opt.policies; "
        "solvers: python -m morph_opt.solvers. "
        "Exit status: 0 done; 1 finished, but some round fell back, a check or an audited round "
        "failed, or jobs are left unfinished; 2 bad usage or bad input.",
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
        "--cluster",
        metavar="SPEC.toml|8x8:A800-80GB",
        help="spec, graph (.graphml, .json) or short form",
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
        "has an effect together with --events, --mtbf-s or --at-stop checkpoint only: it sets what "
        "a failure or a stop costs",
        lambda given: (
            "events" in given
            or "mtbf_s" in given
            or getattr(given, "at_stop", "keep") == "checkpoint"
        ),
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
    parser.only("--watch", "shows nothing with --quiet", lambda given: "quiet" not in given)
    parser.only(
        "--explain",
        "explains the policy milp only",
        lambda given: getattr(given, "policy", "milp") == "milp",
    )
    parser.only(
        "--audit-rounds",
        "needs a policy that solves rounds (milp)",
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
    group.add_argument("--quiet", action="store_true", help="print no progress and no notes")
    group.add_argument(
        "--watch", action="store_true", help="show figures of the run in the terminal while it runs"
    )
    group.add_argument(
        "--explain", action="store_true", help="explain every round, in explain.jsonl of the run"
    )
    group.add_argument(
        "--dump-rounds", type=Path, metavar="DIR", help="write states that the command round reads"
    )
    group.add_argument(
        "--dump-every", type=whole(1, 10**9), metavar="N", help="write every N-th round (1)"
    )
    group.add_argument(
        "--audit-rounds",
        type=whole(1, 10**9),
        metavar="N",
        help="solve N rounds again as exact MIPs after the run, and compare",
    )
    group.add_argument("--dump-gz", action="store_true", help="compress the states")


def scenario_from(given: argparse.Namespace) -> Scenario:
    """Return the scenario of a command line.

    Raises
    ------
    InputError
        If a value is out of range or two options contradict each other.
    """
    try:
        return _scenario(given)
    except InputError as error:
        raise flagged(error, *PARTS.values(), EqualNodes) from error


def _scenario(given: argparse.Namespace) -> Scenario:
    from morph_opt.inputs.traces.registry import home_cluster
    from morph_opt.scheduling.policies.registry import resolve

    cluster = _cluster(given)
    options = {part: given_options(given, kind) for part, kind in PARTS.items()}
    if "state" in options["workload"]:
        options["workload"].setdefault("trace", STATE_TRACE)
    workload = Workload(**options["workload"])
    # Refuse options that do not apply to the trace, whatever the cluster.
    home_cluster(workload.trace, **workload.trace_options)
    plain = Scenario(cluster=cluster, workload=workload, seed=options["workload"].get("seed"))
    parts = {part: replace(getattr(plain, part), **options[part]) for part in PARTS}
    decider = resolve(parts["scheduler"].policy, parts["scheduler"].objective, follow=False)
    decider.require_understood(name for name in options["scheduler"] if name in OPTIONS)
    if "seed" in options["workload"]:
        _require_seeded(options, parts)
    cluster = plain.cluster
    if "prices" in given:
        try:
            cluster = cluster.with_prices(named_numbers(given.prices, "--prices"))
        except InputError as error:
            raise InputError(error.rule, field="--prices") from error
    return Scenario(cluster=cluster, **parts)


def _cluster(given: argparse.Namespace) -> Cluster | None:
    """Return the given cluster; None to take the trace's."""
    if "cluster" in given:
        return load_cluster(given.cluster)
    equal: dict[str, Any] = given_options(given, EqualNodes)
    return EqualNodes(**equal).cluster() if equal else None


def _require_seeded(options: Mapping[str, Mapping[str, Any]], parts: Mapping[str, Any]) -> None:
    """Refuse a seed that has no effect."""
    from morph_opt.inputs.traces.registry import takes_seed
    from morph_opt.scheduling.policies.registry import draws

    workload, scheduler = parts["workload"], parts["scheduler"]
    by_failures = parts["failures"].mtbf_s is not None and "seed" not in options["failures"]
    by_policy = draws(scheduler.policy, packing=scheduler.packing)
    by_policy = by_policy and "seed" not in options["scheduler"]
    if not (by_failures or by_policy or takes_seed(workload.trace, workload.jobs_as)):
        rule = f"has no effect: nothing is drawn in trace {workload.trace!r}, nor by this policy"
        raise InputError(rule, field="--seed")


def _asked(summary: Summary, solver: str) -> str:
    """Return how many rounds the solver decided, and the option that lets it decide all."""
    from morph_opt.scheduling.policies.steps import SOLVING
    from morph_opt.simulation.runs.summary import settled_rounds

    settled = settled_rounds(summary.values)
    asked = sum(settled.get(step, 0) for step in SOLVING)
    said = f"--solver {solver} decided {asked:,} of {summary.rounds:,} rounds"
    return said if asked == summary.rounds else f"{said}; with --method exact it is asked in all"


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
            (summary.audited_disagreeing, "audited rounds disagree with an exact MIP"),
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
