"""The grand comparison: pairs, intervals, sentences, and rows that are not run twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.comparison import cli as comparison
from benchmarks.comparison import contenders, guard
from benchmarks.comparison.findings import FINDINGS, TARGETS, findings, targets
from benchmarks.comparison.objectives import objectives_table, write_block
from benchmarks.comparison.page import page
from benchmarks.comparison.picture import over_the_default
from benchmarks.comparison.records import KNOWLEDGE, Record, interval, leads, ratios
from morph_opt.core.domain import InputError
from morph_opt.core.extend import extension
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES

NAN = float("nan")
ROW = Record(
    "d",
    "c",
    "base",
    0,
    "MILP `jct`",
    1,
    "yes",
    4,
    4,
    0,
    100.0,
    80.0,
    300.0,
    7200.0,
    NAN,
    NAN,
    1.0,
    0.5,
    0.75,
    2.0,
    9.0,
    80.0,
    3600.0,
    3.0,
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One contender of each kind, for what does the same with all: they are eighty scenarios."""
    kinds = ("MILP `auto`", "MILP `lookahead`", "`srtf`", "`pollux`", "`sia`")
    chosen = tuple(one for one in contenders.CONTENDERS if one.label.startswith(kinds))
    for module in (contenders, comparison):
        monkeypatch.setattr(module, "CONTENDERS", chosen)


def row(policy: str, seed: int, avg_jct_s: float, **other: object) -> Record:
    changes = {"policy": policy, "seed": seed, "avg_jct_s": avg_jct_s, **other}
    return replace(ROW, **changes)  # type: ignore[arg-type]


def test_ratios_are_paired_by_seed_and_need_every_job() -> None:
    rows = [
        row("a", 0, 100.0),
        row("a", 1, 50.0),
        row("b", 0, 150.0),
        row("b", 1, 100.0),
        row("b", 2, 7.0),
        row("a", 3, 10.0),
        row("b", 3, 20.0, completed=3),
        row("a", 4, 10.0, trace="x"),
        row("b", 4, 20.0),
    ]
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


def several(policy: str, *avg_jct_s: float, **other: object) -> list[Record]:
    return [row(policy, seed, value, **other) for seed, value in enumerate(avg_jct_s)]


def test_findings_state_their_figures_and_none_of_two_pairs() -> None:
    """Ratios 1.1, 1.1, 1.1 have no width; 1.1, 1.1, 0.9 hold 1; two twins say nothing."""
    words = "The same by the values"
    rows = several("MILP `jct`", 100.0, 200.0, 300.0) + several("`greedy:jct`", 110.0, 220.0)
    assert not any(line.startswith(words) for line in findings(rows, {}))
    rows.append(row("`greedy:jct`", 2, 330.0))
    one = "`greedy:jct` over MILP `jct`: `base` 1.100 "
    assert f"{one}[1.100 to 1.100; 3 pairs]" in told(findings(rows, {}), words)
    rows[-1] = row("`greedy:jct`", 2, 270.0)
    assert "3 pairs; order open]" in told(findings(rows, {}), words)
    original = [replace(one, trace="morphling/base") for one in (rows[0], rows[3])]
    assert "`morphling/base` 1.100 [one trace]" in told(findings(original, {}), words)


def test_the_best_schedule_of_all_is_between_bound_and_hindsight() -> None:
    """100 / 80 = 1.25 and 120 / 80 = 1.5; hindsight of seed 1 alone, 120 / 96 = 1.25."""
    rows = several("MILP `auto`", 100.0, 120.0)
    line = told(findings(rows, {("base", 1): 96.0}), "MILP `auto` is above")
    assert "at most 37.5 % (certified bound, mean of 2), at least 25.0 %" in line
    assert "searched for on 1 of 2" in line


def beaten(*ours_over_theirs: float, knows: str = "yes") -> list[Record]:
    """Rows of the default and of a rival, by their ratios."""
    ours = several(KNOWLEDGE[knows][0], *ours_over_theirs, knows=knows)
    return ours + several("rival", *(1.0 for _ in ours_over_theirs), knows=knows)


def test_the_guard_fails_where_a_policy_is_ahead_and_only_there() -> None:
    """By more than 1 %, in three pairs or more, with an interval above 1, knowing no more."""
    shown = [lead.policy for lead in guard.judged(beaten(1.02, 1.03, 1.025))]
    assert shown == ["rival"]
    assert not guard.judged(beaten(1.02, 1.03))  # two pairs
    assert not guard.judged(beaten(1.005, 1.006, 1.005, 1.006))  # less than 1 %
    assert not guard.judged(beaten(1.5, 0.9, 1.2))  # the interval holds 1
    assert not guard.judged(beaten(0.5, 0.6, 0.55))
    knowing = [
        replace(r, knows="yes") if r.policy == "rival" else r for r in beaten(2, 2, 2, knows="no")
    ]
    assert not guard.judged(knowing)  # the rival knows more
    ignorant = [replace(r, knows="no") if r.policy == "rival" else r for r in beaten(2, 2, 2)]
    assert len(guard.judged(ignorant)) == 1
    other_jobs = [replace(r, knows="limits") if r.policy == "rival" else r for r in beaten(2, 2, 2)]
    assert not leads(other_jobs)  # jobs end at their limits there
    kept = beaten(2, 2, 2, knows="limits")
    kept = [replace(r, knows="limits, no stops") if r.policy == "rival" else r for r in kept]
    assert len(guard.judged(kept)) == 1
    unfinished = [replace(r, completed=3) if r.policy == "rival" else r for r in beaten(2, 2, 2)]
    assert not leads(unfinished)


@pytest.mark.usefixtures("few")
def test_the_guard_runs_what_is_missing_and_its_status_is_the_judgement(
    tmp_path, monkeypatch, capsys
) -> None:
    """A rival that is 5 % ahead of a default of durations known; the date decides the seeds."""
    faster = {"MILP `auto`": 105.0, "`srtf`": 100.0}
    run = []

    def replayed(missing, jobs):
        for field, seed, who in missing:
            run.append((field.title, seed, who.label))
            key = who.key(contenders.scenario_of(field, seed, who))
            value = faster.get(who.label, 200.0) + 0.001 * (seed % 10)
            yield row(who.label, seed, value, trace=field.title, digest=key, knows=who.knows)

    monkeypatch.setattr(guard, "replayed", replayed)
    call = ["--date", "2026-11-22", "--traces", "naive", "--out", str(tmp_path)]
    assert guard.main(call) == 1
    assert "naive, durations known: auto has 1.050 [1.050 to 1.050" in capsys.readouterr().err
    assert {seed for _, seed, _ in run} == set(range(202611220, 202611225))
    assert not any("pollux`" in label or "published" in label for *_, label in run)
    assert "| `srtf` |" in (tmp_path / "never-beaten.md").read_text()
    count = len(run)
    assert guard.main(call) == 1
    assert len(run) == count
    faster["MILP `auto`"] = 99.0
    assert guard.main(["--date", "2026-11-23", *call[2:]]) == 0
    assert len(run) == 2 * count
    assert guard.main(["--date", "tomorrow", *call[2:]]) == 2
    assert guard.main(["--traces", "morphling/base"]) == 2


def test_findings_name_who_is_ahead_of_the_default_and_at_what_price_in_promises() -> None:
    line = findings(beaten(1.02, 1.03, 1.025), {})[-1]
    assert "on `base`, durations known, rival: 1.025 [" in line
    mt = [replace(r, guaranteed_late_jobs=8.0, trace="mt") for r in beaten(1.5, 0.9, 1.2)]
    line = findings(mt, {})[-1]
    assert "order open] (rival with 8 late promises against 8)" in line
    assert findings(beaten(1.02, 1.03), {})[-1].endswith("nowhere here.")


def test_the_picture_has_a_dot_with_an_interval_for_every_pair() -> None:
    """One colour per policy, whatever it knows; nothing of rows without the default."""
    rows = several("MILP `auto`", 100.0, 110.0, 120.0) + several("`srtf`", 200.0, 230.0, 240.0)
    noisy = {"knows": "sigma 0.7"}
    rows += several("MILP `auto`, sigma 0.7", 100.0, 90.0, 95.0, **noisy)
    rows += several("`srtf`, sigma 0.7", 90.0, 95.0, 99.0, **noisy)
    order = list(dict.fromkeys(r.policy for r in rows))
    picture = over_the_default(rows, order)
    assert picture == over_the_default(rows, order)
    assert picture.count("srtf") == 2
    assert picture.count("durations") == 2  # known, and wrong by sigma 0.7
    assert "unknown" not in picture


def test_there_are_ten_findings_at_most() -> None:
    assert len(FINDINGS) + 2 == 10


def test_targets_are_met_missed_or_not_measured() -> None:
    """The bound is to be reached, everything else is a limit; hindsight 1080 / 1000 - 1 = 8 %."""
    original = {"trace": "morphling/base", "bound_s": 800.0}
    rows = [row("MILP `auto`", 0, 1080.0, **original)]
    rows += [
        *several("MILP `auto`", 90.0, 110.0, trace="gavel-96"),
        *several("MILP `jct`", 100.0, trace="gavel-96"),
    ]
    lines = {
        tuple(cell.strip() for cell in line.split("|")[1:4]): line
        for line in targets(rows, {("morphling/base", 0): 1000.0}).splitlines()[2:]
    }
    assert len(lines) == len(TARGETS)
    ours = ("`morphling/base`", "MILP `auto`")
    assert lines[*ours, "average JCT s"].endswith("| <= 1,030 | 1,080 | 1 | **no** |")
    assert lines[*ours, "over hindsight %"].endswith("| <= 7.0 | 8.0 | 1 | **no** |")
    assert lines[*ours, "bound on average JCT s"].endswith("| >= 795 | 800 | 1 | yes |")
    over = lines["`gavel-96`", "MILP `auto`", "over MILP `jct`"]
    assert over.endswith("| <= 0.985 | 0.900 | 1 | yes |")
    base = lines["`base`", "MILP `auto`", "average JCT s"]
    assert base.endswith("| <= 980 | not measured | 0 |  |")


def test_a_page_lists_policies_by_average_and_says_what_they_may() -> None:
    """Over the bound of 80 s: 300 / 80 - 1 = 275 %; over hindsight, of seed 1 alone, 140 / 112."""
    rows = [row("slow", 0, 300.0, may_change_gpus=0), row("fast", 0, 100.0), row("fast", 2, 140.0)]
    # Of waits one row of the two knows the figures.
    waits = {"p95_queue_s": 900.0, "longest_wait_s": 4_000.0, "bounded_slowdown": 1.5}
    rows[2] = replace(rows[2], **waits)
    rows.append(row("fast", 0, 90.0, trace="morphling/base", code="other"))
    refused = row("never", 0, NAN, jobs=0, completed=0)
    text = page([rows[-1], refused, *rows[:-1]], ["slow", "fast"], {("base", 2): 112.0}, left=5)
    assert "5 of 10 replays" in text
    assert "Refused there: never." in text
    lines = [line for line in text.splitlines() if line.startswith(("| fast", "| slow"))]
    assert lines[0].startswith("| fast | yes | yes | 2 | 120 |")
    assert lines[0].endswith("| 50.0 | 25.0 | 0 | 900 |  | 4,000 | 1.5 |")
    assert lines[1].startswith("| slow | no | yes | 1 | 300 |")
    assert lines[1].endswith("| 275.0 |  | 0 |  |  |  |  |")
    assert "## `base`: twin, seeds 0, 2" in text
    # Originals stand behind the twins, whatever the order of the rows.
    assert text.index("twin, seeds 0, 2") < text.index("## `morphling/base`: original, once")
    assert "2 versions of the sources (3 of `c`, 1 of `other`)" in text


def test_three_objectives_are_compared_on_the_seeds_that_all_have(tmp_path) -> None:
    """100 and 300 have a mean of 200; seed 2 is of one alone. `mt` by weight for all."""
    rows = several("MILP `auto`", 100.0, 300.0, 900.0)
    rows += several("MILP `lookahead`", 110.0, 310.0) + several("MILP `jct`", 120.0, 320.0)
    rows += several("MILP `auto`", 50.0, trace="mt") + several("MILP `jct`", 60.0, trace="mt")
    weighted = "MILP `lookahead`, weighted promises"
    rows += several(weighted, 70.0, trace="mt")
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- generated:objectives -->\nold\n<!-- /generated:objectives -->\nb\n")
    write_block(file, "objectives", objectives_table(rows))
    once = file.read_text()
    assert "| `base` | 0, 1 | 200 s | 210 s | 220 s |" in once
    assert "`mt`" not in once
    assert "old" not in once
    rows += several("MILP `jct`, weighted promises", 80.0, trace="mt")
    write_block(file, "objectives", objectives_table(rows))
    assert "| `mt`, by weight | 0 | 50 s | 70 s | 80 s |" in file.read_text()
    assert file.read_text().startswith("a\n")
    assert file.read_text().endswith("-->\nb\n")
    file.write_text("no marks")
    with pytest.raises(InputError, match="no place"):
        write_block(file, "objectives", objectives_table(rows))


def test_contenders_are_policies_and_take_part_where_they_can() -> None:
    labels = [who.label for who in contenders.CONTENDERS]
    assert len(set(labels)) == len(labels)
    for who in contenders.CONTENDERS:
        if ":" in who.policy and who.policy not in POLICIES:
            assert extension("morph_opt.policies", who.policy) is not None
            continue
        spec = OBJECTIVES[who.objective] if who.policy == "milp" else POLICIES[who.policy]
        told = who.durations != "blind" and not spec.blind
        uses = spec.rest == "yes" or bool(spec.limits)
        assert who.knows_durations == (uses and told), who
    gavel = next(field for field in contenders.FIELDS if field.types)
    taking = {who.label for who in contenders.CONTENDERS if contenders.takes_part(who, gavel)}
    assert {"`sia`", "`gavel:fairness`"} <= taking
    assert not {"`pollux:counts`", "MILP `lookahead`, weighted promises"} & taking
    traces = {field.title for field in contenders.FIELDS}
    assert len(traces) == len(contenders.FIELDS)
    for pair in (pair for finding in FINDINGS for pair in finding.pairs):
        assert {pair.one, pair.other} <= set(labels)
        assert set(pair.traces) <= traces
    assert {target.policy for target in TARGETS} <= set(labels)
    assert {target.over for target in TARGETS} <= {"", *labels}
    assert {target.trace for target in TARGETS} <= traces


def test_pairs_are_whole_when_a_campaign_is_cut_short() -> None:
    """All core of seed 0 comes before seed 1; originals once, behind three seeds of the twins."""
    naive, original = contenders.Field("naive"), contenders.Field("morphling/naive")
    order = list(contenders.scenarios([original, naive], [0, 1, 2, 3]))
    core = [(s, f.title) for f, s, who, _ in order if contenders.is_core(who, f)]
    assert [seed for seed, name in core if name == "naive"] == sorted(
        seed for seed, name in core if name == "naive"
    )
    assert core.index((0, "morphling/naive")) > core.index((2, "naive"))
    assert {seed for field, seed, *_ in order if field is original} == {0}
    assert len(order) == len({(f.title, s, who.label) for f, s, who, _ in order})
    assert order[-1][2].expensive


@pytest.mark.usefixtures("few")
def test_rows_survive_the_file_and_are_not_run_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "comparison")
    (tmp_path / "hindsight").mkdir()
    found = "trace,seed,replays,bound_s,plain_s,hindsight_s\nnaive,1,6,70.0,90.0,80.0\n"
    (tmp_path / "hindsight" / "search.csv").write_text(found)
    assert comparison.hindsight() == {("naive", 1): 80.0}
    run = []

    def measured(field, seed, who):
        run.append((seed, who.label))
        key = who.key(contenders.scenario_of(field, seed, who))
        return row(who.label, seed, 100.0 + len(run), trace=field.name, digest=key, knows=who.knows)

    monkeypatch.setattr(comparison, "measured", measured)
    monkeypatch.setattr(comparison, "write_block", lambda *_: None)
    call = ["--traces", "naive", "--seeds", "0,1"]
    assert comparison.main(call) == 0
    first = len(run)
    kept = comparison.read_records(tmp_path / "comparison" / "results.csv")
    naive = contenders.Field("naive")
    assert (
        len(kept)
        == first
        == sum(
            contenders.takes_part(who, naive, seed)
            for who in contenders.CONTENDERS
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
