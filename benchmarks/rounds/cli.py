"""Rounds measured: step times, a large cluster, dominance, root gap, size.

    python -m benchmarks.rounds [--quick] [--repeat 3] [--only steps,large] [--out reports/rounds]

One thread. Every time is the median of ``--repeat`` decisions of the same round after a warm-up;
the percentiles are over rounds. Writes ``rounds.csv`` and, from it alone, ``README.md``; parts that
are not measured this time stay as they are in the folder.

========== ================================================================================
objectives every objective of the catalogue: which steps settled its rounds, CPU times
steps      rounds of a replay of ``base``, all node resources on: candidates, build, solve,
           place, check
large      512 GPUs (64 nodes, 4 leaves), 300 active jobs, running jobs in place
dominance  candidates with and without dominated ones, and the optimum of both at gap 0
root       relaxation against optimum at gap 0
size       rows and columns against the counts that the formulation page states
ties       moves of single decisions with ``fewer_moves`` below the objective, and without
moves      restarts of whole replays with goals below the objective, and without
audit      the independent audit of operator's rules
========== ================================================================================
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.rounds import catalog
from benchmarks.rounds.replays import OBJECTIVES, rounds_of
from benchmarks.rounds.report import Row, Setup, read, write
from benchmarks.rounds.rules import audits, moves, ties
from formulations import node_pattern
from formulations.linear_model import LinearModel
from formulations.node_pattern.cells import find_kinds
from formulations.node_pattern.patterns import reachable_free_of
from formulations.round.tables import RoundProblem
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_objective, make_policy
from morph_opt.scheduling.policies.steps import STEPS
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

TIMES = ("candidates_ms", "build_ms", "solve_ms", "place_ms", "check_ms")
EXACT = Limits(gap=0.0, time_s=60.0)
LARGE_CLUSTER = Path(__file__).resolve().parents[2] / "instances/clusters/a800-64x8-4leaves.toml"


def timed(
    policy: Policy, state: RoundState, repeat: int
) -> tuple[float, Decision, dict[str, float]]:
    """Median wall seconds of a decision, the decision, and the medians of its steps.

    The steps are milliseconds; ``cpu`` among them is the CPU time of the whole decision.
    """
    seconds: list[float] = []
    steps: list[dict[str, float]] = []
    for _ in range(repeat):
        began, cpu = time.perf_counter(), time.process_time()
        decision = policy.decide(state)
        seconds.append(time.perf_counter() - began)
        steps.append({name: getattr(decision.report, name) for name in TIMES})
        steps[-1]["cpu"] = 1e3 * (time.process_time() - cpu)
    median = {name: statistics.median(step[name] for step in steps) for name in steps[0]}
    return statistics.median(seconds), decision, median


def steps(setup: Setup) -> list[Row]:
    """Times of the rounds of a replay."""
    rows: list[Row] = []
    for objective in OBJECTIVES:
        speeds, states = rounds_of(setup, objective)
        policy = make_policy("milp", speeds, PolicyOptions(objective=objective))
        for state in states[:20]:
            policy.decide(state)
        gc.collect()
        found = [timed(policy, state, setup.repeat) for state in states]
        case = f"{setup.trace}, {objective}"
        rows.append(Row("steps", case, "rounds", len(found), ""))
        for name in TIMES:
            rows += _percentiles(case, name.removesuffix("_ms"), [t[2][name] for t in found])
        rows += _percentiles(case, "round, wall", [1e3 * t[0] for t in found], ("20", "150"))
        rows += _percentiles(case, "round, CPU", [t[2]["cpu"] for t in found], ("20", "150"))
        settled = Counter(decision.report.step for _, decision, _ in found)
        rows += [
            Row("steps", case, f"settled by {s}", settled[s], "rounds") for s in STEPS if settled[s]
        ]
        worst = max(decision.report.gap for _, decision, _ in found)
        rows.append(Row("steps", case, "largest gap", worst, "", "0.001"))
    return rows


def _percentiles(
    case: str, name: str, values: list[float], target: tuple[str, str] = ("", "")
) -> list[Row]:
    return [
        Row("steps", case, f"{name} p{percent}", float(np.percentile(values, percent)), "ms", goal)
        for percent, goal in zip((50, 99), target, strict=True)
    ]


def large_states(setup: Setup, objective: str) -> tuple[SpeedModel, list[RoundState]]:
    """Two rounds of a full large cluster: jobs in place; the same after some have completed.

    Two thirds of the jobs are placed first, then the rest arrives, a seventh of the running ones
    completes, and what is decided is the round after each.
    """
    loaded = load_trace("base")
    cluster = load_cluster(str(LARGE_CLUSTER))
    draw = np.random.default_rng(1)
    drawn = [
        replace(
            job, submission_s=0.0, iterations=max(1, int(job.iterations * draw.uniform(0.2, 3.0)))
        )
        for job in loaded.trace.jobs
    ]
    jobs = drawn[: setup.jobs]
    policy = make_policy("milp", loaded.truth, PolicyOptions(objective=objective, time_limit_s=60))
    waiting = [JobState(job, restart_s=260.0) for job in jobs]
    first = RoundState(1, 60.0, 60.0, cluster, tuple(waiting[: 2 * len(waiting) // 3]))
    placed = _after(policy.decide(first), waiting, 200.0, 0.0)
    full = RoundState(2, 120.0, 60.0, cluster, placed)
    later = _after(policy.decide(full), list(placed), 0.0, 0.1)
    held = [i for i, known in enumerate(later) if known.running is not None]
    completed = set(held[::7])
    left = [known for i, known in enumerate(later) if i not in completed]
    # As many arrive as completed, so that the number of active jobs stays.
    names = {known.job.name for known in later}
    fresh = [replace(job, name=f"{job.name}-again") for job in jobs[: len(completed)]]
    assert not names & {job.name for job in fresh}
    left += [JobState(job, restart_s=260.0) for job in fresh]
    return loaded.truth, [full, RoundState(10, 600.0, 60.0, cluster, tuple(left))]


def _after(
    decision: Decision, states: Sequence[JobState], start_up_s: float, done: float
) -> tuple[JobState, ...]:
    granted = decision.allocation.by_job()
    return tuple(
        replace(
            known,
            running=granted.get(known.job.name),
            restart_left_s=start_up_s if known.job.name in granted else 0.0,
            iterations_done=known.job.iterations * done,
        )
        for known in states
    )


def large(setup: Setup) -> list[Row]:
    """The large cluster: seconds of a whole decision and its gap."""
    rows: list[Row] = []
    for objective in OBJECTIVES:
        speeds, states = large_states(setup, objective)
        options = PolicyOptions(objective=objective, time_limit_s=60.0)
        policy = make_policy("milp", speeds, options)
        for name, state in zip(("arrivals", "completions"), states, strict=True):
            policy.decide(state)
            seconds, decision, split = timed(policy, state, setup.repeat)
            report = decision.report
            case = f"{state.cluster.gpus} GPUs, {len(state.jobs)} jobs, {name}, {objective}"
            rows += [
                Row("large", case, "decision, wall", seconds, "s", "2"),
                Row("large", case, "decision, CPU", split["cpu"] / 1e3, "s", "2"),
                Row("large", case, "gap", report.gap, "", "0.001"),
                Row("large", case, f"settled by {report.step}", 1, "rounds"),
                *(
                    Row("large", case, step.removesuffix("_ms"), split[step], "ms")
                    for step in TIMES
                ),
                Row("large", case, "candidates in the round", report.candidates, ""),
                Row("large", case, "rows", report.rows, ""),
                Row("large", case, "columns", report.columns, ""),
            ]
    return rows


def dominance(setup: Setup) -> list[Row]:
    """Factor by which dominance shrinks the candidates, and the largest change of an optimum."""
    rows: list[Row] = []
    solver = make_solver("highs")
    for objective in OBJECTIVES:
        speeds, states = rounds_of(setup, objective)
        goal = make_objective(objective, speeds)
        counts = {True: 0, False: 0}
        change = 0.0
        for state in states[::10]:
            worth: dict[bool, float] = {}
            for prune in (True, False):
                problem = CandidateBuilder(speeds, prune=prune).view(state).problem
                counts[prune] += problem.candidates.count
                level = goal.levels(problem)[-1]
                found = RoundSolver(solver, EXACT).ranked(problem, (level,)).selection
                worth[prune] = float("nan") if found is None else found.value(level)
            scale = max(1e-12, abs(worth[False]))
            change = max(change, abs(worth[True] - worth[False]) / scale)
        case = f"{setup.trace}, {objective}"
        rows += [
            Row("dominance", case, "rounds", len(states[::10]), ""),
            Row("dominance", case, "factor", counts[False] / max(1, counts[True]), ""),
            Row("dominance", case, "largest relative change of an optimum", change, "", "1e-06"),
        ]
    return rows


def root(setup: Setup) -> list[Row]:
    """Relative distance of the relaxation from the optimum."""
    rows: list[Row] = []
    solver = make_solver("highs")
    for objective in OBJECTIVES:
        speeds, states = rounds_of(setup, objective)
        poser = RoundPoser(speeds, make_objective(objective, speeds))
        gaps: list[float] = []
        for state in states[::10]:
            posed = poser.pose(state)
            problem, level = posed.problem, posed.worth
            model = _unit(node_pattern.build(problem, level).model)
            best, relaxed = solver.solve(model, EXACT), solver.solve(model.relaxed(), EXACT)
            if best.usable and relaxed.usable:
                gaps.append(max(0.0, relaxed.objective / max(1e-12, best.objective) - 1.0))
        case = f"{setup.trace}, {objective}"
        rows += [
            Row("root", case, "rounds", len(gaps), ""),
            Row("root", case, "tight at the root", float(np.mean(np.asarray(gaps) < 1e-6)), ""),
            Row("root", case, "gap p50", float(np.percentile(gaps, 50)), ""),
            Row("root", case, "gap p99", float(np.percentile(gaps, 99)), ""),
            Row("root", case, "largest gap", max(gaps), ""),
        ]
    return rows


def _unit(model: LinearModel) -> LinearModel:
    """The model with a largest objective coefficient of 1."""
    return model.with_objective(model.cost / model.scale)


def stated(problem: RoundProblem) -> dict[str, int]:
    """Counts of the formulation page that follow from the tables alone, by family."""
    nodes, holds = problem.nodes, problem.holds
    counted = find_kinds(problem).scarce
    busy = sorted({n for n in holds.node.tolist() if nodes.open[n]})
    free = resources = 0
    for node in busy:
        kind = int(nodes.node_class[node])
        distinct = counted[kind]
        held = np.round(holds.demand[holds.node == node][:, distinct], 9)
        capacity = tuple(nodes.capacity[kind, distinct].tolist())
        gangs = tuple((row,) for row in sorted(map(tuple, held.tolist())))
        free += len(reachable_free_of(capacity, gangs))
        resources += int(distinct.size)
    return {
        "x": problem.candidates.count,
        "s": int(problem.jobs.running.sum()),
        "w": free,
        "one_config": problem.jobs.count,
        "one_free": len(busy),
        "node_free": resources,
    }


def size(setup: Setup) -> list[Row]:
    """Rows and columns of a small, a median and a large round, next to what the page states."""
    rows: list[Row] = []
    cases = [("base", *rounds_of(setup, "throughput")), ("512 GPUs", *large_states(setup, "jct"))]
    for name, speeds, states in cases:
        poser = RoundPoser(speeds, make_objective("throughput", speeds))
        ordered = sorted(states, key=lambda state: len(state.jobs))
        for at in dict.fromkeys((0, len(ordered) // 2, len(ordered) - 1)):
            posed = poser.pose(ordered[at])
            problem, level = posed.problem, posed.worth
            model = node_pattern.build(problem, level).model
            found = {b.family: 0 for b in (*model.row_blocks, *model.column_blocks)}
            for block in (*model.row_blocks, *model.column_blocks):
                found[block.family] += block.count
            case = f"{name}: {problem.jobs.count} jobs, {problem.nodes.count} nodes"
            rows += [
                Row("size", case, "rows", model.rows, ""),
                Row("size", case, "columns", model.columns, ""),
                Row("size", case, "nonzeros", model.nonzeros, ""),
            ]
            expected = stated(problem)
            rows += [
                Row("size", case, word, count, "", str(expected[word]) if word in expected else "")
                for word, count in found.items()
            ]
    return rows


PARTS: dict[str, Callable[[Setup], Iterable[Row]]] = {
    catalog.PART: catalog.objectives,
    "steps": steps,
    "large": large,
    "dominance": dominance,
    "root": root,
    "size": size,
    "ties": ties,
    "moves": moves,
    "audit": audits,
}


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.rounds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rounds of a small trace")
    parser.add_argument("--repeat", type=whole(1, 1000), default=3)
    parser.add_argument("--every", type=whole(1, 1000), default=5, help="measure every N-th round")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("reports/rounds"))
    for option in ("--repeat", "--every"):
        parser.only(option, "has no effect next to --quick", lambda given: not given.quick)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen parts, print them and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    names = options.only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        known = ", ".join(PARTS)
        raise InputError(f"unknown part {unknown[0]!r}; known are {known}", field="--only")
    setup = Setup(repeat=options.repeat, every=options.every)
    if options.quick:
        setup = Setup("naive", 1800.0, 1, repeat=1, jobs=12, objectives=("throughput", "cost"))
    rows: list[Row] = []
    for name in names:
        found = [*PARTS[name](setup)]
        rows += found
        for row in found:
            print(f"{row.part:10s} {row.case:45s} {row.metric:38s} {row.value:.4g} {row.unit}")
        kept = [row for row in read(options.out) if row.part not in {r.part for r in rows}]
        write(
            options.out,
            sorted([*kept, *rows], key=lambda r: list(PARTS).index(r.part)),
            setup,
            {catalog.PART: catalog.table},
        )
    return 0
