"""A belief that learns: predictions corrected by the iteration times observed in the replay.

The correction of a configuration is the mean of a Gaussian process on the logarithm of
``observed / predicted``: an observed configuration takes its observed time, others move with those
that they share a plan family, a reach or a shape with (`morph_opt.perf.discrepancy`). It is in
closed form and depends on the set of observations alone, not on their order or timing: a replay
that is resumed with the same observations believes the same, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from morph_opt.domain import ExecutionPlan, NodeType, Shape, Span
from morph_opt.domain._validate import require_finite
from morph_opt.perf.analytic import Array
from morph_opt.perf.discrepancy import Scales, covariance
from morph_opt.perf.speed import Configuration, SpeedModel

LEARNING = Scales(run=0.01, shape=0.05, ragged=0.10, plan=0.35, reach=0.10, degree=0.10)
"""Before any observation a whole plan family may be off by a factor of 2 (two deviations)."""


@dataclass(frozen=True, slots=True, order=True)
class Observation:
    """One observed iteration time.

    Parameters
    ----------
    model, node_type
        Training model, and name of the node type.
    shape, plan, span
        How it ran.
    iteration_s
        Seconds per iteration, above 0.
    """

    model: str
    node_type: str
    shape: Shape
    plan: ExecutionPlan
    span: Span
    iteration_s: float

    def __post_init__(self) -> None:
        require_finite("observation.iteration_s", self.iteration_s, above=0.0)


@dataclass(frozen=True, slots=True)
class _Corrector:
    """Solved process of one (model, node type): weights of the observed configurations."""

    pairs: tuple[tuple[Shape, ExecutionPlan], ...]
    weights: Array


class OnlineModel:
    """Speed model that corrects another one by what was observed.

    Parameters
    ----------
    base
        Predictions before any observation; never changed.
    scales
        How wrong the base may be, and what errors are shared.
    observations
        Observations so far, for example of the run that is resumed.

    Notes
    -----
    Call `observe` between rounds only: a policy may ask many times within a round and must get
    the same answers. `version` grows with every observation that is new; whoever caches answers
    compares it.
    """

    def __init__(
        self,
        base: SpeedModel,
        scales: Scales = LEARNING,
        observations: Iterable[Observation] = (),
    ) -> None:
        self._base = base
        self._scales = scales
        self._seen: dict[tuple[str, str], dict[tuple[Shape, ExecutionPlan, Span], float]] = {}
        self._gaps: dict[tuple[str, str], dict[tuple[Shape, ExecutionPlan, Span], float]] = {}
        self._correctors: dict[tuple[str, str], _Corrector] = {}
        self._rows: dict[tuple[str, str, NodeType, int, Span], tuple[Configuration, ...]] = {}
        self._pending: list[Observation] = list(observations)
        self._version = 0

    @property
    def name(self) -> str:
        """That of the base, with ``+online``."""
        return f"{self._base.name}+online"

    @property
    def version(self) -> int:
        """Number of new configurations observed."""
        return self._version

    def models(self) -> Sequence[str]:
        """Names that the base knows."""
        return self._base.models()

    def observations(self) -> list[Observation]:
        """All distinct observations, sorted; giving them to a new object restores this one."""
        found = list(self._pending)
        for (model, node_type), rows in self._seen.items():
            found += [Observation(model, node_type, *key, s) for key, s in rows.items()]
        return sorted(set(found))

    def observe(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,
        iteration_s: float,
    ) -> bool:
        """Take in an observed iteration time; the first of a configuration counts.

        Returns
        -------
        bool
            Whether it was new, and predictions may have changed.
        """
        require_finite("observation.iteration_s", iteration_s, above=0.0)
        self._settle(model, node_type)
        place = (model, node_type.name)
        key = (shape, plan, span)
        if key in self._seen.get(place, {}):
            return False
        believed = self._base.iteration_s(model, node_type, shape, plan, span)
        self._seen.setdefault(place, {})[key] = iteration_s
        if believed is not None:
            self._gaps.setdefault(place, {})[key] = float(np.log(iteration_s / believed))
        self._correctors.pop(place, None)
        self._rows = {k: v for k, v in self._rows.items() if k[:2] != place}
        self._version += 1
        return True

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """The observed time, else the corrected prediction, or None if the base has none."""
        believed = self._base.iteration_s(model, node_type, shape, plan, span)
        if believed is None:
            return None
        self._settle(model, node_type)
        observed = self._seen.get((model, node_type.name), {}).get((shape, plan, span))
        if observed is not None:
            return observed
        return believed * float(self._factors(model, node_type, [(shape, plan)])[0])

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Those of the base, in its order, with corrected times."""
        self._settle(model, node_type)
        key = (model, node_type.name, node_type, max_gpus, span)
        if key not in self._rows:
            rows = self._base.configurations(model, node_type, max_gpus, span)
            self._rows[key] = tuple(self._corrected(model, node_type, rows, span))
        return self._rows[key]

    def _corrected(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        seen: Mapping[tuple[Shape, ExecutionPlan, Span], float]
        seen = self._seen.get((model, node_type.name), {})
        factors = self._factors(model, node_type, [(row.shape, row.plan) for row in rows])
        for row, factor in zip(rows, factors, strict=True):
            across = span if row.shape.nodes > 1 else Span.NODE
            observed = seen.get((row.shape, row.plan, across))
            seconds = row.iteration_s * float(factor) if observed is None else observed
            yield replace(row, iteration_s=seconds)

    def _factors(
        self,
        model: str,
        node_type: NodeType,
        pairs: Sequence[tuple[Shape, ExecutionPlan]],
    ) -> Array:
        solved = self._solve((model, node_type.name))
        if solved is None or not pairs:
            return np.ones(len(pairs))
        factors: Array = np.exp(covariance(pairs, solved.pairs, self._scales) @ solved.weights)
        return factors

    def _solve(self, place: tuple[str, str]) -> _Corrector | None:
        gaps = self._gaps.get(place)
        if not gaps:
            return None
        if place not in self._correctors:
            # sorted, so that the sums do not depend on the order of observation
            keys = sorted(gaps)
            pairs = tuple((shape, plan) for shape, plan, _ in keys)
            noise = covariance(pairs, pairs, self._scales)
            noise += self._scales.run**2 * np.eye(len(pairs))
            weights = cho_solve(cho_factor(noise), np.array([gaps[key] for key in keys]))
            self._correctors[place] = _Corrector(pairs, weights)
        return self._correctors[place]

    def _settle(self, model: str, node_type: NodeType) -> None:
        """Take in restored observations of this place, now that its node type is at hand."""
        place = (model, node_type.name)
        mine = [o for o in self._pending if (o.model, o.node_type) == place]
        if not mine:
            return
        self._pending = [o for o in self._pending if (o.model, o.node_type) != place]
        for o in mine:
            self.observe(model, node_type, o.shape, o.plan, o.span, o.iteration_s)
