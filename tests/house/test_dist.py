"""The check of `make dist` complains of what must not be shipped, and of what is missing."""

from __future__ import annotations

import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

from tests.house.dist import NEEDED, complaints


def shipped(folder: Path, *more: str, without: str = "") -> list[str]:
    with zipfile.ZipFile(folder / "m-1-py3-none-any.whl", "w") as wheel:
        for name in {*NEEDED[".whl"], "m-1.dist-info/METADATA", *more} - {without}:
            wheel.writestr(name, "")
    with tarfile.open(folder / "m-1.tar.gz", "w:gz") as sdist:
        for name in {*NEEDED[".gz"], *more} - {without}:
            sdist.addfile(tarfile.TarInfo(f"m-1/{name}"), BytesIO())
    return list(complaints(folder))


def test_wheel_and_sdist_are_checked_for_foreign_and_missing_files(tmp_path: Path) -> None:
    assert shipped(tmp_path) == []
    assert shipped(tmp_path, "morph_opt/simulation/runs/read.py") == []
    for wrong, said in (("runs/x.csv", "holds runs/x.csv"), ("morph_opt/a.pyc", "a.pyc")):
        assert any(said in one for one in shipped(tmp_path, wrong))
    assert any("no module of the package" in one for one in shipped(tmp_path, "tests/x.py"))
    assert any("lacks README.md" in one for one in shipped(tmp_path, without="README.md"))
    (tmp_path / "m-1.tar.gz").unlink()
    assert any("one sdist and one wheel" in one for one in complaints(tmp_path))
