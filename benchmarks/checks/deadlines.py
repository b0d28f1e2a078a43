"""Check that time limits of rounds hold: ``python -m benchmarks.checks.deadlines [ROUNDS]``.

Rounds are drawn with everything that makes them hard: nodes with odd numbers of GPUs, few threads,
leaves with slow uplinks, NVLink domains, promises, prices of starts by kind, and rules that may
contradict each other. Every second round follows from the decision of the one before. Each is
decided under a limit of L seconds; the CPU seconds beyond L are printed, worst first, and the
status is 1 if they exceed `SLACK_S` in any round, or if an answer contradicts itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.instances.scaled import Scaled, arrivals, round_after
from morph_opt.core.domain import A800_NODE, Cluster, JobState, Leaf, Node, RoundState
from morph_opt.core.domain.errors import InputError
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    MinimumRun,
    NodeRule,
    OperatorRules,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_policy

SLACK_S = 1.0
"""CPU seconds that a round may take beyond its limit."""
LIMITS_S = (0.01, 0.05, 0.3, 1.0)
OBJECTIVES = ("jct", "throughput", "auto", "lookahead")


@dataclass(frozen=True, slots=True)
class Row:
    """Round of the check: its seed and place, limit, CPU seconds, status and size."""

    seed: int
    place: int
    limit_s: float
    cpu_s: float
    status: str
    jobs: int
    nodes: int

    @property
    def over_s(self) -> float:
        """CPU seconds beyond the limit."""
        return self.cpu_s - self.limit_s


def messy_cluster(draw: np.random.Generator) -> Cluster:
    """Draw a cluster of one to three types of nodes, leaves and NVLink domains."""
    kinds = []
    for at in range(int(draw.integers(1, 4))):
        gpus = int(draw.integers(2, 9))
        kinds.append(
            replace(
                A800_NODE,
                name=f"t{at}",
                gpus=gpus,
                cpus=gpus * int(draw.integers(3, 13)),
                gpu_type=replace(A800_NODE.gpu_type, name=f"G{at}" if at else "A800-80GB"),
            )
        )
    leaves, count = int(draw.integers(1, 5)), int(draw.integers(6, 33))
    racks = draw.random() < 0.3
    nodes = []
    for at in range(count):
        leaf = at * leaves // count
        rack = f"rack-{leaf}-{at // 4}" if racks else None
        kind = kinds[int(draw.integers(len(kinds))) if at else 0]  # speeds are those of the first
        nodes.append(Node(f"n{at:03d}", kind, leaf=f"leaf-{leaf}", nvlink_domain=rack))
    slow = [Leaf(f"leaf-{at}", float(draw.uniform(5.0, 80.0))) for at in range(leaves)]
    return Cluster("messy", tuple(nodes), tuple(slow) if draw.random() < 0.5 else ())


def messy_jobs(draw: np.random.Generator, cluster: Cluster) -> tuple[JobState, ...]:
    """Draw waiting jobs, some with promises, all with prices of starts or none."""
    gpus = sum(node.type.gpus for node in cluster.nodes)
    jobs = arrivals(max(4, int(gpus * draw.uniform(0.2, 1.0))), draw, "j")
    promised, prices = draw.random() < 0.6, draw.random() < 0.4
    found = []
    for known in jobs:
        job = replace(
            known.job,
            guaranteed=bool(promised and draw.random() < 0.25),
            tenant=str(draw.choice(["a", "b"])),
        )
        own = {"resume_s": 20.0, "migrate_s": 90.0} if prices else {}
        found.append(replace(known, job=job, **own))
    return tuple(found)


def messy_rules(draw: np.random.Generator, state: RoundState) -> OperatorRules:
    """Draw up to four rules."""
    names = [known.job.name for known in state.jobs]
    some = tuple(draw.choice(names, size=min(5, len(names)), replace=False).tolist())
    every: list[Rule] = [
        TenantQuota("a", int(draw.integers(0, 30)), borrow_gpus=int(draw.integers(0, 9))),
        MinimumRun(600.0),
        GangLimit(some, 1, int(draw.integers(1, 5))),
        NodeRule(some, not_nodes=("n00*",)),
    ]
    chosen = tuple(rule for rule in every if draw.random() < 0.3)
    return OperatorRules(chosen, fewer_moves=bool(draw.random() < 0.2))


def policy_of(
    state: RoundState, rules: OperatorRules, objective: str, promises: str, limit_s: float
) -> Policy:
    """Return the MILP policy under a limit."""
    speeds = Scaled(load_trace("base").truth, state.cluster.node_types)
    options = PolicyOptions(
        objective=objective, promises=promises, time_limit_s=limit_s, rules=rules
    )
    return make_policy("milp", speeds, options)


def rounds(seeds: range) -> Iterator[Row]:
    """Decide two rounds of each seed.

    Raises
    ------
    AssertionError
        If an answer contradicts itself.
    """
    for seed in seeds:
        draw = np.random.default_rng((seed, 39))
        cluster = messy_cluster(draw)
        state = RoundState(0, 3600.0, 60.0, cluster, messy_jobs(draw, cluster))
        rules = messy_rules(draw, state)
        objective = OBJECTIVES[seed % len(OBJECTIVES)]
        promises = str(draw.choice(["rank", "weight:3"]))
        for place in range(2):
            limit_s = LIMITS_S[int(draw.integers(len(LIMITS_S)))]
            policy = policy_of(state, rules, objective, promises, limit_s)
            began_s = time.process_time()
            try:
                decision = policy.decide(state)
            except InputError as error:
                status = type(error).__name__
            else:
                report = decision.report
                status = report.status
                where = f"seed {seed}, round {place}"
                assert report.bound >= report.objective - 1e-9 * abs(report.objective), where
                promised = any(known.job.guaranteed for known in state.jobs)
                if promised and report.guarantees_short == 0:
                    assert report.guarantees_possible is True, where
                if promised and report.guarantees_possible is None:
                    assert status != "optimal", where
            cpu_s = time.process_time() - began_s
            sizes = len(state.jobs), len(cluster.nodes)
            yield Row(seed, place, limit_s, cpu_s, status, *sizes)
            if status.endswith("Error"):
                break
            state = _later(round_after(state, decision.allocation, seed), decision.allocation)


def _later(state: RoundState, held: object) -> RoundState:
    """Return the round an interval later, with instants of the starts."""
    now_s, started_s = state.time_s + state.interval_s, state.time_s
    jobs = tuple(
        replace(known, first_start_s=started_s, last_start_s=started_s, starts=1)
        if known.running is not None
        else known
        for known in state.jobs
    )
    return replace(state, time_s=now_s, jobs=jobs)


def main(count: int = 300) -> int:
    """Print the rounds that took longest; return 1 if one took too long."""
    rows = list(rounds(range(-(-count // 2))))
    rows.sort(key=lambda row: -row.over_s)
    for row in rows[:12]:
        print(row, f"over by {row.over_s:.2f} s")
    late = sum(row.over_s > SLACK_S for row in rows)
    print(f"{len(rows)} rounds, {late} more than {SLACK_S:g} s of CPU beyond their limits")
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
