"""Options: everything that jobs may do in a round, in one table.

An option has one job, or several that share the same GPUs: its *members*. It either *starts*, and
needs nodes for its parts, or continues *in place* on the nodes of its first member: a stay is an
option in place of one job, and another job may join a running one. An option on named nodes is also
in place: a queued job that returns to its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import altered
from formulations.round.candidates import CandidateTable


@dataclass(frozen=True, slots=True)
class MemberTable:
    """Jobs of the options, option by option, first the job that holds the nodes; shape (M,).

    Parameters
    ----------
    option, job
        Option, and one of its jobs.
    iteration_s
        Seconds per iteration of the job in the option.
    startup_s
        Start-up ahead of the job: all of it, or the remaining part if it stays.
    alone
        Option in which the job does the same alone.
    starts
        Whether the job starts or changes; otherwise it stays.
    """

    option: Ints
    job: Ints
    iteration_s: Floats
    startup_s: Floats
    alone: Ints
    starts: Bools

    def chosen(self, choice: Ints) -> Ints:
        """Return the rows that jobs choose, one per job that chooses any."""
        if self.option is self.alone:  # one job per option, in order
            return np.sort(choice[choice >= 0])
        return np.flatnonzero(choice[self.job] == self.option)

    def of(self, option: int, job: int) -> int:
        """Return the row of a job in an option."""
        first, last = np.searchsorted(self.option, [option, option + 1]).tolist()
        jobs: list[int] = self.job[first:last].tolist()
        return int(first) + jobs.index(job)


@dataclass(frozen=True, slots=True)
class Held:
    """Holdings of options in place: one row per option and node, stays first; shape (E,).

    Parameters
    ----------
    option, job, node
        Option, job that holds the GPUs, and node.
    demand
        Resources held by all members together, GPUs once, shape (E, R).
    uplink_gb_per_s
        Bandwidth reserved on the uplink of the node's leaf.
    of_stay
        Row of the stay on the same GPUs; one past the last if there is none.
    """

    option: Ints
    job: Ints
    node: Ints
    demand: Floats
    uplink_gb_per_s: Floats
    of_stay: Ints

    def take(self, rows: Ints | Bools) -> Held:
        """Return these rows."""
        return Held(
            self.option[rows],
            self.job[rows],
            self.node[rows],
            self.demand[rows],
            self.uplink_gb_per_s[rows],
            self.of_stay[rows],
        )

    def chosen(self, choice: Ints) -> Held:
        """Return the rows of the options that jobs choose."""
        return self.take(choice[self.job] == self.option)


@dataclass(frozen=True, slots=True)
class ClassGpus:
    """GPUs of options on nodes of several classes: one row per option and class.

    Parameters
    ----------
    option, node_class, gpus
        Option, one of its classes, and its GPUs on that class.
    """

    option: Ints
    node_class: Ints
    gpus: Floats


@dataclass(frozen=True, slots=True)
class OptionTable:
    """Options of a round; columns of shape (O,) unless stated.

    Parameters
    ----------
    starts
        Parts and their needs, for all options but stays, shape (K,); no parts if a job joins
        another or returns to named nodes.
    members
        Jobs of the options.
    held
        Holdings of options in place.
    job
        Job that holds the nodes.
    node_class
        Class of the nodes; for several classes, the class of the first part or of the last hold.
    gpus
        Total GPUs.
    mixed
        GPUs per class of options on nodes of several classes.
    worst_side
        Largest hold of each side resource per GPU of any part or hold, per class, shape (T, R - 1).
    possible
        Whether the option is possible: a job joins another, or returns, only on nodes that are
        open, of its class and in its node set.
    stay
        Option in which the job continues alone, shape (J,); -1 for a queued job.
    gang
        Number of the GPUs that each job holds, equal if shared, shape (J,).

    Attributes
    ----------
    in_place
        Whether an option uses the nodes of a running job, or named ones, shape (O,).
    shared
        Whether an option has several jobs, shape (O,).
    """

    starts: CandidateTable
    members: MemberTable
    held: Held
    job: Ints
    node_class: Ints
    gpus: Floats
    mixed: ClassGpus
    worst_side: Floats
    possible: Bools
    stay: Ints
    gang: Ints
    in_place: Bools = field(init=False, repr=False)
    shared: Bools = field(init=False, repr=False)

    def __post_init__(self) -> None:
        in_place, shared = np.zeros(self.count, dtype=bool), np.zeros(self.count, dtype=bool)
        in_place[self.held.option] = True
        if self.members.option.size != self.count:
            shared = np.bincount(self.members.option, minlength=self.count) > 1
        object.__setattr__(self, "in_place", in_place)
        object.__setattr__(self, "shared", shared)

    @property
    def count(self) -> int:
        """Number of options O."""
        return int(self.job.size)

    @property
    def stays(self) -> Ints:
        """Options in which a running job continues alone, job by job."""
        return self.stay[self.stay >= 0]

    def later(self, startup_s: Floats) -> OptionTable:
        """Return the same options with other start-ups of their members, shape (M,)."""
        return altered(self, members=altered(self.members, startup_s=startup_s))

    def total(self, of_members: Floats) -> Floats:
        """Return the sums over the members of each option, shape (O,)."""
        if self.members.option.size == self.count:  # one job per option, in order
            return np.asarray(of_members, dtype=np.float64)
        sums = np.bincount(self.members.option, of_members, minlength=self.count)
        return sums.astype(np.float64)

    def gpus_on(self, node_class: int) -> Floats:
        """Return the GPUs of each option on nodes of a class, shape (O,)."""
        found = np.where(self.node_class == node_class, self.gpus, 0.0)
        found[self.mixed.option] = 0.0
        there = self.mixed.node_class == node_class
        found[self.mixed.option[there]] = self.mixed.gpus[there]
        return found

    @property
    def of_one_class(self) -> Bools:
        """Whether all nodes of an option are of one class, shape (O,)."""
        found = np.ones(self.count, dtype=bool)
        found[self.mixed.option] = False
        return found

    def priced(self, price_of_class: Floats) -> Floats:
        """Return the cost of each option's GPUs at prices of the node classes, shape (O,)."""
        paid: Floats = price_of_class[self.node_class] * self.gpus
        mixed = self.mixed
        paid[mixed.option] = 0.0
        np.add.at(paid, mixed.option, price_of_class[mixed.node_class] * mixed.gpus)
        return paid

    def jobs_of(self, option: int) -> list[int]:
        """Return the jobs of an option, first the one that holds the nodes."""
        if not self.shared[option]:
            return [int(self.job[option])]
        first, last = np.searchsorted(self.members.option, [option, option + 1]).tolist()
        jobs: list[int] = self.members.job[first:last].tolist()
        return jobs
