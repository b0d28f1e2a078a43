"""Turns of the controller: observe, remember, decide, compare, act, record."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from morph_opt.core.documents.fields import options_table
from morph_opt.core.domain import InputError
from morph_opt.core.version import __version__
from morph_opt.live.execution import Executor
from morph_opt.live.memory import Happened, Memory, read_memory, write_memory
from morph_opt.live.moving import NAME, Moving
from morph_opt.live.picture import Picture
from morph_opt.live.plan import difference, free_gpus, losses_of
from morph_opt.live.posed import posed
from morph_opt.live.record import COMMANDS, STATUS, Folder, digest, metrics_of, opted_in, status_of
from morph_opt.live.scheduler import AwayError, RefusedError, Scheduler
from morph_opt.live.settings import Settings
from morph_opt.round.decide import RoundDecision, decide_round
from morph_opt.round.reader import parse_snapshot
from morph_opt.round.snapshot import Snapshot, to_text
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.policies.options import PolicyOptions

OBSERVE, ADVISE, ACT = "observe", "advise", "act"
_BACK_OFF = 2.0
_MOST_BACK_OFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Mode:
    """Mode of a controller.

    Parameters
    ----------
    word
        ``observe``, ``advise`` or ``act``.
    policy, options, rules, measured
        Policy with its options, the operator's rules, and whether reports correct speeds.
    moves
        Answer of `moves` that is carried out in place of the policy's decisions; None for none.
    """

    word: str
    policy: str = "milp"
    options: PolicyOptions = field(default_factory=PolicyOptions)
    rules: OperatorRules = field(default_factory=OperatorRules)
    measured: bool = False
    moves: Moving | None = None


class Controller:
    """Controller that takes turns until it is stopped.

    Parameters
    ----------
    scheduler
        Client of the scheduler.
    settings, mode
        Powers and limits, and the mode.
    folder
        Folder of the controller.

    Raises
    ------
    InputError
        If a power is missing, the folder is in use, or another acts on the cluster.
    """

    def __init__(self, scheduler: Scheduler, settings: Settings, mode: Mode, folder: Path) -> None:
        if mode.word == ACT and not (settings.powers and settings.partitions):
            rule = "must name powers and partitions: all are off until they are named"
            raise InputError(rule, field="powers" if settings.partitions else "partitions")
        if mode.word != ACT and not settings.powers:
            shown = ("placement",) if mode.moves is None else ("placement", "stops")
            settings = replace(settings, powers=frozenset(shown))
        if mode.moves is not None:
            mode.moves.require_powers(settings.powers)
        self.scheduler, self.settings, self.mode = scheduler, settings, mode
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.memory: Memory = read_memory(folder)
        acts = mode.word == ACT
        if acts and self.memory.observed < settings.observe_turns:
            rule = f"{self.memory.observed} of {settings.observe_turns} turns were observed: "
            raise InputError(f"{rule}run live observe first", file=str(folder))
        self.folder = Folder(folder, settings.keep_rounds)
        try:
            if acts:
                self._leased()
        except BaseException:
            self.folder.close()
            raise
        self.executor = Executor(scheduler, settings, self.memory, self.folder, acts)
        self.last_s, self.last_seen = -1e18, ""
        self.last_texts: object = None
        self.leased_s, self.no_lease = -1e18, ""
        self.pending: list[Happened] = []
        self.unseen: Mapping[str, str] = {}
        self.begun = False

    def _leased(self) -> None:
        try:
            self.scheduler.take_lease(self.owner)
        except AwayError as error:
            raise InputError(f"does not answer: {error}", field=self.scheduler.server) from None

    def close(self) -> None:
        """Release the lease and unlock the folder."""
        try:
            if self.mode.word == ACT:
                self.scheduler.give_lease()
        except (AwayError, RefusedError):
            pass  # it expires
        finally:
            self.folder.close()

    def step(self) -> bool:
        """Observe once; return whether a turn was taken, as one was due or something had changed.

        Raises
        ------
        AwayError
            If the scheduler does not answer: nothing is done.
        InputError
            If its answers make no sense, or are of another cluster.
        """
        try:
            return self._step()
        except AwayError:
            self.memory.away_s = self.scheduler.clock()
            self.folder.counts["away"] += 1
            raise

    def _step(self) -> bool:
        began_s = time.perf_counter()
        answer = self.scheduler.ask()
        now_s = answer.time_s
        due = now_s - self.last_s >= self.settings.interval_s or self._settling(now_s)
        leased = self.mode.word != ACT or now_s - self.leased_s < self.settings.lease_s / 3.0
        if not due and leased and answer.seen == self.last_texts:
            return False
        picture = self.scheduler.observe(self.memory.submitted_s(), answer)
        if not self._keep_lease(picture):
            self.last_s = -1e18
            return False
        self._begin(picture)
        self.pending += self.memory.take(picture)
        seen = picture.fingerprint()
        self.last_texts = answer.seen
        if not due and seen == self.last_seen:
            return False
        self.last_s, self.last_seen = picture.time_s, seen
        self._turn(picture, time.perf_counter() - began_s)
        return True

    def _keep_lease(self, picture: Picture) -> bool:
        """Renew the lease in time; return False if it had to be taken anew.

        A slurmctld that was killed may have forgotten whose it is, and time has passed then.
        """
        if self.mode.word != ACT:
            return True
        self.leased_s, self.no_lease = picture.time_s, ""
        try:
            if not self.scheduler.renew_lease(self.owner, picture):
                self.scheduler.take_lease(self.owner)
                return False
        except InputError as error:
            self.no_lease = str(error)
        except (AwayError, RefusedError) as error:
            self.no_lease = f"the lease cannot be renewed: {error}"
        return True

    def _settling(self, now_s: float) -> bool:
        """Return whether a job that had to settle at the last turn may start now."""
        settle_s = self.settings.settle_s
        return any(
            known.phase == "waiting"
            and known.stop_s + settle_s <= now_s
            and known.stop_s + settle_s > self.last_s
            for known in self.memory.jobs.values()
            if known.stop_s
        )

    def _begin(self, picture: Picture) -> None:
        """Log the first line of this controller: policy, options and cluster."""
        if self.begun:
            return
        self.begun = True
        cluster = picture.live.snapshot.state.cluster
        self.folder.log(
            {
                "begin": self.mode.word,
                "time_s": picture.time_s,
                "version": __version__,
                "cluster": picture.cluster,
                "policy": self.mode.policy if self.mode.moves is None else NAME,
                "options": options_table(self.mode.options),
                "powers": sorted(self.settings.powers),
                "partitions": list(self.settings.partitions),
                "interval_s": self.settings.interval_s,
                "nodes": [[n.name, n.type.gpu_type.name, n.type.gpus] for n in cluster.nodes],
            }
        )

    def _turn(self, picture: Picture, read_s: float) -> None:
        began_s = time.perf_counter()
        turn = self.memory.turns
        found = posed(
            picture,
            self.memory,
            self.settings,
            self.mode.rules,
            marked=self.mode.word == ACT,
            measured=self.mode.measured,
        )
        text = to_text(found.document())
        name = self.folder.write_round(turn, text)
        # What is decided is what is kept: the document, as anybody reads it.
        snapshot = parse_snapshot(text, file=name)
        moves = self.mode.moves
        if moves is None:
            decision = decide_round(snapshot, self.mode.options, policy=self.mode.policy)
        else:
            decision = moves.decide(picture, found, snapshot, self.settings)
        planned = difference(picture, found, decision, self.memory, self.settings)
        evidence = decision.decision.evidence
        worth = None if evidence is None else evidence.gain
        decide_s = time.perf_counter() - began_s
        forbidden = self._forbidden(picture, decision)
        commands = self.executor.carry_out(planned, picture, forbidden)
        costs = losses_of(planned, found.snapshot.state, self.settings)
        stopped = {one["job"] for one in commands if one["outcome"] in ("did", "would")}
        costs = {job: lost for job, lost in costs.items() if job in stopped}
        if self.mode.word == ADVISE:
            lines = [f"TZ=UTC {line}" for one in commands for line in one.get("commands", ())]
            lines += [f"# {job} is not stopped: {why}" for job, why in found.unseen.items()]
            self.folder.write_text(COMMANDS, "".join(f"{line}\n" for line in lines))
        act_s = time.perf_counter() - began_s - decide_s
        seconds = {"read": read_s, "decide": decide_s, "act": act_s}
        more_gpus = _more_gpus(decision, snapshot)
        unused = self.memory.unused(picture.time_s, more_gpus)
        self.memory.turns += 1
        self.memory.observed += self.mode.word != ACT
        free = sum(free_gpus(picture).values())
        waits = sum(known.running is None for known in found.snapshot.state.jobs)
        late = decision.decision.report.late
        entry: dict[str, Any] = {
            "turn": turn,
            "time_s": picture.time_s,
            "round": name,
            "decision": digest(decision.to_json()),
            "status": decision.decision.report.status,
            "value": decision.value,
            "worth": worth,
            "jobs": len(snapshot.state.jobs),
            "waits": waits,
            "free_gpus": free,
            "would_use_gpus": more_gpus,
            **unused,
            **({"late": {one.job: one.why for one in late}} if late else {}),
            **({} if moves is None else {"moves": moves.to_json()}),
            **({"loses": costs} if costs else {}),
            "happened": self.pending,
            "not_stopped": {
                job: why for job, why in found.unseen.items() if self.unseen.get(job) != why
            },
            "commands": commands,
            "seconds": {name: round(took_s, 4) for name, took_s in seconds.items()},
        }
        self.folder.log(entry)
        self.pending, self.unseen = [], found.unseen
        write_memory(self.folder.path, self.memory)
        ours = opted_in(picture, self.settings)
        figures = metrics_of(entry, self.folder.counts, picture, self.memory, ours)
        self.folder.write_metrics(figures)
        left = found.left_alone
        said = [*status_of(entry, self.mode.word, picture.cluster, len(ours), left)]
        said += () if moves is None else moves.lines()
        self.folder.write_text(STATUS, "\n".join([*said, self.memory.sentence()]) + "\n")

    def _forbidden(self, picture: Picture, decision: RoundDecision) -> str:
        """Return why nothing may be changed in this turn; "" if it may."""
        if self.mode.word != ACT:
            return ""
        apart_s = abs(self.scheduler.clock() - picture.time_s)
        if apart_s > self.settings.clock_s + 1.0:  # it says whole seconds
            return f"the clocks are {apart_s:.0f} s apart"
        if self.no_lease:
            return self.no_lease
        return "" if decision.decision.report.status != "infeasible" else "infeasible"

    def run(self, turns: int | None, watch: bool) -> int:
        """Take turns until there are enough, or moves are over; return their number.

        Raises
        ------
        InputError
            If the scheduler does not answer the first time, or makes no sense.
        """
        taken, pause_s, answered = 0, self.settings.poll_s, False
        while self._continues(turns, taken):
            try:
                if self.step():
                    taken += 1
                    if watch:
                        status = (self.folder.path / STATUS).read_text("utf-8")
                        print(f"\x1b[H\x1b[2J{status}", end="", flush=True)
                pause_s, answered = self.settings.poll_s, True
            except AwayError as error:
                if not answered:
                    rule = f"does not answer: {error}"
                    raise InputError(rule, field=self.scheduler.server) from None
                pause_s = min(pause_s * _BACK_OFF, _MOST_BACK_OFF_S)
            if self._continues(turns, taken):
                self.scheduler.sleep(pause_s)
        return taken

    def _continues(self, turns: int | None, taken: int) -> bool:
        """Return whether there is another turn."""
        moves = self.mode.moves
        return (turns is None or taken < turns) and (moves is None or not moves.over)


def read_own_rules(file: str | None) -> OperatorRules:
    """Read the operator's rules of a file; return none without one."""
    return OperatorRules() if file is None else read_rules(file)


def _more_gpus(decision: RoundDecision, snapshot: Snapshot) -> int:
    """Return the number of GPUs that the decision uses beyond those in use."""
    now = sum(k.running.placement.gpus for k in snapshot.state.jobs if k.running is not None)
    return decision.decision.allocation.gpus - now
