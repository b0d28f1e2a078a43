"""Fleets by seed: the MILP of planning, and certificates that no cheaper fleet serves.

A fleet problem is made from members of a family of traces, so equal seeds give equal problems.
``fleets/NAME.mps.xz`` is its MILP for any solver, ``NAME.sol`` the best solution known, and
``NAME.json`` a certificate: prices of GPU-seconds, from which `benchmarks.instances.fleet_bound`
recomputes without a solver which fleets cannot serve what arrives. The cheapest of the others is
the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.instances.checking import CLAIM_TOLERANCE
from benchmarks.instances.fleet_bound import cheapest_left, cut_of
from benchmarks.instances.solution import read_solution
from formulations.fleet import (
    FleetError,
    FleetProblem,
    build,
    check,
    decode,
)
from morph_opt.core.documents import Fields, names_of, read_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.cluster import MOST_NODES
from morph_opt.inputs.clusters.short import sized_node
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.plan.fleet_tables import fleet_problem

FOLDER = "fleets"
"""Of the library's folder."""


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
        A row per cut, see `benchmarks.instances.fleet_bound.cut_of`.
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


def read_fleet_certificate(path: Path) -> FleetCertificate:
    """A certificate.

    Raises
    ------
    InputError
        If the file is missing or damaged; it names the field.
    """
    document = Fields(read_json(path), "", str(path), names_of(FleetCertificate))
    document.number("best", above=0.0)
    found = document.make(FleetCertificate)
    for at, count in enumerate(found.nodes):
        if not 0 <= count <= MOST_NODES:
            rule = f"must be a whole number from 0 to {MOST_NODES}, got {count}"
            raise document.error(f"nodes[{at}]", rule)
    return found


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
    point = read_solution(path, model)
    broken = point.broken(model)
    if broken:
        return float("nan"), broken
    x, claim = point.x, point.claim
    cost, wrong = -model.objective(x), []
    if claim is not None and abs(-claim - cost) > CLAIM_TOLERANCE * max(1.0, cost):
        wrong.append(f"claims a cost of {-claim!r}, it is {cost!r}")
    try:
        check(problem, decode(problem, x))
    except FleetError as error:
        wrong.append(str(error))
    return cost, wrong
