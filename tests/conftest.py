"""What all tests share: determinism, and where the public traces are."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.public_data import NEEDS_DATA, skip_without_data

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


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Syncing guards against a loss of power, which no test brings about; it costs them minutes.

    A descriptor that is not open is refused as before, and what fails at a sync sets its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def project_root() -> Path:
    """Folder of pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Folder of the public data sets; tests that need it skip where it is not at hand."""
    folder = os.environ.get("MORPH_OPT_DATA", "")
    if not folder:
        skip_without_data("the public traces: MORPH_OPT_DATA is not set")
    return Path(folder)


def pytest_collection_finish() -> None:
    """What collecting made stays until the end: searching it for garbage again and again is for
    nothing, and what tests leave behind is searched for less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-data",
        action="store_true",
        help="fail the tests that would be skipped because the public data is not there",
    )
    parser.addoption(
        "--list-needs-data",
        metavar="FILE",
        help="write the tests that were skipped because the public data is not there, one a line;"
        " `pytest @FILE` runs them",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Under ``--require-data`` a skip for want of data is a failure."""
    report = yield
    if (
        item.config.getoption("--require-data")
        and report.skipped
        and NEEDS_DATA in str(report.longrepr)
    ):
        report.outcome = "failed"
        report.longrepr = f"--require-data: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how much was not compared; a green run alone does not."""
    skipped = terminalreporter.stats.get("skipped", [])
    needing = [report.nodeid for report in skipped if NEEDS_DATA in str(report.longrepr)]
    if needing:
        terminalreporter.write_line(
            f"{len(needing)} tests were skipped because public data is not there: they compare"
            " with the published traces and figures (docs/traces.md says how to get them)",
            yellow=True,
        )
    listing = config.getoption("--list-needs-data")
    if listing is not None:
        file = Path(listing)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{one}\n" for one in needing), encoding="utf-8")
