"""Examples run, links resolve, versions agree, and no path of a machine is in the project."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import io
import os
import re
import runpy
import sys
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path
from unittest import mock

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import morph_opt

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("formulations", "morph_opt")
NOT_OURS = {"build", "dist", "__pycache__", "node_modules"}
TEXT = {".cff", ".css", ".csv", ".json", ".jsonl", ".lp", ".md", ".py", ".svg", ".toml", ".txt"}
TEXT |= {".yaml", ".yml", ""}

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]


def files(*suffixes: str) -> list[Path]:
    """Every file of the project, relative to its root; no environment, cache or run folder."""
    found = []
    for folder, names, leaves in os.walk(ROOT):
        names[:] = sorted(
            name
            for name in names
            if name not in NOT_OURS
            and (not name.startswith(".") or name == ".ci")
            and Path(folder, name) != ROOT / "runs"  # of users; a package has that name, too
        )
        # In a worktree of git `.git` is a file; it holds a path of the machine and is not ours.
        found += [Path(folder, leaf).relative_to(ROOT) for leaf in sorted(leaves) if leaf != ".git"]
    return [path for path in found if not suffixes or path.suffix in suffixes]


# Solvers that users bring themselves, with a licence; no extra installs them.
LICENSED = {"coptpy", "gurobipy", "xpress"}
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"all", "dev"})
PAGES = files(".md")
NO_MODULES = {f"morph_opt.{name}" for name in ("COMMAND", "NAME", "executors", "objectives")}
"""Placeholders, and groups of entry points that no package is named after."""
SOURCES = [path for path in files(".py") if path.parts[0] in PACKAGES]


def page_id(page: Path) -> str:
    return page.as_posix()


# ---------------------------------------------------------------- docs


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Fenced blocks of one language with the line on which they begin."""
    text = (ROOT / page).read_text("utf-8")
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: match.start(1)].count("\n"), match[1]


SHOWN = [page for page in PAGES if any(blocks(page, "python"))]


@pytest.mark.parametrize("page", SHOWN, ids=page_id)
def test_python_examples_run_and_give_the_output_that_is_shown(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block with prompts is a session, one without is a module that must load."""
    monkeypatch.chdir(ROOT)
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names: dict[str, object] = {}
    for line, source in blocks(page, "python"):
        test = parser.get_doctest(source, names, page.as_posix(), page.as_posix(), line)
        if not test.examples:
            exec(compile(source, f"{page}, line {line}", "exec"), {"__name__": "example"})
            continue
        complaints: list[str] = []
        runner.run(test, out=complaints.append, clear_globs=False)
        names = test.globs
        assert not complaints, "".join(complaints)


def test_commands_in_the_docs_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
        for target in re.findall(r"(?:^|`)make +(?:[A-Z_]+=\S+ +)*([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{page}: the Makefile has no target {target}"
        commands = r"python -m ((?:morph_opt|benchmarks)[\w.]*)([^`\n|]*)"
        for module, rest in re.findall(commands, text):
            assert runnable(module), f"{page}: python -m {module} cannot be run"
            quoted = " ".join(re.findall(r'"([^"]*)"', rest))  # options of a replay, or a value
            for option in re.findall(r"--[a-z][\w-]*", quoted):
                assert option in help_text("morph_opt.replay", ""), f"{page}: no option {option}"
            bare = re.sub(r'"[^"]*"', "", rest)
            words = re.findall(r"(?:^| )(--[a-z][\w-]*|[a-z][a-z-]*(?= ))", bare)
            known = help_text(module, words[0] if words and words[0][0] != "-" else "")
            for option in (word for word in words if word.startswith("--")):
                assert option in known, f"{page}: {module} has no option {option}"


def runnable(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{module}.__main__")
    return spec is not None


_HELP: dict[tuple[str, str], str] = {}


def printed(words: list[str]) -> str:
    """What ``python -m WORDS`` prints, without a process of its own."""
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # that the module has been imported before
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    return out.getvalue()


def help_text(module: str, command: str) -> str:
    """Help of a command line together with that of one of its subcommands."""
    for words in ((module,), (module, command)) if command else ((module,),):
        key = (module, " ".join(words[1:]))
        if key not in _HELP:
            _HELP[key] = printed([*words, "--help"])
            if "--help-all" in _HELP[key]:
                _HELP[key] = printed([*words, "--help-all"])
    return _HELP[module, ""] + _HELP.get((module, command), "")


# ---------------------------------------------------------------- versions


def test_versions_agree() -> None:
    released = re.findall(
        r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert released[0] == PROJECT["version"]
    assert morph_opt.__version__ == PROJECT["version"]
    assert citation()["version"] == PROJECT["version"]


def citation() -> dict[str, str]:
    """Scalars at the top level of CITATION.cff."""
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    pairs = re.findall(r'^([a-z-]+): +"?(.*?)"?$', text, re.MULTILINE)
    assert len(pairs) == len(dict(pairs)), "a key stands twice"
    return dict(pairs)


# ---------------------------------------------------------------- dependencies


def pins() -> dict[str, str]:
    """Constraints: names and versions, nothing else."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
        assert match, f"constraints.txt: {line!r} is not name==version"
        found[canonicalize_name(match[1])] = match[2]
    return found


def declared(*extras: str) -> list[Requirement]:
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def test_constraints_pin_everything_that_is_installed() -> None:
    pinned = pins()
    queue = [Requirement("hatchling>=1.25"), *declared(*EXTRAS, "dev")]
    for requirement in queue:
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"constraints.txt lacks {name}: make constraints"
        assert requirement.specifier.contains(pinned[name]), f"{requirement} is not {pinned[name]}"
    seen = {canonicalize_name(requirement.name) for requirement in queue}
    while queue:
        for requirement in needs_of(queue.pop()):
            name = canonicalize_name(requirement.name)
            assert name in pinned, f"constraints.txt lacks {name}: make constraints"
            if name not in seen:
                seen.add(name)
                queue.append(requirement)


def needs_of(requirement: Requirement) -> list[Requirement]:
    """What an installed distribution needs in this environment; nothing for one that is absent."""
    try:
        lines = requires(requirement.name) or []
    except PackageNotFoundError:
        return []
    found = [Requirement(line) for line in lines]
    extras = ["", *requirement.extras]
    return [
        need
        for need in found
        if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras)
    ]


def test_every_pin_installs_on_the_lowest_python_promised() -> None:
    """pip refuses a pin that asks for 3.11.5 on 3.11.2; what is installed says what it asks for."""
    (lowest,) = SpecifierSet(PROJECT["requires-python"])
    assert lowest.operator == ">="
    asked = {
        f"{canonicalize_name(one.name)}=={one.version}": one.metadata.get("Requires-Python") or ""
        for one in distributions()
    }
    pinned = [f"{name}=={version}" for name, version in pins().items()]
    known = [pin for pin in pinned if pin in asked]
    assert len(known) > len(pinned) / 2  # installed from the pins, up to other platforms' needs
    assert not [pin for pin in known if not SpecifierSet(asked[pin]).contains(lowest.version)]


@cache
def imports(path: Path) -> frozenset[str]:
    """Top-level names of the packages that a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def test_dependencies_are_what_is_imported() -> None:
    foreign = set().union(*map(imports, SOURCES)) - set(PACKAGES)
    foreign = {canonicalize_name(name) for name in foreign - sys.stdlib_module_names}
    core = {canonicalize_name(item.name) for item in declared()}
    known = core | {canonicalize_name(item.name) for item in declared(*EXTRAS)}
    known |= LICENSED
    assert not foreign - known, "imported and not declared in pyproject.toml"
    assert not core - foreign, "declared in pyproject.toml and imported by nothing"


def test_formulations_import_numpy_and_scipy_only() -> None:
    allowed = {"formulations", "numpy", "scipy"} | sys.stdlib_module_names
    for path in SOURCES:
        if path.parts[0] == "formulations":
            assert not imports(path) - allowed, path


# ---------------------------------------------------------------- files


def test_no_path_of_a_machine_and_no_package_index() -> None:
    forbidden = re.compile(
        r"(?<![\w.:/])/(?:root|home|work|Users|tmp/w|opt/\w+)/"
        r"|[A-Z]:\\Users|pypi\.|python[h]osted|index[-]url|find[-]links|trusted[-]host"
    )
    for path in files():
        if path.suffix in TEXT:
            for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1):
                found = forbidden.search(line)
                assert not found, f"{path}, line {number}: {found[0]}"


def leads_somewhere(name: str) -> bool:
    """Whether a dotted name is a module of ours, or stands in the file of the module before it."""
    parts = name.split(".")
    while not (ROOT.joinpath(*parts).is_dir() or ROOT.joinpath(*parts).with_suffix(".py").exists()):
        parts.pop()
    rest = name.split(".")[len(parts) :]
    path = ROOT.joinpath(*parts)
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = source.read_text("utf-8") if source.exists() else ""
    return not rest or re.search(rf"\b{rest[0]}\b", text) is not None


def test_dotted_names_lead_somewhere() -> None:
    """In code, docstrings and pages; changes and decisions speak of their time."""
    pattern = re.compile(r"(?<![\w./-])((?:morph_opt|formulations|benchmarks)(?:\.[a-zA-Z_]\w*)+)")
    now = [
        path
        for path in files(".py", ".md", ".toml")
        if not {"tests", "decisions", "CHANGELOG.md"} & set(path.parts)
    ]
    lost = [
        (path.as_posix(), name)
        for path in now
        for name in sorted(set(pattern.findall((ROOT / path).read_text("utf-8"))) - NO_MODULES)
        if not leads_somewhere(name)
    ]
    assert lost == []


def test_smoke_list_covers_every_tests_folder() -> None:
    """Every folder of tests has a line in the list, and every line is a test."""
    lines = (ROOT / "tests" / "smoke.txt").read_text("utf-8").split()
    folders = {path.parent.name for path in ROOT.glob("tests/*/test_*.py")}
    elsewhere = {"instances", "benchmarks", "site"}
    assert folders - elsewhere <= {line.split("/")[1] for line in lines}
    for line in lines:
        file, _, name = line.partition("::")
        text = (ROOT / file).read_text("utf-8")
        assert not name or f"def {name}(" in text, line
