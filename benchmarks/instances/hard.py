"""Hard instances: messy rounds by seed under objectives whose models differ.

An instance is the last goal of an objective on a round of `benchmarks.instances.messy`. Goals
before it are rows ``rank[r]`` that keep them to within `Hard.KEPT` of the value that HiGHS finds
within `Hard.EARLIER`: a row exactly at an optimum would make the best value depend on a solver's
tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from benchmarks.instances.messy import messy_round
from formulations import node_assignment, node_pattern
from formulations.arrays import Floats, Ints
from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from formulations.round.decode import restricted
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.core.domain.errors import ContractError
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import with_guarantees
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

FOLDER = "hard"
"""Of the library's folder."""

BUILDERS = {"node_pattern": node_pattern.build, "node_assignment": node_assignment.build}


@dataclass(frozen=True, slots=True)
class Hard:
    """A hard instance by seed.

    Parameters
    ----------
    kind, nodes, seed
        Of `benchmarks.instances.messy.messy_round`.
    objective
        As on the command line.
    formulation
        One of `BUILDERS`.
    """

    kind: str
    objective: str
    nodes: int
    seed: int = 0
    formulation: str = "node_pattern"

    KEPT: ClassVar[float] = 1e-3
    """Share of the value of a goal that later goals may give up."""
    EARLIER: ClassVar[Limits] = Limits(gap=2e-3, time_s=600.0, nodes=20)
    """Limits of the solves of earlier goals."""

    @property
    def name(self) -> str:
        """For example ``domains-fairness-32n-seed1-node_assignment``."""
        seed = f"-seed{self.seed}" if self.seed else ""
        short = "" if self.formulation == "node_pattern" else f"-{self.formulation}"
        return f"{self.kind}-{self.objective}-{self.nodes}n{seed}{short}"

    @property
    def source(self) -> str:
        """Origin in a table's words."""
        return f"messy round of kind {self.kind} on {self.nodes} nodes, seed {self.seed}"

    def posed(self) -> PosedRound:
        """Return the round as it is decided."""
        state, speeds = messy_round(self.kind, self.nodes, self.seed)
        pairs = speeds if speeds.measures_pairs else None
        objective = make_objective(self.objective, speeds)
        return RoundPoser(speeds, objective, packing=pairs).pose(state)


FAMILIES = ("las", "gittins", "fairness", "cost", "lookahead", "saved-time")
"""Objectives of the hard instances: those whose models or values differ in kind."""

SHAPES = (
    ("leaves", 24, "node_pattern"),
    ("busy", 24, "node_pattern"),
    ("odd", 20, "node_pattern"),
    ("packed", 24, "node_pattern"),
    ("promises", 24, "node_pattern"),
    ("starts", 24, "node_pattern"),
    ("domains", 24, "node_pattern"),
    ("types", 36, "node_pattern"),
    ("pairs", 24, "node_pattern"),
    ("scarce", 12, "node_pattern"),
    ("leaves", 10, "node_assignment"),
    ("busy", 9, "node_assignment"),
)
"""Kind, nodes and formulation of the instances of each family."""

HARD = tuple(
    Hard(kind, objective, nodes, formulation=formulation)
    for objective in FAMILIES
    for kind, nodes, formulation in SHAPES
)
"""All hard instances."""


def hard_named(name: str) -> Hard | None:
    """Return the hard instance of a name; None if none has it."""
    return next((one for one in HARD if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Built:
    """Model of an instance with the round that it was built from.

    Parameters
    ----------
    posed
        The round.
    whole
        Model and layout; costs in the unit of the goal.
    model
        The same model; its largest cost is 1.
    start
        Point of the model that earlier goals leave; None without earlier goals.
    """

    posed: PosedRound
    whole: RoundModel
    model: LinearModel
    start: Floats | None = None

    @property
    def problem(self) -> RoundProblem:
        """Tables of the round."""
        return self.posed.problem

    @property
    def trivial_bound(self) -> float:
        """Sum of the largest cost of each job's options: every job alone in the cluster."""
        members = self.problem.options.members
        most = np.zeros(self.problem.jobs.count)
        np.maximum.at(most, members.job, self.model.cost[self.whole.layout.x[members.option]])
        return float(most.sum())

    def point_of(self, choice: Ints) -> Floats | None:
        """Return a point of the model with the option of each job; None if there is none.

        The columns that count nodes follow from the choice: they are found by a MIP in which the
        choice is fixed.
        """
        layout = self.whole.layout
        fixed = np.zeros(self.model.columns)
        fixed[layout.picked(choice[choice != NONE])] = 1.0
        lower, upper = self.model.column_lower.copy(), self.model.column_upper.copy()
        lower[layout.x] = upper[layout.x] = fixed[layout.x]
        tried = replace(self.model, column_lower=lower, column_upper=upper)
        return make_solver("highs").solve(tried, Limits(gap=0.0, time_s=60.0)).x


def build_hard(one: Hard) -> Built:
    """Build an instance.

    Raises
    ------
    ContractError
        If HiGHS finds no point for an earlier goal, for example as promises cannot all be kept.
    """
    posed = one.posed()
    problem = posed.problem
    whole = _promised(problem, BUILDERS[one.formulation](problem, posed.worth))
    choice = _by_earlier_goals(one, posed)
    if choice is not None and one.formulation == "node_assignment":
        choice = _placeable(problem, choice)
    if choice is not None:
        decided = Selection(choice, ((),) * problem.jobs.count)
        for rank, level in enumerate(posed.goals[:-1]):
            whole = _kept(whole, level, rank, decided.value(level))
    scaled = whole.model.with_objective(whole.model.cost / whole.model.scale)
    scaled = replace(scaled, name=one.name)
    built = Built(posed, whole, scaled)
    return built if choice is None else replace(built, start=built.point_of(choice))


def _promised(problem: RoundProblem, whole: RoundModel) -> RoundModel:
    return with_guarantees(problem, whole) if problem.jobs.guaranteed.any() else whole


def _by_earlier_goals(one: Hard, posed: PosedRound) -> Ints | None:
    """Return the option of each job under all goals but the last; None if there are no others."""
    problem, choice, start = posed.problem, None, None
    whole = _promised(problem, node_pattern.build(problem, posed.goals[0]))
    for rank, level in enumerate(posed.goals[:-1]):
        model = whole.model.with_objective(whole.layout.cost(level))
        scaled = model.with_objective(model.cost / model.scale)
        found = make_solver("highs").solve(scaled, one.EARLIER, start)
        if found.x is None:
            rule = f"no point for the goal {level.name!r} ({found.status})"
            raise ContractError(f"{one.name}: {rule}")
        start, choice = found.x, whole.layout.choice(problem, found.x)
        whole = _kept(whole, level, rank, model.objective(start))
    return choice


def _placeable(problem: RoundProblem, choice: Ints) -> Ints:
    """Return as many options of a choice as nodes can be found for."""
    small = restricted(problem, choice)
    ones = Level("placed", "jobs", np.ones(small.options.count))
    built = node_assignment.build(small, ones)
    found = make_solver("highs").solve(built.model, Limits(gap=0.0, time_s=60.0))
    assert found.x is not None  # none at all is a point
    kept = built.layout.choice(small, found.x) != NONE
    return np.where(kept, choice, NONE)


def _kept(built: RoundModel, level: Level, rank: int, value: float) -> RoundModel:
    """Return the model with a row that keeps a level to within `Hard.KEPT` of a value."""
    cost = np.where(built.model.column_upper > 0, built.layout.cost(level), 0.0)
    scale = float(np.abs(cost).max(initial=0.0)) or 1.0
    columns = np.flatnonzero(cost)
    least = (value - Hard.KEPT * abs(value)) / scale
    row = cost[columns] / scale
    return replace(built, model=built.model.with_row("rank", [rank], columns, row, least, np.inf))
