"""How many nodes: `nodes`, and when a fleet breaks: `growth`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from morph_opt.domain import Cluster, InputError
from morph_opt.domain.cluster import MOST_NODES
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import EXPLORATION, Ask, node_type_of, split
from morph_opt.plan.search import HEADER, Search, Target
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import needed, share_at_least, share_interval
from morph_opt.replay.scenario import Scenario


def _seeds(given: Sequence[int] | None, target: Target, exploration: int) -> Sequence[int]:
    """The workloads' seeds; as many as five attempts of a confirmation need."""
    if given is not None:
        return given
    fresh = sum(needed(target.share, target.confidence, k) for k in range(1, 6))
    return range(exploration + fresh)


def nodes(
    ask: Ask,
    slo: Slo | str,
    *,
    node_type: str | None = None,
    gpus_per_node: int | None = None,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    most: int = 64,
    exploration: int = EXPLORATION,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """The smallest number of equal nodes that keeps an SLO.

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
    most
        Largest number that is tried.
    exploration, seeds
        Workloads to explore with, and the seeds of all; None: as many as are needed.

    Raises
    ------
    InputError
        If no number up to ``most`` reaches the SLO, or there are too few workloads.
    """
    target = Target(slo if isinstance(slo, Slo) else Slo.parse(slo), of_workloads, confidence)
    if not 1 <= most <= MOST_NODES:
        raise InputError(f"must be from 1 to {MOST_NODES}, got {most}", field="--max-nodes")
    kind = node_type_of(node_type, gpus_per_node)
    source, base = ask.source(), ask.base
    explored, fresh = split(_seeds(seeds, target, exploration), exploration)

    def at(size: int, seed: int) -> Scenario:
        return source.put(base.replaced(cluster=Cluster.uniform(size, kind)), seed)

    search = Search(ask.evaluator("nodes"), target, at, explored, fresh, most)
    found = search.run()
    proof = max(
        (t for t in search.tested if t.size == found and t.stage != "explore"),
        key=lambda t: t.stage,
    )
    below = search.said_of(found - 1)
    said = [f"{found} nodes of {kind.name} reach {target}"]
    said.append(f"confirmed on {proof.asked} fresh workloads, {proof.count} of which pass")
    if below:
        said.append(below)
    figures = {
        "nodes": found, "confirmed_on": proof.asked, "confirmed_passed": proof.count,
        "attempts": int(proof.stage.rpartition(" ")[2]),
        "replays": sum(v.decided_by in ("replay", "failure") for t in search.tested
                       for v in t.verdicts),
        "refused_by_bounds": sorted(
            {t.size for t in search.tested
             if t.verdicts and all(v.decided_by not in ("replay", "failure") for v in t.verdicts)}
        ),
    }  # fmt: skip
    notes = (*search.notes, *((source.note,) if source.note else ()))
    asked = ask.asked(
        slo=str(target.slo), node_type=kind.name, of_workloads=of_workloads,
        confidence=confidence, max_nodes=most, exploration=len(explored),
        first_seed=explored[0] if explored else None,
    )  # fmt: skip
    return Answer("nodes", asked, tuple(said), figures, HEADER, search.rows(), notes)


GROWTH = ("load", "workloads", "passed", "lower", "upper", "verdict", "decided_by")


def growth(
    ask: Ask,
    slo: Slo | str,
    loads: Sequence[float],
    *,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """The first load factor at which an SLO no longer holds on a fleet.

    Each load is tested once, on the same seeds, so that a larger load has the jobs of a smaller one
    and more; the loads together err with at most ``1 - confidence`` (Bonferroni).

    Raises
    ------
    InputError
        If there are too few workloads for the statement, or the loads do not ascend.
    """
    target = Target(slo if isinstance(slo, Slo) else Slo.parse(slo), of_workloads, confidence)
    if not loads or any(b <= a for a, b in pairwise(loads)):
        raise InputError("must ascend", field="--load")
    sure = 1.0 - (1.0 - confidence) / len(loads)
    count = needed(of_workloads, 1.0 - 2.0 * (1.0 - sure))
    given = tuple(seeds) if seeds is not None else tuple(range(count))
    if len(given) < count:
        rule = f"{len(given)} workloads are fewer than the statement needs: {count} for each load"
        raise InputError(rule, field="workloads")
    evaluator, base = ask.evaluator("growth"), ask.base
    rows: list[list[str | int | float | None]] = []
    breaks: float | None = None
    notes: list[str] = []
    for load in loads:
        source = ask.source(ask.load * load)
        verdicts = evaluator.verdicts([source.put(base, seed) for seed in given], target.slo)
        passed = sum(verdict.passed for verdict in verdicts)
        low, high = share_interval(passed, len(verdicts), confidence)
        holds = share_at_least(passed, len(verdicts), sure) >= of_workloads
        by = sorted({verdict.decided_by for verdict in verdicts})
        row: list[str | int | float | None] = [load, len(verdicts), passed, low, high]
        rows.append([*row, "holds" if holds else "not shown", " ".join(by)])
        if not holds and breaks is None:
            breaks = load
        elif holds and breaks is not None:
            notes.append(f"not monotone: {target.slo} holds again at a load of {load:g}")
    fleet = ask.whole_cluster.name
    if breaks is None:
        said = f"{fleet} keeps {target} at every load up to x{loads[-1]:g}"
    else:
        said = f"{fleet} keeps {target} below a load of x{breaks:g}"
    note = ask.source().note
    asked = ask.asked(
        slo=str(target.slo), loads=list(loads), of_workloads=of_workloads, confidence=confidence
    )
    figures = {"breaks_at": breaks, "workloads": len(given)}
    return Answer("growth", asked, (said,), figures, GROWTH, rows, (*notes, *filter(None, [note])))
