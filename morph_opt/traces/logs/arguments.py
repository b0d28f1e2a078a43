"""Arguments of command lines that read logs."""

from __future__ import annotations

import argparse

from morph_opt.commandline import NamedNumbers
from morph_opt.commandline.types import whole
from morph_opt.traces.logs.jobs import MODES
from morph_opt.traces.logs.reading.row import Reading

_READING = ("timezone", "procs_per_gpu", "columns", "gpu_resource", "gpu_shares", "only")


def add_reading(group: argparse._ActionsContainer) -> None:
    """Options that say how a log is read where it does not say so itself."""
    group.add_argument("--timezone", metavar="ZONE", help="of times that name none")
    group.add_argument(
        "--procs-per-gpu", type=whole(1, 10**6), metavar="N", help="where a log counts processors"
    )
    group.add_argument("--columns", choices=("xdmod",), help="layout of a file without a header")
    group.add_argument("--gpu-resource", metavar="NAME", help="what a GPU is called in Kubernetes")
    group.add_argument(
        "--gpu-shares",
        choices=("drop", "round-up"),
        help="what becomes of jobs with a share of a GPU (drop)",
    )
    group.add_argument("--only", choices=("completed",), help="jobs of that outcome alone")


def reading_of(given: argparse.Namespace) -> Reading:
    """How to read, by the options of `add_reading`."""
    values = {name: getattr(given, name, None) for name in _READING}
    return Reading(**{name: value for name, value in values.items() if value is not None})


def add_mapping(group: argparse._ActionsContainer) -> None:
    """Options that say how the rows of a log become jobs."""
    group.add_argument(
        "--jobs-as",
        choices=MODES,
        help="on exactly the GPUs that they had (rigid); on others by a stated curve; or as "
        "built-in models of a stated mix",
    )
    group.add_argument("--scaling", metavar="linear|amdahl:P|MODEL", help="curve of anchored jobs")
    group.add_argument(
        "--mix", type=NamedNumbers(), metavar="MODEL=SHARE,...", help="of sampled jobs (equal)"
    )
    group.add_argument(
        "--gpu-types", choices=("keep", "ignore"), help="whether a job keeps to its type (keep)"
    )
    group.add_argument("--guarantee", metavar="KIND", help="jobs of this kind have a guarantee")
    group.add_argument(
        "--run-s",
        type=NamedNumbers(),
        metavar="KIND=S,...",
        help="run times, for logs that tell none",
    )
