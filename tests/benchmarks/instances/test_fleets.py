"""Fleets by seed: what is committed is what is built, and certificates are taken at no word."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.instances.__main__ import main
from benchmarks.instances.fleets import (
    FLEETS,
    FOLDER,
    Fleet,
    fleet_complaints,
    fleet_named,
    read_fleet_certificate,
    solution_complaints,
)
from benchmarks.instances.library import default_folder, load
from formulations.fleet import build
from formulations.mps import to_mps
from morph_opt.core.domain import InputError

OWN = default_folder() / FOLDER
TINY = FLEETS[0]
MIXED = next(one for one in FLEETS if len(one.types) == 3)


def test_every_file_belongs_to_a_fleet() -> None:
    named = {f"{one.name}{end}" for one in FLEETS for end in (".mps.xz", ".sol", ".json")}
    assert {path.name for path in OWN.iterdir()} == named
    assert len({one.name for one in FLEETS}) == len(FLEETS)
    assert sum(path.stat().st_size for path in OWN.iterdir()) < 2**19


@pytest.mark.parametrize("one", FLEETS, ids=lambda one: one.name)
def test_committed_fleets_match_their_seeds_and_have_no_gap(one: Fleet) -> None:
    """Model, solution and certificate are of the problem that the seeds give, without a gap."""
    assert to_mps(load(OWN, one.name)) == to_mps(build(one.problem()))
    found = read_fleet_certificate(OWN / f"{one.name}.json")
    assert list(fleet_complaints(one, found)) == []
    assert found.gap == 0.0
    cost, wrong = solution_complaints(one, OWN / f"{one.name}.sol")
    assert wrong == []
    assert cost == pytest.approx(found.best)


def test_faulty_certificates_are_refused_with_the_fault() -> None:
    good = read_fleet_certificate(OWN / f"{MIXED.name}.json")

    def said(**changes: object) -> list[str]:
        return list(fleet_complaints(MIXED, replace(good, **changes)))  # type: ignore[arg-type]

    assert said(instance=TINY.name) == [f"is for {TINY.name!r}, not for {MIXED.name!r}"]
    assert said(nodes=(1,)) == ["has no number of nodes for each type that may be had"]
    assert said(nodes=(99, 0, 0)) == ["has no number of nodes for each type that may be had"]
    assert said(best=good.best - 1.0) == ["its fleet costs 50, not 49"]
    assert said(bound=good.bound + 1.0)[0].startswith("proves 50 only: its prices let [")
    for k in range(len(good.prices)):  # each cut is needed
        fewer = tuple(row for j, row in enumerate(good.prices) if j != k)
        assert said(prices=fewer)[0].startswith("proves ")
    assert said(prices=(good.prices[0][:-1],))[0].startswith("a cut has ")
    assert said(nodes=(0, 0, 0), best=0.0)[-1] == "its own fleet is refused by its prices"


def test_a_solution_is_checked_by_rows_and_claim(tmp_path: Path) -> None:
    lines = (OWN / f"{TINY.name}.sol").read_text().splitlines()
    nodes = next(at for at, line in enumerate(lines) if line.startswith("n["))
    path = tmp_path / "x.sol"
    path.write_text("\n".join([*lines[:nodes], *lines[nodes + 1 :]]))
    assert solution_complaints(TINY, path)[1][0].startswith("violates the row capacity[0,0,")
    path.write_text("\n".join(lines).replace("=obj= 16", "=obj= 15"))
    assert solution_complaints(TINY, path)[1] == ["claims a cost of 15.0, it is 16.0"]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, there = tmp_path / FOLDER, f"{TINY.name}."
    assert main(["make", "--only", TINY.name, "--out", str(tmp_path)]) == 0
    for path in OWN.glob(f"{there}*"):
        assert (made / path.name).read_bytes() == path.read_bytes()
    assert main(["list"]) == 0
    assert [TINY.name, "1", "16", "16", "0.0e+00"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]
    for end, said in (("json", "no fleet that serves costs less than 16"), ("sol", "a cost of 16")):
        assert main(["check", TINY.name, str(OWN / f"{TINY.name}.{end}")]) == 0
        assert said in capsys.readouterr().out
    assert main(["check", TINY.name, str(OWN / f"{MIXED.name}.json")]) == 1
    assert "is for" in capsys.readouterr().err
    assert main(["solve", TINY.name, "--start", "--solver", "scip-ortools"]) == 0
    assert "best known 16, bound 16" in capsys.readouterr().out
    assert main(["check", TINY.name, "x.sol", "--folder", str(tmp_path)]) == 2
    assert "made anew" in capsys.readouterr().err
    assert fleet_named("fleet-of-nobody") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": [1.5]}, "nodes[0]: must be a whole number"),
        ({"nodes": [-1]}, "nodes[0]: must be a whole number"),
        ({"nodes": [10**30]}, "nodes[0]: must be at most"),
        ({"best": 0}, "best: must be above 0"),
        ({"prices": [[1, "a"]]}, "prices[0]"),
        ({"prices": [3]}, "prices[0]"),
        ({"bound": "much"}, "bound: must be a number"),
        ({"further": 1}, "unknown field"),
    ],
)
def test_a_damaged_certificate_is_refused(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(json.loads((OWN / f"{TINY.name}.json").read_text()) | change))
    with pytest.raises(InputError) as refused:
        read_fleet_certificate(path)
    assert said in str(refused.value)
