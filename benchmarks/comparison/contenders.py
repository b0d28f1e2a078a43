"""What is compared on what: the contenders, the traces, and what is replayed of them."""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from benchmarks.comparison.records import REFERENCE
from morph_opt.inputs.data import DATASETS
from morph_opt.replay.scenario import Scenario, Workload


@dataclass(frozen=True, slots=True)
class Contender:
    """What is compared.

    Parameters
    ----------
    label
        In the tables.
    policy, objective
        As the replay takes them.
    may_change_gpus
        Whether it gives a running job another number of GPUs.
    knows_durations
        Whether it is told how much of a job is left, rightly or not.
    durations
        What it is told of the work that is left, as the replay takes it.
    promises
        As the replay takes them.
    rules
        Operator's rules, as the replay takes them.
    stops
        Whether it takes GPUs from running jobs.
    one_type
        Whether it refuses clusters of several node types.
    core
        Whether it is run before the others.
    expensive
        Whether its replays take minutes: they are run behind the others.
    only
        Titles of the traces on which it is run, without a folder; empty for all.
    twins
        Of how many twins of a trace at most.
    """

    label: str
    policy: str
    objective: str = "auto"
    may_change_gpus: bool = True
    knows_durations: bool = False
    durations: str = "true"
    promises: str | None = None
    rules: str | None = None
    stops: bool = True
    one_type: bool = False
    core: bool = False
    expensive: bool = False
    only: tuple[str, ...] = ()
    twins: int = 99

    @property
    def knows(self) -> str:
        """Whether it knows durations, in the words of the tables."""
        word, _, sigma = self.durations.partition(":")
        if word == "limits" and self.durations != EXACT:
            return word if self.stops else f"{word}, no stops"
        known = "yes" if self.stops else "yes, no stops"
        return f"sigma {sigma}" if word == "noisy" else known if self.knows_durations else "no"

    @property
    def guesses(self) -> bool:
        """Whether it goes by guesses of the work that is left."""
        return self.durations == "blind" or self.objective == "jct-blind"

    def key(self, scenario: Scenario) -> str:
        """What a row is known by: the scenario, and how work left is guessed where it is."""
        if not self.guesses:
            return scenario.digest[:16]
        return hashlib.sha256(f"{scenario.digest}/{GUESS}".encode()).hexdigest()[:16]


GUESS = "regression"
"""Of `scheduling.policies.sizes`; to be changed with it, and rows of another are dropped."""


def _with_estimates(contender: Contender, *durations: str) -> Iterator[Contender]:
    """A contender that knows durations, and the same told otherwise."""
    yield contender
    for duration in durations:
        word, _, sigma = duration.partition(":")
        label = f"{contender.label}, {'blind' if word == 'blind' else f'sigma {sigma}'}"
        knows = word == "noisy"
        core = contender.core and contender.label == REFERENCE
        yield replace(contender, label=label, durations=duration, knows_durations=knows, core=core)


def _each(contender: Contender) -> Iterator[Contender]:
    """A contender with durations known, wrong by a factor, and unknown."""
    return _with_estimates(replace(contender, knows_durations=True), "noisy:0.7", "blind")


LIMITS = "limits:modal"
"""Limits as people give them: popular values, of which one job in twenty reaches its own."""
EXACT = "limits:exact"
"""Limits that are the run times up to the next minute, so that no job ends at its own."""
BATCH = ("easy", "easy:sjbf", "easy:lxf", "easy:wfp", "conservative", "slurm")
NO_STOPS = "benchmarks/comparison/no-stops.toml"
"""Rules under which nothing that runs is stopped."""


def _limited(label: str, policy: str, objective: str = "auto", **more: Any) -> Contender:
    """A contender that is told time limits, on jobs that end at them."""
    more |= {"may_change_gpus": policy == "milp", "knows_durations": True, "durations": LIMITS}
    return Contender(label, policy, objective, **more)


_STAYS = Contender(
    f"{REFERENCE}, no stops",
    "milp",
    knows_durations=True,
    rules=NO_STOPS,
    stops=False,
    only=("base", "gavel-96", "philly-bursts", "acme-bursts", "tiresias-480"),
    twins=3,
)

CALIBRATED = ("naive", "base", "bp", "mt")
"""Traces whose jobs may run on any number of GPUs."""

PUBLISHED_MORPHLING = "benchmarks.published.simulators.morphling_policy:policy"
_GAVEL = ("srpt", "ftf", "makespan")
"""Gavel's policies that know durations."""
_GAVEL_BLIND = ("max_throughput", "fairness", "fifo", "isolated", "gandiva")
_MT, _WORKERS = ("mt",), ("easyscale-twin",)


def _gavel(name: str) -> Contender:
    """A policy of Gavel, for the trace and the round that its mechanism was made for."""
    return Contender(
        f"`gavel:{name}`",
        f"gavel:{name}",
        may_change_gpus=False,
        expensive=True,
        only=("gavel-96",),
        knows_durations=name in _GAVEL,
    )


CONTENDERS = (
    *_each(Contender(REFERENCE, "milp", core=True)),
    *_each(Contender("MILP `jct`", "milp", "jct", core=True)),
    *_with_estimates(
        Contender("MILP `lookahead`", "milp", "lookahead", knows_durations=True, core=True),
        "noisy:0.7",
    ),
    Contender("MILP `lookahead`, blind", "milp", "lookahead", durations="blind", only=_MT),
    Contender("MILP `throughput`", "milp", "throughput", core=True),
    Contender(
        "MILP `lookahead`, weighted promises",
        "milp",
        "lookahead",
        knows_durations=True,
        promises="weight",
        only=_MT,
        core=True,
    ),
    Contender(
        "MILP `jct`, weighted promises",
        "milp",
        "jct",
        knows_durations=True,
        promises="weight",
        only=_MT,
        core=True,
    ),
    *_each(Contender("`greedy:lookahead`", "greedy:lookahead", core=True)),
    *_each(Contender("`greedy:jct`", "greedy:jct")),
    *_each(Contender("`srtf`", "srtf", may_change_gpus=False, core=True)),
    *_each(Contender("`allox`", "allox", may_change_gpus=False, core=True)),
    *_each(Contender("`optimus`", "optimus")),
    Contender("`sia`", "sia", core=True),
    Contender("`pollux:counts`", "pollux:counts", one_type=True),
    Contender("`morphling`", "morphling", core=True),
    Contender("`greedy:throughput`", "greedy:throughput"),
    Contender("`equal_split`", "equal_split", core=True),
    Contender("`fifo`", "fifo", may_change_gpus=False),
    Contender("`fifo:skip`", "fifo:skip", may_change_gpus=False, core=True),
    Contender("`tiresias:2d-las`", "tiresias:2d-las", may_change_gpus=False),
    Contender("`tiresias:gittins`", "tiresias:gittins", may_change_gpus=False),
    Contender("`gandiva`", "gandiva"),
    *(
        Contender(f"`easyscale:{name}`", f"easyscale:{name}", only=_WORKERS)
        for name in ("yarn-cs", "homo", "heter")
    ),
    Contender(
        "MILP `makespan`",
        "milp",
        "makespan",
        knows_durations=True,
        twins=1,
        only=CALIBRATED,
        expensive=True,
    ),
    *map(_gavel, (*_GAVEL, *_GAVEL_BLIND)),
    _limited(f"{REFERENCE}, limits", "milp"),
    _limited(f"{REFERENCE}, limits, no stops", "milp", rules=NO_STOPS, stops=False),
    _limited("MILP `jct`, limits", "milp", "jct"),
    _limited("`srtf`, limits", "srtf"),
    *(_limited(f"`{name}`", name, stops=False) for name in BATCH),
    _STAYS,
    *(
        replace(
            _STAYS,
            label=f"`{name}`, exact",
            policy=name,
            may_change_gpus=False,
            durations=EXACT,
            rules=None,
        )
        for name in BATCH[:-1]
    ),
    Contender(
        "`morphling`, published", PUBLISHED_MORPHLING, only=("naive",), twins=1, expensive=True
    ),
    Contender("`pollux`", "pollux", one_type=True, only=("naive",), twins=1, expensive=True),
)


@dataclass(frozen=True, slots=True)
class Field:
    """A trace.

    Parameters
    ----------
    name
        As the replay takes it.
    interval_s
        Length of a round.
    types
        Whether its home has several GPU types.
    late
        Whether it is run behind the others: it takes long, or says little more than another.
    label
        In rows and tables, where the name does not say it.
    sized
        Options of a twin.
    """

    name: str
    interval_s: float = 60.0
    types: bool = False
    late: bool = False
    label: str = ""
    sized: tuple[tuple[str, int], ...] = ()

    @property
    def title(self) -> str:
        """In rows and tables."""
        return self.label or self.name

    @property
    def original(self) -> str | None:
        """The public data that it is read from; None for a twin."""
        head = self.name.partition("/")[0].partition("@")[0]
        return head if head in DATASETS else None


TWINS = (0, 1, 2, 3, 4)


def ask_traces(parser: ArgumentParser, default: Sequence[str]) -> None:
    """Give a command the option ``--traces``: names, with commas between."""
    parser.add_argument(
        "--traces",
        type=lambda text: text.split(","),
        default=list(default),
        metavar="NAME,...",
        help=f"({','.join(default)})" if default else "(all)",
    )


def ask_seeds(parser: ArgumentParser) -> None:
    """Give a command the option ``--seeds``: those of twins, with commas between."""
    parser.add_argument(
        "--seeds",
        type=lambda text: [int(n) for n in text.split(",")],
        default=list(TWINS),
        metavar="N,...",
        help="of twins (0 to 4)",
    )


FIELDS = (
    Field("naive"),
    Field("base"),
    Field("gavel-96", 360.0, types=True),
    Field("mt"),
    Field(
        "resampled/x3/as-is/philly-twin",
        300.0,
        label="philly-bursts",
        sized=(("gpus", 64), ("days", 3)),
    ),
    Field(
        "resampled/x2/as-is/acme-twin",
        300.0,
        label="acme-bursts",
        sized=(("gpus", 64), ("days", 1)),
    ),
    Field("bp", late=True),
    Field("gavel-96", 60.0, types=True, label="gavel-96-60s", late=True),
    Field("easyscale-twin", types=True, late=True),
    Field("tiresias-480", late=True),
    Field("morphling/base"),
    Field("morphling/mt"),
    Field("morphling/bp"),
    Field("morphling/naive"),
    Field("tiresias/60"),
)


def takes_part(contender: Contender, field: Field, place: int = 0) -> bool:
    """Whether a contender is run on a trace, of twins on this one from 0 on."""
    short = field.title.rpartition("/")[2]
    possible = not (contender.one_type and field.types) and (
        not contender.only or short in contender.only
    )
    return possible and place < contender.twins


def scenarios(
    chosen: Sequence[Field], seeds: Sequence[int]
) -> Iterator[tuple[Field, int, Contender, Scenario]]:
    """All replays: first the core, and last the expensive; of each first traces that are not late.

    Within that seed by seed: what is cut short has whole sets of pairs. Originals come behind three
    seeds of the twins.
    """
    found = [
        (
            contender.expensive,
            not is_core(contender, field),
            field.late,
            place,
            position,
            field,
            seed,
            contender,
        )
        for position, field in enumerate(chosen)
        for place, seed in enumerate(seeds if field.original is None else [0])
        for contender in CONTENDERS
        if takes_part(contender, field, place)
    ]
    found.sort(key=lambda one: (*one[:3], 2.5 if one[5].original else one[3], one[4]))
    for *_, field, seed, contender in found:
        yield field, seed, contender, scenario_of(field, seed, contender)


def is_core(contender: Contender, field: Field) -> bool:
    """Whether a replay is among the first; those with ranked promises, which take long, are not."""
    ranked = field.title in ("mt", "morphling/mt") and contender.promises is None
    return contender.core and not (ranked and contender.objective in ("jct", "lookahead"))


@cache
def scenario_of(field: Field, seed: int, contender: Contender) -> Scenario:
    """What is replayed."""
    sized: dict[str, Any] = dict(field.sized)
    jobs = Workload(trace=field.name, **sized)
    return Scenario(
        workload=jobs, policy=contender.policy, objective=contender.objective, seed=seed
    ).replaced(
        interval_s=field.interval_s,
        durations=contender.durations,
        promises=contender.promises,
        rules=contender.rules,
        skip_impossible=True,
    )
