"""What `benchmarks.typed_pages` takes from a page, and that it tells a command that fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.typed_pages import (
    PAGES,
    ROOT,
    UNTYPED,
    WALKS,
    Walk,
    blocks,
    typed,
    untyped,
    upto,
)

PAGE = """
```python
open("made.txt", "w").write("x")
```

```sh
make install
python -m morph_opt.compare x \\
    --markdwn   # a slip
python -m morph_opt.policies fifo
```

"""


def test_a_page_is_typed_and_a_failure_told(tmp_path: Path) -> None:
    found = list(typed(sys.executable, upto(PAGE, "policies"), tmp_path / "folder"))
    assert [status for _, status, _, _ in found] == [0, 2, 0]
    assert "did you mean '--markdown'?" in found[1][3]
    assert (tmp_path / "folder" / "made.txt").exists()


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.person)
def test_every_typed_page_ends_in_a_command(walk: Walk) -> None:
    text = (ROOT / walk.page).read_text("utf-8")
    part = upto(text, walk.until)
    assert walk.until in part
    assert list(blocks(part, clone=walk.clone))[-1][0] == "sh"


def test_commands_of_pages_are_typed_or_exempt_with_a_reason() -> None:
    reasons = {why for _, _, why in untyped().rows}
    assert reasons - {why for _, why in UNTYPED} == {"needs a cluster of Kubernetes"}
    for page in PAGES:
        found = list(blocks((ROOT / page).read_text("utf-8")))
        typed_here = sum(kind == "sh" for kind, _ in found)
        assert typed_here or not {kind for kind, _ in found} - reasons, page
    assert {page for page, *_ in untyped().rows} <= set(PAGES)


def test_commands_of_schedulers_are_answered(tmp_path: Path) -> None:
    page = "```\nsqueue --json > a.json\nscontrol show nodes --json > b.json\nsacct -a > c.txt\n"
    page += "python -m morph_opt.round --from slurm:a.json,b.json --format text\n"
    page += "python -m morph_opt.traces lint c.txt --cluster 32x8:H100-80GB\n"
    page += "kubectl get workloads -A -o json > d.json\n"
    page += "python -m morph_opt.traces lint d.json --cluster 16x8:A100-80GB\n```\n"
    assert [status for _, status, _, _ in typed(sys.executable, page, tmp_path / "folder")] == [
        0
    ] * 7
