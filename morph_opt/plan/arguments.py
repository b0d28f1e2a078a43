"""Arguments of ``python -m morph_opt.plan``."""

from __future__ import annotations

import argparse
from pathlib import Path

from morph_opt.core.commandline.options import add_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import SEEDS, Range
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.core.domain.options import asked
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.plan.parameters import FLEET, SEARCH
from morph_opt.replay.cli import add_prices, require_failures
from morph_opt.replay.scenario import Failures, Workload
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

SHARE = Range(0.0, 1.0, above=True)
COUNT = whole(1, 100_000)

# Options of a replay that questions take, by subject; seeds are those of the workloads.
JOBS = tuple(name for name in asked(Workload) if name not in ("trace", "seed", "state"))
DECIDING = tuple(name for name in asked(Scheduler) if name != "seed")
FAILURES = tuple(name for name in asked(Failures) if name != "seed")
OF_ETA = tuple(name for name in asked(ReplayConfig) if name not in ("until_s", "checkpoint_s"))
"""Options of the engine with an effect if nodes never fail and jobs run to their end."""

_SHOWN = ("--policy", "--objective", "--interval", "--restart-s")
"""Options of a replay that the short help of a question lists."""


def make_parser() -> LineParser:
    """Build the parser, with one sub-command per question."""
    parser = LineParser(
        prog="python -m morph_opt.plan",
        description="Capacity planning: questions answered by bounds and replays, with evidence.",
        epilog="Exit status: 0 answered; 2 bad usage or bad input, or nothing reaches the target.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="QUESTION")
    commands.renamed = {"rules": "compare with --rules FILE among the options of --b"}  # type: ignore[attr-defined]

    def add(name: str, text: str) -> LineParser:
        made: LineParser = commands.add_parser(name, help=text)
        made.hints = {"--options": "give the options that it held directly, without it"}
        return made

    _nodes(add("nodes", "how many equal nodes keep an SLO?"))
    _fleet(add("fleet", "which mix of nodes keeps an SLO, at what price?"))
    one = add("remove", "which nodes can go?")
    _workloads(one)
    _statement(one)
    _deciding(one)
    one = add("worth", "what is one more node of each class worth?")
    _workloads(one)
    _metric(one, 10)
    one.add_argument(
        "--price-every",
        dest="every",
        type=COUNT,
        default=20,
        metavar="N",
        help="price every N-th round (20)",
    )
    _deciding(one)
    one = add("growth", "at which load does the fleet break?")
    _workloads(one)
    _statement(one, exploration=False)
    one.add_argument(
        "--load", required=True, metavar="FROM:TO:STEP", help="load factors, like 1.0:2.0:0.1"
    )
    _deciding(one)
    _compare(add("compare", "what is a change worth: of policy, objective, rules?"))
    _eta(add("eta", "when does a job start and end?"))
    return parser


def _nodes(one: LineParser) -> None:
    _workloads(one, cluster=False)
    _statement(one)
    one.add_argument("--node-type", metavar="GPU", help="GPU type of the nodes (A800-80GB)")
    one.add_argument(
        "--gpus-per-node", type=whole(1, MOST_GPUS_PER_NODE), metavar="N", help="GPUs per node (8)"
    )
    one.add_argument(
        "--max-nodes",
        dest="most",
        type=whole(1, MOST_NODES),
        default=64,
        metavar="N",
        help="largest number of nodes that is tried (%(default)s)",
    )
    _deciding(one)


def _fleet(one: LineParser) -> None:
    _workloads(one, cluster=False)
    _statement(one)
    one.add_argument("--types", required=True, metavar="GPU,GPU", help="GPU types of the nodes")
    one.add_argument(
        "--prices",
        dest="type_prices",
        required=True,
        metavar="GPU=USD,...|FILE.toml",
        help="dollars per GPU-hour of each type",
    )
    one.add_argument("--budget", metavar="USD/h", help="largest price per hour (default: none)")
    one.add_argument(
        "--delay-s",
        type=Number(Range(60.0, 1e9)),
        metavar="S",
        help="time for the work in the MILP, in seconds (that of the SLO, or 4 h)",
    )
    one.add_argument(
        "--max-nodes",
        dest="most",
        type=whole(1, 1000),
        default=16,
        metavar="N",
        help="largest number of nodes per type (%(default)s)",
    )
    one.add_argument(
        "--mixes",
        type=whole(1, 1000),
        default=FLEET.mixes,
        metavar="N",
        help="number of mixes that are tried (%(default)s)",
    )
    _deciding(one)


def _compare(one: LineParser) -> None:
    _workloads(one)
    _metric(one, 30)
    one.add_argument(
        "--a", required=True, metavar="OPTIONS", help="options of one variant, in quotes"
    )
    one.add_argument(
        "--b",
        required=True,
        action="append",
        metavar="OPTIONS",
        help="options of a variant that is compared with --a, in quotes; may be repeated",
    )
    one.add_argument(
        "--no-noise",
        dest="noise",
        action="store_false",
        help="do not measure the effect of other seeds of the solver",
    )
    one.epilog = (
        "--a and --b take what python -m morph_opt.replay --help-all lists about who decides, "
        "the engine and failures of nodes, like '--policy srtf --restart-s 60'."
    )
    one.hints |= dict.fromkeys(
        _names(variant_parser()),
        "give it in the quotes of --a or --b (one option alone: --b=--packing)",
    )
    own = _names(one)
    _reading(one)
    one.abridge(*own)


def _eta(one: LineParser) -> None:
    begin = one.add_mutually_exclusive_group(required=True)
    begin.add_argument(
        "--state", metavar="FILE", help="snapshot, as python -m morph_opt.round reads it"
    )
    begin.add_argument(
        "--from",
        dest="live",
        metavar="SOURCE:FILES",
        help="answers of Slurm or Kueue, as python -m morph_opt.round reads them",
    )
    one.add_argument(
        "--history", metavar="TRACE|FORMAT:PATH", help="draw jobs that arrive from it (none arrive)"
    )
    one.add_argument(
        "--job",
        dest="jobs",
        action="append",
        metavar="NAME",
        help="job to forecast; may be repeated (default: all)",
    )
    one.add_argument(
        "--continuations",
        type=whole(5, 10_000),
        default=50,
        metavar="N",
        help="number of futures that are drawn (%(default)s)",
    )
    one.add_argument("--seed", type=Number(SEEDS), default=0, help="seed of the first future (0)")
    _output(one, on=False)
    own = _names(one)
    add_options(one.add_argument_group("jobs of a log (--history FORMAT:PATH)"), LogOptions)
    for setting in asked(LogOptions).values():
        one.only_with(setting.flag, "--history")
    deciding = one.add_argument_group("who decides, and rules of the engine")
    add_options(deciding, Scheduler, DECIDING)
    add_options(deciding, ReplayConfig, OF_ETA)
    one.abridge(*own, *_SHOWN)


def variant_parser() -> LineParser:
    """Build the parser of the words in ``--a`` and ``--b``: all options of a variant."""
    parser = LineParser(prog="python -m morph_opt.plan compare", add_help=False)
    add_options(parser, Scheduler, DECIDING)
    add_options(parser, ReplayConfig)
    add_options(parser, Failures, FAILURES)
    require_failures(parser)
    shared = ["--trace", "--cluster", "--prices", *(asked(Workload)[name].flag for name in JOBS)]
    parser.hints = dict.fromkeys(shared, "it is the same for all variants: give it outside quotes")
    return parser


def _names(parser: LineParser) -> list[str]:
    return [name for action in parser._actions for name in action.option_strings]


def _workloads(one: LineParser, *, cluster: bool = True) -> None:
    """Add the options of the trace and the cluster."""
    from morph_opt.inputs.traces.resampled import DAYS, LOADS, WEEKS

    one.add_argument(
        "--trace",
        default="base",
        metavar="TRACE",
        help="trace or log that jobs come from (%(default)s)",
    )
    if cluster:
        one.add_argument(
            "--cluster",
            default=argparse.SUPPRESS,
            metavar="SPEC.toml|8x8:A800-80GB",
            help="nodes of today: spec, graph or short form (those of the trace)",
        )
    one.add_argument(
        "--blocks",
        choices=(WEEKS, DAYS),
        help="draw whole weeks or days from the trace (as its length allows)",
    )
    one.add_argument(
        "--at-load", type=Number(LOADS), default=1.0, metavar="F", help="load factor (1)"
    )
    _output(one)


def _deciding(one: LineParser) -> None:
    """Add all other options of a replay, the usual ones in the short help."""
    own = _names(one)
    _reading(one)
    deciding = one.add_argument_group("who decides, rules of the engine, and failures of nodes")
    add_options(deciding, Scheduler, DECIDING)
    add_options(deciding, ReplayConfig)
    add_options(deciding, Failures, FAILURES)
    require_failures(one)
    one.abridge(*own, *_SHOWN)


def _reading(one: LineParser) -> None:
    """Add the options of reading the trace and, next to ``--cluster``, of prices."""
    jobs = one.add_argument_group("jobs of the trace")
    add_options(jobs, Workload, [name for name in JOBS if name not in LOG_OPTIONS])
    if "--cluster" in _names(one):
        add_prices(jobs)
    add_options(one.add_argument_group("jobs of a log (--trace FORMAT:PATH)"), LogOptions)


def _output(one: LineParser, *, on: bool = True) -> None:
    if on:
        one.add_argument(
            "--on",
            metavar="local:N|dask:ADDRESS|MODULE:EXECUTOR",
            help="executor of the replays (here, one process per CPU)",
        )
    one.add_argument("--out", type=Path, metavar="DIR", help="folder (runs/plan-QUESTION)")
    one.add_argument("--json", action="store_true", help="print the answer as JSON")
    one.add_argument("--quiet", action="store_true", help="print no progress")


def _confidence(one: LineParser) -> None:
    one.add_argument(
        "--confidence",
        type=Number(SHARE),
        default=0.95,
        metavar="SHARE",
        help="confidence level (%(default)s)",
    )


def _first_seed(one: LineParser) -> None:
    one.add_argument(
        "--first-seed",
        type=Number(SEEDS),
        default=0,
        metavar="N",
        help="seed of the first workload (%(default)s)",
    )


def _statement(one: LineParser, *, exploration: bool = True) -> None:
    """Add the options of the statement to confirm: SLO, share of workloads, confidence."""
    one.add_argument(
        "--slo", required=True, metavar="'p90 queued_s <= 900'", help="target of each workload"
    )
    one.add_argument(
        "--of-workloads",
        type=Number(SHARE),
        default=0.9,
        metavar="SHARE",
        help="share of workloads that must reach the SLO (%(default)s)",
    )
    _confidence(one)
    if exploration:
        one.add_argument(
            "--indifference",
            type=Number(SHARE),
            metavar="SHARE",
            help="margin above --of-workloads that the test must detect (0.05)",
        )
        one.add_argument(
            "--exploration",
            type=COUNT,
            default=SEARCH.exploration,
            metavar="N",
            help="number of workloads to explore with (%(default)s)",
        )
    one.add_argument(
        "--workloads",
        type=COUNT,
        metavar="N",
        help="number of workloads in all (default: what the statement can need)",
    )
    _first_seed(one)


def _metric(one: LineParser, seeds: int) -> None:
    one.add_argument(
        "--metric",
        default="avg jct_s",
        metavar="'p99 jct_s'",
        help="statistic to compare (%(default)s)",
    )
    one.add_argument(
        "--seeds", type=COUNT, default=seeds, metavar="N", help="number of workloads (%(default)s)"
    )
    _first_seed(one)
    _confidence(one)
