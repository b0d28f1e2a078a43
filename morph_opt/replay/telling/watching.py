"""``--explain`` and ``--dump-rounds``: looking at a run without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from morph_opt.domain import InputError, PlanFamily
from morph_opt.replay.setup import Prepared
from morph_opt.runs.write import EXPLAIN


def watched(prepared: Prepared, out: Path, given: Mapping[str, Any]) -> Prepared:
    """The run with its policy watched as a command line asks for.

    Parameters
    ----------
    prepared
        The run.
    out
        Its folder, where ``explain.jsonl`` goes.
    given
        Arguments by name: ``explain``, ``dump_rounds``, ``dump_every``, ``dump_gz``, ``resume``.

    Raises
    ------
    InputError
        If the policy cannot be watched so, or the folder of states is in use.
    """
    explain, folder = bool(given.get("explain")), given.get("dump_rounds")
    rules = prepared.policy_options.rules
    if not (explain or folder is not None or rules.rules):
        return prepared

    from morph_opt.explain import Effort
    from morph_opt.round.decide import make_explainer
    from morph_opt.round.watch import ExplanationLog, RoundDumper, WatchedPolicy, Watcher

    _require_watchable(prepared, explain, folder is not None)
    watchers: list[Watcher] = []
    if folder is not None:
        models = sorted({job.model for job in prepared.trace.jobs})
        watchers.append(
            RoundDumper(
                folder,
                None if prepared.scenario.scheduler.learns else prepared.belief,
                prepared.scenario.cluster,
                models,
                rules,
                pairs=prepared.scenario.scheduler.packing,
                every=given.get("dump_every", 1),
                compress=bool(given.get("dump_gz")),
                resume=given.get("resume") is not None,
            )
        )

    if explain:
        # Prices of the solve that is there; what is displaced is found when a job is asked about.
        explainer = make_explainer(prepared.policy_options, Effort(jobs=0))
        watchers.append(ExplanationLog(out / EXPLAIN, explainer))
    asked = None
    if rules.rules:
        asked = make_explainer(prepared.policy_options)
    return replace(prepared, policy=WatchedPolicy(prepared.policy, watchers, asked))


def _require_watchable(prepared: Prepared, explain: bool, dump: bool) -> None:
    options = prepared.scenario.scheduler
    if dump and any(job.requested_plan.family is PlanFamily.EST for job in prepared.trace.jobs):
        rule = "states have no place for the speeds of workers that take turns"
        raise InputError(rule, field="--dump-rounds")
    if dump and options.learns and options.policy != "milp":
        rule = f"what {options.policy!r} has learnt is not known; with {options.learns} milp only"
        raise InputError(rule, field="--dump-rounds")
    if explain and options.policy != "milp":
        rule = f"explains the policy milp only, not {options.policy!r}"
        raise InputError(rule, field="--explain")
