"""Target shares of a policy by name: solved, filled up, evaluated by definition, proven.

What a policy promises is measured on the shares that are handed out, from the formula alone, and
compared with the bound: an answer further from it than `formulations.tolerances.CLAIM` is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.shares.model import fastest
from formulations.shares.problem import (
    ShareProblem,
    equal_share_rates,
    isolated_rates,
    isolated_shares,
)
from formulations.tolerances import CLAIM
from morph_opt.scheduling.shares.max_min import Solve
from morph_opt.scheduling.shares.policies import (
    Shares,
    cost,
    filled,
    finish_time,
    in_order,
    makespan,
    max_min,
    srpt_order,
    total_throughput,
)
from morph_opt.scheduling.shares.water_filling import Entities, hierarchical


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """Input of a share policy, as columns of shape (J,) unless stated.

    Parameters
    ----------
    problem
        Jobs and types.
    weight, steps_left, since_s, isolated_s, arrival
        Share weight, remaining steps, seconds since submission, seconds that the work done so
        far would have taken on an equal part of the cluster, rank of arrival.
    entity
        Owner of each job, 0..E-1.
    slo_s
        Seconds left until the deadline; inf without one.
    price
        Dollars per hour of a GPU of each type, shape (T,).
    entity_weight
        Weight of each entity, above 0, shape (E,); None: 1 each.
    """

    problem: ShareProblem
    weight: Floats
    steps_left: Floats
    since_s: Floats
    isolated_s: Floats
    arrival: Ints
    entity: Ints
    slo_s: Floats
    price: Floats
    entity_weight: Floats | None = None

    def weight_of_entities(self) -> Floats:
        """Weight of each entity, shape (E,)."""
        if self.entity_weight is not None:
            return self.entity_weight
        return np.ones(int(self.entity.max(initial=0)) + 1)

    def fair_s(self) -> Floats:
        """Total seconds of each job on an equal part of the cluster, shape (J,)."""
        return self.isolated_s + self.steps_left / isolated_rates(self.problem)


def measured(policy: str, request: ShareRequest, x: Floats, pair_x: Floats) -> float:
    """Return the policy's formula at these shares; for water filling the smallest level.

    ``fifo``, ``srpt`` and ``isolated`` have none: the number of jobs that run.
    """
    p, q = request.problem, request
    if policy == "fairness-agnostic":
        p = p.agnostic()
    rates = p.rates(x, pair_x)
    with np.errstate(divide="ignore"):
        seconds = q.steps_left / rates
    match policy:
        case "fairness" | "fairness-agnostic":
            return float((rates / (q.weight * equal_share_rates(p) / p.gang)).min())
        case "water-filling" | "hierarchical" | "hierarchical-fifo":
            return float((rates / (equal_share_rates(p) / p.gang)).min())
        case "makespan":
            return float(seconds.max())
        case "ftf":
            return float(((q.since_s + seconds) / q.fair_s()).max())
        case "max_throughput":
            return float(rates.sum())
        case "cost":
            pairs = p.pairs.throughput.sum(axis=2) * pair_x if p.pairs.count else np.zeros((1, 1))
            return float(((p.throughput * x).sum(axis=0) + pairs.sum(axis=0)) @ (1.0 / q.price))
        case _:
            return float((x > 0).any(axis=1).sum())


def shares_of(policy: str, request: ShareRequest, solve: Solve) -> Shares:
    """Return the target shares of a policy by name, filled up if the LP leaves a choice.

    Raises
    ------
    ValueError
        If the policy is unknown, its own rules are broken, or objective and bound disagree.
    """
    found, floor = _solved(policy, request, solve)
    value = measured(policy, request, found.x, found.pair_x)
    if floor is not None:
        target = request.problem.agnostic() if policy == "fairness-agnostic" else request.problem
        full = filled(target, found, floor, solve=solve)
        after = measured(policy, request, full.x, full.pair_x)
        # Filling up may cost the slack that it needs, and nothing else.
        if abs(after - value) <= CLAIM / 2 * abs(value):
            found, value = full, after
    bound = value if policy in LEXICOGRAPHIC else found.bound
    if not abs(bound - value) <= CLAIM * min(abs(bound), abs(value)):
        raise ValueError(
            f"{policy}: the shares have the value {value:.9g}, the proven bound is {bound:.9g}: "
            "the numbers of the jobs differ too much to be solved exactly"
        )
    return replace(found, objective=value, bound=bound)


def _solved(policy: str, request: ShareRequest, solve: Solve) -> tuple[Shares, Floats | None]:
    """Return the shares of a policy, and the rates it promises if it leaves a choice."""
    p, q = request.problem, request
    match policy:
        case "fairness":
            found = max_min(p, q.weight, solve=solve)
            return found, q.weight * equal_share_rates(p) / p.gang * found.objective
        case "fairness-agnostic":
            found = max_min(p, q.weight, aware=False, solve=solve)
            return found, q.weight / p.gang * found.objective
        case "water-filling":
            alone = Entities(np.arange(p.jobs, dtype=np.int64), q.weight, np.ones(p.jobs))
            return hierarchical(p, alone, solve=solve), None
        case "hierarchical" | "hierarchical-fifo":
            below = "fairness" if policy == "hierarchical" else "fifo"
            entities = Entities(q.entity, q.weight_of_entities(), q.weight, below)
            return hierarchical(p, entities, solve=solve), None
        case "makespan":
            found = makespan(p, q.steps_left, solve=solve)
            return found, q.steps_left / found.objective
        case "ftf":
            found = finish_time(p, q.steps_left, q.since_s, q.isolated_s, solve=solve)
            left_s = np.maximum(found.objective * q.fair_s() - q.since_s, q.steps_left / fastest(p))
            return found, q.steps_left / left_s
        case "max_throughput":
            return total_throughput(p, solve=solve), None
        case "cost":
            return cost(p, q.price, q.steps_left, q.slo_s, solve=solve), None
        case "fifo":
            return in_order(p, np.argsort(q.arrival, kind="stable")), None
        case "srpt":
            return in_order(p, srpt_order(p, q.steps_left)), None
        case "isolated":
            x = isolated_shares(p)
            none = np.zeros((p.pairs.count, p.types))
            return Shares(x, none, float(p.jobs), float(p.jobs)), None
        case _:
            raise ValueError(
                f"unknown share policy {policy!r}; known are {', '.join(SHARE_POLICIES)}"
            )


LEXICOGRAPHIC = ("water-filling", "hierarchical", "hierarchical-fifo")
"""Policies that raise levels one after the other; no single number bounds their answer."""

SHARE_POLICIES = (
    "fairness",
    "fairness-agnostic",
    "hierarchical",
    "hierarchical-fifo",
    "ftf",
    "makespan",
    "max_throughput",
    "cost",
    "fifo",
    "srpt",
    "isolated",
    "water-filling",
)
"""Names known to `shares_of`."""
