"""What accounting really has: requeues, uneven nodes, begin times, names that contradict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morph_opt.audit.instants import Audit, audit
from morph_opt.audit.recorded import read_recorded
from morph_opt.audit.report import as_json, as_text
from morph_opt.inputs.clusters import parse_short
from morph_opt.inputs.traces.logs.reading.row import Reading

ANSWERS = Path(__file__).resolve().parents[1] / "round/live/answers"
"""``python -m benchmarks.checks.live.answers`` made them."""
COLUMNS = "JobID|Partition|Submit|Eligible|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList"


def at(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00"


def row(
    job: object,
    gpus: int,
    submit: int,
    start: int | None,
    end: int | None,
    nodes: str,
    state: str = "COMPLETED",
    eligible: int | str | None = None,
) -> str:
    """A line of accounting in minutes; ``start`` None for a job that never started."""
    ready = submit if eligible is None else eligible
    times = [at(submit), ready if isinstance(ready, str) else at(ready)]
    times += ["Unknown" if minute is None else at(minute) for minute in (start, end)]
    tres, count = f"gres/gpu={gpus}", max(1, len(nodes.split(",")))
    held = "" if start is None else tres
    return f"{job}|p|{'|'.join(times)}|{state}|{count}|{tres}|{held}|{nodes}"


def audited(folder: Path, cluster: str, *rows: str, every_s: float = 600.0) -> Audit:
    file = folder / "log.txt"
    file.write_text("\n".join((COLUMNS, *rows)) + "\n")
    return audit(read_recorded(f"sacct:{file}", Reading()), parse_short(cluster), every_s)


def by_minute(found: Audit, name: str) -> dict[int, int]:
    return {round(one.time_s % 86400 / 60): getattr(one, name) for one in found.instants}


def require_sums(found: Audit) -> None:
    """Used and idle are the capacity at every instant and in every form of the report."""
    for one in found.instants:
        assert one.used + one.idle == found.gpus
        assert min(one.used, one.idle, one.missing) >= 0
        assert one.fillable <= one.bound <= one.by_count <= one.idle
    hours = json.loads(as_json(found, "log"))["gpu_hours"]
    capacity = found.gpus * found.every_s * len(found.instants) / 3600.0
    assert hours["used"] + hours["idle"] == pytest.approx(capacity)
    shares = [
        float(line.rsplit(maxsplit=1)[1]) for line in as_text(found, "log").splitlines()[3:10]
    ]
    assert shares[1] + shares[2] == pytest.approx(100.0, abs=0.02)
    assert sum(shares[3:]) == pytest.approx(shares[2], abs=0.03)


def test_attempts_of_a_requeued_job_hold_their_own_gpus(tmp_path: Path) -> None:
    """L9, L10: 1 GPU from 0 to 30, 8 from 40 on; job 2 holds 8 on the other node all along."""
    found = audited(
        tmp_path,
        "2x8",
        row(1, 1, 0, 0, 30, "a", "REQUEUED"),
        row(1, 8, 30, 40, 70, "a"),
        row(2, 8, 0, 0, 70, "b"),
    )
    assert by_minute(found, "used") == {10: 9, 20: 9, 30: 8, 40: 16, 50: 16, 60: 16}
    assert by_minute(found, "waiting_gpus")[30] == 8
    assert by_minute(found, "fillable")[30] == 8
    require_sums(found)


def test_the_order_goes_by_the_first_submission(tmp_path: Path) -> None:
    """L8: job 1 came first and waits again after its requeue while job 2, later, runs."""
    found = audited(
        tmp_path,
        "1x8",
        row(1, 4, 0, 0, 20, "a", "REQUEUED"),
        row(1, 4, 20, 60, 70, "a"),
        row(2, 4, 10, 10, 60, "a"),
    )
    assert by_minute(found, "passed") == {10: 0, 20: 1, 30: 1, 40: 1, 50: 1, 60: 0}


def test_gpus_that_lie_unevenly_on_nodes_fit(tmp_path: Path) -> None:
    """L11: 12 on two nodes beside 3 on one of them are 8 + 4 or 7 + 5, not 6 + 6.

    With 12 on b and c and 4 on c, a chain of moves is needed: a 8, b 4 + 4, c 8.
    """
    found = audited(tmp_path, "2x8", row(1, 12, 0, 0, 60, "a,b"), row(2, 3, 0, 0, 60, "b"))
    assert set(by_minute(found, "used").values()) == {15}
    require_sums(found)
    found = audited(
        tmp_path,
        "3x8",
        row(1, 12, 0, 0, 60, "a,b"),
        row(2, 8, 0, 0, 60, "b,c"),
        row(3, 4, 0, 0, 60, "c"),
    )
    assert {(one.used, one.missing) for one in found.instants} == {(24, 0)}
    require_sums(found)


def test_names_that_contradict_each_other_add_up(tmp_path: Path) -> None:
    """U6: three jobs of 8 on n1, n1 and n2 of two nodes of 8: 16 GPUs are used, 8 are missing."""
    found = audited(tmp_path, "2x8", *(row(i, 8, 0, 0, 60, n) for i, n in enumerate("aab")))
    assert {(one.used, one.idle, one.missing) for one in found.instants} == {(16, 0, 8)}
    assert "8 GPUs more than the nodes that they name have" in as_text(found, "log")
    require_sums(found)


@pytest.mark.parametrize(("eligible", "filled"), [(40, {40, 50}), ("Unknown", set())])
def test_a_begin_time_ahead_is_no_waiting_for_room(
    tmp_path: Path, eligible: int | str, filled: set[int]
) -> None:
    """L12: submitted at 0 to begin at 40, or held until it was cancelled; the node is half idle."""
    rows = [row(1, 4, 0, 0, 60, "a")]
    if eligible == "Unknown":
        rows.append(row(2, 4, 0, None, 60, "", "CANCELLED", eligible))
    else:
        rows.append(row(2, 4, 0, 60, 70, "a", eligible=eligible))
    found = audited(tmp_path, "1x8", *rows)
    assert {minute for minute, gpus in by_minute(found, "fillable").items() if gpus} == filled
    assert {minute for minute, jobs in by_minute(found, "waiting").items() if jobs} == filled


def test_components_of_a_heterogeneous_job_wait_together(tmp_path: Path) -> None:
    """L6: 4 + 8 GPUs start at once or not at all; 8 are idle beside job 1."""
    waits = [row(f"5+{i}", gpus, 0, None, 60, "", "PENDING") for i, gpus in enumerate((4, 8))]
    waits = [line.replace(at(60), "Unknown") for line in waits]
    found = audited(tmp_path, "1x16", row(1, 8, 0, 0, 60, "a"), *waits)
    assert {(one.waiting, one.waiting_gpus, one.fillable) for one in found.instants} == {(1, 12, 0)}
    ran = [row("5+0", 4, 0, 20, 60, "a"), row("5+1", 8, 0, 20, 60, "b")]
    found = audited(tmp_path, "2x8", row(1, 4, 0, 0, 60, "a"), *ran)
    assert by_minute(found, "used") == {10: 4, 20: 16, 30: 16, 40: 16, 50: 16}
    require_sums(found)


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5"])
def test_logs_of_real_releases(release: str) -> None:
    """L8 to L12: 12 GPUs on two nodes, job 6 requeued from 1 GPU to 4, job 3 to begin later."""
    log = read_recorded(f"sacct:{ANSWERS / release / 'sacct.txt'}", Reading())
    found = audit(log, parse_short("8x8"), 1.0)
    require_sums(found)
    assert all(one.missing == 0 for one in found.instants)
    first, second = (job for job in log.jobs if job.name == "6")
    assert (first.gpus, second.gpus) == (1, 4)
    assert first.first_s == second.first_s == first.submit_s
    (before,), (after,) = first.intervals, second.intervals
    during = [one for one in found.instants if before.start_s <= one.time_s < before.end_s]
    assert {(one.used, one.waiting) for one in during} == {(23, 0)}
    alone = [one for one in found.instants if after.end_s - 5.0 <= one.time_s < after.end_s]
    assert {one.used for one in alone} == {4}


_NODES = ("", "a", "b", "c", "a,b", "b,c", "a,b,c")
_ROWS = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.integers(1, 20),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(1, 40),
        st.sampled_from(_NODES),
        st.sampled_from(("COMPLETED", "REQUEUED", "RUNNING", "PENDING")),
        st.sampled_from((0, 15, "Unknown")),
        st.sampled_from(("", "", "+0", "+1")),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(_ROWS)
def test_used_and_idle_are_the_capacity_whatever_the_log_says(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int, int, int, str, str, int | str, str]],
) -> None:
    """Requeues, components, names that contradict, GPUs that no even split fits."""
    lines = [row(99, 2, 0, 0, 60, "a")]
    for job, gpus, submit, waited, ran, nodes, state, ready, part in rows:
        start = None if state == "PENDING" else submit + waited
        end = None if state in ("PENDING", "RUNNING") else submit + waited + ran
        eligible = ready if isinstance(ready, str) else submit + ready
        lines.append(row(f"{job}{part}", gpus, submit, start, end, nodes, state, eligible))
    found = audited(tmp_path_factory.mktemp("audit"), "3x8", *lines, every_s=420.0)
    require_sums(found)
