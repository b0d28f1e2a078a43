"""Orders in the engine: each step is a round, and its strict check finds nothing wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.live.scheduler import Start, Stop
from morph_opt.moves.following import Following
from tests.moves.states import HELD, document

CIRCLE = {
    "node_rule": [{"jobs": ["a"], "only_nodes": ["n2"]}, {"jobs": ["b"], "only_nodes": ["n1"]}]
}


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (document(HELD, {"new": 4}), {"start": "new"}),
        (document(HELD), {"free": "1 x 4 GPUs"}),
        (document({"a": {"n1": 3}, "b": {"n2": 2}, "c": {"n3": 4}}), {"drain": ["n3"]}),
        (
            document({"a": {"n1": 5}, "b": {"n2": 4}, "c": {"n1": 3}}, nodes=2, rules=CIRCLE),
            {"free": "1 x 1 GPUs"},
        ),
    ],
)
def test_an_order_is_carried_out_round_by_round(
    state: dict[str, object], asked: dict[str, str], tmp_path: Path
) -> None:
    answer = mo.moves(state, **asked)
    assert answer.moved
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))
    until_s = 600.0 + 60.0 * (len(answer.steps) + 1)
    scenario = mo.Scenario(state=file, policy=Following(answer)).replaced(until_s=until_s)
    run = scenario.run()
    assert answer.after is not None
    last = {}
    for segment in run.segments:
        last[segment.job] = segment
    for job, held in answer.after.by_job().items():
        counts = [
            {node: len(own) for node, own in one.placement.parts} for one in (held, last[job])
        ]
        assert counts[0] == counts[1]


def test_intents_are_those_of_live() -> None:
    answer = mo.moves(document(HELD, {"new": 4}), start="new")
    kinds = {"stop": (Stop, "stops"), "start": (Start, "placement")}
    found = answer.intents()
    assert [one["kind"] for one in found] == ["stop", "start", "stop", "start", "start"]
    for one in found:
        made, power = kinds[one.pop("kind")]
        assert one.pop("power") == power == made(**one).power
