"""Fleets by seed: the MILP of planning, and certificates that no cheaper fleet serves.

A fleet problem is made from members of a family of traces, so equal seeds give equal problems.
``fleets/NAME.mps.xz`` is its MILP for any solver, ``NAME.sol`` the best solution known, and
``NAME.json`` a certificate: prices of GPU-seconds, from which `formulations.fleet_bound` recomputes
without a solver which fleets cannot serve what arrives. The cheapest of the others is the bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.files.mps import write_mps
from formulations.fleet import (
    FleetError,
    FleetProblem,
    build,
    build_overload,
    check,
    decode,
)
from formulations.fleet_bound import Cut, cheapest_left, cut_of, priced_bins
from formulations.linear_model import LinearModel
from morph_opt.candidates.fleet import fleet_problem
from morph_opt.clusters.short import sized_node
from morph_opt.documents import Fields, read_json, write_atomically
from morph_opt.domain import InputError
from morph_opt.domain.cluster import MOST_NODES
from morph_opt.instances.checking import CLAIM_TOLERANCE
from morph_opt.instances.solution import read_claim, write_solution
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.recheck import violated
from morph_opt.solvers.registry import make_solver
from morph_opt.traces.registry import load_trace

FOLDER = "fleets"
"""Of the library's folder."""
_FIELDS = ("instance", "bound", "best", "nodes", "prices")
_DIGITS = 6
"""Significant ones of a price: fewer prove as well, and a file is a few lines."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet problem made from seeds.

    Parameters
    ----------
    trace, scenarios
        Family, and how many of its members are served at once, from seed 0 on.
    types
        GPU types and what a GPU of each costs per hour: figures to choose by, not of a provider.
    most
        Nodes of each type that may be had.
    hours
        In which every job is to be complete.
    gpus
        Of a node.
    """

    trace: str
    scenarios: int
    types: tuple[tuple[str, float], ...]
    most: int
    hours: float
    gpus: int = 8

    @property
    def name(self) -> str:
        """For example ``fleet-gavel-96-v100-p100-1s-6h``."""
        types = "-".join(name.partition("-")[0].lower() for name, _ in self.types)
        return f"fleet-{self.trace}-{types}-{self.scenarios}s-{self.hours:g}h"

    def problem(self) -> FleetProblem:
        """Its tables."""
        kinds = [sized_node(self.gpus, name) for name, _ in self.types]
        prices = [price * self.gpus for _, price in self.types]
        workloads = [load_trace(self.trace, seed=seed) for seed in range(self.scenarios)]
        return fleet_problem(workloads, kinds, prices, self.most, self.hours * 3600.0)


A800, V100, P100, K80 = ("A800-80GB", 2.0), ("V100", 3.0), ("P100", 1.5), ("K80", 0.5)
FLEETS = (
    Fleet("naive", 1, (A800,), 16, 1.0),
    Fleet("base", 1, (A800,), 64, 2.0),
    Fleet("base", 1, (A800,), 64, 8.0),
    Fleet("base", 2, (A800,), 64, 4.0),
    Fleet("gavel-96", 1, (V100, P100), 24, 6.0, gpus=2),
    Fleet("gavel-96", 1, (V100, P100, K80), 24, 6.0, gpus=2),
    Fleet("gavel-96", 1, (V100, P100, K80), 24, 12.0, gpus=2),
    Fleet("gavel-96", 4, (V100, P100, K80), 24, 12.0, gpus=2),
)


def fleet_named(name: str) -> Fleet | None:
    """The fleet problem of a name; None if none has it."""
    return next((one for one in FLEETS if one.name == name), None)


@dataclass(frozen=True, slots=True)
class FleetCertificate:
    """A fleet, what it costs, and prices that prove that none is cheaper.

    Parameters
    ----------
    instance
        Name of the problem.
    bound, best
        Cost of every fleet that serves at least, and of the best one known.
    nodes
        Of each type, of the best one known.
    prices
        A row per cut, see `formulations.fleet_bound.cut_of`.
    """

    instance: str
    bound: float
    best: float
    nodes: tuple[int, ...]
    prices: tuple[tuple[float, ...], ...]

    @property
    def gap(self) -> float:
        """Share of the cost of the best known that a cheaper one may save."""
        return (self.best - self.bound) / self.best


def proven_fleet(one: Fleet, time_limit_s: float) -> tuple[FleetCertificate, LinearModel, Floats]:
    """The cheapest fleet with its proof, its MILP, and a point of it.

    The cheapest fleet that the cuts so far let pass is tried by a linear program; what it lacks has
    shadow prices, which are the next cut (Benders 1962).
    """
    problem, solver = one.problem(), make_solver("highs")
    limits = Limits(gap=0.0, time_s=time_limit_s)
    prices: list[Floats] = []
    cuts: list[Cut] = []
    while True:
        nodes = cheapest_left(problem, cuts)
        assert nodes is not None, "no fleet serves it: make the problem another one"
        tried = solver.solve(build_overload(problem, nodes), limits)
        assert tried.row_duals is not None
        priced = _rounded(np.maximum(tried.row_duals[-priced_bins(problem).shape[0] :], 0.0))
        cut = cut_of(problem, priced)
        if not cut.refuses(nodes[None, :])[0]:
            break
        prices.append(priced)
        cuts.append(cut)
    model = build(problem)
    found = solver.solve(build(problem, nodes, nodes), limits)
    assert found.x is not None
    check(problem, decode(problem, found.x))
    kept = _needed(problem, cuts, nodes)
    cost = problem.cost(nodes)
    rows = tuple(tuple(prices[k].tolist()) for k in kept)
    return FleetCertificate(one.name, cost, cost, tuple(nodes.tolist()), rows), model, found.x


def _rounded(prices: Floats) -> Floats:
    return np.asarray([float(f"{price:.{_DIGITS}g}") for price in prices.tolist()])


def _needed(problem: FleetProblem, cuts: list[Cut], nodes: Ints) -> list[int]:
    """Cuts without which a cheaper fleet would pass; the later ones refuse most."""
    kept = list(range(len(cuts)))
    for k in range(len(cuts)):
        rest = [j for j in kept if j != k]
        found = cheapest_left(problem, [cuts[j] for j in rest])
        if found is not None and problem.cost(found) >= problem.cost(nodes):
            kept = rest
    return kept


def write_fleet(folder: Path, given: FleetCertificate, model: LinearModel, x: Floats) -> None:
    """Write model, solution and certificate; the same fleet gives the same bytes."""
    own = folder / FOLDER
    own.mkdir(parents=True, exist_ok=True)
    document = {
        "instance": given.instance, "bound": given.bound, "best": given.best,
        "nodes": list(given.nodes), "prices": [list(row) for row in given.prices],
    }  # fmt: skip
    text = json.dumps(document, separators=(",", ": ")).replace("],[", "],\n[") + "\n"
    write_atomically(own / f"{given.instance}.json", text)
    write_mps(model, own / f"{given.instance}.mps.xz")
    write_solution(own / f"{given.instance}.sol", model, x, -given.best)


def read_fleet_certificate(path: Path) -> FleetCertificate:
    """A certificate.

    Raises
    ------
    InputError
        If the file is missing or damaged; it names the field.
    """
    document = Fields(read_json(path), "", str(path), _FIELDS)
    named = {f"prices[{at}]": row for at, row in enumerate(document.rows("prices"))}
    inner = Fields(named, "", str(path), None)
    document.rows("nodes")  # must be given
    nodes = document.numbers("nodes")
    for at, count in enumerate(nodes):
        if not 0.0 <= count <= MOST_NODES or count != int(count):
            rule = f"must be a whole number from 0 to {MOST_NODES}, got {count:g}"
            raise document.error(f"nodes[{at}]", rule)
    return FleetCertificate(
        document.text("instance"), document.number("bound"),
        document.number("best", above=0.0),
        tuple(int(count) for count in nodes),
        tuple(tuple(inner.numbers(name)) for name in named),
    )  # fmt: skip


def certified(folder: Path) -> Iterator[FleetCertificate]:
    """The certificates of a library's folder.

    Raises
    ------
    InputError
        If one is damaged, or of another fleet than its name says.
    """
    for one in FLEETS:
        path = folder / FOLDER / f"{one.name}.json"
        if path.is_file():
            found = read_fleet_certificate(path)
            if found.instance != one.name:
                rule = f"must be {one.name!r}, got {found.instance!r}"
                raise InputError(rule, file=str(path), field="instance")
            yield found


def fleet_complaints(one: Fleet, given: FleetCertificate) -> Iterator[str]:
    """What is wrong with a certificate; nothing if it proves its bound."""
    if given.instance != one.name:
        yield f"is for {given.instance!r}, not for {one.name!r}"
        return
    problem = one.problem()
    nodes = np.asarray(given.nodes, dtype=np.int64)
    if nodes.shape != (problem.types,) or (nodes > problem.most).any():
        yield "has no number of nodes for each type that may be had"
        return
    if abs(problem.cost(nodes) - given.best) > CLAIM_TOLERANCE * max(1.0, given.best):
        yield f"its fleet costs {problem.cost(nodes):g}, not {given.best:g}"
    try:
        cuts = [cut_of(problem, np.asarray(row)) for row in given.prices]
    except ValueError as error:
        yield f"a cut {error}"
        return
    left = cheapest_left(problem, cuts)
    if left is not None and problem.cost(left) < given.bound * (1.0 - CLAIM_TOLERANCE):
        yield f"proves {problem.cost(left):g} only: its prices let {left.tolist()} pass"
    if any(cut.refuses(nodes[None, :])[0] for cut in cuts):
        yield "its own fleet is refused by its prices"


def solution_complaints(one: Fleet, path: Path) -> tuple[float, list[str]]:
    """Cost of a solution file, and what is wrong with it: against the rows, and the rules.

    Raises
    ------
    InputError
        If the file is missing or damaged; it names the line.
    """
    problem = one.problem()
    model = build(problem)
    x, claim = read_claim(path, model)
    culprit = violated(model, x)
    if culprit:
        return float("nan"), [f"violates {culprit}"]
    cost, wrong = -model.objective(x), []
    if claim is not None and abs(-claim - cost) > CLAIM_TOLERANCE * max(1.0, cost):
        wrong.append(f"claims a cost of {-claim!r}, it is {cost!r}")
    try:
        check(problem, decode(problem, x))
    except FleetError as error:
        wrong.append(str(error))
    return cost, wrong
