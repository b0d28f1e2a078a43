"""``python -m morph_opt.topology``: the tree, the drawing, and bad input."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from morph_opt.inputs.clusters.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "instances" / "clusters"
SPECS = sorted(FOLDER.glob("*.toml"))


def test_show_prints_spine_leaves_domains_and_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(FOLDER / "nvl72-row.toml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "NVL72 row, 4 racks: 72 nodes, 288 GB200",
        "spine",
        "├── leaf-0: 18 nodes, 72 GPUs, 3600 GB/s up, 1:1",
        "│   └── NVLink domain rack-0: 18 nodes, 72 GPUs",
    ]
    assert lines[4].startswith("│       └── rack-0-tray-00 .. rack-0-tray-17: 18 x gb200-tray (")
    assert lines[-1].startswith("        └── rack-3-tray-00")


def test_show_takes_the_short_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "1x1"]) == 0
    assert "leaf-0: 1 node, 1 GPU, uplinks not bounded" in capsys.readouterr().out


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_a_drawing_holds_every_leaf_domain_and_node(spec: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawings need the extra 'plot'")
    from morph_opt.inputs.clusters import read_cluster

    out = tmp_path / "a.svg"
    assert main(["draw", str(spec), "--out", str(out)]) == 0
    text = "".join(ElementTree.fromstring(out.read_text("utf-8")).itertext())
    made = read_cluster(spec)
    for node in made.nodes:
        assert node.name in text
        assert node.leaf in text
        assert node.nvlink_domain is None or f"NVLink domain {node.nvlink_domain}" in text


def test_a_cluster_is_drawn_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawings need the extra 'plot'")
    files = tmp_path / "a.svg", tmp_path / "b.svg"
    for out in files:
        assert main(["draw", str(FOLDER / "a100-h100.toml"), "--out", str(out)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_png_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawings need the extra 'plot'")
    out = tmp_path / "a.png"
    assert main(["draw", "2x8", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["show", "none.toml"], "error: none.toml: cannot be read"),
        (["show", "0x8"], "error: cluster: must have nodes and GPUs per node of at least 1"),
        (["show", "2x8:B52"], "error: cluster: unknown GPU type 'B52'"),
        (["draw", "2x8", "--out", "a.pdf"], "error: --out: must end in .svg or .png"),
        (["draw", "2x8", "--out", "none/a.svg"], "error: none/a.svg: cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(error)
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_cluster_too_large_for_a_picture_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="drawings need the extra 'plot'")
    assert main(["draw", "1001x8", "--out", str(tmp_path / "a.svg")]) == 2
    assert "at most 1000 nodes, got 1001; show prints them" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
