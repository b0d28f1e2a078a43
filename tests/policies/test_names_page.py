"""docs/policies.md is what the specs say; every spec is complete."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks import policies_page
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies import cli as listing
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.options import MILP_OPTIONS, OPTIONS, PolicyOptions
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES, make_objective, make_policy
from tests.policies.worlds import LINEAR

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["objectives", "baselines", "times", "options"])
def test_tables_of_the_page_are_generated(name: str) -> None:
    """Mend a difference with what `python -m benchmarks.policies_page` prints."""
    page = (DOCS / "policies.md").read_text("utf-8")
    found = re.search(
        rf"<!-- generated:{name} -->\n(.*)\n<!-- /generated:{name} -->", page, re.DOTALL
    )
    assert found is not None
    assert found[1] == getattr(policies_page, f"{name}_table")()


@pytest.mark.parametrize("spec", [*POLICIES.values(), *OBJECTIVES.values()], ids=lambda s: s.name)
def test_policies_do_what_their_spec_states(spec) -> None:
    assert not spec.page or (DOCS / spec.page).is_file()
    assert set(spec.options) <= set(OPTIONS)
    if spec.name == "milp":
        return
    make = make_objective if OBJECTIVES.get(spec.name) is spec else make_policy
    made = make(spec.name, LINEAR, PolicyOptions())
    assert made.name == spec.name
    # Tiresias' queues only remember under some options, so that a replay may leave rounds out.
    remembers = isinstance(made, Policy) and type(made).observe is not Policy.observe
    if isinstance(made, Objective):
        remembers = made.remembers
    assert spec.memory == remembers


def test_options_on_the_page_exist_and_have_a_policy() -> None:
    values = {field.name for field in fields(PolicyOptions)}
    told = {name for spec in (*POLICIES.values(), *OBJECTIVES.values()) for name in spec.options}
    assert set(OPTIONS) == values - {"seed"} == told
    assert set(MILP_OPTIONS) <= told


def test_the_listing_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.main([]) == 0
    printed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] == " "}
    assert printed == {*POLICIES, *OBJECTIVES}
