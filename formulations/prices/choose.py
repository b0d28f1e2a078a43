r"""Search for prices of the shared rows at which the bound is least.

The bound is convex and piecewise linear in the prices; the choice of the jobs at some prices gives
a subgradient. One price: the tangents at both ends of a bracket are intersected, and every third
step halves it. Several: cutting planes (Kelley 1960) inside a box around the best prices found,
which is halved if the model predicted badly and widened if it holds the model back. A row gets a
price when the choice breaks it. Any price vector proves a bound, whatever the search does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.parameters import PRICE_SEARCH, PriceSearchParams
from formulations.prices.relaxation import Evaluation, Relaxation
from formulations.tolerances import FEASIBILITY, SAME_VALUE

LinearProgram = Callable[[Floats, Floats, Floats, Floats, Floats], tuple[Floats, Floats] | None]
"""Function (c, A, b, lower, upper) that minimises ``c x`` subject to ``A x <= b`` and ``lower <= x
<= upper``: returns the point and the multipliers (at least 0) of the rows, or None if none was
found."""


def scipy_lp(
    cost: Floats, matrix: Floats, limit: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, Floats] | None:
    """Solve a small linear program by scipy."""
    # The import takes 0.2 s, and the ladder brings a faster solver.
    from scipy.optimize import linprog

    found = linprog(cost, matrix, limit, bounds=np.column_stack([lower, upper]), method="highs-ds")
    if found.status != 0:
        return None
    return np.asarray(found.x), -np.asarray(found.ineqlin.marginals)


@dataclass(frozen=True, slots=True)
class Cut:
    """Relaxation at some prices: a supporting plane of the bound and a choice of every job.

    Parameters
    ----------
    prices, slope, usage
        Prices of the shared rows, subgradient at them, and use by the choice, shape (D,).
    value
        Bound at the prices.
    choice
        Option of each job, shape (J,).
    """

    prices: Floats
    value: float
    slope: Floats
    usage: Floats
    choice: Ints


@dataclass(frozen=True, slots=True)
class Chosen:
    """Prices with the least bound that was found.

    Parameters
    ----------
    prices
        Prices of the shared rows, shape (D,).
    evaluation
        Relaxation at these prices.
    cuts
        All cuts, in order.
    active
        Rows with a price.
    """

    prices: Floats
    evaluation: Evaluation
    cuts: tuple[Cut, ...]
    active: Ints


def choose_prices(
    relaxation: Relaxation,
    start: Floats | None = None,
    lp: LinearProgram = scipy_lp,
    free: Bools | None = None,
    params: PriceSearchParams = PRICE_SEARCH,
) -> Chosen:
    """Return the prices of the shared rows with the least bound found.

    Parameters
    ----------
    start
        First prices, for example of an earlier round; None for a share of the highest ones.
    lp
        Solver of the master problems.
    free
        Whether a row's price is fixed at 0, shape (D,); None if no price is.
    params
        Limits and step sizes.
    """
    return _Search(relaxation, lp, free, params).run(start)


class _Search:
    def __init__(
        self,
        relaxation: Relaxation,
        lp: LinearProgram,
        free: Bools | None,
        params: PriceSearchParams,
    ) -> None:
        self._relaxation = relaxation
        self._params = params
        self._left = params.evaluations
        self._lp = lp
        shared = relaxation.shared
        self._top = _highest(relaxation)
        if free is not None:
            self._top[free] = 0.0
        at_once = [word in ("gpu", "slot") for word, _, _ in shared.label]
        self._active = np.asarray(at_once, dtype=bool) & (self._top > 0)
        self._sign = np.where(np.isfinite(shared.upper), 1.0, -1.0)
        self._cuts: list[Cut] = []
        self._best: tuple[Cut, Evaluation] | None = None

    def run(self, start: Floats | None) -> Chosen:
        radius = self._params.radius
        if radius is None:
            radius = self._params.fresh if start is None else self._params.near
        prices = np.zeros(self._top.size)
        if start is not None and start.shape == prices.shape:
            raised = self._sign > 0
            ends = np.where(raised, 0.0, -self._top), np.where(raised, self._top, 0.0)
            prices = np.clip(start, *ends)
            self._active |= prices != 0
        else:
            prices[self._active] = self._params.first * self._top[self._active]
        cut = self._evaluate(prices)
        while self._left > 0 and np.isfinite(cut.value):
            if int(self._active.sum()) == 1:
                self._bracket(int(np.flatnonzero(self._active)[0]))
            else:
                self._boxed(radius)
            if not self._activate():
                break
        best, evaluation = self._known()
        return Chosen(best.prices, evaluation, tuple(self._cuts), np.flatnonzero(self._active))

    def _known(self) -> tuple[Cut, Evaluation]:
        assert self._best is not None
        return self._best

    def _evaluate(self, prices: Floats) -> Cut:
        self._left -= 1
        relaxation = self._relaxation
        found = relaxation.at(prices)
        usage = relaxation.usage(found.choice) if found.usage is None else found.usage
        slope = relaxation.slope(prices, usage) if found.slope is None else found.slope
        cut = Cut(prices, found.bound, slope, usage, found.choice)
        self._cuts.append(cut)
        if self._best is None or found.bound < self._best[0].value:
            self._best = (cut, found)
        return cut

    def _activate(self) -> bool:
        """Price the rows broken at the best prices; return whether there are any."""
        shared, slope = self._relaxation.shared, self._known()[0].slope
        scale = FEASIBILITY * np.maximum(1.0, np.abs(slope))
        limited = np.isfinite(np.where(self._sign > 0, shared.upper, shared.lower))
        broken = ~self._active & limited & (self._sign * slope < -scale) & (self._top > 0)
        if not broken.any():
            broken = self._tied(~self._active & limited & (self._top > 0))
        self._active |= broken
        return bool(broken.any())

    def _tied(self, rows: Bools) -> Bools:
        """Return the rows whose prices lower the bound of the cutting planes, shape (D,).

        At a tie, the choice that was made may keep a row that others of equal value break.
        """
        none = np.zeros(rows.size, dtype=bool)
        best = self._known()[0]
        over = np.asarray([self._sign * cut.slope < 0 for cut in self._cuts]).any(axis=0)
        if not (rows & over).any():
            return none
        asked = np.flatnonzero(self._active | (rows & over))
        cost, scale = np.append(np.zeros(asked.size), 1.0), abs(best.value) or 1.0
        raised, top = self._sign[asked] > 0, self._params.highest * self._top[asked]
        lower, upper = np.where(raised, 0.0, -top), np.where(raised, top, 0.0)
        ends = np.append(lower, -np.inf), np.append(upper, np.inf)
        found = self._lp(cost, *self._planes(asked, scale), *ends)
        if found is None or best.value - float(found[0][-1]) * scale <= self._params.tied * scale:
            return none
        none[asked[np.abs(found[0][:-1]) > 0]] = True
        none &= ~self._active
        return none

    def _bracket(self, d: int) -> None:
        """Minimise over one price: intersect the tangents of a bracket, or halve it."""
        params, (low, high) = self._params, self._ends(d)
        step = 0
        while self._left > 0:
            step += 1
            a, b = float(low.prices[d]), float(high.prices[d])
            if b - a <= params.least_bracket * self._top[d]:
                return
            fall, rise = float(low.slope[d]), float(high.slope[d])
            if fall >= 0.0 or rise <= 0.0:
                return
            meet = (high.value - low.value + fall * a - rise * b) / (fall - rise)
            floor = low.value + fall * (meet - a)
            if self._known()[0].value - floor <= SAME_VALUE * abs(floor):
                return
            at = 0.5 * (a + b) if step % params.halved_every == 0 or not a < meet < b else meet
            prices = low.prices.copy()
            prices[d] = at
            cut = self._evaluate(prices)
            if cut.slope[d] < 0.0:
                low = cut
            else:
                high = cut

    def _ends(self, d: int) -> tuple[Cut, Cut]:
        """Return a cut where the bound falls and one where it rises.

        Price 0 is the first if the bound rises from 0 on.
        """
        low = high = self._known()[0]
        params, top = self._params, float(self._top[d])
        if low.slope[d] < 0.0:
            while high.slope[d] < 0.0 and self._left > 0:
                prices = high.prices.copy()
                raised = max(params.doubles * prices[d], params.least_price * top)
                prices[d] = min(params.highest * top, raised)
                low, high = high, self._evaluate(prices)
                if prices[d] >= params.highest * top:
                    break
        elif low.prices[d] > 0.0 and self._left > 0:
            prices = low.prices.copy()
            prices[d] = 0.0
            low = self._evaluate(prices)
        return low, high

    def _boxed(self, radius: float) -> None:
        """Minimise over several prices: cutting planes in a box around the best prices."""
        rows, params = np.flatnonzero(self._active), self._params
        top = self._top[rows]
        raised = self._sign[rows] > 0
        highest = params.highest * top
        least, most = np.where(raised, 0.0, -highest), np.where(raised, highest, 0.0)
        cost = np.append(np.zeros(rows.size), 1.0)
        while self._left > 0 and radius > params.least_radius:
            best = self._known()[0]
            width = radius * np.maximum(np.abs(best.prices[rows]), params.least_width * top)
            lower = np.maximum(least, best.prices[rows] - width)
            upper = np.minimum(most, best.prices[rows] + width)
            scale = abs(best.value) or 1.0
            ends = np.append(lower, -np.inf), np.append(upper, np.inf)
            found = self._lp(cost, *self._planes(rows, scale), *ends)
            if found is None:
                return
            point, floor = found[0][:-1], float(found[0][-1]) * scale
            # The planes' minimum in the box is near: final unless a side of the box holds it back.
            if best.value - floor <= params.close * scale:
                held = ((point <= lower) & (lower > least)) | ((point >= upper) & (upper < most))
                if not held.any():
                    return
                radius *= params.widens
                continue
            prices = best.prices.copy()
            prices[rows] = np.clip(point, lower, upper)
            cut = self._evaluate(prices)
            if cut.value > best.value - params.poor * (best.value - floor):
                radius *= params.shrinks
            elif cut.value < best.value - params.good * (best.value - floor):
                radius *= params.grows

    def _planes(self, rows: Ints, scale: float) -> tuple[Floats, Floats]:
        """Return the cuts as rows ``slope p - height <= ...`` in units of the bound."""
        slope = np.asarray([cut.slope[rows] for cut in self._cuts])
        at = np.asarray([cut.prices[rows] for cut in self._cuts])
        value = np.asarray([cut.value for cut in self._cuts])
        matrix = np.column_stack([slope / scale, -np.ones(len(self._cuts))])
        return matrix, ((slope * at).sum(axis=1) - value) / scale


def _highest(relaxation: Relaxation) -> Floats:
    """Return each row's highest price that an option may pay, shape (D,)."""
    shared, value = relaxation.shared, relaxation.value
    tops = [shared.held.highest(value)]
    for use in shared.others:
        top = np.zeros(use.shape[0])
        for row in np.flatnonzero(np.diff(use.indptr)).tolist():
            mine = slice(int(use.indptr[row]), int(use.indptr[row + 1]))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.abs(value[use.indices[mine]] / use.data[mine])
            top[row] = ratio.max(initial=0.0, where=np.isfinite(ratio))
        tops.append(top)
    return np.concatenate(tops)
