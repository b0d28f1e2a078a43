"""Change the code a little, and see whether a test fails.

    python -m benchmarks.checks.robustness.mutants

Mutants come from cosmic-ray (``make mutants`` installs it aside); a seeded sample of them is
applied, one at a time, to a copy of the project, and the tests of its package run against it. What
survives is either equivalent, with the reason in ``equivalent.csv`` beside this file, or a hole.
"""

from __future__ import annotations

import ast
import csv
import difflib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from morph_opt.core.commandline.parser import LineParser

ROOT = Path(__file__).resolve().parents[3]
REPORT = ROOT / "reports" / "robustness"
EQUIVALENT = Path(__file__).with_name("equivalent.csv")
LONGER = 5.0
"""A mutant is endless if its tests take so many times the CPU seconds that they take without."""
PER_TESTS_S = 1800.0
"""Of the clock, which other processes share: what it ends is judged again, and not killed."""

TESTS_OF: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("formulations/shares", ("tests/shares",)),
    (
        "formulations/knapsack",
        ("tests/decision/test_knapsack.py", "tests/decision/test_knapsack_core.py",
         "tests/formulations"),
    ),
    (
        "formulations/check_knapsack",
        ("tests/decision/test_knapsack.py", "tests/decision/test_knapsack_core.py",
         "tests/formulations"),
    ),
    (
        "formulations/prices",
        ("tests/formulations/test_prices.py", "tests/formulations/test_slots.py",
         "tests/formulations/test_rounding.py", "tests/decision"),
    ),
    (
        "formulations/round/check",
        ("tests/formulations/round/test_check.py", "tests/formulations/test_prices.py",
         "tests/formulations"),
    ),
    ("formulations/subround", ("tests/decision/test_ladder.py", "tests/decision")),
    (
        "formulations/objectives",
        ("tests/formulations/test_objectives.py", "tests/policies/test_feedback.py",
         "tests/policies/test_cost_objective.py", "tests/policies/test_fair_rounds.py",
         "tests/formulations"),
    ),
    (
        "formulations",
        ("tests/formulations/test_families.py", "tests/formulations/model/test_linear_model.py",
         "tests/formulations/test_objectives.py", "tests/formulations"),
    ),
    ("morph_opt/simulation/engine/node_events", ("tests/engine/test_node_events.py",
                                                 "tests/engine")),
    (
        "morph_opt/simulation/engine",
        ("tests/engine", "tests/replay/test_packing.py", "tests/replay/test_run_folder.py"),
    ),
)  # fmt: skip
"""Tests by package, the quick ones first; the first prefix that fits holds."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place.

    Parameters
    ----------
    file, line
        Where.
    operator
        Of cosmic-ray.
    before, after
        The line, without blanks at its ends.
    outcome
        ``killed``, ``timeout`` (`LONGER` by CPU seconds: killed as well), ``survived``,
        ``unjudged`` (the clock ended the tests twice, which says nothing about the mutant), or
        ``gone`` (the code that survived it is not there any more).
    seed
        Of the sample that it is of.
    first
        Outcome before `judge_again` looked once more; "" if it did not.
    """

    file: str
    line: int
    operator: str
    before: str
    after: str
    outcome: str = ""
    seed: int = 0
    first: str = ""


def tests_of(file: str) -> tuple[str, ...]:
    """Tests that a file must be caught by."""
    return next(tests for prefix, tests in TESTS_OF if file.startswith(prefix))


class _Bare(ast.NodeTransformer):
    """Takes out what decides nothing: annotations, and how a dataclass is frozen or slotted."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant("")
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def bare(source: str) -> str:
    """What of a source decides how it runs."""
    return ast.dump(_Bare().visit(ast.parse(source)))


def places(source: str) -> dict[object, list[tuple[str, int]]]:
    """Mutations by their place: (operator, occurrence)."""
    from cosmic_ray.ast import ast_nodes, get_ast  # type: ignore[import-not-found]
    from cosmic_ray.plugins import get_operator, operator_names  # type: ignore[import-not-found]

    tree = get_ast(source)
    nodes = list(ast_nodes(tree))
    found: dict[object, list[tuple[str, int]]] = {}
    for name in operator_names():
        try:
            operator = get_operator(name)()
        except TypeError:  # takes arguments that nobody gave
            continue
        occurrence = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                found.setdefault((start, type(node)), []).append((name, occurrence))
                occurrence += 1
    return found


def sample(files: Sequence[Path], count: int, seed: int) -> Iterator[tuple[Path, str, str]]:
    """(file, operator, mutated source): a place first, then one of its mutations."""
    from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found]
    from cosmic_ray.plugins import get_operator

    draw = random.Random(seed)
    sources = {path: path.read_text("utf-8") for path in files}
    all_places = [
        (path, sorted(options))
        for path, source in sources.items()
        for _, options in sorted(places(source).items(), key=lambda item: sorted(item[1]))
    ]
    draw.shuffle(all_places)
    made = 0
    for path, options in all_places:
        if made == count:
            return
        name, occurrence = draw.choice(options)
        source = sources[path]
        mutated = mutate_code(source, get_operator(name)(), occurrence)
        if mutated is None:
            continue
        try:
            if bare(mutated) == bare(source):
                continue
        except SyntaxError:
            continue
        made += 1
        yield path, name, mutated


def described(file: str, operator: str, before: str, after: str) -> Mutant:
    """The mutant of two sources."""
    old, new = before.splitlines(), after.splitlines()
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            lines = " ".join(old[i1:i2]).strip(), " ".join(new[j1:j2]).strip()
            return Mutant(file, i1 + 1, operator.removeprefix("core/"), *lines)
    raise ValueError("the mutant equals the original")


def found_again(mutant: Mutant, source: str) -> str | None:
    """The mutated source, by what a table says of the mutant; None if its line has gone."""
    lines = source.splitlines()
    for size in range(1, 9):
        for at in range(len(lines) - size + 1):
            if " ".join(lines[at : at + size]).strip() == mutant.before:
                inset = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
                return "\n".join([*lines[:at], inset + mutant.after, *lines[at + size :], ""])
    return None


def left_out(folder: str, names: Sequence[str]) -> set[str]:
    """What of a folder is not copied: of users the run folders, which a package has the name of."""
    kept = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")(folder, list(names))
    return set(kept) | ({"runs"} & set(names) if Path(folder) == ROOT else set())


class Copy:
    """A copy of the project in which one mutant stands at a time."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        shutil.copytree(ROOT, self.root, ignore=left_out)
        self._sound: dict[tuple[str, ...], float] = {}

    def require_sound(self, tests: tuple[str, ...]) -> float:
        """CPU seconds of tests without a mutant; refused if they fail, as they would kill all."""
        if tests not in self._sound:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            if self.passes(tests) != "survived":
                raise SystemExit(f"without a mutant these tests fail in a copy: {' '.join(tests)}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._sound[tests] = after.ru_utime - before.ru_utime
        return self._sound[tests]

    def passes(
        self, tests: Sequence[str], cpu_s: float = PER_TESTS_S, limit_s: float = PER_TESTS_S
    ) -> str:
        """``survived``, ``killed``, ``timeout`` by CPU seconds or ``unjudged`` by the clock."""
        bounded = ["sh", "-c", f'ulimit -t {max(1, int(cpu_s))}; exec "$@"', "sh"]
        kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        env = kept | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        with subprocess.Popen(
            [*bounded, *command],
            cwd=self.root,
            env=env | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                status = process.wait(limit_s)
                endless = status in (-signal.SIGXCPU, -signal.SIGKILL)
                return "timeout" if endless else "killed" if status else "survived"
            except subprocess.TimeoutExpired:
                return "unjudged"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)

    def judge(self, path: Path, mutated: str, limit_s: float = PER_TESTS_S) -> str:
        """Outcome of a mutated file; the file is as before afterwards."""
        tests = tests_of(path.relative_to(ROOT).as_posix())
        cpu_s = LONGER * self.require_sound(tests) + 10.0
        place = self.root / path.relative_to(ROOT)
        before = place.read_text("utf-8")
        place.write_text(mutated, "utf-8")
        try:
            return self.passes(tests, cpu_s, limit_s)
        finally:
            place.write_text(before, "utf-8")


def reasons() -> dict[tuple[str, str, str], str]:
    """Why a survivor is equivalent, by file and lines."""
    if not EQUIVALENT.exists():
        return {}
    with EQUIVALENT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["file"], row["before"], row["after"]): row["reason"] for row in rows}


def earlier(out: Path, seed: int) -> list[Mutant]:
    """Mutants of other seeds that the table has."""
    path = out / "mutants.csv"
    if not path.exists():
        return []
    names = [f.name for f in fields(Mutant)]
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: row[name] for name in names} for row in csv.DictReader(file)]
    found = [
        Mutant(**(row | {"line": int(row["line"]), "seed": int(row["seed"])}))  # type: ignore[arg-type]
        for row in rows
    ]
    return [mutant for mutant in found if mutant.seed != seed]


def judge_again(out: Path) -> None:
    """Look once more at what survived: tests were added, or the code made less, since."""
    rows, known = earlier(out, -1), reasons()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for at, row in enumerate(rows):
            if row.outcome == "survived" and (row.file, row.before, row.after) not in known:
                path = ROOT / row.file
                mutated = found_again(row, path.read_text("utf-8")) if path.exists() else None
                outcome = "gone" if mutated is None else copy.judge(path, mutated)
                rows[at] = replace(row, outcome=outcome, first=row.first or row.outcome)
                print(f"{outcome} {row.file}: {row.after}", flush=True)
                write_report(out, rows)
    write_report(out, rows)


def write_report(out: Path, found: Sequence[Mutant]) -> None:
    """``mutants.csv``: every mutant with its outcome and, if equivalent, the reason."""
    known = reasons()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "mutants.csv").open("w", encoding="utf-8", newline="") as file:
        names = [f.name for f in fields(Mutant)]
        writer = csv.DictWriter(file, [*names, "equivalent"], lineterminator="\n")
        writer.writeheader()
        for mutant in sorted(found, key=lambda m: (m.seed, m.file, m.line, m.operator)):
            row: dict[str, Any] = asdict(mutant)
            key = mutant.file, mutant.before, mutant.after
            equivalent = known.get(key, "") if mutant.outcome == "survived" else ""
            writer.writerow(row | {"equivalent": equivalent})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 0 if every mutant was killed or is equivalent."""
    parser = LineParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--limit-s", type=float, default=7200.0, help="begin no mutant after it")
    parser.add_argument("--list", action="store_true", help="show the sample and run nothing")
    parser.add_argument("--more", action="store_true", help="keep the table's other seeds")
    parser.add_argument("--again", action="store_true", help="only survivors of the table")
    parser.add_argument("--out", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    if options.again:
        judge_again(options.out)
        return 0
    files = sorted((ROOT / "formulations").rglob("*.py"))
    files += sorted((ROOT / "morph_opt" / "simulation" / "engine").rglob("*.py"))
    files = [path for path in files if options.only in path.as_posix()]
    began = time.monotonic()
    found = earlier(options.out, options.seed) if options.more else []
    again: list[tuple[Mutant, Path, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = None if options.list else Copy(Path(folder))
        for path, operator, mutated in sample(files, options.count, options.seed):
            if time.monotonic() - began > options.limit_s:
                break
            file = path.relative_to(ROOT).as_posix()
            mutant = described(file, operator, path.read_text("utf-8"), mutated)
            outcome = copy.judge(path, mutated) if copy else ""
            found.append(replace(mutant, outcome=outcome, seed=options.seed))
            if outcome == "unjudged":
                again.append((found[-1], path, mutated))
            print(f"{len(found)} {outcome} {file}:{mutant.line} {operator}: {mutant.after}")
            sys.stdout.flush()
            if copy:
                write_report(options.out, found)
        for mutant, path, mutated in again if copy else []:
            outcome = copy.judge(path, mutated, 4.0 * PER_TESTS_S)
            found[found.index(mutant)] = replace(mutant, outcome=outcome)
            print(f"again: {outcome} {mutant.file}:{mutant.line}")
            write_report(options.out, found)
    survived = [m for m in found if m.outcome == "survived"]
    known = reasons()
    holes = [m for m in survived if (m.file, m.before, m.after) not in known]
    unjudged = sum(m.outcome == "unjudged" for m in found)
    print(
        f"{len(found)} mutants, {len(survived)} survived, {len(holes)} of them unexplained;"
        f" {unjudged} unjudged"
    )
    return 1 if holes or unjudged else 0


if __name__ == "__main__":
    sys.exit(main())
