"""User code by import path or entry point: objectives, solvers, policies, trace readers."""

from __future__ import annotations

import importlib
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import formulations  # noqa: F401 - found now, also where it lies in the current folder
from morph_opt.core.domain.arguments import kind_of
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.nearest import did_you_mean

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""Pattern of an import path, ``package.module:attribute``."""
_LONGEST = 200

_OPTIONS = {
    "morph_opt.policies": "--policy",
    "morph_opt.objectives": "--objective",
    "morph_opt.solvers": "--solver",
    "morph_opt.executors": "--on",
}
"""Options that take names of extensions, by entry-point group."""

_loaded: dict[str, str] = {}
"""Name of the latest extension of each user package."""

_file: ContextVar[tuple[str, bool] | None] = ContextVar("file", default=None)
"""File from which names are being read, and whether it may name code."""


@contextmanager
def named_by_file(file: str, *, allow_code: bool) -> Iterator[None]:
    """Mark names within this context as given by a file, which may name code only if allowed.

    Import paths are then refused unless the user allows them, and nothing is looked for in the
    current folder: neither modules nor packages that announce entry points.

    Parameters
    ----------
    file
        Shown in the refusal.
    allow_code
        The user's explicit word on the command line.
    """
    token = _file.set((file, allow_code))
    try:
        yield
    finally:
        _file.reset(token)


@contextmanager
def _trusted_path() -> Iterator[None]:
    """Remove the current folder from the module search path while a file's names are looked up."""
    kept = list(sys.path)
    if _file.get() is not None:
        # Python puts it first for `python -m`; where PYTHONPATH names it too, the user meant it.
        first = kept[:1] if kept[:1] != [str(Path.cwd())] else []
        sys.path[:] = [entry for entry in (*first, *kept[1:]) if entry]
    try:
        yield
    finally:
        sys.path[:] = kept


def extension(group: str, name: str) -> Any | None:
    """Return the object of this name, or None if there is none.

    Parameters
    ----------
    group
        Entry point group, for example ``"morph_opt.objectives"``.
    name
        Name of an entry point in that group, or ``package.module:attribute``.

    Raises
    ------
    InputError
        If an import path is given and cannot be imported, or comes from a file (`named_by_file`)
        and was not allowed.
    """
    with _trusted_path():
        found = _found(group, name)
    if found is not None:
        remember(found, name)
    return found


def remember(found: object, name: str) -> None:
    """Record the package of user code, so that `blamed_on` can name it."""
    # A `functools.partial` says of itself that it is of functools: its function knows better.
    written = inspect.unwrap(found.func) if isinstance(found, partial) else found
    package = str(getattr(written, "__module__", None) or name).partition(":")[0].split(".")[0]
    if package not in _NOT_A_USERS:
        _loaded[package] = name


_NOT_A_USERS = {"morph_opt", "formulations", *sys.stdlib_module_names}


def blamed_on(error: BaseException) -> str | None:
    """Return a message for an error that passed through user code, else None.

    It names the import path or entry point, and file, line and text of the last place in the user's
    package that the error passed. So an error of ours that a wrong argument caused is shown at the
    call with that argument. An `InputError` that the user's own code raises keeps its own message.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    if isinstance(error, InputError) and str(raised_in).split(".")[0] in _loaded:
        return None
    for frame, line in reversed(frames):
        name = _loaded.get(str(frame.f_globals.get("__name__", "")).split(".")[0])
        if name is None:
            continue
        code = frame.f_code
        text = " ".join(str(error).split())[:_LONGEST]
        message = f"{type(error).__name__}: {text}" if text else type(error).__name__
        source = linecache.getline(code.co_filename, line).strip()
        place = f"{code.co_filename}, line {line}"
        return f"{name} failed in {code.co_qualname} ({place}: {source}): {message}"
    return None


@lru_cache(maxsize=64)
def _points(
    look: Callable[..., Iterable[EntryPoint]], group: str, path: tuple[str, ...]
) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, looked up once per search path."""
    del path
    return tuple(look(group=group))


def _found(group: str, name: str) -> Any | None:
    for point in _points(entry_points, group, tuple(sys.path)):
        if point.name == name:
            return point.load()
    if ":" not in name and not _of_file(name):
        return None
    if not _PATH.fullmatch(name) or len(name) > _LONGEST or _of_file(name):
        rule = f"cannot import {name!r}: must look like package.module:attribute"
        raise InputError(rule + _of_file(name), field=_OPTIONS.get(group))
    require_allowed(name)
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
        if not hasattr(found, attribute):
            rule = f"{module} has no {attribute!r}{did_you_mean(attribute, dir(found))}"
            raise ImportError(rule)
        return getattr(found, attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        where = ""
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            where = "; it is looked for in the current folder and on PYTHONPATH"
        rule = f"cannot import {name!r}: {error}{where}"
        raise InputError(rule, field=_OPTIONS.get(group)) from error


def _of_file(name: str) -> str:
    """Return advice for a name that begins with a file instead of a module, else ""."""
    file, ending, attribute = f"{name}:".partition(".py:")
    if not ending:
        return ""
    path = Path(file)
    folder = "" if path.parent == Path() else f" typed in {path.parent}"
    return f"; of a file it is {path.name}:{attribute.rstrip(':') or 'NAME'}{folder}"


def require_allowed(name: str, field: str | None = None) -> None:
    """Refuse an import path from a file (`named_by_file`) that may name no code.

    Parameters
    ----------
    name
        Name of a policy, an objective, a solver or a trace.
    field
        The option that it is given as.

    Raises
    ------
    InputError
        Naming the option that allows it.
    """
    file, allowed = _file.get() or (None, True)
    if ":" in name and not allowed:
        rule = f"names code to run, {name!r}; --allow-code runs it, if you trust it"
        raise InputError(rule, file=file, field=field)


def made_by(own: Any, name: str, field: str, contract: str, *args: Any, **kwargs: Any) -> Any:
    """Call user code with these arguments and return its result.

    Parameters
    ----------
    own, name
        Object that `extension` found, and its name.
    field
        Option that the user gave, shown in complaints.
    contract
        Signature that it must have, for example ``"policy(belief, options)"``.

    Raises
    ------
    InputError
        If it cannot be called so, or is a class that is to be completed. An error inside it stays
        what it is.
    """
    if not callable(own):
        raise InputError(f"{name!r} must be callable: a class or a function", field=field)
    require_complete(own, field)
    values = contract.partition("(")[2]
    head = f"__init__(self, {values}" if isinstance(own, type) else f"{_named(own)}({values}"
    rule = f"{name!r} must be callable as {contract}, so write def {head.replace(', )', ')')}"
    try:
        signature = inspect.signature(own)
    except ValueError:  # some built-in functions do not tell
        signature = None
    try:
        if signature is not None:
            signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{rule}: {error}", field=field) from error
    try:
        return own(*args, **kwargs)
    except TypeError as error:
        if signature is None:
            raise InputError(f"{rule}: {error}", field=field) from error
        frames = list(traceback.walk_tb(error.__traceback__))[1:]
        if not all(_is_pythons(frame.f_globals) for frame, _ in frames):
            raise
        rule = f"{name!r} must be callable as {contract}; it belongs to Python's own library"
        raise InputError(rule, field=field) from error


def _named(own: Any) -> str:
    return str(getattr(own, "__name__", "__call__"))


def _is_pythons(module: Mapping[str, Any]) -> bool:
    """Return whether code belongs to the standard library."""
    return str(module.get("__name__")).split(".")[0] in sys.stdlib_module_names


def require_complete(own: Any, field: str) -> None:
    """Refuse a class that does not define every abstract method of its base.

    Raises
    ------
    InputError
        Naming what it has to have.
    """
    if missing := sorted(getattr(own, "__abstractmethods__", ())):
        rule = f"{own.__name__} is incomplete: a class of your own must define {', '.join(missing)}"
        raise InputError(rule, field=field)


def import_path(made: Any) -> str:
    """Return the import path of an object's class, ``package.module:Class``."""
    kind = type(made)
    return f"{kind.__module__}:{kind.__qualname__}"


def require_kind(made: Any, kind: type, source: str, field: str) -> None:
    """Refuse a result of user code that is not a ``kind``.

    Parameters
    ----------
    source
        Function that returned it, for example ``"mine:Policy.decide"``.

    Raises
    ------
    InputError
        Naming both types.
    """
    if not isinstance(made, kind):
        rule = f"{source} must return a {_public_name(kind)}, got {kind_of(made)}"
        raise InputError(rule, field=field)


def _public_name(kind: type) -> str:
    """Return the name of a class in the shortest package that lists it in ``__all__``."""
    parts = kind.__module__.split(".")
    homes = (".".join(parts[: length + 1]) for length in range(len(parts)))
    public = (one for one in homes if kind.__name__ in getattr(sys.modules[one], "__all__", ()))
    return f"{next(public, kind.__module__)}.{kind.__qualname__}"


def require_parts(made: Any, name: str, field: str, what: str, parts: tuple[str, ...]) -> Any:
    """Return the object; refuse it if it lacks an attribute of its protocol.

    Raises
    ------
    InputError
        Naming what is missing.
    """
    missing = [part for part in parts if not hasattr(made, part)]
    if missing:
        rule = f"{name!r} makes no {what}: {kind_of(made)} has no {' and no '.join(missing)}"
        raise InputError(rule, field=field)
    return made
