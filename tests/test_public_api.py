"""The public names: documented, lazily imported, and typed for who uses them."""

from __future__ import annotations

import ast
import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import morph_opt

SCRIPT = """
import morph_opt as mo

scenario = mo.Scenario(trace="base", cluster="8x8:A800-80GB", objective="jct", seed=1)
scenario = scenario.replaced(gap=1e-3)
run: mo.Run = scenario.run(out="runs/base")
average: float = run.summary.avg_jct_s
longest = max(row.jct_s for row in run.jobs)
late = run.segments.to_pandas()["start_s"].max()
print(run.jobs.to_table("job", "jct_s").to_markdown(), average, longest, late)
answer: mo.plan.Answer = mo.plan.nodes(mo.plan.Ask(scenario), "avg jct_s <= 1500")
print(answer.evidence["nodes"], mo.sweep.Cell(scenario).key)
decided: mo.RoundDecision = mo.decide("state.json")
print(decided.why("job-17"), [job.name for job in mo.load_trace("base").trace.jobs])
try:
    mo.load_cluster("8x8:none")
except mo.InputError as error:
    print(error.rule)
"""


def test_every_name_is_on_a_page_and_can_be_had(project_root: Path) -> None:
    page = (project_root / "docs" / "api.md").read_text("utf-8")
    for name in morph_opt.__all__:
        assert getattr(morph_opt, name) is not None
        assert re.search(rf"^\|[^|]*\| `{name}` \|", page, re.MULTILINE), f"{name} is on no page"
    listed = re.findall(r"^\|[^|]*\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(morph_opt.__all__)
    assert sorted(morph_opt.__all__) == morph_opt.__all__


@pytest.mark.parametrize("package", [morph_opt, morph_opt.plan, morph_opt.sweep])
def test_each_name_is_what_type_checkers_take_it_for(package: ModuleType) -> None:
    """Compare the imports for type checkers with what a program gets, and with ``__all__``."""
    tree = ast.parse(Path(str(package.__file__)).read_text("utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        one.name: importlib.import_module(str(node.module))
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    assert sorted(typed) == sorted(package.__all__)
    for name, module in typed.items():
        found = getattr(package, name)
        assert isinstance(found, ModuleType) or found is getattr(module, name)


def test_help_reads_like_a_table_of_contents(project_root: Path) -> None:
    """Before anything else each name stands with the first line of its own documentation."""
    text = pydoc.plain(pydoc.render_doc(morph_opt))
    contents = text.partition("PACKAGE CONTENTS")[0]
    page = (project_root / "docs" / "api.md").read_text("utf-8")
    for name in morph_opt.__all__:
        first = (getattr(morph_opt, name).__doc__ or "").splitlines()[0].removesuffix(".")
        assert re.search(rf"^ +{name} +{re.escape(first)}$", contents, re.MULTILINE), name
        assert f"`{name}` | {first} |" in page


def test_the_package_alone_imports_nothing() -> None:
    code = "import sys, morph_opt; print(sorted(m for m in sys.modules if 'morph_opt' in m or "
    code += "m in ('numpy', 'scipy', 'pandas', 'highspy')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip()
        == "['morph_opt', 'morph_opt.core', 'morph_opt.core.lazy', 'morph_opt.core.version']"
    )


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Scenaro'"):
        _ = morph_opt.Scenaro  # type: ignore[attr-defined]
    assert set(morph_opt.__all__) < set(dir(morph_opt))


def test_a_user_s_script_is_checked_strictly(tmp_path: Path, project_root: Path) -> None:
    """Its types are known where it is right, and named where it is not: of three files, one is."""
    lines = {
        "right": "",
        "wrong_trace": "mo.Scenario(trace=3)\n",
        "wrong_row": "jct: str = run.summary.avg_jct_s\n",
    }
    files = [tmp_path / f"{name}.py" for name in lines]
    for file, more in zip(files, lines.values(), strict=True):
        file.write_text(SCRIPT + more)
    call = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml"]
    done = subprocess.run(
        [*call, *map(str, files)], cwd=project_root, capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(complaints) == 2, done.stdout + done.stderr
    for name, said in (("wrong_trace", "Argument .trace."), ("wrong_row", "Incompatible types")):
        assert re.search(rf"{name}\.py:19: error: {said}", "\n".join(complaints)), complaints
