"""Large rounds under the rules of an organisation: ``python -m benchmarks.scale.organised``.

    python -m benchmarks.scale.organised [--sizes 2048] [--types 3] [--rounds 2] [--time 120]
                                         [--rules none tree tree+limits tree+classes]

The jobs of `benchmarks.scale` belong to a tree of three levels with 20 teams of 10 queues, by
uneven popularity, and to users; queues own equal parts of each GPU type. A third of them borrows at
most 8 GPUs, a third lends at most 2, and a team borrows at most half of what it owns: some rows
bind and some do not. Users hold at most 16 GPUs. Three classes have two fifths, two fifths and one
fifth of the jobs. Prints a line of Markdown per round: rows, CPU seconds to pose and to solve, and
the certified gap of each level.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.instances.scaled import first_round, round_after, speeds_of
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import Cluster, RoundState
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.placement import place
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.rules.model import OperatorRules, Rule
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

TEAMS, QUEUES, USERS = 20, 10, 8
"""Teams, queues of each, and users of each queue."""

MOST_GPUS = 2**20
CLASSES = {"low": 0.4, "middle": 0.4, "high": 0.2}
"""Classes from the lowest, with their shares of the jobs."""

KINDS = ("none", "tree", "limits", "classes")
"""Kinds of rules; ``+`` joins several."""


def organised(state: RoundState, seed: int = 0) -> RoundState:
    """The round with a queue, a user and a priority for each job, the same ones in later rounds."""
    popular = np.random.default_rng((seed, 0)).dirichlet(np.ones(TEAMS * QUEUES))
    priorities, shares = [10.0 * at for at in range(len(CLASSES))], [*CLASSES.values()]
    found = []
    for known in state.jobs:
        draw = np.random.default_rng((seed, 1, *known.job.name.encode()))
        queue, user = int(draw.choice(popular.size, p=popular)), int(draw.integers(USERS))
        job = replace(
            known.job,
            tenant=f"team-{queue // QUEUES}-{queue % QUEUES}",
            user=f"user-{queue}-{user}",
            priority=float(draw.choice(priorities, p=shares)),
        )
        found.append(replace(known, job=job))
    return replace(state, jobs=tuple(found))


def rules_of(kinds: str, cluster: Cluster) -> OperatorRules:
    """The rules that ``kinds`` joins, for the GPUs of a cluster."""
    asked = kinds.split("+")
    rules: list[Rule] = [*_tree(cluster)] if "tree" in asked else []
    if "limits" in asked:
        rules.append(RunningLimit("user", gpus=16))
    if "classes" in asked:
        rules += [
            PriorityClass(name, (10.0 * at, 10.0 * at + 9.0)) for at, name in enumerate(CLASSES)
        ]
    return OperatorRules(tuple(rules))


def _tree(cluster: Cluster) -> Iterator[Queue]:
    gpus: Counter[str] = Counter()
    for node in cluster.nodes:
        gpus[node.type.gpu_type.name] += node.type.gpus
    yield Queue("all", nominal=_parts(gpus, 1))
    for team in range(TEAMS):
        name, own = f"team-{team}", _parts(gpus, TEAMS)
        yield Queue(name, "all", own, borrow={"*": float(sum(own.values()) // 2)})
        for at in range(QUEUES):
            one = Queue(f"{name}-{at}", name, _parts(gpus, TEAMS * QUEUES))
            if at % 3 == 0:
                one = replace(one, borrow={"*": 8.0})
            elif at % 3 == 1:
                one = replace(one, lend={"*": 2.0})
            yield one


def _parts(gpus: Counter[str], of: int) -> dict[str, float]:
    return {kind: float(many // of) for kind, many in gpus.items()}


def measured(gpus: int, types: int, kinds: str, rounds: int, time_s: float) -> Iterator[str]:
    """Yield a row of a table for each of some rounds, of which each follows from the one before."""
    state = organised(first_round(gpus, types))
    speeds = speeds_of(state.cluster)
    rules = rules_of(kinds, state.cluster)
    objective = make_objective("throughput", speeds)
    poser = RoundPoser(speeds, objective, rules, compact_from=DEFAULTS.compact_from)
    ladder = Ladder(make_solver("highs"))
    poser.pose(state)  # configurations are enumerated once per cluster
    for at in range(rounds):
        gc.collect()
        began = time.process_time()
        posed = poser.pose(state)
        built = time.process_time()
        solved = ladder.solve(posed, Limits(gap=1e-3, time_s=time_s))
        ended = time.process_time()
        gaps = ", ".join(f"{100 * outcome.gap:.3f} %" for outcome in solved.outcomes)
        yield (
            f"| {gpus:,} | {types} | {kinds} | {at} | {posed.problem.rules.count:,} "
            f"| {built - began:.2f} | {ended - built:.2f} | {gaps} |"
        )
        if solved.selection is None:
            return
        state = organised(round_after(state, place(solved.posed or posed, solved.selection)))


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.scale.organised", description=__doc__)
    size, count = whole(8, MOST_GPUS), whole(1, 100)
    parser.add_argument("--sizes", type=size, nargs="+", default=[2048], help="GPUs")
    parser.add_argument("--types", type=whole(1, 3), nargs="+", default=[3], help="GPU types")
    parser.add_argument("--rounds", type=count, default=2, help="of each case, the first is cold")
    parser.add_argument("--time", type=whole(1, 86_400), default=120, help="seconds of a round")
    cases = ["none", "tree", "tree+limits", "tree+classes"]
    parser.add_argument("--rules", type=_kinds, nargs="+", default=cases, help="kinds, joined by +")
    return parser


def _kinds(text: str) -> str:
    unknown = [kind for kind in text.split("+") if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"must join some of {', '.join(KINDS)}, got {text!r}")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    print("| GPUs | types | rules | round | rows | pose, CPU s | solve, CPU s | gaps |")
    print("|---|---|---|---|---|---|---|---|")
    for gpus in given.sizes:
        for types in given.types:
            for kinds in given.rules:
                for row in measured(gpus, types, kinds, given.rounds, given.time):
                    print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
