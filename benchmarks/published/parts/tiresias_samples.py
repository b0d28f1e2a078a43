"""The published samples of Tiresias' job sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from morph_opt.core.documents import read_rows
from morph_opt.core.domain import (
    InputError,
)


def read_samples(path: Path) -> npt.NDArray[np.float64]:
    """GPU-second samples, ascending, from a CSV with one column ``duration``.

    Raises
    ------
    InputError
        If there is none, or one is not above 0.
    """
    found = []
    for row in read_rows(path, ("duration",), ()):
        value = row.number("duration", at_least=0.0)
        if value <= 0:
            raise row.error("duration", f"must be above 0, got {value:g}")
        found.append(value)
    if not found:
        raise InputError("has a header but no samples", file=str(path))
    return np.sort(np.asarray(found, dtype=np.float64))
