"""Options of ``python -m morph_opt.plan``: a dataclass per question, and its parser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.core.commandline.options import add_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.domain import SEEDS, Range
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.core.domain.options import asked, option
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.inputs.traces.resampled import DAYS, LOADS, WEEKS
from morph_opt.plan.parameters import FLEET, SEARCH
from morph_opt.plan.site import Site
from morph_opt.replay.cli import add_prices, require_failures
from morph_opt.replay.scenario import Failures, Workload
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

_SHARE = Range(0.0, 1.0, above=True)
_COUNT = Range(1, 100_000, whole=True)

# Options of a replay that questions take, by subject; seeds are those of the workloads.
JOBS = tuple(name for name in asked(Workload) if name not in ("trace", "seed", "state"))
DECIDING = tuple(name for name in asked(Scheduler) if name != "seed")
FAILURES = tuple(name for name in asked(Failures) if name != "seed")
OF_ETA = tuple(name for name in asked(ReplayConfig) if name not in ("until_s", "checkpoint_s"))
"""Options of the engine with an effect if nodes never fail and jobs run to their end."""

_SHOWN = ("--policy", "--objective", "--interval", "--restart-s")
"""Options of a replay that the short help of a question lists."""

_REQUIRED = ("slo", "load", "types", "type_prices")
"""Fields without which there is no question."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Source of the workloads, the cluster, and the executor of the replays."""

    trace: str = option("base", "trace or log that jobs come from", metavar="TRACE")
    cluster: str | None = option(
        None,
        "nodes of today: spec, graph or short form (the trace's)",
        metavar="SPEC.toml|8x8:A800-80GB",
    )
    blocks: str | None = option(
        None,
        "draw whole weeks or days from the trace (as its length allows)",
        choices=(WEEKS, DAYS),
    )
    at_load: float = option(1.0, "load factor", metavar="F", range=LOADS)
    on: str | None = option(
        None,
        "executor of the replays (here, one process per CPU)",
        metavar="local:N|dask:ADDRESS|MODULE:EXECUTOR",
    )


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement to confirm (SLO, share of workloads, confidence), and its workloads."""

    slo: str | None = option(
        None, "target that each workload must reach", metavar="'p90 queued_s <= 900'"
    )
    of_workloads: float = option(
        0.9, "share of workloads that must reach the SLO", metavar="SHARE", range=_SHARE
    )
    confidence: float = option(0.95, "confidence level", metavar="SHARE", range=_SHARE)
    indifference: float | None = option(
        None,
        "margin above --of-workloads that the test must detect (0.05)",
        metavar="SHARE",
        range=_SHARE,
    )
    exploration: int = option(
        SEARCH.exploration, "number of workloads to explore with", metavar="N", range=_COUNT
    )
    workloads: int | None = option(
        None,
        "number of workloads in all (default: what the statement can need)",
        metavar="N",
        range=_COUNT,
    )
    first_seed: int = option(0, "seed of the first workload", metavar="N", range=SEEDS)


@dataclass(frozen=True, slots=True)
class Nodes(Statement):
    """Options of question ``nodes``."""

    node_type: str | None = option(None, "GPU type of the nodes (A800-80GB)", metavar="GPU")
    gpus_per_node: int | None = option(
        None, "GPUs per node (8)", metavar="N", range=Range(1, MOST_GPUS_PER_NODE, whole=True)
    )
    most: int = option(
        64,
        "largest number of nodes that is tried",
        flag="--max-nodes",
        metavar="N",
        range=Range(1, MOST_NODES, whole=True),
    )


@dataclass(frozen=True, slots=True)
class Fleet(Statement):
    """Options of question ``fleet``."""

    types: str | None = option(None, "GPU types of the nodes", metavar="GPU,GPU")
    type_prices: str | None = option(
        None,
        "dollars per GPU-hour of each type",
        flag="--prices",
        metavar="GPU=USD,...|FILE.toml",
    )
    budget: str | None = option(None, "largest price per hour (default: none)", metavar="USD/h")
    delay_s: float | None = option(
        None,
        "time for the work in the MILP, in seconds (from the SLO, or 4 h)",
        metavar="S",
        range=Range(60.0, 1e9),
    )
    most: int = option(
        16,
        "largest number of nodes per type",
        flag="--max-nodes",
        metavar="N",
        range=Range(1, 1000, whole=True),
    )
    mixes: int = option(
        FLEET.mixes, "number of mixes that are tried", metavar="N", range=Range(1, 1000, whole=True)
    )


@dataclass(frozen=True, slots=True)
class Growth(Statement):
    """Options of question ``growth``; each load is tested once, on all workloads."""

    load: str | None = option(None, "load factors, like 1.0:2.0:0.1", metavar="FROM:TO:STEP")


@dataclass(frozen=True, slots=True)
class Worth:
    """Options of question ``worth``."""

    metric: str = option("avg jct_s", "statistic to compare", metavar="'p99 jct_s'")
    seeds: int = option(10, "number of workloads", metavar="N", range=_COUNT)
    first_seed: int = option(0, "seed of the first workload", metavar="N", range=SEEDS)
    confidence: float = option(0.95, "confidence level", metavar="SHARE", range=_SHARE)
    every: int = option(
        20, "price every N-th round", flag="--price-every", metavar="N", range=_COUNT
    )


@dataclass(frozen=True, slots=True)
class Compare(Worth):
    """Options of question ``compare``, which prices no round."""

    seeds: int = option(30, "number of workloads", metavar="N", range=_COUNT)


@dataclass(frozen=True, slots=True)
class Eta:
    """Options of question ``eta``."""

    history: str | None = option(
        None, "trace or log to draw arrivals from (no job arrives)", metavar="TRACE|FORMAT:PATH"
    )
    continuations: int = option(
        50, "number of futures that are drawn", metavar="N", range=Range(5, 10_000, whole=True)
    )
    seed: int = option(0, "seed of the first future", range=SEEDS)


QUESTIONS: dict[str, tuple[type[Any], str]] = {
    "nodes": (Nodes, "how many equal nodes keep an SLO?"),
    "fleet": (Fleet, "which mix of nodes keeps an SLO, at what price?"),
    "remove": (Statement, "which nodes can go?"),
    "worth": (Worth, "what is one more node of each class worth?"),
    "growth": (Growth, "at which load does the fleet break?"),
    "compare": (Compare, "what is a change worth: of policy, objective, rules?"),
    "eta": (Eta, "when does a job start and end?"),
}
"""Options and text of each question."""

_NOT_ASKED = {"growth": ("indifference", "exploration"), "compare": ("every",)}
"""Fields of a question's dataclass without an effect on it."""


def make_parser() -> LineParser:
    """Build the parser, with one sub-command per question."""
    parser = LineParser(
        prog="python -m morph_opt.plan",
        description="Capacity planning: questions answered by bounds and replays, with evidence.",
        epilog="Exit status: 0 answered; 2 bad usage or bad input, or nothing reaches the target.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="QUESTION")
    commands.renamed = {"rules": "compare with --rules FILE among the options of --b"}  # type: ignore[attr-defined]
    for name, (subject, text) in QUESTIONS.items():
        one: LineParser = commands.add_parser(name, help=text)
        one.hints = {"--options": "give the options that it held directly, without it"}
        if name == "eta":
            _eta(one)
            continue
        nodes_are_asked = name in ("nodes", "fleet")
        add_options(one, Drawn, [n for n in asked(Drawn) if n != "cluster" or not nodes_are_asked])
        add_options(one, Site)
        _output(one)
        without = _NOT_ASKED.get(name, ())
        add_options(one, subject, [field for field in asked(subject) if field not in without])
        required = [asked(subject)[field].flag for field in _REQUIRED if field in asked(subject)]
        for flag in required:
            one._option_string_actions[flag].required = True
        if name == "compare":
            _compare(one)
        else:
            _deciding(one)
    return parser


def _compare(one: LineParser) -> None:
    """Add the variants, and the options that they have in common."""
    one.add_argument(
        "--a",
        required=True,
        metavar="OPTIONS",
        help="options of one variant, in quotes; a rules file may come first: "
        "'rules.toml --policy srtf'",
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
    add_options(one, Eta, ("history",))
    one.add_argument(
        "--job",
        dest="jobs",
        action="append",
        metavar="NAME",
        help="job to forecast; may be repeated (default: all)",
    )
    add_options(one, Eta, ("continuations", "seed"))
    _output(one)
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
    _variant(parser, parser)
    shared = ["--trace", "--cluster", "--prices", *(asked(Workload)[name].flag for name in JOBS)]
    parser.hints = dict.fromkeys(shared, "it is the same for all variants: give it outside quotes")
    return parser


def _variant(parser: LineParser, group: Any) -> None:
    """Add the options of who decides, the engine, and failures of nodes to a group of a parser."""
    add_options(group, Scheduler, DECIDING)
    add_options(group, ReplayConfig)
    add_options(group, Failures, FAILURES)
    require_failures(parser)


def _names(parser: LineParser) -> list[str]:
    return [name for action in parser._actions for name in action.option_strings]


def _deciding(one: LineParser) -> None:
    """Add all other options of a replay, the usual ones in the short help."""
    own = _names(one)
    _reading(one)
    text = "who decides, rules of the engine, and failures of nodes"
    _variant(one, one.add_argument_group(text))
    one.abridge(*own, *_SHOWN)


def _reading(one: LineParser) -> None:
    """Add the options of reading the trace and, next to ``--cluster``, of prices."""
    jobs = one.add_argument_group("jobs of the trace")
    add_options(jobs, Workload, [name for name in JOBS if name not in LOG_OPTIONS])
    if "--cluster" in _names(one):
        add_prices(jobs)
    add_options(one.add_argument_group("jobs of a log (--trace FORMAT:PATH)"), LogOptions)


def _output(one: LineParser) -> None:
    one.add_argument("--out", type=Path, metavar="DIR", help="folder (runs/plan-QUESTION)")
    one.add_argument("--json", action="store_true", help="print the answer as JSON")
    one.add_argument("--quiet", action="store_true", help="print no progress")
