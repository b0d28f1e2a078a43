"""Solvers by name; an adapter's library is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from morph_opt.domain import InputError
from morph_opt.solvers.base import Solver


def _highs() -> Solver:
    from morph_opt.solvers.highs import HighsSolver

    return HighsSolver()


_FACTORIES: dict[str, Callable[[], Solver]] = {"highs": _highs}


def solver_names() -> tuple[str, ...]:
    """Names that `make_solver` knows."""
    return tuple(sorted(_FACTORIES))


def make_solver(name: str) -> Solver:
    """The adapter of this name.

    Raises
    ------
    InputError
        If there is no such adapter.
    """
    if name not in _FACTORIES:
        raise InputError(
            f"unknown solver {name!r}; known are {', '.join(solver_names())}", field="--solver"
        )
    return _FACTORIES[name]()
