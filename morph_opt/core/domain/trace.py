"""Traces: the jobs of one replay, in order of submission."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from formulations.resources import SIDES
from morph_opt.core.domain._validate import require_int, require_name, require_unique
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.job import QUEUED, Job


@dataclass(frozen=True, slots=True)
class Search:
    """Group of jobs (trials) of which only the best continue once all have reported.

    The ranking belongs to the workload: no policy sees it.

    Parameters
    ----------
    name
        Name of the group.
    ranked
        Names of its jobs, best first.
    keep
        Number of jobs that continue; 0 if those are complete already.

    Raises
    ------
    InputError
        If fewer are listed than are kept, or one twice.
    """

    name: str
    ranked: tuple[str, ...]
    keep: int = 1

    def __post_init__(self) -> None:
        require_name("group", self.name)
        require_unique("group", self.ranked)
        require_int("keep", self.keep, at_least=0, at_most=10**9)
        if self.keep > len(self.ranked):
            rule = f"search {self.name} has {len(self.ranked)} trials, it cannot keep {self.keep}"
            raise InputError(rule, field="keep")

    @property
    def cut(self) -> tuple[str, ...]:
        """Jobs that are cancelled at the cut."""
        return self.ranked[self.keep :]


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """Named, ordered jobs.

    Parameters
    ----------
    name
        Name, for example ``"base"`` or ``"morphling/base"``.
    jobs
        At least one, sorted by submission (equal times keep the order of the file).
    description
        Origin of the jobs in one line; states that a twin is one.
    searches
        Groups of jobs of which only the best continue.

    Raises
    ------
    InputError
        If the trace is empty, unordered, or names a job twice.
    """

    name: str
    jobs: tuple[Job, ...]
    description: str = ""
    searches: tuple[Search, ...] = ()

    def __post_init__(self) -> None:
        require_name("trace.name", self.name)
        require_type("description", self.description, str)
        object.__setattr__(self, "jobs", tuple(require_each("jobs", self.jobs, Job)))
        every = require_each("searches", self.searches, Search)
        object.__setattr__(self, "searches", tuple(every))
        if not self.jobs:
            raise InputError("the trace has no jobs", field="jobs")
        require_unique("name", (job.name for job in self.jobs))
        times = [job.submission_s for job in self.jobs]
        if times != sorted(times):
            raise InputError("must be sorted by submission_s", field="jobs")
        self._require_searches()

    def _require_searches(self) -> None:
        require_unique("group", (search.name for search in self.searches))
        require_unique("group", (name for search in self.searches for name in search.ranked))
        jobs = {job.name: job for job in self.jobs} if self.searches else {}
        for search in self.searches:
            for name in search.ranked:
                if name not in jobs:
                    rule = f"search {search.name} has the unknown job {name}"
                    raise InputError(rule, field="group")
                if jobs[name].feedback_iterations is None:
                    rule = f"job {name} of search {search.name} never reports"
                    raise InputError(rule, field="feedback_iterations")

    @classmethod
    def of(
        cls, name: str, jobs: Iterable[Job], description: str = "", searches: Iterable[Search] = ()
    ) -> Trace:
        """Return a trace of these jobs, sorted by submission (stable).

        Parameters
        ----------
        name, description
            Name and origin, for readers.
        jobs
            In any order.
        searches
            Searches whose trials are among the jobs.
        """
        jobs = require_each("jobs", [*require_type("jobs", jobs, Iterable)], Job)
        ordered = tuple(sorted(jobs, key=lambda job: job.submission_s))
        return cls(name, ordered, description, tuple(searches))

    def of_jobs(self, jobs: Iterable[Job]) -> Trace:
        """Return the trace with these of its jobs; searches keep their remaining trials."""
        kept = tuple(jobs)
        names = {job.name for job in kept}
        left = (
            Search(search.name, ranked, min(search.keep, len(ranked)))
            for search in self.searches
            if (ranked := tuple(name for name in search.ranked if name in names))
        )
        return Trace(self.name, kept, self.description, tuple(left))

    def __repr__(self) -> str:
        return f"<Trace {self.name}: {len(self.jobs)} jobs>"

    @property
    def sha256(self) -> str:
        """Digest of the jobs, independent of the file that they came from."""
        digest = hashlib.sha256()
        for job in self.jobs:
            digest.update("|".join(_content(job)).encode() + b"\n")
        for search in self.searches:
            digest.update("|".join((search.name, str(search.keep), *search.ranked)).encode())
        return digest.hexdigest()


def _content(job: Job) -> tuple[str, ...]:
    """Return the values that the digest covers; fields of later versions only if set."""
    content: tuple[str, ...] = (
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
    if job.deadline_s is not None:
        content = (*content, repr(float(job.deadline_s)))
    if job.feedback_iterations is not None:
        content = (*content, f"feedback {job.feedback_iterations}")
    if job.checkpoint_s is not None:
        content = (*content, f"checkpoint {job.checkpoint_s}")
    for resource in SIDES:
        if resource.optional and resource.asked and getattr(job, resource.asked):
            content = (*content, f"{resource.asked} {float(getattr(job, resource.asked))!r}")
    for name in QUEUED:
        if (value := getattr(job, name)) not in (None, "", 0.0):
            content = (*content, f"{name} {value if isinstance(value, str) else float(value)!r}")
    return content
