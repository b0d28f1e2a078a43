"""What `benchmarks.typed_pages` takes from a page, and that it tells a command that fails."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.typed_pages import PATHS, ROOT, blocks, typed

PAGE = """
```python
open("made.txt", "w").write("x")
```

```sh
make install
python -m morph_opt.policies fifo \\
    --markdwn   # a slip
python -m morph_opt.policies fifo
```
"""


def test_a_page_is_typed_and_a_failure_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    found = list(typed(sys.executable, page, folder))
    assert [status for _, status, _, _ in found] == [0, 2, 0]
    assert "did you mean '--markdown'?" in found[1][3]
    assert (folder / "made.txt").exists()


def test_every_persons_page_has_commands() -> None:
    for page in PATHS.values():
        kinds = [kind for kind, _ in blocks((ROOT / page).read_text("utf-8"))]
        assert "sh" in kinds, page
