"""How long random tests are: a sample in the suite, many times as long in ``make oracle``."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("MORPH_OPT_BLOCKS", "1"))
"""Blocks of random rounds of a campaign for each block of the suite."""


def blocks(sample: int) -> int:
    """Blocks of random rounds, each with seeds of its own: ``sample`` of them in the suite."""
    return sample * TIMES
