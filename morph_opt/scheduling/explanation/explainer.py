"""Reasons for a round's decision: prices, options, displaced jobs and forbidding rules.

The decision is taken where it is optimal to a gap of 1e-6; otherwise the round is solved again
under the same goals. Its relaxation is priced (`morph_opt.scheduling.explanation.prices`), and
every job's options are valued at these prices. For the few jobs whose best option comes closest to
paying its price, the option is forced and the round solved again
(`morph_opt.scheduling.explanation.case`). If rules are in the way, the smallest set of them is
found (`morph_opt.scheduling.explanation.conflict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.round.tables import NONE, Level, Selection
from morph_opt.core.domain import Allocation, PlanFamily, RoundState, Shape, Span
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.due import DueJob
from morph_opt.scheduling.decision.method import Evidence
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.explanation.case import Case, first_change, reached, small
from morph_opt.scheduling.explanation.conflict import RuleConflictError, rules_in_conflict
from morph_opt.scheduling.explanation.prices import CellPrice, Prices, relaxation
from morph_opt.scheduling.explanation.report import (
    EXPLAIN,
    ClassValue,
    Displacement,
    DuePrice,
    Effort,
    JobExplanation,
    Loss,
    Option,
    PlanRefusal,
    RoundExplanation,
    UnexplainedError,
)
from morph_opt.scheduling.explanation.takes import Blocked, what_it_takes
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Status

_USUAL = Effort()
_what = attrgetter("plan", "shape", "node_type", "partner", "stay", "back", "value")
"""Function from an option to its configuration and value."""


class Refusals:
    """Memory checks, cached per belief.

    What fits follows from facts of a model, not from its speeds, and it is the same in every round
    of a run.
    """

    def __init__(self) -> None:
        self._belief: SpeedModel | None = None
        self._judge: MemoryFilter | None = None

    def of(self, belief: SpeedModel, state: RoundState) -> tuple[PlanRefusal, ...]:
        """Return refused plans, by model, node type and plan, of models with published facts."""
        if self._judge is None or belief is not self._belief:
            self._belief = belief
            self._judge = belief if isinstance(belief, MemoryFilter) else MemoryFilter(belief)
        return _of_round(self._judge, state)


def _of_round(judge: MemoryFilter, state: RoundState) -> tuple[PlanRefusal, ...]:
    found: list[PlanRefusal] = []
    for model in sorted({known.job.model for known in state.jobs}):
        for kind in state.cluster.node_types:
            gpus = kind.gpus * len(state.cluster.nodes_of(kind))
            by_plan: dict[str, tuple[list[str], str]] = {}
            for refusal in judge.refusals(model, kind, max_gpus=gpus, span=Span.LEAF):
                shapes, _ = by_plan.setdefault(refusal.plan.label, ([], refusal.reason))
                shapes.append(refusal.shape.label)
            found += [
                PlanRefusal(model, kind.name, plan, tuple(shapes), reason)
                for plan, (shapes, reason) in by_plan.items()
            ]
    return tuple(found)


class Explainer:
    """Explainer of the MILP policy's decisions, from the evidence that they come with.

    Parameters
    ----------
    solver, limits
        Solver and limits of the what-ifs: the policy's.
    effort
        See `Effort`.
    """

    def __init__(self, solver: Solver, limits: Limits, effort: Effort = _USUAL) -> None:
        self._case = Case(solver, limits)
        self._effort = effort
        self._refusals = Refusals()

    def conflict(self, posed: PosedRound) -> RuleConflictError | None:
        """Return the error for rules that are proven to leave the round without any decision.

        It names a smallest set of them if that is found in time.
        """
        if not posed.rules.rules:
            return None
        time_s = max(EXPLAIN.least_s, self._case.limits.time_s)
        found = rules_in_conflict(posed, self._case, deadline=Deadline(time_s))
        return None if found is None else RuleConflictError(found)

    def explain(self, evidence: Evidence, allocation: Allocation) -> RoundExplanation:
        """Explain a decision, before its policy decides the next one.

        Raises
        ------
        UnexplainedError
            If the solver gave nothing usable within its limits.
        """
        return _Round(evidence, allocation, self._case, self._effort).explanation(self._refusals)


def _values(posed: PosedRound, level: Level, choice: Ints) -> Floats:
    """Return the value of each job's choice, shape (J,)."""
    members = posed.problem.options.members
    mine = members.chosen(choice)
    found = np.zeros(choice.size)
    found[members.job[mine]] = level.worth[mine]
    return found


class _Round:
    """One round while it is being explained."""

    def __init__(
        self, evidence: Evidence, allocation: Allocation, case: Case, effort: Effort
    ) -> None:
        self._posed = posed = evidence.posed
        self._case = case
        self._effort = effort
        self._problem = posed.problem
        self._solved = case.optimum(evidence)
        if self._solved.selection is None or self._solved.model is None:
            raise UnexplainedError(f"nothing to explain: {self._solved.outcome.message}")
        self._optimum: Selection = self._solved.selection
        self._prices = Prices(posed.problem, self._solved.model, case.limits)
        self._decided = evidence.selection
        self._choice = as_granted(posed, evidence.selection, allocation)
        self._level = posed.worth_of(self._solved.levels)
        self._value = self._decided.value(self._level)
        self._values = _values(posed, self._level, self._choice)
        self._small = small(self._level, self._value)
        self._without: list[tuple[Rule, Floats]] | None = None
        self._held = allocation.by_job()

    def explanation(self, refusals: Refusals) -> RoundExplanation:
        """Return the whole explanation."""
        state, worth = self._posed.state, self._level
        jobs = [self._priced(job) for job in range(len(state.jobs))]
        open_jobs = [(job, rows) for job, (found, rows) in enumerate(jobs) if found.best]
        open_jobs.sort(key=lambda pair: -_reduced(jobs[pair[0]][0]))
        explained = [found for found, _ in jobs]
        for place, (job, rows) in enumerate(open_jobs):
            if place >= self._effort.jobs and explained[job].job not in self._effort.named:
                continue
            explained[job] = self._examined(explained[job], job, rows)
        usable = self._solved.outcome.usable
        return RoundExplanation(
            round=state.index,
            time_s=state.time_s,
            objective=worth.name,
            unit=worth.unit,
            value=self._value,
            optimum=self._optimum.value(worth) if usable else None,
            relaxation=self._prices.relaxation,
            prices=tuple(self._class_values()),
            jobs=tuple(explained),
            refusals=refusals.of(self._posed.poser.belief, state),
            due=tuple(map(self._of_due, self._posed.due.rows[: self._effort.rules])),
        )

    def _of_due(self, one: DueJob) -> DuePrice:
        """Return the price of serving a due job, by a solve without its row."""
        other = self._case.solve(self._posed.without_due(one))
        price = None
        if other.complete and other.selection is not None and self._solved.outcome.usable:
            worth = self._level
            price = other.selection.value(worth) - self._optimum.value(worth)
        return DuePrice(self._posed.state.jobs[one.job].job.name, one.row, one.since_s, price)

    # --- one job ------------------------------------------------------------------------------

    def _priced(self, job: int) -> tuple[JobExplanation, tuple[int, ...]]:
        """Return a job's result, and its best option at the round's prices with its rows."""
        name = self._posed.state.jobs[job].job.name
        choice = int(self._choice[job])
        alone = choice == int(self._problem.options.stay[job])
        action = "queue" if choice == NONE else "stay" if alone else "start"
        granted = None if choice == NONE else self._option(job, choice)
        rows = self._rows(job)
        if not rows and granted is None:
            return JobExplanation(name, action, granted, None, "no_configuration"), ()
        more = [k for k in rows if self._worth(job, k) > self._values[job] + self._small]
        options = [(self._option(job, k), k) for k in more]
        if not options:
            return JobExplanation(name, action, granted, None, "best"), ()
        best, row = max(options, key=lambda pair: (pair[0].reduced, pair[0].value, -pair[1]))
        own = 0.0 if granted is None else granted.reduced
        reason = "price" if best.reduced <= own + self._small else "not_examined"
        # The same configuration may have a row per span: the option is to have any of them.
        same = tuple(k for option, k in options if _what(option) == _what(best) or k == row)
        return JobExplanation(name, action, granted, best, reason), same

    def _rows(self, job: int) -> list[int]:
        """Return the options of a job, alone or with others, except to stay alone."""
        options = self._problem.options
        mine = options.members.option[options.members.job == job]
        rows: list[int] = mine[options.possible[mine] & (mine != options.stay[job])].tolist()
        return rows

    def _worth(self, job: int, option: int) -> float:
        """Return the value of an option to one of its jobs."""
        return float(self._level.worth[self._problem.options.members.of(option, job)])

    def _option(self, job: int, choice: int) -> Option:
        posed, problem = self._posed, self._problem
        members, options = problem.options.members, problem.options
        stays = not members.starts[members.of(choice, job)]
        if stays:
            held = posed.state.jobs[job].running
            assert held is not None
            shape, plan = held.placement.shape, held.plan
        else:
            row = posed.view.configuration(job, choice)
            shape, plan = row.shape, row.plan
            if plan.family is PlanFamily.EST:  # on any nodes: its shape says nothing but how many
                shape = Shape.of(shape.gpus)
        paid = self._prices.of(choice)
        beside = None
        for partner in (other for other in options.jobs_of(choice) if other != job):
            beside = posed.state.jobs[partner].job.name
            # The other job pays its part: its own worth in the pair, less what it would have.
            part = self._prices.surplus(partner) - self._worth(partner, choice)
            paid[f"{beside} beside it"] = part
        rules = sum((a for word, a in paid.items() if self._prices.is_rule(word)), 0.0)
        others = {word: a for word, a in paid.items() if not self._prices.is_rule(word)}
        price, value = sum(others.values(), 0.0), self._worth(job, choice)
        ordered = tuple(sorted(others.items(), key=lambda pair: (-abs(pair[1]), pair[0])))
        return Option(
            plan.label,
            shape.label,
            self._classes(choice),
            shape.gpus,
            stays,
            value,
            price,
            ordered,
            rules,
            value - price,
            beside,
            float(members.startup_s[members.of(choice, job)]),
            problem.returning(choice) is not None,
        )

    def _classes(self, choice: int) -> str:
        """Return the node class of an option, or its GPUs by class if there are several."""
        options, kinds = self._problem.options, self._posed.state.cluster.node_types
        if options.of_one_class[choice]:
            return kinds[int(options.node_class[choice])].name
        gpus = [int(options.gpus_on(t)[choice]) for t in range(len(kinds))]
        return " + ".join(f"{n} x {kind.name}" for n, kind in zip(gpus, kinds, strict=True) if n)

    def _examined(self, found: JobExplanation, job: int, rows: tuple[int, ...]) -> JobExplanation:
        """Force the best option, solve again and report what changes."""
        solved = self._case.solve(self._posed, rows)
        if solved.selection is None and solved.outcomes[0].status is not Status.INFEASIBLE:
            return replace(found, reason="not_examined")
        if solved.selection is None:
            return self._forbidden(found, job, rows)
        after = solved.selection
        cost = self._value - after.value(self._level)
        blocked = self._held_back(job)
        found = replace(found, displaces=Displacement(cost, self._losses(after)))
        if blocked:
            return self._blocked(found, job, rows, blocked)
        return replace(found, reason=self._reason(after, solved.complete))

    def _blocked(
        self, found: JobExplanation, job: int, rows: tuple[int, ...], rules: Sequence[Rule]
    ) -> JobExplanation:
        """Return the explanation with rules in the way, and what the option takes of each."""
        state, option = self._posed.state, found.best
        assert option is not None
        node_class = int(self._problem.options.node_class[rows[0]])
        gpu_type = state.cluster.node_types[node_class].gpu_type.name
        blocked = Blocked(
            state, self._posed.rules, self._held, state.jobs[job], option.gpus, gpu_type
        )
        return replace(
            found,
            reason="rule",
            blocked_by=tuple(rule.words for rule in rules),
            takes=tuple(what_it_takes(rule, blocked) for rule in rules),
        )

    def _reason(self, after: Selection, complete: bool) -> str:
        """Return why the best decision with an option was not taken."""
        place, change = first_change(
            reached(self._posed, self._decided), reached(self._posed, after)
        )
        if change < 0 and not complete:
            return "not_examined"
        if change == 0:
            return "tie"
        return "gap" if change > 0 else "earlier_goal" if place > 0 else "price"

    def _forbidden(self, found: JobExplanation, job: int, rows: tuple[int, ...]) -> JobExplanation:
        """Return the explanation with the rules that forbid the option, or without room for it."""
        if not self._posed.rules.rules:
            return replace(found, reason="placement")
        try:
            conflict = rules_in_conflict(self._posed, self._case, rows)
        except UnexplainedError:
            return replace(found, reason="not_examined")
        if conflict is None or not conflict.items:
            return replace(found, reason="placement")
        return self._blocked(found, job, rows, conflict.items)

    def _held_back(self, job: int) -> list[Rule]:
        """Return the rules whose removal would improve the decision and give the job more."""
        if self._without is None:
            self._without = list(self._without_each())
        least = self._values[job] + self._small
        return [rule for rule, values in self._without if values[job] > least]

    def _without_each(self) -> list[tuple[Rule, Floats]]:
        """Return the rules whose removal raises the round's value, with each job's value then.

        Without a rule that ranks jobs the round has fewer goals: the value of the last one decides.
        """
        here, rules = reached(self._posed, self._decided), self._posed.rules
        found = []
        for rule in rules.rules[: self._effort.rules]:
            other = self._posed.under(rules.without(rule))
            selection = self._case.solve(other).selection
            if selection is None:
                continue
            there = reached(other, selection)
            goals = slice(None if len(there) == len(here) else -1, None)
            if first_change(here[goals], there[goals])[1] > 0:
                values = _values(other, self._like(other), selection.choice)
                found.append((rule, values))
        return found

    def _like(self, other: PosedRound) -> Level:
        """Return the same goal for a changed round, with the weights of promises of this one."""
        return other.worth if self._level is self._posed.worth else other.fallback[-1]

    # --- what a choice is worth -----------------------------------------------------------------

    def _losses(self, selection: Selection) -> tuple[Loss, ...]:
        lost = self._values - _values(self._posed, self._level, selection.choice)
        return tuple(
            Loss(
                self._posed.state.jobs[job].job.name,
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
        beside = f" beside {option.partner}" if option.partner else ""
        how = "stay in" if option.stay else "come back in" if option.back else "start in"
        return f"{how} {option.shape} {option.plan}{beside}"

    def _class_values(self) -> list[ClassValue]:
        """Return one row per node class, split by price, leaf and NVLink domain."""
        cluster, interval_s = self._posed.state.cluster, self._posed.state.interval_s
        found = []
        for cell in _by_place(self._prices.nodes(), self._posed):
            node = cluster.nodes[cell.nodes[0]]
            gpu_price = cell.value / node.type.gpus
            gains = self._node_gain(cell.nodes[0]) if self._effort.nodes else (None, None)
            found.append(
                ClassValue(
                    node.type.name,
                    node.type.gpu_type.name,
                    node.leaf,
                    node.nvlink_domain,
                    len(cell.nodes),
                    gpu_price,
                    gpu_price / interval_s,
                    *gains,
                )
            )
        return found

    def _node_gain(self, like: int) -> tuple[float | None, float | None]:
        """Return the round's gain from one more such node, and its upper bound."""
        more = self._posed.with_one_more_node(like)
        solved = self._case.solve(more)
        here = self._optimum.value(self._level)
        # A search that gave up may have left the model of another goal. Without the rows of goals
        # that rank higher the bound is weaker, and a bound.
        built = solved.model if solved.complete else None
        built = built or self._case.build(more.problem, self._like(more))
        bound = relaxation(built.model, self._case.limits)
        most = None if bound is None else bound - here
        if solved.selection is None:
            return None, most
        gain = solved.selection.value(self._like(more)) - here
        return gain, None if most is None else max(most, gain)


def _reduced(found: JobExplanation) -> float:
    """Return the surplus of a job's best option over its price and over the job's choice."""
    assert found.best is not None
    return found.best.reduced - (0.0 if found.granted is None else found.granted.reduced)


def _by_place(cells: list[CellPrice], posed: PosedRound) -> list[CellPrice]:
    """Split cells by leaf and NVLink domain, in the order of their first nodes."""
    nodes = posed.state.cluster.nodes
    found: dict[tuple[int, str, str | None], CellPrice] = {}
    for number, cell in enumerate(cells):
        for node in cell.nodes:
            key = (number, nodes[node].leaf, nodes[node].nvlink_domain)
            before = found[key].nodes if key in found else ()
            found[key] = CellPrice((*before, node), cell.value)
    return sorted(found.values(), key=lambda cell: cell.nodes[0])


def as_granted(posed: PosedRound, selection: Selection, allocation: Allocation) -> Ints:
    """Return every job's choice, shape (J,); a start in place counts as a stay."""
    choice = selection.choice.copy()
    granted = allocation.by_job()
    for job, known in enumerate(posed.state.jobs):
        held = granted.get(known.job.name)
        if held is not None and held == known.running and held.partner is None:
            choice[job] = posed.problem.options.stay[job]
    return choice
