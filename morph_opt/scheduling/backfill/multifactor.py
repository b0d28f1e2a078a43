"""Priorities of Slurm's ``priority/multifactor``: age, fair share, job size, QOS and partition.

Sources: Slurm 22.05, ``src/plugins/priority/multifactor``, and its documentation of the Fair Tree
algorithm (LevelFS of an association: its share of the shares among its siblings over its share of
their usage).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby

from morph_opt.core.domain import Cluster


@dataclass(frozen=True, slots=True)
class Account:
    """Account or user of the tree of shares, with its accounts and users below it.

    Parameters
    ----------
    name
        Unique in the tree.
    shares
        Raw shares among its siblings.
    below
        Its accounts and users; none for a user.
    """

    name: str
    shares: float = 1.0
    below: tuple[Account, ...] = ()

    def users(self) -> Iterator[str]:
        """Yield the users of the tree, from left to right."""
        if not self.below:
            yield self.name
        for one in self.below:
            yield from one.users()


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the factors, as ``PriorityWeight...`` of slurm.conf states them.

    Parameters
    ----------
    max_age_s
        Age at which the factor of age is 1 (``PriorityMaxAge``).
    half_life_s
        Half-life of usage (``PriorityDecayHalfLife``); 0 if usage does not decay.
    period_s
        Interval between two computations (``PriorityCalcPeriod``).
    fair_tree
        Whether fair share is ranked by the Fair Tree; False with the flag ``NO_FAIR_TREE``.
    favor_small
        Whether small jobs have the larger factor of size (``PriorityFavorSmall``).
    """

    age: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    qos: float = 0.0
    partition: float = 0.0
    max_age_s: float = 7 * 86_400.0
    half_life_s: float = 7 * 86_400.0
    period_s: float = 300.0
    fair_tree: bool = True
    favor_small: bool = False


@dataclass(slots=True)
class Usage:
    """Decayed usage of users, with the fair-share factors of the last computation.

    Parameters
    ----------
    root
        Tree of shares.
    weights
        Half-life and algorithm.
    used
        Usage so far, by user.

    Attributes
    ----------
    factor
        Fair-share factor of each user, from 0 to 1.
    """

    root: Account
    weights: Weights
    used: dict[str, float] = field(default_factory=dict)
    factor: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.used = dict(self.used)
        self.factor = self.factors()

    def add(self, user: str, billing: float, seconds: float) -> None:
        """Charge a user for the seconds that a job with this billing weight ran.

        The charge is decayed over its own length, as ``_apply_new_usage`` does.
        """
        charged = billing * seconds * self._decay(seconds)
        self.used[user] = self.used.get(user, 0.0) + charged

    def recompute(self, elapsed_s: float, running: Sequence[tuple[str, float, float]]) -> None:
        """Decay all usage, charge the running jobs, and compute the factors anew.

        Parameters
        ----------
        elapsed_s
            Time since the last computation.
        running
            User, billing weight and seconds run since then, of each running job.
        """
        decay = self._decay(elapsed_s)
        for user in self.used:
            self.used[user] *= decay
        for user, billing, seconds in running:
            self.add(user, billing, seconds)
        self.factor = self.factors()

    def factors(self) -> dict[str, float]:
        """Return the fair-share factor of each user, from 0 to 1."""
        used: dict[str, float] = {}
        _total(self.root, self.used, used)
        if not self.weights.fair_tree:
            return dict(_classic(self.root, used, used[self.root.name], 1.0, 1.0))
        ordered = list(_ordered(_level([self.root], used), tied=False))
        found: dict[str, float] = {}
        factor = 1.0
        for place, (user, tied) in enumerate(ordered):
            if not tied:
                factor = 1.0 - place / len(ordered)
            found[user] = factor
        return found

    def _decay(self, seconds: float) -> float:
        half_life = self.weights.half_life_s
        return 1.0 if not half_life else (1.0 - 0.693 / half_life) ** seconds


@dataclass(frozen=True, slots=True)
class Sibling:
    """Account or user with its LevelFS, and the usage that it was computed from."""

    level: float
    account: Account
    used: Mapping[str, float]


def _total(one: Account, own: Mapping[str, float], used: dict[str, float]) -> float:
    """Set the usage of an account and of all below it; return the account's."""
    used[one.name] = own.get(one.name, 0.0) + sum(_total(each, own, used) for each in one.below)
    return used[one.name]


def _level(parents: Sequence[Account], used: Mapping[str, float]) -> list[Sibling]:
    """Return the children of tied accounts, those with the largest LevelFS first."""
    found: list[Sibling] = []
    for parent in parents:
        shares = sum(one.shares for one in parent.below)
        for one in parent.below:
            taken = used[one.name] / used[parent.name] if used[parent.name] else 0.0
            level = one.shares / shares / taken if shares and taken else math.inf
            found.append(Sibling(level, one, used))
    return sorted(found, key=lambda each: (-each.level, bool(each.account.below)))


def _ordered(siblings: Sequence[Sibling], *, tied: bool) -> Iterator[tuple[str, bool]]:
    """Yield the users in order of fair share, each with whether it ties with the one before.

    Accounts that tie are merged: their children are compared as if they were siblings.

    Parameters
    ----------
    siblings
        As `_level` returns them.
    tied
        Whether the first of them ties with what was ordered before.
    """
    for _, group in groupby(siblings, key=lambda each: each.level):
        members = list(group)
        for one in members:
            if not one.account.below:
                yield one.account.name, tied
                tied = True
        accounts = [one.account for one in members if one.account.below]
        if accounts:
            yield from _ordered(_level(accounts, members[0].used), tied=tied)
        tied = False


def _classic(
    one: Account, used: Mapping[str, float], whole: float, shares: float, effective: float
) -> Iterator[tuple[str, float]]:
    """Yield users with 2^(-effective usage / normalised shares), for ``NO_FAIR_TREE``.

    Effective usage of a child: its own, plus its part by shares of what its siblings used.
    """
    total = sum(each.shares for each in one.below)
    for each in one.below:
        part = each.shares / total if total else 0.0
        own = used[each.name] / whole if whole else 0.0
        mine = own + (effective - own) * part
        if each.below:
            yield from _classic(each, used, whole, shares * part, mine)
        else:
            yield each.name, 2.0 ** (-mine / (shares * part)) if part else 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a cluster; the factor of job size is relative to them."""

    nodes: int
    cpus: float
    gpus: int = 1

    @classmethod
    def of(cls, cluster: Cluster) -> Totals:
        """Return the totals of a cluster."""
        return cls(len(cluster.nodes), float(sum(n.type.cpus for n in cluster.nodes)), cluster.gpus)


@dataclass(frozen=True, slots=True)
class Priority:
    """Priority of a job, by factor: each weight times its factor, 0 to 1."""

    age: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    qos: float = 0.0
    partition: float = 0.0

    @property
    def total(self) -> int:
        """Sum of the factors without its fraction, as Slurm shows it."""
        return int(self.age + self.fair_share + self.job_size + self.qos + self.partition)

    def __str__(self) -> str:
        parts = [(one.name.replace("_", " "), getattr(self, one.name)) for one in fields(self)]
        said = " + ".join(f"{name} {value:.0f}" for name, value in parts if round(value))
        return f"priority {self.total}: {said}" if said else f"priority {self.total}"


def priority(
    weights: Weights,
    totals: Totals,
    *,
    age_s: float,
    fair_share: float,
    nodes: int,
    cpus: float,
    qos: float = 0.0,
    partition: float = 0.0,
) -> Priority:
    """Return the priority of a job.

    Parameters
    ----------
    weights, totals
        See the classes.
    age_s
        Time since the job became eligible.
    fair_share
        Factor of its user.
    nodes, cpus
        Its request.
    qos, partition
        Priorities of its QOS and its partition over the largest ones, 0 to 1.
    """
    age = min(1.0, age_s / weights.max_age_s) if weights.max_age_s else 0.0
    size = (nodes / totals.nodes + (cpus / totals.cpus if totals.cpus else 0.0)) / 2.0
    return Priority(
        weights.age * age,
        weights.fair_share * fair_share,
        weights.job_size * (1.0 - size if weights.favor_small else size),
        weights.qos * qos,
        weights.partition * partition,
    )
