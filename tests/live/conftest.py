"""Folders that a test has locked are let go behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.scene import OPEN


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().folder.close()
