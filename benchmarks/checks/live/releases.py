"""Slurm of another release than this machine's: that of another Debian in a folder.

``LIVE_TEST_ROOT`` names the root of it, as ``debootstrap`` makes one. Nothing is entered there:
each command is run by that root's own loader with that root's libraries, so that users, processes
and scratch folders are this machine's.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = "LIVE_TEST_ROOT"
PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
COMMANDS = (
    "slurmctld", "slurmd", "slurmstepd", "slurmdbd", "scontrol", "squeue", "sinfo", "sbatch",
    "scancel", "sacct", "sacctmgr",
)  # fmt: skip


def root() -> Path | None:
    """The other Debian's root; None for this machine's own Slurm."""
    named = os.environ.get(ROOT)
    return Path(named).resolve() if named else None


def which(name: str) -> str | None:
    """Where a command is that this machine, or for those of Slurm the other root, has."""
    other = root()
    if other is None or name not in COMMANDS:
        return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATH}")
    found = (_inside(other, f"{folder}/{name}") for folder in PATH.split(":"))
    return next((str(path) for path in found if path.exists()), None)


def _inside(other: Path, name: str) -> Path:
    """A file of the root, by links as they are meant there (Debian's alternatives)."""
    path = other / name.lstrip("/")
    while path.is_symlink():
        target = path.readlink()
        path = other / str(target).lstrip("/") if target.is_absolute() else path.parent / target
    return path


def plugins() -> Path | None:
    """Folder of the other root's plugins of Slurm; None for this machine's own."""
    other = root()
    return None if other is None else next(other.glob("usr/lib/*/slurm-wlm"))


def write_commands(folder: Path) -> None:
    """Scripts that run the other root's commands; none where there is no other root."""
    folder.mkdir(parents=True, exist_ok=True)
    other, found = root(), plugins()
    if other is None or found is None:
        return
    loader = next(found.parent.glob("ld-linux-*.so.*"))
    libraries = f"{found}:{found.parent}"
    for name in COMMANDS:
        if binary := which(name):
            script = folder / name
            line = f'exec {loader} --argv0 "$0" --library-path {libraries} {binary} "$@"'
            script.write_text(f"#!/bin/sh\n{line}\n")
            script.chmod(0o755)
