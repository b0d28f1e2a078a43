"""Arguments of ``python -m morph_opt.plan``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from morph_opt.commandline import LineParser, Number
from morph_opt.commandline.options import add_options
from morph_opt.commandline.types import whole
from morph_opt.domain import SEEDS, Range
from morph_opt.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.engine.config import ReplayConfig
from morph_opt.plan.defaults import EXPLORATION, MIXES
from morph_opt.replay.arguments import CLUSTER_SIZES, WATCHING
from morph_opt.replay.arguments import make_parser as replay_parser
from morph_opt.replay.scenario import Scheduler

SHARE = Range(0.0, 1.0, above=True)
MANY = whole(1, 100_000)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.plan",
        description="Capacity planning: questions answered by bounds and replays, with evidence.",
        epilog="Exit status: 0 answered; 2 bad usage or bad input, or nothing reaches the target.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="QUESTION")
    commands.renamed = {"rules": "compare with --rules FILE among the options of --b"}  # type: ignore[attr-defined]

    def add(name: str, text: str) -> LineParser:
        made: LineParser = commands.add_parser(name, help=text)
        return made

    one = add("nodes", "how many equal nodes keep an SLO?")
    _common(one, cluster=False)
    _statement(one)
    one.add_argument("--node-type", metavar="GPU", help="GPU type of the nodes (A800-80GB)")
    one.add_argument(
        "--gpus-per-node", type=whole(1, MOST_GPUS_PER_NODE), metavar="N", help="GPUs of a node (8)"
    )
    one.add_argument(
        "--max-nodes",
        dest="most",
        type=whole(1, MOST_NODES),
        default=64,
        metavar="N",
        help="largest size that is tried (%(default)s)",
    )
    one = add("fleet", "which mix of nodes keeps an SLO, at what price?")
    _common(one, cluster=False)
    _statement(one)
    one.add_argument("--types", required=True, metavar="GPU,GPU", help="GPU types of the nodes")
    one.add_argument(
        "--prices",
        required=True,
        metavar="GPU=USD,...|FILE.toml",
        help="dollars per hour of a GPU of each type",
    )
    one.add_argument("--budget", metavar="USD/h", help="dollars per hour (default: none)")
    one.add_argument(
        "--delay-s",
        type=Number(Range(60.0, 1e9)),
        metavar="S",
        help="in time for the MILP (default: of the SLO, or 4 h)",
    )
    one.add_argument(
        "--max-nodes", dest="most", type=whole(1, 1000), default=16, metavar="N", help="per type"
    )
    one.add_argument(
        "--mixes",
        type=whole(1, 1000),
        default=MIXES,
        metavar="N",
        help="mixes that are tried (%(default)s)",
    )
    one = add("remove", "which nodes can go?")
    _common(one)
    _statement(one)
    _comparisons(add)
    return parser


def _comparisons(add: Callable[[str, str], LineParser]) -> None:
    """Questions that compare, forecast or price what is given."""
    one = add("worth", "what is one more node of each class worth?")
    _common(one)
    _metric(one, 10)
    one.add_argument(
        "--price-every", dest="every", type=MANY, default=20, metavar="N", help="rounds (20)"
    )
    one = add("growth", "at which load does the fleet break?")
    _common(one)
    _statement(one, exploration=False)
    one.add_argument("--load", required=True, metavar="FROM:TO:STEP", help="1.0:2.0:0.1")
    one = add("compare", "what is a change worth: of policy, objective, rules?")
    _common(one)
    _metric(one, 30)
    one.add_argument("--a", required=True, metavar="OPTIONS", help="of morph_opt.replay, quoted")
    one.add_argument("--b", required=True, action="append", metavar="OPTIONS", help="repeat")
    one.add_argument(
        "--no-noise", dest="noise", action="store_false", help="no further seeds of the solver"
    )
    one = add("eta", "when does a job start and end?")
    _scheduler(one)
    _output(one, on=False)
    begin = one.add_mutually_exclusive_group(required=True)
    begin.add_argument("--state", metavar="FILE", help="as morph_opt.round reads it")
    begin.add_argument(
        "--from",
        dest="live",
        metavar="SOURCE:FILES",
        help="what Slurm or Kueue answers now, as morph_opt.round reads it",
    )
    one.add_argument("--history", metavar="TRACE|FORMAT:PATH", help="what arrives is drawn from it")
    one.add_argument(
        "--job", dest="jobs", action="append", metavar="NAME", help="repeat (default: all)"
    )
    one.add_argument(
        "--continuations",
        type=whole(5, 10_000),
        default=50,
        metavar="N",
        help="futures that are drawn (%(default)s)",
    )
    one.add_argument("--seed", type=Number(SEEDS), default=0, help="of the first draw")


SHORT: dict[type, tuple[str, ...]] = {
    Scheduler: ("policy", "objective"),
    ReplayConfig: ("interval_s", "restart_s"),
}
"""Options of a replay that a question has itself, by subject."""


FIXED = {
    *("trace", "cluster", "seed", "failure_seed", "solver_seed", "from_state"),
    *("out", "resume", "allow_code", "json"),
    *WATCHING,
    *(name[2:].replace("-", "_") for name in CLUSTER_SIZES),
}
"""Options of a replay that no question takes among its others."""


def _quoted() -> list[str]:
    """Options of a replay that ``--options`` takes."""
    return [
        option
        for action in replay_parser()._actions
        for option in action.option_strings
        if option.startswith("--") and action.dest not in FIXED
    ]


def _scheduler(one: LineParser) -> None:
    for subject, names in SHORT.items():
        add_options(one, subject, names)
    one.add_argument("--options", metavar="OPTIONS", help="more, of morph_opt.replay, quoted")
    one.quoted = ("--options", _quoted)


def _common(one: LineParser, *, cluster: bool = True) -> None:
    from morph_opt.traces.resampled import DAYS, LOADS, WEEKS

    one.add_argument("--trace", default="base", metavar="TRACE", help="default base")
    if cluster:
        one.add_argument(
            "--cluster",
            metavar="SPEC.toml|8x8:A800-80GB",
            help="today's nodes (those of the trace)",
        )
    _scheduler(one)
    one.add_argument("--blocks", choices=(WEEKS, DAYS), help="drawn from a history")
    one.add_argument("--at-load", type=Number(LOADS), default=1.0, metavar="F", help="x1")
    _output(one)


def _output(one: LineParser, *, on: bool = True) -> None:
    if on:
        one.add_argument(
            "--on",
            metavar="local:N|dask:ADDRESS|MODULE:EXECUTOR",
            help="where replays run (here, a process per CPU)",
        )
    one.add_argument("--out", type=Path, metavar="DIR", help="default runs/plan-QUESTION")
    one.add_argument("--json", action="store_true", help="print the answer as JSON")
    one.add_argument("--quiet", action="store_true", help="no progress")


def _confidence(one: LineParser) -> None:
    one.add_argument(
        "--confidence",
        type=Number(SHARE),
        default=0.95,
        metavar="SHARE",
        help="of the statement (%(default)s)",
    )


def _first_seed(one: LineParser) -> None:
    one.add_argument(
        "--first-seed",
        type=Number(SEEDS),
        default=0,
        metavar="N",
        help="first workload (%(default)s)",
    )


def _statement(one: LineParser, *, exploration: bool = True) -> None:

    one.add_argument(
        "--slo", required=True, metavar="'p90 queued_s <= 900'", help="what a workload has to reach"
    )
    one.add_argument(
        "--of-workloads",
        type=Number(SHARE),
        default=0.9,
        metavar="SHARE",
        help="of workloads that reach it (%(default)s)",
    )
    _confidence(one)
    if exploration:
        one.add_argument(
            "--indifference",
            type=Number(SHARE),
            metavar="SHARE",
            help="how far above the share nothing is to be missed (0.05)",
        )
        one.add_argument(
            "--exploration",
            type=MANY,
            default=EXPLORATION,
            metavar="N",
            help="workloads to explore with (20)",
        )
    one.add_argument(
        "--workloads",
        type=MANY,
        metavar="N",
        help="in all; default: as many as the statement can need",
    )
    _first_seed(one)


def _metric(one: LineParser, seeds: int) -> None:
    one.add_argument(
        "--metric",
        default="avg jct_s",
        metavar="'p99 jct_s'",
        help="what is compared (%(default)s)",
    )
    one.add_argument("--seeds", type=MANY, default=seeds, metavar="N", help="workloads")
    _first_seed(one)
    _confidence(one)
