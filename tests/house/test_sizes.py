"""The count of the house: a made-up tree by hand, and a page that has the table."""

from __future__ import annotations

from pathlib import Path

from tests.house.sizes import BEGIN, END, PAGE, measured, page

ROUND = '''"""Round."""


def a(x: int) -> int:
    """Not counted, as the signature is not."""
    y = x
    return y
'''


def test_a_tree_by_hand(tmp_path: Path) -> None:
    for name, text in {
        "formulations/__init__.py": "",
        "morph_opt/__init__.py": "import morph_opt.one.x\n",
        "morph_opt/one/x.py": "from morph_opt.two import y\n",
        "morph_opt/two/y.py": "def late():\n    import morph_opt.one.x\n",
        "morph_opt/two/z.py": ROUND,
        "benchmarks/b.py": "def f(): pass\n",
        "tests/t.py": "x = 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    size = measured(tmp_path)
    assert size.rooms["morph_opt.two"] == (2, 9)
    assert size.rooms["morph_opt"] == (1, 1)
    assert sorted(size.functions) == [1, 2]  # benchmarks are not installed
    assert size.folders["morph_opt/two"] == 2
    # one and two import each other, though not when they load
    assert size.circles == (1, 1, 0)
    text = page(size, size, "c0ffee")
    assert "| `morph_opt.two` | 2 | 9 | 2 | 9 |" in text
    assert "| all | 7 | 13 | 7 | 13 |" in text


def test_the_page_has_the_table() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert "| `formulations` |" in shown
    assert "| largest folder, modules |" in shown
