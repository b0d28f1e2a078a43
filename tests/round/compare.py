"""Random snapshots against enumeration: ``python -m tests.round.compare --rounds 5000 --seed 1``.

Every round is decided with both formulations, and by the ladder. Compared are whether the rules
allow anything, the speed of every request, whether all promises can be kept, the optimum, and that
the decision is one that the docs allow and worth what is claimed. ``--of requests`` draws rounds of
jobs with promises whose requests have many rows, of which some have no place; ``--of local-ssd``
those in which local SSD is scarce as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from morph_opt.round.decide import RoundDecision, decide_round
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.formulations.worlds.solving import EXACT, FORMULATIONS
from tests.round.enumeration import Best, World
from tests.round.random_snapshots import random_local_ssd, random_requests, random_snapshot

TOLERANCE = 2e-6

WAYS = (*FORMULATIONS, "ladder")
"""How rounds are decided here."""

Document = dict[str, Any]
Maker = Callable[[np.random.Generator], Document]

MAKERS: dict[str, Maker] = {
    "everything": random_snapshot,
    "requests": random_requests,
    "local-ssd": random_local_ssd,
}
"""Kinds of rounds that are drawn."""


def decided(document: Document, objective: str, way: str = "node_pattern") -> RoundDecision | None:
    """The engine's decision to a proven optimum; None where the rules contradict each other.

    By one of `WAYS`: the exact model in a formulation, or the ladder.
    """
    snapshot = parse_snapshot(json.dumps(document))
    poser = RoundPoser(snapshot.speeds, make_objective(objective), snapshot.rules)
    ladder = way == "ladder"
    method = Ladder(HighsSolver()) if ladder else ExactMip(HighsSolver(), way)
    policy = MilpPolicy(poser, method, EXACT)
    try:
        decision = policy.decide(snapshot.state)
    except InfeasibleRoundError:
        return None
    return RoundDecision(snapshot, "milp", PolicyOptions(objective=objective), decision)


def differences(document: Document, objective: str) -> Iterator[str]:
    """What the engine says otherwise than enumeration, in words."""
    world = World(document)
    best = world.best(objective)
    yield from _speeds_apart(world, document)
    if best is not None and best.promised is not None:
        yield from _weighed_apart(document, objective, best.promised)
    for way in WAYS:
        found = decided(document, objective, way)
        if (found is None) != (best is None):
            yield f"{way}: {'nothing' if found is None else 'something'} is allowed"
        elif found is not None and best is not None:
            yield from (f"{way}: {text}" for text in _apart(world, best, found, way, objective))


def _weighed_apart(document: Document, objective: str, promised: bool) -> Iterator[str]:
    """The same promises are possible, and kept if they are, where the others are weighed."""
    options = PolicyOptions(objective=objective, promises="weight", gap=0.0, time_limit_s=1e6)
    try:
        report = decide_round(parse_snapshot(json.dumps(document)), options).decision.report
    except InfeasibleRoundError:
        yield "weight: nothing is allowed"
        return
    if report.guarantees_possible is not promised or (promised and report.guarantees_short):
        found = report.guarantees_possible, report.guarantees_short
        yield f"weight: possible and short {found}, enumeration {promised}"


def _speeds_apart(world: World, document: Document) -> Iterator[str]:
    snapshot = parse_snapshot(json.dumps(document))
    builder, cluster = CandidateBuilder(snapshot.speeds), snapshot.state.cluster
    for index, known in enumerate(snapshot.state.jobs):
        asked_s = builder.request_iteration_s(known.job, cluster)
        if asked_s != world.asked_s(index):
            yield f"request of {known.job.name} {asked_s!r}, enumeration {world.asked_s(index)!r}"


def _apart(
    world: World, best: Best, found: RoundDecision, way: str, objective: str
) -> Iterator[str]:
    report = found.decision.report
    low, high = best.value
    # A rank above the objective holds up to a slack, which a bound may use and a decision may not.
    slack = 5 * TOLERANCE if best.promised is False else 0.0
    if way == "ladder":
        # What a solver proved for the ladder is stated with what the solver cannot see.
        slack = max(slack, 1.001 * DEFAULTS.tolerances.wide * DEFAULTS.tolerances.sure)
    if report.status != "optimal" and report.gap > slack:
        yield f"status {report.status}"
    if best.promised is not report.guarantees_possible:
        yield f"promises {report.guarantees_possible}, enumeration {best.promised}"
    if (report.guarantees_short > 0) is not (best.promised is False):
        yield f"{report.guarantees_short} promises broken, enumeration {best.promised}"
    decision = world.read(found.to_json())
    if not world.allows(decision):
        yield f"not allowed: {decision}"
    worth = sum(world.worth(option, objective) for option in decision)
    # A stay of which no speed is known is worth less than a solver sees.
    stays = (world.stay(job) for job in range(len(world.jobs)))
    nothing = sum(world.worth(s, objective) for s in stays if s.kind == "stay" and s.row is None)
    for name, value in (("claims", report.objective), ("is worth", worth)):
        slack = TOLERANCE * max(abs(low), abs(high)) + nothing
        if not low - slack <= value <= high + slack:
            yield f"{name} {value!r}, enumeration {low!r} to {high!r}"
    settled = sum(world.settled(option) for option in decision)
    if best.promised is False and settled < best.settled * (1 - TOLERANCE * 2):
        yield f"promises settled {settled!r} of {best.settled!r}"


def drawn(seed: int, number: int, make: Maker = random_snapshot) -> tuple[Document, str]:
    """The snapshot of a number, and its objective."""
    draw = np.random.default_rng((seed, number))
    return make(draw), str(draw.choice(["throughput", "jct"]))


def features(document: Document) -> set[str]:
    """What a snapshot has, to see that all of it is tried."""
    world = World(document)
    found = {f"rule {word}" for word in world.rules}
    for job in range(len(world.jobs)):
        stay = world.stay(job)
        if stay.kind == "stay":
            found.add(f"runs in a {world.span([node for node, _ in stay.parts])}")
            found |= {"runs where no row is"} if stay.row is None else set()
            if any(world.nodes[node]["status"] == "drained" for node, _ in stay.parts):
                found.add("runs on a drained node")
        found |= {"promise"} if world.jobs[job]["guaranteed"] else set()
        mine = [row for row in document["speeds"]["rows"] if world.asks(job, row)]
        if mine:
            least = min(row["iteration_s"] for row in mine)
            placed = any(row["iteration_s"] == world.asked_s(job) for row in mine)
            found |= (
                {"request whose fastest row has no place"} if least < world.asked_s(job) else set()
            )
            found |= set() if placed else {"request without a place"}
    found |= {f"row {row.get('span', 'any')}" for row in document["speeds"]["rows"]}
    found |= {f"node {node['status']}" for node in world.nodes.values()}
    found |= {"uplink"} if document["cluster"]["leaves"] else set()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.round.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changes", action="store_true", help="changed snapshots instead")
    parser.add_argument("--of", choices=MAKERS, default="everything", help="kind of the rounds")
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    asked = parser.parse_args(arguments)
    numbers = range(asked.first, asked.first + asked.rounds)
    return _changes(asked.seed, numbers) if asked.changes else _enumerate(asked, numbers)


def _changes(seed: int, numbers: range) -> int:
    from tests.round.metamorphic import violations

    tried: Counter[str] = Counter()
    wrong = 0
    for number in numbers:
        for name, text in violations(seed, number):
            tried[name] += 1
            wrong += bool(text)
            if text:
                print(f"seed {seed}, {text}", flush=True)
    print(f"{len(numbers)} rounds of seed {seed}, {tried.total()} changed, {wrong} wrong")
    print("changes: " + ", ".join(f"{name} {count}" for name, count in sorted(tried.items())))
    return int(bool(wrong))


def _enumerate(asked: argparse.Namespace, numbers: range) -> int:
    seed = asked.seed
    seen: Counter[str] = Counter()
    wrong = 0
    for number in numbers:
        document, objective = drawn(seed, number, MAKERS[asked.of])
        seen.update(features(document))
        found = list(differences(document, objective))
        wrong += bool(found)
        for text in found:
            print(f"round {number} of seed {seed}, {objective}: {text}", flush=True)
    print(f"{len(numbers)} rounds of seed {seed}, {wrong} with differences")
    print("rounds with: " + ", ".join(f"{word} {seen[word]}" for word in sorted(seen)))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
