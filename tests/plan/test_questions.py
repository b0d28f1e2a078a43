"""Every question on small workloads, with replays in this process instead of children."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import morph_opt as mo
from benchmarks.planning.backtest import held
from morph_opt import plan
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.plan.arriving import arrivals, arrived_of, coming, endless, rest
from morph_opt.plan.ask import node_type_of
from morph_opt.plan.cli import _scenario, main, make_parser
from morph_opt.plan.evaluate import Evaluator, judged
from morph_opt.plan.fleet_tables import fleet_problem
from morph_opt.plan.forecasting import Forecast
from morph_opt.plan.mixes import cheapest
from morph_opt.plan.workloads import source_of
from morph_opt.replay.scenario import Workload
from morph_opt.simulation.runs.slo import Slo
from morph_opt.sweep import Failure
from morph_opt.sweep.store import Found
from tests.engine.toys import job
from tests.sweep import inline
from tests.sweep.inline import run_cells_here

QUEUE = "tests.plan.queue:mmk/100/30/9"
BASE = ["--trace", QUEUE, "--policy", "fifo", "--interval", "10", "--restart-s", "0"]
FEW = ["--of-workloads", "0.5", "--confidence", "0.7", "--exploration", "4"]
COARSE = ["--indifference", "0.4"]
ON = [*inline.ON, "--quiet"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells are run at once, in this process; the keys that ran."""
    monkeypatch.chdir(tmp_path)
    return run_cells_here(monkeypatch, tmp_path)


def asked(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*words, *ON, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_nodes_twice(here: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Asked again, nothing is replayed and the answer is the same."""
    words = ["nodes", *BASE, "--slo", "avg queued_s <= 60", "--gpus-per-node", "1",
             "--max-nodes", "8", *FEW, *COARSE, "--out", "o"]  # fmt: skip
    first = asked(words, capsys)
    count = len(here)
    assert count == len(set(here)) > 10
    assert asked(words, capsys) == first
    assert len(here) == count
    assert json.loads(Path("o/answer.json").read_text()) == first
    assert Path("o/evidence.csv").read_text().startswith("nodes,stage,workloads,passed,lower")
    rows = first["evidence"]
    assert isinstance(rows, list)
    decided = {word.partition(":")[0] for row in rows for word in row["decided_by"].split()}
    assert decided == {"early", "replay"}
    assert first["not_modelled"]
    assert main([*words, *ON]) == 0
    out = capsys.readouterr().out
    assert "not modelled: " in out
    assert "note: a node is taken to be 1 x A800-80GB: name another with --node-type" in out


def test_bounds_decide_where_they_can(here: list[str]) -> None:
    """No schedule has these jobs complete within a second; and a job of 8 GPUs fits no 1."""
    ask = plan.Ask(mo.Scenario("naive", "8x8", policy="fifo"), Path("o"))
    evaluator = Evaluator(Path("o"))
    scenario = source_of("naive").put(ask.scenario, 0)
    found = evaluator.verdicts([scenario], plan.Slo.parse("avg jct_s <= 1"))[0]
    assert (found.passed, found.decided_by) == (False, "bound floor")
    assert found.value > 1.0
    # A boundary every minute: of ten jobs, most wait for one, so that their queueing is no second.
    for text in ("p90 queued_s <= 1", "max waiting_s <= 1", "p10 jct_s <= 1"):
        found = evaluator.verdicts([scenario], plan.Slo.parse(text))[0]
        assert (found.passed, found.decided_by) == (False, "bound floor"), text
    assert evaluator.refused(scenario, plan.Slo.parse("p90 queued_s <= 60")) is None
    small = scenario.replaced(cluster="1x1")
    found = evaluator.verdicts([small], plan.Slo.parse("p90 jct_s <= 1e9"))[0]
    assert (found.passed, found.decided_by) == (False, "impossible")
    assert "requests" in found.detail
    assert not here
    known = json.loads(Path("o/bounds.json").read_text())
    assert len(known["bounds"]) == 2
    # What bounds said is taken for granted as it was written, and in no other way.
    for other in (known["bounds"], {"bounds": {}}, known | {"bounds": {"k": {}}}, []):
        Path("o/bounds.json").write_text(json.dumps(other))
        with pytest.raises(InputError, match="is not what was written here"):
            Evaluator(Path("o"))


def test_growth_and_remove(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["growth", *BASE, "--cluster", "6x1", "--slo", "avg queued_s <= 60"]
    found = asked([*words, *FEW[:4], "--load", "0.8:2.8:1", "--out", "g"], capsys)
    rows = found["evidence"]
    assert isinstance(rows, list)
    assert [row["load"] for row in rows] == [0.8, 1.8, 2.8]
    assert [row["verdict"] for row in rows][::2] == ["holds", "not shown"]
    words = ["remove", *BASE, "--cluster", "7x1", "--slo", "avg queued_s <= 60", *FEW]
    found = asked([*words, *COARSE, "--out", "r"], capsys)
    figures = found["figures"]
    assert isinstance(figures, dict)
    assert 3 <= figures["nodes"] < 7
    assert figures["removed"] == {"a800-80gb-x1": 7 - figures["nodes"]}


def test_compare_worth_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """`fifo` against itself on more nodes: the sign is known, and the pairs are the same."""
    Path("r.toml").write_text('[[maintenance]]\nnodes = ["node-0"]\nstart_s = 0\nend_s = 2000\n')
    few = ["--seeds", "6", "--metric", "avg queued_s", "--trace", QUEUE]
    common = "--interval 10 --restart-s 0"
    plain = "--interval 100 --restart-s 0"
    found = asked(
        ["compare", *few, "--cluster", "4x1", "--a", f"--policy srtf {common}",
         "--b", f"--policy fifo {common}", "--out", "c"], capsys,
    )  # fmt: skip
    rows = found["evidence"]
    assert isinstance(rows, list)
    assert rows[1]["difference"] >= 0.0
    assert rows[1]["workloads"] == 6
    scheduler = ["--interval", "10", "--restart-s", "0"]
    found = asked(
        ["worth", *few, *scheduler, "--cluster", "4x1", "--policy", "fifo", "--out", "w"], capsys
    )  # fmt: skip
    rows = found["evidence"]
    assert isinstance(rows, list)
    assert (rows[0]["node_type"], rows[0]["price_per_round"]) == ("a800-80gb-x1", None)
    assert rows[0]["difference"] < 0.0
    few = ["--seeds", "2", "--metric", "avg queued_s", "--trace", "tests.plan.queue:mmk/100/30/4"]
    found = asked(
        ["worth", *few, "--cluster", "2x1", "--interval", "100", "--restart-s", "0",
         "--objective", "jct", "--price-every", "2", "--out", "x"], capsys,
    )  # fmt: skip
    rows = found["evidence"]
    assert isinstance(rows, list)
    assert rows[0]["price_per_round"] >= 0.0
    plain = "--interval 100 --restart-s 0"
    found = asked(
        ["compare", *few, "--cluster", "2x1", "--a", f"{plain} --policy fifo",
         "--b", f"r.toml {plain} --policy fifo",
         "--no-noise", "--out", "y"], capsys,
    )  # fmt: skip
    rows = found["evidence"]
    assert isinstance(rows, list)
    assert rows[1]["of"].startswith("r.toml")
    assert rows[1]["difference"] > 0.0
    priced = {row["of"].rpartition(": ")[0]: row for row in rows[2:]}
    assert sorted(priced) == [
        f"all jobs: {name}"
        for name in ("GPU-hours", "GPU-hours lost", "avg waiting_s", "evictions", "p90 waiting_s")
    ]
    # Under fifo nobody is stopped: jobs wait before their start alone, and hold as much as before.
    assert priced["all jobs: avg waiting_s"]["difference"] == pytest.approx(rows[1]["difference"])
    assert priced["all jobs: evictions"]["difference"] == 0.0
    assert priced["all jobs: GPU-hours"]["difference"] == pytest.approx(0.0)


def test_fleet_is_the_cheapest_of_all(
    here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Two types, 24 mixes: what is named is the first by price that passes; bounds prune."""
    words = ["fleet", "--trace", "gavel-96", "--policy", "fifo", "--interval", "3600",
             "--types", "V100,K80", "--prices", "V100=2,K80=1", "--max-nodes", "3", *FEW[:5], "2",
             *COARSE, "--slo", "avg jct_s <= 200000", "--budget", "60/h", "--out", "f"]  # fmt: skip
    found = asked(words, capsys)
    rows = found["evidence"]
    assert isinstance(rows, list)
    tried = [row for row in rows if row["stage"] == "explore"]
    costs = [row["price_per_hour"] for row in tried]
    assert costs == sorted(costs)
    assert [row["verdict"] for row in tried].index("pass") == len(tried) - 1
    assert any(row["decided_by"].startswith(("bound", "impossible")) for row in rows)
    figures = found["figures"]
    assert isinstance(figures, dict)
    assert figures["price_per_hour"] == costs[-1]
    # Replays bill at the same prices as the answer: an SLO may be of dollars.
    cells = [file.read_text() for file in Path("f").glob("cells/*/*/cell.json")]
    assert cells
    assert all(re.search(r"price_per_hour\W+[12]\.0", text) for text in cells)


@pytest.mark.parametrize(
    ("slo", "why"),
    [("cost_usd <= 90", "GPUs have no price"), ("slo_attainment >= 0.5", "no job has a deadline")],
)
def test_targets_on_undefined_figures_are_refused(
    slo: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nodes", *BASE, *FEW, *ON, "--slo", slo, "--max-nodes", "4"]) == 2
    assert why in capsys.readouterr().err


def test_the_milp_s_fleets_come_by_cost_and_none_twice() -> None:
    """Against enumeration of the box, at a cost that more nodes never lower."""
    kinds = [node_type_of("V100", 4), node_type_of("K80", 4)]
    day = [source_of("gavel-96").workload(0)]
    problem = fleet_problem(day, kinds, (8.0, 4.0), 8, 40_000.0)
    found = cheapest(problem, 8)
    costs = [one.cost for one in found]
    assert costs == sorted(costs)
    assert len({one.nodes for one in found}) == 8
    wider = cheapest(fleet_problem(day, kinds, (8.0, 4.0), 8, 80_000.0), 1)
    assert wider[0].cost <= costs[0]
    none = fleet_problem(day, kinds, (8.0, 4.0), 8, 40_000.0, budget=1.0)
    assert cheapest(none, 1) == []


def test_eta_of_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing arrives and nothing is drawn: the forecast is what a replay does."""
    state = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"
    found = mo.Scenario(state=state).run()
    ends = {row.job: row.finish_s for row in found.jobs}
    words = ["eta", "--state", str(state), "--continuations", "5", "--out", "e", "--quiet"]
    assert main([*words, "--json", "--job", "bob-1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = {row["what"]: row for row in answer["evidence"]}
    assert rows["finish"]["q10_s"] == rows["finish"]["q90_s"] == pytest.approx(ends["bob-1"])
    notes = ["nothing arrives: no history was given", "the policy decides every 60 s"]
    assert answer["notes"] == notes
    assert main([*words[:-1], "--quiet"]) == 0
    said = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[:4]]
    waits = "bob-2 starts in 30 min"
    assert said == ["alice-1 runs", "bob-1 starts now", waits, "carol-1 starts now"]
    assert main([*words, "--job", "nobody"]) == 2
    assert "the state has no job 'nobody'" in capsys.readouterr().err


def test_arrivals_are_whole_days_at_their_time_of_day() -> None:
    day = 86_400.0
    past = [job(f"d{d}", d * day + 36_000.0 + d) for d in range(5)] + [job("end", 5 * day - 1.0)]
    found = arrivals(past, 5, 7.25 * day, 10.5 * day, seed=3)
    hours = [int(one.submission_s % day) for one in found if one.iterations]
    assert all(36_000 <= h < 36_005 or h == 86_399 for h in hours)
    assert {int(one.submission_s // day) for one in found} <= {7, 8, 9, 10}
    assert found == arrivals(past, 5, 7.25 * day, 10.5 * day, seed=3)
    # Nothing of today's past: at 18 h the 10 h jobs of day 7 are over.
    late = arrivals(past, 5, 7.75 * day, 8.0 * day - 2.0, seed=3)
    assert late == []
    # Consecutive seeds take each day once for today: d0 to d4 come at 10 h and as many seconds.
    today = [arrivals(past, 5, 0.0, 50_000.0, seed)[0].submission_s for seed in range(5)]
    assert today == [36_000.0, 36_001.0, 36_002.0, 36_003.0, 36_004.0]


def test_arrivals_come_at_the_time_of_day_of_the_logs_own_clock() -> None:
    """Its first job came at 5 h; now it is 9 h, months later, or of a replay's clock."""
    day, hour = 86_400.0, 3_600.0
    past = [job(f"d{d}", d * day) for d in range(5)]
    clock_s, now_s = 1_000 * day + 5 * hour, 1_100 * day + 9 * hour
    found = arrivals(past, 5, now_s, now_s + 3 * day, seed=3, clock_s=clock_s)
    assert [one.submission_s % day for one in found] == [5 * hour] * 3
    replayed = arrivals(past, 5, 9 * hour, 9 * hour + 3 * day, seed=3, clock_s=clock_s)
    assert [one.submission_s % day for one in replayed] == [0.0] * 3


def test_remaining_arrivals_of_a_member_exclude_early_ones() -> None:
    """Of nine jobs six have come early: three are left, where other members have seven or so."""
    family = Workload(QUEUE)
    for arrived, now_s in ((6, 40.0), (1, 400.0), (0, 90.0), (9, 10.0)):
        for seed in range(12):
            left = rest(family, arrived, now_s, 1e9, seed)
            assert len(left) == 9 - arrived
            assert all(one.submission_s > now_s for one in left)
    # The gap to the next one is that of the process (30 s), not what is left of another's clock.
    gaps = [rest(family, 6, 40.0, 1e9, seed)[0].submission_s - 40.0 for seed in range(100)]
    assert sum(gaps) / len(gaps) == pytest.approx(30.0, abs=4 * 30.0 / 100**0.5)
    assert rest(family, 6, 40.0, 50.0, 3) == [
        one for one in rest(family, 6, 40.0, 1e9, 3) if one.submission_s <= 50.0
    ]


def test_a_state_tells_how_many_jobs_of_a_member_have_come() -> None:
    family = Workload(QUEUE)
    assert arrived_of(family, ["j2", "j6"]) == 7
    assert arrived_of(Workload("base"), ["t5-3", "gpt2-41"]) == 42
    # Names that no member has, or two of one number: of something that has no end.
    for names in (["alice-1"], ["j2", "alice-1"], ["j9"], ["j"], []):
        assert arrived_of(family, names) is None
    assert arrived_of(Workload("base"), ["t5-3", "gpt2-3"]) is None
    assert coming(QUEUE, ["j2", "j6"]).notes[0].endswith("7 of its jobs have come")
    assert "without an end" in coming(QUEUE, ["alice-1"]).notes[0]


def test_arrivals_that_do_not_end_go_on_behind_a_member() -> None:
    """Thirty seconds apart, at any time of the state, and the same whichever horizon asks."""
    family = Workload(QUEUE)
    for from_s in (0.0, 100.0, 1e8):
        found = endless(family, from_s, from_s + 30_000.0, 5)
        assert len(found) == pytest.approx(1000, abs=150)
        assert len({one.name for one in found}) == len(found)
        assert found[:10] == endless(family, from_s, found[9].submission_s, 5)
    # One at the start is all that there is: no process, and no loop without an end either.
    assert endless(Workload("tests.plan.queue:mmk/100/0.000001/1"), 5.0, 1e4, 0)[:1] == []


def test_forecast_interval_holds_in_eight_of_ten_cases() -> None:
    """Of any twenty instants, each in turn against the other nineteen: 16 held, ties or not."""
    draw = random.Random(4)
    for kinds in (2, 3, 7, 40, 10**9):
        values = [60.0 * draw.randrange(kinds) for _ in range(20)]
        inside = 0.0
        for place, came_s in enumerate(values):
            others = tuple(sorted(values[:place] + values[place + 1 :]))
            inside += held(Forecast(others, others, 19), "finish", came_s)
        assert inside == pytest.approx(16.0), kinds


@pytest.mark.parametrize(("futures", "low", "high"), [(19, 1, 17), (9, 0, 18), (5, 0, 18)])
def test_an_interval_is_of_ranks_that_a_further_draw_keeps(
    futures: int, low: int, high: int
) -> None:
    """19 draws: ranks 2 and 18, between which a twentieth lies in 16 of 20 cases, 80 %.

    Of nine futures, twice each and one three times, the outermost; of five the same, and no ranks
    hold more than 4 of 6.
    """
    values = tuple(float(k) for k in range(19))
    one = Forecast(values, values, futures)
    assert one.quantiles("finish") == (float(low), 9.0, float(high))


STATE = Path(__file__).parents[2] / "docs/schema/example-state.json"

BAD = [
    ("nodes --slo x", "slo: must look like"),
    ("nodes --slo 'p90_nope <= 5'", "slo: must look like"),
    ("nodes --slo 'p90 nope <= 5'", "slo: unknown metric 'nope'"),
    ("nodes --slo 'avg jct_s <= 1' --max-nodes 2 --exploration 1", "no size up to 2 reaches"),
    ("nodes --slo 'p90 queued_s <= -3'", "nothing reaches it: queued_s"),
    ("nodes --slo 'p90 queued_s <= 1' --max-nodes 8 --exploration 1", "decided by bound floor"),
    ("nodes --slo 'avg jct_s <= 9e5' --policy nope --exploration 1", "unknown policy 'nope'"),
    ("nodes --slo 'avg jct_s <= 9e5' --objective nope --exploration 1", "unknown objective"),
    # Refused before bounds answer the question: nobody would learn of it.
    ("nodes --slo 'avg jct_s <= 1' --policy nope", "unknown policy 'nope'"),
    ("nodes --slo 'avg jct_s <= 1' --on local:0", "--on: must be local:N"),
    ("nodes --slo 'avg jct_s <= 1' --on dask:x", "--on: must be dask:tcp"),
    ("nodes --slo 'avg jct_s <= 1' --on os:nope", "cannot import 'os:nope'"),
    ("nodes --slo 'avg jct_s <= 1' --out jobs.csv", "jobs.csv: is a file, not a folder"),
    ("fleet --slo 'avg jct_s <= 1' --types V100 --prices V100=1,X=2", "names X, which --types"),
    (
        "fleet --slo 'avg jct_s <= 1' --trace gavel-96 --types V100 --prices V100=1 --max-nodes 2",
        "nor all of their nodes together: bound floor",
    ),
    ("nodes --slo 'avg jct_s <= 1' --indifference 0.2", "must be above 0 and below 0.1"),
    ("nodes --slo 'avg jct_s <= 1' --workloads 30", "fewer than the statement needs"),
    ("nodes --slo 'avg jct_s <= 1' --node-type X", "--node-type: unknown GPU type 'X'"),
    ("nodes --slo 'avg jct_s <= 1' --trace nope", "unknown trace 'nope'"),
    ("nodes --slo 'avg jct_s <= 1' --policy fifo --objective jct", "--objective: policy 'fifo'"),
    ("nodes --slo 'avg jct_s <= 1' --trace jobs.csv", "one realisation is an anecdote"),
    ("fleet --slo 'avg jct_s <= 1' --types V100,K80 --prices K80=1", "has no price of V100"),
    ("fleet --slo 'avg jct_s <= 1' --types V100,V100 --prices V100=1", "names a type twice"),
    ("fleet --slo 'avg jct_s <= 1' --types V100 --prices V100=1 --budget x", "--budget"),
    ("growth --slo 'avg jct_s <= 1' --load 2", "--load: must look like 1.0:2.0:0.1, got '2'\n"),
    ("growth --slo 'avg jct_s <= 1' --load 2:1:0.1", "--load: must ascend"),
    ("growth --slo 'avg jct_s <= 1' --load 1:2:1 --workloads 3", "fewer than the statement"),
    ("compare --a '--policy fifo' --b '--policy fifo'", "two variants are the same"),
    ("compare --a '--checkpoint-s 60' --b '--policy fifo'", "--checkpoint-s: has an effect toge"),
    ("compare --a '--policy fifo' --b '--trace mt'", "mt; it is the same for all variants"),
    ("compare --a '--policy fifo' --b '--skip-impossible '", "it is the same for all variants"),
    ("compare --a '--prices A800-80GB=3' --b '--policy srtf'", "it is the same for all variants"),
    ("compare --a '--policy fifo' --b '--seed 3'", "unrecognized arguments: --seed 3 (see"),
    (f"eta --state {STATE} --mtbf-s 600 --mttr-s 60", "unrecognized arguments: --mtbf-s 600 (see"),
    (f"eta --state {STATE} --until-s 900", "unrecognized arguments: --until-s 900 (see"),
    (f"eta --state {STATE} --skip-impossible", "unrecognized arguments: --skip-impossible (see"),
    (f"eta --state {STATE} --jobs-as rigid", "--jobs-as: has an effect together with --history"),
    (
        "compare --policy fifo --a '--policy fifo' --b '--policy srtf'",
        "--policy fifo; give it in the quotes of --a or --b",
    ),
    ("nodes --slo 'avg jct_s <= 9' --seed 3", "unrecognized arguments: --seed 3 (see"),
    ("nodes --slo 'avg jct_s <= 9' --prices V100=1", "unrecognized arguments: --prices V100=1 ("),
    ("nodes --slo 'avg jct_s <= 9' --policy fifo --gap 0.1", "--gap: policy 'fifo'"),
    ("nodes --slo 'avg jct_s <= 9' --mtbf-s 900", "--mtbf-s: has an effect together with --mttr"),
    ("eta --state none.json --nodes 3", "unrecognized arguments: --nodes 3 (see"),
    (
        "compare --a '--policy fifo' --b '--policy srtf' --seeds 1",
        "--seeds: a comparison needs two",
    ),
    ("compare --a '--policy fifo' --b '--policy nofile:X'", "--b: '--policy nofile:X': cannot"),
    ("compare --a '--policy fifo' --b '--objective nofile:X'", "--b: '--objective nofile:X': ca"),
    ("nodes --slo 'avg jct_s <= 9' --policy nofile:X", "--policy: cannot import 'nofile:X'"),
    (
        "compare --a '--policy fifo' --b '--policy srtf' --metric p90",
        "'avg jct_s' or 'makespan_s', got 'p90'",
    ),
    (
        "compare --a '--policy fifo' --b '--policy srtf' --metric avg",
        "'avg jct_s' or 'makespan_s', got 'avg'",
    ),
    ("compare --a '--policy fifo' --b '--policy srtf' --metric x", "unknown metric 'x'"),
    (
        "nodes --slo 'avg jct_s <= 9' --options '--columns gpus=x'",
        "--options; give the options that it held directly, without it (see",
    ),
    ("nodes --slo 'avg jct_s <= 9' --clust 3x8", "unrecognized arguments: --clust 3x8 (see"),
    ("growth --load 1:2:1 --slo 'avg jct_s <= 9' --nodes 3", "arguments: --nodes 3 ("),
    ("rules --rules none.toml", "is compare with --rules FILE"),
    ("eta --state none.json", "none.json"),
]


@pytest.mark.parametrize(("line", "complaint"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_one_line(
    line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text(
        "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight,tenant,"
        "deadline\na,100,gpt2,8,64,zero-dp,900,0,1,t,-1\n"
    )
    words = [one.strip("'") for one in re.findall(r"'[^']*'|\S+", line)]
    assert main([*words, "--quiet"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1), said
    assert complaint in said.err


def test_an_answer_of_a_log_says_what_was_read() -> None:
    """Rows that were dropped may be half of a log: as a replay of it says, and once."""
    rows = "".join(
        f"{k},2024-05-{1 + k // 12:02d} {k % 12:02d}:00:00,{k % 2},10\n" for k in range(36)
    )
    Path("half.csv").write_text("job,submitted,num_gpus,runtime_min\n" + rows)
    source = source_of("table:half.csv")
    account = load_trace("table:half.csv").account
    assert account is not None
    assert source.notes[1:] == account.texts()
    assert "no-gpu 18" in source.notes[2]
    assert coming("table:half.csv").notes[1:] == account.texts()
    assert source_of("base").notes == ()


def test_questions_take_every_option_of_a_replay() -> None:
    """On the command line by the same options; as a library by the scenario, logs included."""
    words = ["worth", "--trace", "mt", "--objective", "lookahead", "--cluster", "2x8"]
    words += [
        "--interval",
        "30",
        "--promises",
        "weight",
        "--restart-s",
        "gpt2=9",
        "--mtbf-s",
        "900",
        "--mttr-s",
        "90",
    ]
    assert _scenario(make_parser().parse_args(words)) == mo.Scenario(
        "mt", "2x8", objective="lookahead"
    ).replaced(
        interval_s=30.0,
        promises="weight",
        restart_s_by_model={"gpt2": 9.0},
        mtbf_s=900.0,
        mttr_s=90.0,
    )
    # A job of four processors for ten minutes, every hour of four days, as SWF has it.
    Path("log.swf").write_text(
        "; UnixStartTime: 0\n; TimeZoneString: UTC\n"
        + "".join(
            f"{k + 1} {k * 3600} 0 600 4 -1 -1 4 600 -1 1 1 1 -1 1 -1 -1 -1\n" for k in range(97)
        )
    )
    for procs, gpus in ((1, 4), (2, 2)):
        scenario = mo.Scenario("swf:log.swf", workload=Workload(procs_per_gpu=procs))
        ask = plan.Ask(scenario.replaced(policy="fifo"), load=1.5)
        jobs = ask.source().workload(3).trace.jobs
        assert {one.requested_gpus for one in jobs} == {gpus}
        assert len(jobs) > 100
        assert len(ask.source().put(ask.scenario, 3).replaced(until_s=9000.0).run().jobs) > 100
        assert ask.asked()["procs_per_gpu"] == procs


def test_a_replay_that_refuses_its_input_is_no_size_that_fails(tmp_path: Path) -> None:
    """Else a mistyped policy has the answer that no size reaches the target."""
    slo = plan.Slo.parse("avg jct_s <= 9")
    failure = Failure("input", 2, "error: --policy: unknown policy 'nope'")
    with pytest.raises(InputError, match=r"^policy: unknown policy"):
        judged(Found("k", tmp_path, failure), slo)
    # Nor is a result that somebody edited.
    done = Found("k", tmp_path)
    texts = {"summary.json": '{"jobs": 1, "completed": 1}', "digests.json": '{"summary.json": "a"}'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="is not what the replay wrote"):
        judged(done, plan.Slo.parse("makespan_s <= 9"))
    crash = judged(Found("k", tmp_path, Failure("signal", 9, "x")), slo)
    assert (crash.passed, crash.decided_by) == (False, "failure")


def test_an_answer_is_the_same_with_and_without_early_ends(
    here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every kind of target; and none is judged by what was ended for another."""
    ended = 0
    limits = ("avg queued_s <= 90", "p90 jct_s <= 400", "makespan_s <= 700")
    for slo in limits:
        words = ["nodes", *BASE, "--slo", slo, "--gpus-per-node", "1", "--max-nodes", "8", *FEW,
                 *COARSE]  # fmt: skip
        first = asked([*words, "--out", "early"], capsys)
        with monkeypatch.context() as patched:
            patched.setattr(Slo, "bounded_by", None)  # nor do bounds refuse anything
            whole = asked([*words, "--out", "whole"], capsys)
        assert first["said"] == whole["said"]
        assert first["figures"]["nodes"] == whole["figures"]["nodes"]  # type: ignore[index]
        said = {}
        for answer in (first, whole):
            rows = answer["evidence"]
            assert isinstance(rows, list)
            said[id(answer)] = {
                (row["nodes"], row["stage"], row["passed"], row["verdict"], row["mean"])
                for row in rows if row["decided_by"].startswith("replay")
            }  # fmt: skip
            ended += sum(row["decided_by"].startswith("early") for row in rows)
        assert said[id(first)] <= said[id(whole)]
    assert ended >= 3


def test_an_slo_s_answer_is_a_value(here: list[str]) -> None:
    scenario = mo.Scenario(QUEUE, "4x1", policy="fifo").replaced(interval_s=10.0, restart_s=0.0)
    ask = plan.Ask(scenario, Path("v"), on="tests.sweep.poison:Inline")
    found = plan.nodes(
        ask, "avg queued_s <= 60", gpus_per_node=1, of_workloads=0.5, confidence=0.7, most=8,
        exploration=4, indifference=0.4,
    )  # fmt: skip
    assert found.nodes == found.figures["nodes"]
    assert list(found.evidence.columns)[:3] == ["nodes", "stage", "workloads"]
    with pytest.raises(InputError, match="must be at least 1, got 0"):
        plan.nodes(ask, "avg queued_s <= 60", most=0)
