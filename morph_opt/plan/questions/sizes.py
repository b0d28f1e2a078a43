"""Question `nodes`: how many equal nodes keep an SLO?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from morph_opt.core.domain import Cluster, NodeType
from morph_opt.core.domain._validate import require_int
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.cluster import MOST_NODES
from morph_opt.core.domain.errors import typed
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask, node_type_of
from morph_opt.plan.evaluate import EARLY, Verdict
from morph_opt.plan.parameters import SEARCH
from morph_opt.plan.search import HEADER, Search, Trial, counted
from morph_opt.plan.statement import Target
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.slo import Slo


def nodes(
    ask: Ask,
    slo: Slo | str,
    *,
    node_type: str | None = None,
    gpus_per_node: int | None = None,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    indifference: float | None = None,
    most: int = 64,
    exploration: int = SEARCH.exploration,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """Find the smallest number of equal nodes that keeps an SLO.

    Parameters
    ----------
    ask
        Trace, policy and so on.
    slo
        For example ``"p90 queued_s <= 900"``.
    node_type, gpus_per_node
        GPU type and GPUs of a node; None for those of the catalog's A800 node.
    of_workloads, confidence
        The SLO is to hold in at least this share of workloads, with this confidence.
    indifference
        Margin above the share that the test must detect; None for 0.05 or, if less, half of what is
        left above the share (`morph_opt.plan.sequential`).
    most
        Largest number that is tried.
    exploration, seeds
        Number of workloads to explore with, and seeds of all; None for as many as needed.

    Raises
    ------
    InputError
        If no number up to ``most`` reaches the SLO, or there are too few workloads.
    """
    require_type("ask", ask, Ask)
    target = Target.of(slo, of_workloads, confidence, indifference)
    require_int("--max-nodes", most, at_least=1, at_most=MOST_NODES)
    kind = node_type_of(node_type, gpus_per_node)
    explored, fresh = target.workloads(seeds, exploration)
    ask, trust = ask.trusted("nodes", there=False)
    source, base = ask.source(), ask.scenario

    def at(size: int, seed: int) -> Scenario:
        return source.put(base.replaced(cluster=Cluster.uniform(size, kind)), seed)

    search = Search(ask.evaluator("nodes"), target, at, explored, fresh, most)
    found = search.run()
    asked = ask.asked(
        slo=str(target.slo),
        node_type=kind.name,
        of_workloads=of_workloads,
        confidence=confidence,
        indifference=target.margin,
        max_nodes=most,
        exploration=len(explored),
        first_seed=explored[0] if explored else None,
    )
    said, figures = _sentences(search, found, kind.name), _figures(search, found)
    notes = (*search.notes, *source.notes, *_assumed(kind, node_type, gpus_per_node))
    return Answer("nodes", asked, said, figures, HEADER, search.rows(), notes, preface=trust.lines)


def _assumed(kind: NodeType, named: str | None, gpus: int | None) -> tuple[str, ...]:
    """Return a note on the assumed node type, with the options that name another."""
    wanted = {"--gpus-per-node": gpus, "--node-type": named}
    missing = [typed(option) for option, value in wanted.items() if value is None]
    if not missing:
        return ()
    return (
        f"a node is taken to be {kind.gpus} x {kind.gpu_type.name}: "
        f"name another with {' and '.join(missing)}",
    )


def _sentences(search: Search, found: int, kind: str) -> tuple[str, ...]:
    proof, target = _proof(search, found), search.target
    missed = target.design(_level(proof)).missed
    gpus = search.at(found, 0).cluster.gpus
    said = (
        f"{counted(found)} of {kind} ({gpus} GPUs) reach{'es' * (found == 1)} {target}",
        f"confirmed on {proof.asked} fresh workloads, {proof.count} of which pass; a size that "
        f"reaches it in {100 * (target.share + target.margin):g} % is missed with {missed:.1%}",
        search.text_of(found - 1),
    )
    return tuple(filter(None, said))


def _proof(search: Search, found: int) -> Trial:
    proof = search.confirmation(found)
    assert proof is not None
    return proof


def _level(proof: Trial) -> int:
    return int(proof.stage.rpartition(" ")[2])


def _figures(search: Search, found: int) -> dict[str, Any]:
    proof = _proof(search, found)
    tested = [trial for trial in search.tested if trial.verdicts]
    by_bounds = {trial.size for trial in tested if not any(map(_ran, trial.verdicts))}
    return {
        "nodes": found,
        "confirmed_on": proof.asked,
        "confirmed_passed": proof.count,
        "attempts": _level(proof),
        "replays": sum(_ran(verdict) for trial in search.tested for verdict in trial.verdicts),
        "refused_by_bounds": sorted(by_bounds),
    }


def _ran(verdict: Verdict) -> bool:
    return verdict.decided_by in ("replay", EARLY, "failure")
