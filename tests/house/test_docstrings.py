"""Public names say what they take: `morph_opt.__all__`, their methods, and what these return."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import morph_opt

OURS = ("morph_opt", "formulations")
SECTION = re.compile(r"^Parameters\n-{10}\n(.*?)(?:\n\n\w+\n---|\Z)", re.MULTILINE | re.DOTALL)


def offered(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Public names of a module and of the modules among them."""
    for name in getattr(module, "__all__", ()):
        found = getattr(module, name)
        if inspect.ismodule(found):
            yield from offered(found)
        else:
            yield f"{module.__name__}.{name}", found


def methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class defines itself."""
    for name, member in vars(owner).items():
        found = member.fget if isinstance(member, property) else member
        found = getattr(found, "__func__", found)
        if not name.startswith("_") and inspect.isfunction(found):
            yield f"{owner.__module__}.{owner.__qualname__}.{name}", found


def returned(function: Any) -> Iterator[type]:
    """Classes of ours that a function returns, alone or in a container."""
    try:
        hint = typing.get_type_hints(inspect.unwrap(function)).get("return")
    except NameError:  # of a library, or of a higher package, that is imported for types alone
        return
    for kind in (hint, *typing.get_args(hint)):
        if inspect.isclass(kind) and kind.__module__.partition(".")[0] in OURS:
            yield kind


def public() -> dict[str, Any]:
    """Every public name, class, method and class that one returns."""
    found: dict[str, Any] = {}
    left = list(offered(morph_opt))
    while left:
        name, value = left.pop()
        if name in found:
            continue
        found[name] = value
        functions = methods(value) if inspect.isclass(value) else [(name, value)]
        for place, function in functions:
            found.setdefault(place, function)
            if callable(function):
                left += [(f"{k.__module__}.{k.__qualname__}", k) for k in returned(function)]
    return found


def asked(value: Any) -> list[str]:
    """What has to be explained: fields of a dataclass, or parameters where there are several."""
    if inspect.isclass(value):
        if not dataclasses.is_dataclass(value):
            return []
        fields = [one for one in dataclasses.fields(value) if one.init]
        names = [f.name for f in fields if not f.name.startswith("_") and not f.metadata]
        return names if len(names) > 2 else []
    names = [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]
    return names if len(names) > 1 else []


def lacking(value: Any) -> str:
    """What a docstring does not say, or nothing."""
    text = inspect.getdoc(value) or ""
    if not text:
        return "has no docstring"
    names = asked(value)
    section = "\n".join(SECTION.findall(text))
    if names and not section:
        return "has no Parameters"
    missing = [name for name in names if not re.search(rf"\b{name}\b", section)]
    return f"Parameters lack {', '.join(missing)}" if missing else ""


def test_public_names_say_what_they_take() -> None:
    names = public()
    assert len(names) > 150
    assert {"morph_opt.plan.nodes", "morph_opt.Scenario"} <= names.keys()
    poor = {
        name: what
        for name, value in names.items()
        if not (inspect.isclass(value) and issubclass(value, enum.Enum))
        and (what := lacking(value))
    }
    assert not poor
