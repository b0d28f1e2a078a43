"""`SpeedModel`: a time is known for exactly what `configurations` offers."""

from __future__ import annotations

import pytest

from benchmarks.perf.biased import BiasedModel
from morph_opt.core.domain import A800_NODE, ExecutionPlan, NodeType, Shape, Span, partitions
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.online import OnlineModel
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.tried import TriedModel
from morph_opt.inputs.traces.registry import home_cluster, load_trace

WIDEST = 12
SPANS = (Span.LEAF, Span.POD)


def of(spec: str) -> tuple[SpeedModel, tuple[NodeType, ...]]:
    home = home_cluster(spec)
    types = {node.type for node in load_cluster(home).nodes} if home else {A800_NODE}
    return load_trace(spec).truth, tuple(sorted(types, key=lambda one: one.name))


ZOO = builtin_model()
DP = ExecutionPlan.parse("dp").family
MODELS = {
    "zoo": (ZOO, (A800_NODE,)),
    "biased": (BiasedModel(ZOO, DP, 2.0), (A800_NODE,)),
    "online": (OnlineModel(ZOO), (A800_NODE,)),
    "tried": (TriedModel(ZOO), (A800_NODE,)),
    **{spec: of(spec) for spec in ("gavel-96", "tiresias-480", "search-twin", "philly-twin")},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_time_is_known_for_exactly_what_is_offered(name: str) -> None:
    speeds, types = MODELS[name]
    plans = {ExecutionPlan.parse(label) for label in ("dp", "dp+ga", "pp2-tp2-dp2")}
    known = 0
    for model in speeds.models()[:6]:
        for node_type in types:
            for span in SPANS:
                offered = {
                    (row.shape, row.plan): row.iteration_s
                    for row in speeds.configurations(model, node_type, WIDEST, span)
                }
                plans |= {plan for _, plan in offered}
                for gpus in range(1, WIDEST + 1):
                    for shape in partitions(gpus, WIDEST):
                        for plan in plans:
                            seconds = speeds.iteration_s(model, node_type, shape, plan, span)
                            assert seconds == offered.get((shape, plan)), (shape, plan)
                            known += seconds is not None
    assert known > 4


def test_a_shape_that_the_engine_refuses_has_no_time() -> None:
    """Seven nodes, tensor-parallel groups over two of them: 3.25 s were promised once."""
    shape, plan = Shape((8, 8, 8, 8, 8, 6, 2)), ExecutionPlan.parse("pp3-tp4-dp4")
    asked = ("llama30", A800_NODE, shape, plan, Span.LEAF)
    assert ZOO.iteration_s(*asked) is None
    extrapolated = ZOO.extrapolated().iteration_s(*asked)
    assert extrapolated is not None
    assert extrapolated > 0
