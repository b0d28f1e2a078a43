"""Runs of solvers on instances: the evidence for best-known values, bounds and hardness.

``runs.csv`` has a row per instance and solver: the longest run, with the processor seconds that it
took. Values and bounds are those of the MPS files, as in ``library.csv``: minimised.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from benchmarks.instances.library import Instance
from morph_opt.core.documents import Row, read_rows, write_atomically
from morph_opt.scheduling.solvers.outcome import relative_gap

TABLE = "runs.csv"

GAP = 1e-6
"""Relative gap at which an instance counts as solved."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run of a solver on an instance.

    Parameters
    ----------
    instance
        Name.
    solver
        Name on the command line.
    version
        Name and version of the library.
    threads
        Threads that it was given.
    cpu_s
        Processor seconds.
    nodes
        Branch-and-bound nodes; 0 if the library states none.
    status
        Word of `morph_opt.scheduling.solvers.outcome.Status`.
    value, bound
        Maximised objective of the point found, -inf if there is none, and upper bound on it, inf
        if there is none.
    started
        Whether it began with the best-known solution.
    """

    instance: str
    solver: str
    version: str
    threads: int
    cpu_s: float
    nodes: int
    status: str
    value: float
    bound: float
    started: bool

    @property
    def gap(self) -> float:
        """Relative gap of value and bound; inf without either."""
        return relative_gap(self.value, self.bound)

    @property
    def solved(self) -> bool:
        """Whether the run proves its value within `GAP`."""
        return self.gap <= GAP

    @property
    def words(self) -> str:
        """Prover in a table's words."""
        return f"{self.version}, {self.cpu_s:.3g} s, {self.threads} thread" + (
            "s" if self.threads > 1 else ""
        )


def read_runs(folder: Path) -> tuple[Run, ...]:
    """Return the rows of ``runs.csv``; none if there is no file.

    Raises
    ------
    InputError
        If the table is damaged; it names line and field.
    """
    path = folder / TABLE
    if not path.is_file():
        return ()
    return tuple(_run(row) for row in read_rows(path, [field.name for field in fields(Run)]))


def _run(row: Row) -> Run:
    value, bound = (
        -row.number(name, at_least=-math.inf) if row.cells[name] else missing
        for name, missing in (("value", -math.inf), ("bound", math.inf))
    )
    return Run(
        row.text("instance"),
        row.text("solver"),
        row.text("version"),
        row.integer("threads", at_least=1),
        row.number("cpu_s", at_least=0.0),
        row.integer("nodes", at_least=0),
        row.text("status"),
        value,
        bound,
        row.flag("started"),
    )


def write_runs(folder: Path, runs: Iterable[Run]) -> None:
    """Write ``runs.csv``, sorted by instance and solver; a number that is missing is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(Run)], lineterminator="\n")
    writer.writeheader()
    for run in sorted(runs, key=lambda one: (one.instance, one.solver)):
        numbers = {name: getattr(run, name) for name in ("value", "bound")}
        shown = {k: -v if math.isfinite(v) else "" for k, v in numbers.items()}
        writer.writerow(asdict(run) | shown | {"started": int(run.started)})
    write_atomically(folder / TABLE, text.getvalue())


def with_run(runs: Iterable[Run], new: Run) -> tuple[Run, ...]:
    """Return the runs with another one in place of a shorter one of the same solver."""
    known = {(one.instance, one.solver): one for one in runs}
    old = known.get((new.instance, new.solver))
    if old is None or new.solved or new.cpu_s >= old.cpu_s:
        known[new.instance, new.solver] = new
    return tuple(known.values())


def settled(instance: Instance, runs: Iterable[Run]) -> Instance:
    """Return the row of an instance with the least bound that its runs prove, and the prover."""
    own = [run for run in runs if run.instance == instance.name and math.isfinite(run.bound)]
    if not own:
        return instance
    # Of equal bounds, the quickest proof.
    scale = GAP * max(1.0, abs(instance.best))
    least = min(run.bound for run in own)
    prover = min((r for r in own if r.bound <= least + scale), key=lambda run: run.cpu_s)
    bound = max(prover.bound, instance.best)
    return replace(instance, bound=bound, proof=prover.words)
