"""Reports are tied to what they were made from, and every file belongs to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reports import INDEX, digest, facts, index, made, sources, stale, strays


def test_every_report_has_an_entry_a_record_and_a_line_in_the_index(project_root: Path) -> None:
    assert strays() == []
    recorded = made()
    names = [source.name for source in sources()]
    assert list(recorded) == names
    for source in sources():
        assert (project_root / source.page).is_file()
        assert recorded[source.name]["files"], source.name
        assert {"Python", "numpy", "highspy"} <= set(recorded[source.name]["versions"])
    assert (project_root / "reports" / INDEX).read_text("utf-8") == index()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "reports" / "a").mkdir(parents=True)
    (tmp_path / "zoo.toml").write_text("x = 1\n")
    (tmp_path / "reports" / "a" / "a.md").write_text("# A\n")
    (tmp_path / "reports" / "sources.toml").write_text(
        '[report.a]\ntitle = "A"\npage = "reports/a/a.md"\nfiles = ["reports/a/*"]\n'
        'inputs = ["zoo.toml"]\ncommand = "make a"\n'
    )
    return tmp_path


def test_a_report_is_stale_when_what_it_was_made_from_differs(root: Path) -> None:
    (source,) = sources(root)
    recorded = {"a": facts(source, root)}
    assert stale(source, recorded, root) == []
    assert stale(source, {}, root) == ["was never recorded"]
    (root / "zoo.toml").write_text("x = 2\n")
    assert stale(source, recorded, root) == ["inputs have changed (zoo.toml)"]
    (root / "zoo.toml").write_text("x = 1\n")
    (root / "reports" / "a" / "a.md").write_text("# A, by hand\n")
    assert stale(source, recorded, root) == ["reports/a/a.md has changed since it was recorded"]
    (root / "reports" / "a" / "b.md").write_text("new")
    assert len(stale(source, recorded, root)) == 2
    other = {"a": recorded["a"] | {"command": "make b"}}
    assert "is made by another command now" in stale(source, other, root)


def test_a_file_of_no_report_is_found(root: Path) -> None:
    assert strays(root) == []
    (root / "reports" / "b").mkdir()
    (root / "reports" / "b" / "x.csv").write_text("1\n")
    assert strays(root) == [Path("reports/b/x.csv")]


def test_the_digest_is_of_names_and_bytes(root: Path) -> None:
    before = digest(["zoo.toml"], root)
    assert digest(["zoo.toml", "nothing*"], root) == before
    (root / "zoo.toml").rename(root / "zoo2.toml")
    assert digest(["zoo*.toml"], root) != before
