"""Watchers of a policy: write states, explain rounds, name rules in conflict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from morph_opt.core.documents import LINES_BYTES, exists, parse_json, read_text, write_atomically
from morph_opt.core.domain import Cluster, InputError, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.round.snapshot import SPEEDS_SCHEMA, state_to_json, write_document
from morph_opt.round.speeds import table_of, table_to_json
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.explanation.explainer import Explainer
from morph_opt.scheduling.explanation.report import UnexplainedError
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.milp import InfeasibleRoundError

SPEEDS = "speeds.json"


class Watcher(Protocol):
    """Observer that is called with every round."""

    def observe(self, state: RoundState) -> None:
        """Take in a round that a resumed replay repeats."""
        ...

    def decided(self, state: RoundState, decision: Decision) -> None:
        """Take in a round that has just been decided."""
        ...


class WatchedPolicy(Policy):
    """Policy that decides as another one does, and calls watchers.

    Parameters
    ----------
    policy
        Policy that decides.
    watchers
        Called after each decision, in order.
    explainer
        Explainer that finds the rules in conflict if a round has no decision; None for none.
    """

    def __init__(
        self, policy: Policy, watchers: Sequence[Watcher], explainer: Explainer | None = None
    ) -> None:
        self.name = policy.name
        self._policy = policy
        self._watchers = tuple(watchers)
        self._explainer = explainer

    def observe(self, state: RoundState) -> None:
        """Pass on a round that is decided elsewhere."""
        self._policy.observe(state)
        for watcher in self._watchers:
            watcher.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """Return the policy's decision.

        Raises
        ------
        RuleConflictError
            If operator's rules leave none.
        """
        try:
            decision = self._policy.decide(state)
        except InfeasibleRoundError as error:
            found = None if self._explainer is None else self._explainer.conflict(error.posed)
            raise (found or error) from error
        for watcher in self._watchers:
            watcher.decided(state, decision)
        return decision


class RoundDumper:
    """Writer of the states of rounds, one file each, and one file of speeds.

    Parameters
    ----------
    folder
        Folder, made on first use; it must be empty unless a run is resumed.
    speeds, cluster, models
        Speeds that the policy believes, for these models on this cluster. They are None for a
        belief that learns: then every round has its own file of speeds.
    rules
        Operator's rules.
    pairs
        Whether to write speeds of pairs of jobs as well.
    every
        Step between the numbers of written rounds.
    compress
        Whether to write ``.json.gz``.
    resume
        Whether the folder may hold files of the run that is being finished.

    Raises
    ------
    InputError
        If the folder is in use or cannot be written, or ``every`` is below 1.
    """

    def __init__(
        self,
        folder: Path,
        speeds: SpeedModel | None,
        cluster: Cluster,
        models: Iterable[str],
        rules: OperatorRules | None = None,
        *,
        pairs: bool = False,
        every: int = 1,
        compress: bool = False,
        resume: bool = False,
    ) -> None:
        if every < 1:
            raise InputError(f"must be at least 1, got {every}", field="--dump-every")
        self._folder = folder
        self._every = every
        self._suffix = ".json.gz" if compress else ".json"
        self._rules = rules if rules is not None and rules != OperatorRules() else None
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file, not a folder", file=str(folder), field="--dump-rounds")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            used = any(folder.iterdir())
        except OSError as error:
            rule = f"cannot be written ({error.strerror})"
            raise InputError(rule, file=str(folder), field="--dump-rounds") from error
        if used and not resume:
            raise InputError("the folder is not empty", file=str(folder), field="--dump-rounds")
        self._about = cluster, tuple(models), pairs
        self._learns = speeds is None
        if speeds is not None:
            self._write_speeds(speeds, SPEEDS)

    def observe(self, state: RoundState) -> None:
        """Write the state of a repeated round again.

        The speeds of a belief that learns cannot be written again: a state without them is not
        written.
        """
        if self._rules is not None and self._rules.usage is not None:
            return  # what queues had used by then is known to its first decision alone
        if not self._learns or not state.jobs or exists(self._folder / self._speeds_of(state)):
            self._write(state, self._rules)

    def decided(self, state: RoundState, decision: Decision) -> None:
        """Write the state of a decided round, and the speeds of a belief that learns."""
        evidence = decision.evidence
        if self._learns and evidence is not None and state.index % self._every == 0:
            self._write_speeds(evidence.posed.poser.belief, self._speeds_of(state))
        rules = self._rules
        if rules is not None and rules.usage is not None and evidence is not None:
            rules = evidence.posed.rules
        self._write(state, rules)

    def _speeds_of(self, state: RoundState) -> str:
        """Return the file of speeds by which a round is decided."""
        return f"speeds-{state.index:06d}.json" if self._learns else SPEEDS

    def _write_speeds(self, speeds: SpeedModel, name: str) -> None:
        cluster, models, pairs = self._about
        table = table_of(speeds, cluster, models, pairs=pairs)
        document = {"schema": SPEEDS_SCHEMA, **table_to_json(table)}
        write_document(self._folder / name, document)

    def _write(self, state: RoundState, rules: OperatorRules | None) -> None:
        if state.index % self._every == 0:
            path = self._folder / f"round-{state.index:06d}{self._suffix}"
            rows: dict[str, Any] = {"rows": []}
            speeds = {"file": self._speeds_of(state)} if state.jobs else rows
            write_document(path, state_to_json(state, speeds, rules))


class ExplanationLog:
    """Writer of the explanation of every decided round, as JSON lines.

    A resumed replay does not decide its recorded rounds again: their lines are kept, and all later
    ones are dropped.

    Parameters
    ----------
    path
        File to write; its folder must exist at the first decision.
    explainer
        Explainer of the policy.
    """

    def __init__(self, path: Path, explainer: Explainer) -> None:
        self._path = path
        self._explainer = explainer
        self._opened = False

    def observe(self, state: RoundState) -> None:
        """Skip a repeated round, which was explained when it was decided."""

    def decided(self, state: RoundState, decision: Decision) -> None:
        """Explain the round and append one line."""
        if not self._opened:
            self._keep_before(state.index)
            self._opened = True
        if decision.evidence is None:
            return
        try:
            found = self._explainer.explain(decision.evidence, decision.allocation).to_json()
        except UnexplainedError as error:
            found = {"round": state.index, "time_s": state.time_s, "error": str(error)}
        line = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _keep_before(self, index: int) -> None:
        """Cut the file after the last whole line of an earlier round."""
        text = read_text(self._path, LINES_BYTES) if exists(self._path) else ""
        kept: list[str] = []
        for line in text.split("\n")[:-1]:
            try:
                if parse_json(line, None)["round"] >= index:
                    break
            except (ValueError, KeyError, TypeError) as error:
                rule = "is no line of explanations"
                raise InputError(rule, file=str(self._path), line=len(kept) + 1) from error
            kept.append(line + "\n")
        write_atomically(self._path, "".join(kept))
