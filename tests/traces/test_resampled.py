"""Workloads drawn from another: loads that nest, whole blocks, deadlines that move along."""

from __future__ import annotations

import itertools

import pytest

from morph_opt.core.domain import InputError, Job, Trace
from morph_opt.inputs.traces.registry import home_cluster, load_trace
from morph_opt.inputs.traces.resampled import (
    DAYS,
    WEEKS,
    drawn,
    history_note,
    loaded_by,
    resampled_spec,
    split_resampled,
    whole_blocks,
)
from tests.engine.toys import job

DAY_S = 86_400.0


def test_loads_nest_and_take_their_share() -> None:
    jobs = tuple(job(f"j{i}", float(i)) for i in range(2_000))
    names = {f: [one.name for one in loaded_by(jobs, f, 3)] for f in (0.5, 1.0, 1.1, 1.2, 2.3)}
    assert names[1.0] == [one.name for one in jobs]
    order = [0.5, 1.0, 1.1, 1.2, 2.3]
    for low, high in itertools.pairwise(order):
        assert set(names[low]) <= set(names[high])
    for factor, taken in names.items():
        assert len(set(taken)) == len(taken)
        # Binomial: four standard deviations of 2,000 draws with p at most 1/2 are 90.
        assert abs(len(taken) - 2_000 * factor) <= 90
    assert names[1.2] != [one.name for one in loaded_by(jobs, 1.2, 4)]


def history(days: int) -> Trace:
    """One job per hour; its name tells day and hour."""
    return Trace.of(
        "h",
        [
            job(f"d{d}h{h}", d * DAY_S + h * 3600.0, deadline_s=(d + 1) * DAY_S)
            for d in range(days)
            for h in range(24)
        ],
    )


def test_jobs_behind_the_last_whole_block_are_told() -> None:
    jobs = history(9).jobs
    assert history_note(jobs, whole_blocks(history(9), DAYS), DAYS) == "9 days of history"
    assert history_note(jobs, 1, WEEKS) == (
        "1 weeks of history, 48 jobs after them are in no whole week and left out"
    )


def block_of(one: Job) -> tuple[int, int, int]:
    name, _, place = one.name.partition("@")
    day, _, hour = name[1:].partition("h")
    return int(day), int(hour), int(place)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_stay_whole(seed: int) -> None:
    for blocks, days, length in (("weeks", 28, 7), ("days", 21, 1), ("days", 5, 1)):
        taken = drawn(history(days), blocks, seed)
        assert len(taken) == days * 24
        sources: dict[int, set[int]] = {}
        for one in taken:
            day, hour, place = block_of(one)
            sources.setdefault(place, set()).add(day // length)
            shift_s = (place - day // length) * length * DAY_S
            assert one.submission_s == day * DAY_S + hour * 3600.0 + shift_s
            assert one.deadline_s == (day + 1) * DAY_S + shift_s
        assert sorted(sources) == list(range(days // length))
        assert all(len(block) == 1 for block in sources.values())
        if (blocks, days) == ("days", 21):  # a day is of the same place in the week
            assert all({d % 7 for d in found} == {place % 7} for place, found in sources.items())
        assert taken == drawn(history(days), blocks, seed)


def test_resampling_specs_are_read_or_refused() -> None:
    assert resampled_spec("base") == "base"
    spec = resampled_spec("base", load=1.2)
    assert split_resampled(spec) == (1.2, "as-is", "base")
    assert split_resampled("base") == (1.0, "as-is", "base")
    assert home_cluster("resampled/x1.2/as-is/gavel-96") == home_cluster("gavel-96")
    less, more = (
        {one.name for one in load_trace(resampled_spec("naive", load=f), seed=2).trace.jobs}
        for f in (1.1, 1.2)
    )
    assert less < more
    for wrong in ("resampled/x1.2/base", "resampled/y/as-is/base", "resampled"):
        with pytest.raises(InputError, match="must look like"):
            load_trace(wrong)
    with pytest.raises(InputError, match="load"):
        resampled_spec("base", load=0.0)
    with pytest.raises(InputError, match="needs two whole weeks of history, naive has"):
        load_trace("resampled/x1/weeks/naive")
