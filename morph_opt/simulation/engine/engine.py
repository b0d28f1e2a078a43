"""Event engine: pure, deterministic, strict.

It advances a trace from boundary to boundary. At boundary ``t`` everything up to and including
``t`` is settled (completions, node events, arrivals), then the caller's decision is checked and
applied. It reads no clock and no file, and calls no policy:

>>> while (state := engine.advance()) is not None:      # doctest: +SKIP
...     engine.apply(policy.decide(state))
...     log.extend(engine.take_events())

``docs/replay.md`` has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from morph_opt.core.domain import Assignment, Cluster, Job, RoundState, Trace, gpus_held
from morph_opt.core.domain.errors import ContractError
from morph_opt.core.domain.round_state import unchecked
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.planned import StartPlan
from morph_opt.scheduling.policies.base import Decision, RoundReport
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunFacts, RunLookup
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts
from morph_opt.simulation.engine.coming import Completions, NodeStatuses, Searches
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.initial import begin_from
from morph_opt.simulation.engine.live import LiveJob, changes
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import (
    Cancelled,
    Completed,
    Ended,
    EndReason,
    Event,
    LateStart,
    NodeChanged,
    NodeStatus,
    PlanMade,
    Preempted,
    RoundDecided,
    Shared,
    SloChange,
    SloChanged,
    Started,
    StartKind,
    StartPlanned,
    StopCause,
    Submitted,
)

# order of events at the same instant
_COMPLETE, _NODE, _STOP, _ARRIVE, _CANCEL = range(5)


class Engine:
    """Engine of one replay, from the first boundary to the last completion.

    Parameters
    ----------
    trace, cluster, truth, config
        Jobs, nodes, true speeds, and settings.
    node_events
        Failures, drains and returns, sorted by time; may be endless.
    initial
        State from which the replay starts; its jobs are jobs of the trace, and the first round is
        at the first boundary not before it. None to start empty at 0.

    Raises
    ------
    AllocationError
        If what jobs hold in ``initial`` breaks a rule.
    """

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        truth: SpeedModel,
        config: ReplayConfig,
        node_events: Iterable[NodeEvent] = (),
        initial: RoundState | None = None,
    ) -> None:
        self._trace = trace
        self._cluster = cluster
        self._config = config
        self._lookup = RunLookup(truth, cluster)
        self._check = PlacementCheck(self._lookup)
        self._nodes = NodeStatuses(node_events)
        self._known = frozenset(job.name for job in trace.jobs)
        self._arrived = 0
        self._active: dict[str, LiveJob] = {}  # in the order of the jobs of a `RoundState`
        self._jobs: dict[str, Job] = {}  # of the active ones
        self._held: dict[str, Assignment] = {}
        self._facts: dict[str, RunFacts] = {}
        self._on_node: dict[int, set[str]] = {}
        self._completions = Completions(self._active)
        self._boundary = 0  # of the instant 0, at which nothing is decided
        self._now_s = 0.0
        self._asked_s = math.inf  # instant at which the policy wants to decide again
        self._idle_rounds = 0
        self._last: RoundDecided | None = None  # of a round that changed nothing
        self._last_completion_s = 0.0
        self._late: dict[str, str] = {}  # reason of each job that is late
        self._searches = Searches(trace)
        self._decision_due = False
        self._ended = False
        self._settled: list[tuple[float, int, Event]] = []
        self._events: list[Event] = []
        if initial is not None:
            self._begin_from(initial)

    @property
    def now_s(self) -> float:
        """Instant of the current boundary."""
        return self._now_s

    @property
    def until_s(self) -> float | None:
        """Instant at which the replay stops; None for the last completion."""
        return self._config.until_s

    def shares_left(self) -> dict[str, float]:
        """Return the share of its iterations that each active job has left."""
        active, now_s = self._active.items(), self._now_s
        return {
            name: 1.0 - live.iterations_at(now_s) / live.job.iterations for name, live in active
        }

    @property
    def at_events(self) -> bool:
        """Whether rounds begin at events."""
        return self._config.at_events

    @property
    def _round(self) -> int:
        """Number of the round that the current boundary begins, from 0 on."""
        return self._boundary - 1

    def take_events(self) -> list[Event]:
        """Return events since the last call, in order."""
        taken, self._events = self._events, []
        return taken

    def advance(self) -> RoundState | None:
        """Advance to the next boundary with an active job; return its state, None at the end."""
        if self._decision_due:
            raise RuntimeError("the round has not been decided")
        while not self._ended:
            coming = self._next_boundary()
            until_s = self._config.until_s
            if coming is not None and until_s is not None and coming[1] > until_s:
                self._settle(until_s)
                self._end(EndReason.HORIZON, until_s)
            elif coming is None:
                reason = EndReason.STALLED if self._active else EndReason.COMPLETE
                self._end(reason, self.now_s if self._active else self._last_completion_s)
            elif self._idle_rounds >= self._config.stall_rounds:
                self._end(EndReason.STALLED, self.now_s)
            else:
                self._boundary, self._now_s = coming
                self._settle(self.now_s)
                if self._active:
                    self._decision_due = True
                    return self._snapshot()
        return None

    def apply(self, decision: Decision) -> None:
        """Check the round's allocation and put it into effect.

        Raises
        ------
        AllocationError
            If it breaks a rule; the engine's state is then unchanged.
        ContractError
            If it names a next instant that is not later than this one.
        """
        if not self._decision_due:
            raise RuntimeError("there is no round to decide")
        if decision.next_s is not None and not decision.next_s > self.now_s:
            rule = f"next_s of a decision at {self.now_s:g} s must be later, got {decision.next_s}"
            raise ContractError(rule)
        assignments = decision.allocation.assignments
        down = self._nodes.unavailable, self._nodes.failed
        before = StateFacts(self._jobs, self._known, self._held, *down)
        violations = self._check.check(assignments, before)
        if violations:
            raise AllocationError(self._round, self.now_s, violations)
        granted = {assignment.job: assignment for assignment in assignments}
        left = [name for name in self._held if name not in granted]
        for name in left:
            self._preempt(self._active[name])
        fresh, regrouped = changes(assignments, self._held, lambda a: self._active[a.job].order)
        for assignment in fresh:
            self._start(assignment, self._iteration_s(assignment, granted))
        for assignment in regrouped:
            iteration_s = self._iteration_s(assignment, granted)
            shared = self._share(assignment.job, assignment.partner, self.now_s, iteration_s)
            self._events.append(shared)
        for change, names in (
            (SloChange.DROPPED, decision.report.slo_dropped),
            (SloChange.RESTORED, decision.report.slo_restored),
        ):
            self._events += [SloChanged(self.now_s, name, change) for name in names]
        self._say_late(decision.report)
        self._say_planned(decision.report.plan)
        self._idle_rounds = 0 if self._held else self._idle_rounds + 1
        self._asked_s = math.inf if decision.next_s is None else decision.next_s
        decided = self._decided(decision.report)
        self._last = None if left or fresh or regrouped else decided
        self._events.append(decided)
        self._decision_due = False

    def _say_late(self, report: RoundReport) -> None:
        """Record jobs that are due and do not start, once per reason."""
        for late in report.late:
            if self._late.get(late.job) != late.why:
                self._late[late.job] = late.why
                said = LateStart(self.now_s, late.job, late.since_s, late.why, late.from_s)
                self._events.append(said)

    def _say_planned(self, plan: StartPlan | None) -> None:
        """Record a plan, and keep its starts for the next state."""
        if plan is None:
            return
        self._events.append(PlanMade(self.now_s, plan.jobs, plan.cost_s, plan.bound_s))
        for one in plan.starts:
            live = self._active.get(one.job)
            if live is not None and live.running is None:
                live.planned_s, live.promised_s = one.start_s, one.by_s
                said = one.start_s, one.by_s, one.later_s, one.why
                self._events.append(StartPlanned(self.now_s, one.job, *said))

    def _decided(self, report: RoundReport) -> RoundDecided:
        """Return the event of the round whose decision has been applied."""
        held = tuple(self._held.values())
        return RoundDecided(
            time_s=self.now_s,
            index=self._round,
            active=len(self._active),
            running=len(held),
            gpus=gpus_held(held),
            status=report.status,
            gap=report.gap if math.isfinite(report.gap) else None,
            guarantees_short=report.guarantees_short,
            guarantee_shortfall=report.guarantee_shortfall,
            guarantees_possible=report.guarantees_possible,
        )

    def skip_ahead(self) -> bool:
        """Repeat a steady decision at the next boundary, and return whether that was possible.

        It is possible if nothing happens until then. Otherwise nothing is done, and `advance` is to
        be called. It costs the same for any number of jobs.
        """
        config, jobs = self._config, self._trace.jobs
        time_s = (self._boundary + 1) * config.interval_s
        # Go through `advance` if (1) the last round changed an allocation, or none was decided;
        # (2) this boundary is not decided yet; (3) a search is open, whose trials `advance` cuts;
        # (4) the replay has stalled, which `advance` ends; (5) the horizon comes before the next
        # boundary; (6) a job arrives by then; or (7) a node changes, a job completes or the
        # policy wants to decide by then.
        # Where rounds begin at events, something happens at each.
        if (
            config.at_events
            or self._last is None
            or self._decision_due
            or self._searches.open
            or self._idle_rounds >= config.stall_rounds
            or (config.until_s is not None and time_s > config.until_s)
            or (self._arrived < len(jobs) and jobs[self._arrived].submission_s <= time_s)
            or min(self._nodes.next_s, self._completions.next_s, self._asked_s) <= time_s
        ):
            return False
        self._boundary += 1
        self._now_s = time_s
        self._idle_rounds = 0 if self._held else self._idle_rounds + 1
        self._last = replace(self._last, time_s=time_s, index=self._round)
        self._events.append(self._last)
        return True

    # --- initial state -------------------------------------------------------------------------

    def _begin_from(self, state: RoundState) -> None:
        """Start from a state, as if the engine had reached it by itself."""
        begin = begin_from(state, self._trace, self._lookup, self._check)
        self._boundary = self._config.boundary_at_or_after(state.time_s) - 1
        self._now_s = self._boundary * self._config.interval_s
        if self._config.at_events:  # the first round begins at the state's own instant
            self._now_s, self._asked_s = min(self._now_s, state.time_s), state.time_s
        self._nodes.begin_from(state)
        self._arrived = begin.arrived
        self._active.update(begin.active)
        self._jobs.update((name, live.job) for name, live in begin.active.items())
        self._events = begin.events
        for name, (assignment, facts) in begin.held.items():
            self._hold(self._active[name], assignment, facts)

    # --- time -------------------------------------------------------------------------------

    def _next_boundary(self) -> tuple[int, float] | None:
        """Return number and instant of the next boundary; None if none will come."""
        jobs, interval_s = self._trace.jobs, self._config.interval_s
        arrives_s = jobs[self._arrived].submission_s if self._arrived < len(jobs) else math.inf
        if self._config.at_events:
            events = (arrives_s, self._completions.next_s, self._nodes.next_s, self._asked_s)
            time_s = min(events if self._active else events[:1])
            return None if time_s == math.inf else (self._boundary + 1, time_s)
        boundary = self._boundary + 1
        if not self._active:
            if arrives_s == math.inf:
                return None
            boundary = max(boundary, self._config.boundary_at_or_after(arrives_s))
        return boundary, boundary * interval_s

    def _settle(self, until_s: float) -> None:
        """Apply everything that happens up to and including an instant, in order of time."""
        while (instant_s := self._nodes.next_s) <= until_s:
            self._complete(instant_s)
            self._change_node(self._nodes.take())
        self._complete(until_s)
        jobs, fresh = self._trace.jobs, []
        while self._arrived < len(jobs) and jobs[self._arrived].submission_s <= until_s:
            job = jobs[self._arrived]
            prices = self._config.prices_of(self._config.restart_of(job.model))
            first_s = self._config.first_start_of(job.model)
            fresh.append(LiveJob(job, self._arrived, prices, first_start_up_s=first_s))
            self._arrived += 1
            submitted = Submitted(job.submission_s, job.name)
            self._settled.append((job.submission_s, _ARRIVE, submitted))
        for live in sorted(fresh, key=lambda live: (live.job.submission_s, live.job.name)):
            self._active[live.job.name], self._jobs[live.job.name] = live, live.job
        if until_s == self.now_s:
            self._cancel(until_s)
        if self._settled:
            self._settled.sort(key=lambda entry: entry[:2])
            self._events += [event for _, _, event in self._settled]
            self._settled.clear()
            self._idle_rounds = 0

    def _complete(self, until_s: float) -> None:
        while (finish_s := self._completions.next_s) <= until_s:
            live = self._completions.take()
            self._release(live)
            del self._active[live.job.name], self._jobs[live.job.name]
            self._last_completion_s = finish_s
            self._settled.append((finish_s, _COMPLETE, Completed(finish_s, live.job.name)))
            self._leave_alone(live.partner, finish_s)

    def _cancel(self, now_s: float) -> None:
        """Cancel the worse trials of searches that have reported."""
        for name in self._searches.cut(self._active, self._arrived, now_s):
            live = self._active.pop(name)
            del self._jobs[name]
            done = live.iterations_at(now_s)
            self._settled.append((now_s, _CANCEL, Cancelled(now_s, name, done)))
            if live.running is not None:
                self._release(live)
                self._leave_alone(live.partner, now_s)
            self._last_completion_s = now_s

    def _end(self, reason: EndReason, time_s: float) -> None:
        self._events.append(Ended(time_s, reason))
        self._ended = True

    # --- nodes ------------------------------------------------------------------------------

    def _change_node(self, event: NodeEvent) -> None:
        name = self._cluster.nodes[event.node].name
        changed = NodeChanged(event.time_s, name, event.status)
        self._settled.append((event.time_s, _NODE, changed))
        if event.status is NodeStatus.FAILED:
            held = self._on_node.get(event.node, set())
            for job in sorted(held, key=lambda job: self._active[job].order):
                self._stop_failed(self._active[job], event.time_s)
            for live in self._active.values():
                if live.last_held is not None and event.node in live.last_held.placement.nodes:
                    live.last_held = None

    def _stop_failed(self, live: LiveJob, now_s: float) -> None:
        """Stop a job on a failed node; it continues from its last checkpoint."""
        self._release(live)
        lost = live.end(now_s, self._saved_s(live, now_s))
        stopped = Preempted(
            now_s, live.job.name, StopCause.NODE_FAILURE, live.done_iterations, lost
        )
        self._settled.append((now_s, _STOP, stopped))

    # --- jobs -------------------------------------------------------------------------------

    def _saved_s(self, live: LiveJob, now_s: float) -> float:
        """Return seconds of progress in the open segment up to its last checkpoint."""
        progressed_s, step_s = live.progressed_s(now_s), self._config.checkpoint_of(live.job)
        if step_s <= 0.0:
            return progressed_s
        first_s = 0.0 if live.saved_s is None else live.saved_s
        return first_s + math.floor((progressed_s - first_s) / step_s) * step_s

    def _kept_s(self, live: LiveJob) -> float:
        """Return seconds of progress in the open segment that a stop by the policy leaves."""
        if self._config.at_stop == "checkpoint":
            return self._saved_s(live, self.now_s)
        return live.progressed_s(self.now_s) - self._config.lost_work_s

    def _preempt(self, live: LiveJob) -> None:
        self._release(live)
        lost = live.end(self.now_s, self._kept_s(live))
        self._events.append(
            Preempted(self.now_s, live.job.name, StopCause.POLICY, live.done_iterations, lost)
        )

    def _start(self, assignment: Assignment, iteration_s: float) -> None:
        live = self._active[assignment.job]
        self._late.pop(assignment.job, None)
        kind = StartKind.RESUME if live.starts else StartKind.FIRST
        if live.running is not None:
            kind = StartKind.CHANGE
            self._release(live)
            live.end(self.now_s, self._kept_s(live))
        facts = self._lookup.facts(live.job.model, assignment)
        if facts is None:
            raise RuntimeError("the strict check let a configuration pass that cannot run")
        start_up_s = live.begin(assignment, self.now_s, iteration_s)
        self._hold(live, assignment, facts)
        self._events.append(
            Started(
                self.now_s,
                assignment.job,
                kind,
                assignment.plan,
                assignment.placement,
                iteration_s,
                start_up_s,
                live.done_iterations,
            )
        )

    def _hold(self, live: LiveJob, assignment: Assignment, facts: RunFacts) -> None:
        """Record the GPUs that a job holds from now on, and its completion time."""
        self._held[assignment.job] = assignment
        self._facts[assignment.job] = facts
        for node in assignment.placement.nodes:
            self._on_node.setdefault(node, set()).add(assignment.job)
        self._completions.expect(live)

    def _iteration_s(self, assignment: Assignment, granted: Mapping[str, Assignment]) -> float:
        """Return true seconds per iteration of an assignment, next to its partner if it has one."""
        job = self._active[assignment.job].job
        facts = self._facts_of(job, assignment)
        seconds = None if facts is None else facts.iteration_s
        if assignment.partner is not None:
            models = job.model, self._active[assignment.partner].job.model
            partner = granted[assignment.partner]
            seconds = self._lookup.paired_iteration_s(models, assignment, partner)
        if seconds is None:
            raise RuntimeError("the strict check let a configuration pass that cannot run")
        return seconds

    def _share(self, name: str, partner: str | None, now_s: float, iteration_s: float) -> Shared:
        """Return the event of a running job that continues with another partner or alone."""
        live = self._active[name]
        held = replace(self._held[name], partner=partner)
        live.skip_ahead(held, now_s, iteration_s)
        self._held[name] = held
        self._completions.expect(live)
        return Shared(now_s, name, partner, iteration_s, live.iterations_at(now_s))

    def _leave_alone(self, name: str | None, now_s: float) -> None:
        """Continue the partner of a finished job alone, unless it is complete as well."""
        live = None if name is None else self._active.get(name)
        if live is None or live.finish_s <= now_s:
            return
        shared = self._share(live.job.name, None, now_s, self._facts[live.job.name].iteration_s)
        self._settled.append((now_s, _COMPLETE, shared))

    def _facts_of(self, job: Job, assignment: Assignment) -> RunFacts | None:
        """Return the true facts of an assignment; cached for jobs that stay."""
        if self._held.get(job.name) == assignment:
            return self._facts[job.name]
        return self._lookup.facts(job.model, assignment)

    def _release(self, live: LiveJob) -> None:
        """Take the job off its nodes."""
        assignment = self._held.pop(live.job.name)
        del self._facts[live.job.name]
        for node in assignment.placement.nodes:
            self._on_node[node].discard(live.job.name)

    # --- state for policies -------------------------------------------------------------------

    def _snapshot(self) -> RoundState:
        now_s = self.now_s
        loses = self._config.at_stop == "checkpoint"
        jobs = tuple(
            live.snapshot(now_s, self._saved_s(live, now_s) if loses else None)
            for live in self._active.values()
        )
        return unchecked(
            RoundState,
            {
                "index": self._round,
                "time_s": now_s,
                "interval_s": self._config.interval_s,
                "cluster": self._cluster,
                "jobs": jobs,
                "unavailable": self._nodes.unavailable,
                "failed": self._nodes.failed,
            },
        )
