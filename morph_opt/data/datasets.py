"""Registry of public data sets, each pinned to one commit and one checksum per file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from morph_opt.domain import InputError
from morph_opt.domain.nearest import unknown


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
        Of files that are archives: what is taken out of them, by its path below the root, and how
        its name in the archive ends.
    citation
        How the publisher wants to be cited, or is named.
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
        """Paths of all that is downloaded."""
        return (*self.sha256, *self.blobs)

    @property
    def verified_by(self) -> str:
        """What the files are checked by, in words."""
        kinds = ["SHA-256"] * bool(self.sha256) + ["git blob id"] * bool(self.blobs)
        return " or ".join(kinds)


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
    "acme": Dataset(
        name="acme",
        title="Acme study (NSDI'24): job logs of Seren and Kalos, summary",
        licence="CC-BY-4.0",
        repository="InternLM/AcmeTrace",
        commit="6d6ac9cd15f3b01151ac6ba00ecddd9156f0dc73",
        sha256=_checksums("acme"),
        blobs={
            "data/job_trace/trace_seren.csv": "3133535311d36ecc404d4446e129036a1057c6f2",
            "data/job_trace/trace_kalos.csv": "6e6c11a6308e403a2b75f3dec2d9cf48263c1a52",
        },
        citation="Hu et al., Characterization of Large Language Model Development in the "
        "Datacenter, NSDI 2024",
    ),
    "helios": Dataset(
        name="helios",
        title="Helios (SC'21): job logs and daily capacity of four clusters, one archive",
        licence="CC-BY-4.0",
        repository="S-Lab-System-Group/HeliosData",
        commit="159f0caeec16600b9b6017862952a36aae01c43f",
        sha256={},
        blobs={"data.zip": "1a48d5e0fb816fe9bbf1ad7086e7dec90923e5c6"},
        members={
            "data.zip": {
                f"data/{cluster}/{file}": f"{cluster}/{file}"
                for cluster in ("Earth", "Saturn", "Uranus", "Venus")
                for file in ("cluster_log.csv", "cluster_gpu_number.csv")
            }
        },
        citation="Hu et al., Characterization and Prediction of Deep Learning Workloads in "
        "Large-Scale GPU Datacenters, SC 2021",
    ),
    "philly": Dataset(
        name="philly",
        title="Philly (ATC'19): job log, out of an archive of 1 GB",
        licence="CC-BY-4.0",
        repository="msr-fiddle/philly-traces",
        commit="29a1b87fa2d9ed80b83c9e3a37f3a88d382b031d",
        sha256={
            "trace-data.tar.gz": "2037ccf63a725a02be718b0e1aeee6142c90b7f62d0d849295120e9f6ba13d2c"
        },
        members={"trace-data.tar.gz": {"trace-data/cluster_job_log": "cluster_job_log"}},
        citation="Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training "
        "Workloads, USENIX ATC 2019",
        large=True,
    ),
    "openb": Dataset(
        name="openb",
        title="OpenB (ATC'23): nodes and pods of a cluster with shared GPUs",
        licence="Apache-2.0",
        repository="hkust-adsl/kubernetes-scheduler-simulator",
        commit="8f3d6417353c5083c6d56617f255fadd8dc306bc",
        sha256=_checksums("openb"),
        citation="Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with "
        "Fragmentation Gradient Descent, USENIX ATC 2023",
    ),
    "pollux": Dataset(
        name="pollux",
        title="Pollux (OSDI'21): workloads of the artifact, without durations",
        licence="Apache-2.0",
        repository="petuum/adaptdl",
        commit="c793c7089bd307462686339d29707925c461f9a9",
        sha256=_checksums("pollux"),
        citation="Qiao et al., Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep "
        "Learning, OSDI 2021",
    ),
}
"""Data sets by name."""


NOT_OFFERED = {
    "spot": "cluster-trace-v2026-spot-gpu of alibaba/clusterdata",
    "sia": "sia-simulator/workloads of siasosp23/artifacts",
    "easyscale": "sUntvoOk/EasyScale_info_for_SC23",
    "philly-table": "flat conversions of Philly",
}
"""What is read and never offered, as its publisher states no licence."""


def dataset(name: str) -> Dataset:
    """The data set of that name.

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
