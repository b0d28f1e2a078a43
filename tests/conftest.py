"""What all tests share: determinism, and where the public traces are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Same examples on every machine and in every order; times are a benchmark's business.
settings.register_profile(
    "house",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


@pytest.fixture(scope="session")
def project_root() -> Path:
    """Folder of pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Folder of the public data sets; tests that need it skip where it is not at hand."""
    folder = os.environ.get("MORPH_OPT_DATA", "")
    if not folder:
        pytest.skip("needs the public traces: MORPH_OPT_DATA is not set")
    return Path(folder)
