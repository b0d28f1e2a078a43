"""Mixed-integer optimisation of deep-learning training schedules on GPU clusters.

Run a scenario

    Scenario        Definition of a run: workload, cluster, scheduler, engine and failures
    Workload        Workload of a run: its trace, seed and initial state
    Scheduler       Choice of policy, objective and belief, with their options
    Failures        Failures and returns of nodes
    ReplayConfig    Settings of the engine, in addition to trace, cluster, policy and true speeds
    read_scenario   Read the scenario of a ``config.toml`` that `Scenario.to_toml` wrote

Look at what happened

    Run             Finished run
    read_run        Read the run that a folder holds
    report          Write a report on finished runs: one HTML file that opens anywhere
    Summary         Figures of a run; an undefined float is NaN
    Table           Header and rows

Ask what takes many runs

    plan            Capacity planning: number of nodes, choice of a fleet, value of a change
    sweep           Sweeps of replays: cells with keys, a cache, executors, failures as rows

Decide one round

    decide          Decide one round, given by a snapshot or the file of one
    PolicyOptions   Options of a policy with the operator's rules
    moves           Find the cheapest moves that let a job start, free places or empty nodes
    RoundDecision   A decided snapshot
    Snapshot        A round to decide
    read_snapshot   Read the snapshot of a file, of a compressed file (``.gz``), or of stdin (``-``)

Build inputs

    Cluster         An ordered set of nodes; a node's index is its position
    load_cluster    Load a cluster from its short form or the path of a spec or a graph
    cluster_from_graph  Return the cluster that a networkx graph describes
    cluster_to_graph    Return the topology of a cluster as a networkx graph
    Job             Training job: its model, its work, and its request
    Trace           Named, ordered jobs
    load_trace      Load a trace by name, import path or file

Write your own

    FillingPolicy   Policy that places jobs one by one in the order of its method `fill`
    Policy          Scheduling policy: decides one round after the other
    Decision        Allocation with the report of how it was found
    Allocation      Assignments of one round; jobs without one hold nothing
    Objective       Goals of rounds, most important first
    Stateless       Objective that needs only the round's tables
    Level           One goal of a ranked list: maximise ``sum value x`` over the options

    LoadedTrace     Trace with the true speeds of its jobs
    TableReader     Reader of a table with one row per line
    LogRow          Job of a log, or one attempt before attempts are folded

    InputError      Error of the input, with file, line, field and rule

These names are the public ones; ``docs/api.md`` says what that means. The commands are listed by
``python -m morph_opt``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from morph_opt.core.lazy import lazily
from morph_opt.core.version import __version__ as __version__

if TYPE_CHECKING:
    from morph_opt import plan, sweep
    from morph_opt.core.domain.cluster import Cluster
    from morph_opt.core.domain.errors import InputError
    from morph_opt.core.domain.job import Job
    from morph_opt.core.domain.placement import Allocation
    from morph_opt.core.domain.trace import Trace
    from morph_opt.core.table import Table
    from morph_opt.explain.why import read_run
    from morph_opt.inputs.clusters.short import load_cluster
    from morph_opt.inputs.topology.graph import cluster_to_graph
    from morph_opt.inputs.topology.reading import cluster_from_graph
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.inputs.traces.logs.reading.reader import TableReader
    from morph_opt.inputs.traces.logs.reading.row import LogRow
    from morph_opt.inputs.traces.registry import load_trace
    from morph_opt.moves.api import moves
    from morph_opt.replay.scenario import Failures, Scenario, Workload, read_scenario
    from morph_opt.report.api import report
    from morph_opt.round.decide import RoundDecision, decide
    from morph_opt.round.reader import read_snapshot
    from morph_opt.round.snapshot import Snapshot
    from morph_opt.scheduling.decision.objective import Level, Objective, Stateless
    from morph_opt.scheduling.policies.base import Decision, Policy
    from morph_opt.scheduling.policies.filling import FillingPolicy
    from morph_opt.scheduling.policies.options import PolicyOptions, Scheduler
    from morph_opt.simulation.engine.config import ReplayConfig
    from morph_opt.simulation.runs.read import Run
    from morph_opt.simulation.runs.summary import Summary
else:
    __getattr__ = lazily(
        __name__,
        {
            ".": ("plan", "sweep"),
            ".inputs.clusters.short": ("load_cluster",),
            ".inputs.topology.graph": ("cluster_to_graph",),
            ".inputs.topology.reading": ("cluster_from_graph",),
            ".scheduling.decision.objective": ("Level", "Objective", "Stateless"),
            ".core.domain.cluster": ("Cluster",),
            ".core.domain.errors": ("InputError",),
            ".core.domain.job": ("Job",),
            ".core.domain.placement": ("Allocation",),
            ".core.domain.trace": ("Trace",),
            ".simulation.engine.config": ("ReplayConfig",),
            ".explain.why": ("read_run",),
            ".scheduling.policies.base": ("Decision", "Policy"),
            ".scheduling.policies.filling": ("FillingPolicy",),
            ".scheduling.policies.options": ("PolicyOptions", "Scheduler"),
            ".replay.scenario": ("Failures", "Scenario", "Workload", "read_scenario"),
            ".moves.api": ("moves",),
            ".report.api": ("report",),
            ".round.decide": ("RoundDecision", "decide"),
            ".round.reader": ("read_snapshot",),
            ".round.snapshot": ("Snapshot",),
            ".simulation.runs.read": ("Run",),
            ".simulation.runs.summary": ("Summary",),
            ".core.table": ("Table",),
            ".inputs.traces.format": ("LoadedTrace",),
            ".inputs.traces.logs.reading.reader": ("TableReader",),
            ".inputs.traces.logs.reading.row": ("LogRow",),
            ".inputs.traces.registry": ("load_trace",),
        },
    )

__all__ = [
    "Allocation",
    "Cluster",
    "Decision",
    "Failures",
    "FillingPolicy",
    "InputError",
    "Job",
    "Level",
    "LoadedTrace",
    "LogRow",
    "Objective",
    "Policy",
    "PolicyOptions",
    "ReplayConfig",
    "RoundDecision",
    "Run",
    "Scenario",
    "Scheduler",
    "Snapshot",
    "Stateless",
    "Summary",
    "Table",
    "TableReader",
    "Trace",
    "Workload",
    "cluster_from_graph",
    "cluster_to_graph",
    "decide",
    "load_cluster",
    "load_trace",
    "moves",
    "plan",
    "read_run",
    "read_scenario",
    "read_snapshot",
    "report",
    "sweep",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
