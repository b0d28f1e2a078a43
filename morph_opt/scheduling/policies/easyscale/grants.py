"""EasyScale's greedy grants: first proposals of new jobs, then more GPUs by score.

A running job requests more of each type once; the highest score goes first, one grant a job; GPUs
are never taken back. Rules: ``docs/gandiva-easyscale.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morph_opt.scheduling.policies.published import EASYSCALE


@dataclass(frozen=True, slots=True)
class Proposal:
    """GPUs by type with the assignment of workers to them.

    Parameters
    ----------
    gpus, workers
        GPUs and workers per GPU, by type; a map may name workers on a type without GPUs.
    waste, speed
        Share of the GPUs' speed that it leaves unused, and its own; in the published code in units
        of the last type's.
    best_speed
        Speed of the fastest map that is enumerated for this placement.
    """

    gpus: tuple[int, ...]
    workers: tuple[int, ...]
    waste: float
    speed: float
    best_speed: float

    @property
    def total(self) -> int:
        """Number of GPUs."""
        return sum(self.gpus)


@dataclass(frozen=True, slots=True)
class Grant:
    """Holding of a job: GPUs (some may be idle), workers by type, and the speed promised for it."""

    gpus: tuple[int, ...]
    workers: tuple[int, ...]
    speed: float

    @property
    def total(self) -> int:
        """Number of GPUs."""
        return sum(self.gpus)

    @classmethod
    def of(cls, proposal: Proposal) -> Grant:
        """Return the grant of all that a proposal asks for."""
        return cls(proposal.gpus, proposal.workers, proposal.speed)


@dataclass(slots=True)
class Holder:
    """Job with its proposals and its grant.

    Parameters
    ----------
    proposals
        Proposals in the order of the rule; the last is the first grant.
    now
        Present grant; None while the job waits.
    """

    proposals: list[Proposal]
    now: Grant | None = None


def grant_greedily(
    active: Sequence[Holder],
    free: list[int],
    *,
    keeps_idle: bool = False,
    rounded_ties: bool = False,
) -> None:
    """Start new jobs, then grant GPUs by score; running jobs keep what they have.

    Parameters
    ----------
    active
        Jobs in order of arrival; their grants are changed in place.
    free
        GPUs by type, less what is held and granted afterwards.
    keeps_idle
        Whether a grant keeps GPUs of other types that its map leaves idle, as published.
    rounded_ties
        Whether scores are compared after rounding, so that rounding errors decide nothing.
    """
    asks = []
    for one in active:
        if one.now is None:
            continue
        free[:] = [a - b for a, b in zip(free, one.now.gpus, strict=True)]
        asks += [(ask, one) for ask in _asks(one, keeps_idle, rounded_ties)]
    served: list[Holder] = []
    for one in active:
        if one.now is None and one.proposals:
            first = one.proposals[-1]
            if all(n <= room for n, room in zip(first.gpus, free, strict=True)):
                free[:] = [a - b for a, b in zip(free, first.gpus, strict=True)]
                one.now = Grant.of(first)
                served.append(one)
    asks.sort(key=lambda ask: -ask[0].score)
    for ask, one in asks:
        if ask.more <= free[ask.kind] and not any(one is other for other in served):
            free[ask.kind] -= ask.more
            one.now = ask.grant
            served.append(one)


@dataclass(frozen=True, slots=True)
class Ask:
    """Request for more GPUs of one type."""

    kind: int
    more: int
    score: float
    grant: Grant


def _asks(one: Holder, keeps_idle: bool, rounded_ties: bool) -> list[Ask]:
    """Return the best request of each type."""
    now = one.now
    assert now is not None
    best: dict[int, Ask] = {}
    for proposal in sorted(one.proposals, key=lambda p: -p.speed):
        slow = proposal.speed < now.speed or proposal.waste > EASYSCALE.most_waste
        if slow or proposal.total > EASYSCALE.most_growth * now.total:
            continue
        grown = [k for k, n in enumerate(proposal.gpus) if n > now.gpus[k]]
        if len(grown) != 1:
            continue
        kind = grown[0]
        more = proposal.gpus[kind] - now.gpus[kind]
        if now.total + more > EASYSCALE.most_growth * now.total:
            continue
        score = ((proposal.speed / now.speed) - 1) / more + 1
        score = round(score, EASYSCALE.digits) if rounded_ties else score
        if kind not in best or score > best[kind].score:
            # What it has of other types it keeps, be it idle under the new map.
            gpus = tuple(proposal.gpus[k] if k == kind else n for k, n in enumerate(now.gpus))
            gpus = gpus if keeps_idle else proposal.gpus
            best[kind] = Ask(kind, more, score, Grant(gpus, proposal.workers, proposal.speed))
    return [best[kind] for kind in sorted(best)]
