"""What operator's rules cost and what ranked goals below the objective save."""

from __future__ import annotations

import math
import statistics
import time

import numpy as np

from benchmarks.rounds.replays import OBJECTIVES, rounds_of
from benchmarks.rounds.report import Row, Setup
from morph_opt.core.domain import default_cluster
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    TenantQuota,
)
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Started, StartKind

EVERY_KIND = OperatorRules(
    (
        TenantQuota("default", 48, borrow_gpus=None),
        TenantQuota("other", 16),
        MinimumRun(300.0),
        RestartLimit(4),
        NonPreemptible(("release-*",)),
        NodeRule(("*5",), not_nodes=("node-0",)),
        GangLimit(("*7",), most=32),
        Maintenance(("node-7",), 0.0, 1e9),
    )
)
"""A rule of each kind that concerns many jobs; decisions made without it break some."""


def moves(setup: Setup) -> list[Row]:
    """Moves of a replay without and with the goals that rank below the objective."""
    rows: list[Row] = []
    loaded = load_trace(setup.trace)
    ranks = {
        "no ranks": OperatorRules(),
        "fewer_moves": OperatorRules(fewer_moves=True),
        "fewer_moves, tighter_packing": OperatorRules(fewer_moves=True, tighter_packing=True),
    }
    for objective in OBJECTIVES:
        for name, rules in ranks.items():
            # Ranks need the objective to its very optimum, so both are given the same gap.
            options = PolicyOptions(objective=objective, gap=1e-6, rules=rules)
            policy = make_policy("milp", loaded.truth, options)
            config = ReplayConfig(until_s=setup.until_s)
            found = replay(loaded.trace, default_cluster(), policy, loaded.truth, config)
            began = [event for event in found.events if isinstance(event, Started)]
            moved = sum(event.kind is not StartKind.FIRST for event in began)
            nodes = sum(len(event.placement.nodes) for event in began) / max(1, len(began))
            case = f"{setup.trace}, {objective}, {name}"
            jct_s = found.summary["avg_jct_s"]
            rows += [
                Row("moves", case, "restarts", moved, ""),
                Row("moves", case, "nodes per start", nodes, ""),
                Row("moves", case, "average JCT", math.nan if jct_s is None else jct_s, "s"),
            ]
    return rows


def audits(setup: Setup) -> list[Row]:
    """Time of an audit of every kind of rule, on the running allocation of each round."""
    _, states = rounds_of(setup, "throughput")
    times: list[float] = []
    for state in states:
        held = state.held
        kind = state.cluster.nodes[0].type.name
        sizes = {j.job.name: [(kind, gpus) for gpus in range(1, 65)] for j in state.jobs}
        tries: list[float] = []
        for _ in range(max(3, setup.repeat)):
            began = time.perf_counter()
            audit(state, held, EVERY_KIND, sizes.__getitem__)
            tries.append(1e3 * (time.perf_counter() - began))
        times.append(statistics.median(tries))
    return [
        Row("audit", setup.trace, "rounds", len(times), ""),
        Row("audit", setup.trace, "time p50", float(np.percentile(times, 50)), "ms", "1"),
        Row("audit", setup.trace, "time p99", float(np.percentile(times, 99)), "ms", "1"),
    ]


def ties(setup: Setup) -> list[Row]:
    """Running jobs moved or preempted by decisions on the same states, with a rank and without."""
    rows: list[Row] = []
    for objective in OBJECTIVES:
        speeds, states = rounds_of(setup, objective)
        moved = {False: 0, True: 0}
        worth: dict[bool, float] = {}
        change = 0.0
        policies = {
            rank: make_policy(
                "milp",
                speeds,
                PolicyOptions(objective=objective, gap=1e-6, rules=OperatorRules(fewer_moves=rank)),
            )
            for rank in moved
        }
        chosen = states[::4]
        for state in chosen:
            for rank, policy in policies.items():
                decision = policy.decide(state)
                granted = decision.allocation.by_job()
                worth[rank] = decision.report.objective
                moved[rank] += sum(
                    known.running is not None and granted.get(known.job.name) != known.running
                    for known in state.jobs
                )
            scale = max(1e-12, abs(worth[False]))
            change = max(change, abs(worth[True] - worth[False]) / scale)
        case = f"{setup.trace}, {objective}"
        rows += [
            Row("ties", case, "rounds", len(chosen), ""),
            Row("ties", case, "moves, no ranks", moved[False], ""),
            Row("ties", case, "moves, fewer_moves", moved[True], ""),
            Row("ties", case, "largest relative change of the objective", change, "", "2e-06"),
        ]
    return rows
