"""A run: the engine driven round after round, with or without a run folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from morph_opt.core.domain import Allocation, Cluster, InputError, RoundState, Trace
from morph_opt.core.domain.options import changed
from morph_opt.core.domain.units import HOUR_S
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel, pair_speeds
from morph_opt.replay.outlook import Outlook, outlook_of
from morph_opt.replay.prepare import Prepared, prepare
from morph_opt.scheduling.decision.due import Late
from morph_opt.scheduling.decision.planned import PlannedStart, StartPlan
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport, decision_of
from morph_opt.scheduling.policies.registry import require_reasons
from morph_opt.scheduling.strict.rules import AllocationError
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import (
    Begun,
    Completed,
    Event,
    LateStart,
    PlanMade,
    Preempted,
    RoundDecided,
    Shared,
    SloChange,
    SloChanged,
    Started,
    StartKind,
    StartPlanned,
    event_to_line,
)
from morph_opt.simulation.metrics.bounds.demands import job_demands, packed_demands
from morph_opt.simulation.metrics.history import Scalar
from morph_opt.simulation.runs.early import EarlyEnd
from morph_opt.simulation.runs.read import folder_parts
from morph_opt.simulation.runs.result import NO_RECORD, Inputs, Record, ReplayResult, result_of
from morph_opt.simulation.runs.rounds import RoundRow, round_row
from morph_opt.simulation.runs.slo import Slo
from morph_opt.simulation.runs.tally import Tally
from morph_opt.simulation.runs.write import (
    CONFIG,
    EVENTS,
    PARTIAL,
    VERSIONS,
    Recorded,
    RunWriter,
    create_folder,
    reopen_rounds,
)

if TYPE_CHECKING:
    from morph_opt.replay.scenario import Scenario

T = TypeVar("T")

NOTES = "notes.txt"
"""File of a run folder with what the policy was asked for and does not follow, a line each."""

LOG_ACCOUNT = "log.json"
"""File of a run folder with the report on the log from which its jobs were read."""

Progress = Callable[[RoundDecided, int], None]
"""Callback after each round, with its event and the number of completed jobs."""

Foresee = Callable[[Callable[[], Outlook]], None]
"""Callback before the first round, with the function that returns the work left at any time."""


def run_prepared(
    prepared: Prepared,
    out: Path | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    foresee: Foresee | None = None,
    began: float | None = None,
    slo: Slo | None = None,
) -> ReplayResult:
    """Run a prepared scenario.

    Parameters
    ----------
    prepared
        The scenario, loaded and checked.
    out, resume, progress, foresee, slo
        See `replay`.
    began
        Start of the command, by `time.perf_counter`; None for now.

    Raises
    ------
    InputError, AllocationError, MissedError
        See `replay`.
    """
    began = time.perf_counter() if began is None else began
    scenario, account = prepared.scenario, prepared.source.account
    files = {CONFIG: scenario.to_toml(), VERSIONS: _versions_json()}
    if account is not None:
        files[LOG_ACCOUNT] = account.as_json()
    if notes := prepared.policy.notes():
        files[NOTES] = "\n".join(notes) + "\n"
    return replay(
        prepared.trace,
        scenario.cluster,
        prepared.policy,
        prepared.truth,
        scenario.engine,
        node_events=prepared.node_events(),
        out=out,
        resume=resume,
        initial=prepared.jobs.initial,
        progress=progress,
        foresee=foresee,
        packing=scenario.scheduler.packing,
        slo=slo,
        record=Record(
            files, _labels(prepared), scenario.digest, began, prepared.policy_options.rules
        ),
    )


@cache
def _versions_json() -> str:
    """Return the text of ``versions.json``: interpreter, platform and packages."""
    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    for package in ("morph-opt", "numpy", "scipy", "networkx", "highspy", "ortools"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return json.dumps(versions, indent=2) + "\n"


def _labels(prepared: Prepared) -> dict[str, Scalar]:
    """Return the values of ``summary.json`` that the scenario decides."""
    scenario, scheduler = prepared.scenario, prepared.scenario.scheduler
    source = prepared.source
    lines = {} if source.account is None else source.account.lines()
    solves = scheduler.policy == "milp"
    return {
        "objective": scheduler.objective if solves else None,
        "solver": scheduler.solver if solves else None,
        "cluster": scenario.cluster.name,
        "belief": scheduler.belief + ("+online" if scheduler.online_fit else ""),
        "restart_s": scenario.engine.restart_s,
        "seed": scenario.workload.seed,
        "trace_kind": source.kind,
        "trace_notice": source.notice,
        "skipped_jobs": len(prepared.jobs.skipped),
        **{f"trace_{name}": line for name, line in lines.items()},
    }


def replay(
    trace: Trace,
    cluster: Cluster,
    policy: Policy,
    truth: SpeedModel,
    config: ReplayConfig | None = None,
    *,
    node_events: Iterable[NodeEvent] = (),
    out: Path | None = None,
    resume: bool = False,
    initial: RoundState | None = None,
    progress: Progress | None = None,
    foresee: Foresee | None = None,
    packing: bool = False,
    slo: Slo | None = None,
    record: Record = NO_RECORD,
) -> ReplayResult:
    """Replay a trace.

    Parameters
    ----------
    trace, cluster, policy, truth
        Jobs, their cluster, the policy, and the true speeds.
    config
        Rules of the engine; None for the defaults of the command line.
    node_events
        Failures, drains and returns, sorted by time.
    out
        Run folder to write; None keeps everything in memory.
    resume
        ``out`` is an interrupted run of the same inputs: repeat its recorded decisions, then
        continue.
    initial
        State to begin with, on the same cluster. Its jobs are exactly the jobs of the trace that
        are submitted by then and not complete. The first round is at the next boundary.
    progress
        Called after each round.
    foresee
        Called once, before the first round.
    packing
        Whether jobs may share GPUs in pairs; the lower bounds then cover such schedules.
    slo
        SLO of the run, which ends once the SLO is certain to be missed.
    record
        Further values of the run folder and the summary.

    Raises
    ------
    InputError
        If a job can never run, ``out`` is in use, or an interrupted run does not fit the inputs.
    AllocationError
        If the policy breaks a rule; a run folder keeps the log up to that round.
    MissedError
        If the run is certain to miss the SLO.
    """
    inputs = Inputs(trace, cluster, truth, config or ReplayConfig(), initial)
    demands = inputs.demands(job_demands)
    try:
        engine = Engine(trace, cluster, truth, inputs.config, node_events, initial)
    except AllocationError as error:
        raise InputError(str(error), field="state") from error
    requests = GangSpeeds.on(cluster, truth)
    tally = Tally(trace, cluster, truth, requests, keep_log=out is None)
    begun = _begun(inputs, policy.name, record.digest)
    early = None
    if slo is not None:
        # Some policies pair jobs without --packing; bounds of pairs include a start-up.
        paired = slo.to_the_end and pair_speeds(truth) is not None
        known = inputs.demands(packed_demands) if paired else demands
        early = EarlyEnd(slo, trace, known)
    if foresee is not None:
        foresee(partial(outlook_of, engine, demands, engine.shares_left()))
    run = Driver(engine, policy, begun, tally, progress, early)
    run.drive(out, record.files, resume=resume)
    result = result_of(inputs, tally, demands, requests, record, packing)
    if run.writer is None or out is None:
        return result
    run.writer.finish(result.last_files())
    return replace(result, parts=folder_parts(out))


def _begun(inputs: Inputs, policy: str, digest: str) -> Begun:
    """Return the first line of the log: the identity of the run."""
    trace, cluster, config = inputs.trace, inputs.cluster, inputs.config
    deciding = (
        repr((cluster.name, cluster.nodes, cluster.leaves)),
        inputs.truth.name,
        {name: getattr(config, name) for name in changed(config)},
        digest,
    )
    text = json.dumps(deciding, default=str, sort_keys=True)
    return Begun(
        0.0 if inputs.initial is None else inputs.initial.time_s,
        trace.name,
        trace.sha256,
        policy,
        len(trace.jobs),
        len(cluster.nodes),
        cluster.gpus,
        config.interval_s,
        hashlib.sha256(text.encode()).hexdigest(),
    )


@dataclass(slots=True)
class Driver:
    """Loop over rounds: engine, policy, log and tally.

    Parameters
    ----------
    engine, policy
        The engine, and the policy that decides.
    begun
        First event of the log.
    tally
        Figures kept while the replay runs.
    progress
        Called after each round.
    early
        Check that ends the replay once it is certain to miss its SLO; None without an SLO.
    writer
        Writer of the run folder, once it is open.
    completed
        Jobs that are complete.
    """

    engine: Engine
    policy: Policy
    begun: Begun
    tally: Tally
    progress: Progress | None = None
    early: EarlyEnd | None = None
    writer: RunWriter | None = None
    completed: int = 0

    def drive(self, out: Path | None, files: Mapping[str, str], *, resume: bool) -> None:
        """Decide all rounds; repeat the recorded ones of an interrupted run first.

        The writer stays open, for the last files of the folder, unless a round fails.
        """
        self.tally.take([self.begun])
        if out is not None:
            if resume:
                reopen_rounds(out)
            else:
                create_folder(out, files)
            self.writer = RunWriter(out)
        try:
            if out is None or not (resume and self._repeat(out)):
                self._commit([self.begun])
            self._decide_all()
        except BaseException:
            if self.writer is not None:
                self.writer.close()
            raise

    def _commit(self, events: list[Event], row: RoundRow | None = None) -> None:
        if self.writer is not None:
            self.writer.commit(events, row)

    def _decide_all(self) -> None:
        steady: RoundReport | None = None
        sees_all = self.policy.remembers
        while True:
            began = time.perf_counter()
            if steady is not None and self.engine.skip_ahead():
                self._taken(steady, 0.0, 1e3 * (time.perf_counter() - began))
                continue
            state = self.engine.advance()
            if state is None:
                break
            asked = time.perf_counter()
            decision = decision_of(self.policy, state)
            decided = time.perf_counter()
            self.engine.apply(decision)
            round_ms = 1e3 * (decided - asked)
            engine_ms = 1e3 * (time.perf_counter() - began) - round_ms
            report = decision.report
            if decision.steady:
                # The value changes with time and is not computed again, so the row leaves it out.
                report = replace(report, objective=float("nan"), bound=float("nan"))
            steady = report.untimed() if decision.steady and not sees_all else None
            self._taken(report, round_ms, engine_ms)
        last = self.engine.take_events()
        self._commit(last)
        self.tally.take(last)

    def _taken(self, report: RoundReport, round_ms: float, engine_ms: float) -> None:
        """Record the events and the row of a decided round."""
        events = self.engine.take_events()
        self.tally.take(events)
        row = round_row(events, report, self.tally.promises.now, round_ms, engine_ms)
        self._commit(events, row)
        self._keep(events, row)

    def _repeat(self, folder: Path) -> bool:
        """Apply the recorded decisions of an interrupted run; return whether there were any.

        Raises
        ------
        InputError
            If they do not follow from the run's inputs.
        """
        recorded = Recorded(folder)
        lines = recorded.lines
        _require_same(lines[:1], [self.begun], folder, 1)
        position = 1
        rounds = by_round(lines[1:], lambda line: line[1])
        for row, (chunk, following_s) in zip(
            recorded.rows, followed(rounds, lambda line: line[1]), strict=True
        ):
            state = self.engine.advance()
            events: list[Event] = []
            if state is not None:
                next_s = following_s
                if next_s is None and self.engine.at_events:
                    # The last decision is taken again, for the instant that it named.
                    next_s = decision_of(self.policy, state).next_s
                elif state.jobs:
                    # Policies that remember must see the rounds that they do not decide.
                    self.policy.observe(state)
                events = self._reapply(state, [event for _, event in chunk], next_s)
            _require_same(chunk, events, folder, position + 1)
            self.tally.take(events)
            self._keep(events, row)
            position += len(chunk)
        if self.writer is not None:
            self.writer.cut(recorded.events_bytes, recorded.rounds_bytes)
        return bool(lines)

    def _reapply(
        self, state: RoundState, recorded: Sequence[Event], next_s: float | None
    ) -> list[Event]:
        """Return the events of the recorded decision; none if it is impossible."""
        try:
            self.engine.apply(recorded_decision(state, recorded, next_s))
        except (AllocationError, InputError):
            return []
        return self.engine.take_events()

    def _keep(self, events: list[Event], row: RoundRow) -> None:
        self.tally.add(row)
        if self.early is not None:
            self.early.take(events)
        if self.progress is not None and isinstance(events[-1], RoundDecided):
            self.completed += sum(isinstance(event, Completed) for event in events)
            self.progress(events[-1], self.completed)


def _require_same(
    recorded: Sequence[tuple[str, Event]], produced: Sequence[Event], folder: Path, line: int
) -> None:
    """Refuse recorded lines that the run's inputs do not produce."""
    lines = [event_to_line(event) for event in produced]
    for offset, (text, _) in enumerate(recorded):
        if offset >= len(lines) or lines[offset] != text:
            raise InputError(
                "does not follow from the run's inputs (damaged, or of another version)",
                file=str(folder / (EVENTS + PARTIAL)),
                line=line + offset,
            )


def by_round(events: Iterable[T], event_of: Callable[[T], Event]) -> Iterator[list[T]]:
    """Yield the events of each decided round; events after the last round are left out."""
    found: list[T] = []
    for one in events:
        found.append(one)
        if isinstance(event_of(one), RoundDecided):
            yield found
            found = []


def followed(
    rounds: Iterable[list[T]], event_of: Callable[[T], Event]
) -> Iterator[tuple[list[T], float | None]]:
    """Yield each round with the instant of the next one; None for the last.

    Where rounds begin at events, the policy named that instant, or an event came before it.
    """
    before: list[T] | None = None
    for chunk in rounds:
        if before is not None:
            yield before, event_of(chunk[-1]).time_s
        before = chunk
    if before is not None:
        yield before, None


def _itself(event: Event) -> Event:
    return event


def recorded_decision(
    state: RoundState, events: Sequence[Event], next_s: float | None = None
) -> Decision:
    """Return the recorded decision that changed this state by these events."""
    held = {s.running.job: s.running for s in state.jobs if s.running is not None}
    report = RoundReport("heuristic")
    slos: dict[SloChange, list[str]] = {change: [] for change in SloChange}
    late: list[Late] = []
    plan: StartPlan | None = None
    planned: list[PlannedStart] = []
    for event in events:
        match event:
            case Preempted(time_s=time_s) if time_s == state.time_s:
                held.pop(event.job, None)
            case Started() if event.kind is not StartKind.HELD:
                held[event.job] = event.assignment
            case Shared() if event.job in held:
                held[event.job] = replace(held[event.job], partner=event.partner)
            case SloChanged():
                slos[event.change].append(event.job)
            case LateStart():
                late.append(Late(event.job, event.since_s, event.why, event.from_s))
            case PlanMade():
                plan = StartPlan((), event.jobs, event.cost_s, event.bound_s)
            case StartPlanned():
                said = event.start_s, event.by_s, event.later_s, event.why
                planned.append(PlannedStart(event.job, *said))
            case RoundDecided():
                report = RoundReport(
                    event.status,
                    gap=float("nan") if event.gap is None else event.gap,
                    guarantees_short=event.guarantees_short,
                    guarantee_shortfall=event.guarantee_shortfall,
                    guarantees_possible=event.guarantees_possible,
                    slo_dropped=tuple(slos[SloChange.DROPPED]),
                    slo_restored=tuple(slos[SloChange.RESTORED]),
                    late=tuple(late),
                    plan=None if plan is None else replace(plan, starts=tuple(planned)),
                )
            case _:
                pass
    return Decision(Allocation(tuple(held.values())), report, next_s=next_s)


# ---------------------------------------------------------------- reasons afterwards


def round_at(events: Iterable[Event], at_s: float) -> RoundDecided:
    """Return the round at an instant, or the next one after it.

    Raises
    ------
    InputError
        If the run has none.
    """
    for event in events:
        if isinstance(event, RoundDecided) and event.time_s >= at_s:
            return event
    raise InputError(f"the run has no round at {at_s:g} s or later", field="at_s")


def repeated(
    prepared: Prepared, events: Iterable[Event], wanted: set[int]
) -> Iterator[tuple[RoundState, Decision]]:
    """Yield state and recorded decision of these rounds; `observe` is called for all others.

    Raises
    ------
    InputError
        If the log does not follow from the run's inputs.
    """
    scenario = prepared.scenario
    engine = Engine(
        prepared.trace,
        scenario.cluster,
        prepared.truth,
        scenario.engine,
        prepared.node_events(),
        prepared.jobs.initial,
    )
    for chunk, next_s in followed(by_round(events, _itself), _itself):
        state, decided = engine.advance(), chunk[-1]
        if state is None or not isinstance(decided, RoundDecided) or state.index != decided.index:
            raise InputError("does not follow from the run's inputs", field="events")
        decision = recorded_decision(state, chunk, next_s)
        if state.index in wanted:
            yield state, decision
        else:
            prepared.policy.observe(state)
        if state.index >= max(wanted):
            return
        engine.apply(decision)
        engine.take_events()


def reasons(
    scenario: Scenario, events: Sequence[Event], wanted: set[int], job: str
) -> Iterator[str]:
    """Yield the reason for a job's allocation in each of these rounds, by deciding them again.

    Raises
    ------
    InputError
        If the log does not follow from the run's inputs, or the job is in none of the rounds.
    """
    from morph_opt.round.decide import make_explainer
    from morph_opt.scheduling.explanation.report import Effort, UnexplainedError
    from morph_opt.scheduling.explanation.text import job_text

    prepared = prepare(scenario)
    explainer = make_explainer(prepared.policy_options, Effort(jobs=0, named=(job,)))

    def told() -> Iterator[tuple[float, str]]:
        for state, decided in repeated(prepared, events, wanted):
            again = prepared.policy.decide(state)
            if again.reason is not None:
                text = again.reason(job)
            elif again.evidence is None:
                continue
            else:
                try:
                    text = job_text(explainer.explain(again.evidence, again.allocation), job)
                except UnexplainedError as error:
                    text = f"{job}: {error}"
            if again.allocation.by_job().get(job) != decided.allocation.by_job().get(job):
                text += "\n(solved again, it gets something else: a tie or a time limit)"
            yield state.time_s, text

    return at_each(told())


def reason_at(scenario: Scenario, events: Sequence[Event], job: str, at_s: float) -> str:
    """Explain one round of a replay.

    Raises
    ------
    InputError
        If the policy states no reasons, or there is no such round or job.
    """
    require_reasons(scenario.scheduler.policy)
    wanted = {round_at(events, at_s).index}
    found = list(reasons(scenario, events, wanted, job))
    if not found:
        raise InputError("the round has no jobs, or its policy states no reasons", field="job")
    return found[-1]


def at_each(told: Iterable[tuple[float, str]]) -> Iterator[str]:
    """Yield a line per instant; a repeated text becomes ``the same``."""
    last = ""
    for time_s, text in told:
        shown = "the same" if text == last else text.replace("\n", "\n  ")
        yield f"at {hours(time_s)}: {shown}"
        last = text


def hours(time_s: float) -> str:
    """Format an instant in hours."""
    return f"{time_s / HOUR_S:.2f} h"
