"""Search for the smallest fleet that keeps an SLO: explore, then confirm on fresh workloads.

Bounds come first: a size below one that they refuse is refused, too. Then the size is doubled to
the first pass and bisected on exploration workloads. More nodes are not always better, so N - 1 has
to fail and N + 1 and N + 2 have to pass; otherwise the answer states it and takes the smallest N
above which all tested sizes pass. This size is tested on fresh workloads, and while it is
confirmed, the next smaller one on the same workloads; if it is not confirmed itself, larger sizes
are tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.plan.evaluate import EARLY, Evaluator, Verdict
from morph_opt.plan.parameters import SEARCH
from morph_opt.plan.sequential import error_of, fixed
from morph_opt.plan.statement import Confirmations, Target, refuting
from morph_opt.plan.stats import mean_interval, needed, share_interval
from morph_opt.replay.scenario import Scenario

At = Callable[[int, int], Scenario]
"""Function that makes the scenario of a size and a seed."""


def counted(size: int, one: str = "", many: str = "") -> str:
    """Format a number of nodes with the verb for one or for many.

    >>> counted(1, "is", "are"), counted(2, "is", "are"), counted(3)
    ('1 node is', '2 nodes are', '3 nodes')
    """
    return (f"{size} node {one}" if size == 1 else f"{size} nodes {many}").rstrip()


@dataclass
class Trial:
    """Verdicts at one size and stage.

    Parameters
    ----------
    size, stage
        Nodes, and ``explore`` or ``confirm 1`` and so on.
    verdicts
        Verdicts of the workloads, in order.
    passed
        Whether it counts as passed at this stage.
    asked
        Workloads of the stage; fewer verdicts mean that the rest could not change it.
    open
        Whether workloads ran out before a confirmation was decided.
    """

    size: int
    stage: str
    verdicts: list[Verdict]
    passed: bool
    asked: int
    open: bool = False

    @property
    def count(self) -> int:
        """Number of workloads that pass."""
        return sum(verdict.passed for verdict in self.verdicts)

    def row(self, confidence: float) -> list[str | int | float | None]:
        """Return the trial's row of the evidence table.

        Mean and interval cover the replayed workloads. They are unknown where a replay was ended
        early, because the others alone would be too low. Intervals hold for a fixed number of
        workloads; if a stage ended early by its outcome, they are for orientation.
        """
        of = len(self.verdicts)
        low, high = share_interval(self.count, of, confidence) if of else (0.0, 1.0)
        by = Counter(verdict.decided_by for verdict in self.verdicts)
        decided = " ".join(f"{name}:{by[name]}" for name in sorted(by)) if by else ""
        word = "pass" if self.passed else "fail"
        known = [] if by[EARLY] else [v.value for v in self.verdicts if v.decided_by == "replay"]
        mean = sum(known) / len(known) if known else math.nan
        lower, upper = mean_interval(known, confidence)
        lower = math.nan if math.isnan(lower) else max(0.0, lower)  # no metric is below 0
        return [self.size, self.stage, of, self.count, low, high, word, decided, mean, lower, upper]


HEADER = (
    "nodes", "stage", "workloads", "passed", "lower", "upper", "verdict", "decided_by",
    "mean", "mean_lower", "mean_upper",
)  # fmt: skip


DECIDED = HEADER.index("decided_by")


@dataclass
class Search:
    """Search over numbers of nodes.

    Parameters
    ----------
    judge, target, at
        Evaluator of scenarios, statement to confirm, and function that makes the scenario of a size
        and a seed.
    exploration, fresh
        Seeds to explore with, and those that confirmations take from, in order.
    most
        Largest size.
    """

    judge: Evaluator
    target: Target
    at: At
    exploration: Sequence[int]
    fresh: Sequence[int]
    most: int
    tested: list[Trial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._confirmations = Confirmations(self.judge, self.target, self.fresh)

    # --- one size ---------------------------------------------------------------------------------

    def explore(self, size: int, *, quick: bool = False) -> bool:
        """Return whether a size passes on the exploration workloads.

        With ``quick``, a first batch that passes altogether is enough: the search only passes
        through this size.
        """
        known = next((t for t in self.tested if t.size == size and t.stage == "explore"), None)
        if known is not None and (quick or self._sure(known.verdicts)):
            return known.passed
        self.judge.stage = "explore"
        seeds, slo = self.exploration, self.target.slo
        scenarios = [self.at(size, seed) for seed in seeds]
        refused = [self.judge.refused(scenario, slo) for scenario in scenarios]
        verdicts = [verdict for verdict in refused if verdict is not None]
        if not self._sure(verdicts):  # else no replay can change it
            verdicts = []
            for begin in range(0, len(scenarios), SEARCH.batch):
                verdicts += self.judge.verdicts(scenarios[begin : begin + SEARCH.batch], slo)
                if self._sure(verdicts) or (quick and all(v.passed for v in verdicts)):
                    break
        self.judge.save()
        failed = sum(not verdict.passed for verdict in verdicts)
        passed = failed <= self.target.may_fail(len(seeds))
        if known is not None:
            self.tested.remove(known)
        self.tested.append(Trial(size, "explore", verdicts, passed, len(seeds)))
        return passed

    def _sure(self, verdicts: Sequence[Verdict]) -> bool:
        """Return whether further workloads of the exploration cannot change its outcome."""
        failed = sum(not verdict.passed for verdict in verdicts)
        of = len(self.exploration)
        allowed = self.target.may_fail(of)
        return failed > allowed or len(verdicts) - failed >= of - allowed

    def refused_below(self) -> int:
        """Return the smallest size that is not refused by bounds.

        Raises
        ------
        InputError
            If bounds refuse the largest, and so every one.
        """
        if self._refused(self.most):
            raise self._nothing()
        low, high = 1, self.most
        while low < high:
            middle = (low + high) // 2
            if self._refused(middle):
                low = middle + 1
            else:
                high = middle
        return low

    def _refused(self, size: int) -> bool:
        seeds = self.exploration
        proven = refuting(self.judge, self.target, partial(self.at, size), seeds, expensive=False)
        if proven:
            self.tested.append(Trial(size, "explore", proven, False, len(seeds)))
        return bool(proven)

    def confirm(self, size: int) -> bool:
        """Test a size on fresh workloads."""
        self.judge.stage = "confirm"
        found = self._confirmations.test(partial(self.at, size), counted(size))
        asked = len(found.verdicts)
        trial = Trial(size, found.stage, found.verdicts, found.holds, asked, found.open)
        self.tested.append(trial)
        return found.holds

    # --- the search -------------------------------------------------------------------------------

    def run(self) -> int:
        """Return the smallest size that is confirmed.

        Raises
        ------
        InputError
            If none up to the largest passes, or fresh workloads are too few.
        """
        size = self._explored(self.refused_below())
        while not self.confirm(size):
            size = self._next_above(size)
        while size > 1 and self.confirmation(size - 1) is None and self.confirm(size - 1):
            size -= 1
        return size

    def confirmation(self, size: int) -> Trial | None:
        """Return the confirmation that tested a size; None if none did."""
        mine = [t for t in self.tested if t.size == size and t.stage != "explore"]
        return mine[-1] if mine else None

    def _nothing(self) -> InputError:
        best = max((t for t in self.tested), key=lambda t: t.size, default=None)
        seen = (
            ""
            if best is None
            else (
                f"; at {best.size} {best.count} of {len(best.verdicts)} pass, decided by "
                f"{best.row(0.95)[DECIDED]}"
            )
        )
        rule = f"no size up to {self.most} reaches {self.target}{seen}"
        return InputError(rule, field="slo")

    def _explored(self, low: int) -> int:
        size = low
        while not self.explore(size, quick=True):
            if size >= self.most:
                raise self._nothing()
            size = min(2 * size, self.most)
        bad = max((t.size for t in self.tested if t.size < size and not t.passed), default=0)
        while size - bad > 1:
            middle = (bad + size) // 2
            if self.explore(middle, quick=True):
                size = middle
            else:
                bad = middle
        return self._monotone(size)

    def _monotone(self, size: int) -> int:
        """Test the neighbours; return the smallest size from which all tested sizes pass."""
        while True:
            if not self.explore(size):
                size = self._next_above(size)
            if size > 1 and self.explore(size - 1):
                self.notes.append(f"not monotone at {size - 1}: it passes after all")
                size -= 1
                continue
            above = [n for n in range(size + 1, size + SEARCH.larger + 1) if n <= self.most]
            worse = [n for n in above if not self.explore(n, quick=True)]
            if not worse:
                return size
            self.notes.append(
                f"not monotone at {', '.join(map(str, worse))}: {size} nodes pass, more do not"
            )
            size = self._next_above(worse[-1])

    def _next_above(self, size: int) -> int:
        """Return the next larger size that passes an exploration."""
        for larger in range(size + 1, self.most + 1):
            if self.explore(larger):
                return larger
        raise self._nothing()

    def text_of(self, size: int) -> str:
        """Return why a size is not the answer; "" if it is, or was not tested."""
        trial = self.confirmation(size)
        if trial is None:
            return self._explored_text(size)
        if trial.passed:
            return ""
        of, target = len(trial.verdicts), self.target
        verb = "left open" if trial.open else "not confirmed"
        text = f"{counted(size, 'is', 'are')} {verb}: {trial.count} of {of} fresh workloads pass"
        seen = trial.count / of
        if seen <= target.share:
            return f"{text}, and more workloads would hardly change it"
        enough = (
            fixed(target.share, seen, error_of(target.confidence, 1))
            if seen < 1.0
            else (needed(target.share, target.confidence))
        )
        return (
            f"{text}; if that is their share, about {enough:,} fresh ones would show it (those "
            f"of {typed('--indifference')} {max(1e-4, seen - target.share):.1g}), instead of "
            "another node"
        )

    def _explored_text(self, size: int) -> str:
        """Return why a size was not tested on fresh workloads."""
        trial = next((t for t in self.tested if t.size == size and not t.passed), None)
        if trial is None:
            return ""
        proofs = {v.decided_by for v in trial.verdicts if not v.passed}
        if proofs == {"impossible"}:
            return f"{counted(size, 'does', 'do')} not do: a job of the workloads cannot run there"
        if proofs and all(one.startswith("bound ") for one in proofs):
            return f"{counted(size, 'does', 'do')} not do: no schedule reaches it there, by a bound"
        few = f"{trial.count} of {len(trial.verdicts)} workloads pass"
        return f"{counted(size, 'does', 'do')} not do: {few}, and the rest could not change it"

    def rows(self) -> list[list[str | int | float | None]]:
        """Return the rows of the evidence, by size and stage."""
        once = {(t.size, t.stage): t for t in self.tested}
        ordered = sorted(once.values(), key=lambda t: (t.size, t.stage != "explore", t.stage))
        return [t.row(self.target.confidence) for t in ordered]
