"""Policies and objectives that are given as values instead of by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from morph_opt.domain import InputError
from morph_opt.domain.arguments import shown
from morph_opt.extend import import_path, require_complete


def lent_as(word: str, value: Any) -> tuple[str, Callable[..., Any]]:
    """Name and factory of a policy or objective that is given as a value.

    Parameters
    ----------
    word
        ``"policy"`` or ``"objective"``.
    value
        An object, of which every use gets a copy, so that none sees what another left in it; or a
        class or function that makes one from belief and options.

    Raises
    ------
    InputError
        If it is neither, or its class is one that is to be completed.
    """
    from morph_opt.decision.objective import Objective
    from morph_opt.policies.base import Policy

    kind = {"policy": Policy, "objective": Objective}[word]
    if isinstance(value, kind):
        return import_path(value), lambda *_: copy.deepcopy(value)
    made = isinstance(value, type) and issubclass(value, Policy | Objective)
    if not callable(value) or (made and not issubclass(value, kind)):
        rule = (
            f"must be a name, an object of mo.{kind.__name__} or what makes one, got {shown(value)}"
        )
        raise InputError(rule, field=word)
    require_complete(value, word)
    where = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', None) or ''}:{where}", value
