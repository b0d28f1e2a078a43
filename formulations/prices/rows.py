"""Rows that options of a round share if nodes of parts are ignored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import stretches
from formulations.node_pattern.cells import scarce_resources, uplinks_matter
from formulations.resources import UPLINK
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import RoundProblem

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class Held:
    """Use of F rows by holdings, stored per configuration and not per option.

    A large round has a million candidates and a few hundred configurations.

    Parameters
    ----------
    of_kinds
        Use by each kind: configurations, then options other than candidates, shape (F, kinds).
    which
        Kind of each candidate, shape (K,).
    others
        Number of options other than candidates; each is a kind of its own, at the end.
    """

    of_kinds: Floats
    which: Ints
    others: int

    def _every(self) -> Ints:
        """Return the kind of every option, shape (O,)."""
        kinds = self.of_kinds.shape[1]
        return np.append(self.which, np.arange(kinds - self.others, kinds))

    def _kind(self, options: Ints) -> Ints:
        """Return the kind of each of some options."""
        starts, count = options < self.which.size, self.of_kinds.shape[1]
        kind: Ints = options + (count - self.others - self.which.size)
        kind[starts] = self.which[options[starts]]
        return kind

    def used(self, options: Ints) -> Floats:
        """Return the sum of some options' use of every row, shape (F,)."""
        many = np.bincount(self._kind(options), minlength=self.of_kinds.shape[1])
        return np.asarray(self.of_kinds @ many)

    def use(self, rows: slice, options: Ints) -> Floats:
        """Return the use of some rows by each of some options, shape (rows, options)."""
        kind, kinds = self._kind(options), self.of_kinds[rows]
        found = np.empty((kinds.shape[0], options.size))
        for own, use in zip(kinds, found, strict=True):
            own.take(kind, out=use)
        return found

    def priced(self, prices: Floats, options: Ints | None = None) -> Floats:
        """Return the price that each option pays, of some options or of all if None, shape (O,)."""
        each = np.zeros(self.of_kinds.shape[1])
        # Row by row, as floating-point sums depend on their order.
        for price, use in zip(prices.tolist(), self.of_kinds, strict=True):
            each += price * use
        return each[self._every() if options is None else self._kind(options)]

    def highest(self, value: Floats) -> Floats:
        """Return the largest absolute value of an option per unit of each row, shape (F,)."""
        most = np.zeros(self.of_kinds.shape[1])
        for own in stretches(self.which.size):
            np.maximum.at(most, self.which[own], np.abs(value[own]))
        most[most.size - self.others :] = np.abs(value[self.which.size :])
        none = np.zeros(self.of_kinds.shape)
        ratio = np.divide(most, self.of_kinds, out=none, where=self.of_kinds != 0)
        return np.asarray(ratio.max(axis=1, initial=0.0))

    def matrix(self) -> sparse.csr_array:
        """Return the use of every row by every option, shape (F, O)."""
        from scipy import sparse

        of_kinds = sparse.csr_array(self.of_kinds.T)
        return of_kinds[self._every()].T.tocsr()


@dataclass(frozen=True)
class Shared:
    """Rows that options share.

    Parameters
    ----------
    label
        Label of each row: ``("gpu", t, 0)``, ``("side", t, r)``, ``("uplink", 0, 0)`` or
        ``("rule", q, 0)``, shape (D,).
    lower, upper
        Limits of the rows, shape (D,).
    held
        Use of the first rows.
    others
        Use of the rows after these, shapes (.., O).
    aux_use, aux_upper
        Use of rows by auxiliary columns of the operator's rules, shape (D, U), and their limits,
        shape (U,).

    Attributes
    ----------
    use
        Use of all rows, shape (D, O); built on first access.
    """

    label: tuple[tuple[str, int, int], ...]
    lower: Floats
    upper: Floats
    held: Held
    others: tuple[sparse.csr_array, ...]
    aux_use: Floats
    aux_upper: Floats

    @cached_property
    def use(self) -> sparse.csr_array:
        """Matrix of all rows, shape (D, O), built on first access."""
        # The import of scipy takes 0.1 s, and rounds without prices do not need it.
        from scipy import sparse

        held = self.held.matrix()
        return sparse.csr_array(sparse.vstack([held, *self.others])) if self.others else held

    def paid(self, prices: Floats, options: Ints | None = None) -> Floats:
        """Return the price that each option pays, of some options or of all if None, shape (O,)."""
        if not self.others:
            return self.held.priced(prices, options)
        paid = np.asarray(self.use.T @ prices)
        return paid if options is None else paid[options]

    @property
    def count(self) -> int:
        """Number of rows D."""
        return len(self.label)

    @property
    def network(self) -> Bools:
        """Whether a row is the network share of a class, shape (D,)."""
        return np.asarray([label[0] == "side" and label[2] == UPLINK + 1 for label in self.label])

    @property
    def short(self) -> Bools:
        """Whether a row is another side resource of a class, shape (D,)."""
        sides = [label[0] == "side" for label in self.label]
        return np.asarray(sides, dtype=bool) & ~self.network


def held_on_open(problem: RoundProblem) -> Bools:
    """Return whether a hold is on an open node, shape (H,): on closed ones nothing competes."""
    return np.asarray(problem.nodes.open[problem.holds.node])


def shared_rows(problem: RoundProblem) -> Shared:
    """Return the rows of a round, GPUs of the classes first."""
    table, nodes, held = problem.options.starts, problem.nodes, problem.options.held
    size = np.bincount(nodes.node_class[nodes.open], minlength=nodes.classes)
    held_class = np.where(nodes.open[held.node], nodes.node_class[held.node], -1)
    label: list[tuple[str, int, int]] = []
    upper: list[float] = []
    first = problem.candidates.count
    rows, which = table.templates
    of_kinds: list[Floats] = []
    others = problem.options.count - first

    def add(starts: Floats, holds: Floats) -> None:
        """Add a row from its use by each configuration and each hold."""
        kept = np.bincount(held.option - first, holds, others).astype(np.float64)
        kept[: which.size - first] += starts[which[first:]]
        of_kinds.append(np.append(starts, kept))

    has_parts = np.diff(rows.part_start) > 0
    scarce = [set(scarce_resources(problem, t).tolist()) for t in range(nodes.classes)]
    for resource in range(nodes.resources):
        for t in range(nodes.classes):
            if resource not in scarce[t]:
                continue
            label.append(("side" if resource else "gpu", t, resource))
            upper.append(float(size[t] * nodes.capacity[t, resource]))
            gpus = rows.gpus_on(t)
            amount = rows.side_on(t, resource - 1) if resource else 1.0 * gpus
            holds = np.where(held_class == t, held.demand[:, resource], 0.0)
            add(np.where((gpus > 0) & has_parts, amount, 0.0), holds)
    if uplinks_matter(problem) and np.isfinite(nodes.uplink_gb_per_s).all():
        label.append(("uplink", 0, 0))
        upper.append(float(nodes.uplink_gb_per_s.sum()))
        sent = np.where(has_parts, rows.gpus * rows.sent_per_gpu, 0.0)
        add(sent, held.uplink_gb_per_s)
    return _with_rules(problem, label, upper, Held(np.asarray(of_kinds), which[:first], others))


def _with_rules(
    problem: RoundProblem, label: list[tuple[str, int, int]], upper: list[float], held: Held
) -> Shared:
    rules, first = problem.rules, len(label)
    others: list[sparse.csr_array] = []
    aux_use = np.zeros((first + rules.count, rules.aux_upper.size))
    own = rules.kind == RULE_U
    np.add.at(aux_use, (first + rules.row[own], rules.index[own]), rules.value[own])
    if rules.count:
        from scipy import sparse

        about = options_in_rules(problem)
        refers = about >= 0
        entries = (rules.value[refers], (rules.row[refers], about[refers]))
        others = [sparse.csr_array(entries, shape=(rules.count, problem.options.count))]
    found = Shared(
        (*label, *(("rule", q, 0) for q in range(rules.count))),
        np.concatenate([np.full(first, -np.inf), rules.lower]),
        np.concatenate([np.asarray(upper), rules.upper]),
        held,
        tuple(others),
        aux_use,
        rules.aux_upper,
    )
    return replace(found, aux_upper=_most_aux(found)) if rules.aux_upper.size else found


def _most_aux(shared: Shared) -> Floats:
    """Return limits of auxiliary columns, tightened by rows without negative entries."""
    most, aux_use, upper, use = shared.aux_upper.copy(), shared.aux_use, shared.upper, shared.use
    for row in np.flatnonzero(aux_use.any(axis=1) & np.isfinite(upper)).tolist():
        own = use.data[use.indptr[row] : use.indptr[row + 1]]
        if (aux_use[row] >= 0).all() and (own >= 0).all():
            columns = aux_use[row] > 0
            most[columns] = np.minimum(most[columns], upper[row] / aux_use[row, columns])
    return np.maximum(most, 0.0)
