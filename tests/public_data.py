"""Skips for want of public data: all of one wording, so that they can be counted and forbidden."""

from __future__ import annotations

from typing import NoReturn

import pytest

NEEDS_DATA = "needs public data: "
"""Every reason of such a skip begins so."""


def skip_without_data(what: str) -> NoReturn:
    """Skip the test that asks; ``what`` says what is missing and how to name it."""
    pytest.skip(NEEDS_DATA + what)
