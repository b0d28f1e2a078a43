"""The grand comparison: pairs, intervals, sentences, and rows that are not run twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.comparison import cli as comparison
from benchmarks.comparison.page import Record, findings, interval, page, ratios
from morph_opt.policies.registry import OBJECTIVES, POLICIES

NAN = float("nan")
ROW = Record(
    "d", "base", 0, "MILP `jct`", 1, 1, 4, 4, 0, 100.0, 80.0, 300.0, 7200.0, NAN, NAN, 1.0, 0.5,
    0.75, 2.0, 80.0, 3.0,
)  # fmt: skip


def row(policy: str, seed: int, avg_jct_s: float, **other: object) -> Record:
    changes = {"policy": policy, "seed": seed, "avg_jct_s": avg_jct_s, **other}
    return replace(ROW, **changes)  # type: ignore[arg-type]


def test_ratios_are_paired_by_seed_and_need_every_job() -> None:
    rows = [
        row("a", 0, 100.0), row("a", 1, 50.0), row("b", 0, 150.0), row("b", 1, 100.0),
        row("b", 2, 7.0), row("a", 3, 10.0), row("b", 3, 20.0, completed=3),
    ]  # fmt: skip
    assert ratios(rows, "b", "a") == [1.5, 2.0]


def test_intervals_by_hand() -> None:
    # Logarithms 0 and ln 4: mean ln 2, deviation of the mean ln 2, t(0.975, 1) = 12.706.
    mean, low, high = interval([1.0, 4.0])
    assert mean == pytest.approx(2.0)
    assert low == pytest.approx(2.0 ** (1 - 12.7062), rel=1e-4)
    assert high == pytest.approx(2.0 ** (1 + 12.7062), rel=1e-4)
    assert interval([3.0])[0] == pytest.approx(3.0)


def test_findings_state_their_figures() -> None:
    rows = [row("MILP `jct`", 0, 100.0), row("`greedy:jct`", 0, 110.0)]
    found = findings(rows)
    assert found[0].startswith("On `base` MILP `jct` has the least average JCT, 100 s; next is")
    assert "+10.0 % average JCT: `greedy:jct` over MILP `jct` 1.100, 1 pair." in found[1]
    assert findings(rows[:1]) == []


def test_a_page_lists_policies_by_average_and_says_what_they_may() -> None:
    rows = [row("slow", 0, 300.0, may_change_gpus=0), row("fast", 0, 100.0), row("fast", 1, 140.0)]
    text = page(rows, ["slow", "fast"])
    lines = [line for line in text.splitlines() if line.startswith(("| fast", "| slow"))]
    assert lines[0].startswith("| fast | yes | yes | 2 | 120 |")
    assert lines[1].startswith("| slow | no | yes | 1 | 300 |")
    assert "## `base`, seeds 0 to 1" in text


def test_contenders_are_policies_and_take_part_where_they_can() -> None:
    for who in comparison.CONTENDERS:
        spec = OBJECTIVES[who.objective] if who.policy == "milp" else POLICIES[who.policy]
        told = who.durations == "true" and not spec.blind
        assert who.knows_durations == (spec.needs.rest == "yes" and told)
        if who.artifact_quirks:
            assert "artifact_quirks" in spec.options
    gavel = next(field for field in comparison.FIELDS if field.types)
    taking = {who.label for who in comparison.CONTENDERS if comparison.takes_part(who, gavel)}
    assert "`sia`" in taking
    assert "`pollux:counts`" not in taking


def test_rows_survive_the_file_and_are_not_run_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "FOLDER", tmp_path)
    run = []

    def measured(field, seed, who, scenario):
        run.append((seed, who.label))
        return row(who.label, seed, 100.0 + len(run), digest=scenario.digest[:16])

    monkeypatch.setattr(comparison, "measured", measured)
    call = ["--traces", "naive", "--seeds", "0,1", "--no-slow"]
    assert comparison.main(call) == 0
    first = len(run)
    kept = comparison.read_records(tmp_path / "results.csv")
    assert len(kept) == first == 2 * (len(comparison.CONTENDERS) - 2)
    assert comparison.main(call) == 0
    assert len(run) == first
    assert comparison.main(["--traces", "nope"]) == 2
