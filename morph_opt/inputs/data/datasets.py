"""Registry of public data sets, each pinned to one commit and one checksum per file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from morph_opt.core.documents.source import packaged_toml
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import unknown


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
    blobs
        Git blob id of the files of which no SHA-256 is known: the SHA-1 of ``blob <bytes>``, a zero
        byte and the content.
    members
        Members of each archive by their path below the root, with the end of their name in it.
    citation
        Citation that the publisher requests, or the publisher's name.
    large
        Whether the files are in Git LFS.
    """

    name: str
    title: str
    licence: str
    repository: str
    commit: str
    sha256: Mapping[str, str]
    blobs: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    citation: str = ""
    large: bool = False

    @property
    def base_url(self) -> str:
        """Address of the raw files, with a trailing slash."""
        host = "media" if self.large else "raw"
        middle = "media/" if self.large else ""
        return f"https://{host}.githubusercontent.com/{middle}{self.repository}/{self.commit}/"

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of all downloaded files."""
        return (*self.sha256, *self.blobs)

    @property
    def verified_by(self) -> str:
        """Description of the checksums that verify the files."""
        kinds = ["SHA-256"] * bool(self.sha256) + ["git blob id"] * bool(self.blobs)
        return " or ".join(kinds)


def _datasets() -> dict[str, Dataset]:
    found = {}
    for name, table in packaged_toml(__package__, "datasets.toml").items():
        listed = resources.files(__package__) / f"{name}.sha256"  # in the format of sha256sum
        lines = listed.read_text("utf-8").splitlines() if listed.is_file() else ()
        pairs = (line.split(maxsplit=1) for line in lines if line.strip())
        checksums = {path: digest for digest, path in pairs}
        found[name] = Dataset(name, **{"sha256": checksums, **table})
    return found


DATASETS = _datasets()
"""Data sets by name."""


NOT_OFFERED = {
    "spot": "cluster-trace-v2026-spot-gpu of alibaba/clusterdata",
    "sia": "sia-simulator/workloads of siasosp23/artifacts",
    "easyscale": "sUntvoOk/EasyScale_info_for_SC23",
    "philly-table": "flat conversions of Philly",
}
"""Data sets that can be read but not fetched, because their publisher states no licence."""


def dataset(name: str) -> Dataset:
    """Return the data set of a name.

    Raises
    ------
    InputError
        If there is none, or none that may be offered.
    """
    if name in NOT_OFFERED:
        rule = f"is not offered: {NOT_OFFERED[name]} states no licence; read a copy of your own"
        raise InputError(rule, field=f"data set {name}")
    if name not in DATASETS:
        raise InputError(unknown("data set", name, DATASETS), field="data set")
    return DATASETS[name]
