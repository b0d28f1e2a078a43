"""The style sheet: what its colours promise, and who has a look of its own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from morph_opt.core.documents.style import DARK, INK, LIGHT, PALETTE, Look, key, looks
from morph_opt.scheduling.policies.catalog import OBJECTIVES
from morph_opt.scheduling.policies.registry import POLICIES

Floats = npt.NDArray[np.float64]
LIKENESS = 15.0
"""Distance in CIE 1976 L*a*b* below which two colours are taken for each other at a glance."""

# Machado, Oliveira and Fernandes (2009): what linear RGB is to eyes without one kind of cones.
EYES: dict[str, Floats] = {
    "all cones": np.eye(3),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> Floats:
    """Linear RGB of an sRGB colour."""
    plain = np.array([int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5)])
    return np.where(plain <= 0.04045, plain / 12.92, ((plain + 0.055) / 1.055) ** 2.4)


def contrast(one: str, two: str) -> float:
    """As WCAG 2 defines it."""
    lights = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, two))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def lab(colour: str, eyes: Floats) -> Floats:
    seen = np.clip(eyes @ linear(colour), 0.0, 1.0)
    x, y, z = np.cbrt(XYZ @ seen / (0.9505, 1.0, 1.089))
    return np.array([116.0 * y, 500.0 * (x - y), 200.0 * (y - z)])


def test_contrast_by_hand() -> None:
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colour", [*PALETTE, INK])
@pytest.mark.parametrize("ground", [LIGHT, DARK])
def test_every_colour_is_seen_on_both_grounds(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3.0


@pytest.mark.parametrize("eyes", EYES)
def test_any_two_colours_are_told_apart(eyes: str) -> None:
    for one, two in combinations(PALETTE, 2):
        distance = np.linalg.norm(lab(one, EYES[eyes]) - lab(two, EYES[eyes]))
        assert distance >= LIKENESS, (one, two)


def test_every_policy_and_objective_has_a_look_of_its_own() -> None:
    names = [name for name in dict.fromkeys((*OBJECTIVES, *POLICIES)) if name != "milp"]
    alone = [looks([name])[0] for name in names]
    assert len(set(alone)) == len(names)  # a name that is in no table would look like the first
    assert list(looks(names)) == alone  # beside each other as alone


def test_run_has_the_look_of_its_policy() -> None:
    assert key("milp", "jct") == "jct"
    assert key("srtf", None) == "srtf"
    assert key("milp", None) == "milp"


def test_unknown_and_repeated_names_get_free_colours() -> None:
    found = looks(["srtf", "mine", "srtf", "yours"])
    assert found[0] == looks(["srtf"])[0]
    assert len(set(found)) == 4
    many = looks([f"n{at}" for at in range(80)])
    assert len(set(many)) == 64  # all that there are; the rest is grey
    assert many[-1] == Look(PALETTE[-1])


def test_the_page_of_a_report_has_the_grounds_that_colours_are_seen_on() -> None:
    from importlib import resources

    css = resources.files("morph_opt.report").joinpath("assets", "page.css").read_text("utf-8")
    assert f"--back: {DARK.lower()}" in css
    assert "--back: #fff;" in css
