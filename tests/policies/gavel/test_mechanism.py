"""Gavel's round mechanism on arrays: by hand, and against the published figures."""

import numpy as np
import pytest

from benchmarks.published.figures import main, run_gavel, run_tiresias
from benchmarks.published.simulators.gavel import RoundJobs, select, simulate
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.tables.gavel import read_throughputs
from morph_opt.inputs.traces.gavel import TABLE, known_files, read_rows
from morph_opt.inputs.traces.tiresias import TiresiasRow
from morph_opt.scheduling.policies.gavel.policy import Mechanism

BOTH = np.array([0, 1])
ONE_TYPE = np.array([0])


def test_priority_is_share_over_received_part():
    mechanism = Mechanism(2, 1)
    mechanism.reset(0.0, BOTH, np.array([[0.75], [0.25]]))
    # Both are credited half a round: parts 1/2, priorities 1.5 and 0.5.
    assert mechanism.priorities(BOTH).ravel().tolist() == [1.5, 0.5]
    mechanism.credit(0, 0, 360.0)
    # 540 of 720 s and 180 of 720 s: priorities 1 and 1; the deficits are equal, the share decides.
    assert mechanism.priorities(BOTH).ravel() == pytest.approx([1.0, 1.0])
    assert mechanism.order(BOTH, 0).tolist() == [0, 1]
    mechanism.credit(0, 0, 360.0)
    assert mechanism.order(BOTH, 0).tolist() == [1, 0]


def test_a_reset_turns_missed_time_into_a_deficit_that_breaks_ties():
    mechanism = Mechanism(2, 1)
    half = np.array([[0.5], [0.5]])
    mechanism.reset(0.0, BOTH, half)
    mechanism.credit(0, 0, 720.0)
    mechanism.reset(720.0, BOTH, half)
    assert mechanism.deficit.ravel().tolist() == [-360.0, 360.0]
    assert mechanism.order(BOTH, 0).tolist() == [1, 0]


def test_selection_skips_gangs_that_do_not_fit_and_types_without_speed():
    mechanism = Mechanism(3, 2)
    everyone = np.arange(3)
    mechanism.reset(0.0, everyone, np.array([[0.9, 0.0], [0.8, 0.1], [0.1, 0.7]]))
    chosen = select(
        mechanism,
        everyone,
        np.array([4, 2, 1]),
        np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]),
        np.array([3.0, 4.0]),
        np.array([0, 1]),
    )
    # Type 0: the gang of 4 does not fit, job 1 does, job 2 has no speed. Type 1: job 2 first,
    # then job 0 would need 4 of the 3 that are left.
    assert chosen.tolist() == [-1, 0, 1]
    strict = select(
        mechanism,
        everyone,
        np.array([2, 2, 1]),
        np.ones((3, 2)),
        np.array([2.0, 9.0]),
        np.array([0, 1]),
        skip_unwanted=True,
    )
    assert strict.tolist() == [0, 1, 1]


def test_two_equal_jobs_take_turns_and_nothing_is_lost():
    jobs = RoundJobs(
        np.ones((2, 1)),
        np.ones(2, dtype=np.int64),
        np.array([720.0, 720.0]),
        np.ones(2),
        np.zeros(2),
    )
    run = simulate(jobs, np.array([1.0]), ONE_TYPE, lambda m: np.full((m.active.size, 1), 0.5))
    assert sorted(run.end_s.tolist()) == [1080.0, 1440.0]
    assert run.makespan_s == 1440.0


def test_a_job_that_can_never_run_stops_the_simulation():
    jobs = RoundJobs(
        np.zeros((1, 1)), np.ones(1, dtype=np.int64), np.ones(1), np.ones(1), np.zeros(1)
    )
    with pytest.raises(ValueError, match="no active job can run"):
        simulate(jobs, np.array([1.0]), ONE_TYPE, lambda m: np.ones((m.active.size, 1)))


PUBLISHED = {"fairness": (18.38, 45.95), "makespan": (40.33, 44.94), "ftf": (20.91, 45.45)}
"""Average JCT and makespan of Gavel's simulator in hours: 4 + 4 + 4 GPUs, 96 jobs."""


@pytest.mark.parametrize("policy", PUBLISHED)
def test_figures_of_the_published_simulator_within_3_percent(public_data, policy):
    root = public_data / "gavel"
    run = run_gavel(
        read_rows(known_files(root)["max_min_fairness"]),
        read_throughputs(root / TABLE),
        {"v100": 4, "p100": 4, "k80": 4},
        policy,
    )
    jct_h, makespan_h = PUBLISHED[policy]
    assert run.jct_s.mean() / 3600 == pytest.approx(jct_h, rel=0.03)
    assert run.makespan_s / 3600 == pytest.approx(makespan_h, rel=0.03)


def test_the_command_line_repeats_both_simulators(tmp_path, capsys, public_data):
    root = public_data / "tiresias"
    call = ["tiresias", "--trace", str(root / "60_job.csv"), "--gpus", "16", "--times", "10"]
    assert main([*call, "--schedule", "dlas-gpu", "--artifact-quirks"]) == 0
    assert '"avg_jct_s": 6700.25' in capsys.readouterr().out
    assert main([*call, "--schedule", "lottery"]) == 2
    assert main([*call[:3], "--gpus", "4"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "lottery" in errors[0]
    assert "asks for 8 GPUs" in errors[1]
    table = str(public_data / "gavel" / TABLE)
    trace = str(known_files(public_data / "gavel")["debug"])
    call = ["gavel", "--trace", trace, "--table", table]
    assert main([*call, "--gpus", "v100=4", "--policy", "fifo"]) == 0
    assert main([*call, "--gpus", "v100=none"]) == 2
    assert main([*call, "--gpus", "h100=4"]) == 2
    assert "no type 'h100'" in capsys.readouterr().err


def test_gittins_needs_samples():
    rows = [TiresiasRow("1", "m", 1, 0, 10)]
    with pytest.raises(InputError, match="needs a Gittins index"):
        run_tiresias(rows, 4, "dlas-gpu-gittins")
