"""A round as a MIP file: another solver's optimum of it is what the decision is worth."""

from __future__ import annotations

import json
import lzma
import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from pathlib import Path

import highspy
import numpy as np
import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError
from morph_opt.round import cli
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.explanation.conflict import RuleConflictError
from morph_opt.scheduling.explanation.report import rounded
from morph_opt.scheduling.policies.registry import PolicyOptions
from tests.round.random_snapshots import random_requests, random_snapshot

STATE = "docs/schema/example-state.json"


def solved(path: Path) -> float:
    """Optimum of a model file by HiGHS alone, in the unit that the file's first line names."""
    if path.suffix == ".xz":
        plain = path.with_suffix("")
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        path = plain
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    status = highspy.HighsModelStatus
    assert highs.getModelStatus() in (status.kOptimal, status.kModelEmpty)
    head = path.read_text("utf-8").partition("\n")[0]
    unit = re.search(r"a unit of the objective is (\S+) ", head)
    assert unit is not None
    return float(unit[1]) * float(highs.getInfo().objective_function_value)


@pytest.mark.parametrize("name", ["round.mps", "round.lp", "a.lp.mps", "round.mps.xz"])
@pytest.mark.parametrize("objective", ["throughput", "jct", "auto"])
def test_a_solver_finds_the_value_of_the_decision(
    name: str, objective: str, tmp_path: Path
) -> None:
    decided = mo.decide(STATE, objective=objective)
    decided.write_model(tmp_path / name)
    assert solved(tmp_path / name) == pytest.approx(decided.decision.report.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_written_models_of_random_rounds_have_the_same_optimum(seed: int, tmp_path: Path) -> None:
    draw = np.random.default_rng((27, seed))
    make = random_requests if seed % 2 else random_snapshot
    options = PolicyOptions(objective="throughput", gap=0.0)
    try:
        decided = decide_round(parse_snapshot(json.dumps(make(draw))), options)
    except RuleConflictError:
        return
    decided.write_model(tmp_path / "round.lp")
    value = decided.decision.report.objective
    assert solved(tmp_path / "round.lp") == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_model_is_written_and_stdout_has_the_decision_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "round.mps.gz"
    assert cli.main(["--state", STATE, "--write-model", str(path)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "optimal"
    assert err.startswith(f"{path}: 11 rows, 23 columns; a unit of the objective is -20.0 saved-ti")


@pytest.mark.parametrize("goal", [None, "tighter_packing", "fewer_moves"])
def test_the_file_names_the_last_of_ranked_goals(goal: str | None, tmp_path: Path) -> None:
    """With rules of lower rank its optimum is theirs: the value of the decision is a row."""
    snapshot = mo.read_snapshot(STATE)
    rules = tmp_path / "rules.toml"
    rules.write_text("" if goal is None else f"{goal} = true\n")
    own = read_rules(str(rules), snapshot.state.cluster)
    decided = mo.decide(replace(snapshot, rules=own), objective="jct")
    note = decided.write_model(tmp_path / "round.lp")
    head = (tmp_path / "round.lp").read_text().partition("\n")[0]
    assert note in head
    optimum, value = solved(tmp_path / "round.lp"), decided.decision.report.objective
    if goal is None:
        assert "ranks before it" not in head
        assert optimum == pytest.approx(value, rel=1e-6)
    else:
        assert f" {goal}, the last goal; rows keep jct, which ranks before it, at " in head
        assert float(head.split()[-1]) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (8.1, 8.1, 8.1),
        (0.1 + 0.2, 0.3, 0.300000001),  # what is above by noise is no bound
        (0.7 + 0.1, 0.8, 0.8),
        (624.8917123456, 624.891712, 624.891713),
        (-624.8917123456, -624.891713, -624.891712),
        (1e300 / 3, 3.33333333e299, 3.33333334e299),
        (123456789012.0, 123456789000.0, 123456790000.0),
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, 0.0),
    ],
)
def test_bounds_are_rounded_up_and_values_down(value: float, low: float, high: float) -> None:
    assert rounded(value, ROUND_FLOOR) == low
    assert rounded(value, ROUND_CEILING) == high >= value


def test_unknown_model_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path: must end in \.mps or \.lp, .*got 'round\.txt'"):
        mo.decide(STATE).write_model("round.txt")
    without_rules = replace(mo.read_snapshot(STATE), rules=None)
    with pytest.raises(InputError, match="policy: needs the policy milp and a round with jobs"):
        decide_round(without_rules, policy="fifo").write_model(tmp_path / "round.lp")
    assert not list(tmp_path.iterdir())
