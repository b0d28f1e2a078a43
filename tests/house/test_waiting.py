"""No test depends on the speed of the machine: short limits and clocks are in one list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import PATIENCE_S

CLOCKS = {"monotonic", "perf_counter", "time", "time_ns", "monotonic_ns", "perf_counter_ns"}

ALLOWED = {
    "tests/waiting.py": "the one clock",
    "tests/policies/test_short_limits.py": "limits of no time at all, on every machine",
    "tests/solvers/test_adapters.py": "what ends by its time limit; an incumbent is waited for",
    "tests/solvers/test_codes.py": "limits and times of no solve at all",
    "tests/solvers/test_highs.py": "what ends by its time limit, and a solve of milliseconds",
    "tests/solvers/test_worker.py": "what hangs is ended by the clock",
}
"""Files in which a short limit or a clock decides nothing but what is said here."""


def is_clock(node: ast.Call) -> bool:
    """Whether ``time.perf_counter()`` or another clock is read."""
    called = node.func
    if isinstance(called, ast.Attribute):
        whose = called.value
        return called.attr in CLOCKS and isinstance(whose, ast.Name) and whose.id == "time"
    return isinstance(called, ast.Name) and called.id in CLOCKS - {"time"}


def short_limits(node: ast.Call) -> Iterator[str]:
    """Limits of a call in seconds that a slow machine can reach."""
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    for given in node.keywords:
        limits = given.arg == "timeout" or (given.arg == "time_s" and name == "Limits")
        if limits and isinstance(given.value, ast.Constant):
            seconds = given.value.value
            if isinstance(seconds, int | float) and seconds < PATIENCE_S:
                yield f"{given.arg}={seconds}"


def hurries(path: Path) -> list[str]:
    """Short limits and clocks of a file."""
    text = path.read_text("utf-8")
    if not any(word in text for word in ("timeout", "time_s", *CLOCKS)):
        return []
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    found = [f"{path}:{c.lineno}: {limit}" for c in calls for limit in short_limits(c)]
    return found + [f"{path}:{c.lineno}: reads a clock" for c in calls if is_clock(c)]


def test_tests_use_long_limits_and_no_clocks(project_root: Path) -> None:
    """Limits of `PATIENCE_S`, `tests.waiting.until`, nodes or recorded clocks instead."""
    tests = project_root / "tests"
    found = {path.relative_to(project_root).as_posix(): path for path in tests.rglob("*.py")}
    hurried = {name for name, path in found.items() if hurries(path)}
    assert [said for name in sorted(hurried - set(ALLOWED)) for said in hurries(found[name])] == []
    assert set(ALLOWED) <= hurried, "no longer so"


def test_short_limits_and_clocks_are_found(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    for line in (
        "run(words, timeout=120)",
        "Limits(gap=0.0, time_s=60.0)",
        "assert time.monotonic() < end",
        "began = perf_counter()",
    ):
        path.write_text(line)
        assert len(hurries(path)) == 1, line
    path.write_text("Limits(time_s=600.0); replace(state, time_s=60.0); run(timeout=PATIENCE_S)")
    assert hurries(path) == []
