"""Jobs of ``batch/v1`` with their pods and Kueue's Workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morph_opt.core.documents import Fields
from morph_opt.inputs.kueue.kube import instant_of, meta_of
from morph_opt.live.kube.pods import GATE, HOST, STATE, STOPPED, Pod, read_pod

KUEUE = "kueue.x-k8s.io"
QUEUE, WORKLOAD = f"{KUEUE}/queue-name", f"workload.{KUEUE}"
_OVER = {"Complete": "completed", "Failed": "failed"}
_CLOSING = ("SuccessCriteriaMet", "FailureTarget")


@dataclass(frozen=True, slots=True)
class Job:
    """Job with its pods and its Workload.

    Parameters
    ----------
    meta, spec, status
        Metadata, specification and status of the Job.
    true
        Its conditions that hold, by type.
    pods, model
        Its pods that have not ended, and what they are by its template.
    want
        Pods that it is to have.
    workload
        Workload by which Kueue admits it; None if there is none, or it may not be seen.
    """

    meta: Fields
    spec: Fields
    status: Fields
    true: Mapping[str, Fields]
    pods: Sequence[Pod]
    model: Pod
    want: int
    workload: Fields | None

    @property
    def alive(self) -> list[Pod]:
        """Pods that are not being deleted, by name."""
        return sorted((pod for pod in self.pods if not pod.leaving), key=lambda pod: pod.name)

    @property
    def gated(self) -> list[Pod]:
        """Pods that wait at our gate."""
        return [pod for pod in self.alive if pod.gated]

    @property
    def bound(self) -> list[Pod]:
        """Pods that have a node."""
        return [pod for pod in self.alive if pod.node]

    @property
    def let_go_s(self) -> list[float]:
        """Instants at which we released pods that have no node yet."""
        return [p.let_go_s for p in self.alive if p.let_go_s and not (p.node or p.gates)]

    @property
    def alike(self) -> Pod:
        """Pod like the job's own, with changes made at admission if one waits at our gate."""
        return next(iter(self.gated), self.model)

    @property
    def opted_in(self) -> bool:
        """Whether its user added our gate."""
        return any(pod.gated for pod in (self.model, *self.pods))

    @property
    def suspended(self) -> bool:
        """Whether the Job is suspended."""
        return self.spec.flag("suspend", False)

    @property
    def queued(self) -> bool:
        """Whether the job is in a queue of Kueue, which then suspends and admits it."""
        return QUEUE in self.meta.value("labels", dict[str, str], {})

    @property
    def stop(self) -> tuple[str, Fields]:
        """Kind and metadata of the object through which the job is stopped."""
        if self.queued and self.workload is not None:
            return WORKLOAD, meta_of(self.workload)
        return "job", self.meta

    @property
    def active(self) -> bool:
        """Whether its Workload is active."""
        assert self.workload is not None
        return self.workload.object("spec", None, {}).flag("active", True)

    def kueue_says(self, kind: str) -> bool:
        """Return whether a condition of its Workload is true."""
        return self.workload is not None and kind in _true(self.workload)

    @property
    def stopped(self) -> bool:
        """Whether we suspended or deactivated the job."""
        kind, meta = self.stop
        off = self.suspended if kind != WORKLOAD else not self.active
        notes = meta.value("annotations", dict[str, str], {})
        return off and notes.get(STATE, "").startswith(STOPPED)

    @property
    def held(self) -> str:
        """Reason for which others keep the job from starting; "" if there is none."""
        if self.suspended and not self.stopped:
            return "not admitted by Kueue" if self.queued else "suspended by a person"
        return "another gate" if any(set(pod.gates) - {GATE} for pod in self.gated) else ""

    @property
    def phase(self) -> str:
        """Phase, as in `Seen.phase`."""
        over = next((word for kind, word in _OVER.items() if kind in self.true), "")
        if over:
            return over
        if self.meta.has("deletionTimestamp") or self.stopped or self.true.keys() & set(_CLOSING):
            return "ending"
        if self.suspended:
            return "ending" if self.pods else "waiting"
        if self.bound:
            return "running"
        if any(pod.leaving and pod.node for pod in self.pods):
            return "ending"
        ready = len(self.alive) >= self.want and not self.let_go_s
        return "waiting" if ready else "starting"

    @property
    def end_s(self) -> float:
        """Instant of the job's end; 0 if it has not ended."""
        if "Failed" in self.true:
            return instant_of(self.true["Failed"], "lastTransitionTime")
        ended = self.status.has("completionTime")
        return instant_of(self.status, "completionTime") if ended else 0.0

    @property
    def special(self) -> str:
        """Reason to leave the job alone, as in `Seen.special`."""
        if not self.alike.gpus:
            return "asks for no GPUs"
        if self.alike.own:
            return self.alike.own
        if HOST in self.model.selector:
            return "a node of its own"
        many, ends = self.spec.whole("parallelism", 1), self.spec.raw("completions", None) or 0
        return "" if many >= max(1, ends) else "more completions than pods at once"

    @property
    def kept(self) -> bool:
        """Whether another controller alone decides on its suspension."""
        if self.spec.has("managedBy"):
            return True
        # What Kueue evicts already, or somebody has deactivated, is not stopped once more.
        seen = self.workload is not None and self.active and not self.kueue_says("Evicted")
        return self.queued and not seen


def _true(row: Fields) -> dict[str, Fields]:
    """Return the conditions of an object that are true, by type."""
    conditions = row.object("status", None, {}).objects("conditions", None, [])
    return {one.text("type"): one for one in conditions if one.text("status") == "True"}


def read_job(row: Fields, pods: Sequence[Pod], workload: Fields | None) -> Job:
    """Read a Job of a list, with its pods and its Workload.

    Raises
    ------
    InputError
        If it is not what the API promises.
    """
    spec, status = row.object("spec", None), row.object("status", None, {})
    template = spec.object("template", None)
    want = spec.whole("parallelism", 1, least=0)
    if spec.has("completions"):
        want = min(want, spec.whole("completions") - status.whole("succeeded", 0))
    model = read_pod(template, template.object("spec", None))
    return Job(meta_of(row), spec, status, _true(row), pods, model, want, workload)
