"""Traces: the jobs of one replay, in order of submission."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from morph_opt.domain._validate import require_name, require_unique
from morph_opt.domain.errors import InputError
from morph_opt.domain.job import Job


@dataclass(frozen=True, slots=True)
class Trace:
    """Named, ordered jobs.

    Parameters
    ----------
    name
        What the user calls it, for example ``"base"`` or ``"morphling/base"``.
    jobs
        At least one, sorted by submission (equal times keep the order of the file).
    description
        One line on where the jobs come from; twins say here that they are twins.

    Raises
    ------
    InputError
        If the trace is empty, unordered, or names a job twice.
    """

    name: str
    jobs: tuple[Job, ...]
    description: str = ""

    def __post_init__(self) -> None:
        require_name("trace.name", self.name)
        if not self.jobs:
            raise InputError("the trace has no jobs", field="jobs")
        require_unique("name", (job.name for job in self.jobs))
        times = [job.submission_s for job in self.jobs]
        if times != sorted(times):
            raise InputError("must be sorted by submission_s", field="jobs")

    @classmethod
    def of(cls, name: str, jobs: Iterable[Job], description: str = "") -> Trace:
        """A trace of these jobs, sorted by submission (stable)."""
        return cls(name, tuple(sorted(jobs, key=lambda job: job.submission_s)), description)

    @property
    def sha256(self) -> str:
        """Digest of the jobs' content, independent of the file that they came from."""
        digest = hashlib.sha256()
        for job in self.jobs:
            digest.update("|".join(_content(job)).encode() + b"\n")
        return digest.hexdigest()


def _content(job: Job) -> tuple[str, ...]:
    """What the digest covers; a job without a deadline has the digest that it always had."""
    content = (
        job.name,
        job.model,
        repr(float(job.submission_s)),
        str(job.iterations),
        str(job.requested_gpus),
        job.requested_plan.label,
        str(job.cpus_per_gpu),
        str(job.guaranteed),
        repr(float(job.weight)),
        job.tenant,
    )
    return content if job.deadline_s is None else (*content, repr(float(job.deadline_s)))
