"""Measures of one case: the same states decided by the ladder and by its peers."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.instances.scaled import JOBS_PER_GPU, first_round, round_after, speeds_of
from benchmarks.scale.peers import Decoupled, Pop, Priced
from formulations import node_pattern
from morph_opt.core.domain import Allocation, Cluster, RoundState
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import RoundMethod
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.placement import place
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.policies.malleable.sia_rule import Column, SiaJob, solve
from morph_opt.scheduling.policies.published import SIA
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

LIMITS = Limits(gap=1e-3, time_s=600.0)

CLOSE = 2e-4
"""Gap of the second line of the ladder."""

CLOSER = ("throughput", "jct")
"""Objectives of all cases, which have that line; others are measured if they are named."""

USD_PER_HOUR = 2.0
"""Price of a GPU of any type, which the objective ``cost`` needs."""

STOPPED = "stopped"
"""Status of the row of a case that needed more CPU seconds than it was given."""

PEER_S = 10.0
"""Wall seconds that a peer has for a round."""

EXACT = ("highs", "scip-ortools", "cpsat")
"""Solvers of the exact MIP."""

RELAXED = "lp"
"""Method of the rows of the LP relaxation, which has a bound and no decision."""

RESTATED: dict[str, Callable[[], RoundMethod]] = {
    "pop-1024": lambda: Pop(make_solver("highs"), 1024),
    "pop-256": lambda: Pop(make_solver("highs"), 256),
    "cvx": Priced,
    "dede": Decoupled,
}
"""Methods of others (`benchmarks.scale.peers`); they decide the whole round, in the ladder's time.

What compact ones leave out are shapes for which fragmented nodes have room, and with less time a
busy machine ends parts without a decision."""


@dataclass(frozen=True)
class Row:
    """One decided round; times are CPU seconds, the rest is of its report."""

    gpus: int
    types: int
    leaves: int
    nodes: str
    objective: str
    round: int
    method: str
    jobs: int
    running: int
    candidates: int
    columns_s: float
    solve_s: float
    nodes_s: float
    step: str
    status: str
    value: float
    bound: float
    gap: float
    gap_of_gain: float
    peak_mib: float


@dataclass(frozen=True)
class Case:
    """A cluster and a goal; ``nodes`` is a kind of `benchmarks.instances.scaled.NODES`."""

    gpus: int
    types: int
    leaves: int
    nodes: str
    objective: str


def case(one: Case, rounds: int, peers: Iterable[str]) -> list[Row]:
    """A first round and the rounds that follow it, by the ladder, or by its peers if there are any.

    The ladder's decision, to the gap of `LIMITS`, makes the next round for all of them.
    """
    state = first_round(one.gpus, one.types, one.leaves, kind=one.nodes)
    if one.objective == "cost":
        kinds = {kind.name: USD_PER_HOUR for kind in state.cluster.gpu_types}
        state = replace(state, cluster=state.cluster.with_prices(kinds))
    speeds = speeds_of(state.cluster)
    compact, whole = (
        RoundPoser(speeds, make_objective(one.objective, speeds), compact_from=compact_from)
        for compact_from in (DEFAULTS.compact_from, None)
    )
    peers = tuple(peers)
    # Configurations are enumerated once per cluster.
    for poser in (compact, whole) if peers else (compact,):
        poser.pose(state)
    climbs = Ladder(make_solver("highs"))
    found = []
    for at in range(rounds):
        row, decided = _measured("ladder", climbs, compact, state, LIMITS)
        assert row is not None
        rows = [row]
        if not peers and one.objective in CLOSER:
            close = replace(LIMITS, gap=CLOSE)
            rows.append(_measured("ladder, closer", climbs, compact, state, close)[0])
        for name in peers:
            limits = replace(LIMITS, time_s=PEER_S)
            if name == "sia":
                rows.append(_sia(whole, state, limits))
            elif name == RELAXED:
                rows.append(_relaxed(whole, state, LIMITS))
            elif name in RESTATED:
                rows.append(_measured(name, RESTATED[name](), whole, state, LIMITS)[0])
            else:
                exact = ExactMip(make_solver(name))
                rows.append(_measured(name, exact, whole, state, limits)[0])
        found += [
            replace(row, **asdict(one), round=at)
            for row in rows[1 if peers else 0 :]
            if row is not None
        ]
        if decided is None:
            break
        state = round_after(state, decided)
    return found


def stopped(one: Case, cpu_s: float) -> Row:
    """The row of a case that was stopped after so many CPU seconds."""
    nan = float("nan")
    return Row(
        **asdict(one),
        round=0,
        method="ladder",
        jobs=int(JOBS_PER_GPU * one.gpus),
        running=0,
        candidates=0,
        columns_s=nan,
        solve_s=cpu_s,
        nodes_s=nan,
        step="",
        status=STOPPED,
        value=nan,
        bound=nan,
        gap=nan,
        gap_of_gain=nan,
        peak_mib=nan,
    )


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _measured(
    name: str, method: RoundMethod, poser: RoundPoser, state: RoundState, limits: Limits
) -> tuple[Row | None, Allocation | None]:
    """One round by one method; nothing where it found no decision."""
    with _undisturbed():
        began = time.process_time()
        posed = poser.pose(state)
        columns = time.process_time()
        solved = method.solve(posed, limits)
        posed = solved.posed or posed
        solve_s = time.process_time() - columns
        if solved.selection is None:
            return None, None
        placing = time.process_time()
        allocation = place(posed, solved.selection)
        placed = time.process_time()
    value, bound = solved.selection.value(posed.worth), solved.outcome.bound
    possible = bound - float(posed.worth.value[posed.problem.options.stays].sum())
    missing = max(0.0, bound - value)
    row = _row(
        name,
        posed,
        posed.problem.candidates.count,
        columns - began,
        solve_s,
        placed - placing,
        solved.step,
        str(solved.outcome.status),
        value,
        bound,
        solved.outcome.gap,
        0.0 if missing <= 1e-9 * abs(bound) else missing / max(possible, missing),
    )
    return row, allocation


def _row(
    name: str,
    posed: PosedRound,
    candidates: int,
    columns_s: float,
    solve_s: float,
    nodes_s: float,
    step: str,
    status: str,
    value: float,
    bound: float,
    gap: float,
    of_gain: float,
) -> Row:
    jobs = posed.problem.jobs
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(
        0,
        0,
        0,
        "",
        "",
        0,
        name,
        jobs.count,
        int(jobs.running.sum()),
        candidates,
        columns_s,
        solve_s,
        nodes_s,
        step,
        status,
        value,
        bound,
        gap,
        of_gain,
        peak,
    )


def _relaxed(poser: RoundPoser, state: RoundState, limits: Limits) -> Row:
    """The LP relaxation of the exact MIP, with its strong rows, by HiGHS."""
    nan = float("nan")
    with _undisturbed():
        began = time.process_time()
        posed = poser.pose(state)
        built = node_pattern.build(posed.problem, posed.worth, tight=True).model
        columns = time.process_time()
        free = replace(built, integer=np.zeros_like(built.integer))
        bound = make_solver("highs-default").solve(free, limits).bound
        solved = time.process_time()
    count = posed.problem.candidates.count
    times = columns - began, solved - columns, nan
    return _row(RELAXED, posed, count, *times, "", "", nan, bound, nan, nan)


def _sia(poser: RoundPoser, state: RoundState, limits: Limits) -> Row | None:
    """Sia's program of the round: GPU types and counts, no nodes, its own objective."""
    with _undisturbed():
        began = time.process_time()
        posed = poser.pose(state)
        columns, jobs, room = _sia_jobs(posed, state.cluster)
        costs = np.asarray([job.cost(SIA.power) for job in jobs])
        built = time.process_time()
        try:
            answer = solve(
                jobs, costs, columns, room, power=SIA.power, waiting=SIA.waiting, limits=limits
            )
        except RuntimeError:
            return None  # nothing in its time
        solved = time.process_time()
    nan = float("nan")
    return _row(
        "sia",
        posed,
        costs.size,
        built - began,
        solved - built,
        nan,
        "",
        "",
        answer.objective,
        nan,
        answer.gap,
        nan,
    )


def _sia_jobs(
    posed: PosedRound, cluster: Cluster
) -> tuple[list[Column], list[SiaJob], dict[str, int]]:
    """Columns of types and counts, the jobs with their goodputs on them, and GPUs of each type."""
    options, count = posed.problem.options, posed.problem.candidates.count
    table = posed.problem.candidates
    width = int(table.gpus.max()) + 1
    kind = table.node_class * width + table.gpus
    known, column = np.unique(kind, return_inverse=True)
    size = int(posed.problem.nodes.capacity[0, 0])
    columns = [
        (str(at // width), -(-(at % width) // size), int(at % width)) for at in known.tolist()
    ]
    goodput = np.zeros((posed.problem.jobs.count, known.size))
    np.maximum.at(goodput, (table.job, column.reshape(-1)), 1.0 / table.iteration_s)
    place = {int(at): k for k, at in enumerate(known.tolist())}
    held = options.stay
    jobs = []
    for job, known_job in enumerate(posed.state.jobs):
        stay = int(held[job])
        at = int(options.node_class[stay]) * width + round(float(options.gpus[stay]))
        jobs.append(
            SiaJob(
                goodput[job],
                goodput[job] > 0,
                0.0,
                0,
                known_job.restart_s,
                place.get(at) if stay >= count else None,
            )
        )
    room = {
        str(t): len(cluster.nodes_of(kind)) * kind.gpus for t, kind in enumerate(cluster.node_types)
    }
    return columns, jobs, {name: room[name] for name, _, _ in columns}
