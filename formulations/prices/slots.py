r"""Slots as rows of the relaxation: what nodes can be cut into, so that shapes have their price.

Jobs that go on at GPU prices are taken as going on; what they leave free on nodes makes states e of
a class, and a state's nodes are cut by patterns p (Gilmore, Gomory 1961):

    slots[g]    parts of kind g that start - sum_{e,p} a[p,g] z[e,p] <= 0     price pi[g]
    states[e]   sum_p z[e,p] <= nodes in state e                             price max_p a[p] pi

These rows hold for decisions in which the same jobs go on, so they steer. What the prices prove for
all decisions is `formulations.prices.bound.price_bound` with the prices of going on that
`SlotRelaxation.prices` adds: as much as the slots that could be cut from what a job gives back.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.node_pattern.cells import count_parts, find_cells, find_gang_types, find_kinds
from formulations.node_pattern.patterns import Vector, maximal_patterns
from formulations.prices.bound import Prices
from formulations.prices.relaxation import Evaluation, Relaxation, slope_of
from formulations.round.tables import Level, RoundProblem

MOST_GANGS = 8
"""Jobs on a node of which every subset is looked at; with more, going on has no price of slots."""


class SlotRelaxation(Relaxation):
    """A relaxation with rows of slots behind the others.

    Parameters
    ----------
    problem, level
        A round without pairs and prices of starts, and its goal.
    choice
        Option of each job, shape (J,): who goes on in it is taken as going on.

    Raises
    ------
    formulations.node_pattern.patterns.TooManyPatternsError
        If a node can be cut in too many ways.
    """

    def __init__(self, problem: RoundProblem, level: Level, choice: Ints) -> None:
        super().__init__(problem, level)
        self._plain, self._sizes = False, None
        self._problem = problem
        self._base = self.shared
        self._cells, self._kinds = find_cells(problem), find_kinds(problem)
        types = find_gang_types(problem, self._kinds, count_parts(problem, self._kinds))
        self._continuing = choice >= problem.candidates.count
        self._free = self._free_on_nodes()
        self._patterns, self._nodes = self._states()
        self._with_slots(types.of_candidate, types.counts)

    def _free_on_nodes(self) -> Floats:
        """What those who go on leave on every node, shape (N, R)."""
        nodes, holds = self._problem.nodes, self._problem.holds
        free = nodes.capacity[nodes.node_class].copy()
        mine = self._continuing[holds.job]
        np.subtract.at(free, holds.node[mine], holds.demand[mine])
        return np.maximum(free, 0.0)

    def _states(self) -> tuple[list[Ints], Floats]:
        """Patterns of each state over all kinds, and how many nodes are in it."""
        nodes, kinds = self._problem.nodes, self._kinds
        count: dict[tuple[int, Vector], int] = {}
        for n in np.flatnonzero(nodes.open).tolist():
            t = int(nodes.node_class[n])
            state = t, tuple(np.round(self._free[n, kinds.scarce[t]], 9).tolist())
            count[state] = count.get(state, 0) + 1
        patterns, found = [], []
        for (t, free), many in sorted(count.items()):
            own = maximal_patterns(free, kinds.vectors[t])
            if own.size:
                whole = np.zeros((own.shape[0], kinds.count), dtype=np.int64)
                whole[:, int(kinds.first[t]) : int(kinds.first[t + 1])] = own
                patterns.append(whole)
                found.append(many)
        return patterns, np.asarray(found, dtype=np.float64)

    def _with_slots(self, of_candidate: Ints, counts: Ints) -> None:
        """Put the rows of slots and states, and the patterns as auxiliary columns, behind."""
        from scipy import sparse

        base, slots, states = self._base, self._kinds.count, len(self._patterns)
        rows = counts[of_candidate]
        option, kind = np.nonzero(rows)
        asks = sparse.csr_array(
            (rows[option, kind].astype(np.float64), (kind, option)),
            shape=(slots + states, self.value.size),
        )
        size = [own.shape[0] for own in self._patterns]
        own = np.concatenate([*self._patterns, np.zeros((0, slots), dtype=np.int64)])
        of_state = np.repeat(np.arange(states), size)
        cut = np.vstack([-own.T, (np.arange(states)[:, None] == of_state).astype(np.float64)])
        aux = np.hstack([base.aux_use, np.zeros((base.count, own.shape[0]))])
        below = np.hstack([np.zeros((slots + states, base.aux_upper.size)), cut])
        self.shared = replace(
            base,
            label=(
                *base.label,
                *(("slot", g, 0) for g in range(slots)),
                *(("state", e, 0) for e in range(states)),
            ),
            lower=np.append(base.lower, np.full(slots + states, -np.inf)),
            upper=np.concatenate([base.upper, np.zeros(slots), self._nodes]),
            use=sparse.csr_array(sparse.vstack([base.use, asks])),
            aux_use=np.vstack([aux, below]),
            aux_upper=np.append(base.aux_upper, self._nodes[of_state]),
        )
        self._is_gpu = np.asarray([word == "gpu" for word, _, _ in self.shared.label], dtype=bool)

    @property
    def kinds(self) -> int:
        """Number of kinds of slots S."""
        return self._kinds.count

    def _slots(self) -> slice:
        return slice(self._base.count, self._base.count + self._kinds.count)

    def start(self, prices: Floats) -> Floats:
        """Prices to begin with: half of those of GPUs as they are, the other half on slots."""
        base, kinds = self._base, self._kinds
        found = np.zeros(self.shared.count)
        found[: base.count] = prices
        gpus = np.flatnonzero(self._is_gpu)
        found[gpus] *= 0.5
        of_class = np.zeros(self._problem.nodes.classes)
        of_class[[base.label[row][1] for row in gpus.tolist()]] = found[gpus]
        found[self._slots()] = of_class[kinds.node_class] * kinds.gpus
        return found

    def best_cuts(self, prices: Floats) -> tuple[Floats, Floats]:
        """Worth of a node in each state, shape (E,), and slots of each kind in all, shape (S,)."""
        pi = prices[self._slots()]
        worth, supply = np.zeros(len(self._patterns)), np.zeros(pi.size)
        for e, patterns in enumerate(self._patterns):
            paid = patterns @ pi
            best = int(np.argmax(paid))
            worth[e] = paid[best]
            supply += self._nodes[e] * patterns[best]
        return worth, supply

    def at(self, prices: Floats, more: Floats | None = None) -> Evaluation:
        """See `Relaxation.at`; the prices of states are those that their best cuts are worth."""
        full = prices.copy()
        full[self._slots().stop :] = self.best_cuts(prices)[0]
        return super().at(full, more)

    def slope(self, prices: Floats, usage: Floats) -> Floats:
        """See `Relaxation.slope`; of slots, what the best cuts offer less what is asked for."""
        base = self._base.count
        found = np.zeros(prices.size)
        found[:base] = slope_of(self._base, prices[:base], usage[:base])
        found[self._slots()] = self.best_cuts(prices)[1] - usage[self._slots()]
        return found

    def prices(self, prices: Floats) -> Prices:
        """Prices of these rows as those of a round: slots in all cells, and going on."""
        pi = prices[self._slots()]
        same = self._cells.node_class[:, None] == self._kinds.node_class[None, :]
        slot = np.where(same, pi[None, :], 0.0)
        plain = Prices.of_rows(self._problem, self._base, prices[: self._base.count])
        return replace(plain, slot=slot, stay=self._stay_prices(pi))

    def _stay_prices(self, pi: Floats) -> Floats:
        """What each hold of those who go on pays, shape (H,)."""
        nodes, holds, kinds = self._problem.nodes, self._problem.holds, self._kinds
        paid = np.zeros(holds.count)
        rows: list[list[int]] = [[] for _ in range(nodes.count)]
        for row in np.flatnonzero(self._continuing[holds.job] & nodes.open[holds.node]).tolist():
            rows[int(holds.node[row])].append(row)
        price = tuple(pi.tolist())
        for n, mine in enumerate(rows):
            if not mine or len(mine) > MOST_GANGS:
                continue
            t = int(nodes.node_class[n])
            scarce = kinds.scarce[t]
            free = tuple(np.round(self._free[n, scarce], 9).tolist())
            held = tuple(tuple(np.round(holds.demand[row, scarce], 9).tolist()) for row in mine)
            own = price[int(kinds.first[t]) : int(kinds.first[t + 1])]
            paid[mine] = _worth_of_leaving(free, held, kinds.vectors[t], own)
        return paid


@lru_cache(maxsize=65536)
def _worth_of_leaving(
    free: Vector, held: tuple[Vector, ...], kinds: tuple[Vector, ...], price: Vector
) -> tuple[float, ...]:
    """What each of some jobs has to pay so that no set of them is worth less than its slots."""
    before = _best(free, kinds, price)
    pays = [0.0] * len(held)
    for leaves in product((False, True), repeat=len(held)):
        going = [at for at, goes in enumerate(leaves) if goes]
        if not going:
            continue
        state = np.asarray(free) + np.asarray([held[at] for at in going]).sum(axis=0)
        gains = _best(tuple(np.round(state, 9).tolist()), kinds, price) - before
        gpus = sum(held[at][0] for at in going)
        for at in going:
            pays[at] = max(pays[at], gains * held[at][0] / gpus)
    return tuple(pays)


def _best(free: Vector, kinds: tuple[Vector, ...], price: Vector) -> float:
    patterns: Ints = maximal_patterns(free, kinds)
    return float((patterns @ np.asarray(price)).max(initial=0.0))
