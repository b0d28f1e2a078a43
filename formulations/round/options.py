"""Options: what jobs may do in a round, numbered through in one table.

An option is of one job, or of several that share the same GPUs: its *members*. It either *starts*,
and nodes are to be found for its parts, or goes on *in place*, on the nodes where its first member
runs: a stay is an option in place of one job, and another job may come to where one runs. An
option on nodes that are named is one in place as well: a queued job that comes back to its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import altered
from formulations.round.candidates import CandidateTable


@dataclass(frozen=True, slots=True)
class MemberTable:
    """Jobs of the options, in the order of the options, whose nodes they are first; shape (M,).

    Parameters
    ----------
    option, job
        Which option, and one of its jobs.
    iteration_s
        Seconds per iteration of the job there.
    startup_s
        Start-up that is ahead of the job there: all of it, or what is left if it stays.
    alone
        The option of the job alone that is what it does here.
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
        """Rows of the options that jobs choose, one per job that chooses any."""
        if self.option is self.alone:  # of one job each, in order
            return np.sort(choice[choice >= 0])
        return np.flatnonzero(choice[self.job] == self.option)

    def of(self, option: int, job: int) -> int:
        """Row of a job in an option."""
        first, last = np.searchsorted(self.option, [option, option + 1]).tolist()
        jobs: list[int] = self.job[first:last].tolist()
        return int(first) + jobs.index(job)


@dataclass(frozen=True, slots=True)
class Held:
    """What options in place hold: one row per option and node, stays first; shape (E,).

    Parameters
    ----------
    option, job, node
        Which option, the job whose GPUs they are, and where.
    demand
        Resources held there by all members together, GPUs once, shape (E, R).
    uplink_gb_per_s
        Reserved on the uplink of the node's leaf.
    of_stay
        Row of the stay on the same GPUs; one behind the last where there is none.
    """

    option: Ints
    job: Ints
    node: Ints
    demand: Floats
    uplink_gb_per_s: Floats
    of_stay: Ints

    def take(self, rows: Ints | Bools) -> Held:
        """These rows."""
        return Held(
            self.option[rows],
            self.job[rows],
            self.node[rows],
            self.demand[rows],
            self.uplink_gb_per_s[rows],
            self.of_stay[rows],
        )

    def chosen(self, choice: Ints) -> Held:
        """Rows of the options that jobs choose."""
        return self.take(choice[self.job] == self.option)


@dataclass(frozen=True, slots=True)
class ClassGpus:
    """GPUs of options on nodes of several classes: one row per option and class.

    Parameters
    ----------
    option, node_class, gpus
        Which option, one of its classes, and its GPUs there.
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
        Where options start: parts and what they need, for all but the stays, shape (K,); no parts
        where others come to a job, or a job to nodes that are named.
    members
        Their jobs.
    held
        What those in place hold.
    job
        The job whose nodes they are.
    node_class
        Class of the nodes; of several classes that of the first part, or of the last hold.
    gpus
        GPUs in all.
    mixed
        What options on nodes of several classes have on each of them.
    worst_side
        Most that any part or hold on nodes of a class has of each side resource per GPU, shape
        (T, R - 1).
    possible
        Whether it can happen at all: a job comes to another, or back, only on nodes that are open,
        of its class and in its node set.
    stay
        Option in which a job alone goes on, shape (J,); -1 for a queued job.
    gang
        A number of the GPUs that each job holds, equal where they are shared, shape (J,).

    Attributes
    ----------
    in_place
        Whether an option goes on on the nodes where a job runs, or on named ones, shape (O,).
    shared
        Whether an option is of several jobs, shape (O,).
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
        """Options in which a running job goes on alone, job by job."""
        return self.stay[self.stay >= 0]

    def later(self, startup_s: Floats) -> OptionTable:
        """The same options with other start-ups of their members, shape (M,)."""
        return altered(self, members=altered(self.members, startup_s=startup_s))

    def total(self, of_members: Floats) -> Floats:
        """Sums over the members of each option, shape (O,)."""
        if self.members.option.size == self.count:  # of one job each, in order
            return np.asarray(of_members, dtype=np.float64)
        sums = np.bincount(self.members.option, of_members, minlength=self.count)
        return sums.astype(np.float64)

    def gpus_on(self, node_class: int) -> Floats:
        """GPUs of each option on nodes of a class, shape (O,)."""
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
        """What the GPUs of each option cost at prices of the node classes, shape (O,)."""
        paid: Floats = price_of_class[self.node_class] * self.gpus
        mixed = self.mixed
        paid[mixed.option] = 0.0
        np.add.at(paid, mixed.option, price_of_class[mixed.node_class] * mixed.gpus)
        return paid

    def jobs_of(self, option: int) -> list[int]:
        """The jobs of an option, whose nodes they are first."""
        first, last = np.searchsorted(self.members.option, [option, option + 1]).tolist()
        jobs: list[int] = self.members.job[first:last].tolist()
        return jobs
