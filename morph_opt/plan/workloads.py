"""Workloads: realisations of what may come, each a trace by name and a seed.

Fleets and policies never change them (common random numbers): the seed is that of the jobs and of
the node failures, the solver keeps its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from morph_opt.domain import SEEDS, InputError, Trace
from morph_opt.domain.arguments import require_each
from morph_opt.replay.scenario import Scenario
from morph_opt.replay.workload import Workload
from morph_opt.traces.format import LoadedTrace
from morph_opt.traces.registry import absolute_spec, load_trace, takes_seed
from morph_opt.traces.resampled import (
    AS_IS,
    DAYS,
    WEEKS,
    history_note,
    resampled_spec,
    whole_blocks,
)

LEAST_WEEKS = 6
"""Weeks of history from which on whole weeks are drawn, not days."""
FEW_BLOCKS = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Where workloads come from.

    Parameters
    ----------
    trace
        As `morph_opt.traces.registry.load_trace` takes it.
    blocks
        ``weeks`` or ``days`` that are drawn from it; ``as-is`` for a family with seeds.
    load
        Load factor.
    notes
        What the answer has to say about it: of a log also what was read, dropped, assumed.
    options
        Options of the trace, as `morph_opt.traces.registry.load_trace` takes it.
    """

    trace: str
    blocks: str = AS_IS
    load: float = 1.0
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """The trace of a scenario."""
        return resampled_spec(self.trace, load=self.load, blocks=self.blocks)

    def put(self, scenario: Scenario, seed: int) -> Scenario:
        """A scenario under one of its workloads.

        Parameters
        ----------
        scenario
            Whose jobs and failures are replaced.
        seed
            Which workload.
        """
        return scenario.replaced(
            workload=replace(scenario.workload, trace=self.spec, seed=seed),
            failures=replace(scenario.failures, seed=seed),
        )

    def workload(self, seed: int) -> LoadedTrace:
        """Jobs and speeds of one of its workloads."""
        return loaded(Workload(self.spec, seed, **self.options))


def source_of(
    trace: str,
    *,
    load: float = 1.0,
    blocks: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """The workloads of a trace: the members of a seeded family, else draws from a history.

    Parameters
    ----------
    trace
        Twin, original, file, or a source of one's own.
    load
        See `morph_opt.traces.resampled`.
    blocks
        ``weeks`` or ``days``; None: as the history allows.
    options
        Options of the trace, as `morph_opt.traces.registry.load_trace` takes it.

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
        blocks = WEEKS if whole_blocks(history, WEEKS) >= LEAST_WEEKS else DAYS
    count = require_blocks(history, blocks)
    note = history_note(history.jobs, count, blocks)
    if count < FEW_BLOCKS:
        note += f": the interval cannot know rarer {blocks}"
    return Source(trace, blocks, load, (note, *read_from(past)), given)


def read_from(past: LoadedTrace) -> tuple[str, ...]:
    """The lines on a log that a replay of it prints; none for other traces."""
    return () if past.account is None else past.account.texts()


def is_family(trace: str) -> bool:
    """Whether a trace has a member for every seed."""
    return takes_seed(trace)


def require_blocks(history: Trace, blocks: str) -> int:
    """Whole blocks of a history.

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
    """The seeds, each once.

    Raises
    ------
    InputError
        If one stands twice, which would count as two workloads, or is none.
    """
    seeds = require_each("seeds", seeds, int)
    for seed in seeds:
        SEEDS.require("seeds", seed)
    if len(set(seeds)) < len(seeds):
        raise InputError("a seed stands twice: it is one workload", field="workloads")
    return tuple(seeds)


def loaded(workload: Workload) -> LoadedTrace:
    """A workload's jobs and speeds; the last ones are remembered."""
    given = {k: v for k, v in workload.trace_options.items() if v is not None}
    plain = {k: tuple(v.items()) if isinstance(v, Mapping) else v for k, v in given.items()}
    return _loaded(workload.trace, workload.seed, tuple(plain.items()))


@lru_cache(maxsize=64)
def _loaded(spec: str, seed: int, given: tuple[tuple[str, Any], ...]) -> LoadedTrace:
    options = {k: dict(v) if isinstance(v, tuple) else v for k, v in given}
    return load_trace(spec, seed=seed, **options)
