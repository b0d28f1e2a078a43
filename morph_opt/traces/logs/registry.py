"""Every log format by name."""

from __future__ import annotations

from morph_opt.domain import InputError
from morph_opt.traces.logs.formats.acme import AcmeReader, HeliosReader
from morph_opt.traces.logs.formats.batsim import BatsimReader
from morph_opt.traces.logs.formats.kueue import KueueReader
from morph_opt.traces.logs.formats.openb import OpenbReader, SpotReader
from morph_opt.traces.logs.formats.pai import PaiReader
from morph_opt.traces.logs.formats.philly import PhillyReader, PhillyTableReader
from morph_opt.traces.logs.formats.pollux import EasyscaleReader, PolluxReader
from morph_opt.traces.logs.formats.sacct import SacctReader
from morph_opt.traces.logs.formats.swf import SwfReader
from morph_opt.traces.logs.formats.volcano import VolcanoReader
from morph_opt.traces.logs.reading.format import LogFormat

_PACIFIC = "America/Los_Angeles"
_PHILLY_JOBS = 117_325

LOG_FORMATS: dict[str, LogFormat] = {
    one.name: one
    for one in (
        LogFormat(
            "acme", "Acme study, Seren and Kalos (CSV)", AcmeReader, "UTC",
            published=(818_327, 62_413),
        ),
        LogFormat("helios", "Helios, four clusters (CSV)", HeliosReader, "Asia/Shanghai"),
        LogFormat(
            "philly", "Philly, the publisher's job log (JSON)", PhillyReader, _PACIFIC,
            published=(_PHILLY_JOBS,),
        ),
        LogFormat(
            "philly-table", "Philly, flat conversions (CSV)", PhillyTableReader, _PACIFIC,
            ids=False, published=(_PHILLY_JOBS,),
            taken=("a timestamp is the submission, which nothing says",),
        ),
        LogFormat("pai", "PAI 2020, job and task tables (CSV)", PaiReader, None),
        LogFormat("openb", "OpenB 2023, pods (CSV)", OpenbReader, None, relative=True),
        LogFormat(
            "spot", "Spot GPUs 2026, jobs (CSV)", SpotReader, None, relative=True,
            taken=("duration is the run time; it may contain waiting",),
        ),
        LogFormat(
            "pollux", "Pollux and Sia workloads (CSV)", PolluxReader, None, relative=True,
            durations=False,
        ),
        LogFormat(
            "easyscale", "EasyScale workload (CSV)", EasyscaleReader, None, relative=True,
            durations=False, taken=("the preferred GPU type is no demand",),
        ),
        LogFormat(
            "swf", "Standard Workload Format 2.2", SwfReader, None, ("procs_per_gpu",),
            relative=True, needed=("procs_per_gpu",),
        ),
        LogFormat(
            "sacct", "Slurm accounting, sacct --parsable2", SacctReader, "UTC", ("columns",),
            folds=True,
        ),
        LogFormat(
            "kueue", "Kueue workloads (kubectl, JSON)", KueueReader, "UTC", ("gpu_resource",),
        ),
        LogFormat(
            "volcano", "Volcano jobs (kubectl, JSON)", VolcanoReader, "UTC", ("gpu_resource",),
            taken=("without conditions runningDuration is the run time; it may contain waiting",),
        ),
        LogFormat(
            "batsim", "Batsim workload (JSON)", BatsimReader, None, ("procs_per_gpu",),
            relative=True,
        ),
    )
}  # fmt: skip
"""Formats of `python -m morph_opt.traces lint` and of ``--trace FORMAT:PATH``."""


def log_format(name: str) -> LogFormat:
    """The format of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in LOG_FORMATS:
        rule = f"unknown format {name!r}; known are {', '.join(LOG_FORMATS)}"
        raise InputError(rule, field="format")
    return LOG_FORMATS[name]
