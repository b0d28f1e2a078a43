"""The commands of pages as typed: ``python -m benchmarks.typed_pages PYTHON [PAGE...]``.

Each page is typed from its top in a folder of its own by an interpreter that has the package
installed, as from a wheel; the folder has a copy of ``docs``, a small ``jobs.csv`` and commands
that answer like Slurm's, and nothing else of the repository unless the page is about a clone. What
is not typed is named with the reason. Without pages: the path of each person, as
far as it goes, then every page; ``--out FOLDER`` keeps that as a page. A campaign, minutes
long, and no part of `make test`.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.core.table import Table
from tests.live.fake import FakeSlurm
from tests.traces.logs.samples import workload

ROOT = Path(__file__).parents[1]
WORDS_PER_MINUTE, COPY_S = 230.0, 5.0
"""Assumed: silent reading of English prose, code included; taking a command or file over."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What somebody reads and types until they have what they came for.

    Parameters
    ----------
    person, goal
        Of the walk.
    page
        Read from its top.
    until
        In the last block that is typed.
    most_min
        Minutes that it may take; None: no limit is set.
    clone
        Typed in a clone, which has the benchmarks and instances as well.
    """

    person: str
    goal: str
    page: str
    until: str
    most_min: float | None = None
    clone: bool = False


WALKS = (
    Walk("newcomer", "a first report", "README.md", "morph_opt.report", 2, clone=True),
    Walk("operator", "own CSV to nodes", "docs/how-to/my-log.md", "plan nodes", 5),
    Walk("operator of a Slurm", "own sacct to a what-if", "docs/how-to/my-slurm.md", "fifo", 10),
    Walk("researcher", "own policy in a sweep", "docs/how-to/policy.md", "sweep table", 10),
    Walk(
        "optimiser",
        "own solver on an instance, checked",
        "docs/how-to/solver.md",
        "instances check",
        clone=True,
    ),
    Walk("library user", "own CSV to a figure", "docs/how-to/notebook.md", "savefig"),
)
PAGES = (
    "README.md",
    "docs/tutorial.md",
    *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs/how-to").glob("*.md"))),
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_A_CLONE = re.compile(r"make (replay|install)\b|\.venv/bin/python -m|python -m benchmarks")
UNTYPED = (
    (r"^#!", "is a script for the reader's own jobs"),
    (r"^\*/", "is a line of cron's"),
    (r"live (observe|act) ", "goes on until it is ended"),
    (r"(00000012|runs/live/rounds)", "is about a turn of the reader's own"),
    (r"^TZ=UTC .*sacct |^sacctmgr |/etc/slurm/", "is typed on a login node of the reader's Slurm"),
    (r"^make live-|debootstrap|LIVE_TEST_ROOT", "needs a Slurm on this machine"),
    (r"^make |^\.venv/|^\. \.venv|python -m benchmarks|^git ", "needs a clone of the repository"),
    (r"plan (fleet|compare) .*(gavel-96|--seeds 30)", "replays long traces many times"),
    (r"now\.json", "is about a state of the reader's own"),
    (r"pip install", "would change the environment"),
)
"""What is not typed, and why; the first that is found holds."""
OWN = "job,submit,gpus,duration\n" + "".join(
    f"job-{n},2026-01-{5 + n // 6:02d} {9 + n % 6:02d}:07:00,"
    f"{(4, 8, 1, 2)[n % 4]},{1800 + 600 * (n % 5)}\n"
    for n in range(24)
)
"""A log of four days for the pages that speak of the reader's own: plans want two whole ones."""


def blocks(text: str, *, clone: bool = False) -> Iterator[tuple[str, str]]:
    """What a page has one type, in order.

    ``("file", its name and content)``, ``("sh", a command)``, or why a command is not typed and it.

    A block of Python without prompts is the module ``mine`` where a command names it, else it is
    run, the cells of a notebook as one file, and what has prompts as a doctest; a TOML block whose
    first line is a comment is the file of that name.
    """
    cells = [body for kind, body in BLOCK.findall(text) if kind == "py"]
    for kind, body in BLOCK.findall(text):
        if kind in ("sh", ""):
            whole = body.startswith("#!") or "<<" in body
            for line in [body] if whole else body.replace("\\\n", " ").splitlines():
                if line.strip() and not line.startswith("# "):
                    live = "kubectl" in text and "morph_opt.live" in text
                    needs = "needs a cluster of Kubernetes" if live else ""
                    yield needs or _kind(line, clone=clone), line
        elif kind == "csv":
            yield "file", f"jobs.csv\n{body}"
        elif kind == "toml" and body.startswith("# "):
            yield "file", body[2:]
        elif kind == "python" and ">>>" not in body:
            yield "file", f"{'mine' if 'mine:' in text else 'block'}.py\n{body}"
            if "mine:" not in text:
                yield "sh", "python block.py"
        elif kind == "py" and body == cells[-1]:
            yield "file", "\n".join(("cells.py", *cells))
            yield "sh", "python cells.py"
    prompts = "".join(
        body for kind, body in BLOCK.findall(text) if kind == "python" and ">>>" in body
    )
    if prompts:
        yield "file", f"prompts.txt\n{prompts}"
        yield "sh", "python -m doctest prompts.txt"


def _kind(line: str, *, clone: bool) -> str:
    """``"sh"`` for what is typed, else why it is not."""
    if clone and OF_A_CLONE.match(line):
        return "sh"
    return next((why for pattern, why in UNTYPED if re.search(pattern, line)), "sh")


def upto(text: str, last: str) -> str:
    """A page up to the end of the first block that has this text; the whole if none has."""
    ends = (found.end() for found in BLOCK.finditer(text) if last in found[2])
    return text[: next(ends, len(text))] if last else text


def words(text: str) -> int:
    """Words that are read: no comments, no addresses of links."""
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)|<[^>]*>", " ", text, flags=re.DOTALL)
    return len(re.findall(r"[A-Za-z0-9][^\s|]*", text))


def typed(
    python: str, text: str, folder: Path, *, clone: bool = False
) -> Iterator[tuple[str, int, float, str]]:
    """Each command that is typed: itself, its exit status, its CPU seconds, and its last line."""
    if clone:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    else:
        shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "jobs.csv").write_text(OWN, encoding="utf-8")
    _answers(folder / "bin")
    kept = ("MORPH_OPT_DATA", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    own = (folder / ".venv/bin", folder / "bin", Path(python).parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, own))
    environment |= {"PATH": path} | ({"PYTHONPATH": str(folder)} if "mine:" in text else {})
    for kind, body in blocks(text, clone=clone):
        if kind == "file":
            name, _, content = body.partition("\n")
            (folder / name).write_text(content, encoding="utf-8")
        if kind != "sh":
            continue
        began = _cpu_s()
        done = subprocess.run(
            ["bash", "-c", body],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        yield " ".join(body.split()), done.returncode, _cpu_s() - began, said


def _answers(folder: Path) -> None:
    """Commands that answer like Slurm's and Kueue's, of clusters with jobs."""
    fake = FakeSlurm(2)
    fake._next = 4711  # the job that the pages ask about
    for gpus in (8, 4, 4, 8, 2):
        fake.submit(gpus, 3600.0, "morph checkpoint seconds=3600", limit_s=7200.0)
    fake.advance(60.0)
    nodes = fake(("sinfo", "--json"), 1.0)
    config = fake(("scontrol", "show", "config"), 1.0)
    answers = {
        "squeue": fake(("squeue", "--json"), 1.0),
        "sinfo": nodes,
        "scontrol": config,
        "sacct": "\n".join(_accounted()),
        "kubectl": f'{{"apiVersion": "v1", "kind": "List", "items": [{",".join(_workloads())}]}}',
    }
    folder.mkdir()
    for name, text in answers.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        file = '$([ "$2" = nodes ] && echo sinfo || echo scontrol)' if name == "scontrol" else name
        script = f'#!/bin/sh\ncat "{folder}/{file}.txt"\n'
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o755)


def _workloads() -> Iterator[str]:
    """Kueue's of a morning, more than fit: the last four wait."""
    for n in range(20):
        text = workload(f"w{n}", f"2024-05-01T08:00:{n:02d}Z")
        late = text.replace("T08:10", "T09:20").replace("T09:10", f"T10:{n}")
        yield late if n >= 16 else text


def _accounted() -> Iterator[str]:
    """A month of ``sacct`` in the columns of its page."""
    yield (
        "JobIDRaw|JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|"
        "TimelimitRaw|State|NNodes|ReqTRES|AllocTRES|NodeList"
    )
    for n in range(40):  # more than fit: the last eight wait
        begin = 9 + 6 * (n // 32)
        submit, start, end = (f"2024-05-01T{h:02d}:{n:02d}:00" for h in (9, begin, begin + 5))
        tres = "cpu=8,gres/gpu=8,node=1"
        yield (
            f"{n + 1}|{n + 1}|ada|lab|gpu|normal|{submit}|{submit}|{start}|{end}|18000|"
            f"360|COMPLETED|1|{tres}|{tres}|n{n % 32 + 1}"
        )


def _cpu_s() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page_row(python: str, page: str, text: str, *, clone: bool) -> tuple[int, int, float]:
    """How many commands a page has, how many of them fail, and their seconds."""
    count, failed, spent_s = 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for body, status, seconds, said in typed(python, text, Path(folder), clone=clone):
            count, failed, spent_s = count + 1, failed + (status != 0), spent_s + seconds
            shown = f"{page}: {body[:70]}: {status}, {seconds:.1f} s"
            print(shown, said if status else "", file=sys.stderr, flush=True)
    return count, failed, spent_s


def walks_table(python: str) -> Table:
    """The path of each person."""
    rows = []
    for walk in WALKS:
        text = upto((ROOT / walk.page).read_text("utf-8"), walk.until)
        _, failed, spent_s = page_row(python, walk.page, text, clone=walk.clone)
        kinds = [kind for kind, _ in blocks(text, clone=walk.clone)]
        taken, read = sum(kind in ("file", "sh") for kind in kinds), words(text)
        minutes = read / WORDS_PER_MINUTE + (taken * COPY_S + spent_s) / 60.0
        title = text.partition("\n")[0].removeprefix("# ")
        link = f"[{title}](../../{walk.page})"
        limit = walk.most_min or "-"
        rows.append((walk.person, walk.goal, link, read, taken, failed, spent_s, minutes, limit))
    header = (
        "person",
        "to",
        "page",
        "words",
        "taken over",
        "failed",
        "CPU, s",
        "minutes",
        "at most",
    )
    return Table(header, rows, "lllr", {"CPU, s": ".0f", "minutes": ".1f"})


def pages_table(python: str, pages: Sequence[str]) -> Table:
    """Every page, typed from a wheel."""
    rows = [
        (page, *page_row(python, page, (ROOT / page).read_text("utf-8"), clone=False))
        for page in pages
    ]
    header = ("page", "commands", "failed", "CPU, s")
    return Table(header, rows, "lr", {"CPU, s": ".0f"})


def report(walks: Table, pages: Table) -> str:
    """The page."""
    return f"""# Pages as typed

Made by `python -m benchmarks.typed_pages PYTHON --out FOLDER`, with the interpreter of an
empty environment that has the wheel alone. Minutes are the CPU seconds of what is typed,
{WORDS_PER_MINUTE:g} words a minute for all that stands above the last command, code included, and
{COPY_S:g} s for each command or file that is taken over. The two rates are assumed: nobody was
timed, and waiting for the network is not in them.

## Five paths

The newcomer and the optimiser type in a clone, the others where nothing of the repository is. The
newcomer's seconds contain the set-up of the environment.

{walks.to_markdown()}

## Every page, from a wheel

Slurm's commands and `kubectl` are answered by pretended ones.

{pages.to_markdown()}

## Not typed

{untyped().to_markdown()}
"""


def untyped() -> Table:
    """Every command of the pages that is not typed from a wheel, and why."""
    rows = [
        (page, f"`{line.splitlines()[0][:60].strip()}`", why)
        for page in PAGES
        for why, line in blocks((ROOT / page).read_text("utf-8"))
        if why not in ("file", "sh")
    ]
    return Table(("page", "command", "why"), rows, "l")


def make_parser() -> LineParser:
    """The command line."""
    parser = LineParser(prog="python -m benchmarks.typed_pages", description=__doc__)
    parser.add_argument("python", help="interpreter of the environment to type them in")
    parser.add_argument("page", nargs="*", help="pages alone (the walks, then every page)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write README.md there")
    parser.only("--out", "is of the walks and all pages: give none", lambda given: not given.page)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    """Type the pages; 1 if a command failed."""
    walks = Table((), ()) if options.page else walks_table(options.python)
    pages = pages_table(options.python, options.page or PAGES)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out / "README.md", report(walks, pages))
    shown = [table for table in (walks, pages) if table.rows]
    print("\n\n".join(table.to_markdown() for table in shown))
    return int(any(row[table.header.index("failed")] for table in shown for row in table.rows))


if __name__ == "__main__":
    sys.exit(as_process(main))
