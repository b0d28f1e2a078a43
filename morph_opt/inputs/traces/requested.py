"""Iteration time and GPU-hours of jobs that run exactly as requested."""

from __future__ import annotations

from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, Job, NodeType, Span
from morph_opt.inputs.perf.speed import SpeedModel


class RequestedSpeeds:
    """Iteration times of requested configurations, each looked up once.

    Parameters
    ----------
    speeds
        Speed model of the times.
    node_type
        Nodes that the jobs are requested on.
    """

    def __init__(self, speeds: SpeedModel, node_type: NodeType = A800_NODE) -> None:
        self._speeds = speeds
        self._node_type = node_type
        self._known: dict[tuple[str, int, ExecutionPlan], float] = {}

    def iteration_s(self, model: str, gpus: int, plan: ExecutionPlan) -> float:
        """Return seconds per iteration of a plan on ``gpus`` GPUs of the fewest nodes.

        Raises
        ------
        InputError
            If no nodes of this type can.
        """
        key = (model, gpus, plan)
        if key not in self._known:
            self._known[key] = self._look_up(model, gpus, plan)
        return self._known[key]

    def gpu_hours(self, job: Job) -> float:
        """Return the work of a job: iterations x iteration time x GPUs, as requested."""
        step_s = self.iteration_s(job.model, job.requested_gpus, job.requested_plan)
        return job.iterations * step_s * job.requested_gpus / 3600.0

    def _look_up(self, model: str, gpus: int, plan: ExecutionPlan) -> float:
        rows = [
            (row.shape.nodes, row.iteration_s)
            for row in self._speeds.configurations(model, self._node_type, gpus, Span.LEAF)
            if row.shape.gpus == gpus and row.plan == plan
        ]
        if not rows:
            rule = f"{model} cannot run {plan} on {gpus} GPUs of {self._node_type.gpu_type.name}"
            raise InputError(rule, field="requested_plan")
        return min(rows)[1]
