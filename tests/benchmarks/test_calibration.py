"""The guess against what comes: places by hand, calibrated and wrong models told apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.comparison import calibration
from morph_opt.scheduling.policies.sizes import SHAPES, SizeModel


def test_a_place_is_the_chance_of_no_more_work_given_what_was_done() -> None:
    """Exponential sizes of mean 100: after any work done, 1 - exp(-left / 100)."""
    spread = np.pi / np.sqrt(6.0)
    model = SizeModel(np.log(100.0) - np.euler_gamma, 0.0, spread, 0.0, SHAPES[0])
    done, left = np.asarray([0.0, 50.0, 1000.0]), np.asarray([30.0, 70.0, 200.0])
    found = calibration.place_of(model, np.zeros(3), done, done + left)
    assert found == pytest.approx(1.0 - np.exp(-left / 100.0))


def test_deciles_are_even_for_the_truth_and_not_for_half_of_it() -> None:
    draw = np.random.default_rng(1)
    asked = draw.choice([0.0, 1.0, 2.0], 4000)
    total = np.exp(5.0 + 0.8 * asked + draw.normal(0.0, 1.2, 4000))
    right = SizeModel(5.0, 0.8, 1.2, 0.0, SHAPES[1])
    short = SizeModel(4.3, 0.8, 1.2, 0.0, SHAPES[1])
    none = np.zeros(4000)
    even = calibration.shares(calibration.place_of(right, asked, none, total))
    assert np.abs(even - 0.1).max() < 5.0 * np.sqrt(0.09 / 4000)
    assert calibration.shares(calibration.place_of(short, asked, none, total))[-1] > 0.2


def test_a_replay_is_looked_at_when_jobs_come_and_as_they_run(tmp_path, monkeypatch) -> None:
    """Ten jobs of `naive`, each seen once and more; written twice alike."""
    monkeypatch.setattr(calibration, "FOLDER", tmp_path)
    monkeypatch.setattr(calibration, "PAGE", tmp_path / "page.md")
    call = ["--traces", "naive"]
    (tmp_path / "page.md").write_text("no marks")
    assert calibration.main(call) == 2
    (tmp_path / "page.md").write_text("<!-- generated:guess -->\n<!-- /generated:guess -->\n")
    assert calibration.main(call) == 0
    rows = (tmp_path / "guess.csv").read_text().splitlines()[1:]
    assert 10 < len(rows) <= 10 * len(calibration.LOOKS)
    assert all(0.0 <= float(row.split(",")[2]) <= 1.0 for row in rows)
    assert f"| `naive` | {len(rows)} |" in (tmp_path / "page.md").read_text()
    assert "naive" in (tmp_path / "guess.svg").read_text()
    assert calibration.main(["--traces", "nope"]) == 2
