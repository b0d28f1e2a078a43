"""Random share problems, and where the published instances are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from formulations.shares.problem import PairTable, ShareProblem
from tests.public_data import skip_without_data


def fixture_path(name):
    """A JSON file of published cases; the test skips where it is not at hand."""
    folder = os.environ.get("MORPH_OPT_FIXTURES", "")
    data = os.environ.get("MORPH_OPT_DATA", "")
    path = Path(folder or Path(data or ".") / ".." / "fixtures") / name
    if not (folder or data) or not path.is_file():
        skip_without_data("published instances; MORPH_OPT_FIXTURES names their folder")
    return path


def fixture(name):
    """What `fixture_path` holds."""
    return json.loads(fixture_path(name).read_text("utf-8"))


def random_problem(seed, jobs=8, types=3, scale=0.4, zeros=0.2):
    """A problem with some zero throughputs; every gang fits some type on which it runs."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0, 1, (jobs, 1)) * rng.lognormal(0, 0.7, (jobs, types))
    speed *= 10.0 ** rng.uniform(-1, 2)
    speed[:, 1:] *= rng.random((jobs, types - 1)) >= zeros
    gang = rng.choice([1, 2, 4], jobs)
    capacity = np.maximum(4.0, np.floor(rng.random(types) * jobs * scale * 4))
    return ShareProblem(speed, gang, capacity)


def with_pairs(problem, seed, kept=0.75):
    """All pairs of jobs with random slow-downs around ``kept``."""
    rng = np.random.default_rng(seed)
    one, two = np.triu_indices(problem.jobs, 1)
    part = np.clip(rng.normal(kept, 0.2, (one.size, problem.types, 2)), 0.0, 1.0)
    alone = np.stack([problem.throughput[one], problem.throughput[two]], axis=2)
    return ShareProblem(
        problem.throughput, problem.gang, problem.capacity, pairs=PairTable(one, two, part * alone)
    )
