"""Kueue's workloads, v1beta1 and v1beta2: ``kubectl get workloads -A -o json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from morph_opt.core.documents import Fields
from morph_opt.inputs.traces.logs.formats.kube import Demand, KubeReader
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome

_OUTCOMES: dict[str, Outcome] = {
    "Succeeded": "completed",
    "Failed": "failed",
    "AdmissionChecksRejected": "cancelled",
    "OwnerNotFound": "cancelled",
    "OutOfSync": "cancelled",
}
_OLDER = frozenset(("JobFinished", "PodsFinished", "GroupSucceeded"))
"""Reasons of older releases, with which only the message states success or failure."""
_GOOD = ("success", "succeed", "complete")
_BAD = ("fail", "error", "backoff", "deadline", "exceeded")
_PAST = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
"""Names of the field of past run times; the second is v1beta1's spelling."""


class KueueReader(KubeReader):
    """Reader of workloads."""

    name = "kueue"
    api_group = "kueue.x-k8s.io"
    api_kind = "Workload"

    def row(self, record: Record) -> LogRow:
        """Return the workload of an element; conditions keep their last transition only."""
        metadata, spec, status = self.parts_of(record)
        asked = self.asked(spec.objects("podSets", None), "count")
        used, types = self._admitted(status, asked)
        used.shares, used.claims = used.shares or asked.shares, used.claims or asked.claims
        self.judge(used)
        if len(types) > 1:
            self.reasons.append("mixed-gpu-types")
        listed = status.objects("conditions", None, [])
        true = {one.text("type"): one for one in listed if one.text("status") == "True"}
        admitted, finished = true.get("Admitted"), true.get("Finished")
        start_s = None if admitted is None else self.seconds(admitted, "lastTransitionTime")
        end_s = None if finished is None else self.seconds(finished, "lastTransitionTime")
        past_s = float(next((status.whole(n, least=0) for n in _PAST if status.has(n)), 0))
        if start_s is None and not (end_s is not None and past_s):
            self.reasons.append("not-started")
        elif end_s is None:
            self.reasons.append("still-running")
        last_s = 0.0 if start_s is None or end_s is None else end_s - start_s
        reason = "" if finished is None else finished.text("reason", "")
        outcome = "unknown" if finished is None else self._ended(finished, reason)
        if any(one.whole("count", 0) for one in status.objects("reclaimablePods", None, [])):
            self.find("pods-reclaimed-early")
        if past_s:
            self.find("retried", wasted_gpu_s=float(used.gpus * past_s))
        waited_s = None
        if past_s and start_s is not None:
            waited_s = start_s - self.seconds(metadata, "creationTimestamp") - past_s
        limit = "maximumExecutionTimeSeconds"
        found = LogRow(
            self.name_in(metadata),
            record.line,
            self.seconds(metadata, "creationTimestamp"),
            start_s=start_s,
            end_s=end_s,
            run_s=None if end_s is None else last_s + past_s,
            gpus=used.gpus,
            gpu_type=types[0] if types else None,
            status=reason,
            outcome=outcome,
            tenant=self._queue(spec, status, metadata),
            user=metadata.text("namespace", ""),
            kind=_priority_class(spec) or None,
            limit_s=float(spec.whole(limit, 0, least=0)) or None if spec.has(limit) else None,
            attempts=2 if past_s else 1,
            priority=float(spec.whole("priority", 0, least=-(2**31), most=2**31)),
            waited_s=waited_s,
            evictions=tuple(_evictions(status, true).items()),
        )
        self.compare(found)
        return found

    @staticmethod
    def _queue(spec: Fields, status: Fields, metadata: Fields) -> str:
        """Return the cluster queue of a workload, or its local queue with the namespace."""
        if status.has("admission"):
            return status.object("admission", None).text("clusterQueue", "")
        name, space = spec.word("queueName"), metadata.text("namespace", "")
        return f"{space}/{name}" if name and space else name

    def _ended(self, finished: Fields, reason: str) -> Outcome:
        """Return the outcome, from the reason of the end or, in older releases, its message."""
        if reason in _OUTCOMES:
            return _OUTCOMES[reason]
        message = finished.text("message", "").lower() if reason in _OLDER else ""
        if any(word in message for word in _BAD):
            return "failed"
        if any(word in message for word in _GOOD):
            return "completed"
        if reason:
            self.find("unknown-outcome", states=reason)
        return "unknown"

    def _admitted(self, status: Fields, asked: Demand) -> tuple[Demand, list[str]]:
        """Return the admitted demand, which may be less than requested, and its flavors."""
        if not status.has("admission"):
            return asked, []
        admission = status.object("admission", None)
        used, types, stated = Demand(), dict[str, Any](), False
        for part in admission.objects("podSetAssignments", None, []):
            if part.has("resourceUsage"):
                stated = True
                used.add(self.amounts(part.object("resourceUsage", None)))
            if flavor := part.part("flavors").word(self.resource):
                types[flavor] = None
        if not stated:
            return asked, list(types)
        if used != asked:
            self.find("admitted-not-requested")
        return used, list(types)


def _evictions(status: Fields, true: Mapping[str, Fields]) -> dict[str, int]:
    """Return the evictions of a workload by reason and cause; the last alone in older releases."""
    stats = status.part("schedulingStats")
    if not stats.has("evictions"):
        return {one.text("reason", ""): 1 for kind, one in true.items() if kind == "Evicted"}
    found: dict[str, int] = {}
    for one in stats.objects("evictions", None):
        name = f"{one.text('reason', '')} {one.text('underlyingCause', '')}".strip()
        found[name] = found.get(name, 0) + one.whole("count", 1, least=0)
    return found


def _priority_class(spec: Fields) -> str:
    """Return the name of the priority class, by the field of either version."""
    if spec.has("priorityClassRef"):
        return spec.object("priorityClassRef", None).text("name", "")
    return spec.word("priorityClassName")
