"""Every row family has a round that it forbids something in, and a golden LP text."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest

from formulations.linear_model import ModelBuilder
from morph_opt.scheduling.solvers.outcome import Status
from tests.formulations.families import (
    PAIRS,
    emitted,
    everything_built,
    expected_in,
    word_of,
)
from tests.formulations.golden_lp import FOLDER, text_of
from tests.formulations.worlds.pairs import families
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round
from tests.formulations.worlds.solving import solve_model


@pytest.mark.parametrize("family", PAIRS)
def test_each_family_forbids_exactly_its_violations(family: str) -> None:
    passes, forbids = PAIRS[family].passes(), PAIRS[family].forbids()
    word = word_of(family)
    assert word in families(passes.built.model)
    assert solve_model(passes.model()).status is Status.OPTIMAL
    assert solve_model(forbids.model()).status is Status.INFEASIBLE
    assert solve_model(forbids.model(without=word)).status is Status.OPTIMAL


def test_every_family_that_the_source_can_write_has_a_pair_and_a_golden() -> None:
    assert emitted() == {word_of(family) for family in PAIRS}
    assert {path.stem for path in FOLDER.glob("*.lp")} == set(PAIRS)


def test_every_term_that_a_family_can_have_stands_in_a_golden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row is a sum of terms, and a term that no golden has could be lost unseen.

    Terms are told apart by the call that writes them and their position in it.
    """
    filled: dict[tuple[str, str, int], bool] = {}
    add_rows = ModelBuilder.add_rows

    def noting(self: ModelBuilder, family: str, *args: Any) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        where = Path(frame.f_back.f_code.co_filename).stem
        for position, (row, _, _) in enumerate(args[-1]):
            key = (where, family, position % TERMS.get(family, len(args[-1])))
            filled[key] = filled.get(key, False) or bool(row.size)
        return add_rows(self, family, *args)

    monkeypatch.setattr(ModelBuilder, "add_rows", noting)
    for family in PAIRS:
        PAIRS[family].forbids()
    assert [term for term, seen in filled.items() if not seen] == []
    assert {family for _, family, _ in filled} >= {"side", "uplink", "node_free", "capacity"}


TERMS = {"side": 2}
"""Terms of families that write them once per row."""


def test_random_rounds_write_every_family_and_no_other() -> None:
    found: dict[str, set[str]] = {"node_pattern": set(), "node_assignment": set()}
    for seed in range(60):
        draw = np.random.default_rng((31, seed))
        problem = random_round(draw, replace(EVERYTHING, guaranteed=0.5, rules=0))
        for formulation, words in everything_built(problem, random_level(draw, problem)).items():
            found[formulation] |= words
    assert found == {formulation: expected_in(formulation) for formulation in found}


@pytest.mark.parametrize("family", PAIRS)
def test_golden_lp(family: str) -> None:
    golden = (FOLDER / f"{family}.lp").read_text("utf-8")
    assert text_of(family) == golden, "python -m tests.formulations.golden_lp, then read the diff"
    assert f" {word_of(family)}(" in golden


@pytest.mark.parametrize("family", PAIRS)
def test_a_golden_is_an_lp_file_that_a_solver_reads_as_the_same_model(family: str) -> None:
    model = PAIRS[family].forbids().built.model
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(FOLDER / f"{family}.lp")) == highspy.HighsStatus.kOk
    assert (highs.getNumCol(), highs.getNumRow()) == (model.columns, model.rows)
    highs.run()
    ours = solve_model(model)
    if ours.usable:
        assert highs.getInfo().objective_function_value == pytest.approx(ours.objective, rel=1e-6)
    else:
        assert highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible
