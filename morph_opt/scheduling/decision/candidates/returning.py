"""Prices of starts: candidates in which a job returns to its plan or to its nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.round.returns import ReturnTable
from formulations.round.rules import with_returns
from morph_opt.core.domain import Cluster
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.decision.candidates.table import RoundView


def with_start_prices(view: RoundView, cluster: Cluster) -> RoundView:
    """Return the round with prices of starts; rules and pairs must be in it already.

    A job that has GPUs in a plan, or had, may start in it for the price of a migration. A queued
    job may also return to the nodes that it had, as many GPUs on each, for the price of a
    resumption: an option of its own, as only the model knows whether these nodes are free. Gangs
    that are a number of GPUs without a shape (loose) have no such option and pay a migration.
    """
    candidate: list[int] = []
    price_s: list[float] = []
    nodes: list[tuple[int, ...]] = []
    if not any(view.keeps):
        return view
    loose = view.problem.candidates.loose
    for job, keeps in enumerate(view.keeps):
        if keeps is None:
            continue
        known = view.states[job]
        kept, prices = known.kept, known.prices
        assert kept is not None
        where, first = kept.placement, int(view.offset[job])
        kind = cluster.nodes[where.nodes[0]].type
        span = int(topology_of(cluster).span(where.nodes))
        by_size = tuple(n for _, n in sorted((-len(gpus), node) for node, gpus in where.parts))
        for row, scoped in enumerate(view.slices[job].rows):
            if (scoped.row.plan, scoped.row.shape.gpus) != keeps:
                continue
            candidate.append(first + row)
            price_s.append(prices.migrate_s)
            nodes.append(())
            same = scoped.row.shape == where.shape and int(scoped.scope) == span
            index = int(view.slices[job].node_class[row])
            if (
                known.running is None
                and same
                and not loose[first + row]
                and cluster.node_types[index] == kind
            ):
                candidate.append(first + row)
                price_s.append(prices.resume_s)
                nodes.append(by_size)
    if not candidate:
        return view
    returns = ReturnTable(
        np.asarray(candidate, dtype=np.int64),
        np.asarray(price_s),
        np.concatenate([[0], np.cumsum([len(where) for where in nodes])]).astype(np.int64),
        np.asarray([node for where in nodes for node in where], dtype=np.int64),
    )
    return replace(view, problem=with_returns(view.problem, returns))
