"""Pictures: SVG with text, the same twice, and what they show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from morph_opt.core.domain import InputError
from morph_opt.report.picture import draw_cdf, draw_timeline, main
from morph_opt.simulation.runs.views.view import open_run, open_runs
from tests.runs.views.worlds import hostile, moved, paired

pytest.importorskip("matplotlib", reason="the extra plot is not installed")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("pictures")
    made = {"moved": moved, "paired": paired, "hostile": hostile}
    return {name: make(parent / name) for name, make in made.items()}


def texts(svg: str) -> list[str]:
    return [
        "".join(one.itertext())
        for one in ElementTree.fromstring(svg).iter()
        if one.tag.endswith("}text")
    ]


def test_a_timeline_has_a_box_per_rectangle_and_its_words_are_text(
    folders: dict[str, Path],
) -> None:
    view = open_run(folders["moved"])
    svg = draw_timeline(view, "guaranteed")
    assert svg == draw_timeline(open_run(folders["moved"]), "guaranteed")
    said = texts(svg)
    assert {"node-0", "node-1", "guaranteed", "not guaranteed", "held", "GPUs"} <= set(said)
    collections = re.findall(r'<g id="PolyCollection_\d+">(.*?)</g>', svg, re.DOTALL)
    boxes = sum(part.count("<path d=") for part in collections)
    r = view.rectangles
    assert boxes == len(r) + int((r.startup_until_s > r.start_s).sum())


def test_names_are_no_mathematics_and_no_markup(folders: dict[str, Path]) -> None:
    view = open_run(folders["hostile"], "$x^2$ & <b>")
    assert "<i>0" in texts(draw_timeline(view))
    assert "$x^2$ & <b>" in texts(draw_cdf([view]))


def test_a_distribution_has_a_line_per_run(folders: dict[str, Path]) -> None:
    views = open_runs([folders["moved"], folders["paired"]])
    for of in ("jct", "queueing", "stretch"):
        said = texts(draw_cdf(views, of))
        assert {view.name for view in views} <= set(said)
    assert "mathdefault" not in draw_cdf(views, "queueing")


def test_unknown_colourings_and_empty_folders_are_refused(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="alike by tenant"):
        draw_timeline(open_run(folders["moved"]), "tenant")
    assert main(["timeline", str(tmp_path), "--out", str(tmp_path / "a.svg")]) == 2
    assert "summary.json" in capsys.readouterr().err
    assert not (tmp_path / "a.svg").exists()
