"""A log as a frame, and what a box of a box plot shows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.frame import LogFrame, read_frame
from morph_opt.inputs.traces.logs.guess import chosen
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.logs.registry import LogSpec


def read_log(spec: str, how: Reading, *, as_published: bool) -> LogFrame:
    """The log of ``FORMAT:PATH``.

    Parameters
    ----------
    as_published
        Whether durations are those that the log records, instead of end - start.

    Raises
    ------
    InputError
        If there is no such format or file, a row is malformed, or there is no job.
    """
    if LogSpec.of(spec) is None:
        raise InputError(f"must be FORMAT:PATH, got {spec[:80]!r}", field="--trace")
    return read_frame(chosen(spec, None, how), as_published=as_published)


def box_of(values: pd.Series[float]) -> tuple[float, float, float, float, float]:
    """Lower whisker, quartiles and upper whisker, of 1.5 times the distance of the quartiles."""
    known = values.dropna().to_numpy(dtype=float)
    q1, median, q3 = (float(v) for v in np.percentile(known, (25, 50, 75)))
    reach = 1.5 * (q3 - q1)
    inside = known[(known >= q1 - reach) & (known <= q3 + reach)]
    return float(inside.min()), q1, median, q3, float(inside.max())
