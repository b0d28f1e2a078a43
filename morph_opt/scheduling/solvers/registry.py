"""Registry of solvers by name; a library is imported only when its adapter is made."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.extend import extension, require_allowed, require_kind
from morph_opt.scheduling.solvers.base import Capabilities, Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome
from morph_opt.scheduling.solvers.selfcheck import problem_with

WORKER_PREFIX = "worker:"
"""Prefix of an adapter that runs in a process of its own, like ``worker:highs``."""

_GROUP = "morph_opt.solvers"


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of an adapter in the registry.

    Parameters
    ----------
    module, factory
        Class to call, in ``morph_opt.solvers``.
    needs
        Modules that must be importable.
    install
        Command that installs them.
    """

    module: str
    factory: str
    needs: tuple[str, ...]
    install: str

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules of ``needs`` that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


_ORTOOLS = "pip install 'ortools>=9.15,<9.16'"
_CVXPY = "pip install 'cvxpy<1.9.2'"
_PULP = "pip install 'pulp>=3.3,<4'"
ENTRIES: dict[str, Entry] = {
    "highs": Entry("highs", "HighsSolver", ("highspy",), "pip install 'highspy>=1.13,<1.14'"),
    "highs-default": Entry(
        "highs", "HighsDefaultSolver", ("highspy",), "pip install 'highspy>=1.13,<1.14'"
    ),
    "cpsat": Entry("cpsat.adapter", "CpSatSolver", ("ortools",), _ORTOOLS),
    "scip-ortools": Entry("scip", "ScipOrtoolsSolver", ("ortools",), _ORTOOLS),
    "cbc": Entry("fronts.pulp", "CbcSolver", ("pulp",), _PULP),
    "pulp-highs": Entry("fronts.pulp", "PulpHighsSolver", ("pulp", "highspy"), _PULP),
    "cvxpy-highs": Entry("fronts.cvxpy", "CvxpyHighsSolver", ("cvxpy", "highspy"), _CVXPY),
    "gurobi": Entry(
        "fronts.licensed", "GurobiSolver", ("pulp", "gurobipy"), f"{_PULP} gurobipy, and a licence"
    ),
    "copt": Entry(
        "fronts.licensed", "CoptSolver", ("pulp", "coptpy"), f"{_PULP} coptpy, and a licence"
    ),
    "xpress": Entry(
        "fronts.licensed", "XpressSolver", ("pulp", "xpress"), f"{_PULP} xpress, and a licence"
    ),
}
"""Adapters of the package by name."""

GONE = {
    "scip": "scip-ortools",
    "mathopt-scip": "scip-ortools",
    "mathopt-cpsat": "cpsat",
    "cuopt": "an adapter of your own (docs/how-to/solver.md)",
}
"""Replacements of adapters that were removed."""


def solver_names() -> tuple[str, ...]:
    """Return the names that `make_solver` knows."""
    return tuple(sorted(ENTRIES))


def installed() -> tuple[str, ...]:
    """Return the names whose libraries are installed."""
    return tuple(name for name in solver_names() if not ENTRIES[name].missing)


def unavailable() -> dict[str, str]:
    """Return the names whose libraries are not installed, with commands that install them."""
    return {name: ENTRIES[name].install for name in solver_names() if ENTRIES[name].missing}


def _own(name: str) -> Solver:
    """Make a user's own adapter from its import path or entry point."""
    made = extension(_GROUP, name)
    try:
        own = made() if callable(made) else None
    except TypeError as error:
        raise InputError(f"{name!r} cannot be made: {error}", field="--solver") from error
    if not (hasattr(own, "solve") and hasattr(own, "capabilities")):
        raise InputError(f"{name!r} makes no solver adapter", field="--solver")
    return _Own(own, f"{name}.solve")


@dataclass(frozen=True, slots=True)
class _Own:
    """Wrapper of a user's own adapter that checks the type of its answers."""

    inner: Any
    source: str

    @property
    def name(self) -> str:
        return str(self.inner.name)

    @property
    def capabilities(self) -> Capabilities:
        found: Capabilities = self.inner.capabilities
        return found

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        outcome = self.inner.solve(model, limits, start)
        require_kind(outcome, Outcome, self.source, "--solver")
        if outcome.x is not None and np.shape(outcome.x) != (model.columns,):
            rule = f"{self.source}: x must have shape ({model.columns},), got {np.shape(outcome.x)}"
            raise InputError(rule, field="--solver")
        checked: Outcome = outcome
        return checked


def make_solver(name: str) -> Solver:
    """Make the adapter of this name.

    Parameters
    ----------
    name
        A name of `solver_names`; an entry point of the group ``morph_opt.solvers`` or an import
        path ``package.module:Class`` of one's own; any of them with ``worker:`` before it to
        run in a process of its own.

    Raises
    ------
    InputError
        If there is no such adapter, its library is not installed, or the library must not be
        used (`morph_opt.scheduling.solvers.selfcheck`). The message lists what is installed and how
        to install the rest.
    """
    if name.startswith(WORKER_PREFIX):
        from morph_opt.scheduling.solvers.worker.isolated import IsolatedSolver

        inner = name.removeprefix(WORKER_PREFIX)
        _require(inner)
        return IsolatedSolver(inner)
    _require(name)
    if name not in ENTRIES:
        return _own(name)
    entry = ENTRIES[name]
    trouble = problem_with(entry.needs)
    if trouble:
        raise InputError(trouble, field="--solver")
    module = importlib.import_module(f"morph_opt.scheduling.solvers.{entry.module}")
    solver: Solver = getattr(module, entry.factory)()
    return solver


def require_named(name: str) -> None:
    """Check that a solver has this name, installed or not; import paths are not followed.

    Raises
    ------
    InputError
        Listing what is installed.
    """
    plain = name.removeprefix(WORKER_PREFIX)
    if plain in ENTRIES:
        return
    require_allowed(plain, "--solver")
    if ":" not in plain and extension(_GROUP, plain) is None:
        raise _unknown(plain)


def _unknown(name: str) -> InputError:
    if name in GONE:
        return InputError(f"there is no solver {name!r} any more: {GONE[name]}", field="--solver")
    rule = f"unknown solver {name!r}{did_you_mean(name, ENTRIES)}; {_inventory()}"
    return InputError(rule, field="--solver")


def _require(name: str) -> None:
    if name not in ENTRIES:
        if extension(_GROUP, name) is None:
            raise _unknown(name)
        return
    missing = ENTRIES[name].missing
    if missing:
        raise InputError(
            f"solver {name!r} needs {' and '.join(missing)}: {ENTRIES[name].install}",
            field="--solver",
        )


def _inventory() -> str:
    return f"installed are {', '.join(installed())}; more by python -m morph_opt.solvers"
