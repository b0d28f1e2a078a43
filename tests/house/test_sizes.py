"""The count of the house: a made-up tree by hand, and a page that has the table."""

from __future__ import annotations

from pathlib import Path

from tests.house.sizes import BEGIN, END, PAGE, code_lines, measured, page

ROUND = '''"""Round."""


def a(x: int) -> int:
    """Not counted, as the signature is not."""
    y = x
    return y
'''


def test_prose_is_not_code() -> None:
    prose = '"""Of the\nmodule."""\n\n# a comment\nx = 1  # one\n"""Of x."""\n'
    assert code_lines(prose) == 2  # only what `__doc__` holds is a docstring
    assert code_lines('x = """a\n\nb"""\n') == 3
    assert code_lines("f(\n    # why\n    1,\n)\n") == 3
    assert code_lines("") == 0


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
    assert size.rooms["morph_opt.two"] == (2, 5)
    assert size.rooms["morph_opt"] == (1, 1)
    assert sorted(size.functions) == [1, 2]  # benchmarks are not installed
    assert size.folders["morph_opt/two"] == 2
    # one and two import each other, though not when they load
    assert size.circles == (1, 1, 0)
    text = page(size, size, "c0ffee")
    assert "| `morph_opt.two` | 2 | 5 | 2 | 5 |" in text
    assert "| all | 7 | 9 | 7 | 9 |" in text


def test_the_page_has_the_table() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert "| `formulations` |" in shown
    assert "| largest folder, modules |" in shown
