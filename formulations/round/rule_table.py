"""Operator's rules as rows over a round's decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import no_floats, no_ints, require_shapes

RULE_X, RULE_S, RULE_U = 0, 1, 2


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Operator's rules as rows over the decisions: ``lower <= a x + b s + e u <= upper``.

    Parameters
    ----------
    name, label
        Name of the rule and its subscripts, one per row.
    lower, upper
        Limits of the rows, shape (Q,).
    row, kind, index, value
        Entries of the rows; ``kind`` is `RULE_X` (candidate ``index``), `RULE_S` (stay of job
        ``index``) or `RULE_U` (auxiliary column ``index``).
    aux_upper
        Upper limits of the auxiliary columns u >= 0, shape (U,), for example GPUs borrowed.
    """

    name: tuple[str, ...] = ()
    label: tuple[tuple[int, ...], ...] = ()
    lower: Floats = field(default_factory=no_floats)
    upper: Floats = field(default_factory=no_floats)
    row: Ints = field(default_factory=no_ints)
    kind: Ints = field(default_factory=no_ints)
    index: Ints = field(default_factory=no_ints)
    value: Floats = field(default_factory=no_floats)
    aux_upper: Floats = field(default_factory=no_floats)

    def __post_init__(self) -> None:
        if len(self.label) != self.count:
            raise ValueError(f"rules.label must have {self.count} rows, got {len(self.label)}")
        require_shapes(self, **dict.fromkeys(("lower", "upper"), (self.count,)))
        require_shapes(self, **dict.fromkeys(("kind", "index", "value"), np.shape(self.row)))

    @property
    def count(self) -> int:
        """Number of rows Q."""
        return len(self.name)
