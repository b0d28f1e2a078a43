"""Check of an answer from the state and the speeds, without any model.

It restates the question: who was moved, whether what was asked for is so afterwards, what it cost,
and that every step is possible when its turn comes (`morph_opt.scheduling.strict`).
"""

from __future__ import annotations

from collections.abc import Mapping

from formulations.tolerances import CLAIM
from morph_opt.core.domain import Allocation, Assignment, RoundState, Span
from morph_opt.core.domain.errors import ContractError
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.moves.answer import Moves
from morph_opt.moves.order import START, STOP
from morph_opt.moves.places import types_of
from morph_opt.moves.question import DOMAINS, LEAVES, NODES, SLOTS, Freed, Question
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts


class AnswerError(ContractError):
    """Error: an answer does not do what was requested, or one of its steps is impossible."""


def require_right(answer: Moves) -> None:
    """Raise `AnswerError` unless an answer with steps is right.

    The operator's rules are audited where the answer is made, with the sizes that jobs may have.
    """
    state, question = answer.snapshot.state, answer.question
    before, after = state.held.by_job(), _after(answer)
    changed = {name for name, held in before.items() if after.get(name) != held}
    _require_allowed(question, state, before, after)
    if question.most_moves is not None and len(changed) > question.most_moves:
        raise AnswerError(f"{len(changed)} jobs are moved, at most {question.most_moves} may be")
    if question.start is not None and question.start not in after:
        raise AnswerError(f"{question.start} does not start")
    for name in question.drain:
        node = state.cluster.node_index[name]
        for job, held in after.items():
            ends = job in answer.left_alone and held == before.get(job)
            if node in held.placement.nodes and not ends:
                raise AnswerError(f"{name} still holds {job}")
    if question.free is not None:
        _require_free(question.free, answer, after)
    _require_steps(answer)
    total = sum(step.loss_gpu_s for step in answer.steps)
    if abs(total - answer.loss_gpu_s) > CLAIM * max(1.0, abs(total)):
        raise AnswerError(f"the steps lose {total:g} GPU-seconds, not {answer.loss_gpu_s:g}")


def _after(answer: Moves) -> dict[str, Assignment]:
    """Return the holdings after the last step."""
    return {} if answer.after is None else answer.after.by_job()


def _require_allowed(
    question: Question,
    state: RoundState,
    before: Mapping[str, Assignment],
    after: Mapping[str, Assignment],
) -> None:
    """Refuse moves of exempt jobs, changed configurations, unasked starts and stops."""
    for name, held in after.items():
        if name not in before:
            if name != question.start:
                raise AnswerError(f"{name} starts, which nobody asked for")
            continue
        had = before[name]
        if had != held and matches(name, question.exempt):
            raise AnswerError(f"{name} is exempt and is moved")
        same = had.plan == held.plan and had.placement.gpus == held.placement.gpus
        kinds = [
            {state.cluster.nodes[node].type for node in one.placement.nodes} for one in (had, held)
        ]
        if not same or kinds[0] != kinds[1]:
            raise AnswerError(f"{name} does not keep its configuration")
    for name in before.keys() - after.keys():
        if matches(name, question.exempt) or not matches(name, question.may_stop):
            raise AnswerError(f"{name} is stopped and may not be")


def _require_free(freed: Freed, answer: Moves, after: Mapping[str, Assignment]) -> None:
    """Refuse an answer whose places are too few, overlap, or are not free."""
    state = answer.snapshot.state
    cluster, topology = state.cluster, topology_of(state.cluster)
    types = types_of(freed, cluster)
    free = [node.type.gpus for node in cluster.nodes]
    for held in after.values():
        for at, own in held.placement.parts:
            free[at] -= len(own)
    spans = {NODES: Span.NODE, DOMAINS: Span.NVLINK, LEAVES: Span.LEAF, None: Span.POD}
    for nodes in answer.places:
        kind = cluster.nodes[nodes[0]].type
        if freed.what == SLOTS:
            whole, rest = divmod(freed.gpus, kind.gpus)
            parts = [kind.gpus] * whole + [rest] * bool(rest)
        else:
            parts = [kind.gpus] * len(nodes)
        for at, gpus in zip(nodes, parts, strict=True):
            free[at] -= gpus
            if free[at] < 0 or at in state.unavailable or cluster.nodes[at].type != kind:
                raise AnswerError(f"{cluster.nodes[at].name} is not free for {freed.one}")
        inside = spans[freed.inside if freed.what == SLOTS else freed.what]
        if kind not in types or topology.span(nodes) > inside:
            raise AnswerError(f"{freed.one} is not on {len(nodes)} nodes of {kind.name}")
        if freed.what in (DOMAINS, LEAVES):
            of = topology.domain if freed.what == DOMAINS else topology.leaf
            if {at for at, group in enumerate(of) if group == of[nodes[0]]} != set(nodes):
                raise AnswerError(f"{freed.one} has more nodes than are free")
    if len(answer.places) < freed.count:
        raise AnswerError(f"{len(answer.places)} of {freed.words} are free")


def _require_steps(answer: Moves) -> None:
    """Refuse an order in which a step takes GPUs that are not free, or is impossible."""
    state = answer.snapshot.state
    check = BeliefChecks(answer.snapshot.speeds).on(state.cluster)
    facts, held = StateFacts.of(state), state.held.by_job()
    for at, step in enumerate(answer.steps, 1):
        if held.get(step.job) != step.before:
            raise AnswerError(f"step {at}: {step.job} does not hold what the step says")
        if (step.kind == START) != (step.before is None) or (step.kind == STOP) != (
            step.after is None
        ):
            raise AnswerError(f"step {at}: is no {step.kind} of {step.job}")
        held.pop(step.job, None)
        if step.after is not None:
            held[step.job] = step.after
        broken = check.check(held.values(), facts)
        if broken:
            raise AnswerError(f"step {at}: {broken[0]}")
    if Allocation(tuple(held.values())).by_job() != _after(answer):
        raise AnswerError("the steps do not lead to what is held after them")
