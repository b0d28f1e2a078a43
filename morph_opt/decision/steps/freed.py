"""Which jobs and nodes of a decided round are decided anew, as a round of their own."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice
from formulations.prices import Relaxation
from formulations.round.decode import started_parts
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.decision.steps.exact import PER_HOLD

OFFERED = 0.3
"""Candidates of a residual round lose at most this share of what the gap is worth."""

MOST_OFFERED, EACH = 2_500, 8
"""Candidates of a residual round at most, those that lose least; as many a job if that is more."""

BRANCHES, WORK = 300, 400_000
"""Branch-and-bound nodes of a residual round at most, and these times its columns: the linear
programs of large ones take long."""


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
    """Jobs and nodes of a residual round, shapes (J,) and (N,).

    Jobs that lose most against their best option come first, then those whose runner-up is
    nearest; nodes are theirs and those with the most free GPUs. With ``whole``, half of the jobs
    are instead all those on the nodes that are cheapest to vacate, so that gangs may form there.

    Parameters
    ----------
    surplus, reduced
        At the prices: what each job earns at most, shape (J,), and each option, shape (O,).
    most
        Jobs and nodes at most.
    tried
        Jobs that others come before, shape (J,).
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
) -> Bools:
    """Candidates that free jobs are offered: what they have, and those that lose least, shape (K,).

    What one of them is offered, others that are alike are too: they are counted together.

    Parameters
    ----------
    free
        Jobs that are decided anew, shape (J,).
    missing
        Distance from value to bound.
    loss
        Of each candidate against its job's best, shape (K,).
    alike
        Numbers that candidates share which are alike, shape (K,).
    """
    # Losses of a better decision add up to less than what is missing; single ones are far below.
    most, count = OFFERED * missing, most_offered(int(free.sum()))
    theirs = loss[free[problem.candidates.job]]
    if theirs.size > count:
        most = min(most, float(np.partition(theirs, count)[count]))
    offered = loss <= most
    chosen = decided.choice
    offered[chosen[(chosen >= 0) & (chosen < loss.size)]] = True
    some = np.zeros(int(alike.max(initial=-1)) + 1, dtype=bool)
    some[alike[offered & free[problem.candidates.job]]] = True
    return some[alike]


def most_offered(jobs: int) -> int:
    """Candidates of a residual round of so many jobs at most."""
    return max(MOST_OFFERED, EACH * jobs)


def branches_of(residual: RoundProblem) -> int:
    """Branch-and-bound nodes of a residual round at most."""
    columns = residual.candidates.count + PER_HOLD * residual.holds.count
    return max(1, min(BRANCHES, WORK // max(1, columns)))


def worth_of(level: Level, decided: Selection, jobs: Ints) -> float:
    """What some jobs are worth in a decision."""
    picked = decided.choice[jobs].tolist()
    return sum(float(level.value[option]) for option in picked if option >= 0)


def _by_node(problem: RoundProblem, nodes: list[set[int]], cost: Floats) -> list[list[int]]:
    """All jobs of one node after the other, cheapest to vacate first, classes in turn."""
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
    """GPUs that a decision leaves free on each open node, shape (N,)."""
    nodes, here = problem.nodes, problem.options.held.chosen(decided.choice)
    spare = np.where(nodes.open, nodes.capacity[nodes.node_class, 0], 0.0)
    np.subtract.at(spare, here.node, here.demand[:, 0])
    node, part = started_parts(problem, decided, np.flatnonzero(decided.named))
    np.subtract.at(spare, node, problem.options.starts.templates[0].part_gpus[part])
    return np.where(nodes.open, spare, 0.0)


def _nodes_of_jobs(problem: RoundProblem, decided: Selection) -> list[set[int]]:
    """Nodes that each job holds or was given."""
    found = [set(own) for own in decided.nodes]
    for job, node in zip(problem.holds.job.tolist(), problem.holds.node.tolist(), strict=True):
        found[job].add(node)
    return found
