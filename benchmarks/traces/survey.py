"""Report page on every log below a folder.

Run ``python -m benchmarks.traces.survey FOLDER --out FILE``. The page has facts and figures of the
linter, and no row of a log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import exists, write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import shown
from morph_opt.core.table import Table
from morph_opt.inputs.traces.logs.guess import UnknownFormat
from morph_opt.inputs.traces.logs.lint import Lint, lint

SUFFIXES = frozenset((".csv", ".json", ".log", ".swf", ".txt"))
PACKED = frozenset((".gz", ".xz"))
_INTRODUCTION = """\
# What the linter finds in logs

Each file of a known format below one folder, read whole by `python -m morph_opt.traces lint`
([logs](../../docs/logs.md)) as it lies there: format guessed, no cluster named, nothing
rounded up. Facts and figures only; no row of any log is here. This page is written by
`python -m benchmarks.traces.survey FOLDER --out FILE`.

"""


def survey(folder: Path) -> Iterator[tuple[str, Lint | InputError]]:
    """Yield every log of a known format below a folder, or its error, in order of names."""
    for path in sorted(folder.rglob("*")):
        suffix = path.with_suffix("").suffix if path.suffix in PACKED else path.suffix
        if suffix not in SUFFIXES or not path.is_file():
            continue
        found: Lint | InputError
        try:
            found = lint(path)
        except UnknownFormat:
            continue
        except InputError as error:
            found = error
        yield path.relative_to(folder).as_posix(), found


def survey_page(folder: Path) -> str:
    """Return the page, in Markdown.

    Raises
    ------
    InputError
        If no file below the folder is a log.
    """
    if not folder.is_dir():
        rule = "must be a folder, it is a file" if exists(folder) else "there is no such folder"
        raise InputError(rule, file=str(folder))
    listed = list(survey(folder))
    found = [(name, one) for name, one in listed if isinstance(one, Lint)]
    broken = [(name, one) for name, one in listed if isinstance(one, InputError)]
    if not listed:
        raise InputError("has no log of a known format below it", file=str(folder))
    rows = [
        (
            f"`{shown(name)}`",
            one.report.format,
            _dropped(one),
            one.report.rows,
            one.report.jobs,
            one.report.folded,
            one.report.gpu_seconds,
        )
        for name, one in found
    ]
    header = ("log", "format", "dropped", "rows", "jobs", "folded", "GPU-seconds")
    formats = {"rows": ",d", "jobs": ",d", "folded": ",d", "GPU-seconds": ",.10g"}
    parts = [_INTRODUCTION, Table(header, rows, "lllr", formats).to_markdown(), "\n"]
    for name, one in found:
        sentences = list(one.report.sentences())
        if sentences:
            parts.append(f"\n## {shown(name)}\n\n")
            parts += [
                f"- {severity}, `{code}`: {_plain(text)}\n" for severity, code, text in sentences
            ]
    if broken:
        parts.append("\n## Not read\n\n")
    for name, error in broken:
        line = "" if error.line is None else f", line {error.line}"
        parts.append(f"- {shown(name)}{line}: {_plain(error.rule)}\n")
    return "".join(parts)


def _dropped(one: Lint) -> str:
    """Return the dropped rows by reason."""
    return ", ".join(f"{reason} {count:,}" for reason, count in one.report.by_reason())


def _plain(text: str) -> str:
    """Escape a sentence for Markdown."""
    return shown(text, 600).replace("<", "&lt;").replace("*", "\\*")


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(
        prog="python -m benchmarks.traces.survey",
        description="Write a page on every log below a folder.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder with logs at any depth")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="page to write")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    """Write the page."""
    write_atomically(given.out, survey_page(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
