"""Options: what jobs may do in a round, numbered through in one table.

An option is of one job, or of several that share the same GPUs: its *members*. It either *starts*,
and nodes are to be found for its parts, or goes on *in place*, on the nodes where its first member
runs: a stay is an option in place of one job, and another job may come to where one runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.columns import joined
from formulations.linear_model import Bools, Floats, Ints

if TYPE_CHECKING:
    from formulations.round.tables import RoundProblem


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
        Row of the stay on the same GPUs.
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
            self.option[rows], self.job[rows], self.node[rows],
            self.demand[rows], self.uplink_gb_per_s[rows], self.of_stay[rows],
        )  # fmt: skip

    def chosen(self, choice: Ints) -> Held:
        """Rows of the options that jobs choose."""
        return self.take(choice[self.job] == self.option)


@dataclass(frozen=True, slots=True)
class OptionTable:
    """Options of a round; columns of shape (O,) unless stated.

    Parameters
    ----------
    members
        Their jobs.
    held
        What those in place hold.
    job
        The job whose nodes they are.
    node_class
        Class of the nodes.
    gpus
        GPUs in all.
    possible
        Whether it can happen at all: a job comes to another only on nodes that are open, of its
        class and in its node set.
    stay
        Option in which a job alone goes on, shape (J,); -1 for a queued job.
    gang
        A number of the GPUs that each job holds, equal where they are shared, shape (J,).
    """

    members: MemberTable
    held: Held
    job: Ints
    node_class: Ints
    gpus: Floats
    possible: Bools
    stay: Ints
    gang: Ints

    @property
    def count(self) -> int:
        """Number of options O."""
        return int(self.job.size)

    @property
    def stays(self) -> Ints:
        """Options in which a running job goes on alone, job by job."""
        return self.stay[self.stay >= 0]

    @property
    def shared(self) -> Bools:
        """Whether an option is of several jobs, shape (O,)."""
        return np.bincount(self.members.option, minlength=self.count) > 1

    def total(self, of_members: Floats) -> Floats:
        """Sums over the members of each option, shape (O,)."""
        sums = np.bincount(self.members.option, of_members, minlength=self.count)
        return sums.astype(np.float64)

    def priced(self, price_of_class: Floats) -> Floats:
        """What the GPUs of each option cost at prices of the node classes, shape (O,)."""
        return price_of_class[self.node_class] * self.gpus

    def jobs_of(self, option: int) -> list[int]:
        """The jobs of an option, whose nodes they are first."""
        first, last = np.searchsorted(self.members.option, [option, option + 1]).tolist()
        jobs: list[int] = self.members.job[first:last].tolist()
        return jobs


def options_of(problem: RoundProblem) -> OptionTable:
    """Candidates alone, then pairs, then stays."""
    table, jobs, pairs, nodes = problem.candidates, problem.jobs, problem.pairs, problem.nodes
    stay = np.full(jobs.count, -1, dtype=np.int64)
    running = np.flatnonzero(jobs.running).astype(np.int64)
    stay[running] = np.arange(table.count, table.count + running.size)
    members = _members(problem, running, stay)
    held = _held(problem, stay)
    job = np.concatenate([table.job, running])
    node_class = np.concatenate([table.node_class, np.zeros(running.size, dtype=np.int64)])
    node_class[stay[problem.holds.job]] = nodes.node_class[problem.holds.node]
    gpus = np.concatenate([table.gpus.astype(np.float64), np.zeros(running.size)])
    np.add.at(gpus, stay[problem.holds.job], problem.holds.demand[:, 0])
    gang = np.arange(jobs.count, dtype=np.int64)
    gang[pairs.sharing[:, 1]] = pairs.sharing[:, 0]
    possible = np.ones(job.size, dtype=bool)
    possible[held.option[~_may_come(problem, members, held)]] = False
    return OptionTable(members, held, job, node_class, gpus, possible, stay, gang)


def _members(problem: RoundProblem, running: Ints, stay: Ints) -> MemberTable:
    table, jobs, pairs = problem.candidates, problem.jobs, problem.pairs
    base = table.count - pairs.count
    alone: Ints = np.arange(table.count, dtype=np.int64)

    def column(first: Ints, second: Ints, stays: Ints) -> Ints:
        both = np.column_stack([first[base:], second]).reshape(-1)
        return np.concatenate([first[:base], both, stays])

    job = column(table.job, pairs.partner, running)
    half = column(np.append(alone[:base], pairs.first_half), pairs.second_half, stay[running])
    half = np.where(half < 0, stay[job], half)
    starts = half < table.count
    pace = np.append(table.iteration_s[:base], np.column_stack(
        [table.iteration_s[base:], pairs.partner_iteration_s]
    ).reshape(-1))  # fmt: skip
    return MemberTable(
        option=column(alone, alone[base:], stay[running]),
        job=job,
        iteration_s=np.append(pace, jobs.stay_iteration_s[running]),
        startup_s=np.where(starts, jobs.restart_s[job], jobs.restart_left_s[job]),
        alone=half,
        starts=starts,
    )


def _held(problem: RoundProblem, stay: Ints) -> Held:
    """Holds of the stays, then of the pairs in place, from those of their first jobs."""
    table, pairs, holds = problem.candidates, problem.pairs, problem.holds
    base = table.count - pairs.count
    chosen = base + np.flatnonzero(pairs.in_place)
    row, at = joined(holds.job, table.job[chosen])
    option, node = chosen[at], holds.node[row]
    gpus, side = holds.demand[row, 0], table.side[option]
    leaf, some = problem.nodes.leaf[node], np.zeros(table.count, dtype=np.int64)
    some[option] = leaf
    crosses = np.isin(option, option[leaf != some[option]])
    share = np.where(crosses, gpus * side[:, 2], 0.0)
    return Held(
        np.concatenate([stay[holds.job], option]),
        np.concatenate([holds.job, holds.job[row]]),
        np.concatenate([holds.node, node]),
        np.concatenate([holds.demand, np.column_stack([gpus, gpus[:, None] * side])]),
        np.concatenate([holds.uplink_gb_per_s, share]),
        np.concatenate([np.arange(holds.count), row]),
    )


def _may_come(problem: RoundProblem, members: MemberTable, held: Held) -> Bools:
    """Whether everybody of an option in place may be on a node that it holds, shape (E,)."""
    nodes, table = problem.nodes, problem.candidates
    comes = np.zeros(table.count + problem.jobs.count, dtype=bool)
    comes[members.option[members.starts]] = True
    row = np.minimum(held.option, table.count - 1)
    usable = nodes.open[held.node]
    if table.count:
        usable = usable & (nodes.node_class[held.node] == table.node_class[row])
        usable &= nodes.sets[table.node_set[row], held.node]
    return np.asarray(~comes[held.option] | usable)
