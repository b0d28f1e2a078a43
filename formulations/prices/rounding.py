r"""Rounding of prices to a choice: a master program mixes the cuts, then excess is repaired.

Every cut of the search is a choice of every job. A linear program finds the convex combination of
cuts with the largest value within the limits (Dantzig, Wolfe 1960); it has at most one cut more
than rows. Each job then follows one of these cuts, in the shares of the combination: jobs are
sorted by their use and take their cuts by a golden-ratio sequence, so every stretch of that order
has nearly the right shares. The remaining excess is released where that loses the least value per
unit.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import at_choice, golden_turns
from formulations.parameters import LP_ROUNDING, LpRoundingParams
from formulations.prices.choose import Chosen, LinearProgram, scipy_lp
from formulations.prices.relaxation import Relaxation
from formulations.tolerances import FEASIBILITY


class Rounding:
    """Choices within the shared rows, at prices.

    Parameters
    ----------
    relaxation, chosen
        The rows and options, and the prices with their cuts.
    lp
        Solver of the master program.
    params
        Limits and weights.

    Attributes
    ----------
    reduced
        Reduced value (value less price) of each option, shape (O,).
    limit
        Upper limit of each row less the use of the auxiliary columns in the master's answer,
        shape (D,).
    """

    def __init__(
        self,
        relaxation: Relaxation,
        chosen: Chosen,
        lp: LinearProgram = scipy_lp,
        params: LpRoundingParams = LP_ROUNDING,
    ) -> None:
        self.relaxation = relaxation
        self._params = params
        self._chosen = chosen
        self.reduced = relaxation.reduced(chosen.prices)
        words = [word for word, _, _ in relaxation.shared.label]
        self._slots = np.asarray([word == "slot" for word in words], dtype=bool)
        self._share, self._aux = self._master(lp)
        self.limit: Floats = relaxation.shared.upper - relaxation.shared.aux_use @ self._aux
        # Placing respects slots by itself.
        self.limit[self._slots] = np.inf

    def _master(self, lp: LinearProgram) -> tuple[Floats, Floats]:
        """Return the share of each cut and the auxiliary columns; the best cut alone on failure."""
        shared, cuts = self.relaxation.shared, self._chosen.cuts
        # Few cuts may not offer the slots that they demand: missing slots are bought at a price.
        short = np.flatnonzero(self._slots)
        lacking = np.zeros((shared.count, short.size))
        lacking[short, np.arange(short.size)] = -1.0
        aux_use = np.hstack([shared.aux_use, lacking])
        aux_upper = np.append(shared.aux_upper, np.full(short.size, np.inf))
        count, aux = len(cuts), aux_upper.size
        best = np.zeros(count)
        best[int(np.argmin([cut.value for cut in cuts]))] = 1.0
        worth = np.asarray([self.worth(cut.choice) for cut in cuts])
        usage = np.asarray([cut.usage for cut in cuts]).T
        high, low = np.isfinite(shared.upper), np.isfinite(shared.lower)
        matrix = np.vstack(
            [
                np.hstack([usage[high], aux_use[high]]),
                -np.hstack([usage[low], aux_use[low]]),
            ]
        )
        limit = np.concatenate([shared.upper[high], -shared.lower[low]])
        size = np.maximum(1.0, np.abs(limit))
        whole = np.append(np.ones(count), np.zeros(aux))
        scale = float(np.abs(worth).max(initial=0.0)) or 1.0
        costs = self._params.short * self._chosen.prices[short]
        costs = costs + self._params.least_short * scale
        found = lp(
            np.concatenate([-worth / scale, np.zeros(shared.aux_upper.size), costs / scale]),
            np.vstack([matrix / size[:, None], whole, -whole]),
            np.concatenate([limit / size, [1.0, -1.0]]),
            np.zeros(count + aux),
            np.append(np.ones(count), aux_upper),
        )
        if found is None:
            return best, np.where(np.isfinite(shared.aux_upper), shared.aux_upper, 0.0)
        taken = found[0][count : count + shared.aux_upper.size]
        share = found[0][:count]
        return np.where(share > self._params.least_share, share, 0.0), taken

    def worth(self, choice: Ints) -> float:
        """Return the value of a choice."""
        return float(self.relaxation.value[choice[choice >= 0]].sum())

    def rounded(self) -> Ints:
        """Return the option of each job, -1 for none, shape (J,), from the cuts by their shares."""
        active = np.flatnonzero(self._share)
        cuts = [self._chosen.cuts[at] for at in active.tolist()]
        options = np.asarray([cut.choice for cut in cuts])
        choice: Ints = options[0].copy()
        differing = np.flatnonzero((options != options[0]).any(axis=0))
        if not differing.size:
            return choice
        # Sort jobs so that neighbours use about the same of every row under every cut. The key of
        # a cut adds up the uses of rows; weights far above any number of GPUs keep row d from
        # cancelling against row 0, and the factor d + 1 tells rows apart. Any order is valid: it
        # decides how close the shares come to the limits, which `repaired` restores.
        keys = []
        for own in options[:, differing]:
            use = self.relaxation.options_use(0, own)
            for row in range(1, min(self.relaxation.shared.count, self._params.keys)):
                use = use + (row + 1) * self._params.key_weight * self.relaxation.options_use(
                    row, own
                )
            keys.append(use)
        order = differing[np.lexsort(keys)]
        turn = golden_turns(order.size)
        group = self.relaxation.group
        if group is not None:
            # Jobs of a node follow one cut together: each cut has one subset of them that stays.
            grouped = np.flatnonzero(group[order] >= 0)
            _, first, of = np.unique(group[order[grouped]], return_index=True, return_inverse=True)
            turn[grouped] = turn[grouped[first]][of.reshape(-1)]
        share = np.cumsum(self._share[active])
        taken = np.minimum(np.searchsorted(share, turn * share[-1], side="right"), len(cuts) - 1)
        choice[order] = options[taken, order]
        return choice

    def repaired(self, choice: Ints) -> Ints:
        """Return the choice after removing excess over limits at the least loss per unit.

        Ends after ``passes`` rounds over the rows. A job makes at most one move per row and round,
        so a job that has to give up more in a row waits for the next round. Rows that only jobs
        without smaller options use stay in excess: placing then drops jobs.
        """
        choice = choice.copy()
        for _ in range(self._params.passes):
            over = self.relaxation.usage(choice) - self.limit
            worst = over > FEASIBILITY * np.maximum(1.0, np.abs(self.limit))
            worst &= np.isfinite(self.limit)
            if not worst.any():
                break
            for row in np.flatnonzero(worst).tolist():
                self._repair(choice, row)
        return choice

    def _repair(self, choice: Ints, row: int) -> None:
        """Move jobs, in place, to options that use less of a row and no more of any other.

        Invariant: no other row with an upper limit rises, since an option that uses more of one is
        not offered, and a job that quits uses nothing (where no entry of a rule is negative). So a
        repaired row stays repaired.

        The moves with the least loss per unit are made, one per job, until the excess is released
        or no move is left. Example: 4 GPUs, and three jobs on 2 each. Going down to 1 GPU costs
        job 0 a loss of 3 for 1 GPU, quitting costs job 1 a loss of 4 for 2 GPUs: 2 per GPU is
        less, so job 1 quits and nothing else moves.
        """
        relaxation = self.relaxation
        excess = float(relaxation.usage(choice)[row] - self.limit[row])
        if excess <= FEASIBILITY:
            return
        whole = relaxation.options_use(row, choice)
        if relaxation.shared.label[row][0] == "rule":
            option, owner = relaxation.options_by_job()
        else:
            # Only jobs that use the row can release any of it: use is never negative but in rules.
            option, owner = relaxation.options_of(whole > FEASIBILITY)
        released = whole[owner] - relaxation.options_use(row, option)
        fewer = released > FEASIBILITY
        for other in np.flatnonzero(np.isfinite(self.limit)).tolist():
            if other != row:
                option, owner, released = option[fewer], owner[fewer], released[fewer]
                now = relaxation.options_use(other, choice)
                fewer = relaxation.options_use(other, option) <= now[owner] + FEASIBILITY
        kept = at_choice(self.reduced, choice)
        jobs = np.arange(choice.size, dtype=np.int64)
        quits = (choice >= 0) & relaxation.idle & (whole > FEASIBILITY)
        loss = np.concatenate([(kept[owner] - self.reduced[option])[fewer], kept[quits]])
        gain = np.concatenate([released[fewer], whole[quits]])
        to = np.concatenate([option[fewer], np.full(int(quits.sum()), -1)])
        job_of = np.concatenate([owner[fewer], jobs[quits]])
        ratio = loss / gain
        # Keep each job's move with the least loss per unit: only these have to be sorted.
        best = np.full(choice.size, np.inf)
        np.minimum.at(best, job_of, ratio)
        least = np.flatnonzero(ratio == best[job_of])
        order = least[np.lexsort([gain[least], ratio[least]])]
        _, first = np.unique(job_of[order], return_index=True)
        order = order[np.sort(first)]
        enough = int(np.searchsorted(np.cumsum(gain[order]), excess - FEASIBILITY)) + 1
        picked = order[:enough]
        choice[job_of[picked]] = to[picked]
