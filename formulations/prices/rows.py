"""Rows that the options of a round share when it is forgotten which node a part lies on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.node_pattern.cells import scarce_resources, uplinks_matter
from formulations.resources import UPLINK
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import RoundProblem, Scope

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class Shared:
    """Rows that options share.

    Parameters
    ----------
    label
        Of each row ``("gpu", t, 0)``, ``("side", t, r)``, ``("uplink", 0, 0)`` or
        ``("rule", q, 0)``, shape (D,).
    lower, upper
        Shape (D,).
    use
        Shape (D, O).
    aux_use, aux_upper
        Auxiliary columns of the operator's rules, shapes (D, U) and (U,).
    """

    label: tuple[tuple[str, int, int], ...]
    lower: Floats
    upper: Floats
    use: sparse.csr_array
    aux_use: Floats
    aux_upper: Floats

    @property
    def count(self) -> int:
        """Number of rows D."""
        return len(self.label)

    @property
    def network(self) -> Bools:
        """Rows of the network shares of a class, shape (D,)."""
        return np.asarray([label[0] == "side" and label[2] == UPLINK + 1 for label in self.label])

    @property
    def short(self) -> Bools:
        """Rows of other side resources of a class, shape (D,): nodes may run out of those."""
        sides = [label[0] == "side" for label in self.label]
        return np.asarray(sides, dtype=bool) & ~self.network


def held_on_open(problem: RoundProblem) -> Bools:
    """Holds on open nodes, shape (H,): on closed ones there is nothing to compete for."""
    return np.asarray(problem.nodes.open[problem.holds.node])


def shared_rows(problem: RoundProblem) -> Shared:
    """The rows of a round, GPUs of the classes first."""
    table, nodes, held = problem.options.starts, problem.nodes, problem.options.held
    size = np.bincount(nodes.node_class[nodes.open], minlength=nodes.classes)
    held_class = np.where(nodes.open[held.node], nodes.node_class[held.node], -1)
    label: list[tuple[str, int, int]] = []
    upper: list[float] = []
    entries: list[tuple[Ints, Floats]] = []
    first = problem.candidates.count

    def add(mine: Ints, amounts: Floats, holds: Floats) -> None:
        """A row: what starts use of it, and what every hold does."""
        kept = np.bincount(held.option - first, holds, minlength=problem.options.count - first)
        continuing = np.flatnonzero(kept)
        entries.append((np.append(mine, first + continuing), np.append(amounts, kept[continuing])))

    # A million candidates are of a few hundred configurations: what one uses, all of it use.
    rows, which = table.templates
    has_parts = np.diff(rows.part_start) > 0
    scarce = [set(scarce_resources(problem, t).tolist()) for t in range(nodes.classes)]
    for resource in range(nodes.resources):
        for t in range(nodes.classes):
            if resource not in scarce[t]:
                continue
            label.append(("side" if resource else "gpu", t, resource))
            upper.append(float(size[t] * nodes.capacity[t, resource]))
            gpus = rows.gpus_on(t)
            amount = rows.side_on(t, resource - 1) if resource else gpus.astype(np.float64)
            mine = np.flatnonzero(((gpus > 0) & has_parts & (amount != 0))[which])
            holds = np.where(held_class == t, held.demand[:, resource], 0.0)
            add(mine, amount[which[mine]], holds)
    if uplinks_matter(problem) and np.isfinite(nodes.uplink_gb_per_s).all():
        label.append(("uplink", 0, 0))
        upper.append(float(nodes.uplink_gb_per_s.sum()))
        away = np.flatnonzero(((rows.scope == Scope.POD) & has_parts)[which])
        add(away, (rows.gpus * rows.sent_per_gpu)[which[away]], held.uplink_gb_per_s)
    return _with_rules(problem, label, upper, entries)


def _with_rules(
    problem: RoundProblem,
    label: list[tuple[str, int, int]],
    upper: list[float],
    entries: list[tuple[Ints, Floats]],
) -> Shared:
    # scipy takes a tenth of a second to import, and rounds without prices do without it.
    from scipy import sparse

    rules, first = problem.rules, len(label)
    columns, about = problem.options.count, options_in_rules(problem)
    aux_use = np.zeros((first + rules.count, rules.aux_upper.size))
    own = rules.kind == RULE_U
    np.add.at(aux_use, (first + rules.row[own], rules.index[own]), rules.value[own])
    # As compressed rows, no option twice in one: made of coordinates it would be sorted first.
    use = sparse.csr_array(
        (
            np.concatenate([amounts for _, amounts in entries]),
            np.concatenate([options.astype(np.int32) for options, _ in entries]),
            np.cumsum([0, *(options.size for options, _ in entries)]),
        ),
        shape=(first, columns),
    )
    if rules.count:
        refers = about >= 0
        rows = (rules.value[refers], (rules.row[refers], about[refers]))
        use = sparse.csr_array(
            sparse.vstack([use, sparse.csr_array(rows, shape=(rules.count, columns))])
        )
    most = np.concatenate([np.asarray(upper), rules.upper])
    return Shared(
        (*label, *(("rule", q, 0) for q in range(rules.count))),
        np.concatenate([np.full(first, -np.inf), rules.lower]),
        most,
        use,
        aux_use,
        _most_aux(rules.aux_upper, aux_use, use, most),
    )


def _most_aux(limit: Floats, aux_use: Floats, use: sparse.csr_array, upper: Floats) -> Floats:
    """Limits of the auxiliary columns, with those that rows without negative entries imply."""
    most = limit.copy()
    for row in np.flatnonzero(aux_use.any(axis=1) & np.isfinite(upper)).tolist():
        own = use.data[use.indptr[row] : use.indptr[row + 1]]
        if (aux_use[row] >= 0).all() and (own >= 0).all():
            columns = aux_use[row] > 0
            most[columns] = np.minimum(most[columns], upper[row] / aux_use[row, columns])
    return np.maximum(most, 0.0)
