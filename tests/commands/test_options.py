"""Every option of every command, read off its parser: what it takes, and that it refuses the rest.

A new option is met by these tests at once; one of a type without a range fails them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest

from morph_opt.core.commandline.parser import LineParser
from tests.commands.described import OptionFacts, described
from tests.known import KNOWN, parser_of

LONGEST_LINE = 600
"""Characters of a complaint; lists of known names are the longest."""

PARSERS: dict[str, Callable[[], LineParser]] = {
    **{command.name: partial(parser_of, command.name) for command in KNOWN},
    **{
        name: importlib.import_module(name).make_parser
        for name in (
            "morph_opt.__main__",
            "benchmarks.fairness.cli",
            "benchmarks.highs_options",
            "benchmarks.objectives",
            "benchmarks.packing",
            "benchmarks.perf.micro",
            "benchmarks.planning.cli",
            "benchmarks.perf.online",
            "benchmarks.rounds.cli",
            "benchmarks.scale.cli",
            "benchmarks.solvers.__main__",
        )
    },
}


@cache
def parser(command: str) -> LineParser:
    """Build a command's parser once: that of ``plan`` has every option of its questions."""
    return PARSERS[command]()


FACTS = [(name, fact) for name in PARSERS for fact in described(parser(name))]
OPTIONS = [(name, fact) for name, fact in FACTS if not fact.positional]
POSITIONALS = [(name, fact) for name, fact in FACTS if fact.positional]


def label(value: object) -> str:
    if isinstance(value, OptionFacts):
        return " ".join((*value.words, value.name))
    return str(value)


def sample(fact: OptionFacts) -> str:
    """A value that the option takes."""
    if fact.kind == "choice":
        return fact.choices[0]
    if fact.range is not None:
        number = f"{fact.range.high:.0f}" if fact.range.whole else f"{fact.range.high:g}"
        return f"a={number}" if fact.kind == "named numbers" else number
    return "x"


def refused(
    command: str, words: list[str], fact: OptionFacts, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parser alone answers in one line that names the option."""
    with pytest.raises(SystemExit) as left:
        parser(command).parse_args(words)
    captured = capsys.readouterr()
    assert left.value.code == 2, words
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    assert fact.name in captured.err, captured.err
    assert len(captured.err) <= LONGEST_LINE


@pytest.mark.parametrize("command", PARSERS)
def test_options_say_what_they_take(command: str) -> None:
    for fact in (fact for name, fact in FACTS if name == command):
        assert fact.kind != "other", (
            f"{fact.name}: give it a type of morph_opt.core.commandline.types"
        )
        ranged = fact.kind in ("number", "named number", "named numbers")
        assert (fact.range is not None) == ranged, fact.name
        assert fact.choices or fact.kind != "choice", fact.name
        assert "\n" not in fact.help, fact.name


def hostile(fact: OptionFacts) -> Iterator[str]:
    """Values that the option must refuse."""
    yield from ("", " ")
    if fact.kind == "choice":
        yield from ("nope", fact.choices[0] + " ", fact.choices[0][:-1])
    if fact.kind in ("text", "path"):
        yield from ("a\nb", "a\0b", "x" * 5000, "\x1b[2J")
    if fact.range is None:
        return
    numbers = list(hostile_numbers(fact))
    if fact.kind == "named numbers":
        yield from ("1", "a", "=1", "a=1,", f"{sample(fact)},{sample(fact)}")
        yield from (f"a={number}" for number in numbers)
        return
    if fact.kind == "named number":
        yield from ("=1", "a=", " =1", *(f"a={number}" for number in numbers))
    yield from numbers


def hostile_numbers(fact: OptionFacts) -> Iterator[str]:
    """What is no number of the range: spellings, infinities, and the neighbours of its ends."""
    assert fact.range is not None
    low, high = fact.range.low, fact.range.high
    yield from ("nan", "inf", "Infinity", "1e999", "1e300", "1" + 30 * "0", "9" * 5000, "x", "0x10")
    yield from ("1_0", "\N{FULLWIDTH DIGIT ONE}", "1,5", f"{2 * high + 1:.0f}")
    yield f"{low - 1:.0f}"
    if fact.range.above:
        yield f"{low:g}"
    if fact.range.whole:
        yield from ("1.5", "1e3", "1.0")


def types() -> list[tuple[str, OptionFacts]]:
    """One option of every type that some option has: what is refused is part of the type."""
    found: dict[tuple[object, ...], tuple[str, OptionFacts]] = {}
    for command, fact in OPTIONS:
        if fact.kind != "flag":
            found.setdefault((fact.kind, fact.range, fact.choices), (command, fact))
    return list(found.values())


@pytest.mark.parametrize(("command", "fact"), types(), ids=label)
def test_hostile_values_are_refused(
    command: str, fact: OptionFacts, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in hostile(fact):
        refused(command, [*fact.words, f"{fact.name}={value}"], fact, capsys)


@pytest.mark.parametrize("command", PARSERS)
def test_an_option_given_twice_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for fact in (f for name, f in OPTIONS if name == command and not f.repeatable):
        once = [fact.name] if fact.kind == "flag" else [fact.name, sample(fact)]
        refused(command, [*fact.words, *once, *once], fact, capsys)


@pytest.mark.parametrize("command", PARSERS)
def test_abbreviations_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    # One letter less of ``--gpu-types`` is an option of its own; two are none.
    known = {name for _, other in FACTS if (name := other.name)}
    for fact in (fact for name, fact in OPTIONS if name == command):
        value = [] if fact.kind == "flag" else [sample(fact)]
        short = fact.name[:-1] if fact.name[:-1] not in known else fact.name[:-2]
        with pytest.raises(SystemExit) as left:
            parser(command).parse_args([*fact.words, short, *value])
        assert left.value.code == 2, fact.name
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("command", "fact"), POSITIONALS, ids=label)
def test_hostile_arguments_are_refused(
    command: str, fact: OptionFacts, capsys: pytest.CaptureFixture[str]
) -> None:
    all_of_it = [f for name, f in POSITIONALS if name == command and f.words == fact.words]
    for value in hostile(fact):
        words = [value if other is fact else sample(other) for other in all_of_it]
        refused(command, [*fact.words, *words], fact, capsys)


def test_every_parser_is_of_the_same_class() -> None:
    for name, make in PARSERS.items():
        parser = make()
        assert isinstance(parser, LineParser), name
        assert parser.allow_abbrev is False
