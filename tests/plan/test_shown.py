"""The table that readers see: no raw shares, no internal words, units where there are some."""

from __future__ import annotations

import math

from morph_opt.plan.answer import readable
from morph_opt.plan.search import HEADER, Trial


def test_evidence_in_words() -> None:
    rows = [
        [3, "explore", 2, 0, 0.0, 0.68, "fail", "bound floor:1 impossible:1"] + 3 * [math.nan],
        [7, "confirm 2", 6, 6, 0.683772, 1.0, "pass", "replay:6", 1283.5, 216.3, 2350.8],
    ]
    shown = readable(HEADER, rows, "p90 queued_s <= 900").to_text().splitlines()
    assert shown[0].split("  ")[-1] == "mean (s)"
    assert shown[1].rstrip().endswith("1 by the bound floor, 1 with a job that cannot run there")
    assert "0 of 2" in shown[1]
    assert "68 % to 100 %" in shown[2]
    assert "1,284 (216.3 to 2,351)" in shown[2]
    assert "nan" not in "".join(shown)


def test_an_interval_of_a_difference_is_no_share() -> None:
    shown = readable(("of", "difference", "lower", "upper"), [("jct_s", 392.7, 370.86, 413.4)])
    assert list(shown.header) == ["of", "difference", "interval"]
    assert shown.rows[0][-1] == "370.9 to 413.4"


def test_other_tables_keep_their_cells() -> None:
    shown = readable(("job", "q10_s", "decided_by"), [("a", 12.0, "replay")])
    assert shown.to_text().splitlines()[1].split() == ["a", "12", "replay"]


def test_no_mean_is_below_zero() -> None:
    from morph_opt.plan.evaluate import Verdict

    verdicts = [Verdict(True, "replay", value) for value in (0.0, 0.0, 3000.0)]
    row = dict(zip(HEADER, Trial(8, "explore", verdicts, True, 3).row(0.95), strict=True))
    assert row["mean"] == 1000.0
    assert row["mean_lower"] == 0.0
