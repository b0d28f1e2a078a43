"""Jobs and nodes of a decided round that are decided anew, as a round of their own."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice
from formulations.prices import Relaxation
from formulations.round.decode import started_parts
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams, SubRoundParams


def freed_for(
    problem: RoundProblem,
    decided: Selection,
    relaxation: Relaxation,
    surplus: Floats,
    reduced: Floats,
    whole: bool,
    most: tuple[int, int],
    tried: Bools,
) -> tuple[Bools, Bools]:
    """Return the jobs and nodes of a residual round, shapes (J,) and (N,).

    Jobs that lose most against their best option come first, then those whose runner-up is
    nearest; nodes are theirs and those with the most free GPUs. With ``whole``, half of the jobs
    are instead all those on the nodes that are cheapest to vacate, so that gangs may form there.

    Parameters
    ----------
    decided
        Decision of the round.
    relaxation
        Relaxation that the prices belong to.
    surplus, reduced
        Largest reduced value of each job, shape (J,), and reduced value of each option, shape (O,).
    whole
        Whether whole nodes are vacated.
    most
        Numbers of jobs and nodes, at most.
    tried
        Whether a job was in an earlier residual round and therefore comes later, shape (J,).
    """
    option = decided.choice
    regret = np.maximum(0.0, surplus - at_choice(reduced, option))
    margin = relaxation.margin(reduced, option)
    spare = _spare(problem, decided)
    roomy = np.argsort(-spare, kind="stable")[: most[1] // 2]
    on = set(roomy[spare[roomy] > 0].tolist())
    nodes = _nodes_of_jobs(problem, decided)
    queue: list[list[int]] = [[job] for job in np.lexsort([margin, -regret, tried]).tolist()]
    movable = np.isfinite(margin)
    if whole:
        cost = np.where(movable, margin - regret, 0.0)
        there = _by_node(problem, nodes, cost)
        queue = [*queue[: most[0] // 2], *there, *queue]
    may_move: list[bool] = movable.tolist()
    free: set[int] = set()
    for group in queue:
        if len(free) >= most[0]:
            break
        fresh = set(group) - free
        more = set().union(*(nodes[job] for job in group)) - on
        fits = len(free) + len(fresh) <= most[0] and len(on) + len(more) <= most[1]
        if fits and all(may_move[job] for job in group):
            on |= more
            free |= fresh
    jobs = np.zeros(problem.jobs.count, dtype=bool)
    jobs[sorted(free)] = True
    places = np.zeros(problem.nodes.count, dtype=bool)
    places[sorted(on)] = True
    return jobs, places


def offered_of(
    problem: RoundProblem,
    decided: Selection,
    free: Bools,
    missing: float,
    loss: Floats,
    alike: Ints,
    params: SubRoundParams = DEFAULTS.sub,
) -> Bools:
    """Return the candidates offered to free jobs: their current ones and the best, shape (K,).

    Candidates that are alike are offered together, as they are counted together.

    Parameters
    ----------
    free
        Whether a job is decided anew, shape (J,).
    missing
        Distance from value to bound.
    loss
        Loss of each candidate against its job's best, shape (K,).
    alike
        Group number of each candidate; equal for those that are alike, shape (K,).
    params
        Number of candidates and their loss, at most.
    """
    # Losses of a better decision add up to less than ``missing``; a single one is far below.
    most, count = params.offered_loss * missing, most_offered(int(free.sum()), params)
    theirs = loss[free[problem.candidates.job]]
    if theirs.size > count:
        most = min(most, float(np.partition(theirs, count)[count]))
    offered = loss <= most
    chosen = decided.choice
    offered[chosen[(chosen >= 0) & (chosen < loss.size)]] = True
    some = np.zeros(int(alike.max(initial=-1)) + 1, dtype=bool)
    some[alike[offered & free[problem.candidates.job]]] = True
    return some[alike]


def most_offered(jobs: int, params: SubRoundParams = DEFAULTS.sub) -> int:
    """Return how many candidates a residual round of ``jobs`` jobs offers, at most."""
    return max(params.offered, params.offered_per_job * jobs)


def branches_of(residual: RoundProblem, params: LadderParams = DEFAULTS) -> int:
    """Return how many branch-and-bound nodes a residual round may take: fewer where it is large."""
    columns = residual.candidates.count + params.columns_per_hold * residual.holds.count
    return max(1, min(params.sub.branches, params.sub.work // max(1, columns)))


def worth_of(level: Level, decided: Selection, jobs: Ints) -> float:
    """Return the value of some jobs' options in a decision."""
    picked = decided.choice[jobs].tolist()
    return sum(float(level.value[option]) for option in picked if option >= 0)


def _by_node(problem: RoundProblem, nodes: list[set[int]], cost: Floats) -> list[list[int]]:
    """Return the jobs of each open node, cheapest nodes to vacate first, alternating classes."""
    on_node: dict[int, list[int]] = {}
    for job, where in enumerate(nodes):
        for node in sorted(where):
            on_node.setdefault(node, []).append(job)
    costs = cost.tolist()
    price = {node: sum(costs[job] for job in there) for node, there in on_node.items()}
    classes: dict[int, list[int]] = {}
    for node in sorted(price, key=lambda node: (price[node], node)):
        if problem.nodes.open[node]:
            classes.setdefault(int(problem.nodes.node_class[node]), []).append(node)
    ranked = list(classes.values())
    turns = max((len(column) for column in ranked), default=0)
    in_turn = [column[at] for at in range(turns) for column in ranked if at < len(column)]
    return [on_node[node] for node in in_turn]


def _spare(problem: RoundProblem, decided: Selection) -> Floats:
    """Return how many GPUs a decision leaves free on each open node, shape (N,)."""
    nodes, here = problem.nodes, problem.options.held.chosen(decided.choice)
    spare = np.where(nodes.open, nodes.capacity[nodes.node_class, 0], 0.0)
    np.subtract.at(spare, here.node, here.demand[:, 0])
    node, part = started_parts(problem, decided, np.flatnonzero(decided.named))
    np.subtract.at(spare, node, problem.options.starts.templates[0].part_gpus[part])
    return np.where(nodes.open, spare, 0.0)


def _nodes_of_jobs(problem: RoundProblem, decided: Selection) -> list[set[int]]:
    """Return the nodes that each job holds or was given."""
    found = [set(own) for own in decided.nodes]
    for job, node in zip(problem.holds.job.tolist(), problem.holds.node.tolist(), strict=True):
        found[job].add(node)
    return found
