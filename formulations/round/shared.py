"""Options of several jobs on the same GPUs, described by what each job does there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import no_floats, no_ints, require_shapes
from formulations.round.base_tables import JobTable
from formulations.round.candidates import CandidateTable


@dataclass(frozen=True, slots=True)
class SharedTable:
    """Options of several jobs, and groups of jobs that share GPUs already; none by default.

    One row per option and job, with at least two jobs per option. Each job does something that it
    could do alone: start in a candidate, or stay. Either all jobs start on free GPUs, as the first
    of them would alone; or the first one stays, and the others join it or, if they are there
    already, stay as well. GPUs are held once, everything else by each job.

    Parameters
    ----------
    option
        Number of the option, ascending from 0, shape (M,).
    job
        One of its jobs, first the one that holds the nodes.
    candidate
        Candidate in which the job would start alone; -1 if it stays.
    iteration_s
        Seconds per iteration of the job with the others.
    gang
        Number of the GPUs that each job holds at first, equal if shared, shape (J,); empty if no
        jobs share.
    """

    option: Ints = field(default_factory=no_ints)
    job: Ints = field(default_factory=no_ints)
    candidate: Ints = field(default_factory=no_ints)
    iteration_s: Floats = field(default_factory=no_floats)
    gang: Ints = field(default_factory=no_ints)

    def __post_init__(self) -> None:
        columns = ("job", "candidate", "iteration_s")
        require_shapes(self, **dict.fromkeys(columns, np.shape(self.option)))

    @property
    def count(self) -> int:
        """Number of options."""
        return int(self.option[-1]) + 1 if self.option.size else 0

    @property
    def first(self) -> Ints:
        """Row of the first job of each option."""
        return np.flatnonzero(np.diff(self.option, prepend=-1))


def require_shared(shared: SharedTable, jobs: JobTable, table: CandidateTable) -> None:
    """Refuse options of several jobs that contradict the other tables.

    Raises
    ------
    ValueError
        If a rule is broken; the message names the column and the rule.
    """
    if shared.gang.size and shared.gang.shape != (jobs.count,):
        raise ValueError(f"shared.gang must have shape ({jobs.count},), got {shared.gang.shape}")
    sharing = same_gpus(shared.gang)
    if not jobs.running[sharing].all():
        raise ValueError("shared.gang must be shared by running jobs only")
    if not shared.option.size:
        return
    for name, index, limit in (
        ("job", shared.job, jobs.count),
        ("candidate", shared.candidate + 1, table.count + 1),
    ):
        if index.min() < 0 or index.max() >= limit:
            raise ValueError(f"shared.{name} must lie below {limit}")
    if not (np.isfinite(shared.iteration_s) & (shared.iteration_s > 0)).all():
        raise ValueError("shared.iteration_s must be positive and finite")
    _require_members(shared, jobs, table, np.bincount(shared.option))


def _require_members(
    shared: SharedTable, jobs: JobTable, table: CandidateTable, members: Ints
) -> None:
    first, starts = shared.first[shared.option], shared.candidate >= 0
    ascending = (np.diff(shared.option, prepend=0) >= 0).all()
    if not ascending or (members < 2).any():
        raise ValueError("shared.option must count up from 0, with at least two jobs each")
    if np.unique(shared.option * jobs.count + shared.job).size < shared.job.size:
        raise ValueError("shared.job must not repeat a job of the option")
    if (table.job[shared.candidate[starts]] != shared.job[starts]).any():
        raise ValueError("shared.candidate must belong to its job")
    if not jobs.running[shared.job[~starts]].all():
        raise ValueError("shared.candidate must not be a stay of a queued job")
    of_classes = table.mixed | table.loose
    if of_classes[shared.candidate[starts]].any():
        raise ValueError("shared.candidate must be on nodes of one class, each part on its own")
    _require_one_place(shared, table)
    if (starts[first] & ~starts).any():
        raise ValueError(
            "shared.candidate of the first job must be a stay if that of another job is"
        )
    gang = shared.gang if shared.gang.size else np.arange(jobs.count, dtype=np.int64)
    if (gang[shared.job[first]] != gang[shared.job])[~starts].any():
        raise ValueError("shared options in which all jobs stay must be on the same GPUs")


def _require_one_place(shared: SharedTable, table: CandidateTable) -> None:
    """Refuse options whose candidates are of several node classes, or confined to several sets."""
    starts = shared.candidate >= 0
    option, candidate = shared.option[starts], shared.candidate[starts]
    # Set 0 is all nodes and agrees with every set. A class agrees with itself alone.
    for what, number in (("class", table.node_class + 1), ("set", table.node_set)):
        own, most = number[candidate], np.zeros(shared.count, dtype=np.int64)
        np.maximum.at(most, option, own)
        if ((own > 0) & (own != most[option])).any():
            raise ValueError(f"shared.candidate must be of one node {what} with the others")


def same_gpus(gang: Ints) -> Bools:
    """Return whether another job holds the same GPUs, in the shape of ``gang``."""
    return np.asarray(np.bincount(gang)[gang] > 1) if gang.size else np.zeros(0, dtype=bool)
