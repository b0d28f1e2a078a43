"""Command line of one round: reads a snapshot, prints the decision alone on stdout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.options import add_options, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import SEEDS, InputError
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.policies.options import OPTIONS, PolicyOptions, Scheduler

if TYPE_CHECKING:
    from morph_opt.round.decide import RoundDecision
    from morph_opt.round.live.build import Live


def make_parser() -> LineParser:
    """Build the parser; a policy option that is not given is absent from the namespace."""

    def drawn(given: argparse.Namespace) -> bool:
        from morph_opt.scheduling.policies.registry import draws

        return draws(given.policy, packing="packing" in given)

    parser = LineParser(
        prog="python -m morph_opt.round",
        description="Decide one scheduling round from a snapshot of a cluster.",
        epilog="Policies, objectives and their options: python -m morph_opt.policies. "
        "Exit status: 0 decided; 1 the solver gave nothing usable and a fallback decided, "
        "or there is no answer at all; "
        "2 bad usage, a snapshot that contradicts itself, or rules that contradict each other.",
    )
    add = parser.add_argument
    add("--state", metavar="FILE|-", help="snapshot, .json or .json.gz; - is stdin")
    add(
        "--from",
        dest="live",
        metavar="SOURCE:FILES",
        help="slurm:SQUEUE.json,NODES.json or kueue:WORKLOADS.json,NODES.json,QUEUES.json,... "
        "instead of a snapshot",
    )
    add(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="write the answers of --from as a snapshot for --state, .json or .json.gz",
    )
    add("--policy", default="milp", metavar="NAME", help="policy that decides (milp)")
    add_options(parser, Scheduler, OPTIONS)
    add(
        "--seed",
        type=Number(SEEDS),
        default=0,
        help="seed of the solver of policy milp (default 0)",
    )
    add("--why", metavar="JOB", help="explain what this job got, instead of the decision")
    add("--explain", action="store_true", help="add an explanation; as text on stderr, too")
    add(
        "--explain-jobs",
        type=whole(0, 10**6),
        default=Effort().jobs,
        metavar="N",
        help="jobs whose best option is forced (default %(default)s)",
    )
    add("--explain-nodes", action="store_true", help="solve with one more node of every kind, too")
    add(
        "--write-model",
        type=Path,
        metavar="FILE",
        help="write the round as a MIP for any solver, .mps or .lp, also with .gz or .xz appended",
    )
    add(
        "--format", choices=("json", "text"), default="json", help="format of stdout (default json)"
    )
    add("--indent", type=whole(0, 16), metavar="N", help="indent the JSON")
    for option in ("--explain", "--explain-jobs", "--explain-nodes"):
        parser.only(option, "explains the policy milp only", lambda given: given.policy == "milp")
    parser.only("--write-model", "is of the policy milp only", lambda given: given.policy == "milp")
    parser.only(
        "--explain-jobs",
        "has an effect together with --explain or --explain-nodes only",
        lambda given: given.explain or given.explain_nodes,
    )
    parser.only_with("--snapshot", "--from")
    parser.only(
        "--indent",
        "has an effect on JSON only",
        lambda given: given.format == "json" and given.why is None,
    )
    parser.only(
        "--format", "has no effect on --why, which prints text", lambda given: given.why is None
    )
    parser.only("--seed", "has no effect on this policy", drawn)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(make_parser(), _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    from morph_opt.core.documents.model import form_of
    from morph_opt.round.decide import decide_round
    from morph_opt.round.live.sources import of_objects, with_objects
    from morph_opt.round.reader import read_snapshot, under_rules
    from morph_opt.scheduling.explanation.conflict import RuleConflictError
    from morph_opt.scheduling.policies.auto import AUTO
    from morph_opt.scheduling.policies.blind import Durations
    from morph_opt.scheduling.policies.registry import require_reasons, resolve

    if arguments.write_model is not None:
        form_of(arguments.write_model, "--write-model")
    effort = None
    if arguments.explain or arguments.explain_nodes:
        effort = Effort(jobs=arguments.explain_jobs, nodes=arguments.explain_nodes)
    given = {
        name: value
        for name, value in given_options(arguments, Scheduler).items()
        if name in OPTIONS
    }
    policy = with_objects(arguments.policy, arguments.live)
    decider = resolve(policy, given.get("objective", AUTO))
    if arguments.why is not None:
        require_reasons(arguments.policy, field="--why")
    decider.require_understood(given)
    if Durations.parse(str(given.get("durations", "true"))).law is not None:
        rule = "a law draws limits for the jobs of a trace; a snapshot states each time_limit_s"
        raise InputError(rule, field="--durations")
    rules = given.pop("rules", None)
    live = _live(arguments)
    if live is not None and policy != arguments.policy:
        live = of_objects(live)
    snapshot = read_snapshot(arguments.state) if live is None else live.snapshot
    file = arguments.live or ("stdin" if arguments.state == "-" else arguments.state)
    if rules is not None:
        file = rules
        snapshot = under_rules(snapshot, rules, live=live is not None)
    options = PolicyOptions(seed=arguments.seed, **given)
    decider.require_workers(options, [known.job for known in snapshot.state.jobs])
    try:
        decided = decide_round(snapshot, options, policy=decider, explain=effort)
    except RuleConflictError as error:
        raise RuleConflictError(error.conflict, file=file) from error
    if arguments.write_model is not None:
        note = decided.write_model(arguments.write_model)
        sys.stderr.write(f"{arguments.write_model}: {note}\n")
    if arguments.why is not None:
        sys.stdout.write(_why(decided, live, arguments.why))
        return int(decided.decision.report.status == "fallback")
    _print(decided, live, arguments)
    return int(decided.decision.report.status == "fallback")


def _print(decided: RoundDecision, live: Live | None, arguments: argparse.Namespace) -> None:
    """Print a decision as JSON, or as text with the jobs kept back and explanations."""
    from morph_opt.round.live.sources import live_text
    from morph_opt.round.snapshot import to_text
    from morph_opt.scheduling.explanation.text import explanation_text

    as_text = arguments.format == "text"
    explained = "" if decided.explanation is None else explanation_text(decided.explanation)
    if as_text:
        waiting = "" if live is None else live_text(live)
        sys.stdout.write(decided.to_text() + waiting + ("\n" + explained if explained else ""))
    else:
        more = {}
        if live is not None:
            more = {"kept_back": dict(live.held), "notes": [*live.notes, *decided.notes]}
        sys.stdout.write(to_text(decided.to_json() | more, arguments.indent))
        sys.stderr.write(explained)


def _live(arguments: argparse.Namespace) -> Live | None:
    """Read the answers of a live scheduler; None if a snapshot is given."""
    from morph_opt.core.documents import require_no_input
    from morph_opt.round.live.sources import read_live, write_snapshot

    if (arguments.state is None) == (arguments.live is None):
        raise InputError("give either --state or --from", field="--state")
    if arguments.live is None:
        return None
    live = read_live(arguments.live)
    if arguments.snapshot is not None:
        require_no_input(
            arguments.snapshot, *map(Path, arguments.live.partition(":")[2].split(","))
        )
        write_snapshot(arguments.snapshot, live)
    return live


def _why(decided: RoundDecision, live: Live | None, job: str) -> str:
    """Explain a job's allocation, or why it is kept back or no part of the round."""
    if live is not None and job in live.held:
        return f"{job} waits: {live.held[job]}\n"
    if live is not None and all(known.job.name != job for known in live.snapshot.state.jobs):
        reason = live.passed_over.get(job)
        if reason is not None:
            return f"{job} {reason}\n"
    return decided.why(job) + "\n"
