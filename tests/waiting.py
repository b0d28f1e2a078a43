"""Waiting that a slow machine does not end: the one place where tests look at a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 600.0
"""What ends a test that hangs, and no other: at least ten times what a quiet machine needs."""


def until(holds: Callable[[], bool]) -> None:
    """Return as soon as something holds.

    Raises
    ------
    AssertionError
        If it does not within `PATIENCE_S`.
    """
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.05)
