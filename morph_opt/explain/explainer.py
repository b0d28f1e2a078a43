"""Why a round's decision is what it is: prices, options, what these displace, what forbids them.

Steps: the round is solved again to a gap of 1e-6 under the same goals, its relaxation is priced
(`morph_opt.explain.prices`), every job's options are valued at these prices; then, for the few jobs
whose best option comes closest to being worth its price, the option is forced and the round solved
again (`morph_opt.explain.case`), and where rules are in the way the smallest set of them is found
(`morph_opt.explain.conflict`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.layout import RoundModel
from formulations.round_problem import NONE, STAY, Level, RoundProblem, Selection
from morph_opt.candidates.table import CandidateBuilder, RoundView
from morph_opt.decision.method import Solved
from morph_opt.decision.pose import Objective
from morph_opt.domain import Allocation, RoundState
from morph_opt.explain.case import Case, with_one_more_node
from morph_opt.explain.conflict import RuleConflictError, rules_in_conflict
from morph_opt.explain.prices import Prices
from morph_opt.explain.refusals import refusals_of
from morph_opt.explain.report import (
    ClassValue,
    Displacement,
    JobExplanation,
    Loss,
    Option,
    RoundExplanation,
    UnexplainedError,
)
from morph_opt.perf.speed import SpeedModel
from morph_opt.rules import OperatorRules, apply_rules
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, Status

CHANGE = 1e-6
"""Relative to the round's value: differences below it are none."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rounds may be solved again for an explanation.

    Parameters
    ----------
    jobs
        Jobs whose best option is forced, at most.
    rules
        Rules that are left out one at a time, at most.
    nodes
        Whether the round is solved with one more node of every kind.
    """

    jobs: int = 5
    rules: int = 20
    nodes: bool = False


class Explainer:
    """Explains decisions of the MILP policy.

    Parameters
    ----------
    belief, objective, solver, limits, rules
        As of the policy; an objective that remembers must be an object of its own.
    effort
        See `Effort`.
    """

    def __init__(
        self, belief: SpeedModel, objective: Objective, solver: Solver, limits: Limits,
        rules: OperatorRules | None = None, effort: Effort = Effort(),
    ) -> None:  # fmt: skip
        self._belief = belief
        self._rules = rules or OperatorRules()
        # As the policy: a smallest gang may ask for a configuration that is dominated.
        self._builder = CandidateBuilder(belief, prune=self._rules.smallest_gang == 1)
        self._objective = objective
        self._case = Case(objective.levels, solver, limits)
        self._limits = limits
        self._effort = effort

    def observe(self, state: RoundState) -> None:
        """Show a snapshot to an objective that remembers; every round, in order."""
        observe = getattr(self._objective, "observe", None)
        if observe is not None:
            observe(state)

    def conflict(self, state: RoundState) -> RuleConflictError | None:
        """The rules that leave the round without any decision, if they do."""
        if not self._rules.rules or not state.jobs:
            return None
        view = self._builder.view(state)
        found = rules_in_conflict(view, state, self._rules, self._case)
        return None if found is None else RuleConflictError(found)

    def explain(self, state: RoundState, allocation: Allocation) -> RoundExplanation:
        """Explain a decision; the state must have been observed.

        Raises
        ------
        UnexplainedError
            If the solver gave nothing usable within its limits.
        """
        plain = self._builder.view(state)
        view = apply_rules(plain, state, self._rules)
        return _Round(self, state, plain, view, allocation).explanation()


class _Round:
    """One round while it is being explained."""

    def __init__(
        self, by: Explainer, state: RoundState, plain: RoundView, view: RoundView,
        allocation: Allocation,
    ) -> None:  # fmt: skip
        self._by = by
        self._state = state
        self._plain = plain
        self._view = view
        self._problem: RoundProblem = view.problem
        self._case: Case = by._case
        self._level: Level = by._objective.levels(self._problem)[-1]
        self._choice = choice_of(state, view, allocation)
        self._solved = self._case.solve(self._problem)
        if self._solved.selection is None:
            raise UnexplainedError(f"nothing to explain: {self._solved.outcome.message}")
        self._prices = Prices(self._problem, _model_of(self._solved), by._limits)
        empty = tuple(() for _ in state.jobs)
        self._value = Selection(self._choice, empty).value(self._level)
        self._values = self._value_by_job(self._choice)
        self._small = CHANGE * max(
            abs(self._value), float(np.abs(self._level.value).max(initial=0.0))
        )
        self._without: list[tuple[str, Selection]] | None = None

    def explanation(self) -> RoundExplanation:
        """Put the parts together."""
        jobs = [self._priced(job) for job in range(len(self._state.jobs))]
        open_jobs = [(job, candidate) for job, (found, candidate) in enumerate(jobs) if found.best]
        open_jobs.sort(key=lambda pair: -_reduced(jobs[pair[0]][0]))
        explained = [found for found, _ in jobs]
        for job, candidate in open_jobs[: self._by._effort.jobs]:
            explained[job] = self._examined(explained[job], job, candidate)
        usable = self._solved.outcome.usable
        assert self._solved.selection is not None
        return RoundExplanation(
            round=self._state.index,
            time_s=self._state.time_s,
            objective=self._level.name,
            unit=self._level.unit,
            value=self._value,
            optimum=self._solved.selection.value(self._level) if usable else None,
            relaxation=self._prices.relaxation,
            prices=tuple(self._class_values()),
            jobs=tuple(explained),
            refusals=refusals_of(self._by._belief, self._state),
        )

    # --- one job ------------------------------------------------------------------------------

    def _priced(self, job: int) -> tuple[JobExplanation, int]:
        """What the job got and its best option at the round's prices (index of a candidate)."""
        name = self._state.jobs[job].job.name
        choice = int(self._choice[job])
        action = {NONE: "queue", STAY: "stay"}.get(choice, "start")
        granted = None if choice == NONE else self._option(job, choice)
        first, last = int(self._view.offset[job]), int(self._view.offset[job + 1])
        if first == last:
            return JobExplanation(name, action, granted, None, "no_configuration"), NONE
        values = self._level.value[first:last]
        more = first + np.flatnonzero(values > self._values[job] + self._small)
        options = [(self._option(job, int(k)), int(k)) for k in more]
        if not options:
            return JobExplanation(name, action, granted, None, "best"), NONE
        best, candidate = max(options, key=lambda pair: (pair[0].reduced, pair[0].value, -pair[1]))
        own = 0.0 if granted is None else granted.reduced
        reason = "price" if best.reduced <= own + self._small else "not_examined"
        return JobExplanation(name, action, granted, best, reason), candidate

    def _option(self, job: int, choice: int) -> Option:
        state, problem = self._state, self._problem
        held = state.jobs[job].running
        if choice == STAY:
            assert held is not None
            shape, plan = held.placement.shape, held.plan
            kind = state.cluster.nodes[held.placement.nodes[0]].type
            value, paid = float(self._level.stay_value[job]), self._prices.stay(job)
        else:
            row = self._view.configuration(job, choice)
            shape, plan = row.shape, row.plan
            kind = state.cluster.node_types[int(problem.candidates.node_class[choice])]
            value, paid = float(self._level.value[choice]), self._prices.start(choice)
        rules = sum((a for word, a in paid.items() if self._prices.is_rule(word)), 0.0)
        others = {word: a for word, a in paid.items() if not self._prices.is_rule(word)}
        price = sum(others.values(), 0.0)
        ordered = tuple(sorted(others.items(), key=lambda pair: (-abs(pair[1]), pair[0])))
        return Option(
            plan.label, shape.label, kind.name, shape.gpus, choice == STAY, value, price, ordered,
            rules, value - price,
        )  # fmt: skip

    def _examined(self, found: JobExplanation, job: int, candidate: int) -> JobExplanation:
        """Force the best option and see what happens."""
        solved = self._case.solve(self._problem, (candidate,))
        if solved.selection is None and solved.outcome.status is not Status.INFEASIBLE:
            return replace(found, reason="not_examined")
        if solved.selection is None:
            return replace(found, **self._forbidden(candidate))  # type: ignore[arg-type]
        after = solved.selection.value(self._level)
        displaces = Displacement(self._value - after, self._losses(solved.selection))
        blocked = self._held_back(job)
        if blocked:
            reason = "rule"
        elif displaces.cost < -self._small:
            reason = "gap" if self._alone_decides() else "earlier_goal"
        else:
            reason = "tie" if displaces.cost <= self._small else "price"
        return replace(found, displaces=displaces, blocked_by=blocked, reason=reason)

    def _alone_decides(self) -> bool:
        """Whether the priced goal is the only one."""
        promised = bool(self._problem.jobs.guaranteed.any())
        return not promised and len(self._case.levels_of(self._problem)) == 1

    def _forbidden(self, candidate: int) -> dict[str, object]:
        """Rules without which the option would be possible, or that there is no room for it."""
        if not self._by._rules.rules:
            return {"reason": "placement"}
        try:
            found = rules_in_conflict(
                self._plain, self._state, self._by._rules, self._case, forced=candidate
            )
        except UnexplainedError:
            return {"reason": "not_examined"}
        words = () if found is None else tuple(rule.words for rule in found.items)
        return {"reason": "rule" if words else "placement", "blocked_by": words}

    def _held_back(self, job: int) -> tuple[str, ...]:
        """Rules without which the best decision would be better and give the job more."""
        if self._without is None:
            self._without = []
            for rule in self._by._rules.rules[: self._by._effort.rules]:
                rules = self._by._rules.without(rule)
                problem = apply_rules(self._plain, self._state, rules).problem
                selection = self._case.solve(problem).selection
                if selection is not None:
                    self._without.append((rule.words, selection))
        return tuple(
            words
            for words, selection in self._without
            if selection.value(self._level) > self._value + self._small
            and self._value_by_job(selection.choice)[job] > self._values[job] + self._small
        )

    # --- what a choice is worth -----------------------------------------------------------------

    def _value_by_job(self, choice: np.ndarray) -> np.ndarray:
        """Value of each job's choice, shape (J,)."""
        started = (
            self._level.value[np.maximum(choice, 0)]
            if self._level.value.size
            else np.zeros(choice.size)
        )
        return np.where(choice >= 0, started, np.where(choice == STAY, self._level.stay_value, 0.0))

    def _losses(self, selection: Selection) -> tuple[Loss, ...]:
        after = self._value_by_job(selection.choice)
        lost = self._values - after
        return tuple(
            Loss(
                self._state.jobs[job].job.name,
                self._words(job, int(self._choice[job])),
                self._words(job, int(selection.choice[job])),
                float(lost[job]),
            )
            for job in np.argsort(-lost, kind="stable").tolist()
            if lost[job] > self._small
        )

    def _words(self, job: int, choice: int) -> str:
        if choice == NONE:
            return "queue"
        option = self._option(job, choice)
        return f"{'stay in' if option.stay else 'start in'} {option.shape} {option.plan}"

    def _class_values(self) -> list[ClassValue]:
        found = []
        for cell in self._prices.nodes():
            node = self._state.cluster.nodes[cell.node]
            gain = None
            if self._by._effort.nodes:
                more = self._case.solve(with_one_more_node(self._problem, cell.node)).selection
                assert self._solved.selection is not None
                before = self._solved.selection.value(self._level)
                gain = None if more is None else more.value(self._level) - before
            gpu_price = cell.value / node.type.gpus
            found.append(
                ClassValue(
                    node.type.name, node.type.gpu_type.name, node.leaf, cell.nodes, gpu_price,
                    gpu_price / self._state.interval_s, cell.value, gain,
                )
            )  # fmt: skip
        return found


def _reduced(found: JobExplanation) -> float:
    """How much its best option is worth beyond its price and beyond what the job has."""
    assert found.best is not None
    return found.best.reduced - (0.0 if found.granted is None else found.granted.reduced)


def choice_of(state: RoundState, view: RoundView, allocation: Allocation) -> np.ndarray:
    """A decision in the problem's indices, shape (J,): candidate, `STAY` or `NONE`.

    Raises
    ------
    ValueError
        If a job starts in a configuration that is no candidate.
    """
    granted = allocation.by_job()
    cluster = state.cluster
    choice = np.full(len(state.jobs), NONE, dtype=np.int64)
    for job, known in enumerate(state.jobs):
        held = granted.get(known.job.name)
        if held is None:
            continue
        if held == known.running:
            choice[job] = STAY
            continue
        kind = cluster.node_types.index(cluster.nodes[held.placement.nodes[0]].type)
        what = (held.placement.shape, held.plan)
        span = int(cluster.span(held.placement.nodes))
        rows = view.slices[job].rows
        fitting = [
            i
            for i, scoped in enumerate(rows)
            if (scoped.row.shape, scoped.row.plan) == what
            and view.slices[job].node_class[i] == kind
            and int(scoped.scope) >= span
        ]
        if not fitting:
            raise ValueError(f"job {known.job.name} starts in {what[0]} {what[1]}, no candidate")
        tightest = min(fitting, key=lambda i: int(rows[i].scope))
        choice[job] = int(view.offset[job]) + tightest
    return choice


def _model_of(solved: Solved) -> RoundModel:
    assert solved.model is not None
    return solved.model
