"""Rows over the decisions: operator's rules, jobs that must run, and higher goals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import joined
from formulations.linear_model import ModelBuilder
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X, RuleTable
from formulations.round.tables import (
    Level,
    ReturnTable,
    RoundProblem,
    Selection,
    SharedTable,
)
from formulations.tolerances import FEASIBILITY, SAME_SPEED


def add_rules(builder: ModelBuilder, problem: RoundProblem, x: Ints) -> None:
    """Add the problem's rules; each row's family is the rule's name.

    Parameters
    ----------
    x
        Columns of the options, shape (O,).
    """
    rules = problem.rules
    if not rules.count:
        return
    aux = builder.add_columns(
        "u", np.arange(rules.aux_upper.size)[:, None], rules.aux_upper, integer=False
    )
    own, option = rules.kind == RULE_U, options_in_rules(problem)
    column = np.where(option >= 0, x[option], -1) if x.size else option
    column[own] = aux[rules.index[own]]
    for row in range(rules.count):
        mine = np.flatnonzero((rules.row == row) & (column >= 0))
        builder.add_rows(
            rules.name[row],
            np.asarray([rules.label[row]], dtype=np.int64),
            float(rules.lower[row]),
            float(rules.upper[row]),
            [(np.zeros(mine.size, dtype=np.int64), column[mine], rules.value[mine])],
        )


def options_in_rules(problem: RoundProblem) -> Ints:
    """Return the option of each entry of the rules, -1 for none or an auxiliary column."""
    rules = problem.rules
    option = np.where(rules.kind == RULE_X, rules.index, -1)
    stays = rules.kind == RULE_S
    option[stays] = problem.options.stay[rules.index[stays]]
    return option


def broken_rule(problem: RoundProblem, selection: Selection) -> tuple[str, tuple[int, ...]] | None:
    """Return name and subscripts of a rule row that a selection breaks, or None."""
    rules = problem.rules
    if not rules.count:
        return None
    taken = selection.choice[selection.choice >= 0]
    values = np.isin(options_in_rules(problem), taken).astype(np.float64)
    chosen = np.zeros(rules.count)
    np.add.at(chosen, rules.row, rules.value * values)
    row = broken_row(rules, chosen)
    return None if row is None else (rules.name[row], rules.label[row])


def broken_row(rules: RuleTable, chosen: Floats) -> int | None:
    """Return a row that decisions break, or None.

    Auxiliary columns take the smallest values that their rows with coefficient -1 and an upper
    limit allow: it is best for all rows in which they occur with a positive one. Where such a row
    has one of its own, as in trees of quotas, the values go up from row to row until nothing
    changes; each is monotone in those before it, and no tree is deeper than it has rows.

    Parameters
    ----------
    rules
        The rows.
    chosen
        Sum of the entries of the decisions in each row, shape (Q,).
    """
    aux = np.zeros(rules.aux_upper.size)
    gives, takes = ((rules.kind == RULE_U) & (sign * rules.value > 0) for sign in (-1, 1))
    for _ in range(rules.count):
        activity = chosen.copy()
        np.add.at(activity, rules.row[takes], rules.value[takes] * aux[rules.index[takes]])
        need = (activity[rules.row[gives]] - rules.upper[rules.row[gives]]) / -rules.value[gives]
        before = aux.copy()
        np.maximum.at(aux, rules.index[gives], need)
        if (aux == before).all():
            break
    over = np.flatnonzero(aux > rules.aux_upper + FEASIBILITY)
    activity = chosen.copy()
    own = rules.kind == RULE_U
    np.add.at(activity, rules.row[own], rules.value[own] * aux[rules.index[own]])
    below, above = activity < rules.lower - FEASIBILITY, activity > rules.upper + FEASIBILITY
    bad = np.flatnonzero(below | above)
    if over.size:
        return int(rules.row[gives][rules.index[gives] == over[0]][0])
    return int(bad[0]) if bad.size else None


def with_shared(problem: RoundProblem, shared: SharedTable) -> RoundProblem:
    """Return the round with options of several jobs.

    Such an option has in each rule's row the sum of the entries of what its jobs do alone.
    """
    rules = problem.rules
    starts = np.where(rules.kind == RULE_X, rules.index, -1)
    stays = np.where(rules.kind == RULE_S, rules.index, -1)
    own = shared.candidate >= 0
    found = (
        joined(starts, np.where(own, shared.candidate, -2)),
        joined(stays, np.where(own, -2, shared.job)),
    )
    entry, member = (np.concatenate(both) for both in zip(*found, strict=True))
    rules = replace(
        rules,
        row=np.concatenate([rules.row, rules.row[entry]]),
        kind=np.concatenate([rules.kind, np.full(entry.size, RULE_X)]),
        index=np.concatenate([rules.index, problem.candidates.count + shared.option[member]]),
        value=np.concatenate([rules.value, rules.value[entry]]),
    )
    return replace(problem, shared=shared, rules=rules)


def with_returns(problem: RoundProblem, returns: ReturnTable) -> RoundProblem:
    """Return the round with other prices of starts.

    An option on named nodes has in each rule's row the entry of its candidate. Shared options must
    be in the round already: the options of this table follow them.
    """
    rules, first = problem.rules, problem.candidates.count + problem.shared.count
    starts = np.where(rules.kind == RULE_X, rules.index, -1)
    entry, option = joined(starts, returns.candidate[returns.placed])
    rules = replace(
        rules,
        row=np.concatenate([rules.row, rules.row[entry]]),
        kind=np.concatenate([rules.kind, np.full(entry.size, RULE_X)]),
        index=np.concatenate([rules.index, first + option]),
        value=np.concatenate([rules.value, rules.value[entry]]),
    )
    return replace(problem, returns=returns, rules=rules)


def with_promises(problem: RoundProblem) -> RoundProblem:
    """Return the round with a row ``guarantee[j]`` per guaranteed job: the speed of its request."""
    promised = np.flatnonzero(problem.jobs.guaranteed)
    return with_served(problem, "guarantee", promised, problem.jobs.request_iteration_s[promised])


def with_served(
    problem: RoundProblem, name: str, jobs: Ints, pace_s: Floats, stays: Bools | None = None
) -> RoundProblem:
    """Return the round with a row ``name[j]`` per job: it runs, and no slower than it must.

    Parameters
    ----------
    name
        Name of the rows.
    jobs
        Jobs with a row, shape (R,).
    pace_s
        Seconds per iteration of each that its option may take, shape (R,); inf for any.
    stays
        Whether each keeps its GPUs, shape (R,); None for none.
    """
    members = problem.options.members
    row_of = np.full(problem.jobs.count, -1, dtype=np.int64)
    row_of[jobs] = np.arange(jobs.size)
    row = row_of[members.job]
    mine = np.flatnonzero(row >= 0)
    row = row[mine]
    fast = pace_s[row] / members.iteration_s[mine] >= 1.0 - SAME_SPEED
    if stays is not None:
        fast &= ~(stays[row] & members.starts[mine])
    row, option = row[fast], members.option[mine][fast]
    return with_rows(problem, name, jobs, np.ones(jobs.size), row, option, 1.0)


def without_row(problem: RoundProblem, name: str, label: tuple[int, ...]) -> RoundProblem:
    """Return the round without the rows of this name and these subscripts."""
    rules = problem.rules
    pairs = zip(rules.name, rules.label, strict=True)
    kept = np.asarray([pair != (name, label) for pair in pairs], dtype=bool)
    mine = kept[rules.row]
    rest = replace(
        rules,
        name=tuple(rules.name[row] for row in np.flatnonzero(kept)),
        label=tuple(rules.label[row] for row in np.flatnonzero(kept)),
        lower=rules.lower[kept],
        upper=rules.upper[kept],
        row=(np.cumsum(kept) - 1)[rules.row[mine]],
        kind=rules.kind[mine],
        index=rules.index[mine],
        value=rules.value[mine],
    )
    return replace(problem, rules=rest)


def with_floor(problem: RoundProblem, rank: int, level: Level, least: float) -> RoundProblem:
    """Return the round with a row ``rank[z]``: a higher level is worth at least ``least``.

    In units of the level's largest value, because solvers' row tolerances are absolute.
    """
    options = np.flatnonzero(level.value)
    scale = float(np.abs(level.value).max(initial=0.0)) or 1.0
    return with_rows(
        problem,
        "rank",
        np.asarray([rank], dtype=np.int64),
        np.asarray([least / scale]),
        np.zeros(options.size, dtype=np.int64),
        options,
        level.value[options] / scale,
    )


def with_rows(
    problem: RoundProblem,
    name: str,
    label: Ints,
    lower: Floats,
    row: Ints,
    option: Ints,
    value: Floats | float,
) -> RoundProblem:
    """Return the round with rows of one family after its rules."""
    rules, count = problem.rules, problem.options.starts.count
    stays = option >= count
    index = np.where(stays, problem.options.job[option], option)
    more = replace(
        rules,
        name=(*rules.name, *([name] * label.size)),
        label=(*rules.label, *((at,) for at in label.tolist())),
        lower=np.concatenate([rules.lower, lower]),
        upper=np.concatenate([rules.upper, np.full(label.size, np.inf)]),
        row=np.concatenate([rules.row, rules.count + row]),
        kind=np.concatenate([rules.kind, np.where(stays, RULE_S, RULE_X)]),
        index=np.concatenate([rules.index, index]),
        value=np.concatenate([rules.value, np.broadcast_to(value, option.shape)]),
    )
    return replace(problem, rules=more)
