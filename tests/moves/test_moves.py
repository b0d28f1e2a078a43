"""Answers by hand: what moves, in which order, at which loss; and what has no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import morph_opt as mo
from morph_opt.moves.answer import Moves
from morph_opt.moves.check import AnswerError, require_right
from tests.moves.states import HELD, document


def ask(held: Any = None, waiting: Any = None, **more: Any) -> Moves:
    """Return the answer about a state; what is no question belongs to the state."""
    of_state = {name: more.pop(name) for name in ("nodes", "gpus", "rules") if name in more}
    return mo.moves(document(HELD if held is None else held, waiting, **of_state), gap=0.0, **more)


def steps(answer: Moves) -> list[tuple[str, str]]:
    return [(step.kind, step.job) for step in answer.steps]


def test_two_moves_let_a_job_start_and_nobody_is_stopped() -> None:
    answer = ask(waiting={"new": 4}, start="new")
    assert (answer.status, answer.moved, answer.stopped) == ("optimal", 2, ())
    assert answer.loss_gpu_s == pytest.approx(30.0 * (1 + 2))
    assert answer.bound_gpu_s == pytest.approx(90.0)
    assert steps(answer)[-1] == ("start", "new")
    assert [step.kind for step in answer.steps[:-1]] == ["move", "move"]


def test_one_move_is_not_enough_and_a_stop_is() -> None:
    assert ask(waiting={"new": 4}, start="new", most_moves=1).status == "impossible"
    answer = ask(waiting={"new": 4}, start="new", most_moves=1, may_stop=["*4"])
    assert [step.kind for step in answer.steps] == ["stop", "start"]
    assert answer.loss_gpu_s == pytest.approx(4 * (30.0 + 60.0))  # restart, and the round without


def test_a_job_that_fits_needs_no_move() -> None:
    answer = ask(waiting={"new": 2}, start="new")
    assert (answer.status, answer.moved, steps(answer)) == (
        "nothing to do", 0, [("start", "new")]
    )  # fmt: skip
    assert ask(start="a4").status == "nothing to do"


def test_a_waiting_job_that_nobody_asked_for_stays_in_the_queue() -> None:
    answer = ask(waiting={"new": 4, "small": 1}, start="new")
    assert answer.after is not None
    assert "small" not in answer.after.by_job()


def test_exempt_jobs_and_rules_are_kept() -> None:
    answer = ask(waiting={"new": 4}, start="new", exempt=["c*"])
    assert {step.job for step in answer.steps} == {"a1", "b2", "new"} or {
        step.job for step in answer.steps
    } == {"a1", "a2", "new"}
    rules = {"non_preemptible": [{"jobs": ["?2"]}]}
    assert ask(waiting={"new": 4}, start="new", rules=rules).status == "impossible"
    confined = {"node_rule": [{"jobs": ["new"], "only_nodes": ["n2"]}]}
    answer = ask(waiting={"new": 4}, start="new", rules=confined)
    assert {step.job for step in answer.steps} - {"new"} in ({"a1", "b2"}, {"c1", "b2"})


def test_rules_about_all_jobs_are_not_about_places() -> None:
    rules = {"gang_limit": [{"jobs": ["*"], "least": 1, "most": 4}], "quota": [
        {"tenant": "default", "gpus": 20}]}  # fmt: skip
    answer = ask({"a": {"n1": 4}, "b": {"n2": 4}, "c": {"n3": 4}}, free="1 node", rules=rules)
    assert answer.moved == 1


def test_nodes_are_emptied_at_the_least_loss() -> None:
    held = {"a": {"n1": 3}, "b": {"n2": 2}, "c": {"n3": 4}, "d": {"n4": 5}}
    answer = ask(held, free="2 nodes of a100", nodes=4)
    assert answer.freed == ("n1", "n2") or set(answer.freed) == {"n1", "n2"}
    assert answer.loss_gpu_s == pytest.approx(30.0 * 5)
    assert ask(held, free="3 nodes", nodes=4).status == "impossible"


def test_a_drained_node_is_left_by_all_but_those_that_complete_in_time() -> None:
    held = {"a": {"n1": 3}, "b": {"n1": 2}, "c": {"n2": 4}}
    answer = ask(held, drain=["n1"])
    assert sorted(step.job for step in answer.steps) == ["a", "b"]
    state = document(held)
    state["jobs"][0]["iterations_done"] = 7000  # 200 s left
    answer = mo.moves(state, drain=["n1"], until_s=200.0)
    assert (answer.left_alone, [s.job for s in answer.steps]) == (("a",), ["b"])


def test_domains_and_leaves_become_empty_as_a_whole() -> None:
    nodes = [
        {"name": f"n{at}", "type": "x", "leaf": f"leaf-{at // 4}", "nvlink_domain": f"d{at // 2}"}
        for at in range(6)
    ]
    held = {"a": {"n0": 1}, "b": {"n1": 2}, "c": {"n2": 1}, "d": {"n4": 4}, "e": {"n5": 4}}
    answer = ask(held, free="1 nvlink domain", nodes=nodes)
    assert (answer.freed, answer.loss_gpu_s) == (("d1",), pytest.approx(30.0))
    answer = ask(held, free="1 leaf", nodes=nodes)
    assert (answer.freed, answer.moved) == (("leaf-0",), 3)
    assert ask(held, free="2 x 16 GPUs in one leaf", nodes=nodes).moved == 3


def test_gangs_of_several_nodes_move_as_they_are() -> None:
    held = {"wide": {"n1": 8, "n2": 8}, "small": {"n3": 1}}
    answer = ask(held, drain=["n1"], nodes=4)
    assert steps(answer)[-1] == ("move", "wide")
    after = answer.after
    assert after is not None
    assert after.by_job()["wide"].placement.shape.label == "8+8"


def test_a_move_is_never_to_a_slower_place() -> None:
    nodes = [{"name": f"n{at}", "type": "x", "leaf": f"leaf-{at // 2}"} for at in range(4)]
    state = document({"wide": {"n0": 8, "n1": 8}, "x": {"n2": 1}}, nodes=nodes)
    row = state["speeds"]["rows"][0]
    state["speeds"]["rows"] = [
        row | {"span": "leaf"}, row | {"span": "pod", "iteration_s": 1.5},
        *state["speeds"]["rows"][1:],
    ]  # fmt: skip
    answer = mo.moves(state, drain=["n0"])
    assert steps(answer) == [("stop", "x"), ("move", "wide"), ("start", "x")]


def test_progress_since_the_checkpoint_counts() -> None:
    held = {"a": {"n1": 2}, "b": {"n2": 2}, "c": {"n3": 8}}
    state = document(held)
    for job, start_s in zip(state["jobs"], (70.0, 270.0, 0.0), strict=True):
        job["last_start_s"] = start_s
    answer = mo.moves(state, free="1 node", checkpoint_s=400.0)
    # a ran 500 s without its start-up, of which 100 are lost; b 300 s, of which all are.
    assert [step.job for step in answer.steps] == ["a"]
    assert answer.loss_gpu_s == pytest.approx(2 * (30.0 + 100.0))
    state["jobs"][0]["checkpointed_s"] = 250.0  # as the job states it: 350 s are lost
    answer = mo.moves(state, free="1 node", checkpoint_s=400.0)
    assert [step.job for step in answer.steps] == ["b"]
    assert answer.loss_gpu_s == pytest.approx(2 * (30.0 + 300.0))


def test_moves_in_a_circle_are_broken_by_a_stop_in_between() -> None:
    rules = {"node_rule": [{"jobs": ["a"], "only_nodes": ["n2"]},
                           {"jobs": ["b"], "only_nodes": ["n1"]}]}  # fmt: skip
    answer = ask({"a": {"n1": 5}, "b": {"n2": 4}, "c": {"n1": 3}}, nodes=2, rules=rules,
                 free="1 x 1 GPUs")  # fmt: skip
    assert steps(answer) == [("stop", "b"), ("move", "a"), ("start", "b")]
    assert "b is stopped in between" in answer.to_text()
    assert answer.stopped == ()


def test_slots_are_counted_now_and_after_moves() -> None:
    answer = ask(slots=[4, 2])
    rows = [(row.what, row.count, row.moves, row.loss_gpu_s) for row in answer.table]
    assert rows == [
        ("4 GPUs", 0, 0, 0.0), ("4 GPUs", 1, 2, pytest.approx(90.0)),
        ("2 GPUs", 1, 0, 0.0), ("2 GPUs", 2, 1, pytest.approx(30.0)),
    ]  # fmt: skip
    assert [row.count for row in ask(slots=[4], most_moves=1).table] == [0]


def test_the_table_has_what_frees_more_or_loses_less() -> None:
    answer = ask(free="1 x 4 GPUs", may_stop=["?4"], table=True)
    rows = [(row.count, row.moves, row.loss_gpu_s) for row in answer.table]
    assert rows == [(0, 0, 0.0), (1, 1, pytest.approx(360.0)), (1, 2, pytest.approx(90.0))]


def test_what_is_impossible_says_why() -> None:
    assert ask(free="1 node").reason == "needs 8 free GPUs, 4 are"
    assert ask(free="1 x 99 GPUs").reason == "no node is large enough"
    pinned = {"node_rule": [{"jobs": ["a4"], "only_nodes": ["n1"]}]}
    answer = ask({"a4": {"n1": 4}}, drain=["n1"], rules=pinned)
    assert "no moves within the rules" in answer.reason


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"start": "neww"}, "start: there is no job 'neww' (did you mean 'new'?)"),
        ({"drain": ["n11"]}, "drain: there is no node 'n11' (did you mean 'n1'?)"),
        ({"free": "some nodes"}, 'free: must look like "4 nodes of a100"'),
        ({"free": "0 nodes"}, "free: must be"),
        ({"free": "1 node of h100"}, "free: there is no node of 'h100'"),
        ({"free": "1 nvlink domain"}, "free: the cluster has no NVLink domain of several nodes"),
        ({"free": "1 node", "exempt": ["zz*"]}, "exempt: 'zz*' matches no running job"),
        ({"free": "1 node", "may_stop": ["new"]}, "may_stop: 'new' matches no running job"),
        ({"free": "1 node", "start": "new"}, "start: give one of start, free, drain and slots"),
        ({}, "start: give one of start, free, drain and slots"),
        ({"slots": [0]}, "slots: must be"),
        ({"free": "1 node", "most_moves": -1}, "most_moves: must be"),
    ],
)
def test_wrong_questions_are_refused_in_one_line(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(mo.InputError) as error:
        ask(waiting={"new": 4}, **asked)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_jobs_that_share_gpus_are_refused() -> None:
    state = document({"a": {"n1": 1}, "b": {"n2": 1}})
    for job, other in zip(state["jobs"], ("b", "a"), strict=True):
        job["running"] = {"plan": "dp", "nodes": [{"node": "n1", "gpus": [0]}], "partner": other}
    state["speeds"]["pairs"] = [
        {"models": ["a", "b"], "plans": ["dp", "dp"], "node_type": "x", "shape": "1",
         "iteration_s": [1.5, 1.5]}
    ]  # fmt: skip
    with pytest.raises(mo.InputError, match="share GPUs"):
        mo.moves(state, free="1 node")


def test_a_wrong_answer_is_found() -> None:
    from dataclasses import replace

    right = ask(waiting={"new": 4}, start="new")
    require_right(right)
    wrong = [
        replace(right, steps=right.steps[::-1]),
        replace(right, steps=right.steps[1:]),
        replace(right, loss_gpu_s=89.0),
        replace(right, question=replace(right.question, most_moves=1)),
        replace(right, question=replace(right.question, exempt=(right.steps[0].job,))),
        replace(right, question=replace(right.question, start="other")),
        replace(right, question=replace(right.question, start=None, drain=("n1",))),
        replace(right, question=mo.moves(document(HELD), slots=[8]).question,
                after=right.snapshot.state.held),
    ]  # fmt: skip
    for answer in wrong:
        with pytest.raises(AnswerError):
            require_right(answer)


def test_the_document_has_every_step(tmp_path: Path) -> None:
    answer = ask(waiting={"new": 4}, start="new")
    found = json.loads(json.dumps(answer.to_json()))
    assert found["schema"] == "morph-opt/moves/1"
    assert [row["kind"] for row in found["steps"]] == ["move", "move", "start"]
    assert found["moves"] == 2
    assert found["steps"][-1]["for"] == "is asked for"
