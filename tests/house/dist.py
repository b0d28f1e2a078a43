"""What is in a wheel and an sdist: ``python -m tests.house.dist dist``; one line per complaint."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

MOST_MIB = {".whl": 2.0, ".gz": 40.0}
"""Beyond which somebody has packed what is not needed to run or to test."""
IN_WHEEL = ("morph_opt/", "formulations/")
NEEDED = {
    ".whl": (
        "morph_opt/__init__.py",
        "morph_opt/py.typed",
        "morph_opt/inputs/perf/analytic/zoo.toml",
    ),
    ".gz": ("README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "tests/smoke.txt"),
}
REFUSED = (".venv/", "runs/", "build/", "dist/")
"""Folders of a working copy that are nobody else's business."""


def complaints(folder: Path) -> Iterator[str]:
    """What is wrong with the files of a folder that `make dist` filled."""
    files = sorted(folder.iterdir(), key=lambda file: file.suffix)
    if [file.suffix for file in files] != [".gz", ".whl"]:
        yield f"{folder}: must hold one sdist and one wheel, has {[file.name for file in files]}"
    for file in files:
        if file.suffix not in NEEDED:
            continue
        wheel = file.suffix == ".whl"
        names = _wheel_names(file) if wheel else _sdist_names(file)
        size = file.stat().st_size / 2**20
        if size > MOST_MIB[file.suffix]:
            yield f"{file.name}: {size:.1f} MiB, at most {MOST_MIB[file.suffix]:g}"
        for name in NEEDED[file.suffix]:
            if name not in names:
                yield f"{file.name}: lacks {name}"
        for name in names:
            if name.startswith(REFUSED) or name.endswith(".pyc"):
                yield f"{file.name}: holds {name}"
            if wheel and not name.startswith(IN_WHEEL) and ".dist-info/" not in name:
                yield f"{file.name}: holds {name}, which is no module of the package"
        print(f"{file.name}: {len(names):,} files, {size:.2f} MiB")


def _wheel_names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as packed:
        return packed.namelist()


def _sdist_names(file: Path) -> list[str]:
    with tarfile.open(file) as packed:
        return [name.partition("/")[2] for name in packed.getnames()]


def main() -> int:
    """Print complaints; 1 if there are any."""
    found = list(complaints(Path(sys.argv[1])))
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
