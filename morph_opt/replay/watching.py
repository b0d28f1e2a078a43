"""Views of a run that do not change it: ``--explain``, ``--dump-rounds``, reasons afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.domain import InputError, PlanFamily, RoundState
from morph_opt.core.domain.units import HOUR_S
from morph_opt.replay.prepare import Prepared, prepare
from morph_opt.replay.run import recorded_decision
from morph_opt.scheduling.policies.base import Decision
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.events.log import Event, RoundDecided
from morph_opt.simulation.runs.write import EXPLAIN

if TYPE_CHECKING:
    from morph_opt.replay.scenario import Scenario


def watched(prepared: Prepared, out: Path, given: Mapping[str, Any]) -> Prepared:
    """Attach the watchers that the command line asks for to the run's policy.

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

    from morph_opt.round.decide import make_explainer
    from morph_opt.round.watch import ExplanationLog, RoundDumper, WatchedPolicy, Watcher
    from morph_opt.scheduling.explanation.report import Effort

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
        # Prices of this solve only; displaced jobs are searched when a job is asked about.
        explainer = make_explainer(prepared.policy_options, Effort(jobs=0))
        watchers.append(ExplanationLog(out / EXPLAIN, explainer))
    asked = None
    if rules.rules:
        asked = make_explainer(prepared.policy_options)
    return replace(prepared, policy=WatchedPolicy(prepared.policy, watchers, asked))


def _require_watchable(prepared: Prepared, explain: bool, dump: bool) -> None:
    options = prepared.scenario.scheduler
    if dump and any(job.requested_plan.family is PlanFamily.EST for job in prepared.trace.jobs):
        rule = "cannot store the speeds of workers that take turns"
        raise InputError(rule, field="--dump-rounds")
    if dump and options.learns and options.policy != "milp":
        rule = f"needs the policy milp with {options.learns}, not {options.policy!r}"
        raise InputError(rule, field="--dump-rounds")
    if explain and options.policy != "milp":
        rule = f"explains the policy milp only, not {options.policy!r}"
        raise InputError(rule, field="--explain")


# ---------------------------------------------------------------- after the run


def require_explained(policy: str, folder: Path | None = None) -> None:
    """Refuse to explain decisions of policies other than ``milp``.

    Raises
    ------
    InputError
        Unless the policy is ``milp``.
    """
    if policy != "milp":
        rule = f"explains the policy milp only, not {policy!r}"
        raise InputError(rule, file=None if folder is None else str(folder))


def round_at(events: Iterable[Event], at_s: float) -> RoundDecided:
    """Return the round at an instant, or the next one after it.

    Raises
    ------
    InputError
        If the run has none.
    """
    for event in events:
        if isinstance(event, RoundDecided) and event.time_s >= at_s:
            return event
    raise InputError(f"the run has no round at {at_s:g} s or later", field="at_s")


def repeated(
    prepared: Prepared, events: Sequence[Event], wanted: set[int]
) -> Iterator[tuple[RoundState, Decision]]:
    """Yield state and recorded decision of these rounds; `observe` is called for all others.

    Raises
    ------
    InputError
        If the log does not follow from the run's inputs.
    """
    scenario = prepared.scenario
    engine = Engine(
        prepared.trace,
        scenario.cluster,
        prepared.truth,
        scenario.engine,
        prepared.node_events(),
        prepared.jobs.initial,
    )
    chunk: list[Event] = []
    for event in events:
        chunk.append(event)
        if not isinstance(event, RoundDecided):
            continue
        state = engine.advance()
        if state is None or state.index != event.index:
            raise InputError("does not follow from the run's inputs", field="events")
        decision = recorded_decision(state, chunk)
        if state.index in wanted:
            yield state, decision
        else:
            prepared.policy.observe(state)
        if event.index >= max(wanted):
            return
        engine.apply(decision)
        engine.take_events()
        chunk = []


def reasons(
    scenario: Scenario, events: Sequence[Event], wanted: set[int], job: str
) -> Iterator[str]:
    """Yield the reason for a job's allocation in each of these rounds, by solving them again.

    Raises
    ------
    InputError
        If the log does not follow from the run's inputs, or the job is in none of the rounds.
    """
    from morph_opt.round.decide import make_explainer
    from morph_opt.scheduling.explanation.report import Effort, UnexplainedError
    from morph_opt.scheduling.explanation.text import job_text

    prepared = prepare(scenario)
    explainer = make_explainer(prepared.policy_options, Effort(jobs=0, named=(job,)))

    def told() -> Iterator[tuple[float, str]]:
        for state, decided in repeated(prepared, events, wanted):
            again = prepared.policy.decide(state)
            if again.evidence is None:
                continue
            try:
                text = job_text(explainer.explain(again.evidence, again.allocation), job)
            except UnexplainedError as error:
                text = f"{job}: {error}"
            if again.allocation.by_job().get(job) != decided.allocation.by_job().get(job):
                text += "\n(solved again, it gets something else: a tie or a time limit)"
            yield state.time_s, text

    return at_each(told())


def reason_at(scenario: Scenario, events: Sequence[Event], job: str, at_s: float) -> str:
    """Explain one round of a replay.

    Raises
    ------
    InputError
        If the policy is not ``milp``, or there is no such round or job.
    """
    require_explained(scenario.scheduler.policy)
    wanted = {round_at(events, at_s).index}
    found = list(reasons(scenario, events, wanted, job))
    if not found:
        raise InputError("the round has no jobs", field="job")
    return found[-1]


def at_each(told: Iterable[tuple[float, str]]) -> Iterator[str]:
    """Yield a line per instant; a repeated text becomes ``the same``."""
    last = ""
    for time_s, text in told:
        shown = "the same" if text == last else text.replace("\n", "\n  ")
        yield f"at {hours(time_s)}: {shown}"
        last = text


def hours(time_s: float) -> str:
    """Format an instant in hours."""
    return f"{time_s / HOUR_S:.2f} h"
