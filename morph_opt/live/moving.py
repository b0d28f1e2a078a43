"""Answer of `moves`, carried out turn by turn in place of a policy's decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from morph_opt.core.domain import Allocation, Assignment, InputError
from morph_opt.live.picture import Picture
from morph_opt.live.posed import Posed
from morph_opt.live.settings import Settings
from morph_opt.moves.following import (
    DONE,
    DROPPED,
    NOW,
    WAITS,
    NamedStep,
    Standing,
    follow,
    read_steps,
)
from morph_opt.round.decide import RoundDecision
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.policies.base import Decision, RoundReport
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts

NAME = "moves"
"""Name in the place of a policy's."""


@dataclass(slots=True)
class Moving:
    """Answer that is being carried out.

    Parameters
    ----------
    question, steps
        Its question and steps.
    give_up_s
        Time without progress after which it ends.
    standings
        Standing of each step at the last turn; empty before the first.
    progress_s
        Instant of the last progress on the scheduler's clock.
    """

    question: str
    steps: tuple[NamedStep, ...]
    give_up_s: float
    standings: tuple[Standing, ...] = ()
    progress_s: float = 0.0
    late: bool = False
    """Whether there was no progress for too long."""

    @classmethod
    def read(cls, file: Path, give_up_s: float) -> Moving:
        """Read an answer; see `morph_opt.moves.following.read_steps`."""
        return cls(*read_steps(file), give_up_s)

    def require_powers(self, powers: frozenset[str]) -> None:
        """Refuse powers that do not suffice for the steps.

        Raises
        ------
        InputError
            Naming the missing power.
        """
        needed = {"placement"} | ({"stops"} if any(step.before for step in self.steps) else set())
        if missing := sorted(needed - powers):
            rule = f"must name {' and '.join(missing)} to carry out these moves"
            raise InputError(rule, field="powers")

    def decide(
        self, picture: Picture, posed: Posed, snapshot: Snapshot, settings: Settings
    ) -> RoundDecision:
        """Return the decision of a turn: the steps that are next, and all else stays."""
        alive = {name for name, seen in picture.jobs.items() if not seen.over}
        now = snapshot.state.held.by_job()
        refused = partial(_refused, now, posed.left_alone, snapshot)
        found = follow(
            self.steps,
            snapshot.state,
            away=alive - {known.job.name for known in snapshot.state.jobs},
            most=settings.stops_per_turn,
            against=refused,
        )
        told = tuple(_told(one, posed.left_alone) for one in found.standings)
        # A job that ended after its step has had it.
        past = self.standings or told
        told = tuple(
            old if (old.word, new.word) == (DONE, DROPPED) else new
            for old, new in zip(past, told, strict=True)
        )
        words = [[one.word for one in each] for each in (told, self.standings)]
        if words[0] != words[1] or not self.standings:
            self.progress_s = picture.time_s
        self.late = picture.time_s - self.progress_s > self.give_up_s
        self.standings = told
        report = RoundReport("followed")
        return RoundDecision(snapshot, NAME, PolicyOptions(), Decision(found.allocation, report))

    @property
    def over(self) -> bool:
        """Whether no step is left, or there was no progress for too long."""
        left = any(one.word in (NOW, WAITS) for one in self.standings)
        return bool(self.standings) and (self.late or not left)

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return bool(self.standings) and all(one.word == DONE for one in self.standings)

    def to_json(self) -> dict[str, Any]:
        """Return question and standings for the audit log."""
        rows = [
            {"kind": one.step.kind, "job": one.step.job, "standing": one.word}
            | ({"why": one.why} if one.why else {})
            for one in self.standings
        ]
        return {"question": self.question, "steps": rows}

    def lines(self) -> Iterator[str]:
        """Yield a summary, and a line for each step that is not done."""
        counted = Counter(one.word for one in self.standings)
        late = f", no progress for {self.give_up_s:g} s" if self.late and not self.done else ""
        yield f"{self.question}: {counted[DONE]} of {len(self.steps)} steps are done{late}"
        for at, one in enumerate(self.standings, 1):
            if one.word != DONE:
                how = {NOW: "is under way", WAITS: "waits", DROPPED: "is dropped"}[one.word]
                why = f": {one.why}" if one.why else ""
                yield f"step {at}, {one.step.kind} {one.step.job}, {how}{why}"


def _told(one: Standing, left_alone: Mapping[str, str]) -> Standing:
    """Return a standing with the reason for which a job is left alone, if that is known."""
    why = left_alone.get(one.step.job, "")
    return Standing(one.step, one.word, why) if why and one.word == WAITS else one


def _refused(
    now: Mapping[str, Assignment],
    left_alone: Mapping[str, str],
    snapshot: Snapshot,
    wanted: Mapping[str, Assignment],
) -> str:
    """Return why a step may not be carried out: limits, rules or speeds; "" if it may."""
    for job, held in now.items():
        if wanted.get(job) != held and job in left_alone:
            return left_alone[job]
    state, rules = snapshot.state, snapshot.rules or OperatorRules()
    before = audit(state, Allocation(tuple(now.values())), rules)
    broken = [
        breach
        for breach in audit(state, Allocation(tuple(wanted.values())), rules)
        if breach not in before
    ]
    if broken:
        return str(broken[0])
    checks = BeliefChecks(snapshot.speeds).on(state.cluster)
    wrong = checks.check(wanted.values(), StateFacts.of(state))
    return str(wrong[0]) if wrong else ""
