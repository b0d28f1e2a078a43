"""Plain values of an explanation, for JSON and text."""

from __future__ import annotations

import dataclasses
import decimal
import math
from dataclasses import dataclass
from typing import Any

from formulations.parameters import Params, number
from morph_opt.core.domain.errors import ContractError

DIGITS = 9
"""Significant digits of numbers in JSON, so that noise in the last bits does not show."""
NOISE = 1e-14
"""Relative error of a value that is noise: it does not round the value down by a digit."""


@dataclass(frozen=True, slots=True)
class ExplainParams(Params):
    """Precision and effort of explanations."""

    gap: float = number(1e-6, 0, 1)
    """Relative gap to which what-ifs are solved, so that their differences mean something."""
    change: float = number(1e-6, 0, 1)
    """Share of a goal's value, or largest coefficient, below which differences are ignored."""
    solves: int = 30
    """Largest number of models per what-if: choices without nodes are cut off one by one."""
    nodes: int = number(2_000, 1)
    """Branch-and-bound nodes per model if the decision had no limit; reproducible."""
    subsets: int = 200_000
    """Number of tested subsets after which a conflict is only reported as irreducible."""
    least_s: float = 0.5
    """Least seconds for a search for a smallest set of rules in conflict."""
    small: float = number(1e-9, 0, 1)
    """Share of a round's largest value below which prices count as 0."""
    little: float = number(1e-5, 0, 1)
    """Share of a resource that is added to choose between duals; above a solver's tolerance."""
    proven: float = number(1e-7, 0, 1)
    """Tolerance in checking that duals are optimal."""
    names: int = number(3, 1)
    """Most jobs that a sentence names."""


EXPLAIN = ExplainParams()


class UnexplainedError(ContractError):
    """Error: the solver found no answer within its limits to explain a round with."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits on the rounds that are solved again for an explanation.

    Parameters
    ----------
    jobs
        Most jobs whose best option is forced.
    rules
        Most rules that are left out, one at a time.
    nodes
        Whether the round is solved with one more node of every kind.
    named
        Jobs whose best option is forced in any case.
    """

    jobs: int = 5
    rules: int = 20
    nodes: bool = False
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One way for a job to run, with its price.

    Parameters
    ----------
    plan, shape, node_type, gpus
        The configuration.
    stay
        Whether it is what the job runs in, left as it is.
    value
        In the objective's unit.
    price
        Value to other jobs of the resources that the option takes.
    paid_for
        The price by resource, largest first.
    rules
        Part of the price due to operator's rules (the value of relaxing them).
    reduced
        ``value - price``; what rules add is not in it.
    partner
        The job on the same GPUs; None for a job alone.
    startup_s
        Start-up that is ahead of the job there.
    back
        Whether it is a start on the very nodes that the job held last.
    """

    plan: str
    shape: str
    node_type: str
    gpus: int
    stay: bool
    value: float
    price: float
    paid_for: tuple[tuple[str, float], ...]
    rules: float
    reduced: float
    partner: str | None = None
    startup_s: float = 0.0
    back: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """A job that would get less, with its value before and after."""

    job: str
    before: str
    after: str
    loses: float


@dataclass(frozen=True, slots=True)
class Displacement:
    """Consequences of forcing a job into its best option.

    Parameters
    ----------
    cost
        Amount by which the objective would fall.
    losses
        Jobs whose value would fall, largest loss first.
    """

    cost: float
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class JobExplanation:
    """Explanation of one job.

    Parameters
    ----------
    job, action
        Name; ``start``, ``stay`` or ``queue``.
    granted
        Option that the job got; None if it is queued.
    best
        Option with the largest reduced value among those worth more than ``granted``; None if there
        is none.
    reason
        ``best``: nothing is worth more. ``price``: its best option costs others at least what it
        adds, by a solve with it if ``displaces`` is given, else at prices that are an estimate
        where the relaxation is above the optimum. ``tie``: another optimum would grant the option.
        ``rule``: rules forbid it or hold it back. ``placement``: no placement has room for it.
        ``no_configuration``: it cannot run. ``earlier_goal``: promises or goals that rank higher
        would fall. ``gap``: the decision is not optimal and the option would improve it.
        ``not_examined``: beyond the requested effort, or the solver found no answer within its
        limits.
    displaces
        See `Displacement`; None if the option was not examined or cannot be forced.
    blocked_by, takes
        Rules in words, and what the option takes of each: what is used up, and the change.
    """

    job: str
    action: str
    granted: Option | None
    best: Option | None
    reason: str
    displaces: Displacement | None = None
    blocked_by: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassValue:
    """Value of GPUs and nodes of one kind in this round.

    Parameters
    ----------
    node_type, gpu_type, leaf, nodes
        Kind of the open nodes, the leaf that they hang on, and their number.
    domain
        Their NVLink domain; None where it ends at the node.
    gpu_price
        Price of one GPU in this round: the price of an idle node over its GPUs.
    gpu_s_price
        GPU price per second of the round.
    node_gain, node_bound
        Gain of the round, solved with one more node, and its upper bound by the relaxation of that
        larger round; None if not requested.
    """

    node_type: str
    gpu_type: str
    leaf: str
    domain: str | None
    nodes: int
    gpu_price: float
    gpu_s_price: float
    node_gain: float | None = None
    node_bound: float | None = None


@dataclass(frozen=True, slots=True)
class PlanRefusal:
    """A plan of a model that does not fit on nodes of a type.

    Parameters
    ----------
    shapes
        Refused shapes, as offered.
    reason
        For the first of them.
    """

    model: str
    node_type: str
    plan: str
    shapes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class DuePrice:
    """Price of serving one due job in this round.

    Parameters
    ----------
    job
        Name of the job.
    row
        ``due``: it has to start. ``held``: it was due when it started, and keeps running.
    since_s
        Due instant.
    price
        Amount by which the optimum would rise if the job need not be served; None if the solver did
        not tell.
    """

    job: str
    row: str
    since_s: float
    price: float | None


@dataclass(frozen=True, slots=True)
class RoundExplanation:
    """Explanation of a round's decision.

    Parameters
    ----------
    round, time_s, objective, unit
        Index and time of the round; name and unit of the priced goal (the objective's last).
    value
        Value of the decision.
    optimum
        Optimum of the round, proven to a relative gap of 1e-6; None if the solver did not reach it.
    relaxation
        Optimum of the linear relaxation, within the optima of goals that rank higher.
    prices, jobs, refusals
        See the classes.
    due
        Prices of serving due jobs, the first of `Effort.rules`; JSON lacks it if there are none.
    """

    round: int
    time_s: float
    objective: str
    unit: str
    value: float
    optimum: float | None
    relaxation: float
    prices: tuple[ClassValue, ...]
    jobs: tuple[JobExplanation, ...]
    refusals: tuple[PlanRefusal, ...]
    due: tuple[DuePrice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        plain = _plain(self)
        assert isinstance(plain, dict)
        if not self.due:
            del plain["due"]
        return plain


_UPPER = {"node_bound", "relaxation"}
"""Names of upper bounds, which are rounded up."""


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
        for name in _UPPER & plain.keys():
            bound = getattr(value, name)
            plain[name] = None if bound is None else rounded(bound, decimal.ROUND_CEILING)
        if isinstance(value, Option):
            plain["paid_for"] = {word: rounded(amount) for word, amount in value.paid_for}
        return plain
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return rounded(value)
    return value


def rounded(value: float, direction: str = decimal.ROUND_HALF_EVEN) -> float | None:
    """Round to `DIGITS` significant digits; None if not finite, 0.0 for -0.0.

    Parameters
    ----------
    direction
        Rounding of `decimal`: ``ROUND_CEILING`` for upper bounds and ``ROUND_FLOOR`` for proven
        values, so that what is written is proven as well.
    """
    if not math.isfinite(value):
        return None
    nearest = float(f"{value:.{DIGITS}g}") + 0.0
    noise = direction != decimal.ROUND_CEILING and abs(nearest - value) <= NOISE * abs(value)
    if noise or direction == decimal.ROUND_HALF_EVEN:
        return nearest
    context = decimal.Context(prec=DIGITS, rounding=direction)
    return float(context.create_decimal_from_float(value)) + 0.0
