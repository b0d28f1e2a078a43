"""The notebook of docs, executed from its page: ``python -m tests.notebook`` writes it.

The page's Python fences are the cells; each is run where the one before left off, in an empty
folder, and what its last expression shows is its output, as HTML where it has some.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "notebook.md"
PICTURE = "image/svg+xml"
_FENCE = re.compile(r"^```py\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@contextmanager
def _in_an_empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def executed(page: str) -> dict[str, Any]:
    """The notebook of a page, format 4.5, its cells run in order."""
    import matplotlib as mpl

    mpl.use("agg")
    cells: list[dict[str, Any]] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    with _in_an_empty_folder():
        for number, part in enumerate(_FENCE.split(page)):
            if number % 2 == 0:
                if part.strip():
                    cells.append(_cell("markdown", part.strip(), len(cells)))
                continue
            source = part.rstrip()
            cells.append(_cell("code", source, len(cells)))
            count = (number + 1) // 2
            shown = _run(source, names)
            cells[-1] |= {"execution_count": count, "outputs": _outputs(shown, count)}
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, source: str, number: int) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}


def _run(source: str, names: dict[str, Any]) -> object:
    """Run a cell; the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value: object = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return value


def _outputs(shown: object, count: int) -> list[dict[str, Any]]:
    if shown is None:
        return []
    data = {"text/plain": _plain(shown).splitlines(keepends=True)}
    html = getattr(shown, "_repr_html_", lambda: None)()
    if html is not None:
        data["text/html"] = html.splitlines(keepends=True)
    if hasattr(shown, "savefig"):
        data[PICTURE] = _svg(shown).splitlines(keepends=True)
    plain = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
    return [plain | {"data": data}]


def _plain(shown: object) -> str:
    return "<Figure>" if hasattr(shown, "savefig") else repr(shown)


def _svg(figure: Any) -> str:
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "morph-opt"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def without_pictures(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook but for its pictures, whose bytes go with fonts and versions of matplotlib."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            output["data"].pop(PICTURE, None)
    return notebook


def text_of(page: str) -> str:
    """The file of an executed notebook."""
    return json.dumps(executed(page), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the notebook; with ``--check`` say whether it is what its page makes."""
    notebook, made = PAGE.with_suffix(".ipynb"), text_of(PAGE.read_text("utf-8"))
    if "--check" not in sys.argv:
        notebook.write_text(made, "utf-8")
    elif without_pictures(json.loads(notebook.read_text("utf-8"))) != without_pictures(
        json.loads(made)
    ):
        print(f"{notebook.name} is stale: python -m tests.notebook", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
