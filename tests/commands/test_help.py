"""Help says something of every option and command, and most of it on one screen."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from morph_opt.__main__ import main
from morph_opt.commands import COMMANDS, parser_of
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import nearest
from morph_opt.replay.scenario import Scenario
from morph_opt.sweep.spec import scenario_of
from tests.commands.described import described

FRAGMENT = re.compile(
    r"(of|as|that|those|this|these|which|what|who|whom|whose|how|where|when|whether|why|beside|behind"
    r"|for|from|to|in|on|at|by|with|without|within|until|since|after|before|above|below|than|if"
    r"|unless|and|or|but|also|only|because|while|so|next to|in front of)\b",
    re.IGNORECASE,
)
"""First words of a help that is a fragment."""


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_and_option_has_a_help_text(command: str) -> None:
    assert [fact.name for fact in described(parser_of(command)) if not fact.help.strip()] == []
    for parser in parsers(parser_of(command)):
        assert len(parser.description or "") >= 10, parser.prog
        assert "``" not in parser.format_help(), parser.prog


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_no_help_begins_with_a_fragment(command: str) -> None:
    """A help names its thing first: no preposition or relative word without a noun before it."""
    helps = {fact.name: fact.help for fact in described(parser_of(command))}
    found = {name: text for name, text in helps.items() if FRAGMENT.match(text)}
    assert found == {}


def test_the_list_of_commands_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 79
        assert all(f"  {command.name} " in "\n".join(lines) for command in COMMANDS)


def test_the_help_of_a_replay_has_what_most_use(capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of("replay")
    options = [fact.name for fact in described(parser)]
    shown = parser.format_help()
    short = [name for name in options if f"\n  {name}" in shown]
    assert "--trace" in short
    assert 12 <= len(short) <= 18
    assert f"{len(options) - len(short)} more options: --help-all" in " ".join(shown.split())
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["--help-all"])
    assert left.value.code == 0
    everything = capsys.readouterr().out
    assert all(f"\n  {name}" in everything for name in options)
    assert parser.format_help() == shown


def test_an_unknown_command_is_no_defect() -> None:
    for word in ("nope", "help"):
        done = subprocess.run(
            [sys.executable, "-m", "morph_opt", word], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"error: unknown command '{word}'; known are replay, ")
        assert "defect" not in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replai", "unknown command 'replai' (did you mean 'replay'?)"),
        ("replay --intervall-s 3", "--intervall-s 3 (did you mean '--interval'?)"),
        ("replay --trace naiv", "unknown trace 'naiv' (did you mean 'naive'?)"),
        ("replay --trace heliso:x.csv", "unknown format 'heliso' (did you mean 'helios'?)"),
        ("replay --policy srft", "unknown policy 'srft' (did you mean 'srtf'?)"),
        ("replay --policy lookahead", "--policy: 'lookahead' is an objective of the policy milp"),
        ("replay --objective srtf", "--objective: 'srtf' is a policy: give it as --policy"),
        ("replay --objective lokahead", "(did you mean 'lookahead'?)"),
        ("replay --trace naive --solver higs", "unknown solver 'higs' (did you mean 'highs'?)"),
        ("replay --trace naive --method lader", "unknown method 'lader' (did you mean 'ladder'?)"),
        ("replay --belief modle", "unknown belief 'modle' (did you mean 'model'?)"),
        ("replay --cluster 2x8:H100", "unknown GPU type 'H100' (did you mean 'H100-80GB'?)"),
        ("replay --gpu-type v100", "unknown GPU type 'v100' (did you mean 'V100'?)"),
        ("replay --cluster 8x", "must be a file, or look like 8x8"),
        ("plan node --slo x", "'node' (did you mean 'nodes'?)"),
        ("round --format txt", "'txt' (did you mean 'text'?)"),
        ("data fetch gavl", "unknown data set 'gavl' (did you mean 'gavel'?)"),
    ],
)
def test_near_names_are_suggested(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_near_names_are_suggested_in_python_and_files() -> None:
    with pytest.raises(InputError, match=r"is no field of a scenario \(did you mean 'interval_s'"):
        Scenario().replaced(intervall_s=3.0)
    with pytest.raises(InputError, match=r"unknown field \(did you mean 'objective'\?\); known"):
        scenario_of({"objectiv": "jct"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nope", None),
        ("", None),
        ("NAIVE", "naive"),
        ("gavel_96", "gavel-96"),
        ("g", None),
        ("gavel", "gavel-96"),
        ("\N{FULLWIDTH DIGIT ONE}", None),
        ("x" * 5000, None),
    ],
)
def test_nearest(name: str, meant: str | None) -> None:
    assert nearest(name, ["base", "naive", "gavel-96", "gavel-96/slo"]) == meant


def test_a_parser_that_is_not_abridged_shows_everything() -> None:
    parser = LineParser(prog="p")
    parser.add_argument("--x", help="of something")
    assert "--x" in parser.format_help()
    assert "--help-all" not in parser.format_help()
