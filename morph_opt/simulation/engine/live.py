"""Record of a job in the engine.

A running job is a *segment*: an assignment from ``start_s`` on, start-up until ``progress_s``,
then progress from ``done_iterations`` at ``iteration_s`` per iteration. All quantities at a later
instant are computed from the segment's beginning, never by adding up rounds, so that nothing
drifts and a stay leaves no trace. If a partner comes or goes, the segment continues at another
speed: it then has *stretches*, and quantities are computed from the beginning of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from morph_opt.core.domain import Assignment, Job, JobState
from morph_opt.core.domain.round_state import unchecked
from morph_opt.core.domain.starting import StartPrices
from morph_opt.core.domain.units import HOUR_S


@dataclass(slots=True)
class LiveJob:
    """Submitted job that is not complete.

    Parameters
    ----------
    job, order, prices
        Job as submitted; its position in the trace; seconds of its (re)starts.
    first_start_up_s
        Seconds of its first start; None for the same as a restart.
    done_iterations
        Progress as of the last stop (queued jobs).
    running
        Current assignment; None if queued, and then the fields of the segment mean nothing.
    last_held
        Assignment that a queued job held before it was stopped; None if nothing of it is left.
    stretches
        Instant, iterations and seconds per iteration of each stretch of the open segment; empty
        while its speed has not changed.
    saved_s
        Seconds of progress in the open segment at the checkpoint that a state has of it; None if it
        has none, and then checkpoints count from the beginning of the progress.
    shared_s, shared_since_s
        Seconds next to former partners in the open segment, and the instant at which the present
        one came.
    closed_gpu_s, closed_run_s
        GPU-seconds, those next to a partner by half, and seconds held in segments that have ended.
    planned_s, promised_s
        Start in the last plan, and the latest one promised; None if running or without a plan.
    serial
        Count of segments and stretches, by which stale completion instants are recognised.
    still
        Fields of its state that change with the serial number or what it held last only, with
        these two; None before the first state.
    """

    job: Job
    order: int
    prices: StartPrices
    done_iterations: float = 0.0
    first_start_up_s: float | None = None
    running: Assignment | None = None
    last_held: Assignment | None = None
    gpus: int = 0
    start_s: float = 0.0
    progress_s: float = 0.0
    iteration_s: float = 1.0
    finish_s: float = math.inf
    stretches: tuple[tuple[float, float, float], ...] = ()
    saved_s: float | None = None
    shared_s: float = 0.0
    shared_since_s: float | None = None
    closed_gpu_s: float = 0.0
    closed_run_s: float = 0.0
    starts: int = 0
    serial: int = 0
    first_start_s: float | None = None
    last_start_s: float | None = None
    last_stop_s: float | None = None
    planned_s: float | None = None
    promised_s: float | None = None
    recent_starts_s: tuple[float, ...] = ()
    still: tuple[int, Assignment | None, dict[str, object]] | None = None

    @property
    def restart_s(self) -> float:
        """Seconds of the job's next start if it keeps neither plan nor nodes."""
        if self.starts or self.first_start_up_s is None:
            return self.prices.restart_s
        return self.first_start_up_s

    def begin(self, assignment: Assignment, now_s: float, iteration_s: float) -> float:
        """Open a segment at a boundary, and return its start-up seconds."""
        start_up_s = self.restart_s
        if self.starts:
            kept = self.last_held
            start_up_s = self.prices.of_start(kept, assignment.plan, assignment.placement)
        self.running, self.last_held = assignment, None
        self.planned_s = self.promised_s = None
        self.gpus = assignment.placement.gpus
        self.start_s = now_s
        self.progress_s = now_s + start_up_s
        self.iteration_s = iteration_s
        left = self.job.iterations - self.done_iterations
        self.finish_s = self.progress_s + left * iteration_s
        self.stretches, self.shared_s, self.saved_s = (), 0.0, None
        self.shared_since_s = None if assignment.partner is None else now_s
        self.starts += 1
        self.serial += 1
        self.last_start_s = now_s
        if self.first_start_s is None:
            self.first_start_s = now_s
        else:
            hour = [start for start in self.recent_starts_s if start > now_s - HOUR_S]
            self.recent_starts_s = (*hour, now_s)
        return start_up_s

    @classmethod
    def of_state(cls, known: JobState, order: int, now_s: float, iteration_s: float) -> LiveJob:
        """Return the record of a state's job, whose `snapshot` at ``now_s`` is the same state.

        What a stop may cost is counted from the job's last start: up to now its segment has made
        ``iterations_done`` at an even pace, from here on it runs at ``iteration_s``. A job that
        holds GPUs or held some has started once at least, whatever the snapshot states.
        """
        live = cls(known.job, order, known.prices, known.iterations_done)
        live.last_held = known.last_held
        once = known.running is not None or known.last_held is not None
        live.starts, live.recent_starts_s = max(known.starts, int(once)), known.recent_starts_s
        live.first_start_s, live.last_start_s = known.first_start_s, known.last_start_s
        live.last_stop_s = known.last_stop_s
        live.planned_s, live.promised_s = known.planned_s, known.promised_s
        live.closed_gpu_s, live.closed_run_s = known.attained_gpu_s, known.executed_s
        if known.running is None:
            return live
        live.running, live.gpus = known.running, known.running.placement.gpus
        live.start_s = now_s if known.last_start_s is None else min(known.last_start_s, now_s)
        live.progress_s = now_s + known.restart_left_s
        if known.restart_left_s == 0.0:
            live.progress_s = min(live.start_s + known.restart_s, now_s)
        live.iteration_s = iteration_s
        progressed_s = now_s - live.progress_s
        if known.checkpointed_s is not None:
            live.saved_s = max(0.0, known.checkpointed_s - live.progress_s)
        if progressed_s > 0.0:
            done = min(known.iterations_done, progressed_s / iteration_s)
            live.done_iterations -= done
            pace_s = progressed_s / done if done > 0.0 else math.inf
            before = (live.progress_s, live.done_iterations, pace_s)
            live.stretches = (before, (now_s, known.iterations_done, iteration_s))
        left = known.job.iterations - known.iterations_done
        live.finish_s = max(now_s, live.progress_s) + left * iteration_s
        live.closed_gpu_s -= live.gpus * (now_s - live.start_s)
        live.closed_run_s -= now_s - live.start_s
        live.shared_since_s = None if known.running.partner is None else now_s
        live.serial = 1
        return live

    @property
    def partner(self) -> str | None:
        """Job on the same GPUs; None if it is alone."""
        return None if self.running is None else self.running.partner

    def skip_ahead(self, assignment: Assignment, now_s: float, iteration_s: float) -> None:
        """Change partner and speed on the same GPUs, without a restart."""
        reached = self.iterations_at(now_s)
        if self.shared_since_s is not None:
            self.shared_s += now_s - self.shared_since_s
        self.shared_since_s = None if assignment.partner is None else now_s
        if now_s > self.progress_s:
            before = self.stretches or ((self.progress_s, self.done_iterations, self.iteration_s),)
            self.stretches = (*before, (now_s, reached, iteration_s))
        left = self.job.iterations - reached
        self.finish_s = max(now_s, self.progress_s) + left * iteration_s
        self.iteration_s = iteration_s
        self.running = assignment
        self.serial += 1

    def end(self, now_s: float, kept_s: float) -> float:
        """Close the segment, keep ``kept_s`` seconds of progress, and return iterations lost."""
        reached = self.iterations_at(now_s)
        kept = self._iterations_after(max(0.0, kept_s))
        kept = min(kept, reached)
        self.closed_gpu_s += self.gpus * (now_s - self.start_s - 0.5 * self._shared_until(now_s))
        self.closed_run_s += now_s - self.start_s
        self.done_iterations = kept
        # A start-up that is cut short leaves nothing, and no partner waits for the job.
        held = self.running if now_s >= self.progress_s else None
        self.last_held = None if held is None else replace(held, partner=None)
        self.running = None
        self.finish_s = math.inf
        self.serial += 1
        self.last_stop_s = now_s
        return reached - kept

    def progressed_s(self, now_s: float) -> float:
        """Return seconds of progress in the open segment."""
        return max(0.0, now_s - self.progress_s)

    def iterations_at(self, now_s: float) -> float:
        """Return iterations done at an instant of the open segment, or at the last stop."""
        if self.running is None:
            return self.done_iterations
        return min(self._iterations_after(self.progressed_s(now_s)), float(self.job.iterations))

    def _iterations_after(self, progressed_s: float) -> float:
        """Return iterations done after these seconds of progress in the open segment."""
        if not self.stretches:
            return self.done_iterations + progressed_s / self.iteration_s
        now_s = self.progress_s + progressed_s
        begun = [stretch for stretch in self.stretches if stretch[0] <= now_s]
        from_s, iterations, iteration_s = (begun or self.stretches)[-1 if begun else 0]
        return iterations + max(0.0, now_s - from_s) / iteration_s

    def _shared_until(self, now_s: float) -> float:
        """Return seconds of the open segment next to a partner."""
        since_s = self.shared_since_s
        return self.shared_s + (0.0 if since_s is None else now_s - since_s)

    def snapshot(self, now_s: float, saved_s: float | None = None) -> JobState:
        """Return what a policy may know of the job at a boundary.

        Parameters
        ----------
        saved_s
            Seconds of progress in the open segment that a stop leaves; None if it leaves all.
        """
        open_s = shared_s = left_s = 0.0
        if self.running is not None:
            open_s, shared_s = now_s - self.start_s, self._shared_until(now_s)
            left_s = max(0.0, self.progress_s - now_s)
        executed_s = self.closed_run_s + open_s
        still = self.still
        if still is None or still[0] != self.serial or still[1] is not self.last_held:
            again = self.starts > 0 and not self.prices.plain
            same: dict[str, object] = {
                "job": self.job,
                "running": self.running,
                "restart_s": self.restart_s,
                "starts": self.starts,
                "first_start_s": self.first_start_s,
                "last_start_s": self.last_start_s,
                "last_stop_s": self.last_stop_s,
                "recent_starts_s": self.recent_starts_s,
                "resume_s": self.prices.resume_s if again else None,
                "migrate_s": self.prices.migrate_s if again else None,
                "last_held": self.last_held,
            }
            still = self.still = self.serial, self.last_held, same
        checkpointed_s = None
        if saved_s is not None and self.running is not None:
            checkpointed_s = now_s - (self.progressed_s(now_s) - saved_s)
        return unchecked(
            JobState,
            still[2],
            checkpointed_s=checkpointed_s,
            iterations_done=self.iterations_at(now_s),
            restart_left_s=left_s,
            attained_gpu_s=self.closed_gpu_s + self.gpus * (open_s - 0.5 * shared_s),
            executed_s=executed_s,
            queued_s=max(0.0, now_s - self.job.submission_s - executed_s),
            planned_s=self.planned_s,
            promised_s=self.promised_s,
        )


def changes(
    assignments: Iterable[Assignment],
    held: Mapping[str, Assignment],
    order: Callable[[Assignment], int],
) -> tuple[list[Assignment], list[Assignment]]:
    """Return assignments that start, and those whose partner changes, each sorted by ``order``."""
    fresh: list[Assignment] = []
    regrouped: list[Assignment] = []
    for assignment in assignments:
        before = held.get(assignment.job)
        if before is assignment:
            continue
        starts = before is None or before != assignment
        if starts:
            fresh.append(assignment)
        if assignment.partner != (None if starts or before is None else before.partner):
            regrouped.append(assignment)
    return sorted(fresh, key=order), sorted(regrouped, key=order)
