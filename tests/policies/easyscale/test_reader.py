"""EasyScale's trace with its times: jobs, units, refusals; and the twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.checks.robustness import documents as good
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces import easyscale
from morph_opt.inputs.traces.registry import absolute_spec, home_cluster, known_traces, load_trace
from morph_opt.inputs.traces.twins.easyscale import easyscale_twin


def folder(at: Path, trace: str | None = None, times: str | None = None) -> Path:
    (at / easyscale.TRACE).write_text(trace or good.elastic_trace()[0].decode())
    (at / easyscale.OVERHEAD).write_text(times or good.overhead()[0].decode())
    return at


def test_jobs_and_their_times(tmp_path: Path) -> None:
    loaded = load_trace(f"easyscale:{folder(tmp_path)}")
    one, two = loaded.trace.jobs
    assert [job.requested_plan.label for job in (one, two)] == ["est4-d2-V100", "est8-d1-P100"]
    # 2 epochs of 886.41 samples in batches of 8 by 4 workers; a thousandth of a step is counted.
    assert one.iterations == round(1000 * 2 * 886.41 / 32)
    speeds = loaded.truth
    # Kernels equal on all types take 0.4 s of a V100, those of one type 0.3 s of a P100.
    assert speeds.worker_units(one.model, "V100") == 4000
    assert speeds.worker_units(two.model, "P100") == 3000
    assert speeds.worker_units(one.model, "P100") is None
    assert loaded.kind == "file"


@pytest.mark.parametrize(("batch", "units"), [(4, 4000), (16, 8000)])
def test_a_larger_batch_takes_longer_and_a_smaller_one_does_not(
    batch: int, units: int, tmp_path: Path
) -> None:
    text = good.elastic_trace()[0].decode().replace("bert,4,8,", f"bert,4,{batch},")
    loaded = load_trace(f"easyscale:{folder(tmp_path, text)}")
    assert loaded.truth.worker_units(loaded.trace.jobs[0].model, "V100") == units


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("Bert,8", "Electra,8", "no times of Bert on v100"),
        ("0.4", "1e300", "must take a worker from 1e-07 to 1e[+]06 s on V100"),
        ("0.3,0.4", "0.3,0", "overhead.csv, line 2, ddp_hetero: must be above 0"),
        ("Bert,8,v100", "ResNet50,64,p100", "line 3, model: must be unique"),
    ],
)
def test_times_that_serve_nothing_are_refused(
    old: str, new: str, rule: str, tmp_path: Path
) -> None:
    text = good.overhead()[0].decode().replace(old, new)
    with pytest.raises(InputError, match=rule):
        easyscale.load(folder(tmp_path, times=text))


def test_the_original_is_read_and_never_offered(tmp_path: Path) -> None:
    assert not [name for name in known_traces() if name.startswith("easyscale:")]
    assert home_cluster(f"easyscale:{folder(tmp_path)}") == easyscale.HOME
    # One file of it is a log of gangs, whose home nobody states.
    assert home_cluster(f"easyscale:{folder(tmp_path) / easyscale.TRACE}") is None
    assert absolute_spec("easyscale:x").startswith("easyscale:/")
    with pytest.raises(InputError, match=r"no such file|does not exist|cannot be read"):
        load_trace(f"easyscale:{tmp_path}/nowhere")


def test_the_twin_is_seeded_and_runs_on_its_cluster() -> None:
    one, speeds = easyscale_twin(1)
    again, _ = easyscale_twin(1)
    other, _ = easyscale_twin(2)
    assert one.sha256 == again.sha256 != other.sha256
    assert len(one.jobs) == 62
    levels = {job.requested_plan.determinism for job in one.jobs}
    assert levels == {"d1", "d2"}
    for job in one.jobs:
        assert speeds.worker_units(job.model, job.requested_plan.gpu_type)
