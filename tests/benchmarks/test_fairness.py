"""The pages that the fairness benchmarks write, and the measures that they rest on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fairness import cli, own, ratios
from benchmarks.fairness.normalised import least_throughput, life_throughput
from morph_opt.core.domain import Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import POLICIES, PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from tests.policies.worlds import LINEAR, cluster, job


def row(name: str, trace: str, seed: str, largest: str) -> dict[str, str]:
    figures = dict.fromkeys(ratios.FIGURES, "1.0") | {"ftf_max": largest}
    return {"trace": trace, "seed": seed, "kind": "objective", "name": name} | figures


def test_the_page_ranks_by_the_largest_ratio() -> None:
    rows = [
        row("good", "base", "9", "2.0"),
        row("good", "base", "10", "3.0"),
        row("good", "morphling/base", "0", "4.0"),
        row("bad", "base", "9", "5.0"),
        row("bad", "base", "10", "2.5"),
    ]
    lines = ratios.page(rows).splitlines()
    good = next(line for line in lines if line.startswith("| `good`"))
    bad = next(line for line in lines if line.startswith("| `bad`"))
    assert lines.index(good) < lines.index(bad)
    assert good.startswith("| `good` | 4.00 | 2.50 | 3.00 | 1.3 |")
    assert bad.startswith("| `bad` |  | 3.75 | 5.00 | 1.5 |")


def test_every_named_objective_and_policy_exists() -> None:
    for _, _, kind, name in ratios.cases():
        options = PolicyOptions(objective=name if kind == "objective" else "auto")
        assert make_policy("milp" if kind == "objective" else name, LINEAR, options)
    assert "milp" in POLICIES
    developed = range(*(int(part) for part in ratios.DEVELOPED_ON.split(" to ")))
    assert not set(ratios.SEEDS) & {*developed, developed.stop}


def test_the_better_one_in_its_own_measure_is_bold() -> None:
    row = dict.fromkeys(own.FIELDS, "1.0") | {"trace": "t", "cluster": "c"}
    base = row | {"policy": "makespan", "makespan_h": "10.0"}
    text = own.page([base, base | {"makespan_h": "9.0"}])
    assert "| 10.0 | **9.0** |" in text
    base = row | {"policy": "fairness", "least_life_throughput": "0.5"}
    assert "| **0.5** | 0.4 |" in own.page([base, base | {"least_life_throughput": "0.4"}])


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["nonsense"]) == 2
    assert "unknown part 'nonsense'" in capsys.readouterr().err


def test_throughput_over_lives_and_hours_by_hand() -> None:
    # One GPU, 8 s per iteration, so p = 1/8. The first job runs from 60 to 7260, the second
    # from 7260 to 14460; both come at 0.
    jobs = [replace(job(n), iterations=900, submission_s=0.0) for n in ("a", "b")]
    policy = make_policy("fifo", LINEAR, PolicyOptions())
    config = ReplayConfig(interval_s=60.0, restart_s=0.0)
    where = cluster(1)
    history = replay(Trace.of("two", jobs), where, policy, LINEAR, config).history
    life = life_throughput(history, where, LINEAR)
    assert life == pytest.approx({"a": 7200 / 7260, "b": 7200 / 14460})
    # Hours 1 and 2: the second job has nothing. Hour 3: it alone, from 7260; hour 4: all of it.
    assert least_throughput(history, where, LINEAR) == pytest.approx([0, 0, 3540 / 3600, 1])
