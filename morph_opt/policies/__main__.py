"""``python -m morph_opt.policies``: every policy and objective, and what each may be told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.policies.registry import OBJECTIVES, POLICIES
from morph_opt.policies.spec import MILP_OPTIONS, OPTIONS, PolicySpec


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m morph_opt.policies", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="as the tables of docs/policies.md")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _print_tables, arguments)


def _print_tables(given: argparse.Namespace) -> int:
    if given.markdown:
        print(f"{objectives_table()}\n\n{baselines_table()}\n\n{options_table()}")
        return 0
    everything: list[PolicySpec[object]] = [*POLICIES.values(), *OBJECTIVES.values()]
    width = max(len(spec.name) for spec in everything)
    for title, specs in (
        ("policies (--policy)", POLICIES.values()),
        ("objectives of the policy milp (--objective)", OBJECTIVES.values()),
    ):
        print(f"{title}:")
        for spec in specs:
            told = "".join(f" [{OPTIONS[name].option}]" for name in spec.options)
            print(f"  {spec.name:<{width}}  {spec.rule}{told}")
    return 0


def objectives_table() -> str:
    """Markdown of the objectives."""
    header = (
        "objective", "what a round is worth", "source", "needs to know the rest of a job",
        "may be told", "page",
    )  # fmt: skip
    return _table(
        header,
        [
            (f"`{spec.name}`", spec.rule, spec.source, spec.needs.rest, _told(spec), _link(spec))
            for spec in OBJECTIVES.values()
        ],
    )


def baselines_table() -> str:
    """Markdown of the policies but ``milp``."""
    return _table(
        ("policy", "rule", "source", "may be told", "page"),
        [
            (f"`{spec.name}`", spec.rule, spec.source, _told(spec), _link(spec))
            for spec in POLICIES.values()
            if spec.name != "milp"
        ],
    )


def options_table() -> str:
    """Markdown of the options with their ranges."""
    rows = []
    for known in OPTIONS.values():
        takes = "nothing" if known.flag else "a name" if known.metavar != "FILE" else "a file"
        if known.metavar is not None and "|" in known.metavar:
            takes = " or ".join(f"`{word}`" for word in known.metavar.split("|"))
        if known.range is not None:
            takes = ("names with " if known.named else "") + known.range.words
        who = "`milp`" if known.name in MILP_OPTIONS else known.help.split(" (")[0]
        rows.append((f"`{known.option}`", takes, who))
    return _table(("option", "takes", "known to"), rows)


def _told(spec: PolicySpec[object]) -> str:
    return ", ".join(f"`{OPTIONS[name].option}`" for name in spec.options) or "-"


def _link(spec: PolicySpec[object]) -> str:
    if not spec.page:
        return "-"
    return f"[{spec.page.removeprefix('formulations/').removesuffix('.md')}]({spec.page})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


if __name__ == "__main__":
    sys.exit(as_process(main))
