"""Which replays the README shows, and the command of each."""

from __future__ import annotations

from dataclasses import dataclass

TWINS = ("base", "mt")
ORIGINALS = ("morphling/base", "morphling/mt")
TRACES = TWINS + ORIGINALS


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
    guarantees
        True to be shown on traces with guarantees alone, False on those without.
    """

    key: str
    label: str
    arguments: tuple[str, ...]
    proves: bool = False
    changes_gpus: bool = False
    knows_durations: bool = False
    guarantees: bool | None = None


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
        guarantees=True,
    ),
    Scheduler(
        "greedy-lookahead",
        "`greedy:lookahead`",
        ("--policy", "greedy:lookahead"),
        changes_gpus=True,
        knows_durations=True,
        guarantees=False,
    ),
    Scheduler(
        "jct",
        "MILP, `jct`",
        ("--objective", "jct"),
        proves=True,
        changes_gpus=True,
        knows_durations=True,
        guarantees=False,
    ),
    Scheduler(
        "jct-blind",
        "MILP, `jct-blind`",
        ("--objective", "jct-blind"),
        proves=True,
        changes_gpus=True,
        guarantees=False,
    ),
    Scheduler(
        "throughput",
        "MILP, `throughput`",
        ("--objective", "throughput"),
        proves=True,
        changes_gpus=True,
    ),
    Scheduler("sia", "`sia`", ("--policy", "sia"), changes_gpus=True, guarantees=False),
    Scheduler(
        "morphling", "`morphling`", ("--policy", "morphling"), changes_gpus=True, guarantees=False
    ),
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
    """What is shown of each of these traces, in the order of the tables.

    Guarantees are part of the question on the ``mt`` traces, and of every objective's rounds
    there; they are ranked and weighed there, beside the simplest baselines.
    """
    return tuple(
        Case(trace, scheduler)
        for trace in traces
        for scheduler in SCHEDULERS
        if scheduler.guarantees in (None, trace.endswith("mt"))
    )
