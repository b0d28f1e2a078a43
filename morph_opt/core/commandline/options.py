"""Options of command lines from the dataclasses of `morph_opt.core.domain.options`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from morph_opt.core.commandline.types import NamedNumber, NamedNumbers, Number, named_numbers
from morph_opt.core.domain import InputError
from morph_opt.core.domain.options import Setting, asked


def add_options(
    group: argparse._ActionsContainer, subject: type[Any], names: Iterable[str] | None = None
) -> None:
    """Add the options of a subject; options that are not given are absent from the namespace.

    Parameters
    ----------
    subject
        An options dataclass.
    names
        Fields, in order; None: all that command lines have.
    """
    known = asked(subject)
    for name in known if names is None else dict.fromkeys(names):
        if not known[name].about.hidden:
            _add(group, known[name])


def _add(group: argparse._ActionsContainer, one: Setting) -> None:
    about = one.about
    more: dict[str, Any] = {"help": one.help, "default": argparse.SUPPRESS}
    if one.kind is bool:
        group.add_argument(one.flag, action="store_true", **more)
        return
    if about.by_name:
        more |= {"type": NamedNumber(_range(one)), "action": "append"}
    elif one.kind is dict:
        more["type"] = NamedNumbers() if about.range is None else NamedNumbers(about.range)
    elif one.kind in (int, float):
        more["type"] = Number(_range(one))
    if about.choices:
        more["choices"] = about.choices
    group.add_argument(one.flag, metavar=about.metavar, **more)


def _range(one: Setting) -> Any:
    assert one.about.range is not None, f"{one.name}: numbers of command lines have a range"
    return one.about.range


def dest_of(one: Setting) -> str:
    """Return the attribute of the namespace that holds an option."""
    return one.flag.removeprefix("--").replace("-", "_")


def given_options(given: argparse.Namespace, subject: type[Any]) -> dict[str, Any]:
    """Return the given options of a subject as values of its fields.

    Raises
    ------
    InputError
        If one that may be repeated for single names is given twice for one of them.
    """
    found: dict[str, Any] = {}
    for name, one in asked(subject).items():
        value = getattr(given, dest_of(one), None)
        if one.about.hidden or value is None:
            continue
        if one.about.by_name:
            found |= _split(value, name, one)
        elif one.kind is dict and isinstance(value, str):
            found[name] = named_numbers(value, one.flag, *filter(None, [one.about.range]))
        else:
            found[name] = value
    return found


def _split(values: list[tuple[str | None, float]], name: str, one: Setting) -> dict[str, Any]:
    """Split repeated values into a number for all and numbers by name; see `Option.by_name`."""
    for_all: dict[str, Any] = {}
    single: dict[str, float] = {}
    for of, number in values:
        if (of is None and for_all) or of in single:
            raise InputError(f"given twice{f' for {of}' if of else ''}", field=one.flag)
        if of is None:
            for_all[name] = number
        else:
            single[of] = number
    return for_all | ({one.about.by_name: single} if single else {})


def flagged(error: InputError, *subjects: type[Any]) -> InputError:
    """Return an error about a field as one about its option."""
    for subject in subjects:
        one = asked(subject).get(error.field or "")
        if one is not None and not one.about.hidden:
            return InputError(error.rule, file=error.file, line=error.line, field=one.flag)
    return error
