"""Arguments of ``python -m morph_opt.replay``."""

from __future__ import annotations

import argparse
from pathlib import Path

from morph_opt.clusters import load_cluster, parse_short
from morph_opt.clusters.short import sized_node
from morph_opt.commandline import LineParser
from morph_opt.domain import A800_NODE, Cluster, InputError, default_cluster
from morph_opt.replay.belief import BELIEFS
from morph_opt.replay.options import RunOptions, named_numbers


def make_parser() -> argparse.ArgumentParser:
    """The parser; a value that was not given is absent from the namespace."""
    parser = LineParser(
        prog="python -m morph_opt.replay",
        description="Replay a trace of training jobs with one decision per scheduling round.",
        epilog="Exit status: 0 done; 1 finished, but some round fell back, a check failed or jobs "
        "are left unfinished; 2 bad usage or bad input.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    _what(parser.add_argument_group("what is replayed"))
    _where(parser.add_argument_group("cluster (default: 8 nodes x 8 A800-80GB)"))
    _who(parser.add_argument_group("who decides"))
    _knobs(parser.add_argument_group("what some policies may be told"))
    _rules(parser.add_argument_group("rules of the engine"))
    _output(parser.add_argument_group("output"))
    return parser


def _what(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--trace", metavar="NAME|DATASET/NAME|FILE", help="default: base")
    group.add_argument("--seed", type=int, help="of twins, random failures and solver (default 0)")
    group.add_argument(
        "--skip-impossible", action="store_true", help="drop jobs that can never run, and say so"
    )


def _where(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--cluster", metavar="SPEC.toml|8x8:A800-80GB", help="spec or short form")
    group.add_argument(
        "--prices", metavar="TYPE=USD,...", help="dollars per hour of a GPU, for objective cost"
    )
    group.add_argument("--nodes", type=int, metavar="N")
    group.add_argument("--gpus-per-node", type=int, metavar="N")
    group.add_argument("--gpu-type", metavar="NAME")
    group.add_argument("--cpus-per-node", type=int, metavar="N")
    group.add_argument("--host-memory-gib", type=float, metavar="GIB", help="per node")
    group.add_argument("--nvlink-gb-per-s", type=float, metavar="GB/S")
    group.add_argument("--rdma-gb-per-s", type=float, metavar="GB/S", help="per node")


def _who(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--policy", help="milp (default), fifo, fifo:skip, srtf, equal_split, ...")
    group.add_argument("--objective", help="of the MILP: throughput (default), jct, ...")
    group.add_argument("--solver", help="of the MILP (default highs)")
    group.add_argument("--formulation", help="of the MILP (default node_pattern)")
    group.add_argument("--rules", metavar="FILE", help="operator's rules, TOML")
    group.add_argument("--gap", type=float, help="relative gap at which a round is done (1e-4)")
    group.add_argument("--time-limit-s", type=float, help="wall-clock safeguard per round (10)")
    group.add_argument("--node-limit", type=int, help="branch-and-bound nodes per round")
    group.add_argument("--belief", choices=BELIEFS, help="speeds that the policy sees (truth)")
    group.add_argument(
        "--online-fit", action="store_true", help="correct the belief by what running jobs show"
    )
    group.add_argument(
        "--packing", action="store_true", help="two jobs on the same GPUs, where speeds have pairs"
    )


def _knobs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--entity-weights", metavar="TENANT=W,...", help="of hierarchical policies (1 each)"
    )
    group.add_argument(
        "--starvation-knob", type=float, metavar="K", help="of las, gittins, tiresias:* (0: never)"
    )
    group.add_argument(
        "--artifact-quirks", action="store_true", help="tiresias:* as the published code decides"
    )


def _rules(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--interval", dest="interval_s", type=float, metavar="S", help="round (60)")
    group.add_argument(
        "--restart-s",
        action="append",
        metavar="S|MODEL=S",
        help="start-up of every start and change (260); repeat for single models",
    )
    group.add_argument(
        "--lost-work", dest="lost_work_s", type=float, metavar="S", help="lost per preemption (0)"
    )
    group.add_argument(
        "--checkpoint-s", type=float, metavar="S", help="between two checkpoints (1800)"
    )
    group.add_argument("--events", metavar="FILE", help="node failures, drains, returns")
    group.add_argument("--mtbf-s", type=float, metavar="S", help="random failures: mean up time")
    group.add_argument("--mttr-s", type=float, metavar="S", help="random failures: mean down time")
    group.add_argument("--until-s", type=float, metavar="S", help="stop at this simulated instant")


def _output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--out", type=Path, metavar="DIR", help="run folder; default runs/TRACE-POLICY-DIGEST"
    )
    group.add_argument("--resume", type=Path, metavar="RUN", help="finish an interrupted run")
    group.add_argument("--json", action="store_true", help="print the summary alone, as JSON")
    group.add_argument("--quiet", action="store_true", help="no progress bar, no notes")
    group.add_argument(
        "--explain", action="store_true", help="explain every round, in explain.jsonl of the run"
    )
    group.add_argument(
        "--dump-rounds", type=Path, metavar="DIR", help="write states for python -m morph_opt.round"
    )
    group.add_argument("--dump-every", type=int, metavar="N", help="only every N-th round (1)")
    group.add_argument("--dump-gz", action="store_true", help="compress the states")


WATCHING = {"explain", "dump_rounds", "dump_every", "dump_gz"}
"""What looks at a run and decides nothing of it; may be given again with ``--resume``."""

_OUTPUT = {"out", "resume", "json", "quiet"} | WATCHING
_CLUSTER = {
    "cluster",
    "prices",
    "nodes",
    "gpus_per_node",
    "gpu_type",
    "cpus_per_node",
    "host_memory_gib",
    "nvlink_gb_per_s",
    "rdma_gb_per_s",
}


def options_from(arguments: argparse.Namespace) -> RunOptions:
    """The run that a command line asks for.

    Raises
    ------
    InputError
        If a value is out of range or two options contradict each other.
    """
    given = dict(vars(arguments))
    values = {k: v for k, v in given.items() if k not in _OUTPUT | _CLUSTER}
    values.setdefault("trace", "base")
    values["cluster"] = _cluster(
        {k: v for k, v in given.items() if k in _CLUSTER}, str(values["trace"])
    )
    if values.get("entity_weights") == "":
        named_numbers("", "--entity-weights")
    for entry in values.pop("restart_s", []):
        model, equals, seconds = str(entry).rpartition("=")
        try:
            number = float(seconds)
        except ValueError as error:
            rule = f"must be seconds or MODEL=seconds, got {entry!r}"
            raise InputError(rule, field="--restart-s") from error
        if equals:
            values.setdefault("restart_s_by_model", {})[model] = number
        else:
            values["restart_s"] = number
    return RunOptions(**values)


def _cluster(given: dict[str, object], trace: str) -> Cluster:
    prices = given.pop("prices", None)
    cluster = _unpriced(given, trace)
    if prices is None:
        return cluster
    try:
        return cluster.with_prices(named_numbers(str(prices), "--prices"))
    except InputError as error:
        raise InputError(error.rule, field="--prices") from error


def _unpriced(given: dict[str, object], trace: str) -> Cluster:
    from morph_opt.traces.registry import home_cluster

    spec = given.pop("cluster", None)
    if spec is not None:
        if given:
            names = ", ".join("--" + name.replace("_", "-") for name in given)
            raise InputError(f"cannot be combined with {names}", field="--cluster")
        return load_cluster(str(spec))
    if not given:
        home = home_cluster(trace)
        return parse_short(home) if home else default_cluster()
    return _uniform(**given)  # type: ignore[arg-type]


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
    from dataclasses import replace

    node = replace(
        sized_node(gpus_per_node, gpu_type),
        cpus=cpus_per_node,
        host_memory_gib=host_memory_gib,
        nvlink_gb_per_s=nvlink_gb_per_s,
        rdma_gb_per_s=rdma_gb_per_s,
    )
    return Cluster.uniform(nodes, node)
