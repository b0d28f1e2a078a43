"""Options declared as fields of dataclasses, with type, range and help.

A subject (jobs, scheduler, engine, failures) is a frozen dataclass whose fields are made by
`option`. From it follow the options of command lines (`morph_opt.core.commandline.options`), the
tables of TOML files and the JSON schema (`morph_opt.core.documents.fields`), the names of a sweep,
every refusal of a value, and the tables of ``docs/options.md``: a new field is in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType
from typing import Any, TypeVar

from morph_opt.core.domain.arguments import is_kind, own_value
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.ranges import Range

_KEY = "option"
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class Option:
    """Description of an option: help, accepted values and name on the command line.

    Parameters
    ----------
    help
        Purpose in one line; the default is added when it is shown.
    metavar
        Placeholder for its value.
    range
        Range of the number, or of every number of a table.
    choices
        Accepted words.
    parse
        Function that raises an error for a text of none of several forms.
    flag
        Name on command lines; by default ``--`` and the field's name with dashes.
    hidden
        Whether only files and sweeps have it, not command lines.
    by_name
        Field that takes ``NAME=NUMBER`` under the same flag, if this one takes ``NUMBER``.
    common
        Whether the short help lists it.
    marks
        Labels by which code selects options.
    """

    help: str
    metavar: str | None = None
    range: Range | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] | None = None
    flag: str = ""
    hidden: bool = False
    by_name: str = ""
    common: bool = False
    marks: tuple[str, ...] = ()


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a dataclass field that is an option.

    Parameters
    ----------
    default
        Value if none is given; a dict is copied.
    help, **more
        See `Option`.
    """
    metadata = {_KEY: Option(help, **more)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


_WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table of numbers",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Field of an options dataclass.

    Parameters
    ----------
    name
        Name of the field.
    kind
        ``str``, ``int``, ``float``, ``bool``, or ``dict`` for numbers by name.
    optional
        Whether it may be None, which means "not given".
    default
        Value if none is given.
    option
        Its description; None for a recorded value that is no option, such as a digest.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    option: Option | None

    @property
    def about(self) -> Option:
        """Description of the option."""
        assert self.option is not None
        return self.option

    @property
    def flag(self) -> str:
        """Option on the command line, such as ``--starvation-knob``."""
        return self.about.flag or "--" + self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """Help text, with the default unless the text states it."""
        plain = isinstance(self.default, bool | Mapping | NoneType)
        if plain or self.about.help.endswith(")"):
            return self.about.help
        shown = f"{self.default:g}" if self.kind is float else str(self.default)
        return f"{self.about.help} ({shown})"

    @property
    def takes(self) -> str:
        """Accepted values, in words."""
        if self.kind is bool:
            return "nothing"
        if self.about.range is not None:
            return ("names with " if self.kind is dict else "") + self.about.range.words
        words = self.about.choices
        if not words and self.about.metavar and "|" in self.about.metavar:
            words = tuple(self.about.metavar.split("|"))
        if words:
            return " or ".join(f"`{word}`" for word in words)
        if self.kind is dict:
            return "names with numbers"
        return "a file" if "FILE" in (self.about.metavar or "") else "a name"

    def own(self, value: Any) -> Any:
        """Return the value converted from numpy to Python's own."""
        if self.kind is dict and isinstance(value, Mapping):
            owned = {name: own_value(one) for name, one in value.items()}
            return value if all(owned[name] is value[name] for name in owned) else owned
        return own_value(value)

    def require(self, value: Any) -> None:
        """Refuse a value that the field does not accept.

        Raises
        ------
        InputError
            Naming the field and the rule.
        """
        if value is None and self.optional:
            return
        about = self.option or Option("")
        if about.range is not None and self.kind is not dict:
            about.range.require(self.name, value)
            return
        if not is_kind(value, Mapping if self.kind is dict else self.kind):
            raise InputError(f"must be {_WORDS[self.kind]}, got {value!r}", field=self.name)
        if value == "" != self.default:
            raise InputError("must not be empty", field=self.name)
        if about.choices and value not in about.choices:
            known = " or ".join(about.choices)
            raise InputError(f"must be {known}, got {value!r}", field=self.name)
        if about.parse is not None:
            about.parse(value)
        if about.range is None:
            return
        for key, number in value.items():
            if not isinstance(key, str):
                raise InputError(f"must have names as keys, got {value!r}", field=self.name)
            if rule := about.range.refusal(number):
                raise InputError(f"{key} {rule}", field=self.name)


_KINDS: dict[str, type] = {
    "str": str, "int": int, "float": float, "bool": bool, "Mapping[str, float]": dict,
}  # fmt: skip


_found: dict[type[Any], dict[str, Setting]] = {}


def settings(subject: type[Any]) -> dict[str, Setting]:
    """Return the fields of an options dataclass by name, in the order of its constructor.

    Fields of other types are left out, such as values read from a file.

    Types are read as they are written: the module of the dataclass postpones its annotations.
    """
    if subject in _found:
        return _found[subject]
    found: dict[str, Setting] = {}
    for known in sorted(fields(subject), key=lambda one: bool(one.kw_only)):
        word, _, none = str(known.type).partition(" | ")
        about = known.metadata.get(_KEY)
        if word not in _KINDS:
            assert about is None, f"{subject.__name__}.{known.name}: no option is a {word}"
            continue
        default = known.default if known.default_factory is MISSING else known.default_factory()
        found[known.name] = Setting(known.name, _KINDS[word], bool(none), default, about)
    _found[subject] = found
    return found


def asked(subject: type[Any]) -> dict[str, Setting]:
    """Return the fields that are options."""
    return {name: one for name, one in settings(subject).items() if one.option is not None}


def require_all(value: Any) -> None:
    """Check every field of an options dataclass, in its ``__post_init__``.

    Numbers of numpy become Python's own, which files can hold.

    Raises
    ------
    InputError
        Naming the field and the rule.
    """
    for name, known in settings(type(value)).items():
        held = getattr(value, name)
        own = known.own(held)
        known.require(own)
        if own is not held:
            object.__setattr__(value, name, own)


def given(value: Any) -> set[str]:
    """Return the names of all fields that differ from their default."""
    known = settings(type(value))
    return {name for name, one in known.items() if getattr(value, name) != one.default}


def changed(value: Any) -> tuple[str, ...]:
    """Return the names of options that differ from their default, in order."""
    found = given(value)
    return tuple(name for name in asked(type(value)) if name in found)


def documented(subject: _Class) -> _Class:
    """Add the help of its fields to the docstring of an options dataclass."""
    lines = ["    Parameters", "    ----------"]
    for known in asked(subject).values():
        lines += [f"    {known.name}", f"        {known.help[:1].upper()}{known.help[1:]}."]
    head, raises, tail = (subject.__doc__ or "").partition("    Raises\n")
    subject.__doc__ = f"{head.rstrip()}\n\n" + "\n".join(lines) + f"\n\n{raises}{tail}"
    return subject
