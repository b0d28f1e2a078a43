"""What a row family lets pass and what it forbids: the pieces of `tests.formulations.families`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from formulations.layout import RoundModel
from formulations.linear_model import LinearModel


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model and the columns that shall be one in it.

    Candidates may be wanted by a share below one, in the relaxation.
    """

    built: RoundModel
    candidates: tuple[int, ...] = ()
    stays: tuple[int, ...] = ()
    share: float = 1.0

    def model(self, *, without: str = "") -> LinearModel:
        """The model with the want as bounds, and without the rows of one family."""
        layout = self.built.layout
        s = next(b for b in self.built.model.column_blocks if b.family == "s")
        stay_of = {int(job): s.start + at for at, (job,) in enumerate(s.labels.tolist())}
        lower = self.built.model.column_lower.copy()
        lower[layout.x[list(self.candidates)]] = self.share
        lower[[stay_of[job] for job in self.stays]] = 1.0
        model = replace(self.built.model, column_lower=lower)
        return dropped(model if self.share == 1.0 else model.relaxed(), without)


@dataclass(frozen=True, slots=True)
class Pair:
    """What a family lets pass and what it forbids."""

    passes: Callable[[], Wanted]
    forbids: Callable[[], Wanted]


def dropped(model: LinearModel, family: str) -> LinearModel:
    """The model without the rows of a family."""
    keep = [
        row
        for block in model.row_blocks
        if block.family != family
        for row in range(block.start, block.start + block.count)
    ]
    matrix = model.matrix()[keep]
    blocks, start = [], 0
    for block in model.row_blocks:
        if block.family != family:
            blocks.append(replace(block, start=start))
            start += block.count
    return replace(
        model,
        row_lower=model.row_lower[keep],
        row_upper=model.row_upper[keep],
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=matrix.data,
        row_blocks=tuple(blocks),
    )


def families(model: LinearModel) -> set[str]:
    """Families that have at least one row in a model."""
    return {block.family for block in model.row_blocks if block.count}
