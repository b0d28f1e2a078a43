"""What is run, as one value: `Scenario`; its file form is ``config.toml``."""

from __future__ import annotations

from pathlib import Path

from morph_opt.replay.described import Described, Failures, Scheduler, read_described
from morph_opt.replay.drive import Progress
from morph_opt.replay.running import run_prepared
from morph_opt.replay.setup import prepare
from morph_opt.replay.workload import Workload
from morph_opt.runs.read import Run

__all__ = ["Failures", "Scenario", "Scheduler", "Workload", "read_scenario"]


class Scenario(Described):
    """A run: which jobs, on what, who decides, by which rules of the engine.

    >>> Scenario("base", "8x8:A800-80GB", objective="jct").scheduler.objective
    'jct'

    Parameters
    ----------
    trace, seed
        Short for fields of ``workload``; the seed is that of failures and solver too.
    cluster
        A cluster, its short form (``8x8:A800-80GB``) or a file; None for that of the trace.
    policy, objective
        Short for fields of ``scheduler``.
    state
        Short for the field of ``workload``. It brings cluster and interval where none is given, and
        then no job arrives behind it unless a trace is named.
    workload, scheduler, engine, failures
        Everything else, part by part.

    Raises
    ------
    InputError
        If a value is out of its range, or the cluster cannot be read.
    """

    __slots__ = ()

    def run(
        self,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> Run:
        """Replay it.

        Parameters
        ----------
        out
            Run folder to write; None keeps the run in memory.
        resume
            ``out`` is an interrupted run of the same scenario: go on with it.
        progress
            Called after each round with its event and the number of completed jobs.

        Raises
        ------
        InputError
            For everything that a user can cause, found before the run begins.
        morph_opt.engine.strict.AllocationError
            If a policy of one's own breaks a rule.
        """
        folder = None if out is None else Path(out)
        result = run_prepared(prepare(self), folder, resume=resume, progress=progress)
        return Run(result.parts, folder)


def read_scenario(path: str | Path) -> Scenario:
    """The scenario of a ``config.toml`` that `Scenario.to_toml` wrote.

    Raises
    ------
    InputError
        If the file is missing or is not one.
    """
    return Scenario(**read_described(path))
