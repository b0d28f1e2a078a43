"""Policy that carries out the steps of an answer, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from morph_opt.core.domain import Allocation, Assignment, Placement, RoundState
from morph_opt.moves.answer import Move, Moves
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport


class Following(Policy):
    """Policy that leaves every job where it is but for the next step of an answer.

    One step a round; which one is next follows from where the jobs are. A step whose GPUs are not
    free or whose node is down waits, and so do those after it. Jobs that have completed are passed
    over.

    Parameters
    ----------
    answer
        Answer whose steps are carried out.
    """

    name = "following"

    def __init__(self, answer: Moves) -> None:
        self._steps = answer.steps
        before = answer.snapshot.state.held.by_job()
        held = {step.job: before.get(step.job) for step in answer.steps}
        self._after = [held]
        for step in answer.steps:
            self._after.append({**self._after[-1], step.job: step.after})

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        held = state.held.by_job()
        active = [known.job.name for known in state.jobs]
        step = self._next(active, held)
        if step is not None:
            before = held.pop(step.job, None)
            found = None if step.after is None else _placed(step.after, held, state)
            if step.after is None or found is not None:
                before = found
            if before is not None:
                held[step.job] = before
        granted = tuple(held[name] for name in active if name in held)
        return Decision(Allocation(granted), RoundReport("followed"))

    def _next(self, active: list[str], held: Mapping[str, Assignment]) -> Move | None:
        """Return the step after the last state of the order that the jobs are in; None if over."""
        for at in range(len(self._steps), -1, -1):
            # A job may be off its GPUs already, on its way to the next ones.
            away = self._steps[at].job if at < len(self._steps) else None
            if all(
                _counts(held.get(job)) == _counts(expected) or (job == away and job not in held)
                for job, expected in self._after[at].items()
                if job in active
            ):
                left = [step for step in self._steps[at:] if step.job in active]
                return left[0] if left else None
        return None


def _counts(held: Assignment | None) -> dict[int, int]:
    """Return the number of GPUs held on each node."""
    return {} if held is None else {node: len(gpus) for node, gpus in held.placement.parts}


def _placed(
    wanted: Assignment, held: Mapping[str, Assignment], state: RoundState
) -> Assignment | None:
    """Return an assignment on free GPUs of the same nodes; None if there are too few."""
    if state.unavailable & set(wanted.placement.nodes):
        return None
    parts: dict[int, list[int]] = {}
    for node, gpus in wanted.placement.parts:
        taken = {
            gpu
            for one in held.values()
            for other, own in one.placement.parts
            if other == node
            for gpu in own
        }
        free = [gpu for gpu in gpus if gpu not in taken]
        every = range(state.cluster.nodes[node].type.gpus)
        free += [gpu for gpu in every if gpu not in taken and gpu not in gpus]
        parts[node] = free[: len(gpus)]
        if len(parts[node]) < len(gpus):
            return None
    return Assignment(wanted.job, wanted.plan, Placement.of(parts))
