"""The report, on made-up tables."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.perf.protocol import protocol_a, protocol_b, protocol_c
from benchmarks.perf.public import Table
from benchmarks.perf.public_runs import Refused
from benchmarks.perf.report import MAIN, Outcomes, markdown, totals, write_report
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.analytic.prior import Population
from morph_opt.inputs.perf.analytic.zoo import builtin_population
from morph_opt.inputs.perf.fitting.runs import Run
from tests.perf.worlds import entry, pairs, true_runs


def made_up(model: str) -> Table:
    runs = true_runs(model, pairs(model, 8)[::6], noise=0.03, seed=7)
    last = runs[-1]
    runs[-1] = Run(last.shape, last.plan, 0.4 * last.iteration_s)
    return Table(
        entry(model).architecture,
        tuple(runs),
        (Refused(9, "842", "88", "plan pp8-tp4-dp2 needs 64 GPUs, the shape has 16"),),
        tuple(runs[1:6]),
    )


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    tables = {name: made_up(name) for name in ("bert", "gpt2")}
    others: dict[str, Population] = dict.fromkeys(tables, builtin_population())
    given = protocol_a(tables, others)
    # What judged them is the same for the report: three of the protocols are enough.
    return Outcomes(
        tables=tables,
        floor=given,
        given=given,
        chosen={4: given, MAIN: protocol_b(tables, others, MAIN)},
        reseeded={2: given},
        timed=given,
        alone=given,
        left_out=protocol_c(tables),
    )


def test_every_protocol_and_cell_is_shown(outcomes: Outcomes, tmp_path: Path) -> None:
    files = write_report(outcomes, tmp_path / "new")
    assert [file.name for file in files] == ["protocol.md", "cells.csv", "inconsistent.csv"]
    text = files[0].read_text()
    for part in ("(a) artifact's runs", "(b) n = 4", "(b) n = 8, seed 2", "(c) one shape left out"):
        assert f"| {part} |" in text
    assert "| bert | ZeRO-Offload |" in text
    assert "bert, line 9, 842 on 88: plan pp8-tp4-dp2 needs 64 GPUs" in text
    with files[1].open() as file:
        rows = list(csv.DictReader(file))
    assert {row["protocol"] for row in rows} >= {"(b) n = 4", "(c) one shape left out"}
    for row in rows:
        assert float(row["average"]) <= float(row["largest"])


def test_no_row_is_dropped(outcomes: Outcomes) -> None:
    sizes = {name: len(table.runs) for name, table in outcomes.tables.items()}
    assert totals(outcomes.left_out).rows == sum(sizes.values())
    assert totals(outcomes.chosen[MAIN]).rows == sum(sizes.values()) - MAIN * len(sizes)


def test_a_wrong_row_stays_in_the_figures_and_is_among_the_largest_errors(
    outcomes: Outcomes,
) -> None:
    wrong = outcomes.tables["bert"].runs[-1]
    text = markdown(outcomes)
    largest = text.split("## Largest errors")[1].split("## Rows")[0]
    assert f"| bert | {wrong.plan} | {wrong.shape} |" in largest


def test_the_same_outcomes_give_the_same_text(outcomes: Outcomes) -> None:
    assert markdown(outcomes) == markdown(outcomes)


def test_the_figure_shows_every_model(outcomes: Outcomes, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.perf.figures import protocol_figure

    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        protocol_figure(outcomes.chosen[MAIN], file)
    assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(InputError, match="cannot be written"):
        protocol_figure(outcomes.chosen[MAIN], tmp_path / "no" / "a.svg")


def test_the_report_says_regret_and_what_can_be_aimed_at(outcomes: Outcomes) -> None:
    """By hand from the choices: two models with 1, 2, ... 8 GPUs, each with a regret of its own."""
    regrets = [pick.regret for one in outcomes.chosen[MAIN] for pick in one.choices]
    mean = 100 * sum(regrets) / len(regrets)
    text = markdown(outcomes)
    assert f"mean regret {mean:.2f} %) from {MAIN} runs" in text
    line = next(line for line in text.splitlines() if line.startswith("| (b) n = 8 |"))
    assert line.endswith(f"| {mean:.2f} |")
    assert "at the ceiling of the data" in text


def test_the_mean_without_vit_leaves_only_vit_out(outcomes: Outcomes) -> None:
    bert, gpt2 = outcomes.chosen[MAIN]
    assert totals([bert, gpt2]).mean_steady == pytest.approx(totals([bert, gpt2]).mean)
    renamed = replace(gpt2, model="vit")
    assert totals([bert, renamed]).mean_steady == pytest.approx(totals([bert]).mean)
