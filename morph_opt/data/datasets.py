"""Registry of public data sets, each pinned to one commit and one checksum per file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from morph_opt.domain import InputError


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files of a public repository at one commit.

    Parameters
    ----------
    name
        Folder under ``$MORPH_OPT_DATA`` and argument of ``fetch``.
    title
        One line.
    licence
        SPDX identifier stated by the publisher.
    repository
        ``owner/name`` on GitHub.
    commit
        Full SHA-1; a moving branch would make the checksums fail some day.
    sha256
        Checksum of each file by its path below the root.
    """

    name: str
    title: str
    licence: str
    repository: str
    commit: str
    sha256: Mapping[str, str]

    @property
    def base_url(self) -> str:
        """Address of the raw files, with a trailing slash."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/"


def _checksums(name: str) -> Mapping[str, str]:
    """SHA-256 by path, from ``<name>.sha256`` of this package (the format of ``sha256sum``)."""
    text = resources.files("morph_opt.data").joinpath(f"{name}.sha256").read_text("utf-8")
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {path: digest for digest, path in pairs}


DATASETS: dict[str, Dataset] = {
    "morphling": Dataset(
        name="morphling",
        title="Morphling artifact (MLSys'25): four workloads, measured tables, profiles",
        licence="Apache-2.0",
        repository="AlibabaPAI/reconfigurable-dl-scheduler",
        commit="80e85248c65c1ae231e2cf8bbfe0918b7af45c98",
        sha256=_checksums("morphling"),
    ),
    "gavel": Dataset(
        name="gavel",
        title="Gavel artifact (OSDI'20): throughputs by GPU type, physical and MSR traces",
        licence="MIT",
        repository="stanford-futuredata/gavel",
        commit="c4fa40097339e9608ab71fd64c8bdea96a5e4a4c",
        sha256=_checksums("gavel"),
    ),
    "tiresias": Dataset(
        name="tiresias",
        title="Tiresias simulator (NSDI'19): 60-job trace, cluster specs, GPU-time samples",
        licence="Apache-2.0",
        repository="SymbioticLab/Tiresias",
        commit="959f9b08f44fa1b4f2b3aed79b01e4d439264a94",
        sha256=_checksums("tiresias"),
    ),
}
"""Data sets by name."""


def dataset(name: str) -> Dataset:
    """The data set of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in DATASETS:
        raise InputError(
            f"unknown data set {name!r}; known are {', '.join(DATASETS)}", field="data set"
        )
    return DATASETS[name]
