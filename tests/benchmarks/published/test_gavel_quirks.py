"""What Gavel's published simulator does besides its paper, by hand; the parity table."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.published import parity
from benchmarks.published.figures import SHUFFLED, gavel_jobs, main
from benchmarks.published.simulators.gavel import RoundJobs, RoundQuirks, simulate
from formulations.shares.problem import ShareProblem
from morph_opt.core.domain import InputError
from morph_opt.scheduling.shares.policies import in_order

ONE = np.array([1.0])


def jobs(gang, steps, arrival=None, types=1):
    count = len(gang)
    return RoundJobs(
        np.ones((count, types)),
        np.asarray(gang, dtype=np.int64),
        np.asarray(steps, dtype=np.float64),
        np.ones(count),
        np.zeros(count) if arrival is None else np.asarray(arrival, dtype=np.float64),
    )


def equal(moment, types=1):
    return np.full((moment.active.size, types), 1.0 / (moment.active.size * types))


def ends(these, capacity, quirks, rule=equal):
    kinds = np.arange(capacity.size)
    run = simulate(these, capacity, kinds, rule, quirks=quirks)
    return run.end_s.tolist(), run.failed.tolist()


def test_idle_time_before_a_round_counts_as_received():
    # "a" ends at 100, "b" and "c" come at 1000, two rounds of work each, one GPU. By the paper b
    # and c take turns: b ends at 2080, c at 2440. The published code credits b 1360 - 100 s for
    # its first round, so c has two in a row.
    these = jobs([1, 1, 1], [100, 720, 720], [0, 1000, 1000])
    assert ends(these, ONE, None)[0] == [100, 2080, 2440]
    assert ends(these, ONE, RoundQuirks())[0] == [100, 2440, 2080]


def test_a_gang_with_fewer_steps_than_gpus_is_given_up():
    # Two rounds of 360 steps leave one step for two workers: five rounds of 1 s without effect.
    these = jobs([2], [721])
    two = np.array([2.0])
    assert ends(these, two, None) == ([721], [False])
    assert ends(these, two, RoundQuirks()) == ([725], [True])
    run = simulate(jobs([2, 2], [721, 720]), 2 * two, np.array([0]), equal, quirks=RoundQuirks())
    assert run.failed.tolist() == [True, False]
    assert run.average_jct_s == 720, "of the jobs that it finished"


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_types_are_served_in_the_order_of_the_seed(seed):
    # One job, one step per second on type 0 and two on type 1, half a share of both: it runs where
    # it is served first, as long as it has received no more there.
    these = jobs([1], [1000], types=2)
    these.speed[0, 1] = 2.0
    rule = lambda moment: equal(moment, 2)  # noqa: E731
    drawn, left, now = random.Random(seed + 5), 1000.0, 0.0
    while left > 0:
        order = [0, 1]
        drawn.shuffle(order)
        speed = 1.0 + order[0]
        steps = min(left, 360 * speed)
        left, now = left - steps, now + steps / speed
    found = ends(these, np.ones(2), RoundQuirks(shuffled=True, seed=seed), rule)
    assert found == ([now], [False])


def test_strict_order_stops_at_the_first_gang_without_room():
    problem = ShareProblem(np.ones((3, 1)), np.array([2, 2, 1]), np.array([3.0]))
    order = np.arange(3)
    assert in_order(problem, order).x.ravel().tolist() == [1, 0, 1]
    assert in_order(problem, order, strictly=True).x.ravel().tolist() == [1, 0, 0]


def test_a_seed_without_a_draw_is_refused(capsys):
    call = ["gavel", "--trace", "t", "--table", "t", "--gpus", "v100=4", "--seed", "3"]
    for more in (["--policy", "fairness"], ["--policy", "isolated", "--no-artifact-quirks"]):
        assert main([*call, *more]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "--seed" in error


def test_the_published_replays_are_many_and_of_one_mechanism():
    rows = parity.published_replays()
    assert len(rows) >= 40
    assert len({row.policy for row in rows}) == 7
    assert len({tuple(row.gpus.values()) for row in rows}) >= 6
    assert all(row.exact_with_its_shares == row.jobs for row in rows)
    assert {row.policy for row in rows if row.its_shares_off > parity.OPTIMAL} == {"makespan"}


def test_policies_with_one_optimum_agree_to_every_digit(public_data):
    rows = [r for r in parity.published_replays() if r.policy in ("fifo", "isolated")]
    found = parity.compare(rows, public_data / "gavel")
    assert [row.published for row in found if not row.same] == []
    # Without its quirks neither would: the draw, the strict order and the credit matter.
    assert "isolated" in SHUFFLED


def test_every_policy_on_two_clusters(public_data):
    wanted = ({"v100": 4, "p100": 4, "k80": 4}, {"v100": 8, "p100": 16, "k80": 24})
    rows = [
        row
        for row in parity.published_replays()
        if row.trace == "max_min_fairness" and row.gpus in wanted
    ]
    found = parity.compare(rows, public_data / "gavel")
    assert len(found) == 14
    for row in found:
        loose = 0.12 if row.published.policy == "fairness-agnostic" else 0.05
        assert abs(row.jct_off) <= loose, row.published
        assert row.why != "mechanism"
    text = parity.page(found)
    assert "14 of 14" in text
    assert text.count("\n| max_min_fairness |") == 14


def test_a_deviation_of_the_mechanism_would_be_called_one():
    row = parity.published_replays()[0]
    run = simulate(jobs([1], [360]), ONE, np.array([0]), equal)
    off = parity.Compared(row, run)
    assert not off.same
    assert off.why == "another optimum"
    assert parity.Compared(replace(row, exact_with_its_shares=0), run).why == "mechanism"
    worse = parity.Compared(replace(row, its_shares_off=0.04), run)
    assert worse.why == "its shares are up to 4.0% from the optimum"


def test_bad_input_is_named_with_file_and_line(public_data, tmp_path, capsys):
    table = str(public_data / "gavel" / "simulation_throughputs.json")
    trace = tmp_path / "bad.trace"
    job = "ResNet-18 (batch size 16)\tcmd\t.\t-n\t0\t100\t{gang}\t1\t-1\t{arrival}\n"
    call = ["gavel", "--trace", str(trace), "--table", table, "--gpus", "v100=2"]
    for text, line, rule in (
        (job.format(gang=1, arrival=0) + "\nnonsense\n", 3, "columns"),
        (job.format(gang=1, arrival=0) + job.format(gang=4, arrival=1), 2, "a gang of 4 fits no"),
        (job.format(gang=1, arrival="x"), 1, "arrival"),
    ):
        trace.write_text(text)
        assert main(call) == 2
        error = capsys.readouterr().err
        assert f"{trace}, line {line}" in error
        assert rule in error
    rows = tmp_path / "bad.csv"
    head = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    for row, rule in (("7,x,5,1,m,60,3\n", "whole number"), ("7,9,5,1,m,60,3\n", "asks for 9")):
        rows.write_text(head + row)
        assert main(["tiresias", "--trace", str(rows), "--gpus", "4"]) == 2
        error = capsys.readouterr().err
        assert f"{rows}, line 2" in error
        assert rule in error


def test_a_job_that_nobody_could_wait_for_is_refused():
    """10^12 steps at 50 per second are 2 * 10^10 s, 55 million rounds; 10^9 steps are few."""
    table = SimpleNamespace(
        alone={"v100": {("a", 1): 50.0}}, require_types=lambda _: None, require_key=lambda _: None
    )

    def row(steps):
        place = {"file": "x.trace", "line": 7}
        return SimpleNamespace(
            job_type="a",
            gang=1,
            steps=steps,
            weight=1.0,
            arrival_s=0.0,
            located=lambda error: error.located(**place),
        )

    assert gavel_jobs([row(10**9)], table, ["v100"]).steps.tolist() == [1e9]
    with pytest.raises(InputError, match=r"x\.trace, line 7, total_steps: .* at most 1e\+09 s"):
        gavel_jobs([row(10**9), row(10**12)], table, ["v100"])
