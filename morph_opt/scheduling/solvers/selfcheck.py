"""Check of library versions that are unsafe alone or together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata

GOOD_PAIR = "pip install 'highspy>=1.13,<1.14' 'ortools>=9.15,<9.16' 'cvxpy<1.9.2'"
_LIBRARIES = ("highspy", "ortools", "pulp", "cvxpy", "gurobipy", "coptpy", "xpress")


@cache
def installed_versions() -> Mapping[str, str]:
    """Return the versions of the installed solver libraries by name."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def refused(versions: Mapping[str, str]) -> str:
    """Return why the installed highspy must not be used; "" if it may."""
    if _release(versions.get("highspy", "")) == (1, 14):
        return (
            f"highspy {versions['highspy']} labels wrong MIP answers optimal (HiGHS issue 2957): "
            f"{GOOD_PAIR}"
        )
    return ""


def clash(versions: Mapping[str, str]) -> str:
    """Return why highspy and ortools cannot be loaded in one process; "" if they can."""
    if "ortools" in versions and _release(versions.get("highspy", "")) >= (1, 15):
        return (
            f"highspy {versions['highspy']} and ortools {versions['ortools']} both carry "
            f"libhighs.so.1 and cannot be loaded in one process: {GOOD_PAIR}"
        )
    return ""


def problem_with(needs: Iterable[str], versions: Mapping[str, str] | None = None) -> str:
    """Return why an adapter with these libraries cannot be used here; "" if it can.

    A clash counts only if the other library is loaded in this process: in a worker process of its
    own each of the two works.
    """
    versions = installed_versions() if versions is None else versions
    needs = set(needs)
    if "highspy" in needs and refused(versions):
        return refused(versions)
    pair = {"highspy", "ortools"}
    loaded = {name for name in pair if name in sys.modules}
    if needs & pair and pair <= (needs | loaded):
        return clash(versions)
    return ""


def _release(version: str) -> tuple[int, ...]:
    numbers = version.split(".")[:2]
    return tuple(int(n) for n in numbers) if all(n.isdigit() for n in numbers) else ()
