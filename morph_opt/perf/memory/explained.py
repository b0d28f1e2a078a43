"""What one plan needs in memory, part by part, and whether it fits."""

from __future__ import annotations

from dataclasses import replace

from morph_opt.domain import A800_NODE, GPU_TYPES, ExecutionPlan, InputError, Shape
from morph_opt.domain.nearest import unknown
from morph_opt.perf.memory.facts import known_facts
from morph_opt.perf.memory.plan import judge, tensor_group


def explain(model: str, plan: ExecutionPlan, shape: Shape, gpu: str) -> str:
    """What a plan needs part by part, and whether it fits a node like the A800 one.

    Raises
    ------
    InputError
        If the model or the GPU type is unknown.
    """
    facts = known_facts(model)
    if plan.gpus is not None and plan.gpus != shape.gpus:
        rule = f"plan {plan} is for {plan.gpus} GPUs, shape {shape} has {shape.gpus}"
        raise InputError(rule, field="shape")
    if gpu not in GPU_TYPES:
        raise InputError(unknown("GPU type", gpu, GPU_TYPES), field="gpu")
    node_type = A800_NODE
    if gpu != A800_NODE.gpu_type.name:
        node_type = replace(A800_NODE, name=f"node with {gpu}", gpu_type=GPU_TYPES[gpu])
    verdict = judge(facts, plan, shape, node_type)
    lines = [f"{model}, {plan} on {shape}, {gpu}"]
    if verdict.memory is not None:
        memory = verdict.memory
        rows = memory.parts() | {"per GPU": memory.gpu_gib}
        rows["on the host, per GPU"] = memory.host_gib_per_gpu
        lines += [f"  {words:<22}{gib:8.1f} GiB" for words, gib in rows.items()]
    reasons = [why for why in (verdict.reason, tensor_group(plan, shape)) if why is not None]
    lines += [f"cannot run: {why}" for why in reasons] or ["fits"]
    return "\n".join(lines)
