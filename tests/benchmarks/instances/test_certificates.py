"""Certificates of rounds by seed: the committed ones hold, and no smaller bound passes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instances.__main__ import main
from benchmarks.instances.certificates import (
    FOLDER,
    SEEDED,
    Seeded,
    complaints,
    read_certificate,
    seeded,
    tables_of,
)
from benchmarks.instances.library import default_folder
from benchmarks.instances.proving import proven, write_certificate
from formulations.check_bound import BoundError, check_bound
from morph_opt.core.domain import InputError

BOUNDS = default_folder() / FOLDER
SMALL = SEEDED[0]
CHECKED = [one for one in SEEDED if one.gpus <= 512]


def file_of(one: Seeded) -> Path:
    return BOUNDS / f"{one.name}.json"


def test_rounds_and_certificates_match_one_to_one() -> None:
    assert sorted(path.stem for path in BOUNDS.iterdir()) == sorted(one.name for one in SEEDED)
    for one in SEEDED:
        given = read_certificate(file_of(one))
        assert given.instance == one.name
        assert given.best <= given.bound
        assert seeded(one.name) == one
    assert max(one.gpus for one in SEEDED) == 65536


@pytest.mark.parametrize("one", CHECKED, ids=lambda one: one.name)
def test_committed_certificates_prove_their_bounds(one: Seeded) -> None:
    """From the tables alone, with nothing left out; a billionth less is refused."""
    given = read_certificate(file_of(one))
    assert list(complaints(one, given)) == []
    problem, level = tables_of(one)
    with pytest.raises(BoundError):
        check_bound(problem, level, given.prices, given.bound * (1 - 1e-9))


def test_a_certificate_is_made_anew_to_the_byte(tmp_path: Path) -> None:
    made = proven(SMALL, 20.0)
    write_certificate(tmp_path, made)
    again = read_certificate(tmp_path / FOLDER / f"{SMALL.name}.json")
    assert again.bound == pytest.approx(read_certificate(file_of(SMALL)).bound, rel=1e-9)
    write_certificate(tmp_path / "twice", again)
    first, second = (folder / FOLDER for folder in (tmp_path, tmp_path / "twice"))
    name = f"{SMALL.name}.json"
    assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_least_bound_known_is_listed_with_its_prover(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The prices leave a sixth open on the smallest round, which branch and bound closes."""
    given = read_certificate(file_of(SMALL))
    assert given.least < given.bound * 0.9
    assert given.gap <= 1e-9
    assert "optimal" in given.prover
    prices = replace(given, proven=None, proof="")
    assert (prices.least, prices.prover) == (given.bound, "prices")
    assert prices.gap > 0.1
    # A bound that is no smaller proves nothing more.
    assert replace(given, proven=2 * given.bound).prover == "prices"
    shutil.copy(default_folder() / "library.csv", tmp_path)
    write_certificate(tmp_path, given)
    assert read_certificate(tmp_path / FOLDER / f"{SMALL.name}.json").proof == given.proof
    assert main(["list", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"  {given.proof}")
    assert main(["check", SMALL.name, str(file_of(SMALL))]) == 0
    assert f"({given.proof})" in capsys.readouterr().out
    (said,) = complaints(SMALL, replace(given, proven=0.9 * given.best))
    assert "worth more than its bound" in said


def test_a_bound_without_its_prover_is_refused(tmp_path: Path) -> None:
    document = json.loads(file_of(SMALL).read_text())
    for name in ("proven", "proof"):
        path = tmp_path / f"{SMALL.name}.json"
        path.write_text(json.dumps({k: v for k, v in document.items() if k != name}))
        with pytest.raises(InputError, match="proof: is given together with proven"):
            read_certificate(path)


def test_faults_of_round_certificates_are_named() -> None:
    given = read_certificate(file_of(SMALL))
    assert list(complaints(SEEDED[1], given)) == [
        f"is for {SMALL.name!r}, not for {SEEDED[1].name!r}"
    ]
    low = replace(given, bound=0.9 * given.best)
    first, second = complaints(SMALL, low)
    assert "worth more than its bound" in first
    assert "the prices prove" in second
    one_class = replace(given.prices, gpu=given.prices.gpu[:1], side=given.prices.side[:1])
    assert list(complaints(SMALL, replace(given, prices=one_class))) == [
        "has prices of 1 node classes, not 3"
    ]


def test_prices_that_overflow_prove_nothing_and_say_so_in_a_line() -> None:
    """inf of an uplink without a limit, NaN of inf - inf; warnings are errors here."""
    given = read_certificate(file_of(SMALL))
    for name in ("gpu", "side"):
        huge = replace(given.prices, **{name: np.full_like(getattr(given.prices, name), 1e308)})
        (said,) = complaints(SMALL, replace(given, prices=huge))
        assert "the prices prove" in said


def test_the_list_shows_certificates_of_their_own_rounds_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bound of 0 has no share that is missing: its gap is infinite, not an error."""
    shutil.copy(default_folder() / "library.csv", tmp_path)
    write_certificate(tmp_path, replace(read_certificate(file_of(SMALL)), bound=0.0, best=-1.0))
    assert main(["list", "--folder", str(tmp_path)]) == 0
    shown = capsys.readouterr().out.splitlines()[-1].split()
    assert shown == [SMALL.name, "-1", "0", "inf", "0", "prices"]
    shutil.copy(file_of(SEEDED[1]), tmp_path / FOLDER / f"{SMALL.name}.json")
    assert main(["list", "--folder", str(tmp_path)]) == 2
    assert f"instance: must be {SMALL.name!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bound": "many"}, "bound: must be a number"),
        ({"prices": {"gpu": [1, -1], "side": [[0, 0, 0]] * 2, "uplink": 0}}, "gpu[1]"),
        ({"prices": {"gpu": [1, 1], "side": [[0, 0, 0]], "uplink": 0}}, "prices.side"),
        ({"prices": {"gpu": [1], "side": [[0, 0]], "uplink": 0}}, "must have 3 numbers"),
        ({"prices": {"gpu": [1], "side": [[0, 0, -1]], "uplink": 0}}, "side[0]"),
        ({"prices": {"gpu": [1], "side": [[0, 0, 0]], "uplink": -1}}, "prices.uplink"),
        ({"further": 1}, "unknown field"),
        ({"proven": "many"}, "proven: must be a number"),
        ({"proof": 3}, "proof: must be text"),
    ],
)
def test_a_damaged_certificate_is_refused(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    document = json.loads(file_of(SMALL).read_text()) | change
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as refused:
        read_certificate(path)
    assert said in str(refused.value)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SMALL.name, str(file_of(SMALL))]) == 0
    assert "no decision is worth more than" in capsys.readouterr().out
    bad = tmp_path / "bad.json"
    bad.write_text(file_of(SMALL).read_text().replace('"bound": 6', '"bound": 5'))
    assert main(["check", SMALL.name, str(bad)]) == 1
    assert "the prices prove" in capsys.readouterr().err
    assert main(["list"]) == 0
    assert SMALL.name in capsys.readouterr().out
    assert main(["make", "--only", SMALL.name, "--out", str(tmp_path)]) == 0
    assert (tmp_path / FOLDER / f"{SMALL.name}.json").is_file()
