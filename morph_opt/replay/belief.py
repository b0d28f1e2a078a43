"""Beliefs of a policy about speed.

Which configurations are possible is a fact that the policy may know; how fast they are is what
it believes. So a belief offers exactly those configurations of the truth that it has a time for,
with its own time and the truth's side demands; the engine's strict check can then never meet a
configuration that the truth cannot run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from morph_opt.core.domain import ExecutionPlan, InputError, NodeType, Shape, Span
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.perf.ests import elastic_speeds
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, SpeedsOver, span_of
from morph_opt.inputs.perf.tables.tried import KEPT, PRIOR, TriedModel

if TYPE_CHECKING:
    from morph_opt.scheduling.policies.options import Scheduler

BELIEFS = ("truth", "model", "table", "measured")


class FeasibleBelief(SpeedsOver):
    """Believed times of the configurations that can truly run.

    Parameters
    ----------
    belief
        Speeds that the policy believes; used for the truth's configurations only.
    truth
        True speeds, which decide what is possible.

    Raises
    ------
    InputError
        If the belief does not know a model of the truth when it is asked for it.
    """

    def __init__(self, belief: SpeedModel, truth: SpeedModel) -> None:
        super().__init__(truth)
        self._belief = belief

    @property
    def name(self) -> str:
        """Name of the belief."""
        return self._belief.name

    def models(self) -> Sequence[str]:
        """Return the models that belief and truth know, sorted."""
        return sorted(set(self._belief.models()) & set(self._base.models()))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return believed seconds per iteration, or None if the truth cannot run it."""
        if self._base.iteration_s(model, node_type, shape, plan, span) is None:
            return None
        return self._belief.iteration_s(model, node_type, shape, plan, span)

    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        for row in rows:
            across = span_of(row.shape, span)
            seconds = self._belief.iteration_s(model, node_type, row.shape, row.plan, across)
            if seconds is not None:
                yield replace(row, iteration_s=seconds)


def parse_belief(text: str) -> tuple[str, float | None]:
    """Parse a belief into its name and the prior of its pairs, if given: ``measured:0.7``.

    Raises
    ------
    InputError
        If the name is unknown, or the prior is not a number in its range.
    """
    name, colon, number = text.partition(":")
    if name not in BELIEFS or (colon and name != "measured"):
        rule = unknown("belief", text, (*BELIEFS, "measured:PRIOR"))
        raise InputError(rule, field="--belief")
    if not colon:
        return name, None
    try:
        return name, float(KEPT.parse(number))
    except ValueError as error:
        raise InputError(f"the prior {error}", field="--belief") from error


def require_belief(scheduler: Scheduler) -> tuple[str, float | None]:
    """Return name and prior of a belief; refuse combinations that would ignore it.

    Raises
    ------
    InputError
        Naming the option without effect.
    """
    name, prior = parse_belief(scheduler.belief)
    if prior is not None and not scheduler.packing:
        rule = f"the prior of pairs has an effect together with {typed('--packing')} only"
        raise InputError(rule, field="--belief")
    if name == "measured" and scheduler.online_fit:
        rule = f"cannot be combined with {typed('--belief')} measured, which learns by itself"
        raise InputError(rule, field="--online-fit")
    return name, prior


def make_belief(scheduler: Scheduler, truth: SpeedModel) -> SpeedModel:
    """Return the belief of a scheduler: truth, built-in model, table, or measured speeds.

    Raises
    ------
    InputError
        As `require_belief`; if the measured table is not on this machine, or the speeds are of
        workers that take turns, where there is nothing to try.
    """
    name, prior = require_belief(scheduler)
    if name == "truth":
        return truth
    if name == "model":
        from morph_opt.inputs.perf.analytic.zoo import builtin_model

        return FeasibleBelief(builtin_model().extrapolated(), truth)
    if name == "table":
        from morph_opt.inputs.data import locate
        from morph_opt.inputs.traces.morphling import read_tables

        return FeasibleBelief(read_tables(locate("morphling")), truth)
    if elastic_speeds(truth) is not None:
        rule = "workers that take turns are equally fast anywhere: there is nothing to try"
        raise InputError(rule, field="--belief")
    return TriedModel(truth, PRIOR if prior is None else prior)
