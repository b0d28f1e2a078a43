"""Series for reoptimisation: 20 consecutive rounds of a replay, each an instance of its own.

What a round decides is where the next one begins, so models repeat in large parts. ``jobs.csv``
names the jobs of each round in the order of their indices: ``x[3,17]`` and ``s[3]`` are columns of
the fourth. Nodes have the same indices in all rounds; candidates are rows of ``.round.json``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instances.rounds import replayed_states
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel

FOLDER = "series"
"""Of the library's folder."""

JOBS = "jobs.csv"
"""Table of the jobs of each round."""

ROUNDS = 20
"""Rounds of a series."""


@dataclass(frozen=True, slots=True)
class Series:
    """Consecutive rounds of a replay of the policy ``milp`` on the default cluster.

    Parameters
    ----------
    trace, objective
        Twin and objective.
    first
        Number of the first round.
    """

    trace: str
    objective: str
    first: int

    @property
    def name(self) -> str:
        """For example ``series-base-jct``."""
        return f"series-{self.trace}-{self.objective}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the instances, in order of time."""
        return tuple(f"{self.name}-{self.first + at}" for at in range(ROUNDS))

    def states(self) -> tuple[dict[str, RoundState], SpeedModel]:
        """Return the snapshot of each instance by name, and the speeds that the replay ran by."""
        states, speeds = replayed_states(self.trace, 0, "milp", self.objective)
        known = {f"{self.name}-{state.index}": state for state in states}
        return {name: known[name] for name in self.names}, speeds


SERIES = (
    Series("base", "jct", 462),
    Series("mt", "lookahead", 740),
    Series("bp", "saved-time", 461),
)


def read_jobs(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the jobs of each round of a folder, by instance.

    Raises
    ------
    InputError
        If the table is missing or damaged.
    """
    rows = read_rows(folder / JOBS, ["instance", "jobs"])
    return {row.text("instance"): tuple(row.cells["jobs"].split()) for row in rows}


def write_jobs(folder: Path, jobs: Mapping[str, tuple[str, ...]]) -> None:
    """Write ``jobs.csv``, sorted by instance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["instance", "jobs"])
    writer.writerows([name, " ".join(jobs[name])] for name in sorted(jobs))
    write_atomically(folder / JOBS, text.getvalue())


def jobs_of(states: Mapping[str, RoundState]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each instance with the names of its jobs in the order of their indices."""
    for name, state in states.items():
        yield name, tuple(held.job.name for held in state.jobs)
