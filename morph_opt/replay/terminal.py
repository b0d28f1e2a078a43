"""Terminal output of a replay: its progress, and the table of its result."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from morph_opt.core.commandline.progress import live_lines, stderr_progress
from morph_opt.core.domain import InputError
from morph_opt.core.domain.units import HOUR_S
from morph_opt.replay.outlook import Costs, Outlook
from morph_opt.replay.run import Progress
from morph_opt.scheduling.policies.steps import settled_text
from morph_opt.simulation.events.log import RoundDecided
from morph_opt.simulation.metrics.history import Scalar
from morph_opt.simulation.metrics.losses import CAUSES
from morph_opt.simulation.runs.summary import Values, settled_rounds

SECONDS_TO_FIRST_LINE = 2.0
"""Seconds until the first line of progress without a terminal."""
REMEMBERED = 60
"""Rounds that the view of ``--watch`` draws."""
LEAST_DONE = 0.02
"""Share of jobs that must be complete before the time left is shown."""
SECONDS_BETWEEN_ESTIMATES = 2.0
"""Least seconds between two estimates of the time left; it is counted down between them."""
ESTIMATING = 0.02
"""Largest share of the wall time that is spent on estimates."""
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Meter:
    """State of a replay while it runs.

    Parameters
    ----------
    jobs, gpus
        Numbers in the whole trace and cluster.
    clock
        Seconds of wall time.
    outlook
        Function that returns the work left; None before the replay begins.
    costs
        Wall time of the rounds so far.
    """

    jobs: int
    gpus: int
    clock: Callable[[], float] = time.perf_counter
    completed: int = 0
    last: RoundDecided | None = None
    outlook: Callable[[], Outlook] | None = None
    costs: Costs = field(default_factory=Costs)
    used: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    queued: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    began: float = field(init=False)
    _left_s: float | None = field(init=False, default=None)
    _estimated: float = field(init=False, default=float("-inf"))
    _due: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self.began = self.clock()

    def foresee(self, outlook: Callable[[], Outlook]) -> None:
        """Take in the function that returns the work left; see `morph_opt.replay.run.Foresee`."""
        self.outlook = outlook

    def update(self, decided: RoundDecided, completed: int) -> None:
        """Take in a round; see `morph_opt.replay.run.Progress`."""
        self.last, self.completed = decided, completed
        self.costs.add(self.elapsed_s, decided.time_s, decided.active, completed)
        self.used.append(decided.gpus / self.gpus if self.gpus else 0.0)
        self.queued.append(float(decided.active - decided.running))

    @property
    def elapsed_s(self) -> float:
        """Wall time since the beginning."""
        return self.clock() - self.began

    @property
    def left_s(self) -> float | None:
        """Estimated wall time left; None while too few jobs are complete."""
        if self.outlook is None or self.completed < max(1.0, LEAST_DONE * self.jobs):
            return None
        now = self.clock()
        if now >= self._due:
            self._left_s, self._estimated = self.costs.left_s(self.outlook()), now
            took_s = self.clock() - now
            self._due = now + max(SECONDS_BETWEEN_ESTIMATES, took_s / ESTIMATING)
        return None if self._left_s is None else max(0.0, self._left_s - now + self._estimated)

    def parts(self) -> list[str]:
        """Return GPUs in use, queue and gap of the last round."""
        if self.last is None:
            return []
        found = [
            f"{self.last.gpus} of {self.gpus} GPUs",
            f"{self.last.active - self.last.running} queued",
        ]
        return found if self.last.gap is None else [*found, f"gap {100.0 * self.last.gap:.2g} %"]

    def left(self) -> list[str]:
        """Return the estimated time left as text, if there is an estimate."""
        left_s = self.left_s
        return [] if left_s is None else [f"about {duration(left_s)} left"]

    def line(self) -> str:
        """Return the progress in one line."""
        simulated = 0.0 if self.last is None else self.last.time_s / HOUR_S
        done = f"{self.completed} of {self.jobs} jobs complete"
        parts = [done, *self.parts(), f"simulated {simulated:.1f} h", *self.left()]
        return f"{self.elapsed_s:.0f} s: {', '.join(parts)}"

    def view(self) -> list[str]:
        """Return the lines of ``--watch``."""
        last = self.last
        left = "".join(self.left())
        rows = [
            ("jobs complete", f"{self.completed} of {self.jobs}", ""),
            ("wall time", duration(self.elapsed_s), left),
        ]
        if last is None:
            rows += [("simulated", "-", "")] + [("", "", "")] * 3
        else:
            most = max((1.0, *self.queued))
            queued = f"{last.active - last.running} of {last.active} active"
            short = f", {last.guarantees_short} guarantees short" if last.guarantees_short else ""
            gap = "none proven" if last.gap is None else f"{100.0 * last.gap:.2g} %"
            rows += [
                ("simulated", f"{last.time_s / HOUR_S:.2f} h", f"round {last.index}"),
                ("GPUs in use", f"{last.gpus} of {self.gpus}", sparkline(self.used, 1.0)),
                ("jobs queued", queued, sparkline(self.queued, most)),
                ("last round", last.status, f"gap {gap}{short}"),
            ]
        return [f"{name:<14}  {value:<20}  {more}" for name, value, more in rows]


def duration(seconds: float) -> str:
    """Format seconds as ``40 s``, ``12 min`` or ``3.5 h``.

    >>> duration(90.0)
    '90 s'
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / HOUR_S:.1f} h"


def sparkline(values: deque[float], most: float) -> str:
    """Draw one block per value, full at ``most``.

    >>> sparkline(deque([0.0, 0.5, 1.0]), 1.0)
    ' ▄█'
    """
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[min(top, max(0, round(v / most * top)))] if most else " " for v in values)


@contextmanager
def shown_progress(
    meter: Meter, title: str, *, quiet: bool, watch: bool
) -> Iterator[Progress | None]:
    """Show live lines if asked for, else a bar on a terminal, else a line now and then.

    Raises
    ------
    InputError
        If live lines are asked for where there is no terminal.
    """
    shown: AbstractContextManager[Callable[[Meter], None] | None]
    if watch:
        require_watchable()
        shown = live_lines(lambda now: [title, *now.view()], meter)
    else:
        shown = stderr_progress(
            "job",
            lambda now: (now.completed, now.jobs, ", ".join([*now.parts(), *now.left()])),
            Meter.line,
            quiet=quiet,
            timed=False,
            first_s=SECONDS_TO_FIRST_LINE,
        )
    with shown as draw:
        if draw is None:
            yield None
            return
        show = draw

        def update(decided: RoundDecided, completed: int) -> None:
            meter.update(decided, completed)
            show(meter)

        yield update


def require_watchable() -> None:
    """Refuse live lines where there is no terminal.

    Raises
    ------
    InputError
        If stderr is no terminal.
    """
    if not sys.stderr.isatty():
        raise InputError("needs a terminal on stderr", field="--watch")


# ---------------------------------------------------------------- result


def _in(unit: str, value: Scalar, form: str = ",.1f") -> str:
    """Format a figure with its unit; a dash if there is none."""
    return f"{value:{form}} {unit}" if isinstance(value, int | float) else "-"


def _share(value: Scalar) -> str:
    return _in("%", 100.0 * value if isinstance(value, int | float) else None, ".1f")


def _of_bound(s: Values, name: str) -> str:
    """Format the ratio of a figure to its lower bound; empty while jobs are left."""
    value, bound = s[f"{name}_s"], s[f"{name}_lower_bound_s"]
    numbers = isinstance(value, int | float) and isinstance(bound, int | float) and bound > 0.0
    if not numbers or s["completed"] != s["jobs"]:
        return ""
    return f"{value / bound:.2f} x the lower bound of {_in('s', bound)}"  # type: ignore[operator]


def result_table(s: Values) -> str:
    """Return the summary as aligned text, one figure per line."""
    rows = [
        ("trace", str(s["trace"]), str(s.get("trace_kind") or "")),
        ("policy", str(s["policy"]), ""),
        ("cluster", f"{s['nodes']} nodes, {s['gpus']} GPUs", str(s.get("cluster") or "")),
        ("jobs completed", f"{s['completed']} of {s['jobs']}", ""),
    ]
    if s.get("skipped_jobs"):
        rows.append(("jobs dropped", str(s["skipped_jobs"]), "they can never run here"))
    rows += [
        ("average JCT", _in("s", s["avg_jct_s"]), _of_bound(s, "avg_jct")),
        ("median JCT", _in("s", s["median_jct_s"]), ""),
        ("p99 JCT", _in("s", s["p99_jct_s"]), ""),
        ("makespan", _in("s", s["makespan_s"]), _of_bound(s, "makespan")),
        ("average queueing", _in("s", s["avg_queue_s"]), ""),
        ("GPU utilisation", _share(s["gpu_utilization"]), _by_type(s)),
        ("restarts per job", f"{s['restarts_per_job']:.2f}", f"{s['preemptions']} preemptions"),
    ]
    if isinstance(lost := s.get("gpu_hours_lost"), float) and lost:
        named = ((cause, s[f"gpu_hours_lost_{cause}"]) for cause in CAUSES)
        parts = ", ".join(f"{cause} {hours:.1f}" for cause, hours in named if hours)
        rows.append(("GPU-hours lost", f"{lost:,.1f}", parts))
    rows += [
        ("rounds", str(s["rounds"]), f"{s['fallback_rounds']} fell back"),
    ]
    if settled := settled_text(settled_rounds(s), str(s["solver"])):
        rows.append(("settled by", settled, ""))
    if s.get("audited_rounds") is not None:
        agreed = f"{s['audited_agreeing']} agree, {s['audited_open']} not settled"
        agreed += f", {s['audited_disagreeing']} disagree"
        rows.append(("rounds audited", str(s["audited_rounds"]), agreed))
    if s.get("guaranteed_jobs"):
        of_them = s["rounds_guarantees_missed"]
        avoidable = "" if of_them is None else f"{of_them} of them although possible for all"
        short = f"{s['rounds_guarantees_short']} rounds short"
        rows.append(("guaranteed jobs", f"{s['guaranteed_jobs']} ({short})", avoidable))
    if isinstance(s.get("cost_usd"), int | float):
        per_job = s.get("cost_per_job_usd")
        each = "" if per_job is None else _in("$ per completed job", per_job, ",.2f")
        rows.append(("cost", _in("$", s["cost_usd"], ",.2f"), each))
    met, missed, open_ = (s.get(f"slo_{state}") or 0 for state in ("met", "missed", "open"))
    if met or missed or open_:
        still = f", {open_} open" if open_ else ""
        rows.append(("SLOs met", f"{met}, {missed} missed{still}", f"{s['slo_dropped']} dropped"))
    if s.get("late_jobs"):
        longest = f"longest {_in('s', s['late_max_s'])} after it was due"
        rows.append(("late starts", str(s["late_jobs"]), longest))
    if s.get("plans"):
        gap = s["plan_gap"]
        proven = f"mean gap {gap:.1%}, " if isinstance(gap, float) else ""
        proven += f"{s['moved_promises']} promises moved"
        rows.append(("plans of starts", str(s["plans"]), proven))
    memory, slowest = _in("MiB", s["peak_rss_mib"], ",.0f"), _in("ms", s["round_ms_p99"], ".1f")
    rows += [
        ("rounds over capacity", str(s["rounds_over_capacity"]), ""),
        ("median round", _in("ms", s["round_ms_p50"], ".1f"), f"p99 {slowest}"),
        ("wall time", _in("s", s["wall_s"]), f"peak memory {memory}"),
    ]
    wide = max(len(name) for name, _, _ in rows)
    wider = max(len(value) for _, value, remark in rows if remark)
    return "".join(f"{n:<{wide}}  {v:<{wider}}  {more}".rstrip() + "\n" for n, v, more in rows)


def _by_type(summary: Values) -> str:
    """Format utilisation by GPU type, if there are several."""
    prefix = "gpu_utilization_"
    types = {key.removeprefix(prefix): v for key, v in summary.items() if key.startswith(prefix)}
    return ", ".join(f"{name} {_share(v)}" for name, v in types.items()) if len(types) > 1 else ""
