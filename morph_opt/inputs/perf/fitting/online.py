"""Learning belief: predictions corrected by iteration times observed in the replay.

The correction of a configuration is the mean of a Gaussian process on the logarithm of ``observed
/ predicted``. An observed configuration takes its observed time; others are corrected with those
that share a plan family (of any model), a plan, a reach or a shape. The mean is in closed form and
depends on the set of accepted observations alone, so a resumed replay has the same belief, bit by
bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from formulations.arrays import Floats
from morph_opt.core.domain import ExecutionPlan, NodeType, Shape, Span
from morph_opt.core.domain._validate import require_finite
from morph_opt.inputs.perf.fitting.discrepancy import Pair, Scales, covariance
from morph_opt.inputs.perf.parameters import LEARNING, LearningParams
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, SpeedsOver, span_of

OF_MODEL = Scales(run=0.01, shape=0.03, ragged=0.10, plan=0.15, reach=0.05, degree=0.05)
"""Standard deviations of a model's errors, by what configurations share."""

_Key = tuple[str, Shape, ExecutionPlan, Span]


@dataclass(frozen=True, slots=True)
class _Solved:
    """Solved process of a node type: observed configurations with models and weights."""

    models: tuple[str, ...]
    pairs: tuple[Pair, ...]
    weights: Floats


class OnlineModel(SpeedsOver):
    """Speed model that corrects another one by observations.

    Parameters
    ----------
    base
        Predictions before any observation; never changed.
    params
        Numbers that steer the learning.

    Notes
    -----
    Call `observe` between rounds only, so that answers stay the same within a round. `version`
    grows with every accepted observation; callers that cache answers compare it.
    """

    def __init__(self, base: SpeedModel, params: LearningParams = LEARNING) -> None:
        super().__init__(base)
        self._params = params
        self._seen: dict[str, dict[_Key, float]] = {}
        self._gaps: dict[str, dict[_Key, float]] = {}
        self._solved: dict[str, _Solved] = {}
        self._version = 0

    @property
    def name(self) -> str:
        """Name of the base with ``+online``."""
        return f"{self._base.name}+online"

    @property
    def version(self) -> int:
        """Number of observations accepted."""
        return self._version

    def observe(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,
        iteration_s: float,
    ) -> bool:
        """Take in an observed iteration time; only the first of a configuration counts.

        Returns
        -------
        bool
            Whether it was accepted, so that predictions have changed.
        """
        require_finite("observation.iteration_s", iteration_s, above=0.0)
        believed = self.iteration_s(model, node_type, shape, plan, span)
        key = (model, shape, plan, span)
        if believed is None or key in self._seen.get(node_type.name, {}):
            return False
        if abs(math.log(iteration_s / believed)) < self._params.news:
            return False
        self._accept(node_type, key, iteration_s)
        self._version += 1
        return True

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return the observed time, else the corrected prediction, or None if the base has none."""
        believed = self._base.iteration_s(model, node_type, shape, plan, span)
        if believed is None:
            return None
        observed = self._seen.get(node_type.name, {}).get((model, shape, plan, span))
        if observed is not None:
            return observed
        return believed * float(self._factors(model, node_type, [(shape, plan)])[0])

    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        seen = self._seen.get(node_type.name, {})
        factors = self._factors(model, node_type, [(row.shape, row.plan) for row in rows])
        for row, factor in zip(rows, factors, strict=True):
            observed = seen.get((model, row.shape, row.plan, span_of(row.shape, span)))
            seconds = row.iteration_s * float(factor) if observed is None else observed
            yield replace(row, iteration_s=seconds)

    def _factors(self, model: str, node_type: NodeType, pairs: Sequence[Pair]) -> Floats:
        solved = self._solve(node_type.name)
        if solved is None or not pairs:
            return np.ones(len(pairs))
        cross = self._covariance([model] * len(pairs), pairs, solved.models, solved.pairs)
        factors: Floats = np.exp(cross @ solved.weights)
        return factors

    def _covariance(
        self,
        left_models: Sequence[str],
        left: Sequence[Pair],
        right_models: Sequence[str],
        right: Sequence[Pair],
    ) -> Floats:
        """Return the covariance of errors that models, or plan families, have in common."""
        same = np.array([[a == b for b in right_models] for a in left_models], dtype=float)
        kind = Scales(plan=self._params.family)
        within = same * covariance(left, right, OF_MODEL)
        total: Floats = within + covariance(left, right, kind)
        return total

    def _solve(self, node_type: str) -> _Solved | None:
        gaps = self._gaps.get(node_type)
        if not gaps:
            return None
        if node_type not in self._solved:
            # sorted, so that the sums do not depend on the order of observation
            keys = sorted(gaps)
            models = tuple(key[0] for key in keys)
            pairs = tuple((key[1], key[2]) for key in keys)
            noise = self._covariance(models, pairs, models, pairs)
            noise += OF_MODEL.run**2 * np.eye(len(pairs))
            weights = cho_solve(cho_factor(noise), np.array([gaps[key] for key in keys]))
            self._solved[node_type] = _Solved(models, pairs, weights)
        return self._solved[node_type]

    def _accept(self, node_type: NodeType, key: _Key, iteration_s: float) -> None:
        model, shape, plan, span = key
        predicted = self._base.iteration_s(model, node_type, shape, plan, span)
        self._seen.setdefault(node_type.name, {})[key] = iteration_s
        if predicted is not None:
            gap = math.log(iteration_s / predicted)
            self._gaps.setdefault(node_type.name, {})[key] = gap
        self._solved.pop(node_type.name, None)
        self._rows = {k: v for k, v in self._rows.items() if k[1].name != node_type.name}
