"""Public functions and classes that refuse arguments of the wrong type in the user's words."""

from __future__ import annotations

import builtins
import inspect
import numbers
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin

from morph_opt.domain.errors import InputError
from morph_opt.domain.nearest import did_you_mean, guessing

_Public = TypeVar("_Public", bound=Callable[..., Any])
_LONGEST = 60
"""Characters of a refused value that a message repeats."""


def checked(public: _Public, *, types: bool = True) -> _Public:
    """Refuse what the annotations of a function, or of a class's constructor, do not allow.

    They are read at the first call, in the module of the definition: a name that only type
    checkers import says nothing. A whole number counts as a number, any sequence as a tuple, and a
    text never as a sequence. Numbers and arrays of numpy and pandas are handed on as Python's own
    where those are allowed, and what may be a path is never an empty text.

    >>> @checked
    ... def twice(number: float) -> float:
    ...     return 2 * number
    >>> twice("2")
    Traceback (most recent call last):
    morph_opt.domain.errors.InputError: number: must be a number, got '2'
    >>> twice(numbr=2)
    Traceback (most recent call last):
    TypeError: twice() has no parameter 'numbr' (did you mean 'number'?)

    Raises
    ------
    InputError
        At a call, if an argument is of another type: names the parameter.
    TypeError
        At a call, if a parameter is missing or unknown.

    Notes
    -----
    Without ``types``, names of parameters alone are looked at: what says more of a value than its
    type, as options do, refuses it in words of its own. Objects of a class tell which attribute was
    meant (`guessing`).
    """
    if not isinstance(public, type):
        return cast(_Public, _guarded(public, types))
    kind: Any = public
    kind.__init__ = _guarded(kind.__init__, types)
    return cast(_Public, guessing(kind))


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _guarded(function: Any, types: bool) -> Any:
    title = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    signature = inspect.signature(function)
    known = list(signature.parameters.values())
    skipped = int(bool(known) and known[0].name in ("self", "cls"))
    known = known[skipped:]
    places = [one.name for one in known if one.kind is one.POSITIONAL_OR_KEYWORD]
    anything = any(one.kind is one.VAR_KEYWORD for one in known)
    needed = [one.name for one in known if one.default is one.empty and one.kind not in _VARIADIC]
    notes: dict[str, Any] = {}
    by_type: set[str] = set()  # parameters of which the type of a value says all
    fitting: set[tuple[str, type]] = set()
    seen: set[tuple[Any, ...]] = set()  # calls by the types in them, in which all is well

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        form = (*map(type, arguments), *named, *map(type, named.values()))
        if form in seen:
            return function(*arguments, **named)
        if not notes:
            at = function.__globals__
            notes.update({one.name: _resolved(one.annotation, at) for one in known} | {"": None})
            by_type.update(name for name, note in notes.items() if _says_all(note))
        given = dict(zip(places, arguments[skipped:], strict=False))
        if not anything:
            _require_known(title, named, [one.name for one in known])
        if len(arguments) - skipped > len(places):
            rule = f"takes {len(places)} values without a name, got {len(arguments) - skipped}"
            raise TypeError(f"{title}() {rule}; the others are given by name")
        values = given | named
        if missing := next((name for name in needed if name not in values), ""):
            raise TypeError(f"{title}() needs {missing}")
        if not types:
            return function(*arguments, **named)
        plain: dict[str, Any] = {}
        for name, value in values.items():
            # Rounds make jobs by the thousand: a type that fitted once is not looked at again.
            if (name, type(value)) in fitting or name not in notes:
                continue
            taken = _taken(name, value, notes[name])
            if taken is not value:
                plain[name] = taken
            elif name in by_type:
                fitting.add((name, type(value)))
        if fitting.issuperset((name, type(value)) for name, value in values.items()):
            seen.add(form)
        if plain:
            first = (plain.get(name, value) for name, value in given.items())
            arguments = (*arguments[:skipped], *first)
            named = {name: plain.get(name, value) for name, value in named.items()}
        return function(*arguments, **named)

    return call


def _require_known(title: str, named: Iterable[str], words: list[str]) -> None:
    """Refuse names of parameters that a function has not."""
    for name in named:
        if name not in words:
            near = did_you_mean(name, words) or f"; it has {', '.join(words)}"
            raise TypeError(f"{title}() has no parameter {name!r}{near}")


def _taken(name: str, value: Any, note: Any) -> Any:
    """A value as it is handed on, if its annotation allows it."""
    own = own_value(value)
    if own is not value and _takes_own(own, note):
        return own
    if not _fits(value, note):
        key = None
        for one in _alternatives(note) if isinstance(value, Mapping) else ():
            if (get_origin(one) or one) in _DICTS:
                note = _part(one)
                key, value = next(pair for pair in value.items() if not _fits(pair[1], note))
        of = "" if key is None else f"{key}: "
        raise InputError(f"{of}must be {_words(note)}, got {shown(value)}", field=name)
    if isinstance(value, str) and not value and Path in _alternatives(note):
        raise InputError("must not be empty", field=name)
    return value


def shown(value: object) -> str:
    """A refused value as a message repeats it."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list) and any(isinstance(one, type) for one in value):
        return f"[{', '.join(map(shown, value))}]"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"a {type(value).__name__}"


def kind_of(value: object) -> str:
    """What a value is, in a word."""
    return "None" if value is None else type(value).__name__


def own_value(value: Any) -> Any:
    """A number, text or array of numpy or pandas as Python's own; anything else as it is."""
    if isinstance(value, list | tuple) and any(hasattr(type(one), "tolist") for one in value):
        owned = map(own_value, value)
        return list(owned) if isinstance(value, list) else tuple(owned)
    return value.tolist() if hasattr(type(value), "tolist") else value


def _takes_own(value: Any, note: Any) -> bool:
    """Whether an annotation asks for such a value; one that takes anything takes what was given."""
    return not any(one is Any for one in _alternatives(note)) and _fits(value, note)


class _Names(Mapping[str, Any]):
    """Names of a module and built-in ones; whatever else an annotation names is anything."""

    def __init__(self, at: Mapping[str, Any]) -> None:
        self._at = at

    def __getitem__(self, name: str) -> Any:
        return self._at.get(name, getattr(builtins, name, Any))

    def __iter__(self) -> Any:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


def _resolved(note: Any, at: Mapping[str, Any]) -> Any:
    if note is inspect.Parameter.empty:
        return Any
    if not isinstance(note, str):
        return note
    try:
        return eval(note, {}, _Names(at))
    except (AttributeError, TypeError):  # a name of a type checker within another
        return Any


def _alternatives(note: Any) -> tuple[Any, ...]:
    # A PEP 695 alias, as numpy's NDArray is one since 2.5, allows what it abbreviates.
    note = getattr(get_origin(note) or note, "__value__", note)
    union = get_origin(note) in (Union, types.UnionType)
    return (
        tuple(one for part in get_args(note) for one in _alternatives(part)) if union else (note,)
    )


_MANY = (tuple, list, set, frozenset, Sequence, Iterable)
_DICTS = (dict, Mapping)


def _fits(value: Any, note: Any, *, within: bool = False) -> bool:
    """Whether a value is what an annotation allows; of elements of elements nothing is asked."""
    return any(_fits_one(value, one, within=within) for one in _alternatives(note))


def _fits_one(value: Any, note: Any, *, within: bool) -> bool:
    origin = get_origin(note) or note
    if note is None or note is type(None):
        return value is None
    if origin is Literal:
        return value in get_args(note)
    if origin is Callable:
        return callable(value)
    if origin is Any or not isinstance(origin, type):
        return True
    if origin in (int, float):
        kind = numbers.Integral if origin is int else numbers.Real
        return isinstance(value, kind) and not isinstance(value, bool)
    if origin in _DICTS and isinstance(value, Mapping):
        return within or all(_fits(one, _part(note), within=True) for one in value.values())
    if origin in (tuple, list, Sequence, Iterable):
        several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return several and (within or all(_fits(one, _part(note), within=True) for one in value))
    if origin is Iterable and not isinstance(value, Sequence):
        return isinstance(value, Iterable)  # which are looked at once, by whom they are for
    if getattr(origin, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(origin))
    return isinstance(value, origin)


def _says_all(note: Any) -> bool:
    """Whether the type of a value tells if an annotation allows it."""
    kinds = [get_origin(one) or one for one in _alternatives(note)]
    looked_into = (Literal, Path, tuple, list, Sequence, *_DICTS)
    return not any(one in looked_into or getattr(one, "_is_protocol", False) for one in kinds)


def _part(note: Any) -> Any:
    """What elements of a sequence or values of a dict are; of a tuple of unlike ones: anything."""
    parts = [one for one in get_args(note) if one is not Ellipsis]
    if (get_origin(note) or note) in _DICTS:
        parts = parts[1:]
    return parts[0] if len(parts) == 1 else Any


def _members(protocol: type) -> list[str]:
    kinds = [one for one in protocol.__mro__ if one not in (object, Protocol)]
    return [name for one in kinds for name in vars(one) if not name.startswith("_")]


_WORDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Path: "a path",
    type: "a class",
    type(None): "None",
    None: "None",
    dict: "a dict",
    Mapping: "a dict",
}


def _words(note: Any) -> str:
    words = list(dict.fromkeys(_one(part) for part in _alternatives(note)))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _one(note: Any) -> str:
    origin = get_origin(note) or note
    if origin in _WORDS:
        return _WORDS[origin]
    if origin is Literal:
        return " or ".join(map(repr, get_args(note)))
    if origin in _MANY:
        of = _part(note) if get_args(note) else Any
        return "several" if of is Any else f"several, each {_words(of)}"
    if origin is Callable:
        return "a function"
    name = getattr(origin, "__name__", str(origin))
    name = {"ndarray": "array", "NDArray": "array"}.get(name, name)
    return f"{'an' if name[0] in 'AEIOUa' else 'a'} {name}"
