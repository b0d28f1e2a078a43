"""What is known of a policy or objective before it is made: options, needs, page.

Command lines, help texts, refusals and ``docs/policies.md`` are derived from these values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.options import PolicyOptions

Made_co = TypeVar("Made_co", covariant=True)


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
        Names of `morph_opt.policies.options.OPTIONS` that it knows; of an objective those beyond
        `MILP_OPTIONS`.
    needs
        See `Needs`.
    blind
        Whether it is always shown estimates of what jobs have left.
    workers
        Whether it knows jobs whose workers take turns on any number of GPUs: ``"no"``, ``"yes"``,
        or ``"only"`` such.
    draws
        Whether the seed has an effect on it: ``"no"``, ``"yes"``, or ``"packing"``: with that only.
    own_times
        What in its rule is in seconds or GPU-seconds, whatever the times of jobs and rounds are;
        "" where nothing is, so that all completion times follow the unit of time.
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
    own_times: str = ""
