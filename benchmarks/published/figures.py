"""The published simulators' figures, repeated: Tiresias' event loop and Gavel's rounds.

    python -m benchmarks.published.figures tiresias --trace 60_job.csv --gpus 16 \
        --schedule dlas-gpu --times 10 --artifact-quirks
    python -m benchmarks.published.figures gavel --trace max_min_fairness.trace \
        --table simulation_throughputs.json --gpus v100=4,p100=4,k80=4 --policy fairness

No placement, no restart cost, gangs as requested: what the publications' own numbers were made
with. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.published.parts.tiresias_samples import read_samples
from benchmarks.published.simulators.gavel import (
    Moment,
    RoundJobs,
    RoundQuirks,
    RoundRun,
    simulate,
)
from benchmarks.published.simulators.tiresias import (
    Discipline,
    Quirks,
    RigidJob,
    RigidRule,
    RigidRun,
)
from benchmarks.published.simulators.tiresias import simulate as simulate_rigid
from benchmarks.published.simulators.tiresias_lists import QUEUED
from formulations.arrays import Floats
from formulations.shares.problem import ShareProblem, isolated_rates
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import NamedNumbers, Number, named_numbers, whole
from morph_opt.core.domain import SEEDS, InputError, Range
from morph_opt.core.domain.job import LONGEST_JOB_S
from morph_opt.inputs.perf.tables.gavel import GavelThroughputs, read_throughputs
from morph_opt.inputs.traces.gavel import GavelRow, read_rows
from morph_opt.inputs.traces.tiresias import TiresiasRow, read_trace_rows
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.policies import in_order
from morph_opt.scheduling.shares.request import SHARE_POLICIES, ShareRequest, shares_of

_GPUS = Range(1, 1_000_000, whole=True)

SERVED_FIRST = ("v100", "p100", "k80")
"""Order in which Gavel's simulator serves the types; others follow by name."""


SHUFFLED = ("fairness-agnostic", "isolated")
"""Policies whose published counterpart does not look at speeds: they are served in random order."""


class PublishedShares:
    """A share policy as Gavel's simulator calls it, with the isolated time of finish-time fairness.

    Parameters
    ----------
    policy
        See `morph_opt.scheduling.shares.request.SHARE_POLICIES`.
    jobs, capacity
        Of the simulation.
    artifact_quirks
        ``fifo`` stops at the first gang for which there is no room.
    """

    def __init__(
        self, policy: str, jobs: RoundJobs, capacity: Floats, *, artifact_quirks: bool = True
    ) -> None:
        self._policy, self._jobs, self._capacity = policy, jobs, capacity
        self._strictly = artifact_quirks and policy == "fifo"
        self._solve = lp_solver()
        self._isolated_s = np.zeros(jobs.count)
        self._left = jobs.steps.copy()
        self._rate = np.ones(jobs.count)

    def __call__(self, moment: Moment) -> Floats:
        """Shares of the active jobs, shape (active, T)."""
        active = moment.active
        problem = ShareProblem(self._jobs.speed[active], self._jobs.gang[active], self._capacity)
        if self._strictly:
            return in_order(problem, np.arange(active.size), strictly=True).x
        done = self._left[active] - moment.steps_left
        self._isolated_s[active] += done / self._rate[active]
        self._left[active] = moment.steps_left
        self._rate[active] = isolated_rates(problem)
        request = ShareRequest(
            problem=problem,
            weight=self._jobs.weight[active],
            steps_left=moment.steps_left,
            since_s=moment.since_s,
            isolated_s=self._isolated_s[active],
            arrival=np.arange(active.size, dtype=np.int64),
            entity=np.zeros(active.size, dtype=np.int64),
            slo_s=np.full(active.size, np.inf),
            price=np.ones(self._capacity.size),
        )
        return shares_of(self._policy, request, self._solve).x


def gavel_jobs(
    rows: Sequence[GavelRow], table: GavelThroughputs, types: Sequence[str]
) -> RoundJobs:
    """Trace rows as columns; speeds on these types, consolidated.

    Raises
    ------
    InputError
        If the table lacks a type or a job type, or a job's rounds could not be replayed in
        anybody's time.
    """
    table.require_types(types)
    for row in rows:
        try:
            table.require_key((row.job_type, row.gang))
        except InputError as error:
            raise row.located(error) from None
    speed = [[table.alone[kind].get((r.job_type, r.gang), 0.0) for kind in types] for r in rows]
    for row, fastest in zip(rows, map(max, speed), strict=True):
        if row.steps > LONGEST_JOB_S * fastest > 0.0:
            rule = (
                f"{row.steps} steps take {row.steps / fastest:g} s at {row.job_type}'s fastest, a "
                f"job takes at most {LONGEST_JOB_S:g} s"
            )
            raise row.located(InputError(rule, field="total_steps"))
    return RoundJobs(
        np.asarray(speed),
        np.asarray([r.gang for r in rows], dtype=np.int64),
        np.asarray([float(r.steps) for r in rows]),
        np.asarray([r.weight for r in rows]),
        np.asarray([r.arrival_s for r in rows]),
    )


def run_gavel(
    rows: Sequence[GavelRow],
    table: GavelThroughputs,
    gpus: dict[str, int],
    policy: str,
    *,
    artifact_quirks: bool = True,
    seed: int = 0,
) -> RoundRun:
    """Gavel's simulator on a trace.

    Parameters
    ----------
    artifact_quirks
        As the published code, `RoundQuirks` included; otherwise as the paper.
    seed
        Of the published simulator.

    Raises
    ------
    InputError
        As `gavel_jobs`; also if a gang is larger than every type.
    """
    types = sorted(gpus)
    jobs = gavel_jobs(rows, table, types)
    capacity = np.asarray([float(gpus[kind]) for kind in types])
    large = np.flatnonzero(~(((jobs.gang[:, None] <= capacity) & (jobs.speed > 0)).any(axis=1)))
    if large.size:
        job = int(large[0])
        large_gang = f"a gang of {jobs.gang[job]} fits no type on which it runs"
        raise rows[job].located(InputError(large_gang, field=f"job {job}"))
    rank = {kind: place for place, kind in enumerate(SERVED_FIRST)}
    order = sorted(range(len(types)), key=lambda k: (rank.get(types[k], len(rank)), types[k]))
    rule = PublishedShares(policy, jobs, capacity, artifact_quirks=artifact_quirks)
    quirks = RoundQuirks(shuffled=policy in SHUFFLED, seed=seed) if artifact_quirks else None
    return simulate(
        jobs,
        capacity,
        np.asarray(order),
        rule,
        skip_unwanted=policy in ("fifo", "srpt"),
        quirks=quirks,
    )


def run_tiresias(
    rows: Sequence[TiresiasRow],
    gpus: int,
    schedule: str,
    *,
    starvation_knob: float = 0.0,
    limits: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s,
    index: GittinsIndex | None = None,
    artifact_quirks: bool = False,
) -> tuple[RigidRun, ...]:
    """Tiresias' simulator on a trace; ``artifact_quirks`` turns both `Quirks` on.

    Raises
    ------
    InputError
        If the schedule is unknown, needs an index that is not given, or a gang is too large.
    """
    try:
        discipline = Discipline(schedule)
    except ValueError:
        known = ", ".join(Discipline)
        raise InputError(
            f"unknown schedule {schedule!r}; known are {known}", field="--schedule"
        ) from None
    rule = RigidRule(
        discipline, limits, starvation_knob, index, Quirks(artifact_quirks, artifact_quirks)
    )
    jobs = [RigidJob(r.name, r.gpus, r.submit_s, r.duration_s) for r in rows]
    for row in rows:
        if row.gpus > gpus:
            too_many = f"asks for {row.gpus} GPUs, the cluster has {gpus}"
            raise row.located(InputError(too_many, field=f"job {row.name}"))
    return simulate_rigid(jobs, gpus, rule)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; exit 2 with one line on bad input."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    result = _gavel(options) if options.simulator == "gavel" else _tiresias(options)
    print(json.dumps(result, indent=2))
    return 0


def _gavel(options: argparse.Namespace) -> dict[str, float | int | str | bool]:
    run = run_gavel(
        read_rows(options.trace),
        read_throughputs(options.table),
        {kind.lower(): int(n) for kind, n in named_numbers(options.gpus, "--gpus", _GPUS).items()},
        options.policy,
        artifact_quirks=options.artifact_quirks,
        seed=options.seed,
    )
    return {
        "policy": options.policy,
        "artifact_quirks": options.artifact_quirks,
        "jobs": int(run.jct_s.size),
        "failed": int(run.failed.sum()),
        "avg_jct_h": run.average_jct_s / 3600.0,
        "makespan_h": run.makespan_s / 3600.0,
        "resets": run.resets,
    }


def _tiresias(options: argparse.Namespace) -> dict[str, float | int | str | bool]:
    rows = [row.times(options.times) for row in read_trace_rows(options.trace)]
    index = None
    if options.samples:
        index = GittinsIndex.of(read_samples(options.samples))
    runs = run_tiresias(
        rows,
        options.gpus,
        options.schedule,
        starvation_knob=options.starvation_knob,
        index=index,
        artifact_quirks=options.artifact_quirks,
    )
    return {
        "schedule": options.schedule,
        "artifact_quirks": options.artifact_quirks,
        "jobs": len(runs),
        "avg_jct_s": sum(r.jct_s for r in runs) / len(runs),
        "makespan_s": max(r.end_s for r in runs),
        "preemptions": sum(r.preemptions for r in runs),
        "promotions": sum(r.promotions for r in runs),
    }


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m benchmarks.published.figures",
        description="The published simulators' figures, repeated; prints one JSON object.",
    )
    commands = parser.add_subparsers(dest="simulator", required=True)
    gavel = commands.add_parser("gavel", help="rounds of 360 s after target shares")
    gavel.add_argument("--trace", required=True, type=Path, metavar="FILE")
    gavel.add_argument(
        "--table", required=True, type=Path, metavar="FILE", help="simulation_throughputs.json"
    )
    gavel.add_argument(
        "--gpus",
        required=True,
        type=NamedNumbers(_GPUS),
        metavar="TYPE=N,...",
        help="v100=4,p100=4,k80=4",
    )
    gavel.add_argument("--policy", choices=SHARE_POLICIES, default="fairness")
    gavel.add_argument(
        "--artifact-quirks",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="as the published code (default), or as the paper",
    )
    gavel.add_argument("--seed", type=Number(SEEDS), default=0, help="of the published simulator")
    gavel.only(
        "--seed",
        f"has an effect on published {' and '.join(SHUFFLED)} only",
        lambda given: given.artifact_quirks and given.policy in SHUFFLED,
    )
    rigid = commands.add_parser("tiresias", help="event-driven rigid gangs")
    rigid.add_argument("--trace", required=True, type=Path, metavar="FILE")
    rigid.add_argument("--gpus", type=Number(_GPUS), required=True)
    rigid.add_argument("--schedule", choices=[str(one) for one in Discipline], default="dlas-gpu")
    rigid.add_argument("--times", type=whole(1, 10**6), default=1, help="factor on all run times")
    rigid.add_argument(
        "--starvation-knob",
        type=Number(Range(0.0, 1e6)),
        default=0.0,
        help="wait over run time (0: never)",
    )
    rigid.add_argument(
        "--samples", type=Path, metavar="FILE", help="GPU-seconds for the Gittins index"
    )
    rigid.add_argument("--artifact-quirks", action="store_true", help="as the published code")
    for option in ("--starvation-knob", "--artifact-quirks"):
        rigid.only(
            option,
            "has an effect on schedules with queues only (dlas...)",
            lambda given: Discipline(given.schedule) in QUEUED,
        )
    rigid.only(
        "--samples",
        f"has an effect on --schedule {Discipline.GITTINS} only",
        lambda given: given.schedule == Discipline.GITTINS,
    )
    return parser


if __name__ == "__main__":
    sys.exit(as_process(main))
