"""Volcano's jobs: ``kubectl get vcjob -A -o json``.

``runningDuration`` is what Volcano's controller counts from the creation of the job on, waiting
included; if the conditions of a job state when it ran, they are used and it is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from morph_opt.core.documents import Fields
from morph_opt.inputs.traces.logs.formats.kube import KubeReader
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome

_WAITING = ("Pending", "Inqueue", "")
_RUNNING = ("Running", "Restarting", "Completing", "Aborting", "Terminating")
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|m|s|us|µs|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class VolcanoReader(KubeReader):
    """Reader of jobs of ``batch.volcano.sh``."""

    name = "volcano"
    taken = ("without conditions runningDuration is the run time; it may contain waiting",)
    api_group = "batch.volcano.sh"
    api_kind = "Job"
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "Completed": "completed",
        "Failed": "failed",
        "Terminated": "failed",  # an unexpected end here
        "Aborted": "cancelled",
        **dict.fromkeys((*_WAITING, *_RUNNING), "unknown"),
    }

    def row(self, record: Record) -> LogRow:
        """Return the job of an element."""
        metadata, spec, status = self.parts_of(record)
        asked = self.asked(spec.objects("tasks", None), "replicas")
        self.judge(asked)
        state = status.object("state", None, {})
        phase = state.text("phase", "")
        outcome = self.outcome(phase)
        ended = phase in self.statuses and phase not in (*_WAITING, *_RUNNING)
        if phase in _WAITING:
            self.reasons.append("not-started")
        elif phase in _RUNNING:
            self.reasons.append("still-running")
        has_end = ended and state.has("lastTransitionTime")
        end_s = self.seconds(state, "lastTransitionTime") if has_end else None
        stated_s = duration_s(status, "runningDuration") if status.has("runningDuration") else None
        starts, run_s = self._ran(status, end_s)
        found = LogRow(
            self.name_in(metadata),
            record.line,
            self.seconds(metadata, "creationTimestamp"),
            start_s=starts[0] if starts else None,
            end_s=end_s,
            run_s=run_s if starts else stated_s,
            recorded_s=stated_s,
            gpus=asked.gpus,
            status=phase,
            outcome=outcome,
            attempts=max(1, len(starts)),
            tenant=spec.word("queue"),
            user=metadata.text("namespace", ""),
            kind=spec.text("priorityClassName") if spec.has("priorityClassName") else None,
        )
        self.compare(found)
        return found

    def _ran(self, status: Fields, end_s: float | None) -> tuple[list[float], float]:
        """Return when a job started, by its conditions, and its total run time."""
        if end_s is None:
            return [], 0.0
        changes = sorted(
            (self.seconds(one, "lastTransitionTime"), one.text("status", ""))
            for one in status.objects("conditions", None, [])
            if one.has("lastTransitionTime")
        )
        ends = [instant for instant, _ in changes[1:]] + [end_s]
        each = zip(changes, ends, strict=False)
        spans = [(begin, end) for (begin, phase), end in each if phase == "Running"]
        return [begin for begin, _ in spans], sum(end - begin for begin, end in spans)


def duration_s(fields: Fields, name: str) -> float:
    """Return the seconds of a duration as Go writes it: ``1h2m3.5s``."""
    text = fields.text(name)
    parts = _PARTS.findall(text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        raise fields.error(name, f"must be a duration like 1h2m3s, got {text!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
