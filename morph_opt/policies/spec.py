"""What is known of a policy or objective before it is made: options, needs, page.

Command lines, help texts, refusals and ``docs/policies.md`` are derived from these values.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from morph_opt.commandline import NamedNumbers, Number
from morph_opt.commandline.types import WEIGHTS
from morph_opt.decision.promises import Promises
from morph_opt.domain import SEEDS, Range
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.blind import Durations
from morph_opt.rules import OperatorRules

Made_co = TypeVar("Made_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PolicyOption:
    """An option of some policies or objectives.

    Parameters
    ----------
    name
        Field of `PolicyOptions`; with dashes, the option of command lines.
    help, metavar
        As ``--help`` shows it.
    range
        Of a number, or of every number of a list by names.
    flag, named
        Whether it is given without a value; whether it is a list ``NAME=NUMBER,...``.
    parse
        Reads a text of several forms, to refuse what is none of them.
    """

    name: str
    help: str
    metavar: str | None = None
    range: Range | None = None
    flag: bool = False
    named: bool = False
    parse: Callable[[str], object] | None = None

    @property
    def option(self) -> str:
        """For example ``--starvation-knob``."""
        return "--" + self.name.replace("_", "-")

    def add_to(self, group: argparse._ActionsContainer) -> None:
        """Add it to a parser; absent from the namespace when it is not given."""
        settings: dict[str, Any] = {"help": self.help, "default": argparse.SUPPRESS}
        if self.flag:
            group.add_argument(self.option, action="store_true", **settings)
            return
        if self.range is not None:
            settings["type"] = NamedNumbers(self.range) if self.named else Number(self.range)
        group.add_argument(self.option, metavar=self.metavar, **settings)

    def require(self, value: Any) -> None:
        """Refuse a value that it may not have; None where nothing is given.

        Raises
        ------
        InputError
            Naming the option, and the name of a number in a list.
        """
        if self.parse is not None:
            self.parse(value)
        if self.range is None or value is None:
            return
        for name, number in value.items() if self.named else ((None, value),):
            of = "" if name is None else f" of {name!r}"
            self.range.require(self.option + of, number)


OPTIONS = {
    known.name: known
    for known in (
        PolicyOption("objective", "of milp (throughput)", "NAME"),
        PolicyOption("solver", "of milp (highs); python -m morph_opt.solvers", "NAME"),
        PolicyOption("formulation", "of milp (node_pattern)", "NAME"),
        PolicyOption(
            "method", "of milp: exact, ladder, or auto, by the size of the round (auto)", "NAME"
        ),
        PolicyOption("rules", "operator's rules for milp, TOML", "FILE"),
        PolicyOption(
            "gap", "relative gap at which a round of milp is done (1e-4)", "GAP", Range(0.0, 1.0)
        ),
        PolicyOption(
            "time_limit_s", "wall-clock safeguard per round of milp (10)", "S", Range(0.0, 1e6)
        ),
        PolicyOption(
            "node_limit", "branch-and-bound nodes per round of milp", "N",
            Range(1, 10**9, whole=True),
        ),
        PolicyOption(
            "promises", "of milp, where not all can be kept: rank, or weight:PHI (rank)",
            "rank|weight[:PHI]", parse=Promises.parse,
        ),
        PolicyOption(
            "durations", "what policies are told of the work that jobs have left: all, nothing but "
            "what has completed, or estimates wrong by a lognormal factor (true)",
            "true|blind|noisy:SIGMA", parse=Durations.parse,
        ),
        PolicyOption(
            "packing", "milp and gandiva may put two jobs on the same GPUs, where speeds "
            "have pairs", flag=True,
        ),
        PolicyOption(
            "waste_filter", "milp: of workers on several GPU types leave out what wastes more of "
            "the GPUs' speed than this share (none)", "SHARE", Range(0.0, 1.0),
        ),
        PolicyOption(
            "entity_weights", "of hierarchical policies (1 each)", "TENANT=W,...", WEIGHTS,
            named=True,
        ),
        PolicyOption(
            "starvation_knob", "of las, gittins, tiresias:* (0: never)", "K", Range(0.0, 1e6)
        ),
        PolicyOption(
            "feedback_share", "of feedback: GPUs for first reports at most, as a share (1)",
            "SHARE", Range(0.0, 1.0),
        ),
        PolicyOption(
                        "artifact_quirks",
            "tiresias:*, morphling, easyscale:*: as the published code decides", flag=True,
        ),
    )
}  # fmt: skip
"""Every option of a policy or objective, by the field of `PolicyOptions`."""

MILP_OPTIONS = (
    "objective", "solver", "formulation", "method", "rules", "gap", "time_limit_s", "node_limit",
    "promises", "durations", "packing", "waste_filter",
)  # fmt: skip
"""Options of the policy ``milp`` under every objective."""


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What command lines may set; each option is known to some policies and refused by the others.

    Parameters
    ----------
    objective
        Name, or ``package.module:Class`` of a user's own.
    solver, formulation, method
        Names.
    gap, time_limit_s, node_limit, seed
        See `morph_opt.solvers.outcome.Limits`.
    rules
        Operator's rules, of the MILP policy.
    promises
        ``"rank"``, ``"weight"`` or ``"weight:PHI"``; see `morph_opt.decision.promises.Promises`.
    durations
        ``"true"``, or ``"blind"`` or ``"noisy:SIGMA"`` for policies that are shown estimates of
        what jobs have left; see `morph_opt.policies.blind.Durations`.
    packing
        Whether the MILP policy may put two jobs on the same GPUs.
    waste_filter
        Largest share of speed that workers on several GPU types may leave unused; None: no filter.
    entity_weights
        Weight of a tenant by name; 1 where not given. Of the hierarchical policies.
    starvation_knob
        K of Tiresias' queues, at least 0; 0 for never. Of policies with queues.
    feedback_share
        Share of the GPUs that jobs may have for the sake of their first reports; of ``feedback``.
    artifact_quirks
        Whether `tiresias:*` or `easyscale:*` decides as the published code does, defects included.

    Raises
    ------
    InputError
        If a number is out of range; names the option, and the tenant.
    """

    objective: str = "throughput"
    solver: str = "highs"
    formulation: str = "node_pattern"
    method: str = "auto"
    gap: float = 1e-4
    time_limit_s: float = 10.0
    node_limit: int | None = None
    seed: int = 0
    rules: OperatorRules = field(default_factory=OperatorRules)
    promises: str = "rank"
    durations: str = "true"
    packing: bool = False
    waste_filter: float | None = None
    entity_weights: Mapping[str, float] = field(default_factory=dict)
    starvation_knob: float = 0.0
    feedback_share: float = 1.0
    artifact_quirks: bool = False

    def __post_init__(self) -> None:
        SEEDS.require("seed", self.seed)
        for known in OPTIONS.values():
            known.require(getattr(self, known.name))

    def changed(self) -> tuple[str, ...]:
        """Names of the options of a policy that are not as by default."""
        plain = PolicyOptions()
        names = (known.name for known in fields(self) if known.name in OPTIONS)
        return tuple(name for name in names if getattr(self, name) != getattr(plain, name))


@dataclass(frozen=True, slots=True)
class Needs:
    """What a policy or objective needs beyond jobs, cluster and speeds.

    Parameters
    ----------
    prices
        A price of every GPU type.
    memory
        To see every round of the replay in order.
    rest
        Whether it needs to know how much of a job is left: ``"no"``, ``"yes"``, or what instead.
    slices
        Starts shorter than a round: it stops and starts jobs round by round.
    """

    prices: bool = False
    memory: bool = False
    rest: str = "no"
    slices: bool = False


@dataclass(frozen=True, slots=True)
class PolicySpec(Generic[Made_co]):
    """A policy, or an objective of the policy ``milp``, by name.

    Parameters
    ----------
    name
        As command lines take it.
    make
        Makes it from the belief and the options.
    rule
        What it does, or what a round is worth to it, in a line.
    source
        Where it is published.
    page
        File of ``docs`` that states it; "" if the line says all.
    options
        Names of `OPTIONS` that it knows; of an objective those beyond `MILP_OPTIONS`.
    needs
        See `Needs`.
    blind
        Whether it is always shown estimates of what jobs have left.
    workers
        Whether it knows jobs whose workers take turns on any number of GPUs: ``"no"``, ``"yes"``,
        or ``"only"`` such.
    draws
        Whether the seed has an effect on it: ``"no"``, ``"yes"``, or ``"packing"``: with that only.
    """

    name: str
    make: Callable[[SpeedModel, PolicyOptions], Made_co]
    rule: str
    source: str
    page: str = ""
    options: tuple[str, ...] = ()
    needs: Needs = Needs()
    blind: bool = False
    workers: str = "no"
    draws: str = "no"
