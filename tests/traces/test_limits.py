"""Weights of time limits: those of a law from a log of its jobs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.limits import fitted_weights
from tests.hindcast.test_hindcast import HEAD, line


def test_weights_are_those_by_which_limits_were_drawn() -> None:
    """Short jobs may take every value, long ones the largest only: shares alone mislead."""
    weights = {600.0: 0.4, 3600.0: 0.3, 36_000.0: 0.2, 360_000.0: 0.1}
    random, run_s, limit_s = Random(7), [], []
    for _ in range(6000):
        run = random.lognormvariate(7.5, 2.0)
        enough = [value for value in weights if value > run]
        if enough:
            run_s.append(run)
            limit_s += random.choices(enough, [weights[value] for value in enough])
    found = fitted_weights(run_s, limit_s)
    assert found == pytest.approx(weights, abs=0.03)
    assert limit_s.count(600.0) / len(limit_s) < 0.3
    assert sum(fitted_weights(run_s, limit_s, most=2).values()) == pytest.approx(1.0)


def test_two_values_by_hand() -> None:
    """Of two jobs that could take both, one took each; a third could take the larger alone."""
    found = fitted_weights([10.0, 10.0, 90.0], [60.0, 120.0, 120.0])
    assert found == pytest.approx({60.0: 0.5, 120.0: 0.5})
    # A job that its limit ended tells nothing, and without others there are no weights.
    assert fitted_weights([60.0, 60.0], [60.0, 60.0]) == {}
    assert fitted_weights([], []) == {}


def test_describe_states_limits_where_a_log_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        (0, 0, 600, 4, 20),
        (60, 600, 600, 4, 20),
        (61, 1200, 600, 4, 100),
        (62, 2000, 1210, 4, 20),
    ]
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([HEAD, *(line(n, row) for n, row in enumerate(rows))]) + "\n")
    assert main(["describe", str(path)]) == 0
    said = capsys.readouterr().out
    assert (
        "Time limits: 4 of 4 jobs have one; they use 52.5% of it in the mean, "
        "25.0% are ended by it, 25.0% ask for the longest"
    ) in said
    assert [row.split() for row in said.splitlines()[-2:]] == [
        ["20", "3", "75.0", "66.7", "600", "66.7"],
        ["100", "1", "25.0", "33.3", "600", "10.0"],
    ]
    path.write_text(path.read_text().replace("|20|", "||").replace("|100|", "|0|"))
    assert main(["describe", str(path)]) == 0
    assert "Time limits" not in capsys.readouterr().out
