"""docs/seeds.md has the published numbers next to those of the reports, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.perf.micro import main as micro
from benchmarks.readme.readme import block_in
from benchmarks.seeds.__main__ import PAGE, main
from benchmarks.seeds.catalog import Number, Place, Seed, read_seeds
from benchmarks.seeds.cells import REPORTS, number_at
from benchmarks.seeds.measure import figure_8
from benchmarks.seeds.page import HEADER, tables
from morph_opt.core.domain import InputError

TABLE = """# Title

| policy | average JCT (s) | makespan (h) |
|---|---:|---:|
| **`fifo`** | 1,234 | 2.5 h |
| `srtf` | **617** | - |

## Other

| policy | average JCT (s) |
|---|---:|
| `fifo` | 2,000 |
"""


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text(TABLE)
    (tmp_path / "a.csv").write_text("trace,seed,value,limit\nx,0,1.5,9\nx,1,2.5,\nx,2,4.5,9\n")
    (tmp_path / "a.json").write_text('{"runs": {"base.fifo": {"avg_jct_s": 10.0}}}')
    return tmp_path


def test_the_page_shows_the_reports_of_today(project_root: Path) -> None:
    shown = block_in((project_root / PAGE).read_text("utf-8"), "seeds", str(PAGE))
    assert shown == tables(), "stale: python -m benchmarks.seeds page"


@pytest.mark.parametrize(
    ("item", "published", "ours"),
    [
        ("Figure 8", "RoBERTa 0.55; T5-3B 0.89", "RoBERTa 0.55; T5-3B 0.89"),
        ("Figure 7", "4 x 8 GPUs 1.165", "4 x 8 GPUs 1.165"),
        ("Table 4, best-plan trace (bp)", "JCT 3,638; makespan 58,680", "MILP `throughput` JCT"),
        ("Figure 15", "heter 6,000", "heter 5,"),
    ],
)
def test_a_search_for_an_item_finds_command_and_both_numbers(
    item: str, published: str, ours: str, project_root: Path
) -> None:
    lines = (project_root / PAGE).read_text("utf-8").splitlines()
    (row,) = (line for line in lines if f"**{item}**" in line)
    cells = dict(zip(HEADER, row.strip("| ").split(" | "), strict=True))
    assert published in cells["published"]
    assert ours in cells["ours"]
    assert cells["command"].startswith("`python -m ")
    assert cells["why they differ"]


def test_every_report_of_a_row_exists() -> None:
    found = [seed for seeds in read_seeds().values() for seed in seeds]
    assert len(found) > 20
    for seed in found:
        assert (REPORTS / seed.report).is_file(), seed.item
        assert seed.numbers, seed.item


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (Place("a.md", ("Title", "`fifo`"), "average JCT (s)"), 1234.0),
        (Place("a.md", ("Title", "fifo"), "makespan (h)"), 2.5),
        (Place("a.md", ("srtf",), "average JCT (s)"), 617.0),
        (Place("a.md", ("Other", "fifo"), "average JCT (s)"), 2000.0),
        (Place("a.csv", ("x", "1"), "value"), 2.5),
        (Place("a.csv", ("x",), "value", mean=True, having=("limit",)), 3.0),
        (Place("a.json", ("base.fifo",), "avg_jct_s"), 10.0),
    ],
)
def test_a_number_is_found_by_the_cells_of_its_row(
    place: Place, value: float, reports: Path
) -> None:
    assert number_at(place, reports) == value


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        (Place("a.md", ("fifo",), "average JCT (s)"), "one row with fifo, and has 2"),
        (Place("a.md", ("las",), "average JCT (s)"), "one row with las, and has 0"),
        (Place("a.csv", ("y",), "value", mean=True), "one row with y, and has 0"),
        (Place("a.md", ("srtf",), "makespan (h)"), r"makespan \(h\): must be a number"),
        (Place("a.md", ("srtf",), "JCT"), "columns are policy, average JCT"),
    ],
)
def test_a_number_that_is_not_there_is_refused(place: Place, complaint: str, reports: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        number_at(place, reports)


def test_a_row_has_numbers_of_both_and_a_ratio(reports: Path) -> None:
    fifo = Place("a.md", ("Title", "fifo"), "average JCT (s)")
    srtf = Place("a.md", ("Title", "srtf"), "average JCT (s)")
    numbers = (Number("JCT", 1000.0, fifo), Number("ratio", None, fifo, srtf, ".1f"))
    seed = Seed("Table 1", "this", "paper", "python -m x", "a.md", "because", numbers)
    row = tables({"System": [seed]}, reports).splitlines()[-1]
    assert "| JCT 1,000 (paper) | JCT 1,234; ratio 2.0 | `python -m x` |" in row
    unnumbered = Seed("Table 2", "this", "paper", "python -m x", "a.md", "because", numbers[1:])
    assert "| no number (paper) | ratio 2.0 |" in tables({"System": [unnumbered]}, reports)


def test_figure_8_is_answered_without_public_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path))
    found = {(one.of, one.figure): round(one.value, 2) for one in figure_8()}
    assert found["round MILP roberta", "GPUs"] == 1
    assert found["round MILP roberta", "speed"] == 0.55
    assert found["round MILP t5_3B", "speed"] == 0.89
    assert found["equal split t5_3B", "speed"] == 0.25
    assert micro(["two-jobs", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "micro-two-jobs.md").read_text()
    assert "those that Figure 8 prints" in text
    assert "| round MILP | 1, zero-dp | 0.55 | 3, pp1-tp3-dp1+ga | 0.89 |" in text


def test_what_is_recorded_of_figure_8_is_what_is_measured() -> None:
    for one in figure_8():
        place = Place("seeds/measured.csv", (one.seed, one.of, one.figure), "value")
        assert number_at(place) == pytest.approx(one.value, rel=1e-5)


def test_the_command_rewrites_a_page(tmp_path: Path) -> None:
    page = tmp_path / "seeds.md"
    page.write_text("before\n<!-- generated:seeds -->\nold\n<!-- /generated:seeds -->\nafter\n")
    assert main(["page", "--page", str(page)]) == 0
    text = page.read_text("utf-8")
    assert block_in(text, "seeds") == tables()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
