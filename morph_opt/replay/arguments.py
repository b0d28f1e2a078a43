"""Arguments of ``python -m morph_opt.replay``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from morph_opt.clusters import load_cluster, parse_short
from morph_opt.clusters.short import sized_node
from morph_opt.commandline import LineParser, NamedNumbers, Number, named_numbers
from morph_opt.commandline.types import NamedNumber, whole
from morph_opt.domain import A800_NODE, SEEDS, Cluster, InputError, Range, default_cluster
from morph_opt.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.engine.config import RANGES
from morph_opt.policies.registry import draws, require_understood
from morph_opt.policies.spec import OPTIONS
from morph_opt.replay.initial import STATE_TRACE
from morph_opt.replay.scenario import Scenario
from morph_opt.round.reader import read_snapshot
from morph_opt.traces.cluster_twins import OPTIONS as SIZES
from morph_opt.traces.logs.arguments import add_mapping, add_reading
from morph_opt.traces.logs.options import LOG_OPTIONS


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
    _what(parser.add_argument_group("what is replayed"))
    logs = parser.add_argument_group("jobs of a log (--trace FORMAT:PATH, see docs/logs.md)")
    add_mapping(logs)
    add_reading(logs)
    _where(parser.add_argument_group("cluster (default: 8 nodes x 8 A800-80GB)"))
    _who(parser.add_argument_group("who decides; an option is refused by policies without it"))
    _rules(parser.add_argument_group("rules of the engine"))
    _output(parser.add_argument_group("output"))
    parser.only_with("--mtbf-s", "--mttr-s")
    parser.only_with("--mttr-s", "--mtbf-s")
    parser.only_with("--failure-seed", "--mtbf-s")
    parser.only(
        "--solver-seed",
        "has no effect on this policy",
        lambda given: draws(getattr(given, "policy", "milp"), packing="packing" in given),
    )
    parser.only(
        "--checkpoint-s",
        "has an effect together with --events or --mtbf-s only: it is what a failure costs",
        lambda given: "events" in given or "mtbf_s" in given,
    )
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
    return parser


_TWIN_SIZES = {
    "jobs": "how many (as many as load the GPUs as published)",
    "gpus": "of the cluster that it is for, and runs on unless you name one (2048)",
    "days": "over which its jobs are submitted (7)",
}


def _what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace", metavar="NAME|DATASET/NAME|FORMAT:PATH|FILE", help="default: base"
    )
    group.add_argument(
        "--seed", type=Number(SEEDS), help="of twins, random failures and solver (default 0)"
    )
    group.add_argument(
        "--failure-seed", type=Number(SEEDS), help="of random failures alone (that of --seed)"
    )
    group.add_argument(
        "--solver-seed",
        type=Number(SEEDS),
        help="of the solver, or a policy that draws, alone (that of --seed)",
    )
    group.add_argument(
        "--skip-impossible", action="store_true", help="drop jobs that can never run, and say so"
    )
    group.add_argument(
        "--from-state",
        metavar="FILE",
        help="begin with a state as python -m morph_opt.round reads it: its cluster, its jobs, and "
        "what a --trace has behind it (default: nothing)",
    )
    for option, text in _TWIN_SIZES.items():
        group.add_argument(
            f"--{option}",
            type=Number(SIZES[option]),
            metavar="N",
            help=f"of a cluster twin: {text}",
        )


def _where(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--cluster", metavar="SPEC.toml|8x8:A800-80GB", help="spec or short form")
    group.add_argument(
        "--prices",
        type=NamedNumbers(),
        metavar="TYPE=USD,...",
        help="dollars per hour of a GPU, for objective cost and for the bill",
    )
    group.add_argument("--nodes", type=whole(1, MOST_NODES), metavar="N")
    group.add_argument("--gpus-per-node", type=whole(1, MOST_GPUS_PER_NODE), metavar="N")
    group.add_argument("--gpu-type", metavar="NAME")
    group.add_argument("--cpus-per-node", type=whole(0, 10**6), metavar="N")
    group.add_argument(
        "--host-memory-gib", type=Number(Range(0.0, 1e9)), metavar="GIB", help="per node"
    )
    speed = Number(Range(0.0, 1e9, above=True))
    group.add_argument("--nvlink-gb-per-s", type=speed, metavar="GB/S")
    group.add_argument("--rdma-gb-per-s", type=speed, metavar="GB/S", help="per node")


def _who(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policy", metavar="NAME", help="milp (default), fifo, srtf, gavel:ftf, ..."
    )
    for option in OPTIONS.values():
        option.add_to(group)
    group.add_argument(
        "--belief", metavar="NAME",
        help="speeds that the policy sees: truth (default), model, table, or measured[:PRIOR], "
        "what pairs and places were seen to do",
    )  # fmt: skip
    group.add_argument(
        "--online-fit", action="store_true", help="correct the belief by what running jobs show"
    )


def _rules(group: argparse._ArgumentGroup) -> None:
    def seconds(option: str, name: str, text: str) -> None:
        group.add_argument(option, dest=name, type=Number(RANGES[name]), metavar="S", help=text)

    seconds("--interval", "interval_s", "round (60)")
    group.add_argument(
        "--restart-s",
        action="append",
        type=NamedNumber(RANGES["restart_s"]),
        metavar="S|MODEL=S",
        help="start-up of every start and change (260); repeat for single models",
    )
    seconds("--first-start-s", "first_start_s", "start-up of first starts (that; 0 for a log)")
    seconds(
        "--resume-s", "resume_s", "start-up on the nodes and in the plan held last (--migrate-s)"
    )
    seconds("--migrate-s", "migrate_s", "start-up in the plan held last elsewhere (--restart-s)")
    seconds("--lost-work", "lost_work_s", "lost per preemption (0)")
    seconds("--checkpoint-s", "checkpoint_s", "between two checkpoints (1800)")
    group.add_argument("--events", metavar="FILE", help="node failures, drains, returns")
    seconds("--mtbf-s", "mtbf_s", "random failures: mean up time")
    seconds("--mttr-s", "mttr_s", "random failures: mean down time")
    seconds("--until-s", "until_s", "stop at this simulated instant")


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


CLUSTER_SIZES = (
    "--nodes", "--gpus-per-node", "--gpu-type", "--cpus-per-node", "--host-memory-gib",
    "--nvlink-gb-per-s", "--rdma-gb-per-s",
)  # fmt: skip

WATCHING = {"quiet", "watch", "explain", "dump_rounds", "dump_every", "dump_gz"}
"""What looks at a run and decides nothing of it; may be given again with ``--resume``."""

_OUTPUT = {"out", "resume", "allow_code", "json"} | WATCHING
_CLUSTER = {"cluster", "prices", *(name[2:].replace("-", "_") for name in CLUSTER_SIZES)}


def scenario_from(arguments: argparse.Namespace) -> Scenario:
    """The run that a command line asks for.

    Raises
    ------
    InputError
        If a value is out of range or two options contradict each other.
    """
    given = dict(vars(arguments))
    values = {k: v for k, v in given.items() if k not in _OUTPUT | _CLUSTER}
    state = values.pop("from_state", None)
    begin = None if state is None else read_snapshot(str(state)).state
    values.setdefault("trace", "base" if begin is None else STATE_TRACE)
    for name in {"mix", "run_s"} & set(values):
        values[name] = named_numbers(str(values[name]), f"--{name.replace('_', '-')}")
    told = {name: values.get(name) for name in (*SIZES, *LOG_OPTIONS)}
    home = _home(str(values["trace"]), told)
    sized = {k: v for k, v in given.items() if k in _CLUSTER}
    cluster = _cluster(sized, home, None if begin is None else begin.cluster)
    if begin is not None:
        values.setdefault("interval_s", begin.interval_s)
    policy = str(values.get("policy", "milp"))
    solving = draws(policy, packing="packing" in given)
    require_understood(
        policy,
        str(values.get("objective", "throughput")),
        [name for name in given if name in OPTIONS],
    )
    failing = "mtbf_s" in given and "failure_seed" not in given
    if "seed" in given and not (failing or ("solver_seed" not in given and solving)):
        _require_seeded(str(values["trace"]), values.get("jobs_as"))
    by_model: dict[str, float] = {}
    for model, seconds in values.pop("restart_s", []):
        if (model is None and "restart_s" in values) or model in by_model:
            what = f" for {model}" if model else ""
            raise InputError(f"given twice{what}", field="--restart-s")
        if model is None:
            values["restart_s"] = seconds
        else:
            by_model[model] = seconds
    if "entity_weights" in values:
        values["entity_weights"] = named_numbers(str(values["entity_weights"]), "--entity-weights")
    own = {part: values.pop(f"{word}_seed", None) for word, part in _SEEDED.items()}
    asked = Scenario(cluster=cluster).replaced(**values, state=state, restart_s_by_model=by_model)
    return asked.replaced(
        **{
            part: replace(getattr(asked, part), seed=seed)
            for part, seed in own.items()
            if seed is not None
        }
    )


_SEEDED = {"failure": "failures", "solver": "scheduler"}
"""Parts of a scenario whose seed has an option of its own, by the word in that option."""


def _require_seeded(trace: str, jobs_as: object) -> None:
    """Refuse a seed that nothing draws by."""
    from morph_opt.traces.registry import takes_seed

    if not takes_seed(trace, None if jobs_as is None else str(jobs_as)):
        rule = f"has no effect: nothing is drawn in trace {trace!r}, nor by this policy"
        raise InputError(rule, field="--seed")


def _cluster(given: dict[str, object], home: str | None, known: Cluster | None) -> Cluster:
    prices = given.pop("prices", None)
    cluster = known or _unpriced(given, home)
    if prices is None:
        return cluster
    try:
        return cluster.with_prices(named_numbers(str(prices), "--prices"))
    except InputError as error:
        raise InputError(error.rule, field="--prices") from error


def _unpriced(given: dict[str, object], home: str | None) -> Cluster:
    spec = given.pop("cluster", None)
    if spec is not None:
        return load_cluster(str(spec))
    if not given:
        return parse_short(home) if home else default_cluster()
    return _uniform(**given)  # type: ignore[arg-type]


def _home(trace: str, told: dict[str, object]) -> str | None:
    """Home cluster of a trace; also refuses, by the name of the option, what it cannot be told."""
    from morph_opt.traces.registry import home_cluster

    try:
        return home_cluster(trace, **told)
    except InputError as error:
        if error.field in told:
            raise InputError(error.rule, field=f"--{error.field}") from error
        raise


def _uniform(
    nodes: int = 8,
    gpus_per_node: int = A800_NODE.gpus,
    gpu_type: str | None = None,
    cpus_per_node: int = A800_NODE.cpus,
    host_memory_gib: float = A800_NODE.host_memory_gib,
    nvlink_gb_per_s: float = A800_NODE.nvlink_gb_per_s,
    rdma_gb_per_s: float = A800_NODE.rdma_gb_per_s,
) -> Cluster:
    """Equal nodes; what is not given is as in the catalog's A800 node."""
    node = replace(
        sized_node(gpus_per_node, gpu_type),
        cpus=cpus_per_node,
        host_memory_gib=host_memory_gib,
        nvlink_gb_per_s=nvlink_gb_per_s,
        rdma_gb_per_s=rdma_gb_per_s,
    )
    return Cluster.uniform(nodes, node)
