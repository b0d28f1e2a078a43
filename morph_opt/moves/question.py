"""Question about moves: its goal, and the changes that are allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from morph_opt.core.domain import InputError
from morph_opt.core.domain._validate import require_finite, require_int
from morph_opt.core.domain.errors import some
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.scheduling.decision.rules.patterns import require_patterns

MOST_PLACES = 100_000
"""Largest number of places that can be asked for; more is a typing error."""
MOST_PLACE_GPUS = 1 << 20
"""Largest number of GPUs of a place."""

NODES, DOMAINS, LEAVES, SLOTS = "node", "nvlink domain", "leaf", "slot"
_INSIDE = {"node": NODES, "nvlink domain": DOMAINS, "leaf": LEAVES}
_WHOLE = re.compile(
    r"(?P<count>\d+)\s*(?P<what>nodes?|nvlink domains?|leaf|leaves)(\s+of\s+(?P<type>\S.*))?",
    re.IGNORECASE,
)
_SLOT = re.compile(
    r"(?P<count>\d+)\s*x\s*(?P<gpus>\d+)\s*gpus?(\s+of\s+(?P<type>\S+))?"
    r"(\s+in\s+one\s+(?P<inside>node|nvlink domain|leaf))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Freed:
    """Places that are to be free.

    Parameters
    ----------
    count
        Number of places.
    what
        ``"node"``, ``"nvlink domain"`` or ``"leaf"``, which are to be empty, or ``"slot"``.
    gpus
        GPUs of a slot.
    gpu_type
        GPU type or node type, also its beginning, in any case; None for any.
    inside
        Part of the network that contains a slot: ``"node"``, ``"nvlink domain"`` or ``"leaf"``;
        None for anything.
    """

    count: int
    what: str
    gpus: int = 0
    gpu_type: str | None = None
    inside: str | None = None

    def __post_init__(self) -> None:
        require_int("free", self.count, at_least=1, at_most=MOST_PLACES)
        if self.what == SLOTS:
            require_int("free", self.gpus, at_least=1, at_most=MOST_PLACE_GPUS)

    @classmethod
    def parse(cls, text: str) -> Freed:
        """Return the places of a text.

        >>> Freed.parse("4 nodes of a100").what, Freed.parse("2 x 64 GPUs in one leaf").inside
        ('node', 'leaf')

        Raises
        ------
        InputError
            If it is of no known form, or a number is out of range.
        """
        words = " ".join(text.split())
        found = _WHOLE.fullmatch(words)
        if found is not None:
            what = found["what"].lower()
            what = LEAVES if what == "leaves" else what.removesuffix("s")
            return cls(int(found["count"]), what, gpu_type=found["type"])
        found = _SLOT.fullmatch(words)
        if found is None:
            known = '"4 nodes of a100", "1 nvlink domain", "1 leaf", "2 x 64 GPUs"'
            rule = f'must look like {known} or "2 x 8 GPUs of a100 in one node", got {text[:80]!r}'
            raise InputError(rule, field="free")
        inside = found["inside"]
        return cls(
            int(found["count"]),
            SLOTS,
            int(found["gpus"]),
            found["type"],
            None if inside is None else _INSIDE[inside.lower()],
        )

    @property
    def one(self) -> str:
        """Words for one of the places."""
        inside = f" in one {self.inside}" if self.inside else ""
        of = f" of {self.gpu_type}" if self.gpu_type else ""
        gpus = "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        return f"{gpus}{of}{inside}" if self.what == SLOTS else f"{self.what}{of}"

    @property
    def words(self) -> str:
        """Words for all of them."""
        if self.what == SLOTS:
            return f"{self.count} x {self.one}"
        many = {LEAVES: "leaves"}.get(self.what, f"{self.what}s")
        of = f" of {self.gpu_type}" if self.gpu_type else ""
        return f"{self.count} {self.what if self.count == 1 else many}{of}"


@dataclass(frozen=True, slots=True)
class Question:
    """Goal of the moves, and the changes that are allowed.

    Parameters
    ----------
    start
        Job that is to start now.
    free
        Places that are to be free.
    drain
        Names of nodes that are to be empty.
    slots
        GPUs of gangs whose greatest number is asked for, each size by itself.
    until_s
        Seconds from now: a job on a node of ``drain`` that completes by then is left alone.
    most_moves
        Largest number of running jobs that are moved or stopped; None for any.
    exempt
        Patterns of jobs that are neither moved nor stopped.
    may_stop
        Patterns of jobs that may be stopped.
    checkpoint_s
        Seconds between two checkpoints of a job: a move loses the progress since the last one. 0:
        a job that is moved keeps its progress.

    Raises
    ------
    InputError
        If not exactly one question is asked, or a value is out of range.
    """

    start: str | None = None
    free: Freed | None = None
    drain: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    until_s: float = 0.0
    most_moves: int | None = None
    exempt: tuple[str, ...] = ()
    may_stop: tuple[str, ...] = ()
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        asked = [self.start is not None, self.free is not None, bool(self.drain), bool(self.slots)]
        if sum(asked) != 1:
            rule = "give one of start, free, drain and slots"
            raise InputError(rule, field="start")
        require_finite("until_s", self.until_s, at_least=0.0)
        require_finite("checkpoint_s", self.checkpoint_s, at_least=0.0)
        if self.most_moves is not None:
            require_int("most_moves", self.most_moves, at_least=0)
        for size in self.slots:
            require_int("slots", size, at_least=1, at_most=MOST_PLACE_GPUS)
        require_patterns("exempt", self.exempt, empty=True)
        require_patterns("may_stop", self.may_stop, empty=True)

    @property
    def words(self) -> str:
        """Words for the goal."""
        if self.start is not None:
            return f"start {self.start}"
        if self.free is not None:
            return f"free {self.free.words}"
        if self.drain:
            return f"empty {some(self.drain)}"
        return f"slots of {', '.join(map(str, self.slots))} GPUs"


def require_named(what: str, names: tuple[str, ...], known: list[str], field: str) -> None:
    """Refuse names that are not known, with a suggestion."""
    for name in names:
        if name not in known:
            raise InputError(f"there is no {what} {name!r}{did_you_mean(name, known)}", field=field)
