"""Prices: by hand, against brute force, and by duality on random rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import SideDemand
from morph_opt.scheduling.explanation.prices import Prices
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.explanation.text import job_text
from morph_opt.scheduling.policies.objectives.plain import Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.explanation.worlds import ONE, UNIT, builder, by_job, explained
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import RoundSize, random_level, random_round
from tests.policies.worlds import EXACT, cluster, queued, random_world, running, speeds, state


def test_price_by_hand() -> None:
    """Two GPUs; jobs worth 3, 2, 2, 1 want one each: the third job sets the price."""
    jobs = [queued(n, weight=w) for n, w in (("a", 3.0), ("b", 2.0), ("c", 2.0), ("d", 1.0))]
    found = explained(ONE, state(cluster(2), *jobs), effort=Effort(9, 9, nodes=True))
    (price,) = found.prices
    assert price.gpu_price == pytest.approx(2 * UNIT)
    assert price.gpu_s_price == pytest.approx(2 * UNIT / 60.0)
    assert price.node_bound == pytest.approx(3 * UNIT)
    assert price.node_gain == pytest.approx(3 * UNIT)  # c and d, of whom d is worth one
    assert found.relaxation == pytest.approx(found.value) == pytest.approx(5 * UNIT)
    jobs_found = by_job(found)
    first = jobs_found["a"].granted
    assert first is not None
    assert (first.price, first.reduced) == (pytest.approx(2 * UNIT), pytest.approx(UNIT))
    assert dict(first.paid_for) == {"GPUs": pytest.approx(2 * UNIT)}
    last = jobs_found["d"]
    assert last.best is not None
    assert last.best.reduced == pytest.approx(-UNIT)
    assert last.reason == "price"
    assert last.displaces is not None
    assert last.displaces.cost == pytest.approx(UNIT)
    (loss,) = last.displaces.losses
    assert (loss.after, loss.loses) == ("queue", pytest.approx(2 * UNIT))
    waiting = next(jobs_found[name] for name in ("b", "c") if jobs_found[name].granted is None)
    assert waiting.reason == "tie"


def test_a_stay_pays_what_others_would_give_for_its_gpus() -> None:
    """Job a is worth far more than b and c, who wait for its node: any price up to 9 is a dual."""
    held = running("a", {0: [0, 1]}, gpus=1, model="p", weight=9.0)
    table = speeds({"m": {"1": 8.0}, "p": {"1": 8.0, "2": 8.0}})
    here = state(cluster(2), held, *(queued(n, weight=w) for n, w in (("b", 3.0), ("c", 1.5))))
    found = explained(table, here)
    granted = by_job(found)["a"].granted
    assert granted is not None
    assert found.prices[0].gpu_price > 0
    assert granted.price == pytest.approx(granted.gpus * found.prices[0].gpu_price)


def test_nothing_is_scarce_nothing_has_a_price() -> None:
    found = explained(ONE, state(cluster(2, 2), queued("a")), effort=Effort(nodes=True))
    (price,) = found.prices
    assert (price.gpu_price, price.node_bound, price.node_gain, price.nodes) == (0.0, 0.0, 0.0, 2)
    assert by_job(found)["a"].reason == "best"


def test_the_scarce_resource_is_named() -> None:
    """Eight GPUs but threads for two jobs: a third would pay for threads, not for GPUs."""
    table = speeds({"m": {"1": 8.0}}, SideDemand(cpus=8))
    here = state(cluster(8, cpus=16), *(queued(name) for name in "abc"))
    found = explained(table, here)
    assert sum(job.granted is not None for job in found.jobs) == 2
    waiting = next(job for job in found.jobs if job.granted is None)
    assert waiting.best is not None
    assert waiting.best.price == pytest.approx(UNIT)
    assert dict(waiting.best.paid_for) == {"CPU threads": pytest.approx(UNIT)}


@pytest.mark.parametrize("shape", ["1", "2"])
def test_local_ssd_is_named_where_it_limits(shape: str) -> None:
    """Eight GPUs, and local SSD for two jobs, however many GPUs a job has there."""
    table = speeds({"m": {shape: 8.0}})
    asked = [queued(name, gpus=int(shape), local_ssd_gib=40.0) for name in "abc"]
    found = explained(table, state(cluster(8, local_ssd_gib=90.0), *asked))
    assert sum(job.granted is not None for job in found.jobs) == 2
    waiting = next(job for job in found.jobs if job.granted is None)
    assert waiting.best is not None
    assert dict(waiting.best.paid_for) == {"local SSD": pytest.approx(waiting.best.price)}
    assert "for local SSD" in job_text(found, waiting.job)
    plenty = explained(table, state(cluster(8, local_ssd_gib=120.0), *asked))
    assert all(job.granted is not None for job in plenty.jobs)


def test_closed_nodes_have_no_price() -> None:
    here = state(cluster(2, 4), queued("a"), queued("b"), closed=[1])
    (price,) = explained(ONE, here).prices
    assert (price.node_type, price.nodes) == ("x2", 1)


@pytest.mark.parametrize("seed", range(25))
def test_price_lies_between_what_a_gpu_less_loses_and_one_more_gains(seed: int) -> None:
    """Jobs of one GPU on nodes of one GPU: the relaxation is tight, so brute force bounds it."""
    draw = np.random.default_rng(seed)
    weights = draw.integers(1, 9, int(draw.integers(1, 7))).astype(float).tolist()
    nodes = int(draw.integers(1, 6))
    jobs = [queued(f"j{i}", weight=w) for i, w in enumerate(weights)]
    found = explained(ONE, state(cluster(*(1,) * nodes), *jobs), effort=Effort(nodes=True))
    (price,) = found.prices

    def best(count: int) -> float:
        problem = builder(ONE).view(state(cluster(*(1,) * count), *jobs)).problem
        level = Throughput().levels(problem)[0]
        return oracle.best(problem, [level]).value(level)

    here = best(nodes)
    gains = best(nodes + 1) - here
    loses = here - (best(nodes - 1) if nodes > 1 else 0.0)
    assert gains - 1e-9 <= price.gpu_price <= loses + 1e-9
    assert price.gpu_price == pytest.approx(gains)
    assert price.node_gain == pytest.approx(gains)
    assert found.value == pytest.approx(here)


@pytest.mark.parametrize("seed", range(25))
def test_gain_of_a_node_is_that_of_brute_force(seed: int) -> None:
    table, here = random_world(np.random.default_rng(seed), rows=3)
    jobs = tuple(replace(s, job=replace(s.job, guaranteed=False)) for s in here.jobs[:3])
    here = replace(here, jobs=jobs)
    problem = builder(table).view(here).problem
    level = Throughput().levels(problem)[0]
    before = oracle.best(problem, [level]).value(level)
    found = explained(table, here, effort=Effort(0, 0, nodes=True))
    open_nodes = [n for n in range(problem.nodes.count) if problem.nodes.open[n]]
    kinds = [problem.nodes.node_class[n] for n in open_nodes]
    first = [n for i, n in enumerate(open_nodes) if kinds[i] not in kinds[:i]]
    assert len(found.prices) == len(first)
    for price, like in zip(found.prices, first, strict=True):
        one = replace(here.cluster.nodes[like], name="more")
        larger = replace(here.cluster, nodes=(*here.cluster.nodes, one))
        more = builder(table).view(replace(here, cluster=larger)).problem
        goal = Throughput().levels(more)[0]
        after = oracle.best(more, [goal]).value(goal)
        assert price.node_gain == pytest.approx(after - before, abs=1e-6)


# ---------------------------------------------------------------- duality on random rounds

SIZES = (
    RoundSize(),
    RoundSize(leaves=3),
    RoundSize(side_resources_bind=True),
    RoundSize(rules=2, node_sets=2),
)


def with_one_more_node(problem: RoundProblem, like: int, build: str) -> RoundProblem:
    """The tables with another idle, open node like node ``like`` and nothing else.

    Where nodes are counted, and no domain joins that one with another, it is one more such node.
    """
    nodes = problem.nodes
    joined = int((nodes.domain[nodes.open] == nodes.domain[like]).sum()) > 1
    named = build == "node_assignment"
    domain = nodes.domain[like] if joined or named else nodes.domain.max() + 1
    more = replace(
        nodes,
        node_class=np.append(nodes.node_class, nodes.node_class[like]),
        open=np.append(nodes.open, True),
        leaf=np.append(nodes.leaf, nodes.leaf[like]),
        domain=np.append(nodes.domain, domain),
        sets=np.column_stack([nodes.sets, nodes.sets[:, like]]),
    )
    return replace(problem, nodes=more)


def relaxation(problem: RoundProblem, level: Level, build: str) -> float:
    built = BUILDS[build](problem, level)
    return HighsSolver().solve(built.model.relaxed(), EXACT).bound


BUILDS = {"node_pattern": node_pattern.build, "node_assignment": node_assignment.build}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("seed", range(80))
def test_duality(seed: int, build: str) -> None:
    """Prices add up to A'y, reduced values are what rows one_config pay; none is negative.

    A node more in the same tables is worth at most its price to the relaxation (weak duality).
    """
    draw = np.random.default_rng(seed)
    problem = random_round(draw, SIZES[seed % len(SIZES)])
    level = random_level(draw, problem)
    built = BUILDS[build](problem, level)
    prices = Prices(problem, built, EXACT)
    tolerance = 1e-6 * max(1.0, prices.scale)
    assert prices.relaxation >= -tolerance
    block = next(b for b in built.model.row_blocks if b.family == "one_config")
    own = prices.duals[block.start : block.start + block.count]
    assert (own >= -tolerance).all()
    activity = built.model.matrix().T @ prices.duals
    surplus = np.zeros(problem.jobs.count)
    for k in range(problem.candidates.count):
        job = int(problem.candidates.job[k])
        parts = prices.of(k)
        assert all(parts[word] >= -tolerance for word in ("GPUs", "uplinks") if word in parts)
        paid = sum(parts.values())
        assert paid == pytest.approx(activity[built.layout.x[k]] - own[job], abs=tolerance)
        surplus[job] = max(surplus[job], level.value[k] - paid)
    for job in np.flatnonzero(problem.jobs.running).tolist():
        stay = int(problem.options.stay[job])
        paid = sum(prices.of(stay).values())
        assert paid == pytest.approx(activity[built.layout.x[stay]] - own[job], abs=tolerance)
        surplus[job] = max(surplus[job], float(level.value[stay]) - paid)
    assert own == pytest.approx(surplus, abs=tolerance)
    for cell in prices.nodes():
        assert cell.value >= -tolerance
        more = relaxation(with_one_more_node(problem, cell.nodes[0], build), level, build)
        assert more <= prices.relaxation + cell.value + tolerance
