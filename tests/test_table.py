"""One table, four forms."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.table import Table

JOBS = Table(
    ("job", "plan", "JCT (s)"),
    (("a", "dp", 1234.5), ("b | c", "pp2-tp4", None), ("d", "<dp>", float("nan"))),
    align="llr",
    formats={"JCT (s)": ",.1f"},
)


def test_markdown() -> None:
    assert JOBS.to_markdown() == (
        "| job | plan | JCT (s) |\n|---|---|---:|\n| a | dp | 1,234.5 |\n"
        "| b \\| c | pp2-tp4 |  |\n| d | <dp> |  |"
    )
    assert JOBS.to_markdown(spaced=True).splitlines()[1] == "| --- | --- | ---: |"


def test_csv_has_the_numbers_themselves() -> None:
    assert JOBS.to_csv() == "job,plan,JCT (s)\na,dp,1234.5\nb | c,pp2-tp4,\nd,<dp>,\n"


def test_text() -> None:
    assert str(JOBS) == (
        "job    plan     JCT (s)\na      dp       1,234.5\nb | c  pp2-tp4\nd      <dp>"
    )


def test_html_is_escaped() -> None:
    text = JOBS.to_html()
    assert '<tr><td>d</td><td>&lt;dp&gt;</td><td style="text-align: right"></td></tr>' in text
    assert text.count("<tr>") == text.count("</tr>") == 4


def test_the_last_letter_holds_for_the_rest() -> None:
    assert Table(("a", "b", "c"), ()).to_markdown() == "| a | b | c |\n|---|---:|---:|"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"rows": (("x",),)}, "2 columns, but 1 cells"),
        ({"rows": (), "align": "lc"}, "letters l and r"),
        ({"rows": (), "formats": {"z": ".1f"}}, "no such columns: z"),
    ],
)
def test_tables_with_mismatched_cells_or_formats_are_refused(
    arguments: dict[str, object], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        Table(("x", "y"), **arguments)  # type: ignore[arg-type]


class Cells(HTMLParser):
    """Texts of all ``td`` elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "td":
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1] += data


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00\n"), max_size=6)


@given(st.lists(st.tuples(cells, cells), max_size=4))
def test_every_form_keeps_every_cell(rows: list[tuple[str, str]]) -> None:
    table = Table(("x", "y"), rows)
    assert list(csv.reader(io.StringIO(table.to_csv())))[1:] == [list(row) for row in rows]
    reader = Cells()
    reader.feed(table.to_html().partition("<tbody>\n")[2].replace("\n", ""))
    assert reader.found == [cell for row in rows for cell in row]
    lines = table.to_markdown().split("\n")
    assert len(lines) == 2 + len(rows)
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.replace("\\|", "").count("|") == 3
        assert row[0].replace("|", "\\|") in line
