"""Two jobs on the same GPUs in the engine: instants by hand, properties of random runs, resume.

By hand: model m needs 2 s per iteration and 2.5 s next to n; n needs 1 s and 1.5 s next to m.
Rounds of 60 s, start-up 20 s.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from morph_opt.core.domain import Trace
from morph_opt.replay import cli
from morph_opt.replay.run import replay
from morph_opt.scheduling.strict.rules import AllocationError
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import (
    Completed,
    Event,
    NodeStatus,
    Preempted,
    RoundDecided,
    Shared,
    Started,
    event_from_line,
    event_to_line,
)
from morph_opt.simulation.metrics.bounds.demands import job_demands, packed_demands, paired_curve
from morph_opt.simulation.runs.early import MissedError
from morph_opt.simulation.runs.result import ReplayResult
from morph_opt.simulation.runs.slo import Slo
from tests.engine.packing_toys import Packer, PairedToys, pair
from tests.engine.toys import Scripted, ToySpeeds, cluster, hold, job
from tests.metrics.logs import read_history, rounds_over_capacity
from tests.replay.test_run_folder import assert_same, interrupted

SPEEDS = PairedToys({"m": 2.0, "n": 1.0}, counts=(1, 2))
CONFIG = ReplayConfig(interval_s=60.0, restart_s=20.0)
TRACE = Trace.of("two", [job("a", 0.0, 100), job("b", 70.0, 60, model="n")])
JOINED = pair("a", "b", {0: [0]})


def run(script: dict[int, Sequence[object]], trace: Trace = TRACE, **more: object) -> ReplayResult:
    policy = Scripted(script)  # type: ignore[arg-type]
    return replay(trace, cluster(1, 2), policy, SPEEDS, CONFIG, **more)  # type: ignore[arg-type]


def shares(events: Sequence[Event]) -> list[Shared]:
    return [event for event in events if isinstance(event, Shared)]


# --- by hand ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def joined() -> ReplayResult:
    """a alone from 60; b comes to it at 120 and is complete at 230; a goes on alone."""
    return run({0: [hold("a", {0: [0]})], 1: JOINED})


def test_pair_in_which_the_newcomer_completes_first(joined: ReplayResult) -> None:
    start = [(e.time_s, e.job, e.iteration_s) for e in joined.events if isinstance(e, Started)]
    assert start == [(60.0, "a", 2.0), (120.0, "b", 1.5)]
    assert shares(joined.events) == [
        # a: start-up until 80, then 40 s at 2 s
        Shared(120.0, "a", "b", 2.5, 20.0),
        Shared(120.0, "b", "a", 1.5, 0.0),
        # b: start-up until 140, then 60 iterations of 1.5 s; a: 110 s at 2.5 s
        Shared(230.0, "a", None, 2.0, 64.0),
    ]
    done = [(e.time_s, e.job) for e in joined.events if isinstance(e, Completed)]
    assert done == [(230.0, "b"), (302.0, "a")]  # 36 iterations of 2 s are left at 230
    gpus = [e.gpus for e in joined.events if isinstance(e, RoundDecided)]
    assert gpus == [1] * 5  # at 60, 120, 180, 240 and 300: one GPU, however many jobs


def test_gpu_seconds_of_a_pair_count_by_half(joined: ReplayResult) -> None:
    a, b = joined.history.jobs
    assert (a.gpu_s, b.gpu_s) == (60.0 + 110.0 / 2 + 72.0, 110.0 / 2)
    assert (a.shared_gpu_s, b.shared_gpu_s) == (55.0, 55.0)
    assert (a.held_s, b.held_s) == (242.0, 110.0)
    assert (a.restarts, a.changes, a.preemptions) == (0, 0, 0)
    assert (a.startup_gpu_s, b.startup_gpu_s) == (20.0, 10.0)
    assert [s.iterations for s in a.segments] == pytest.approx([100.0])
    assert joined.summary["gpu_s_held"] == 242.0
    assert joined.summary["gpu_utilization"] == pytest.approx(242.0 / (2 * 302.0))
    assert joined.summary["packed_jobs"] == 2
    assert joined.summary["packed_gpu_share"] == pytest.approx(110.0 / 242.0)
    assert joined.summary["rounds_over_capacity"] == 0


def test_a_stop_closes_the_gpu_seconds_of_a_pair_by_half() -> None:
    """a has a GPU alone from 60 and half of one from 120; stopped at 180 it has had 90 GPU-s."""
    alone = replace(JOINED[1], partner=None)
    again = [hold("a", {0: [0]})]
    policy = Scripted({0: again, 1: JOINED, 2: [alone], 3: again})
    replay(TRACE, cluster(1, 2), policy, SPEEDS, CONFIG)
    (a,) = policy.seen[3].jobs  # at 240, b is complete
    assert a.running is None
    assert (a.attained_gpu_s, a.executed_s) == (60.0 + 30.0, 120.0)


def test_the_snapshot_tells_partner_progress_and_service() -> None:
    policy = Scripted({0: [hold("a", {0: [0]})], 1: JOINED})
    replay(TRACE, cluster(1, 2), policy, SPEEDS, CONFIG)
    a, b = policy.seen[2].jobs  # at 180
    assert a.running is not None
    assert b.running is not None
    assert (a.running.partner, b.running.partner) == ("b", "a")
    assert a.iterations_done == 20.0 + 60.0 / 2.5
    assert b.iterations_done == pytest.approx(40.0 / 1.5)
    assert (a.attained_gpu_s, b.attained_gpu_s) == (60.0 + 30.0, 30.0)
    assert (a.executed_s, a.starts, a.restart_left_s) == (120.0, 1, 0.0)
    (alone,) = policy.seen[3].jobs  # at 240, b is gone since 230
    assert alone.running is not None
    assert alone.running.partner is None
    assert alone.iterations_done == 64.0 + 10.0 / 2.0


def test_both_start_together_and_part_without_a_restart() -> None:
    trace = replace(TRACE, jobs=(TRACE.jobs[0], job("b", 0.0, 100, model="n")))
    found = run({0: JOINED, 2: [hold("b", {0: [0]})]}, trace)
    # both: start-up until 80, 100 s in the pair until 180
    stop = next(e for e in found.events if isinstance(e, Preempted))
    assert (stop.time_s, stop.job, stop.iterations_done) == (180.0, "a", 40.0)
    assert shares(found.events)[2] == Shared(180.0, "b", None, 1.0, pytest.approx(100.0 / 1.5))
    finish = next(e for e in found.events if isinstance(e, Completed))
    assert finish == Completed(pytest.approx(180.0 + 100.0 - 100.0 / 1.5), "b")


def test_partners_that_end_at_the_same_instant_are_not_set_alone() -> None:
    """Two of model m, both 25 % slower than 2 s: start-up until 80, ten iterations of 2.5 s."""
    trace = Trace.of("twins", [job("a", 0.0, 10), job("b", 0.0, 10)])
    found = run({0: JOINED}, trace)
    ends = [e for e in found.events if isinstance(e, Completed)]
    assert ends == [Completed(105.0, "a"), Completed(105.0, "b")]
    assert [(e.time_s, e.job, e.partner) for e in shares(found.events)] == [
        (60.0, "a", "b"),
        (60.0, "b", "a"),
    ]


def test_a_partner_may_be_exchanged_during_start_up() -> None:
    config = replace(CONFIG, restart_s=100.0)
    trace = Trace.of("three", [job("a", 0.0, 10), job("b", 0.0, 10, model="n"), job("c", 0.0, 10)])
    policy = Scripted({0: JOINED, 1: pair("a", "c", {0: [0]}), 2: [hold("a", {0: [0]})]})
    found = replay(trace, cluster(1, 2), policy, SPEEDS, config)
    assert [(e.time_s, e.job, e.partner) for e in shares(found.events)][2:4] == [
        (120.0, "a", "c"),
        (120.0, "c", "a"),
    ]
    # a: start-up 60 to 160, next to c at 2.5 s until 180, then alone: 8 iterations and 2 s each
    assert Completed(160.0 + 20.0 + 2.0 * (10 - 8), "a") in found.events


def test_a_failed_node_stops_both_at_their_checkpoints() -> None:
    config = replace(CONFIG, checkpoint_s=50.0)
    policy = Scripted({0: [hold("a", {0: [0]})], 1: JOINED, 3: []})
    down = [NodeEvent(200.0, 0, NodeStatus.FAILED), NodeEvent(230.0, 0, NodeStatus.UP)]
    found = replay(
        TRACE, cluster(1, 2), policy, SPEEDS, replace(config, stall_rounds=3), node_events=down
    )
    stops = {e.job: e for e in found.events if isinstance(e, Preempted)}
    # a made 120 s of progress since 80, 100 s are saved: 40 s at 2 s, 60 s at 2.5 s
    assert stops["a"].iterations_done == 20.0 + 60.0 / 2.5
    assert stops["a"].iterations_lost == pytest.approx(20.0 / 2.5)
    assert stops["b"].iterations_done == pytest.approx(50.0 / 1.5)
    assert found.summary["rounds_over_capacity"] == 0


def test_jobs_csv_says_who_was_packed_only_where_somebody_was(tmp_path: Path) -> None:
    run({0: [hold("a", {0: [0]})], 1: JOINED}, out=tmp_path / "packed")
    alone = {0: [hold("a", {0: [0]})], 1: [hold("a", {0: [0]}), hold("b", {0: [1]})]}
    run(alone, out=tmp_path / "alone")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "packed" / "jobs.csv").read_text())))
    assert [(row["shared_s"], row["shared_gpu_s"]) for row in rows] == [("110.0", "55.0")] * 2
    assert "shared_s" not in (tmp_path / "alone" / "jobs.csv").read_text()
    summary = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert "packed_jobs" not in summary


# --- bounds -------------------------------------------------------------------------------------


def test_bounds_with_packing_are_reached_where_two_jobs_fill_one_gpu() -> None:
    """Without pairs one GPU takes 120 s for both; in a pair each is a quarter slower: 75 s."""
    trace = Trace.of("pair", [job("a", 0.0, 60), job("b", 0.0, 60)])
    speeds = PairedToys({"m": 1.0}, counts=(1,))
    config = replace(CONFIG, restart_s=0.0)
    policy = Scripted({0: pair("a", "b", {0: [0]})})
    found = replay(trace, cluster(1, 1), policy, speeds, config).summary
    assert found["makespan_s"] == found["makespan_lower_bound_s"] == 60.0 + 75.0
    assert found["avg_jct_s"] == 135.0
    assert found["avg_jct_lower_bound_s"] <= 135.0
    alone = job_demands(trace, cluster(1, 1), speeds, config).jobs
    assert sum(d.work_gpu_s for d in alone) == 120.0  # a bound that a pair would beat


def test_demands_with_packing_add_half_gangs_and_move_start_up_before_the_work() -> None:
    gpus, seconds = paired_curve(SPEEDS, "n", ["m", "n"], cluster(1, 2))
    assert (gpus.tolist(), seconds.tolist()) == ([1.0, 2.0], [1.5, 0.75])
    (a, b) = packed_demands(TRACE, cluster(1, 2), SPEEDS, CONFIG).jobs
    assert (a.release_s, b.release_s) == (60.0 + 20.0, 120.0 + 20.0)
    assert b.gpus.tolist() == [1.0, 2.0, 0.5, 1.0]
    assert b.duration_s.tolist() == [60.0, 30.0, 90.0, 45.0]
    nothing = paired_curve(ToySpeeds(), "m", ["m"], cluster(1, 2))
    assert nothing[0].size == 0


def test_a_run_that_may_pack_is_judged_by_the_bounds_with_packing() -> None:
    alone = {0: [hold("a", {0: [0]})], 1: [hold("a", {0: [0]}), hold("b", {0: [1]})]}
    without = run(alone).summary
    allowed = run(alone, packing=True).summary
    assert allowed["makespan_lower_bound_s"] <= without["makespan_lower_bound_s"]
    assert allowed["packed_jobs"] == 0


# --- random runs --------------------------------------------------------------------------------


RANDOM_SPEEDS = PairedToys(
    {"m": 6.0, "n": 4.0},
    counts=(1, 2),
    slower={("m", "m"): 1.3, ("m", "n"): 1.2, ("n", "m"): 1.6, ("n", "n"): 1.5},
)


def random_run(
    seed: int, restart_s: float = 20.0, slo: Slo | None = None
) -> tuple[Trace, ReplayResult]:
    trace = Trace.of(
        "random",
        [job(f"j{i}", 37.0 * i, 20 + 7 * (i % 9), model="mn"[i % 3 == 1]) for i in range(24)],
    )
    down = [NodeEvent(400.0, 1, NodeStatus.FAILED), NodeEvent(700.0, 1, NodeStatus.UP)]
    config = replace(CONFIG, restart_s=restart_s, checkpoint_s=30.0)
    return trace, replay(
        trace,
        cluster(2, 2),
        Packer(seed),
        RANDOM_SPEEDS,
        config,
        node_events=down,
        slo=slo,
    )


@pytest.mark.parametrize("seed", range(12))
def test_gpus_are_shared_by_named_partners_alone(seed: int) -> None:
    _, found = random_run(seed)
    held: dict[str, tuple[tuple[int, int], ...]] = {}
    partner: dict[str, str | None] = {}
    paired = 0
    for event in found.events:
        match event:
            case Started():
                held[event.job] = tuple(
                    (node, gpu) for node, gpus in event.placement.parts for gpu in gpus
                )
                partner[event.job] = None
            case Shared():
                partner[event.job] = event.partner
            case Preempted() | Completed():
                del held[event.job]
            case RoundDecided():
                owners: dict[tuple[int, int], list[str]] = {}
                for name, gpus in held.items():
                    for gpu in gpus:
                        owners.setdefault(gpu, []).append(name)
                for names in owners.values():
                    if len(names) > 1:
                        one, two = names  # never three
                        assert (partner[one], partner[two]) == (two, one)
                        assert held[one] == held[two]
                        paired += 1
                assert event.gpus == len(owners)
            case _:
                pass
    assert paired >= 5
    assert found.summary["rounds_over_capacity"] == 0


@pytest.mark.parametrize("text", ["avg jct_s", "p90 jct_s", "makespan_s", "avg waiting_s"])
def test_a_run_of_pairs_ends_where_its_target_is_missed(text: str) -> None:
    """What is certain on the way is never above what it comes to."""
    _, whole = random_run(1)
    final = Slo.parse(f"{text} <= 1").value(whole.summary, lambda: whole.jobs)
    for part, ends in ((0.6, True), (1.0, False)):
        slo = Slo.parse(f"{text} <= {part * final!r}")
        if ends:
            with pytest.raises(MissedError) as missed:
                random_run(1, slo=slo)
            assert missed.value.at_least <= final
        else:
            assert random_run(1, slo=slo)[1].events == whole.events


@pytest.mark.parametrize("seed", range(12))
def test_iterations_and_gpu_seconds_add_up(seed: int) -> None:
    trace, found = random_run(seed, restart_s=5.0 * (seed % 3))
    lost = {e.job: 0.0 for e in found.events if isinstance(e, Started)}
    for event in found.events:
        if isinstance(event, Preempted):
            lost[event.job] += event.iterations_lost
    for record in found.history.jobs:
        done = sum(s.iterations for s in record.segments) - lost[record.job.name]
        assert done == pytest.approx(record.job.iterations, abs=1e-6)
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for record in found.history.jobs:
        for segment in record.segments:
            for node, gpus in segment.placement.parts:
                for gpu in gpus:
                    spans.setdefault((node, gpu), []).append((segment.start_s, segment.end_s))
    covered = 0.0
    for own in spans.values():
        until = float("-inf")
        for begin, end in sorted(own):
            covered += max(0.0, end - max(begin, until))
            until = max(until, end)
    assert sum(record.gpu_s for record in found.history.jobs) == pytest.approx(covered)
    assert found.summary["avg_jct_lower_bound_s"] <= found.summary["avg_jct_s"] + 1e-6
    assert found.summary["makespan_lower_bound_s"] <= found.summary["makespan_s"] + 1e-6
    again = read_history([event_from_line(event_to_line(e)) for e in found.events], trace)
    assert again.jobs == found.history.jobs


def test_the_recount_from_the_log_finds_hands_that_do_not_name_each_other() -> None:
    trace, found = random_run(3)
    nodes = cluster(2, 2)

    def over(events: Sequence[Event]) -> int:
        return rounds_over_capacity(events, trace, nodes, RANDOM_SPEEDS)

    assert over(found.events) == 0
    for kept in (0, 1, 2):
        # one of the two, the other, or both keep silent about the partner
        silent = [e for e in found.events if not isinstance(e, Shared)]
        some = [
            e
            for i, e in enumerate(found.events)
            if not (isinstance(e, Shared) and e.partner is not None and i % 2 == kept)
        ]
        assert over(silent if kept == 2 else some) > 0


# --- what the engine refuses, and the command line ----------------------------------------------


def test_the_engine_refuses_pairs_that_the_truth_does_not_measure() -> None:
    policy = Scripted({0: [hold("a", {0: [0]})], 1: JOINED})
    with pytest.raises(AllocationError, match=r"partners: job a: m cannot share GPUs with n"):
        replay(TRACE, cluster(1, 2), policy, ToySpeeds({"m": 2.0, "n": 1.0}), CONFIG)


SHORT = ["--trace", "gavel-96", "--objective", "jct", "--packing", "--until-s", "14000"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "run"
    assert cli.main([*SHORT, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_the_command_line_packs(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["packed_jobs"] >= 4
    assert summary["rounds_over_capacity"] == summary["fallback_rounds"] == 0
    assert "packing = true" in (whole / "config.toml").read_text()


@pytest.mark.parametrize("share", [0.3, 0.77])
def test_a_packed_run_is_resumed_to_the_same_bytes(
    whole: Path, tmp_path: Path, share: float
) -> None:
    folder = tmp_path / "run"
    size = (whole / "events.jsonl").stat().st_size
    rows = len((whole / "rounds.csv").read_text().splitlines()) - 1
    interrupted(whole, folder, int(size * share), rows)
    assert cli.main(["--resume", str(folder), "--quiet"]) == 0
    assert_same(folder, whole)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--trace", "base"], "the speed table 'model' measures no pairs of jobs"),
        (["--belief", "model"], "measures no pairs of jobs"),
        (["--policy", "fifo"], "--packing: policy 'fifo' does not know it"),
        (["--policy", "gavel:fairness"], "--packing: policy 'gavel:fairness' does not know it"),
        (["--online-fit"], "cannot be combined with --online-fit"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    rule: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--quiet", "--packing", *([] if "--trace" in arguments else ["--trace", "gavel-96"])]
    assert cli.main([*given, *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert rule in lines[-1]
    assert len(lines) == 1
