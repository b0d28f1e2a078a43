"""The notebook of docs is what its page makes, in eight cells, and shows tables."""

from __future__ import annotations

import json

from tests.notebook import PAGE, PICTURE, executed, without_pictures


def test_the_notebook_is_what_its_page_makes() -> None:
    page = PAGE.read_text("utf-8")
    kept = json.loads(PAGE.with_suffix(".ipynb").read_text("utf-8"))
    assert any(PICTURE in out["data"] for cell in kept["cells"] for out in cell.get("outputs", ()))
    made = without_pictures(executed(page))
    assert made == without_pictures(kept), "stale: python -m tests.notebook"
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert len(code) == 8
    assert any("text/html" in out["data"] for cell in code for out in cell["outputs"])
