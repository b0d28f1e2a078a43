"""Options without effect and values that mean nothing are refused by name; nothing is written."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import on_command_line
from morph_opt.core.domain.options import asked
from morph_opt.inputs.traces.options import LogOptions
from morph_opt.replay.cli import make_parser, scenario_from
from morph_opt.scheduling.policies.options import MILP_OPTIONS, OPTIONS
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES
from tests.commands.described import described
from tests.known import KNOWN, MAIN, parser_of

ROOT = Path(__file__).parents[2]
STATE = f"--state {ROOT}/docs/schema/example-state.json"

LINES = """
replay --policy fifo --objective jct | --objective: policy 'fifo' does not know it; known to milp
replay --policy fifo --solver nope | --solver: policy 'fifo'
replay --policy fifo --formulation nope | --formulation: policy 'fifo'
replay --policy srtf --gap 0.5 | --gap: policy 'srtf'
replay --policy srtf --gap 0.0001 | --gap: policy 'srtf'
replay --policy gavel:ftf --time-limit-s 3 | --time-limit-s: policy 'gavel:ftf'
replay --policy tiresias:2d-las --node-limit 3 | --node-limit: policy
replay --policy fifo --rules none.toml | none.toml: cannot be read
replay --policy equal_split --packing | --packing: policy
replay --policy fifo --starvation-knob 0 | --starvation-knob: policy 'fifo'
replay --starvation-knob 2 | --starvation-knob: objective 'auto' does not know it; known to
replay --objective jct --entity-weights t=2 | --entity-weights: objective 'jct'
replay --policy gavel:ftf --entity-weights t=2 | --entity-weights: policy
replay --promises weight --trace base | --promises: has no effect: no job is guaranteed
replay --objective throughput --durations blind | --durations: has no effect: objective
replay --durations blind --objective jct-blind | --durations: has no effect: objective 'jct-blind'
replay --durations blind --policy fifo | --durations: policy 'fifo' does not know it; known to
replay --durations some | --durations: must be true, blind, limits[:LAW][:learnt] or noisy:SIGMA
round STATE --policy easy --durations limits:modal | --durations: a law draws limits for
replay --durations noisy:-1 --objective jct | --durations: the spread must be a number above 0
replay --objective throughput --durations noisy:1 | --durations: has no effect: objective
replay --promises weight: --trace mt | --promises: the weight must be a number from 1 to 1000000
replay --promises weight:0.5 --trace mt | --promises: the weight must be a number from 1 to
replay --promises rank:2 --trace mt | --promises: must be rank, weight or weight:NUMBER, got
replay --plan-ahead 32 --trace mt | --plan-ahead: must be off, soft or promised
replay --plan-ahead soft --trace mt | --plan-ahead: needs --rules with [[non_preemptible]] jobs =
replay --promises rank --policy fifo | --promises: policy 'fifo' does not know it; known to milp
live observe --config l.toml --give-up-s 9 | argument --give-up-s: has an effect together with
live advise --config l.toml --give-up-s 9 | argument --give-up-s: has an effect together with
live act --config l.toml --yes --give-up-s 9 | argument --give-up-s: has an effect together with
live observe --config l.toml --plan-ahead promised | --plan-ahead: live keeps no promises from turn
live observe --config l.toml --moves a.json --gap 0.1 | --gap: has no effect with --moves, which
live advise --config l.toml --moves a.json --policy srtf | --policy: has no effect with --moves
live act --config l.toml --yes --moves a.json | a.json: cannot be read
replay --gpu-type= | argument --gpu-type: must not be empty
replay --restart-s nope=5 | --restart-s: unknown model 'nope'; trace 'base' has
replay --restart-s 5 --restart-s 6 | --restart-s: given twice
replay --restart-s gpt2=5 --restart-s gpt2=6 | --restart-s: given twice for gpt2
replay --gap 2 | argument --gap: must be a number from 0 to 1, got '2'
replay --interval 1e-9 | argument --interval: must be a number from 0.1 to
replay --interval 1e300 | argument --interval: must be
replay --mtbf-s 1e-9 --mttr-s 60 | argument --mtbf-s: must be
replay --mtbf-s 5000 | argument --mtbf-s: has an effect together with --mttr-s only
replay --mttr-s 5000 | argument --mttr-s: has an effect together with --mtbf-s only
replay --checkpoint-s 60 | --checkpoint-s: has an effect together with --events, --mtbf-s or
replay --audit-rounds 3 --policy srtf | argument --audit-rounds: needs a policy that solves rounds
replay --dump-every 2 | argument --dump-every: has an effect together with --dump-rounds only
replay --dump-gz | argument --dump-gz: has an effect together with --dump-rounds only
replay --seed 1000000000000000000000000000000 | argument --seed: must be a whole number from 0 to
replay --seed 3 --trace jobs.csv --policy fifo | --seed: has no effect
replay --seed 3 --solver-seed 4 --trace jobs.csv | --seed: has no effect
replay --failure-seed 3 | argument --failure-seed: has an effect together with --mtbf-s only
replay --solver-seed 3 --policy gavel:gandiva | argument --solver-seed: has no effect on this policy
replay --policy gandiva --packing --trace base --restart-s 5 | table 'model' measures no pairs
replay --policy gandiva --packing --trace gavel-96 --solver-seed 3 | argument --solver-seed: has no
replay --policy gavel:gandiva --packing --trace base | the speed table 'model' measures no pairs
replay --solver-seed 3 --policy fifo | argument --solver-seed: has no effect on this policy
replay --cluster 2x8 --nodes 3 | argument --nodes: cannot be combined with --cluster
replay --cluster 2x8 --gpus-per-node 3 | argument --gpus-per-node: cannot be combined with --cluster
replay --cluster 2x8 --gpu-type V100 | argument --gpu-type: cannot be combined with --cluster
replay --cluster 2x8 --cpus-per-node 3 | argument --cpus-per-node: cannot be combined with --cluster
replay --cluster 2x8 --host-memory-gib 3 | --host-memory-gib: cannot be combined with --cluster
replay --cluster 2x8 --nvlink-gb-per-s 3 | --nvlink-gb-per-s: cannot be combined with --cluster
replay --cluster 2x8 --rdma-gb-per-s 3 | --rdma-gb-per-s: cannot be combined with --cluster
replay --from-state s.json --cluster 2x8 | --cluster: cannot be combined with
replay --from-state s.json --nodes 3 | --nodes: cannot be combined with
replay --from-state s.json --gpus-per-node 3 | --gpus-per-node: cannot be combined with
replay --from-state s.json --gpu-type V100 | --gpu-type: cannot be combined with
replay --from-state s.json --cpus-per-node 3 | --cpus-per-node: cannot be combined with
replay --from-state s.json --host-memory-gib 3 | --host-memory-gib: cannot be combined with
replay --from-state s.json --nvlink-gb-per-s 3 | --nvlink-gb-per-s: cannot be combined with
replay --from-state s.json --rdma-gb-per-s 3 | --rdma-gb-per-s: cannot be combined with
replay --from-state none.json | none.json
replay --at-stop checkpoint --lost-work 5 | --lost-work: has no effect with --at-stop checkpoint
replay --at-stop never | argument --at-stop: invalid choice: 'never'
replay --allow-code | argument --allow-code: has an effect together with --resume only
replay --solver cpsat --node-limit 5 --trace naive | --node-limit: solver 'cpsat' does not know it
replay --policy fifo --explain --trace naive | argument --explain: explains the policy milp only
replay --resume x --interval 30 | --resume: takes all options from the run; leave out --interval
replay --resume x --lost-work 3 --gap 0.1 | leave out --gap, --lost-work
replay --belief nope | --belief: unknown belief 'nope'; known are truth, model, table, measured,
replay --belief truth:0.7 | --belief: unknown belief 'truth:0.7' (did you mean 'truth'?); known
replay --belief measured:0.7 | --belief: the prior of pairs has an effect together
replay --belief measured:0.5 --packing --trace gavel-96 | --belief: the prior must be a number above
replay --belief measured: --packing --trace gavel-96 | --belief: the prior must be a number
replay --belief measured --online-fit | --online-fit: cannot be combined with --belief measured
replay --belief measured --packing --trace naive | --packing: the speed table
replay --belief measured --policy gavel:fairness | --belief: the policy 'gavel:fairness' remembers
replay --belief measured --trace easyscale-twin | --belief: workers that take turns are equally fast
replay --explai | unrecognized arguments: --explai
round STATE --explain-jobs -1 | argument --explain-jobs: must be
round STATE --explain-jobs 3 | argument --explain-jobs: has an effect together with --explain or
round STATE --snapshot x.json | argument --snapshot: has an effect together with --from only
round STATE --indent -5 | argument --indent: must be a whole number from 0 to 16
round STATE --indent 1000000000 | argument --indent: must be a whole number from 0 to 16
round STATE --indent 2 --format text | argument --indent: has an effect on JSON only
round STATE --why bob-1 --format text | argument --format: has no effect on --why, which prints text
round STATE --policy fifo --seed 1 | argument --seed: has no effect on this policy
round STATE --policy fifo --why a | --why: explains milp, easy, conservative, slurm and kueue only
moves STATE | one of the arguments --start --free --drain --slots is required
moves STATE --free 1node --drain n0 | argument --drain: not allowed with argument --free
moves STATE --free nodes | --free: must look like "4 nodes of a100"
moves STATE --slots 4 --table | argument --table: has an effect together with --free only
moves STATE --drain n0,, | --drain: must look like NAME,NAME
moves STATE --slots 4,x | --slots: must look like 8,64
moves STATE --start bob-1 --until-s 5 | argument --until-s: has an effect together with --drain only
moves STATE --slots 4 --picture x.svg | argument --picture: draws moves, which --slots has none of
moves STATE --start bob-1 --picture x.txt | --picture: must end in .svg or .png
moves STATE --start bob-1 --indent 2 | argument --indent: has an effect on JSON only
moves --start bob-1 | --state: give either --state or --from
round --state s.json --from slurm:a,b | --state: give either --state or --from
round --from lsf:a,b | --from: must be one of slurm:FILE,FILE
round STATE --policy fifo --explain | argument --explain: explains the policy milp only
round STATE --policy fifo --explain-nodes | argument --explain-nodes: explains the policy milp only
sweep table . --all --out t.csv | argument --all: cannot be combined with --columns or --out
round STATE --write-model round.txt | --write-model: must end in .mps or .lp
round STATE --policy fifo --write-model r.lp | argument --write-model: is of the policy milp only
round STATE --policy fifo --gap 0.1 | --gap: policy 'fifo' does not know it
round --state= | argument --state: must not be empty
published.figures tiresias --starvation-knob nan | argument --starvation-knob: must be
published.figures tiresias --trace t --gpus 4 --schedule fifo --starvation-knob 2 | effect on
published.figures tiresias --trace t --gpus 4 --schedule fjf --artifact-quirks | queues only
published.figures tiresias --trace t --gpus 4 --samples s | argument --samples: has an effect on
published.figures gavel --trace t --table u --gpus v100=4.5 | argument --gpus: v100 must be a
published.figures gavel --trace t --table u --gpus v100=1 --seed 3 | --seed: has an effect on
perf memory gpt2 pp2-tp4-dp1 4 | plan pp2-tp4-dp1 needs 8 GPUs, the shape 4 has 4
data fetch gavel --base-url= | argument --base-url: must not be empty
perf predict --model bert --shape 8 --plan dp --max-gpus 4 | argument --max-gpus: has no effect
instances solve base-jct-64g-busy --solver cpsat --nodes 5 | --nodes: solver 'cpsat' does not know
topology draw 2x8 --out x.gif | must end in .svg or .png
acme --gpus 8 | argument --gpus: has an effect together with --trace only
acme --as-published | argument --as-published: has an effect together with --trace only
acme --timezone UTC | argument --timezone: has an effect together with --trace only
acme --procs-per-gpu 8 | argument --procs-per-gpu: has an effect together with --trace
acme --gpu-resource x | argument --gpu-resource: has an effect together with --trace only
acme --columns xdmod | argument --columns: has an effect together with --trace only
acme --gpu-shares drop | argument --gpu-shares: has an effect together with --trace only
acme --malformed drop | argument --malformed: has an effect together with --trace only
acme --only completed | argument --only: has an effect together with --trace only
audit sacct:none.txt --cluster 2x4 --picture x.gif | --picture: must end in .svg, .pdf, .png
audit sacct:none.txt | none.txt
audit none.txt --cluster 2x4 | must be FORMAT:PATH
readme write --runs nope | nope, --runs: holds no finished run
replay --watch --quiet | argument --watch: shows nothing with --quiet
export r --to tables --per-job | argument --per-job: has an effect with --to batsim only
export r --to batsim --format csv | argument --format: has an effect with --to tables only
traces describe a.txt --pictures png | argument --pictures: has an effect together with --out only
traces lint a.txt --rows | argument --rows: has an effect together with --json only
report.picture cdf r --out x.png | --out: must end in .svg
"""

REFUSED = [tuple(part.strip() for part in line.split(" | ")) for line in LINES.strip().split("\n")]
REFUSED += [
    (f"plan {question} {option} 60", f"argument {option}: has an effect together with ")
    for question in (
        "nodes --slo x",
        "fleet --slo x --types V100 --prices V100=1",
        "remove --slo x",
        "worth",
        "growth --slo x --load 1:2:1",
    )
    for option in ("--mtbf-s", "--mttr-s", "--checkpoint-s")
]
REFUSED += [
    (f"plan eta --state none.json {one.flag}={value}", f"argument {one.flag}: has an effect")
    for one in asked(LogOptions).values()
    for value in (
        one.about.choices or ("a=1" if one.kind is dict else "3" if one.about.range else "x",)
    )[:1]
]


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_refused_in_one_line(
    line: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *arguments = line.replace("STATE", STATE).split()
    assert importlib.import_module(MAIN[command]).main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_every_rule_about_effect_has_a_line() -> None:
    """An option that is declared to have an effect sometimes is shown where it has none."""
    for command in KNOWN:
        for fact in described(parser_of(command.name)):
            for _ in fact.only:
                prefix = " ".join((command.name, *fact.words)).strip()
                shown = [
                    line for line, _ in REFUSED if line.startswith(prefix) and fact.name in line
                ]
                assert shown, f"{prefix} {fact.name}"


SAMPLES = {
    "objective": "jct", "rules": "r.toml", "entity_weights": "t=2", "gap": "0.5", "solver": "cbc",
    "durations": "blind", "promises": "weight", "waste_filter": "0.3", "feedback_share": "0.3",
    "plan_ahead": "soft",
}  # fmt: skip


@pytest.mark.parametrize("option", list(OPTIONS))
def test_policies_refuse_options_they_do_not_take(option: str) -> None:
    """Over the whole registry: `scenario_from` refuses exactly what no spec of the line names."""
    given = [OPTIONS[option].flag]
    if OPTIONS[option].kind is not bool:
        given.append(SAMPLES.get(option, "3"))
    every = {"rules"}
    lines = [(["--policy", name], {*spec.options, *every}) for name, spec in POLICIES.items()]
    if option != "objective":
        lines += [
            (["--objective", name], {*MILP_OPTIONS, *spec.options})
            for name, spec in OBJECTIVES.items()
        ]
    for who, known in lines:
        arguments = make_parser().parse_args([*who, *given])
        if option in known:
            scenario_from(arguments)
        else:
            with (
                on_command_line(),
                pytest.raises(InputError, match=f"^{OPTIONS[option].flag}: "),
            ):
                scenario_from(arguments)
