"""EasyScale: steps of maps, undominated vectors, rounds on pools, proposals, the published runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.published.cases import INSTANT_S, Case, Difference, NotRun, differences
from benchmarks.published.parts.elastic_ask import ElasticAsk, whole
from benchmarks.published.parts.part import Document, Part, data_file, listed
from benchmarks.published.simulators.easyscale import ElasticJob, Rules, simulate
from benchmarks.published.simulators.easyscale_pools import gangs, optimum, options_of
from benchmarks.published.simulators.easyscale_proposals import proposals_of
from morph_opt.inputs.perf.ests import UNIT_S, ElasticModel
from morph_opt.inputs.traces.easyscale import read_elastic_rows

Run = Callable[[], Iterator[Difference]]

PRINTED = 1e-8
"""Tolerance of what is stored with nine decimals, absolute."""


def _maps(place: str, case: Any, _document: Document) -> list[Case]:
    model = ElasticModel(int(case["ests"]), whole(case["tau_s"]))
    vector = [int(n) for n in case["gpus"]]
    expected = {key: case[key] for key in ("step_s", "ests_per_gpu_at_most", "rate", "waste")}
    if len(vector) != model.tau.size:
        raise ValueError("gpus and tau_s differ in length")

    def run() -> Iterator[Difference]:
        gpus = np.asarray([vector], dtype=np.int64)
        steps = model.steps(gpus)
        step_s = float(int(steps[0]) * UNIT_S)
        turns = [int(steps[0] // tau) if n else 0 for n, tau in zip(vector, model.tau, strict=True)]
        got = {
            "step_s": step_s,
            "ests_per_gpu_at_most": turns,
            "rate": model.workers / step_s,
            "waste": float(model.waste(gpus, steps)[0]),
        }
        yield from differences(expected, got, absolute=1e-12)

    return [Case("maps", place, run)]


def _candidates(place: str, case: Any, document: Document) -> list[Case]:
    tau = document["units_tau_s"][case["unit"]]
    model = ElasticModel(int(case["ests"]), whole(tau))
    pools = [int(n) for n in case["pools"]]
    keys = ("count", "count_waste_at_most_0.3", "single_type", "gpu_sum", "step_s_sum")
    expected = {key: case[key] for key in keys}
    rows = sorted(map(tuple, case["rows"])) if case.get("rows") is not None else None

    def run() -> Iterator[Difference]:
        vectors, steps = model.vectors(pools)
        got = {
            "count": len(vectors),
            "count_waste_at_most_0.3": int((model.waste(vectors, steps) <= 0.3 + 1e-12).sum()),
            "single_type": int(((vectors > 0).sum(axis=1) == 1).sum()),
            "gpu_sum": int(vectors.sum()),
            "step_s_sum": float(int(steps.sum()) * UNIT_S),
        }
        yield from differences(expected, got)
        if rows is not None:
            found = [
                (*vector, float(int(step) * UNIT_S))
                for vector, step in zip(vectors.tolist(), steps, strict=True)
            ]
            yield from differences(rows, sorted(found), "rows")

    name = f"{place}: {case['unit']}, {model.workers} workers on {pools}"
    return [Case("candidates", name, run)]


def read_round(place: str, case: Any, document: Document) -> list[Case]:
    """A case of the part ``rounds`` that is EasyScale's."""
    types = list(document.get("types", ("v100", "p100", "t4")))
    pools = [int(n) for n in case["pools"]]
    asks = [
        ElasticAsk(
            ElasticModel(int(job["ests"]), whole(job["tau"])),
            types.index(job["preferred"]),
            bool(job["mixed"]),
        )
        for job in case["jobs"]
    ]
    expected = {way: case[way] for way in ("heter", "homo")}
    whole_gangs = float(case["gangs_sum"])

    def run() -> Iterator[Difference]:
        for way, figures in expected.items():
            options = options_of(asks, pools, heter=way == "heter")
            best = optimum(options, pools)
            got = {
                "sum": best.sum,
                "least": best.least,
                "sum_with_least": best.sum_with_least,
                "options": [len(vectors) for vectors, _ in options],
            }
            yield from differences(figures, got, way, absolute=1e-9)
        yield from differences(whole_gangs, gangs(asks, pools), "gangs_sum", absolute=1e-9)

    return [Case("rounds: elastic", place, run)]


def _published(value: Any) -> Iterator[tuple[str, Any]]:
    for key in ("proposals", "runs"):
        for place, case in listed(value.get(key, []), f"published.{key}"):
            yield place, (key, case)


def _read_published(place: str, item: Any, document: Document) -> list[Case]:
    key, case = item
    return _proposals(place, case) if key == "proposals" else _runs(case, document)


def _proposals(place: str, case: Mapping[str, Any]) -> list[Case]:
    workers = int(case["ests"])
    speed = [float(one) for one in case["perf"]]
    pools = [int(n) for n in case["pools"]]
    rows, count = case["rows"], case["count"]

    def run() -> Iterator[Difference]:
        found = proposals_of(workers, speed, pools)
        model = ElasticModel(workers, whole([1.0 / one for one in speed]))
        exact = [workers / model.step_s(p.gpus) for p in found]
        yield from differences(count, len(found), "count")
        got = [
            [*p.gpus, list(p.workers), p.waste, p.speed, p.best_speed, best]
            for p, best in zip(found, exact, strict=True)
        ]
        yield from differences(rows, got, "rows", absolute=PRINTED)

    name = f"{place}: {workers} workers on {pools}"
    return [Case("published: proposals", name, run)]


RULES = {
    "fifo": Rules("fifo"),
    "easyscale_homo": Rules("homo"),
    "easyscale_homo, exact maps": Rules("homo", slowest_maps=False),
    "easyscale": Rules("heter"),
}
"""By the name of a published run.

Two variants of the reference code, ``easyscale, ties by rounded score`` and ``easyscale, exact
maps``, are told nowhere; the greedy is chaotic, and no reading that was tried gives their instants.
"""


def _runs(case: Mapping[str, Any], document: Document) -> list[Case]:
    table, policy = str(case["table"]), str(case["policy"])
    trace = document["trace"]
    types = list(document["types"])
    pools = [int(trace["pools"][kind]) for kind in types]
    expected = {key: case[key] for key in ("avg_jct_s", "makespan_s", "mean_gpus")}
    ends = {name: float(end) for name, end in case["completion"].items()}
    speeds = trace.get(f"table_{table}", trace.get("table_C"))["seconds_per_minibatch"]

    def run() -> Iterator[Difference]:
        if policy not in RULES:
            raise NotRun(f"no policy {policy!r} is known here")
        jobs = elastic_jobs(speeds, types, linear=table == "A")
        found = simulate(jobs, pools, RULES[policy])
        got = {key: getattr(found, key) for key in expected}
        yield from differences(expected, got, absolute=INSTANT_S)
        yield from differences(ends, found.end_s, "completion", relative=0.0, absolute=INSTANT_S)

    return [Case("published: runs", f"table {table}, {policy}", run)]


def elastic_jobs(
    speeds: Mapping[str, Any], types: Sequence[str], *, linear: bool
) -> list[ElasticJob]:
    """The public trace with rebuilt speeds.

    Parameters
    ----------
    speeds
        By model: profiled batch ``bs``, and seconds by type ``t``.
    linear
        Whether time is linear in the batch; otherwise never below that of the profiled batch.
    """
    jobs = []
    for row in read_elastic_rows(data_file("easyscale", "workload-test.csv")):
        known = speeds[row.model]
        factor = row.batch / float(known["bs"])
        factor = factor if linear else max(1.0, factor)
        step_s = tuple(float(known["t"][kind]) * factor for kind in types)
        jobs.append(
            ElasticJob(
                row.name,
                row.submit_s,
                row.workers,
                row.batch,
                row.samples,
                step_s,
                types.index(row.preferred),
                row.mixed,
            )
        )
    return jobs


MAPS = Part(lambda value: listed(value, "maps"), _maps)
CANDIDATES = Part(lambda value: listed(value, "candidates"), _candidates)
PUBLISHED = Part(_published, _read_published)
