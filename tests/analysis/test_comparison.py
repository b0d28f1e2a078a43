"""The grand comparison: pairs, intervals, sentences, and rows that are not run twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.comparison import cli as comparison
from benchmarks.comparison.findings import FINDINGS, TARGETS, findings, targets
from benchmarks.comparison.page import page
from benchmarks.comparison.records import Record, interval, ratios
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
        row("a", 4, 10.0, trace="x"), row("b", 4, 20.0),
    ]  # fmt: skip
    assert ratios(rows, "base", "b", "a") == [1.5, 2.0]


def test_intervals_by_hand() -> None:
    # Logarithms 0 and ln 4: mean ln 2, deviation of the mean ln 2, t(0.975, 1) = 12.706.
    mean, low, high = interval([1.0, 4.0])
    assert mean == pytest.approx(2.0)
    assert low == pytest.approx(2.0 ** (1 - 12.7062), rel=1e-4)
    assert high == pytest.approx(2.0 ** (1 + 12.7062), rel=1e-4)
    assert interval([3.0])[0] == pytest.approx(3.0)


def told(found: list[str], words: str) -> str:
    (line,) = [line for line in found if line.startswith(words)]
    return line


def test_findings_state_their_figures_and_no_interval_of_one_pair() -> None:
    """Ratios 1.1 and 1.1 have no width; 1.1 and 0.9 hold 1; a lone pair and an original none."""
    words = "The same by the values"
    rows = [row("MILP `jct`", 0, 100.0), row("`greedy:jct`", 0, 110.0)]
    one = "`greedy:jct` over MILP `jct`: `base` 1.100 "
    assert told(findings(rows, {}), words).endswith(f"{one}[1 pair].")
    rows += [row("MILP `jct`", 1, 200.0), row("`greedy:jct`", 1, 220.0)]
    assert f"{one}[1.100 to 1.100; 2 pairs]" in told(findings(rows, {}), words)
    rows[-1] = row("`greedy:jct`", 1, 180.0)
    assert "2 pairs; order open]" in told(findings(rows, {}), words)
    original = [replace(one, trace="morphling/base") for one in rows[:2]]
    assert "`morphling/base` 1.100 [one trace]" in told(findings(original, {}), words)
    assert not any(line.startswith(words) for line in findings(rows[:1], {}))


def test_the_best_schedule_of_all_is_between_bound_and_hindsight() -> None:
    """100 / 80 = 1.25 and 120 / 80 = 1.5; hindsight of seed 1 alone, 120 / 96 = 1.25."""
    rows = [row("MILP `lookahead`", 0, 100.0), row("MILP `lookahead`", 1, 120.0)]
    line = told(findings(rows, {("base", 1): 96.0}), "MILP `lookahead` is above")
    assert "at most 37.5 % (certified bound, mean of 2), at least 25.0 %" in line
    assert "searched for on 1 of 2" in line


def test_a_sentence_says_who_is_ahead_of_the_milp_that_knows_as_much() -> None:
    """Seed by seed: of `half` there is one pair, in which it is behind."""
    mt = {"trace": "mt", "guaranteed_late_jobs": 8.0}
    rows = [
        row("MILP `lookahead`", 0, 100.0), row("half", 1, 1.0), row("half", 0, 500.0),
        row("MILP `jct-blind`", 0, 400.0, knows="no"), row("`sia`", 0, 300.0, knows="no"),
        row("MILP `lookahead`", 0, 100.0, trace="x"), row("`srtf`", 0, 99.5, trace="x"),
        row("MILP `lookahead`", 0, 100.0, **mt), row("`srtf`", 0, 80.0, **mt),
        row("MILP `lookahead`, weighted promises", 0, 40.0, **mt),
    ]  # fmt: skip
    line = findings(rows, {})[-1]
    assert line.endswith(
        "on `base`, durations unknown, over MILP `jct-blind`: `sia` 0.750 [1 pair]; "
        "on `mt`, durations known, over MILP `lookahead`: `srtf` 0.800 [1 pair] (`srtf` with 8 "
        "late promises against 8; over MILP `lookahead`, weighted promises: 2.000 [1 pair])."
    )
    assert findings(rows[:3], {})[-1].endswith("nobody here, by 1% or more.")


def test_there_are_ten_findings_at_most() -> None:
    assert len(FINDINGS) + 2 == 10


def test_targets_are_met_missed_or_not_measured() -> None:
    """The bound is to be reached, everything else is a limit; hindsight 1080 / 1000 - 1 = 8 %."""
    original = {"trace": "morphling/base", "bound_s": 800.0}
    rows = [row("MILP `lookahead`", 0, 1080.0, **original)]
    lines = targets(rows, {("morphling/base", 0): 1000.0}).splitlines()[2:]
    assert len(lines) == len(TARGETS)
    assert lines[0].endswith("| average JCT s | <= 1,070 | 1,080 | 1 | **no** |")
    assert lines[1].endswith("| average JCT s | <= 990 | not measured | 0 |  |")
    assert lines[2].endswith("| over hindsight % | <= 7 | 8.0 | 1 | **no** |")
    assert lines[-1].endswith("| >= 795 | 800 | 1 | yes |")


def test_a_page_lists_policies_by_average_and_says_what_they_may() -> None:
    """Over the bound of 80 s: 300 / 80 - 1 = 275 %; over hindsight, of seed 1 alone, 140 / 112."""
    rows = [row("slow", 0, 300.0, may_change_gpus=0), row("fast", 0, 100.0), row("fast", 2, 140.0)]
    rows.append(row("fast", 0, 90.0, trace="morphling/base", code="other"))
    text = page([rows[-1], *rows[:-1]], ["slow", "fast"], {("base", 2): 112.0})
    lines = [line for line in text.splitlines() if line.startswith(("| fast", "| slow"))]
    assert lines[0].startswith("| fast | yes | yes | 2 | 120 |")
    assert lines[0].endswith("| 50.0 | 25.0 | 0 |")
    assert lines[1].startswith("| slow | no | yes | 1 | 300 |")
    assert lines[1].endswith("| 275.0 |  | 0 |")
    assert "## `base`: twin, seeds 0, 2" in text
    # Originals stand behind the twins, whatever the order of the rows.
    assert text.index("twin, seeds 0, 2") < text.index("## `morphling/base`: original, once")
    assert "2 versions of the sources (3 of `c`, 1 of `other`)" in text


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
    traces = {field.name for field in comparison.FIELDS}
    for pair in (pair for finding in FINDINGS for pair in finding.pairs):
        assert {pair.one, pair.other} <= set(labels)
        assert set(pair.traces) <= traces
    assert {target.policy for target in TARGETS} <= set(labels)
    assert {target.trace for target in TARGETS} <= traces


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
        return row(who.label, seed, 100.0 + len(run), trace=field.name, digest=who.key(scenario))

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
    # Of several of one policy on the same jobs stays the one whose scenario is that of today.
    # One that goes by guesses of another kind is dropped, and rows of another file are taken.
    old = [replace(kept[0], digest="0" * 16, avg_jct_s=1.0)]
    old.append(row("`srtf`, blind", 7, 1.0, digest="1" * 16))
    comparison.write_records([*kept[:3], *old])
    assert len(comparison.read_records(tmp_path / "comparison" / "results.csv")) == 3
    elsewhere = tmp_path / "elsewhere.csv"
    (tmp_path / "comparison" / "results.csv").rename(elsewhere)
    comparison.write_records(kept[2:])
    assert comparison.main([*call, "--merge", str(elsewhere)]) == 0
    assert comparison.main([*call, "--merge", str(tmp_path / "none.csv")]) == 2
    again = comparison.read_records(tmp_path / "comparison" / "results.csv")
    assert [record.digest for record in again] == [record.digest for record in kept]
    assert comparison.main(["--traces", "nope"]) == 2
    assert comparison.main([*call, "--only", "MILP lookahead, sigma 0.7", "--only", "nope"]) == 2
    (tmp_path / "comparison" / "results.csv").unlink()
    assert comparison.main([*call, "--only", "MILP lookahead, sigma 0.7", "--only", "srtf"]) == 0
    assert {who for _, who in run[first:]} == {"MILP `lookahead`, sigma 0.7", "`srtf`"}
