r"""`fleet`: the number of nodes of each type that serves all arrivals in time.

Page: ``docs/formulations/fleet.md``. The rows, by the names there:

    served[w,j,b]    sum_{t,k} x = work[w,j,b]
    in_time[w,j,b]   sum_{t,k} pace[k] x <= jobs[w,j,b] * room_s
    spread[w,t,b]    sum_{j,k} gpus[k] pace[k] x = sum_{b'} f[w,t,b,b']
    capacity[w,t,b'] sum_b f[w,t,b,b'] <= size[t] * bin_s * n[t]
    used[t]          n[t] <= most[t] u[t],          one_of_family  sum_{t of it} u[t] <= 1
    budget           sum_t price[t] n[t] <= budget

All scenarios share ``n``: a two-stage program. Bins are rounded up, start-ups left out, and gangs
are fluid, so every schedule that completes each job within the delay is a solution: the cost is a
certified lower bound for that service level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.tolerances import INTEGRALITY, SOLVED


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """Input of the choice of a fleet: arrays over node types, arrivals and configurations.

    Parameters
    ----------
    price, size, most
        Per type: cost of a node, GPUs of a node, largest number of nodes; shape (T,).
    family
        Per type: family of which only one type may be used, -1 for none; shape (T,).
    scenario, group, bin
        Per arrival: scenario, job class and time bin; shape (A,); no triple occurs twice.
    work, jobs
        Per arrival: units of work, above 0, and number of jobs; shape (A,).
    config_group, config_type
        Per configuration: job class and node type; shape (K,).
    gpus, pace_s
        Per configuration: GPUs, and seconds per unit of work; shape (K,).
    bin_s, delay_s
        Length of a bin, and seconds from submission to the latest completion of a job.
    lost_s
        Seconds of the delay without work (a start-up), at least.
    budget
        Largest cost; inf for none.

    Raises
    ------
    ValueError
        If shapes differ, a value is out of its range, an arrival is duplicated, or a class that
        arrives has no configuration.
    """

    price: Floats
    size: Ints
    most: Ints
    family: Ints
    scenario: Ints
    group: Ints
    bin: Ints
    work: Floats
    jobs: Ints
    config_group: Ints
    config_type: Ints
    gpus: Floats
    pace_s: Floats
    bin_s: float
    delay_s: float
    lost_s: float = 0.0
    budget: float = np.inf

    def __post_init__(self) -> None:
        for names in (
            ("price", "size", "most", "family"),
            ("scenario", "group", "bin", "work", "jobs"),
            ("config_group", "config_type", "gpus", "pace_s"),
        ):
            if len({getattr(self, name).shape for name in names}) != 1:
                raise ValueError(f"{', '.join(names)} must be of one shape")
        if not (self.price > 0).all() or not (self.size > 0).all() or (self.most < 0).any():
            raise ValueError("types need a price and a size above 0 and most >= 0")
        if not (self.work > 0).all() or not (self.jobs > 0).all() or not (self.pace_s > 0).all():
            raise ValueError("work, jobs and paces must be above 0")
        if self.config_type.size and not (self.config_type >= 0).all():
            raise ValueError("unknown type of a configuration")
        if self.config_type.size and int(self.config_type.max()) >= self.types:
            raise ValueError("unknown type of a configuration")
        if not 0.0 <= self.lost_s <= self.delay_s or self.bin_s <= 0.0:
            raise ValueError("must have 0 <= lost_s <= delay_s and bin_s > 0")
        if set(self.group.tolist()) - set(self.config_group.tolist()):
            raise ValueError("a class that arrives has no configuration")
        keys = np.stack([self.scenario, self.group, self.bin], axis=1)
        if np.unique(keys, axis=0).shape[0] != self.work.size:
            raise ValueError("an arrival is duplicated")

    @property
    def types(self) -> int:
        """Number of node types K."""
        return int(self.price.size)

    @property
    def bins_late(self) -> int:
        """Number of bins after the bin of submission in which a job may still run, rounded up."""
        return int(np.ceil(self.delay_s / self.bin_s - INTEGRALITY))

    def cost(self, nodes: Ints) -> float:
        """Return the price of a fleet."""
        return float(self.price @ nodes)


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """Fleet with the flows that serve the arrivals.

    Parameters
    ----------
    nodes
        Nodes per type, shape (T,).
    done
        Units of work per pair of arrival and configuration, as in `pairs_of`; shape (P,).
    flow
        GPU-seconds per entry of `flows_of`; shape (F,).
    """

    nodes: Ints
    done: Floats
    flow: Floats


def pairs_of(problem: FleetProblem) -> tuple[Ints, Ints]:
    """Return arrival and configuration of each pair of one job class, sorted by arrival."""
    match = problem.group[:, None] == problem.config_group[None, :]
    arrival, config = np.nonzero(match)
    return arrival.astype(np.int64), config.astype(np.int64)


def flows_of(problem: FleetProblem) -> Ints:
    """Return scenario, type, submission bin and running bin of each flow, shape (F, 4)."""
    begun = np.unique(np.stack([problem.scenario, problem.bin], axis=1), axis=0)
    rows = [
        (w, t, b, b + late)
        for w, b in begun.tolist()
        for t in range(problem.types)
        for late in range(problem.bins_late + 1)
    ]
    return np.asarray(rows, dtype=np.int64).reshape(-1, 4)


def build(problem: FleetProblem, low: Ints | None = None, high: Ints | None = None) -> LinearModel:
    """Build the MILP; it maximises minus the cost.

    Parameters
    ----------
    problem
        The choice of a fleet.
    low, high
        Limits of the nodes of each type, shape (T,); None for 0 and ``most``.
    """
    builder = ModelBuilder("fleet")
    types = np.arange(problem.types, dtype=np.int64)
    most = problem.most if high is None else np.minimum(high, problem.most)
    n = builder.add_columns(
        "n",
        types[:, None],
        most.astype(np.float64),
        lower=0.0 if low is None else low.astype(np.float64),
    )
    arrival, config = pairs_of(problem)
    labels = np.stack(
        [problem.scenario[arrival], problem.group[arrival], problem.bin[arrival], config], axis=1
    )
    x = builder.add_columns("x", labels, problem.work[arrival], integer=False)
    flows = flows_of(problem)
    f = builder.add_columns("f", flows, np.inf, integer=False)
    _serve(builder, problem, arrival, config, x)
    _spread(builder, problem, (arrival, config, x), (flows, f))
    _limit(builder, problem, flows, f, n)
    _choose(builder, problem, n)
    cost = np.zeros(builder.column_count)
    cost[n] = -problem.price
    return builder.build(cost)


def build_overload(problem: FleetProblem, nodes: Ints) -> LinearModel:
    """Build the LP of the GPU-seconds that a fleet lacks; it maximises minus their sum.

    The rows ``capacity`` are last. If the sum is above 0, their shadow prices prove that the fleet
    is too small (`benchmarks.instances.fleet_bound`).
    """
    builder = ModelBuilder("fleet_overload")
    arrival, config = pairs_of(problem)
    labels = np.stack([arrival, config], axis=1)
    x = builder.add_columns("x", labels, problem.work[arrival], integer=False)
    flows = flows_of(problem)
    f = builder.add_columns("f", flows, np.inf, integer=False)
    keys, row = np.unique(flows[:, [0, 1, 3]], axis=0, return_inverse=True)
    z = builder.add_columns("z", keys, np.inf, integer=False)
    _serve(builder, problem, arrival, config, x)
    _spread(builder, problem, (arrival, config, x), (flows, f))
    room: Floats = np.asarray((problem.size * nodes)[keys[:, 1]] * problem.bin_s, dtype=np.float64)
    of_flow: Ints = row.ravel().astype(np.int64)
    own = np.arange(keys.shape[0], dtype=np.int64)
    builder.add_rows("capacity", keys, -np.inf, room, [(of_flow, f, 1.0), (own, z, -1.0)])
    lacking = np.zeros(builder.column_count)
    lacking[z] = -1.0
    return builder.build(lacking)


def _serve(
    builder: ModelBuilder, problem: FleetProblem, arrival: Ints, config: Ints, x: Ints
) -> None:
    labels = np.stack([problem.scenario, problem.group, problem.bin], axis=1)
    work = problem.work
    builder.add_rows("served", labels, work, work, [(arrival, x, 1.0)])
    room_s: Floats = problem.jobs.astype(np.float64) * (problem.delay_s - problem.lost_s)
    builder.add_rows("in_time", labels, -np.inf, room_s, [(arrival, x, problem.pace_s[config])])


def _spread(
    builder: ModelBuilder,
    problem: FleetProblem,
    pairs: tuple[Ints, Ints, Ints],
    running: tuple[Ints, Ints],
) -> None:
    arrival, config, x = pairs
    flows, f = running
    keys, row_of_flow = np.unique(flows[:, [0, 1, 2]], axis=0, return_inverse=True)
    place = {tuple(key): row for row, key in enumerate(keys.tolist())}
    mine = np.stack(
        [problem.scenario[arrival], problem.config_type[config], problem.bin[arrival]], axis=1
    )
    row_of_pair = np.asarray([place[tuple(key)] for key in mine.tolist()], dtype=np.int64)
    held: Floats = np.asarray(problem.gpus[config] * problem.pace_s[config])
    of_flow: Ints = row_of_flow.ravel().astype(np.int64)
    builder.add_rows("spread", keys, 0.0, 0.0, [(row_of_pair, x, held), (of_flow, f, -1.0)])


def _limit(builder: ModelBuilder, problem: FleetProblem, flows: Ints, f: Ints, n: Ints) -> None:
    keys, row = np.unique(flows[:, [0, 1, 3]], axis=0, return_inverse=True)
    own = np.arange(keys.shape[0], dtype=np.int64)
    kind = keys[:, 1]
    room: Floats = np.asarray(problem.size[kind] * problem.bin_s, dtype=np.float64)
    of_flow: Ints = row.ravel().astype(np.int64)
    builder.add_rows("capacity", keys, -np.inf, 0.0, [(of_flow, f, 1.0), (own, n[kind], -room)])


def _choose(builder: ModelBuilder, problem: FleetProblem, n: Ints) -> None:
    in_family: Ints = np.flatnonzero(problem.family >= 0)
    if in_family.size:
        u = builder.add_columns("u", in_family[:, None], 1.0)
        own = np.arange(in_family.size, dtype=np.int64)
        most = problem.most[in_family].astype(np.float64)
        builder.add_rows(
            "used", in_family[:, None], -np.inf, 0.0, [(own, n[in_family], 1.0), (own, u, -most)]
        )
        families, row = np.unique(problem.family[in_family], return_inverse=True)
        entries = [(row.ravel().astype(np.int64), u, 1.0)]
        builder.add_rows("one_of_family", families[:, None], -np.inf, 1.0, entries)
    if np.isfinite(problem.budget):
        zero = np.zeros(problem.types, dtype=np.int64)
        label = np.zeros((1, 0), dtype=np.int64)
        builder.add_rows("budget", label, -np.inf, problem.budget, [(zero, n, problem.price)])


def decode(problem: FleetProblem, x: Floats) -> FleetAnswer:
    """Return the answer that a point of the model represents."""
    pairs = pairs_of(problem)[0].size
    nodes = np.rint(x[: problem.types]).astype(np.int64)
    rest = x[problem.types :]
    flow = rest[pairs : pairs + flows_of(problem).shape[0]]
    return FleetAnswer(nodes, rest[:pairs].copy(), flow.copy())


class FleetError(ValueError):
    """An answer that breaks a rule; ``rule`` is its name on the page."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


def check(problem: FleetProblem, answer: FleetAnswer) -> None:
    """Check an answer against the rules as defined, without the model.

    Raises
    ------
    FleetError
        If a rule is broken; it names the first one.
    """
    _check_nodes(problem, answer.nodes)
    arrival, config = pairs_of(problem)
    if (answer.done < -SOLVED).any() or (answer.flow < -SOLVED).any():
        raise FleetError("served", "a negative amount")
    held: dict[tuple[int, int, int], float] = {}
    for row, work in enumerate(problem.work.tolist()):
        mine = arrival == row
        done, ways = answer.done[mine], config[mine]
        if abs(float(done.sum()) - work) > SOLVED * work:
            raise FleetError("served", f"arrival {row} gets {done.sum():g} of {work:g}")
        room_s = problem.jobs[row] * (problem.delay_s - problem.lost_s)
        if float(problem.pace_s[ways] @ done) > room_s * (1.0 + SOLVED) + SOLVED:
            raise FleetError("in_time", f"arrival {row} runs longer than its jobs may take")
        for value, k in zip(done.tolist(), ways.tolist(), strict=True):
            key = int(problem.scenario[row]), int(problem.config_type[k]), int(problem.bin[row])
            gpu_s = value * float(problem.gpus[k] * problem.pace_s[k])
            held[key] = held.get(key, 0.0) + gpu_s
    _check_flows(problem, answer, held)


def _check_nodes(problem: FleetProblem, nodes: Ints) -> None:
    if (nodes < 0).any() or (nodes > problem.most).any():
        raise FleetError("used", "more nodes of a type than the largest number")
    for family in sorted(set(problem.family.tolist()) - {-1}):
        chosen: Bools = (problem.family == family) & (nodes > 0)
        if int(chosen.sum()) > 1:
            raise FleetError("one_of_family", f"family {family} has {int(chosen.sum())} types")
    if problem.cost(nodes) > problem.budget * (1.0 + SOLVED):
        raise FleetError("budget", f"costs {problem.cost(nodes):g} of {problem.budget:g}")


def _check_flows(
    problem: FleetProblem, answer: FleetAnswer, held: dict[tuple[int, int, int], float]
) -> None:
    given: dict[tuple[int, int, int], float] = {}
    used: dict[tuple[int, int, int], float] = {}
    for (w, t, b, run), gpu_s in zip(flows_of(problem).tolist(), answer.flow.tolist(), strict=True):
        if not b <= run <= b + problem.bins_late:
            raise FleetError("spread", "work runs outside its bins")
        given[w, t, b] = given.get((w, t, b), 0.0) + gpu_s
        used[w, t, run] = used.get((w, t, run), 0.0) + gpu_s
    for key in held.keys() | given.keys():
        asked = held.get(key, 0.0)
        if abs(asked - given.get(key, 0.0)) > SOLVED * max(1.0, asked):
            raise FleetError("spread", f"{given.get(key, 0.0):g} GPU-s are run, {asked:g} needed")
    for (w, t, run), gpu_s in used.items():
        room = float(problem.size[t]) * problem.bin_s * float(answer.nodes[t])
        if gpu_s > room * (1.0 + SOLVED) + SOLVED:
            raise FleetError("capacity", f"type {t} in bin {run} of scenario {w} holds {gpu_s:g}")
