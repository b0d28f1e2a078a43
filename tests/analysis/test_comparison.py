"""The grand comparison: pairs, intervals, sentences, and rows that are not run twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.comparison import cli as comparison
from benchmarks.comparison.page import FINDINGS, Record, beaten, findings, interval, page, ratios
from morph_opt.policies.registry import OBJECTIVES, POLICIES

NAN = float("nan")
ROW = Record(
    "d", "c", "base", 0, "MILP `jct`", 1, "yes", 4, 4, 0, 100.0, 80.0, 300.0, 7200.0, NAN, NAN, 1.0,
    0.5, 0.75, 2.0, 9.0, 80.0, 3600.0, 3.0,
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
    (found,) = findings(rows)
    assert "`jct`: +10.0 % average JCT (`greedy:jct` over MILP `jct` on `base`: 1.100;" in found
    assert found.endswith("1 pair).")
    assert findings(rows[:1]) == []


def test_a_sentence_says_where_somebody_is_ahead_of_every_milp_that_knows_as_much() -> None:
    rows = [
        row("MILP `jct`", 0, 100.0), row("MILP `throughput`", 0, 400.0, knows="no"),
        row("`srtf`", 0, 90.0, trace="x"), row("MILP `jct`", 0, 95.0, trace="x"),
        row("`sia`", 0, 300.0, knows="no"), row("half", 1, 1.0), row("half", 0, 500.0),
    ]  # fmt: skip
    assert beaten(rows) == [
        "On `base` `sia` is ahead of every MILP without durations: 300 s against 400 s of MILP "
        "`throughput`.",
        "On `x` `srtf` is ahead of every MILP that knows durations: 90 s against 95 s of MILP "
        "`jct`.",
    ]


def test_a_page_lists_policies_by_average_and_says_what_they_may() -> None:
    """Over the bound of 80 s: 300 / 80 - 1 = 275 %; over hindsight, of seed 1 alone, 140 / 112."""
    rows = [row("slow", 0, 300.0, may_change_gpus=0), row("fast", 0, 100.0), row("fast", 1, 140.0)]
    text = page(rows, ["slow", "fast"], {("base", 1): 112.0})
    lines = [line for line in text.splitlines() if line.startswith(("| fast", "| slow"))]
    assert lines[0].startswith("| fast | yes | yes | 2 | 120 |")
    assert lines[0].endswith("| 50.0 | 25.0 | 0 |")
    assert lines[1].startswith("| slow | no | yes | 1 | 300 |")
    assert lines[1].endswith("| 275.0 |  | 0 |")
    assert "## `base`, seeds 0 to 1" in text


def test_contenders_are_policies_and_take_part_where_they_can() -> None:
    labels = [who.label for who in comparison.CONTENDERS]
    assert len(set(labels)) == len(labels)
    for who in comparison.CONTENDERS:
        spec = OBJECTIVES[who.objective] if who.policy == "milp" else POLICIES[who.policy]
        told = who.durations != "blind" and not spec.blind
        assert who.knows_durations == (spec.needs.rest == "yes" and told), who
        if who.artifact_quirks:
            assert "artifact_quirks" in spec.options
    gavel = next(field for field in comparison.FIELDS if field.types)
    taking = {who.label for who in comparison.CONTENDERS if comparison.takes_part(who, gavel)}
    assert {"`sia`", "`gavel:fairness`"} <= taking
    assert not {"`pollux:counts`", "MILP `lookahead`, weighted promises"} & taking
    for finding in FINDINGS:
        assert {finding.one, finding.other} <= set(labels)


def test_pairs_are_whole_when_a_campaign_is_cut_short() -> None:
    """All of seed 0 comes before seed 1, an original once, the expensive on fewer twins."""
    order = [(seed, field.name) for field, seed, *_ in comparison.scenarios(
        [comparison.Field("naive"), comparison.Field("morphling/naive")], [0, 3])]  # fmt: skip
    assert [seed for seed, _ in order] == sorted(seed for seed, _ in order)
    originals = [seed for seed, name in order if name == "morphling/naive"]
    assert set(originals) == {0}
    twins = [who for who in comparison.CONTENDERS if who.twins <= 3]
    assert order.count((0, "naive")) - order.count((3, "naive")) == len(twins)


def test_rows_survive_the_file_and_are_not_run_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "comparison")
    (tmp_path / "hindsight").mkdir()
    found = "trace,seed,replays,bound_s,plain_s,hindsight_s\nnaive,1,6,70.0,90.0,80.0\n"
    (tmp_path / "hindsight" / "search.csv").write_text(found)
    assert comparison.hindsight() == {("naive", 1): 80.0}
    run = []

    def measured(field, seed, who, scenario):
        run.append((seed, who.label))
        return row(who.label, seed, 100.0 + len(run), digest=scenario.digest[:16])

    monkeypatch.setattr(comparison, "measured", measured)
    call = ["--traces", "naive", "--seeds", "0,1"]
    assert comparison.main(call) == 0
    first = len(run)
    kept = comparison.read_records(tmp_path / "comparison" / "results.csv")
    naive = comparison.Field("naive")
    assert (
        len(kept)
        == first
        == sum(
            comparison.takes_part(who, naive, seed)
            for who in comparison.CONTENDERS
            for seed in (0, 1)
        )
    )
    assert comparison.main(call) == 0
    assert len(run) == first
    comparison.write_records([*kept, kept[0]])
    again = comparison.read_records(tmp_path / "comparison" / "results.csv")
    assert [record.digest for record in again] == [record.digest for record in kept]
    assert comparison.main(["--traces", "nope"]) == 2
    assert comparison.main([*call, "--only", "MILP lookahead, sigma 0.7", "--only", "nope"]) == 2
    (tmp_path / "comparison" / "results.csv").unlink()
    assert comparison.main([*call, "--only", "MILP lookahead, sigma 0.7", "--only", "srtf"]) == 0
    assert {who for _, who in run[first:]} == {"MILP `lookahead`, sigma 0.7", "`srtf`"}
