"""Statement to confirm (SLO, share of workloads, confidence) and its test on fresh workloads.

Every test takes the same fresh workloads in the same order, so that sizes are compared on what they
have in common, and as many of them as it needs (`morph_opt.plan.sequential`). Which things are
tested, and in which order, is fixed before: by the exploration, which saw none of these workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from morph_opt.core.domain import InputError
from morph_opt.core.domain._validate import require_int
from morph_opt.core.domain.arguments import require_type
from morph_opt.plan.evaluate import Evaluator, Verdict
from morph_opt.plan.parameters import SEARCH
from morph_opt.plan.sequential import Design, design, error_of, usual_margin
from morph_opt.plan.stats import needed, require_shares
from morph_opt.plan.workloads import distinct
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.slo import Slo


@dataclass(frozen=True, slots=True)
class Target:
    """Statement to confirm: an SLO, a share of workloads and a confidence.

    Parameters
    ----------
    slo
        SLO of each run.
    share, confidence
        "The SLO holds in at least this share of workloads, with this confidence."
    indifference
        Margin above the share from which a size is found: in nine tests of ten it is then
        confirmed. None: `morph_opt.plan.sequential.usual_margin`.

    Raises
    ------
    InputError
        If a share is not between 0 and 1; the share of workloads is named ``of_workloads``.
    """

    slo: Slo
    share: float = 0.9
    confidence: float = 0.95
    indifference: float | None = None

    def __post_init__(self) -> None:
        require_shares(of_workloads=self.share, confidence=self.confidence)

    @classmethod
    def of(
        cls, slo: Slo | str, share: float, confidence: float, indifference: float | None = None
    ) -> Target:
        """Make a target from an SLO or its text."""
        require_type("slo", slo, Slo, str)
        parsed = slo if isinstance(slo, Slo) else Slo.parse(slo)
        return cls(parsed, share, confidence, indifference)

    @property
    def margin(self) -> float:
        """Margin of indifference: the given one, or the default."""
        return usual_margin(self.share) if self.indifference is None else self.indifference

    def design(self, level: int) -> Design:
        """Return the test at the k-th level of error."""
        return design(self.share, self.margin, error_of(self.confidence, level))

    def __str__(self) -> str:
        share, sure = f"{100 * self.share:g} %", f"{100 * self.confidence:g} %"
        return f"{self.slo} in at least {share} of workloads (confidence {sure})"

    def may_fail(self, of: int) -> int:
        """Return how many workloads of an exploration may fail."""
        return int((1.0 - self.share) * of + 1e-9)

    def workloads(
        self, seeds: Sequence[int] | None, exploration: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Split seeds into those to explore with and fresh ones.

        Without seeds there are as many as `SearchParams.attempts` levels of error can need.

        Raises
        ------
        InputError
            If a seed is duplicated, they are fewer than the statement needs, or the indifference
            is too wide or needs too many.
        """
        require_int("exploration", exploration, at_least=1)
        if seeds is None:
            seeds = range(exploration + self.design(SEARCH.attempts).most)
        self.design(1)
        every = distinct(seeds)
        least = needed(self.share, self.confidence)
        if len(every) < exploration + least:
            rule = f"{len(every)} workloads are fewer than the statement needs"
            raise InputError(
                f"{rule}: {exploration} to explore and {least} fresh ones to confirm, a seed each",
                field="workloads",
            )
        return every[:exploration], every[exploration:]


def refuting(
    judge: Evaluator,
    target: Target,
    at: Callable[[int], Scenario],
    seeds: Sequence[int],
    *,
    expensive: bool = True,
) -> list[Verdict]:
    """Return verdicts of bounds by which too many workloads fail; empty if bounds show too few."""
    allowed = target.may_fail(len(seeds))
    proven: list[Verdict] = []
    for place, seed in enumerate(seeds):
        verdict = judge.refused(at(seed), target.slo, expensive=expensive)
        if verdict is not None:
            proven.append(verdict)
        if len(proven) > allowed:
            return proven
        if len(proven) + len(seeds) - place - 1 <= allowed:
            break
    return []


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Outcome of a test on fresh workloads.

    Parameters
    ----------
    level
        Level of its error.
    verdicts
        Verdicts of the workloads that it took, in order.
    holds
        Whether the statement is confirmed.
    open
        Whether workloads ran out before it was decided.
    """

    level: int
    verdicts: list[Verdict]
    holds: bool
    open: bool = False

    @property
    def stage(self) -> str:
        """Name of the stage in a table of evidence."""
        return f"confirm {self.level}"


class Confirmations:
    """Tests of a statement, all on the same fresh workloads.

    Parameters
    ----------
    judge, target
        Evaluator of scenarios, and statement to confirm.
    fresh
        Seeds that nothing has seen, taken in order.
    """

    def __init__(self, judge: Evaluator, target: Target, fresh: Sequence[int]) -> None:
        self._judge, self._target, self._fresh = judge, target, tuple(fresh)
        self.level = 1

    def test(self, at: Callable[[int], Scenario], what: str) -> Confirmation:
        """Test the scenarios that ``at`` makes, one per seed, at the present level of error.

        While tests confirm, the following ones have the same error: in a sequence of tests that is
        fixed before and ends at the first one that does not confirm, only one test can err first
        (Maurer, Hothorn and Lehmacher 1995). A test that does not confirm ends the sequence, and
        the next level begins another.

        Raises
        ------
        InputError
            If there are too few fresh workloads to confirm anything at this level.
        """
        level, plan = self.level, self._target.design(self.level)
        if len(self._fresh) < plan.clean:
            raise InputError(
                f"too few fresh workloads for confirmation {level} of {what}: it needs "
                f"{plan.clean} at least, there are {len(self._fresh)}",
                field="workloads",
            )
        verdicts: list[Verdict] = []
        found = None
        while found is None and len(verdicts) < len(self._fresh):
            failed = sum(not verdict.passed for verdict in verdicts)
            begin = len(verdicts)
            seeds = self._fresh[begin : begin + plan.before_next(begin, failed)]
            scenarios = [at(seed) for seed in seeds]
            verdicts += self._judge.verdicts(scenarios, self._target.slo)
            found = plan.decided([verdict.passed for verdict in verdicts])
        holds = found is not None and found[1]
        self.level += not holds
        return Confirmation(level, verdicts, holds, found is None)
