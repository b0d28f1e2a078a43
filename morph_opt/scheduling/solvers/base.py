"""Protocol of solvers, and base class of all adapters."""

from __future__ import annotations

import resource
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.meaning import Meaning, stop_of
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from morph_opt.scheduling.solvers.parameters import UNITS
from morph_opt.scheduling.solvers.recheck import (
    FEASIBILITY_TOLERANCE,
    judge,
    rounded,
    row_sizes,
    violated,
)
from morph_opt.scheduling.solvers.tighter import column_units, tightened
from morph_opt.scheduling.solvers.units import (
    Units,
    hidden_unit,
    is_wide,
    with_columns_in,
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities of an adapter.

    Parameters
    ----------
    mip_start
        Whether it uses ``start`` of `Solver.solve`.
    node_limit, gap_limit, work_limit
        Whether it honours these limits of `Limits`.
    threads
        Whether it can use several threads.
    deterministic
        Whether equal model, seed and limits (not the clock) give the same answer on one thread.
    lp_duals
        Whether it gives row duals of continuous models, in the sign of `Outcome.row_duals`.
    continuous
        Whether it takes continuous columns.
    """

    mip_start: bool = False
    node_limit: bool = False
    gap_limit: bool = True
    work_limit: bool = False
    threads: bool = True
    deterministic: bool = True
    lp_duals: bool = False
    continuous: bool = True


class Solver(Protocol):
    """Solver of a `LinearModel`; every way in which a solve can end is an `Outcome`."""

    @property
    def name(self) -> str:
        """Name in the registry, for example ``"highs"``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of the solver."""
        ...

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """Solve within the limits; ``start`` is a feasible point, used if supported."""
        ...


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times of handing over and solving, and processor time of both; see `Outcome`."""

    build_s: float
    solve_s: float
    cpu_s: float

    def __add__(self, other: Times) -> Times:
        return Times(
            self.build_s + other.build_s, self.solve_s + other.solve_s, self.cpu_s + other.cpu_s
        )


def cpu_s() -> float:
    """Return the processor seconds of this process and of its children that ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class Clock:
    """Clock of an attempt, split into handing over and solving."""

    began: float = field(default_factory=time.perf_counter)
    cpu_began: float = field(default_factory=cpu_s)
    built: float | None = None

    def hand_over_done(self) -> None:
        """Mark the end of handing over; the rest is the library's solve."""
        self.built = time.perf_counter()

    def times(self) -> Times:
        """Return the times up to now."""
        now = time.perf_counter()
        built = now if self.built is None else self.built
        return Times(built - self.began, now - built, cpu_s() - self.cpu_began)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a library, translated but not yet checked.

    Parameters
    ----------
    meaning
        Meaning of the library's code, from the adapter's table.
    solver
        Name and version of the library.
    x
        Its incumbent, unrounded; None if it has none.
    bound
        Its upper bound on the objective, offset included; inf if unknown.
    nodes
        Branch-and-bound nodes; 0 if unknown.
    message
        Status text of the library.
    row_duals
        Shadow prices, see `Outcome.row_duals`.
    """

    meaning: Meaning
    solver: str
    x: Floats | None = None
    bound: float = float("inf")
    nodes: int = 0
    message: str = ""
    row_duals: Floats | None = None


class Adapter(ABC):
    """Base class of adapters, which checks every answer by the same rules.

    An adapter calls its library and translates its codes (`Answer`). The outcome is decided here:
    the incumbent is rechecked against the rows, a claim of infeasibility or unboundedness is tested
    against known facts, and exceptions become outcomes.
    """

    name: str
    capabilities: Capabilities

    @abstractmethod
    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        """Hand the model over, call ``clock.hand_over_done()``, solve, and translate."""

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """Solve within the limits; see `Solver.solve`."""
        if not self.capabilities.continuous and not model.integer.all():
            column = model.column_name(int(np.flatnonzero(~model.integer)[0]))
            return Outcome(
                Status.ERROR,
                Stop.FAILED,
                self.name,
                message=f"takes integer columns only, {column} is continuous",
            )
        if not model.columns:
            return _without_columns(model, limits, self.name)
        limits = self._honoured(limits)
        outcome = self._solve(model, None, limits, start)
        if not outcome.usable:
            return outcome
        level = max(abs(outcome.objective - model.offset), abs(outcome.bound - model.offset))
        unit = hidden_unit(model, level)
        if unit is None:
            return outcome
        return self._unhidden(model, unit, limits, outcome)

    def _unhidden(self, model: LinearModel, unit: float, limits: Limits, first: Outcome) -> Outcome:
        """Solve once more with costs in a smaller unit, and keep the better point.

        Costs that no point can earn were so large that the library's tolerances hid the others.
        """
        left_s = max(0.0, limits.time_s - first.build_s - first.solve_s)
        again = self._solve(model, unit, replace(limits, time_s=left_s), first.x)
        times = Times(
            first.build_s + again.build_s, first.solve_s + again.solve_s, first.cpu_s + again.cpu_s
        )
        better = again if again.usable and again.objective >= first.objective else first
        return judge(
            model,
            better.x,
            again.bound if again.usable else float("inf"),
            again.stop,
            limits.gap,
            solver=first.solver,
            nodes=first.nodes + again.nodes,
            **asdict(times),
            message=again.message,
            row_duals=again.row_duals,
            unit=unit,
        )

    def _solve(
        self, model: LinearModel, cost: float | None, limits: Limits, start: Floats | None
    ) -> Outcome:
        """Solve the model with costs in a unit, and return the outcome in its own units.

        The unit is that of `Units` if it is None.
        """
        # Duals of a tightened row are others, but integer models have none.
        handed, columns = tightened(model), column_units(model)
        if columns is not None:
            handed = with_columns_in(handed, columns)
        units = Units.of(handed)
        if cost is not None:
            units = replace(units, cost=cost)
        scaled = units.scaled(handed)
        clock = Clock()
        try:
            with warnings.catch_warnings():
                # Deprecations between libraries (pulp, protobuf) are nothing that users could mend.
                warnings.simplefilter("ignore")
                first = start if start is None or columns is None else start / columns
                answer = self._attempt(scaled, limits, first, clock)
        except InputError:
            raise
        except MemoryError:
            answer = Answer(Meaning.MEMORY_LIMIT, self.name, message="out of memory")
        except Exception as error:  # a library's error ends this solve, not the replay
            answer = Answer(Meaning.FAILED, self.name, message=f"{type(error).__name__}: {error}")
        times = clock.times()
        if answer.x is not None and columns is not None:
            answer = replace(answer, x=answer.x * columns)
        if not units.plain:
            duals = answer.row_duals
            answer = replace(
                answer,
                bound=float(answer.bound * units.cost),
                row_duals=None if duals is None else duals * (units.cost / units.rows),
            )
        if answer.meaning in (Meaning.UNBOUNDED, Meaning.INFEASIBLE_OR_UNBOUNDED):
            return self._settle(model, limits, start, answer, times)
        outcome = conclude(model, limits, start, answer, times, units.cost)
        if outcome.status is Status.INFEASIBLE and is_wide(model):
            return self._confirmed(model, limits, outcome)
        if outcome.status is Status.OPTIMAL and model.integer.any() and is_wide(model, UNITS.far):
            return self._doubted(model, limits, outcome, units.cost)
        return outcome

    def _doubted(self, model: LinearModel, limits: Limits, claim: Outcome, unit: float) -> Outcome:
        """Solve again with wider rows, and return the better point and the larger bound.

        Only rows whose numbers differ most raise doubts: libraries cut off points there. A bound is
        disproved by a step of one column that is worth more.
        """
        handed = _wider(tightened(model))
        units = replace(Units.of(handed), cost=unit)
        clock = Clock()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = self._attempt(units.scaled(handed), limits, None, clock)
        except Exception as error:  # as in a first attempt
            answer = Answer(Meaning.FAILED, self.name, message=f"{type(error).__name__}: {error}")
        point = None if answer.x is None else rounded(model, answer.x)
        best, bound = claim.x, max(claim.bound, answer.bound * unit)
        if point is not None and not violated(model, point):
            assert best is not None
            best = max(best, point, key=model.objective)
        if best is not None:
            best = _stepped(model, best)
        times = clock.times() + Times(claim.build_s, claim.solve_s, claim.cpu_s)
        return judge(
            model,
            best,
            bound,
            claim.stop,
            limits.gap,
            solver=claim.solver,
            nodes=claim.nodes + answer.nodes,
            **asdict(times),
            message=claim.message,
            unit=unit,
        )

    def _confirmed(self, model: LinearModel, limits: Limits, claim: Outcome) -> Outcome:
        """Return a claim of infeasibility if the library repeats it for wider rows, else an error.

        Only rows whose numbers differ widely raise doubts. The wider rows allow what a recheck
        allows, and there is no objective.
        """
        wider = _wider(tightened(model)).with_objective(np.zeros(model.columns))
        clock = Clock()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = self._attempt(Units.of(wider).scaled(wider), limits, None, clock)
        except Exception as error:  # as in a first attempt
            answer = Answer(Meaning.FAILED, self.name, message=f"{type(error).__name__}: {error}")
        if answer.meaning in (Meaning.INFEASIBLE, Meaning.INFEASIBLE_OR_UNBOUNDED):
            return claim
        times = clock.times() + Times(claim.build_s, claim.solve_s, claim.cpu_s)
        rule = "claims infeasible, which it did not confirm for rows that are wider by a tolerance"
        return _contradiction(answer, times, rule)

    def _honoured(self, limits: Limits) -> Limits:
        """Return the limits that the library supports, the possible causes of an early end."""
        can = self.capabilities
        return replace(
            limits,
            nodes=limits.nodes if can.node_limit else None,
            work=limits.work if can.work_limit else None,
            threads=limits.threads if can.threads else 1,
        )

    def _settle(
        self,
        model: LinearModel,
        limits: Limits,
        start: Floats | None,
        answer: Answer,
        times: Times,
    ) -> Outcome:
        """Distinguish an unbounded model from an infeasible one.

        An objective that is finite on the column bounds cannot be unbounded; otherwise the
        model without objective shows whether there is a solution at all. Libraries that report
        ``unbounded`` mean the relaxation, so that claim is tested too.
        """
        claim = answer.meaning
        if np.isfinite(box_bound(model)):
            if claim is Meaning.UNBOUNDED:
                return _contradiction(
                    answer, times, "claims unbounded, but the column bounds limit the objective"
                )
            return conclude(model, limits, start, _reread(answer, Meaning.INFEASIBLE), times)
        probe = self.solve(model.with_objective(np.zeros(model.columns)), limits)
        times += Times(probe.build_s, probe.solve_s, probe.cpu_s)
        if probe.usable:
            return _claim(Status.UNBOUNDED, answer, times)
        if probe.status is Status.INFEASIBLE:
            return conclude(model, limits, start, _reread(answer, Meaning.INFEASIBLE), times)
        return Outcome(
            probe.status,
            probe.stop,
            answer.solver,
            **asdict(times),
            message=f"{answer.message}; probing for a solution: {probe.message}",
        )


def _stepped(model: LinearModel, point: Floats) -> Floats:
    """Return the point after steps of 1 of single integer columns that are feasible and better."""
    if model.columns * model.nonzeros > UNITS.stepped:
        return point
    for column in np.flatnonzero(model.integer & (model.cost != 0.0)).tolist():
        while True:
            after = point.copy()
            after[column] += np.sign(model.cost[column])
            inside = model.column_lower[column] <= after[column] <= model.column_upper[column]
            if not inside or violated(model, after):
                break
            point = after
    return point


def _wider(model: LinearModel) -> LinearModel:
    """Return the model with rows that are wider by what a recheck allows."""
    slack = FEASIBILITY_TOLERANCE * np.maximum(
        row_sizes(model, model.row_lower), row_sizes(model, model.row_upper)
    )
    return replace(model, row_lower=model.row_lower - slack, row_upper=model.row_upper + slack)


def _without_columns(model: LinearModel, limits: Limits, name: str) -> Outcome:
    """Solve a model without columns here, because some libraries fail on it."""
    point = np.zeros(0)
    if violated(model, point):
        return Outcome(Status.INFEASIBLE, Stop.PROVED, name, message="no columns")
    return judge(model, point, model.offset, Stop.PROVED, limits.gap, solver=name)


def conclude(
    model: LinearModel,
    limits: Limits,
    start: Floats | None,
    answer: Answer,
    times: Times,
    unit: float = 1.0,
) -> Outcome:
    """Return the outcome of an answer, after testing it.

    Parameters
    ----------
    unit
        Unit of the objective: smaller differences than 1e-9 of it are none.
    """
    if answer.meaning is Meaning.INFEASIBLE:
        for name, point in _easy_points(model, start):
            if not violated(model, point):
                rule = f"claims infeasible, but {name} is feasible"
                return _contradiction(answer, times, rule)
        return _claim(Status.INFEASIBLE, answer, times)
    return judge(
        model,
        answer.x,
        answer.bound if np.isfinite(answer.bound) else float("inf"),
        stop_of(answer.meaning, limits, times.solve_s),
        limits.gap,
        solver=answer.solver,
        nodes=answer.nodes,
        **asdict(times),
        message=answer.message,
        row_duals=answer.row_duals,
        unit=unit,
    )


def _easy_points(model: LinearModel, start: Floats | None) -> Iterator[tuple[str, Floats]]:
    """Yield points that refute a claim of infeasibility if they are feasible."""
    if start is not None:
        yield "the start that it was given", start
    lower = np.where(np.isfinite(model.column_lower), model.column_lower, -np.inf)
    upper = np.where(np.isfinite(model.column_upper), model.column_upper, np.inf)
    yield "the point of smallest values", rounded(model, np.clip(0.0, lower, upper))
    yield "the point of lower bounds", rounded(model, np.where(np.isfinite(lower), lower, 0.0))
    yield "the point of upper bounds", rounded(model, np.where(np.isfinite(upper), upper, 0.0))


def box_bound(model: LinearModel) -> float:
    """Return the largest objective on the column bounds alone; inf if it is unbounded."""
    best = np.where(model.cost > 0, model.column_upper, model.column_lower)
    priced = model.cost != 0
    return float(model.cost[priced] @ best[priced]) + model.offset


def _reread(answer: Answer, meaning: Meaning) -> Answer:
    return Answer(meaning, answer.solver, message=answer.message)


def _claim(status: Status, answer: Answer, times: Times) -> Outcome:
    return Outcome(
        status,
        Stop.PROVED,
        answer.solver,
        nodes=answer.nodes,
        **asdict(times),
        message=answer.message,
    )


def _contradiction(answer: Answer, times: Times, sentence: str) -> Outcome:
    return Outcome(
        Status.ERROR,
        Stop.FAILED,
        answer.solver,
        **asdict(times),
        message=f"{sentence}; {answer.message}",
    )
