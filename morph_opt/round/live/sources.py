"""Readers of the answers of Slurm and Kueue, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.round.live.build import Live
from morph_opt.round.live.kueue import read_kueue
from morph_opt.round.live.slurm import read_slurm
from morph_opt.round.snapshot import state_to_json, write_document
from morph_opt.round.speeds import SpeedTable, table_to_json
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import QUEUE_RULES

SOURCES = {"slurm": read_slurm, "kueue": read_kueue}
"""Readers of files, by the word before the colon."""


def read_live(spec: str) -> Live:
    """Read the round of ``slurm:FILE,FILE`` or ``kueue:FILE,FILE,...``.

    Raises
    ------
    InputError
        If the source is unknown, a file is missing, or something in one is wrong.
    """
    word, colon, files = spec.partition(":")
    names = files.split(",")
    if word not in SOURCES or not colon or not all(names):
        known = ", ".join(f"{name}:FILE,FILE" for name in SOURCES)
        near = "" if word in SOURCES else did_you_mean(word, SOURCES)
        raise InputError(f"must be one of {known}, got {spec[:120]!r}{near}", field="--from")
    return SOURCES[word](names)


def with_objects(policy: str, spec: str | None) -> str:
    """Return the policy ``kueue`` with the objects of a round for kinds that its files lack.

    Parameters
    ----------
    policy
        Name of any policy.
    spec
        Source of the round (see `read_live`); None for a round that no scheduler states.
    """
    word, _, files = (spec or "").partition(":")
    family, _, own = policy.partition(":")
    if word != family or word != "kueue":
        return policy
    return f"{family}:{','.join((*filter(None, [own]), *(f'+{one}' for one in files.split(','))))}"


def of_objects(live: Live) -> Live:
    """Return a round without the rules that its scheduler's own policy has from the objects.

    Quotas stay: they state what is in use by none of the jobs.
    """
    rules = live.snapshot.rules
    own = () if rules is None else (one for one in rules.rules if isinstance(one, QUEUE_RULES))
    return replace(live, snapshot=replace(live.snapshot, rules=OperatorRules(tuple(own))))


def write_snapshot(path: Path, live: Live) -> None:
    """Write the round as a snapshot without the jobs that are kept back.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    round_ = live.snapshot
    assert isinstance(round_.speeds, SpeedTable)
    write_document(path, state_to_json(round_.state, table_to_json(round_.speeds), round_.rules))


def live_text(live: Live) -> str:
    """Return the jobs that are kept back and the notes, a line each."""
    kept = [f"{name} waits: {reason}" for name, reason in live.held.items()]
    lines = ["", *kept, *(f"note: {note}" for note in live.notes)]
    return "\n".join(lines) + "\n"
