"""Which replays the README shows, and the command of each."""

from __future__ import annotations

from dataclasses import dataclass

TWINS = ("base", "bp", "mt")
ORIGINALS = tuple(f"morphling/{trace}" for trace in TWINS)
TRACES = TWINS + ORIGINALS
_PLAIN = ("base", "bp")
"""Twins without guarantees."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One row of the tables.

    Parameters
    ----------
    key
        Short name in file names and data.
    label
        Name in tables and pictures.
    arguments
        Arguments of ``morph_opt.replay`` that choose it.
    proves
        Whether it solves a MILP, and so has a gap.
    changes_gpus
        Whether it may give a running job another number of GPUs.
    knows_durations
        Whether it is told how much of a job is left.
    on
        Twins on which it is shown, and the originals of the same names.
    """

    key: str
    label: str
    arguments: tuple[str, ...]
    proves: bool = False
    changes_gpus: bool = False
    knows_durations: bool = False
    on: tuple[str, ...] = TWINS


SCHEDULERS = (
    Scheduler(
        "auto",
        "MILP, the default (`saved-time`)",
        (),
        proves=True,
        changes_gpus=True,
        knows_durations=True,
    ),
    Scheduler(
        "lookahead",
        "MILP, `lookahead`",
        ("--objective", "lookahead"),
        proves=True,
        changes_gpus=True,
        knows_durations=True,
    ),
    Scheduler(
        "lookahead-weight",
        "MILP, `lookahead`, weighted",
        ("--objective", "lookahead", "--promises", "weight"),
        proves=True,
        changes_gpus=True,
        knows_durations=True,
        on=("mt",),
    ),
    Scheduler(
        "greedy-lookahead",
        "`greedy:lookahead`",
        ("--policy", "greedy:lookahead"),
        changes_gpus=True,
        knows_durations=True,
        on=("base",),
    ),
    Scheduler(
        "jct",
        "MILP, `jct`",
        ("--objective", "jct"),
        proves=True,
        changes_gpus=True,
        knows_durations=True,
        on=("base",),
    ),
    Scheduler(
        "jct-blind",
        "MILP, `jct-blind`",
        ("--objective", "jct-blind"),
        proves=True,
        changes_gpus=True,
        on=("base",),
    ),
    Scheduler(
        "throughput",
        "MILP, `throughput`",
        ("--objective", "throughput"),
        proves=True,
        changes_gpus=True,
    ),
    Scheduler(
        "fairness",
        "MILP, `fairness`",
        ("--objective", "fairness"),
        proves=True,
        changes_gpus=True,
        on=("base",),
    ),
    Scheduler(
        "las",
        "MILP, `las`",
        ("--objective", "las"),
        proves=True,
        changes_gpus=True,
        on=("base",),
    ),
    Scheduler("sia", "`sia`", ("--policy", "sia"), changes_gpus=True, on=_PLAIN),
    Scheduler("morphling", "`morphling`", ("--policy", "morphling"), changes_gpus=True),
    Scheduler("srtf", "`srtf`", ("--policy", "srtf"), knows_durations=True),
    Scheduler("equal_split", "`equal_split`", ("--policy", "equal_split"), changes_gpus=True),
    Scheduler("fifo-skip", "`fifo:skip`", ("--policy", "fifo:skip")),
    Scheduler("fifo", "`fifo`", ("--policy", "fifo")),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One replay: a trace under a scheduler."""

    trace: str
    scheduler: Scheduler

    @property
    def slug(self) -> str:
        """Name of its run folder, also its key in the data of the README."""
        return f"{self.trace.replace('/', '-')}.{self.scheduler.key}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows ``python -m morph_opt.replay``."""
        return ("--trace", self.trace, *self.scheduler.arguments)

    @property
    def command(self) -> str:
        """The command as a reader types it."""
        return " ".join(("python -m morph_opt.replay", *self.arguments))


def cases(traces: tuple[str, ...]) -> tuple[Case, ...]:
    """Return the replays of these traces, in the order of the tables."""
    return tuple(
        Case(trace, scheduler)
        for trace in traces
        for scheduler in SCHEDULERS
        if trace.rpartition("/")[2] in scheduler.on
    )
