"""Command line: a snapshot in, a decision out; stdout has the decision alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from morph_opt.commandline import LineParser
from morph_opt.domain import InputError
from morph_opt.explain import Effort, RuleConflictError, explanation_text
from morph_opt.policies.registry import PolicyOptions
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.round.snapshot import to_text
from morph_opt.round.text import decision_text
from morph_opt.rules import read_rules


def make_parser() -> argparse.ArgumentParser:
    """The parser."""
    defaults = PolicyOptions()
    parser = LineParser(
        prog="python -m morph_opt.round",
        description="Decide one scheduling round from a snapshot of a cluster.",
        epilog="Exit status: 0 decided; 1 the solver gave nothing usable and a fallback decided, "
        "or there is no answer at all; "
        "2 bad usage, a snapshot that contradicts itself, or rules that contradict each other.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--state", required=True, metavar="FILE|-", help="snapshot, .json or .json.gz; - is stdin")
    add("--objective", default=defaults.objective, help="of the MILP (default %(default)s)")
    add("--policy", default="milp", help="default milp")
    add("--solver", default=defaults.solver, help="of the MILP (default %(default)s)")
    add("--gap", type=float, default=defaults.gap, help="relative gap (default %(default)s)")
    add("--time-limit-s", type=float, default=defaults.time_limit_s, metavar="S",
        help="wall-clock safeguard (default %(default)s)")  # fmt: skip
    add("--seed", type=int, default=defaults.seed, help="of the solver (default %(default)s)")
    add("--rules", metavar="FILE", help="operator's rules, TOML, in place of the snapshot's")
    add("--explain", action="store_true", help="add an explanation; as text on stderr, too")
    add("--explain-jobs", type=int, default=Effort().jobs, metavar="N",
        help="jobs whose best option is forced (default %(default)s)")  # fmt: skip
    add("--explain-nodes", action="store_true", help="solve with one more node of every kind, too")
    add("--format", choices=("json", "text"), default="json", help="of stdout (default json)")
    add("--indent", type=int, metavar="N", help="indent the JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    arguments = make_parser().parse_args(argv)
    try:
        return _run(arguments)
    except RuleConflictError as error:
        lines = [f"error: {error}", *(f"  {line}" for line in error.lines)]
        print("\n".join(lines), file=sys.stderr)
        return 2
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # a policy or solver that does not keep its word
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    effort = None
    if arguments.explain or arguments.explain_nodes:
        if arguments.explain_jobs < 0:
            rule = f"must be at least 0, got {arguments.explain_jobs}"
            raise InputError(rule, field="--explain-jobs")
        effort = Effort(jobs=arguments.explain_jobs, nodes=arguments.explain_nodes)
    snapshot = read_snapshot(arguments.state)
    file = "stdin" if arguments.state == "-" else arguments.state
    if arguments.rules is not None:
        file = arguments.rules
        snapshot = replace(snapshot, rules=read_rules(file, snapshot.state.cluster))
    options = PolicyOptions(
        objective=arguments.objective, solver=arguments.solver, gap=arguments.gap,
        time_limit_s=arguments.time_limit_s, seed=arguments.seed,
    )  # fmt: skip
    try:
        decided = decide_round(snapshot, options, policy=arguments.policy, explain=effort)
    except RuleConflictError as error:
        raise RuleConflictError(error.conflict, file=file) from error
    as_text = arguments.format == "text"
    explained = "" if decided.explanation is None else explanation_text(decided.explanation)
    if as_text:
        sys.stdout.write(decision_text(decided) + ("\n" + explained if explained else ""))
    else:
        sys.stdout.write(to_text(decided.to_json(), arguments.indent))
        sys.stderr.write(explained)
    return int(decided.decision.report.status == "fallback")
