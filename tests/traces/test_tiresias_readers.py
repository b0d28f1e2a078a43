"""Tiresias' files and the twin."""

import pytest

from benchmarks.published.parts.tiresias_samples import read_samples
from morph_opt.core.domain import InputError, Shape, Span
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang, GangTable
from morph_opt.inputs.traces.tiresias import load, read_trace_rows, rigid_node
from morph_opt.inputs.traces.twins.tiresias import tiresias_twin, twin_samples

HEAD = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def test_rows_are_read(tmp_path):
    rows = read_trace_rows(write(tmp_path / "t.csv", HEAD + "7,2,5,100,vgg19,60,3\n"))
    assert [(r.name, r.model, r.gpus, r.submit_s, r.duration_s) for r in rows] == [
        ("7", "vgg19", 2, 5, 60)
    ]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("", "no jobs"),
        ("1,0,0,1,m,1,0\n", "num_gpu"),
        ("1,1,-1,1,m,1,0\n", "submit_time"),
        ("1,1,0,1,m,0,0\n", "duration"),
        ("1,1,0,1,m,5,0\n1,1,0,1,m,5,0\n", "occurs twice"),
        ("1,1,9,1,m,5,0\n2,1,8,1,m,5,0\n", "line above"),
    ],
)
def test_bad_rows(tmp_path, body, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read_trace_rows(write(tmp_path / "t.csv", HEAD + body))
    assert "t.csv" in str(caught.value)


def test_samples(tmp_path):
    assert read_samples(write(tmp_path / "s.csv", "duration\n5\n3\n")).tolist() == [3.0, 5.0]
    with pytest.raises(InputError, match="above 0"):
        read_samples(write(tmp_path / "s.csv", "duration\n0\n"))


def test_skewed_models_are_offered_consolidated_only():
    speeds = GangTable([Gang(4, "vgg", skewed=True), Gang(4, "resnet")])
    node = rigid_node(4)
    shapes = {
        model: [row.shape.label for row in speeds.configurations(model, node, 8, Span.LEAF)]
        for model in speeds.models()
    }
    assert shapes["vgg x4"] == ["4"]
    assert shapes["resnet x4"] == ["4", "3+1", "2+2", "2+1+1", "1+1+1+1"]
    spread = Shape((2, 2))
    assert speeds.iteration_s("vgg x4", node, spread, RIGID_PLAN, Span.LEAF) is None
    assert speeds.iteration_s("resnet x4", node, spread, RIGID_PLAN, Span.LEAF) == 1.0
    with pytest.raises(InputError, match="unknown model"):
        speeds.iteration_s("bert x1", node, Shape((1,)), RIGID_PLAN, Span.NODE)


def test_originals_by_name(public_data):
    plain, _, _ = load(public_data / "tiresias", "60")
    longer, _, notice = load(public_data / "tiresias", "60x10")
    assert len(plain.jobs) == len(longer.jobs) == 60
    assert sum(j.iterations for j in longer.jobs) == 10 * sum(j.iterations for j in plain.jobs)
    assert "x 10" in notice
    for bad in ("61", "60x0", "60xa"):
        with pytest.raises(InputError, match="unknown trace"):
            load(public_data / "tiresias", bad)


def test_the_twin_is_seeded_labelled_and_heavy_tailed():
    trace, speeds = tiresias_twin(0)
    assert trace.sha256 == tiresias_twin(0)[0].sha256 != tiresias_twin(1)[0].sha256
    assert "not an original" in trace.description
    assert len(trace.jobs) == 480
    assert {job.model for job in trace.jobs} <= set(speeds.models())
    service = sorted(job.iterations * job.requested_gpus for job in trace.jobs)
    assert sum(service[-48:]) > 0.5 * sum(service), "a tenth of the jobs is most of the work"
    assert (twin_samples()[1:] >= twin_samples()[:-1]).all()
    with pytest.raises(InputError, match="seed"):
        tiresias_twin(-1)
