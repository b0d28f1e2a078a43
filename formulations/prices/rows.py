"""Rows that the options of a round share when it is forgotten which node a part lies on."""

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
    """What options use of rows by what they hold: F rows, by configuration and not by option.

    Rounds have a million candidates of a few hundred configurations.

    Parameters
    ----------
    of_kinds
        What each configuration uses, and each option that is none of the candidates, shape (F, R).
    which
        Which of them each candidate is, shape (K,).
    others
        Options that are none: each is a kind of its own, and these are the last.
    """

    of_kinds: Floats
    which: Ints
    others: int

    def _every(self) -> Ints:
        """Kind of every option, shape (O,)."""
        kinds = self.of_kinds.shape[1]
        return np.append(self.which, np.arange(kinds - self.others, kinds))

    def _kind(self, options: Ints) -> Ints:
        """Kind of each of some options."""
        starts, count = options < self.which.size, self.of_kinds.shape[1]
        kind: Ints = options + (count - self.others - self.which.size)
        kind[starts] = self.which[options[starts]]
        return kind

    def used(self, options: Ints) -> Floats:
        """What some options use together of every row, shape (F,)."""
        many = np.bincount(self._kind(options), minlength=self.of_kinds.shape[1])
        return np.asarray(self.of_kinds @ many)

    def use(self, rows: slice, options: Ints) -> Floats:
        """What each of some options uses of some rows, shape (rows, options)."""
        kind, kinds = self._kind(options), self.of_kinds[rows]
        found = np.empty((kinds.shape[0], options.size))
        for own, use in zip(kinds, found, strict=True):
            own.take(kind, out=use)
        return found

    def priced(self, prices: Floats, options: Ints | None = None) -> Floats:
        """What each of some options pays at prices of the rows; None: every one, shape (O,)."""
        each = np.zeros(self.of_kinds.shape[1])
        # Row by row, as floating-point sums depend on their order.
        for price, use in zip(prices.tolist(), self.of_kinds, strict=True):
            each += price * use
        return each[self._every() if options is None else self._kind(options)]

    def highest(self, value: Floats) -> Floats:
        """The most that options are worth in size per unit of each row, (F,), by value, (O,)."""
        most = np.zeros(self.of_kinds.shape[1])
        for own in stretches(self.which.size):
            np.maximum.at(most, self.which[own], np.abs(value[own]))
        most[most.size - self.others :] = np.abs(value[self.which.size :])
        none = np.zeros(self.of_kinds.shape)
        ratio = np.divide(most, self.of_kinds, out=none, where=self.of_kinds != 0)
        return np.asarray(ratio.max(axis=1, initial=0.0))

    def matrix(self) -> sparse.csr_array:
        """What every option uses of every row, shape (F, O)."""
        from scipy import sparse

        of_kinds = sparse.csr_array(self.of_kinds.T)
        return of_kinds[self._every()].T.tocsr()


@dataclass(frozen=True)
class Shared:
    """Rows that options share.

    Parameters
    ----------
    label
        Of each row ``("gpu", t, 0)``, ``("side", t, r)``, ``("uplink", 0, 0)`` or
        ``("rule", q, 0)``, shape (D,).
    lower, upper
        Shape (D,).
    held
        The first rows.
    others
        Those behind them, shapes (.., O).
    aux_use, aux_upper
        Auxiliary columns of the operator's rules, shapes (D, U) and (U,).

    Attributes
    ----------
    use
        All of them, shape (D, O); made when it is first asked for.
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
        """See the attribute."""
        # scipy takes a tenth of a second to import, and rounds without prices do without it.
        from scipy import sparse

        held = self.held.matrix()
        return sparse.csr_array(sparse.vstack([held, *self.others])) if self.others else held

    def paid(self, prices: Floats, options: Ints | None = None) -> Floats:
        """What each of some options pays at prices of the rows; None: every one, shape (O,)."""
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
    first = problem.candidates.count
    rows, which = table.templates
    of_kinds: list[Floats] = []
    others = problem.options.count - first

    def add(starts: Floats, holds: Floats) -> None:
        """A row: what configurations use of it, and what every hold does."""
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
    """Limits of the auxiliary columns, with those that rows without negative entries imply."""
    most, aux_use, upper, use = shared.aux_upper.copy(), shared.aux_use, shared.upper, shared.use
    for row in np.flatnonzero(aux_use.any(axis=1) & np.isfinite(upper)).tolist():
        own = use.data[use.indptr[row] : use.indptr[row + 1]]
        if (aux_use[row] >= 0).all() and (own >= 0).all():
            columns = aux_use[row] > 0
            most[columns] = np.minimum(most[columns], upper[row] / aux_use[row, columns])
    return np.maximum(most, 0.0)
