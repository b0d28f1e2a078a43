"""Rows over the decisions: operator's rules in a model, promises and goals as further rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.linear_model import Floats, Ints, ModelBuilder
from formulations.objectives import kept
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X
from formulations.round.tables import STAY, Level, RoundProblem, Selection


def add_rules(builder: ModelBuilder, problem: RoundProblem, x: Ints, stay: Ints) -> None:
    """Add the problem's rules; each row's family is the rule's word.

    Parameters
    ----------
    x, stay
        Columns of the candidates (K,) and of the stays (J,), the latter -1 for queued jobs.
    """
    rules = problem.rules
    if not rules.count:
        return
    aux = builder.add_columns(
        "u", np.arange(rules.aux_upper.size)[:, None], rules.aux_upper, integer=False
    )
    column = np.full(rules.index.size, -1, dtype=np.int64)
    for kind, columns in ((RULE_X, x), (RULE_S, stay), (RULE_U, aux)):
        mine = rules.kind == kind
        column[mine] = columns[rules.index[mine]]
    exists = column >= 0
    for row in range(rules.count):
        mine = np.flatnonzero((rules.row == row) & exists)
        builder.add_rows(
            rules.name[row],
            np.asarray([rules.label[row]], dtype=np.int64),
            float(rules.lower[row]),
            float(rules.upper[row]),
            [(np.zeros(mine.size, dtype=np.int64), column[mine], rules.value[mine])],
        )


def broken_rule(problem: RoundProblem, selection: Selection) -> tuple[str, tuple[int, ...]] | None:
    """Word and subscripts of a rule row that a selection breaks, or None.

    Auxiliary columns take the values that suit the rules best; they occur with coefficient -1 in
    rows with an upper limit and +1 in one row that limits their sum, so the smallest value that
    satisfies the former is best for the latter.
    """
    rules = problem.rules
    if not rules.count:
        return None
    started = np.zeros(problem.candidates.count)
    started[selection.choice[selection.choice >= 0]] = 1.0
    stayed = (selection.choice == STAY).astype(np.float64)
    values = np.zeros(rules.value.size)
    for kind, chosen in ((RULE_X, started), (RULE_S, stayed)):
        mine = rules.kind == kind
        values[mine] = chosen[rules.index[mine]]
    activity = np.zeros(rules.count)
    np.add.at(activity, rules.row, rules.value * values)
    aux = np.zeros(rules.aux_upper.size)
    uses = (rules.kind == RULE_U) & (rules.value < 0)
    need = (activity[rules.row[uses]] - rules.upper[rules.row[uses]]) / -rules.value[uses]
    np.maximum.at(aux, rules.index[uses], need)
    over = np.flatnonzero(aux > rules.aux_upper + 1e-9)
    borrowed = rules.kind == RULE_U
    np.add.at(activity, rules.row[borrowed], rules.value[borrowed] * aux[rules.index[borrowed]])
    bad = np.flatnonzero((activity < rules.lower - 1e-9) | (activity > rules.upper + 1e-9))
    if over.size:
        row = int(rules.row[uses][rules.index[uses] == over[0]][0])
        return rules.name[row], rules.label[row]
    if bad.size:
        return rules.name[bad[0]], rules.label[bad[0]]
    return None


def with_promises(problem: RoundProblem) -> RoundProblem:
    """The round with a row ``guarantee[j]`` per guaranteed job: at least the speed it asked for."""
    enough, stays = kept(problem)
    promised = np.flatnonzero(problem.jobs.guaranteed)
    row_of = np.full(problem.jobs.count, -1, dtype=np.int64)
    row_of[promised] = np.arange(promised.size)
    starts = np.flatnonzero(enough & (row_of[problem.candidates.job] >= 0))
    staying = promised[stays[promised]]
    return _with_rows(
        problem,
        "guarantee",
        promised,
        np.ones(promised.size),
        np.concatenate([row_of[problem.candidates.job[starts]], row_of[staying]]),
        starts,
        staying,
        np.ones(starts.size + staying.size),
    )


def with_floor(problem: RoundProblem, rank: int, level: Level, least: float) -> RoundProblem:
    """The round with a row ``rank[r]``: a level that ranks higher is worth at least ``least``.

    In units of its largest value, as solvers' row tolerances are absolute and units are not.
    """
    starts, stays = np.flatnonzero(level.value), np.flatnonzero(level.stay_value)
    values = np.concatenate([level.value[starts], level.stay_value[stays]])
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    return _with_rows(
        problem,
        "rank",
        np.asarray([rank], dtype=np.int64),
        np.asarray([least / scale]),
        np.zeros(values.size, dtype=np.int64),
        starts,
        stays,
        values / scale,
    )


def _with_rows(
    problem: RoundProblem,
    name: str,
    label: Ints,
    lower: Floats,
    row: Ints,
    starts: Ints,
    stays: Ints,
    value: Floats,
) -> RoundProblem:
    """The round with rows of one family behind its rules; entries of starts, then of stays."""
    rules = problem.rules
    kinds = [np.full(starts.size, RULE_X), np.full(stays.size, RULE_S)]
    more = replace(
        rules,
        name=(*rules.name, *([name] * label.size)),
        label=(*rules.label, *((at,) for at in label.tolist())),
        lower=np.concatenate([rules.lower, lower]),
        upper=np.concatenate([rules.upper, np.full(label.size, np.inf)]),
        row=np.concatenate([rules.row, rules.count + row]),
        kind=np.concatenate([rules.kind, *kinds]).astype(np.int64),
        index=np.concatenate([rules.index, starts, stays]),
        value=np.concatenate([rules.value, value]),
    )
    return replace(problem, rules=more)
