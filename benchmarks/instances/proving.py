"""Certificates of rounds and fleets by seed, found and written; the check is the package's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.instances.building import best_known
from benchmarks.instances.certificates import FOLDER as BOUNDS
from benchmarks.instances.certificates import Certificate, Seeded, poser_of, state_of
from benchmarks.instances.fleet_bound import Cut, cheapest_left, cut_of, priced_bins
from benchmarks.instances.fleets import FOLDER as FLEETS_FOLDER
from benchmarks.instances.fleets import Fleet, FleetCertificate
from benchmarks.instances.scaled import speeds_of
from benchmarks.instances.solution import write_solution
from formulations.arrays import Floats, Ints
from formulations.fleet import FleetProblem, build, build_overload, decode
from formulations.fleet import check as check_fleet
from formulations.linear_model import LinearModel
from formulations.prices.certify import bound_by_prices
from formulations.round.check import check
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.model import write_model
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, whole_model
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

MOST_BRANCHED = 1024
"""Largest number of GPUs of rounds that are also given to branch and bound."""
WORTHWHILE = 0.1
"""Least share of the gap by prices that another bound has to close to be kept."""
CLOSED = 1e-6
"""Gap by prices below which no other bound is asked for."""

_DIGITS = 6
"""Significant ones of a price: fewer prove as well, and a file is a few lines."""


def proven(one: Seeded, time_limit_s: float) -> Certificate:
    """A certificate for a round, and the best decision that the ladder finds in this time."""
    state = state_of(one)
    posed = poser_of(state, one.objective).pose(state)
    bound = bound_by_prices(posed.problem, posed.worth, False, posed.view.compact)
    limits = Limits(gap=1e-4, time_s=time_limit_s)
    solved = Ladder(make_solver("highs")).solve(posed, limits)
    assert solved.selection is not None
    decided = solved.posed or posed
    check(decided.problem, solved.selection)
    best = solved.selection.value(decided.worth)
    made = Certificate(one.name, bound.value, best, bound.prices)
    if one.gpus > MOST_BRANCHED or made.gap <= CLOSED:
        return made
    proven, proof = branched(one, time_limit_s)
    # Two sums of the same numbers differ in their last bits.
    proven = max(proven, best)
    closed = made.bound - proven >= WORTHWHILE * (made.bound - best)
    return replace(made, proven=proven, proof=proof) if closed else made


def branched(one: Seeded, time_limit_s: float) -> tuple[float, str]:
    """Return the best bound of branch and bound on a round, and its prover.

    Each of `benchmarks.instances.building.PROVERS` has this time until one proves the optimum.
    """
    state = state_of(one)
    posed = RoundPoser(speeds_of(state.cluster), OBJECTIVES[one.objective]()).pose(state)
    method = ExactMip(make_solver("highs"), "node_pattern")
    model, unit, _ = whole_model(posed, method, Limits(gap=1e-3, time_s=time_limit_s))
    _, _, bound, proof = best_known(model, time_limit_s)
    return bound * unit, proof


def write_certificate(folder: Path, given: Certificate) -> None:
    """Write ``bounds/NAME.json``; the same certificate gives the same bytes."""
    document = {
        "instance": given.instance,
        "bound": given.bound,
        "best": given.best,
        **({} if given.proven is None else {"proven": given.proven, "proof": given.proof}),
        "prices": {
            "gpu": given.prices.gpu.tolist(),
            "side": given.prices.side.tolist(),
            "uplink": given.prices.uplink,
        },
    }
    (folder / BOUNDS).mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1) + "\n"
    write_atomically(folder / BOUNDS / f"{given.instance}.json", text)


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
    check_fleet(problem, decode(problem, found.x))
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
    own = folder / FLEETS_FOLDER
    own.mkdir(parents=True, exist_ok=True)
    document = {
        "instance": given.instance,
        "bound": given.bound,
        "best": given.best,
        "nodes": list(given.nodes),
        "prices": [list(row) for row in given.prices],
    }
    text = json.dumps(document, separators=(",", ": ")).replace("],[", "],\n[") + "\n"
    write_atomically(own / f"{given.instance}.json", text)
    write_model(model, own / f"{given.instance}.mps.xz")
    write_solution(own / f"{given.instance}.sol", model, x, -given.best)
