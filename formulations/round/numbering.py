"""Numbering of a round's options: candidates, shared options, returns, then stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_rows, gathered, joined, no_floats, no_ints
from formulations.resources import UPLINK
from formulations.round.base_tables import HoldTable, JobTable, NodeTable
from formulations.round.candidates import CandidateTable, Scope, amounts, per_unit
from formulations.round.options import ClassGpus, Held, MemberTable, OptionTable
from formulations.round.returns import ReturnTable
from formulations.round.shared import SharedTable


class Tables(NamedTuple):
    """Tables of a round that determine its options."""

    jobs: JobTable
    candidates: CandidateTable
    nodes: NodeTable
    holds: HoldTable
    shared: SharedTable
    returns: ReturnTable


def options_of(tables: Tables) -> OptionTable:
    """Return the options: candidates, shared ones, those on named nodes, then stays."""
    jobs, table, shared = tables.jobs, tables.candidates, tables.shared
    nodes, holds = tables.nodes, tables.holds
    count = table.count + shared.count + tables.returns.options
    stay = np.full(jobs.count, -1, dtype=np.int64)
    running = np.flatnonzero(jobs.running).astype(np.int64)
    stay[running] = np.arange(count, count + running.size)
    members, held = _members(tables, running, stay), _held(tables, stay)
    starts = _starts(tables, held)
    # From the templates, so that the columns of all candidates are not stored twice.
    rows, which = starts.templates
    node_class = gathered(rows.node_class, which, np.zeros(running.size, dtype=np.int64))
    node_class[stay[holds.job]] = nodes.node_class[holds.node]
    gpus = gathered(rows.gpus.astype(np.float64), which, np.zeros(running.size))
    np.add.at(gpus, stay[holds.job], holds.demand[:, 0])
    gang = shared.gang if shared.gang.size else np.arange(jobs.count, dtype=np.int64)
    possible = np.ones(count + running.size, dtype=bool)
    if count > table.count:
        possible[held.option[~_may_come(tables, starts, members, held)]] = False
        possible[table.count + shared.count + np.flatnonzero(~_may_be_there(tables))] = False
    alone = count == table.count  # every option is of one job: columns equal the members'
    job = members.job if alone else np.concatenate([starts.job, running])
    mixed, worst = _mixed(tables, starts, held, node_class), _worst_side(tables, starts, held)
    return OptionTable(
        starts, members, held, job, node_class, gpus, mixed, worst, possible, stay, gang
    )


def _worst_side(tables: Tables, starts: CandidateTable, held: Held) -> Floats:
    nodes, (starts, _) = tables.nodes, starts.templates
    worst = np.zeros((nodes.classes, starts.side.shape[1]))
    side = starts.side_per_gpu
    at_rows(np.maximum, worst, starts.node_class, side)
    there, of_held = nodes.node_class[held.node], held.demand[:, 1:] / held.demand[:, :1]
    at_rows(np.maximum, worst, there, of_held)
    if starts.mixed.any():
        parts = np.flatnonzero(starts.mixed[starts.part_candidate])
        np.maximum.at(worst, starts.part_class[parts], side[starts.part_candidate[parts]])
    return worst


def _mixed(tables: Tables, starts: CandidateTable, held: Held, node_class: Ints) -> ClassGpus:
    """Return the GPUs per class of options on several classes; shared ones have one class."""
    classes, first = tables.nodes.classes, tables.candidates.count
    if tables.shared.count:
        held = held.take((held.option < first) | (held.option >= first + tables.shared.count))
    there = tables.nodes.node_class[held.node]
    if not starts.templates[0].mixed.any() and (there == node_class[held.option]).all():
        return ClassGpus(no_ints(), no_ints(), no_floats())
    option = np.concatenate([starts.part_candidate, held.option])
    where = np.concatenate([starts.part_class, there])
    several = np.zeros(node_class.size, dtype=bool)
    several[option[where != node_class[option]]] = True
    mine = several[option]
    gpus = np.concatenate([starts.part_gpus.astype(np.float64), held.demand[:, 0]])[mine]
    key, at = np.unique(option[mine] * classes + where[mine], return_inverse=True)
    total: Floats = np.zeros(key.size)
    np.add.at(total, at.reshape(-1), gpus)
    return ClassGpus(key // classes, key % classes, total)


def _members(tables: Tables, running: Ints, stay: Ints) -> MemberTable:
    table, jobs, shared, returns = (
        tables.candidates,
        tables.jobs,
        tables.shared,
        tables.returns,
    )
    back, first = returns.candidate[returns.placed], table.count + shared.count
    job = np.concatenate([table.job, shared.job, table.job[back], running])
    option = done = np.arange(table.count + running.size, dtype=np.int64)
    if shared.count or back.size:
        alone = done[: table.count]
        done = np.where(shared.candidate < 0, stay[shared.job], shared.candidate)
        done = np.concatenate([alone, done, back, stay[running]])
        option = np.concatenate(
            [alone, table.count + shared.option, first + np.arange(back.size), stay[running]]
        )
    rows, which = table.templates
    return MemberTable(
        option=option,
        job=job,
        iteration_s=gathered(
            rows.iteration_s,
            which,
            shared.iteration_s,
            rows.iteration_s[which[back]],
            jobs.stay_iteration_s[running],
        ),
        startup_s=startups(tables, job, done),
        alone=done,
        starts=done < table.count,
    )


def startups(tables: Tables, job: Ints, alone: Ints) -> Floats:
    """Return the start-up of each member in its option, shape (M,)."""
    table, jobs, returns = tables.candidates, tables.jobs, tables.returns
    if not (tables.shared.count or returns.count):
        return gathered(jobs.restart_s, table.job, jobs.restart_left_s[job[table.count :]])
    price = returns.prices(jobs.restart_s[table.job])
    startup_s = np.empty(job.size)
    startup_s[: table.count] = price  # candidates come first
    rest = alone[table.count :]
    at, left_s = np.minimum(rest, table.count), jobs.restart_left_s[job[table.count :]]
    startup_s[table.count :] = np.where(rest < table.count, np.append(price, 0.0)[at], left_s)
    placed = returns.startup_s[returns.placed]
    last = job.size - int(np.count_nonzero(jobs.running))
    startup_s[last - placed.size : last] = placed
    return startup_s


def _held(tables: Tables, stay: Ints) -> Held:
    """Return the holds of stays, then of shared options and of options on named nodes.

    Members of a shared option hold GPUs once and everything else each.
    """
    table, shared, holds = tables.candidates, tables.shared, tables.holds
    if not shared.count and not tables.returns.options:
        rows: Ints = np.arange(holds.count, dtype=np.int64)
        return Held(
            stay[holds.job], holds.job, holds.node, holds.demand, holds.uplink_gb_per_s, rows
        )
    first = shared.first[shared.candidate[shared.first] < 0]
    row, at = joined(holds.job, shared.job[first])
    option, node = shared.option[first][at], holds.node[row]
    demand = holds.demand[row].copy()
    beside = np.setdiff1d(np.flatnonzero(np.isin(shared.option, option)), first)
    place, entry = joined(option, shared.option[beside])
    comes = shared.candidate[beside[entry]] >= 0
    gpus, partner = demand[place[comes], 0], shared.candidate[beside[entry[comes]]]
    np.add.at(demand[:, 1:], place[comes], amounts(table.side[partner], gpus))
    key = holds.job * tables.nodes.count + holds.node
    there = shared.job[beside[entry[~comes]]] * tables.nodes.count + node[place[~comes]]
    theirs, which = joined(key, there)
    np.add.at(demand[:, 1:], place[~comes][which], holds.demand[theirs, 1:])
    leaf, some = tables.nodes.leaf[node], np.zeros(shared.count, dtype=np.int64)
    some[option] = leaf
    crosses = np.isin(option, option[leaf != some[option]])
    back = _held_again(tables)
    return Held(
        np.concatenate([stay[holds.job], table.count + option, back.option]),
        np.concatenate([holds.job, holds.job[row], back.job]),
        np.concatenate([holds.node, node, back.node]),
        np.concatenate([holds.demand, demand, back.demand]),
        np.concatenate(
            [
                holds.uplink_gb_per_s,
                np.where(crosses, demand[:, 1 + UPLINK], 0.0),
                back.uplink_gb_per_s,
            ]
        ),
        np.concatenate([np.arange(holds.count), row, back.of_stay]),
    )


def _held_again(tables: Tables) -> Held:
    """Return the holds of the options on named nodes."""
    table, returns = tables.candidates, tables.returns
    candidate = returns.candidate[returns.placed]
    rows = table.take(candidate)
    owner = rows.part_candidate
    return Held(
        table.count + tables.shared.count + returns.of_node,
        rows.job[owner],
        returns.node,
        rows.demands(slice(None)),
        rows.part_gpus * rows.sent_per_gpu[owner],
        np.full(owner.size, tables.holds.count),
    )


def _starts(tables: Tables, held: Held) -> CandidateTable:
    """Return the candidates, followed by rows for shared options and for named nodes."""
    found = _shared_starts(tables, held)
    if not tables.returns.options:
        return found
    back = tables.candidates.take(tables.returns.candidate[tables.returns.placed])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(found, name), getattr(back, name)])
        for name in ("job", "node_class", "iteration_s", "gpus", "side", "node_set")
    }
    none = np.zeros(back.count, dtype=np.int64)
    return replace(
        found,
        part_start=np.concatenate([found.part_start, none + found.part_start[-1]]),
        scope=np.concatenate([found.scope, none + int(Scope.NODE)]),
        strict=np.concatenate([found.strict, none > 0]),
        loose=np.concatenate([found.loose, none > 0]),
        **columns,
    )


def _shared_starts(tables: Tables, held: Held) -> CandidateTable:
    """Return the candidates, followed by rows for shared options."""
    table, shared = tables.candidates, tables.shared
    if not shared.count:
        return table
    host = shared.candidate[shared.first]
    fresh, size = host >= 0, shared.count
    rows = table.take(host[fresh])
    lengths, scope = np.zeros(size, dtype=np.int64), np.full(size, int(Scope.NODE))
    lengths[fresh], scope[fresh] = np.diff(rows.part_start), rows.scope
    comes = np.flatnonzero(shared.candidate >= 0)
    option, partner = shared.option[comes], shared.candidate[comes]
    side, strict = np.zeros((size, table.side.shape[1])), np.zeros(size, dtype=bool)
    node_set, node_class = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    gpus = np.zeros(size, dtype=np.int64)
    np.add.at(side, option, table.side[partner])
    # Each job has the speed of its own span: the option is strict if any of its jobs is.
    strict[option[table.strict[partner] & fresh[option]]] = True
    np.maximum.at(node_set, option, table.node_set[partner])
    gpus[fresh] = rows.gpus
    here = held.option >= table.count
    here &= held.option < table.count + size
    place = held.option[here] - table.count
    node_class[place] = tables.nodes.node_class[held.node[here]]
    node_class[option] = table.node_class[partner]
    side[place] = per_unit(held.demand[here, 1:], held.demand[here, 0])
    np.add.at(gpus, place, held.demand[here, 0].astype(np.int64))
    return CandidateTable(
        job=np.concatenate([table.job, shared.job[shared.first]]),
        node_class=np.concatenate([table.node_class, node_class]),
        iteration_s=np.concatenate([table.iteration_s, shared.iteration_s[shared.first]]),
        gpus=np.concatenate([table.gpus, gpus]),
        part_start=np.concatenate([table.part_start, table.part_start[-1] + np.cumsum(lengths)]),
        part_gpus=np.concatenate([table.part_gpus, rows.part_gpus]),
        side=np.concatenate([table.side, side]),
        scope=np.concatenate([table.scope, scope]),
        node_set=np.concatenate([table.node_set, node_set]),
        strict=np.concatenate([table.strict, strict]),
        part_class=np.concatenate([table.part_class, rows.part_class]),
        loose=np.concatenate([table.loose, np.zeros(size, dtype=bool)]),
    )


def _may_come(tables: Tables, starts: CandidateTable, members: MemberTable, held: Held) -> Bools:
    """Return whether all jobs of an option in place may be on each node it holds, (E,).

    For options on named nodes, `_may_be_there` checks the class.
    """
    nodes = tables.nodes
    comes = np.isin(held.option, members.option[members.starts])
    row = held.option[comes]
    usable = nodes.open[held.node[comes]]
    named = row >= tables.candidates.count + tables.shared.count
    usable &= (nodes.node_class[held.node[comes]] == starts.node_class[row]) | named
    usable &= nodes.sets[starts.node_set[row], held.node[comes]]
    found = np.ones(held.option.size, dtype=bool)
    found[comes] = usable
    return found


def _may_be_there(tables: Tables) -> Bools:
    """Return whether named nodes are of their parts' classes and scope, shape (R,)."""
    table, returns, nodes = tables.candidates, tables.returns, tables.nodes
    candidate, fine = returns.candidate[returns.placed], np.ones(returns.options, dtype=bool)
    fine[returns.of_node[nodes.node_class[returns.node] != table.take(candidate).part_class]] = (
        False
    )
    scope, strict = table.scope[candidate], table.strict[candidate]
    for place, within, beyond in (
        (nodes.domain, Scope.NVLINK, Scope.LEAF),
        (nodes.leaf, Scope.LEAF, Scope.POD),
    ):
        there, several = place[returns.node], np.zeros(returns.options, dtype=bool)
        first = there[np.searchsorted(returns.of_node, np.arange(returns.options))]
        several[returns.of_node[there != first[returns.of_node]]] = True
        fine &= ~(several & (scope == within)) & ~(~several & strict & (scope == beyond))
    return fine
