"""Large and hard rounds by seed, and certificates that prove how much a decision may be worth.

A certificate is a list of prices. Whoever has the round recomputes the bound that they prove from
its tables (`formulations.check_bound`): no solver, and nothing of how the prices were found. The
rounds are made from seeds and are not stored, the certificates are a few lines each:
``bounds/NAME.json`` in the folder of the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.instances.scaled import cold_round, round_after, speeds_of
from formulations.check_bound import BoundError, check_bound
from formulations.prices import Prices
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.documents import Fields, read_json
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.placement import place
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

FOLDER = "bounds"
"""Of the library's folder."""

FOLLOWING = Limits(gap=0.05, time_s=600.0)
"""Of the decisions that lead to a round: prices alone, so that no solver's ties are in them."""

_FIELDS = ("instance", "bound", "best", "proven", "proof", "prices")
_PRICES = ("gpu", "side", "uplink")


@dataclass(frozen=True, slots=True)
class Seeded:
    """A round made from seeds; see `benchmarks.instances.scaled`.

    Parameters
    ----------
    gpus, types, leaves
        Of the cluster.
    objective
        What it maximises.
    follows
        Rounds that were decided before it; 0: all jobs wait.
    large
        Takes more than a second to make.
    """

    gpus: int
    types: int
    objective: str
    follows: int = 0
    leaves: int = 1
    large: bool = False

    @property
    def name(self) -> str:
        """For example ``scaled-jct-512g-3t-round2``."""
        leaves = f"-{self.leaves}l" if self.leaves > 1 else ""
        after = f"-round{self.follows}" if self.follows else ""
        return f"scaled-{self.objective}-{self.gpus}g-{self.types}t{leaves}{after}"


SEEDED = (
    # The rounds whose gap is hardest to close: few GPUs of a class, gangs that need whole nodes.
    Seeded(64, 3, "throughput"),
    Seeded(512, 3, "throughput"),
    Seeded(512, 3, "throughput", follows=2),
    Seeded(512, 3, "jct", leaves=4),
    Seeded(1024, 1, "throughput", follows=2),
    Seeded(1024, 3, "throughput", follows=2),
    Seeded(2048, 3, "throughput", follows=3),
    Seeded(2048, 3, "jct", leaves=4),
    Seeded(8192, 1, "jct", large=True),
    Seeded(8192, 3, "throughput", follows=1, large=True),
    Seeded(65536, 1, "throughput", large=True),
    Seeded(65536, 3, "jct", large=True),
    Seeded(65536, 3, "throughput", large=True),
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bound with the prices that prove it, the best decision known, and the best bound known.

    Parameters
    ----------
    instance
        Name of the round.
    bound
        Upper bound on every decision, which the prices prove, in the unit of the objective.
    best
        Value of the best decision known, at most the bound; it proves nothing.
    prices
        Prices of GPUs, side resources and uplinks.
    proven, proof
        A smaller bound by branch and bound, which nobody can check without a solver, and its
        prover; None and "" if there is none.
    """

    instance: str
    bound: float
    best: float
    prices: Prices
    proven: float | None = None
    proof: str = ""

    @property
    def least(self) -> float:
        """Least bound known: by prices or by branch and bound."""
        return self.bound if self.proven is None else min(self.bound, self.proven)

    @property
    def prover(self) -> str:
        """Prover of the least bound."""
        return self.proof if self.least < self.bound else "prices"

    @property
    def gap(self) -> float:
        """Share of the least bound that the best decision known may miss; inf for a bound of 0."""
        missing = self.least - self.best
        return missing / abs(self.least) if self.least else float("inf" if missing else 0.0)


def seeded(name: str) -> Seeded | None:
    """The round of a name; None if none of those by seed has it."""
    return next((one for one in SEEDED if one.name == name), None)


def tables_of(one: Seeded) -> tuple[RoundProblem, Level]:
    """All tables of a round by seed, with nothing left out, and what it maximises."""
    state = state_of(one)
    posed = RoundPoser(speeds_of(state.cluster), OBJECTIVES[one.objective]()).pose(state)
    return posed.problem, posed.worth


def state_of(one: Seeded) -> RoundState:
    """The snapshot of a round by seed: those before it are decided by prices alone."""
    state = cold_round(one.gpus, one.types, one.leaves)
    poser = poser_of(state, one.objective)
    for _ in range(one.follows):
        posed = poser.pose(state)
        solved = Ladder(make_solver("highs")).solve(posed, FOLLOWING)
        assert solved.selection is not None
        state = round_after(state, place(solved.posed or posed, solved.selection))
    return state


def poser_of(state: RoundState, objective: str) -> RoundPoser:
    """Poses rounds as prices are asked of them: options of jobs that are alike, once."""
    return RoundPoser(
        speeds_of(state.cluster), OBJECTIVES[objective](), compact_from=DEFAULTS.compact_from
    )


def read_certificate(path: Path) -> Certificate:
    """A certificate.

    Raises
    ------
    InputError
        If the file is missing or damaged; it names the field.
    """
    document = Fields(read_json(path), "", str(path), _FIELDS)
    prices = document.object("prices", _PRICES)
    gpu = prices.value("gpu", tuple[float, ...])
    side = prices.value("side", tuple[tuple[float, float, float], ...])
    if len(side) != len(gpu):
        raise prices.error("side", f"must have a row for each of {len(gpu)} node classes")
    for at, price in enumerate(gpu):
        if price < 0.0:
            raise prices.error(f"gpu[{at}]", f"must be at least 0, got {price:g}")
    for at, row in enumerate(side):
        if min(row) < 0.0:
            raise prices.error(f"side[{at}]", "must be at least 0")
    bound, best = document.number("bound"), document.number("best")
    proven = document.number("proven") if "proven" in document else None
    if ("proof" in document) != (proven is not None):
        raise document.error("proof", "is given together with proven")
    return Certificate(
        document.text("instance"),
        bound,
        best,
        Prices(
            np.asarray(gpu), np.asarray(side).reshape(-1, 3), prices.number("uplink", least=0.0)
        ),
        proven,
        "" if proven is None else document.text("proof"),
    )


def complaints(one: Seeded, given: Certificate) -> Iterator[str]:
    """What is wrong with a certificate; nothing if it proves its bound."""
    if given.instance != one.name:
        yield f"is for {given.instance!r}, not for {one.name!r}"
        return
    problem, level = tables_of(one)
    if given.prices.gpu.size != problem.nodes.classes:
        yield f"has prices of {given.prices.gpu.size} node classes, not {problem.nodes.classes}"
        return
    if given.best > given.least:
        yield "claims a decision that is worth more than its bound"
    try:
        check_bound(problem, level, given.prices, given.bound)
    except BoundError as error:
        yield str(error)
