"""Conversion of parsed documents to dataclasses and back, by the types of their fields.

`cattrs` takes the types apart; this module defines which values a file may have for each type, and
adds the path to errors. Rules that no type states (relations of fields, known names) belong to
`morph_opt.core.documents.fields.Fields` and to the dataclasses themselves.
"""

from __future__ import annotations

import math
import types
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from morph_opt.core.domain._validate import MOST_WHOLE, beyond
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.nearest import did_you_mean

if TYPE_CHECKING:  # loaded with the first document: no help text waits for it
    from cattrs import Converter

_T = TypeVar("_T")
_AS_WRITTEN = (str, bool, int, float)


def structure(kind: type[_T], value: object) -> _T:
    """Convert a parsed value to a type: number, text, list, table by name, dataclass or choice.

    Dataclasses refuse unknown fields; a class with ``parse`` is read from its text; a value that is
    one already stays.

    Raises
    ------
    InputError
        Naming the field below ``value``, such as ``nodes[2].gpus``, and the rule.
    """
    try:
        found: _T = _converter().structure(value, kind)
    except Exception as error:
        raise _placed(error) from None
    return found


def plain(value: Any, *but: str, optional: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
    """Return a dataclass as values for JSON and TOML that `structure` reads back.

    Parameters
    ----------
    but
        Fields that are not written.
    optional
        Fields that are left out if they have their default.
    given
        Values that are written in place of some fields.
    """
    found, inner, fields = {}, _converter().unstructure, type(value).__dataclass_fields__
    for name in names_of(type(value), *but):
        one = given[name] if name in given else getattr(value, name)
        if not (one is None or type(one) in _AS_WRITTEN or name in given):
            one = inner(one)
        if name not in optional or one != fields[name].default:
            found[name] = one
    return found


def names_of(kind: type[Any], *but: str) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, in order."""
    return tuple(name for name in kind.__dataclass_fields__ if name not in but)


def kind_of(value: object) -> str:
    """Return a parsed value in a few words, for errors."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str | int | float) else f"{value} (a date)"


def field_of(error: InputError) -> str:
    """Return the last field that an error names: ``name`` of ``node.name``."""
    return (error.field or "").rpartition(": ")[2].rpartition(".")[2]


def unknown_field(name: str, known: tuple[str, ...]) -> str:
    """Return the rule that an unknown field breaks."""
    listed = f"known are {', '.join(known)}" if len(known) != 1 else f"the only one is {known[0]!r}"
    return f"unknown field{did_you_mean(name, known)}; {listed}"


def text(value: object, kind: type[str] = str) -> str:
    """Return a string or a member of a `StrEnum`; refuse all else."""
    if not isinstance(value, str):
        raise InputError(f"must be text, got {kind_of(value)}")
    if kind is str:
        return value
    assert issubclass(kind, StrEnum)
    if value not in (words := list(map(str, kind))):
        raise InputError(f"must be one of {', '.join(words)}, got {value!r}")
    return kind(value)


def flag(value: object, _: object = bool) -> bool:
    """Return true or false; refuse all else."""
    if not isinstance(value, bool):
        raise InputError(f"must be true or false, got {kind_of(value)}")
    return value


def whole(value: object, _: object = int) -> int:
    """Return a whole number of 64 bits; refuse all else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"must be a whole number, got {kind_of(value)}")
    if rule := beyond(value, at_least=-MOST_WHOLE, at_most=MOST_WHOLE, whole=True):
        raise InputError(rule)
    return value


def number(value: object, _: object = float) -> float:
    """Return a finite number; refuse all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"must be a number, got {kind_of(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InputError("must be a finite number")
    return found


@cache
def _converter() -> Converter:
    from cattrs import Converter, cols
    from cattrs.gen import make_dict_structure_fn

    found = Converter(forbid_extra_keys=True)
    for kind, read in zip(_AS_WRITTEN, (text, flag, whole, number), strict=True):
        found.register_structure_hook(kind, read)
    for matches, make, taken, words in (
        (cols.is_mapping, cols.mapping_structure_factory, dict, "an object"),
        (_is_list, _list, (list, tuple), "a list"),
        (cols.is_mutable_sequence, cols.list_structure_factory, (list, tuple), "a list"),
        (is_dataclass, make_dict_structure_fn, dict, "an object"),
    ):
        found.register_structure_hook_factory(matches, partial(_only, make, taken, words))
    found.register_structure_hook_factory(_has_parse, _parsed)
    found.register_unstructure_hook_func(_has_parse, lambda value: value.label)
    return found


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _list(kind: Any, converter: Converter) -> Any:
    """Convert a list to a tuple, of any or of a fixed length, of values of one type."""
    from cattrs import cols

    one, *more = get_args(kind)
    many: Any = types.GenericAlias(list, (one,))
    inner = cols.list_structure_factory(many, converter)

    def read(value: Any, _: object) -> Any:
        if more != [...] and len(value) != 1 + len(more):
            words = "texts" if one is str else "numbers"
            raise InputError(f"must have {1 + len(more)} {words}, got {len(value)}")
        return tuple(inner(value, kind))

    return read


def _has_parse(kind: Any) -> bool:
    return is_dataclass(kind) and hasattr(kind, "parse")


def _only(make: Any, taken: Any, words: str, kind: Any, converter: Converter) -> Any:
    """Return the library's hook for a type, refusing values of other types."""
    inner = make(kind, converter)
    known: Any = kind if is_dataclass(kind) else ()

    def read(value: object, _: object) -> Any:
        if isinstance(value, taken):
            return inner(value, kind)
        if isinstance(value, known):
            return value
        raise InputError(f"must be {words}, got {kind_of(value)}")

    return read


def _parsed(kind: Any, _: Converter) -> Any:
    """Parse a value that is written as text, such as a plan."""
    return lambda value, _: value if isinstance(value, kind) else kind.parse(text(value))


def _placed(error: Exception) -> Exception:
    """Turn the first error of cattrs into an `InputError` with path and rule."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError

    path, above = "", None
    while isinstance(error, BaseValidationError):
        above = error.cl
        strays = (one for one in error.exceptions if isinstance(one, ForbiddenExtraKeysError))
        error = next(strays, error.exceptions[0])
        for note in getattr(error, "__notes__", ()):
            below = getattr(note, "name", None) or note.index
            path += f"[{below}]" if isinstance(below, int) else f".{below}"
            above = None
    if isinstance(error, ForbiddenExtraKeysError):
        name, known = min(error.extra_fields), names_of(error.cl)
        return InputError(unknown_field(name, known), field=f"{path}.{name}")
    if isinstance(error, KeyError) and path.endswith(f".{error.args[0]}"):
        return InputError("is missing", field=path)
    if not isinstance(error, InputError):
        return error
    last = field_of(error)
    if above is not None and last in names_of(above):  # its constructor names one of its fields
        path += f".{last}"
    return InputError(error.rule, field=path)
