"""Pose a question about moves as a round, and solve it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.moves import Demands, least_loss, most_wanted, with_demands, with_places
from formulations.round.check import check
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import FEASIBILITY, SOLVED
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.moves.places import places_of
from morph_opt.moves.question import Freed, Question, require_named
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.candidates.present import with_moves_only
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.known import require_known_nodes
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome


@dataclass(frozen=True, slots=True)
class PosedQuestion:
    """Question as tables.

    Parameters
    ----------
    question, state, rules
        Question, its state, and the rules that hold, exempt jobs included.
    view
        Round of moves under the rules, without places.
    problem
        The same with the places that are to be free, after all jobs.
    wanted
        Jobs of ``problem`` that are to start: the waiting job, or the places.
    loss, avoided
        GPU-seconds that a move and a stop of each job cost, shape (J,); ``avoided`` is 0 for jobs
        that may not be stopped.
    running, leaving
        Running jobs that may not be stopped, and those that may not stay.
    left_alone
        Names of jobs that stay on a node of ``drain`` until they complete.
    """

    question: Question
    state: RoundState
    rules: OperatorRules
    view: RoundView
    problem: RoundProblem
    wanted: Ints
    loss: Floats
    avoided: Floats
    running: Ints
    leaving: Ints
    left_alone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """Answer of the model.

    Parameters
    ----------
    selection
        Decision; None if there is none.
    loss
        GPU-seconds lost.
    bound
        Proven lower bound on them.
    outcome
        Outcome of the last solve.
    """

    selection: Selection | None
    loss: float
    bound: float
    outcome: Outcome

    @property
    def gap(self) -> float:
        """Relative distance between loss and bound."""
        less = max(0.0, self.loss - self.bound)
        return less / self.loss if less > FEASIBILITY * max(1.0, self.loss) else 0.0

    def proven(self, gap: float) -> bool:
        """Return whether the loss is proven within a gap, up to the tolerance of solvers' bounds.

        The bound of an answer far below the largest loss is lower by 1e-6 of that
        (`morph_opt.scheduling.decision.spread`).
        """
        return self.gap <= gap + 16.0 * SOLVED


def pose(snapshot: Snapshot, question: Question, places: Freed | None = None) -> PosedQuestion:
    """Pose a question about a snapshot.

    Parameters
    ----------
    snapshot, question
        The state with its rules, and what is asked.
    places
        Places to free, in place of those of the question; for sizes of slots as many as could be.

    Raises
    ------
    InputError
        If a job or node is unknown, a pattern matches no running job, a job to start runs already,
        or jobs share GPUs.
    """
    state = snapshot.state
    _require_known(question, state)
    rules = snapshot.rules or OperatorRules()
    if question.exempt:
        rules = OperatorRules((*rules.rules, NonPreemptible(question.exempt)))
    require_known_nodes(rules, state.cluster)
    # A move keeps the configuration, which may be one that others dominate.
    view = CandidateBuilder(snapshot.speeds, prune=False).view(state, whole=True)
    view = apply_rules(with_moves_only(view, question.start), state, rules)
    problem, leaving, alone = _drained(view.problem, question, state)
    view = replace(view, problem=problem)
    jobs = problem.jobs.count
    wanted = np.asarray(
        [job for job, known in enumerate(view.states) if known.job.name == question.start],
        dtype=np.int64,
    )
    freed = places or question.free
    if freed is not None:
        most = None
        if places is not None:
            held = problem.held()[:, 0]
            free = problem.nodes.capacity[problem.nodes.node_class, 0] - held
            most = int(free[problem.nodes.open].sum()) // freed.gpus
        problem = with_places(problem, places_of(freed, state.cluster, problem, most))
        wanted = np.arange(jobs, problem.jobs.count)
    problem = _concerned(problem, wanted, leaving)
    running = problem.jobs.running
    stoppable = np.zeros(problem.jobs.count, dtype=bool)
    loss, avoided = np.zeros(problem.jobs.count), np.zeros(problem.jobs.count)
    for job, known in enumerate(view.states):
        if known.running is not None:
            stoppable[job] = matches(known.job.name, question.may_stop)
            loss[job] = loss_gpu_s(known, state, question.checkpoint_s)
            if stoppable[job]:
                gpus = known.running.placement.gpus
                avoided[job] = loss[job] + gpus * state.interval_s
    kept = np.flatnonzero(running & ~stoppable)
    return PosedQuestion(
        question, state, rules, view, problem, wanted, loss, avoided, kept, leaving, alone
    )


def _require_known(question: Question, state: RoundState) -> None:
    """Refuse unknown names, jobs that run already, and jobs that share GPUs."""
    names = [known.job.name for known in state.jobs]
    if question.start is not None:
        require_named("job", (question.start,), names, "start")
    nodes = [node.name for node in state.cluster.nodes]
    require_named("node", question.drain, nodes, "drain")
    running = [known.job.name for known in state.jobs if known.running is not None]
    for field, patterns in (("exempt", question.exempt), ("may_stop", question.may_stop)):
        for pattern in patterns:
            if not any(matches(name, (pattern,)) for name in running):
                raise InputError(f"{pattern!r} matches no running job", field=field)
    for known in state.jobs:
        if known.running is not None and known.running.partner is not None:
            rule = f"{known.job.name} and {known.running.partner} share GPUs"
            raise InputError(f"{rule}: moves of such jobs are not known", field="state")


def _drained(
    problem: RoundProblem, question: Question, state: RoundState
) -> tuple[RoundProblem, Ints, tuple[str, ...]]:
    """Return the round with closed nodes, the jobs that leave them, and those left alone."""
    if not question.drain:
        return problem, np.zeros(0, dtype=np.int64), ()
    closed = np.zeros(problem.nodes.count, dtype=bool)
    closed[[state.cluster.node_index[name] for name in question.drain]] = True
    here = np.unique(problem.holds.job[closed[problem.holds.node]])
    jobs = problem.jobs
    left_s = jobs.restart_left_s + jobs.iterations_left * jobs.stay_iteration_s
    ends = left_s[here] <= question.until_s
    nodes = replace(problem.nodes, open=problem.nodes.open & ~closed)
    alone = tuple(state.jobs[job].job.name for job in here[ends].tolist())
    return replace(problem, nodes=nodes), here[~ends], alone


def _concerned(problem: RoundProblem, wanted: Ints, leaving: Ints) -> RoundProblem:
    """Return the round with nodes closed that no answer needs.

    A move keeps its node class. So jobs on classes of nothing that is wanted or leaves may as well
    stay, unless a rule or an uplink ties them to the others.
    """
    if problem.rules.count or np.isfinite(problem.nodes.uplink_gb_per_s).any():
        return problem
    nodes, table, holds = problem.nodes, problem.candidates, problem.holds
    needed = np.zeros(nodes.classes, dtype=bool)
    needed[table.part_class[np.isin(table.job[table.part_candidate], wanted)]] = True
    needed[nodes.node_class[holds.node[np.isin(holds.job, leaving)]]] = True
    if table.mixed.any():
        needed[:] = True
    return replace(problem, nodes=replace(nodes, open=nodes.open & needed[nodes.node_class]))


def restart_s(known: JobState) -> float:
    """Return the seconds of start-up of a move, in the same plan on as many GPUs elsewhere."""
    return known.restart_s if known.kept is None else known.prices.migrate_s


def loss_gpu_s(known: JobState, state: RoundState, checkpoint_s: float) -> float:
    """Return the GPU-seconds that a move of a running job costs."""
    assert known.running is not None
    seconds = restart_s(known) + known.lost_s(state.time_s, checkpoint_s)
    return seconds * known.running.placement.gpus


def solve(
    posed: PosedQuestion,
    solver: Solver,
    limits: Limits,
    *,
    least: int = 0,
    most_moves: int | None = None,
    as_many: bool = False,
) -> Solution:
    """Return the decision of least loss, checked against the round's definition.

    Parameters
    ----------
    posed
        Question.
    solver, limits
        Adapter and limits; the gap is that of the loss.
    least
        Number of wanted jobs or places that are to start.
    most_moves
        Largest number of moves; None for any.
    as_many
        Whether to start as many of the wanted as possible, and only then lose the least.
    """
    demands = Demands(posed.wanted, least, posed.running, posed.leaving, most_moves)
    problem = with_demands(posed.problem, demands)
    goal = least_loss(problem, posed.loss, posed.avoided)
    levels: tuple[Level, ...] = (goal,)
    if as_many:
        levels = (most_wanted(problem, posed.wanted), goal)
    at_stake = float(posed.avoided.sum())
    # The value of a decision is not its loss where jobs may be stopped: a gap of the one is not
    # one of the other.
    limits = replace(limits, gap=limits.gap if at_stake == 0.0 else 0.0)
    solved = RoundSolver(solver, limits, tight=True).ranked(problem, levels)
    outcome, selection = solved.outcome, solved.selection
    if selection is None or len(solved.outcomes) < len(levels):
        return Solution(None, float("inf"), 0.0, outcome)
    selection = _without_needless(problem, selection)
    check(problem, selection)
    loss = at_stake - selection.value(goal)
    bound = min(loss, max(0.0, at_stake - outcome.bound))
    return Solution(selection, loss, bound, outcome)


def _without_needless(problem: RoundProblem, selection: Selection) -> Selection:
    """Return the decision without unneeded moves; moves of the most GPUs are undone first.

    A solver may move a job for nothing where a move costs nothing, or within the gap.
    """
    options, choice = problem.options, selection.choice.copy()
    nodes = list(selection.nodes)
    capacity = problem.nodes.capacity[problem.nodes.node_class]
    capacity = capacity * (1 + FEASIBILITY) + FEASIBILITY
    used = _used(problem, selection)
    moved = np.flatnonzero((options.stay >= 0) & (choice != options.stay))
    limited = problem.rules.count > 0 or bool(np.isfinite(problem.nodes.uplink_gb_per_s).any())
    order = sorted(moved.tolist(), key=lambda job: (-float(options.gpus[options.stay[job]]), job))
    for job in order:
        held = np.flatnonzero(problem.holds.job == job)
        after = used.copy()
        if choice[job] != NONE:
            for part, node in zip(problem.parts_of(int(choice[job])), nodes[job], strict=True):
                after[node] -= options.starts.demand(int(choice[job]), part)
        np.add.at(after, problem.holds.node[held], problem.holds.demand[held])
        if (after > capacity).any():
            continue
        tried, where = choice.copy(), [*nodes]
        tried[job], where[job] = options.stay[job], ()
        again = Selection(tried, tuple(where))
        if limited and (broken_rule(problem, again) is not None or not _possible(problem, again)):
            continue
        choice, nodes, used = tried, where, after
    return Selection(choice, tuple(nodes))


def _possible(problem: RoundProblem, selection: Selection) -> bool:
    """Return whether a decision breaks no rule of a round."""
    from formulations.round.check import RuleError

    try:
        check(problem, selection)
    except RuleError:
        return False
    return True


def _used(problem: RoundProblem, selection: Selection) -> Floats:
    """Return what a decision holds on each node, shape (N, R)."""
    used = np.zeros((problem.nodes.count, problem.nodes.resources))
    held, options = problem.options.held.chosen(selection.choice), problem.options
    np.add.at(used, held.node, held.demand)
    for job in np.flatnonzero(selection.named > 0).tolist():
        option = int(selection.choice[job])
        for part, node in zip(problem.parts_of(option), selection.nodes[job], strict=True):
            used[node] += options.starts.demand(option, part)
    return used
