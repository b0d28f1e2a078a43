"""Arguments of ``python -m morph_opt.replay``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from morph_opt.clusters import load_cluster, parse_short
from morph_opt.clusters.equal import EqualNodes
from morph_opt.commandline.options import add_options, flagged, given_options
from morph_opt.commandline.parser import LineParser
from morph_opt.commandline.types import NamedNumbers, named_numbers, whole
from morph_opt.domain import Cluster, InputError, default_cluster
from morph_opt.domain.options import asked
from morph_opt.engine.config import ReplayConfig
from morph_opt.policies.options import OPTIONS, Scheduler
from morph_opt.replay.scenario import PARTS, Scenario
from morph_opt.replay.workload import Failures, Workload
from morph_opt.traces.format import STATE_TRACE
from morph_opt.traces.options import LOG_OPTIONS, LogOptions


def make_parser() -> LineParser:
    """The parser; a value that was not given is absent from the namespace."""
    parser = LineParser(
        prog="python -m morph_opt.replay",
        description="Replay a trace of training jobs with one decision per scheduling round.",
        epilog="Policies, objectives and what each may be told: python -m morph_opt.policies; "
        "solvers: python -m morph_opt.solvers. "
        "Exit status: 0 done; 1 finished, but some round fell back, a check failed or jobs "
        "are left unfinished; 2 bad usage or bad input.",
        argument_default=argparse.SUPPRESS,
    )
    jobs = parser.add_argument_group("what is replayed")
    add_options(jobs, Workload, [n for n in asked(Workload) if n not in LOG_OPTIONS])
    add_options(
        parser.add_argument_group("jobs of a log (--trace FORMAT:PATH, see docs/logs.md)"),
        LogOptions,
    )
    nodes = parser.add_argument_group("cluster (default: 8 nodes x 8 A800-80GB)")
    nodes.add_argument("--cluster", metavar="SPEC.toml|8x8:A800-80GB", help="spec or short form")
    add_prices(nodes)
    add_options(nodes, EqualNodes)
    deciding = parser.add_argument_group("who decides; an option is refused by policies without it")
    add_options(deciding, Scheduler)
    rules = parser.add_argument_group("rules of the engine, and failures of nodes")
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
    """Refuse options about failures of nodes where none fail."""
    parser.only_with("--mtbf-s", "--mttr-s")
    parser.only_with("--mttr-s", "--mtbf-s")
    parser.only(
        "--checkpoint-s",
        "has an effect together with --events or --mtbf-s only: it is what a failure costs",
        lambda given: "events" in given or "mtbf_s" in given,
    )


def _effects(parser: LineParser) -> None:
    """When options have an effect."""

    def drawn(given: argparse.Namespace) -> bool:
        from morph_opt.policies.registry import draws

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
            "cannot be combined with --from-state, which has a cluster",
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
        help="with --resume: import what the run's config.toml names as package.module:attribute",
    )
    group.add_argument("--json", action="store_true", help="print the summary alone, as JSON")
    group.add_argument("--quiet", action="store_true", help="no progress, no notes")
    group.add_argument(
        "--watch", action="store_true", help="a full-screen view of the run while it runs"
    )
    group.add_argument(
        "--explain", action="store_true", help="explain every round, in explain.jsonl of the run"
    )
    group.add_argument(
        "--dump-rounds", type=Path, metavar="DIR", help="write states for python -m morph_opt.round"
    )
    group.add_argument(
        "--dump-every", type=whole(1, 10**9), metavar="N", help="only every N-th round (1)"
    )
    group.add_argument("--dump-gz", action="store_true", help="compress the states")


CLUSTER_SIZES = tuple(one.flag for one in asked(EqualNodes).values())

WATCHING = {"quiet", "watch", "explain", "dump_rounds", "dump_every", "dump_gz"}
"""What looks at a run and decides nothing of it; may be given again with ``--resume``."""


def scenario_from(arguments: argparse.Namespace) -> Scenario:
    """The run that a command line asks for.

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
    from morph_opt.policies.registry import draws, require_understood
    from morph_opt.round.reader import read_snapshot

    options = {part: given_options(given, kind) for part, kind in PARTS.items()}
    workload, scheduler = options["workload"], options["scheduler"]
    begin = None if "state" not in workload else read_snapshot(workload["state"]).state
    trace = workload.setdefault("trace", "base" if begin is None else STATE_TRACE)
    cluster = _cluster(given, Workload(**workload), None if begin is None else begin.cluster)
    if begin is not None:
        options["engine"].setdefault("interval_s", begin.interval_s)
    policy = scheduler.get("policy", Scheduler().policy)
    objective = scheduler.get("objective", Scheduler().objective)
    require_understood(policy, objective, [name for name in scheduler if name in OPTIONS])
    if "seed" in workload:
        drawn = [
            part
            for part, draws_by in (
                ("failures", "mtbf_s" in options["failures"]),
                ("scheduler", draws(policy, packing="packing" in scheduler)),
            )
            if draws_by and "seed" not in options[part]
        ]
        if not drawn:
            _require_seeded(trace, workload.get("jobs_as"))
        for part in ("failures", "scheduler"):
            options[part].setdefault("seed", workload["seed"])
    return Scenario(
        cluster=cluster, **{part: kind(**options[part]) for part, kind in PARTS.items()}
    )


def _require_seeded(trace: str, jobs_as: str | None) -> None:
    """Refuse a seed that nothing draws by."""
    from morph_opt.traces.registry import takes_seed

    if not takes_seed(trace, jobs_as):
        rule = f"has no effect: nothing is drawn in trace {trace!r}, nor by this policy"
        raise InputError(rule, field="--seed")


def _cluster(given: argparse.Namespace, workload: Workload, known: Cluster | None) -> Cluster:
    from morph_opt.traces.registry import home_cluster

    # Also refuses options that the trace does not have.
    home = home_cluster(workload.trace, **workload.trace_options)
    equal: dict[str, Any] = given_options(given, EqualNodes)
    if known is None and "cluster" in given:
        known = load_cluster(given.cluster)
    elif known is None and equal:
        known = EqualNodes(**equal).cluster()
    elif known is None:
        known = parse_short(home) if home else default_cluster()
    if "prices" not in given:
        return known
    try:
        return known.with_prices(named_numbers(given.prices, "--prices"))
    except InputError as error:
        raise InputError(error.rule, field="--prices") from error
