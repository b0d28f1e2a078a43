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
