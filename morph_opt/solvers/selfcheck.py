"""Library versions that must not be trusted, or not be loaded together: said in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata

GOOD_PAIR = "pip install 'highspy>=1.13,<1.14' 'ortools>=9.15,<9.16' 'cvxpy<1.9.2'"
_LIBRARIES = ("highspy", "ortools", "pulp", "cvxpy", "gurobipy", "coptpy", "xpress")


@cache
def installed_versions() -> Mapping[str, str]:
    """Version by name of the solver libraries that are installed."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def refused(versions: Mapping[str, str]) -> str:
    """Why the installed highspy must not be used at all, or ``""``."""
    if _release(versions.get("highspy", "")) == (1, 14):
        return (
            f"highspy {versions['highspy']} labels wrong MIP answers optimal (HiGHS issue 2957): "
            f"{GOOD_PAIR}"
        )
    return ""


def clash(versions: Mapping[str, str]) -> str:
    """Why the installed highspy and ortools cannot be loaded in one process, or ``""``."""
    if "ortools" in versions and _release(versions.get("highspy", "")) >= (1, 15):
        return (
            f"highspy {versions['highspy']} and ortools {versions['ortools']} both carry "
            f"libhighs.so.1 and cannot be loaded in one process: {GOOD_PAIR}"
        )
    return ""


def problem_with(needs: Iterable[str], versions: Mapping[str, str] | None = None) -> str:
    """Why an adapter that loads these libraries cannot be used in this process, or ``""``.

    A clash counts only if the other library of the pair is loaded already: in a worker process
    of its own each of the two works.
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
