"""Workloads: realisations of the future, each a trace by name and a seed.

Fleets and policies never change them (common random numbers): the seed sets the jobs and the node
failures, the solver keeps its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from morph_opt.core.domain import SEEDS, InputError, Trace
from morph_opt.core.domain.arguments import require_each
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.registry import absolute_spec, load_trace, takes_seed
from morph_opt.inputs.traces.resampled import (
    AS_IS,
    DAYS,
    WEEKS,
    history_note,
    resampled_spec,
    whole_blocks,
)
from morph_opt.plan.parameters import HISTORY
from morph_opt.replay.scenario import Scenario, Workload


@dataclass(frozen=True, slots=True)
class Source:
    """Source of workloads.

    Parameters
    ----------
    trace
        As `morph_opt.inputs.traces.registry.load_trace` takes it.
    blocks
        ``weeks`` or ``days`` that are drawn from it; ``as-is`` for a family with seeds.
    load
        Load factor.
    notes
        Notes for the answer; for a log also what was read, dropped and assumed.
    options
        Options of the trace, as `morph_opt.inputs.traces.registry.load_trace` takes it.
    """

    trace: str
    blocks: str = AS_IS
    load: float = 1.0
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """Name of the trace in a scenario."""
        return resampled_spec(self.trace, load=self.load, blocks=self.blocks)

    def put(self, scenario: Scenario, seed: int) -> Scenario:
        """Return a scenario with one of the workloads.

        Parameters
        ----------
        scenario
            Scenario whose jobs and failures are replaced.
        seed
            Seed of the workload.
        """
        return scenario.replaced(
            workload=replace(scenario.workload, trace=self.spec, seed=seed),
            failures=replace(scenario.failures, seed=seed),
        )

    def workload(self, seed: int) -> LoadedTrace:
        """Load jobs and speeds of one of the workloads."""
        return loaded(Workload(self.spec, seed, **self.options))


def source_of(
    trace: str,
    *,
    load: float = 1.0,
    blocks: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Return the workloads of a trace: members of a seeded family, else draws from a history.

    Parameters
    ----------
    trace
        Twin, original, file, or a source of one's own.
    load
        See `morph_opt.inputs.traces.resampled`.
    blocks
        ``weeks`` or ``days``; None for weeks if the history has enough, else days.
    options
        Options of the trace, as `morph_opt.inputs.traces.registry.load_trace` takes it.

    Raises
    ------
    InputError
        If the history has fewer than two whole days: one realisation is an anecdote.
    """
    trace = absolute_spec(trace)
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if blocks is None and is_family(trace):
        return Source(trace, AS_IS, load, options=given)
    past = load_trace(trace, **given)
    history = past.trace
    if blocks is None:
        blocks = WEEKS if whole_blocks(history, WEEKS) >= HISTORY.weeks else DAYS
    count = require_blocks(history, blocks)
    note = history_note(history.jobs, count, blocks)
    if count < HISTORY.few_blocks:
        note += f": the interval cannot know rarer {blocks}"
    return Source(trace, blocks, load, (note, *read_from(past)), given)


def read_from(past: LoadedTrace) -> tuple[str, ...]:
    """Return a replay's notes on the reading of a log; () for other traces."""
    return () if past.account is None else past.account.texts()


def is_family(trace: str) -> bool:
    """Return whether a trace has a member for every seed."""
    return takes_seed(trace)


def require_blocks(history: Trace, blocks: str) -> int:
    """Count the whole blocks of a history.

    Raises
    ------
    InputError
        If it has fewer than two: one realisation is an anecdote.
    """
    count = whole_blocks(history, blocks)
    if count < 2:
        raise InputError(
            f"history {history.name} has {count} whole {blocks}, a draw needs two: one realisation "
            "is an anecdote (a twin such as base has as many as seeds)",
            field="trace",
        )
    return count


def distinct(seeds: Sequence[int]) -> tuple[int, ...]:
    """Check that no seed is duplicated, and return them.

    Raises
    ------
    InputError
        If one is out of range or duplicated, which would count as two workloads.
    """
    seeds = require_each("seeds", seeds, int)
    for seed in seeds:
        SEEDS.require("seeds", seed)
    if len(set(seeds)) < len(seeds):
        raise InputError("is duplicated: a seed is one workload", field="workloads")
    return tuple(seeds)


def loaded(workload: Workload) -> LoadedTrace:
    """Load a workload's jobs and speeds; the last ones are cached."""
    given = {k: v for k, v in workload.trace_options.items() if v is not None}
    plain = {k: tuple(v.items()) if isinstance(v, Mapping) else v for k, v in given.items()}
    return _loaded(workload.trace, workload.seed, tuple(plain.items()))


@lru_cache(maxsize=64)
def _loaded(spec: str, seed: int, given: tuple[tuple[str, Any], ...]) -> LoadedTrace:
    options = {k: dict(v) if isinstance(v, tuple) else v for k, v in given}
    return load_trace(spec, seed=seed, **options)
