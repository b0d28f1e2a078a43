"""Whether a log keeps the rules of docs/replay.md: time, capacity, start-ups, progress, losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.checks.replays.documents import Event, Run
from benchmarks.checks.replays.lives import Life, Parts, Segment, parts_of
from benchmarks.checks.replays.places import Places

REL = 1e-7


def close(a: float, b: float, rel: float = REL, least: float = 1e-6) -> bool:
    """Equal but for rounding."""
    return math.isclose(a, b, rel_tol=rel, abs_tol=least)


def broken_rules(run: Run, lives: dict[str, Life], places: Places | None) -> Iterator[str]:
    """Every rule that the log breaks, in words."""
    yield from _frame(run)
    yield from _rounds(run, lives)
    yield from _holdings(run)
    yield from _node_failures(run, lives)
    yield from _node_events(run)
    for life in lives.values():
        yield from _life(run, life)
        for segment in life.segments:
            yield from _segment(run, life, segment)
            if places is not None:
                yield from _speeds(run, lives, life, segment, places)


def _frame(run: Run) -> Iterator[str]:
    """First line, last line, order of time, and what must be at a boundary."""
    first, last, engine = run.events[0], run.events[-1], run.engine
    kinds = [event["event"] for event in run.events]
    if kinds[0] != "begin" or kinds[-1] != "end" or kinds.count("begin") + kinds.count("end") != 2:
        yield "the log has no beginning or no end"
    policy, trace = run.config["scheduler"]["policy"], run.config["workload"]
    wanted = {
        "jobs": len(run.rows),
        "nodes": len(run.nodes),
        "version": 1,
        "policy": policy,
        "gpus": sum(node.gpus for node in run.nodes),
        "interval_s": engine["interval_s"],
        "trace": run.rows[0]["trace"],
        "trace_sha256": trace.get("sha256"),
    }
    for name, value in wanted.items():
        if value is not None and first[name] != value:
            yield f"begin: {name} is {first[name]!r}, the documents have {value!r}"
    before_s = -math.inf
    boundary_kinds = ("start", "round", "cancel", "slo")
    for number, event in enumerate(run.events, start=1):
        at_s = float(event["time_s"])
        earlier = event["event"] == "submit" and at_s <= first["time_s"]
        if at_s < before_s and not earlier:
            yield f"line {number}: time runs backwards to {at_s}"
        before_s = before_s if earlier else at_s
        at = event["event"] in boundary_kinds or event.get("cause") == "policy"
        steps = at_s / engine["interval_s"]
        if at and event.get("kind") != "held" and not close(steps, round(steps), least=1e-7):
            yield f"line {number}: {event['event']} between two boundaries, at {at_s}"
    until_s = engine.get("until_s")
    finishes = [e["time_s"] for e in run.events if e["event"] in ("complete", "cancel")]
    if last["reason"] == "complete" and last["time_s"] != max(finishes, default=None):
        yield f"end at {last['time_s']}, last completion {max(finishes, default=None)}"
    if last["reason"] == "horizon" and last["time_s"] != until_s:
        yield f"end at {last['time_s']}, horizon {until_s}"


def _rounds(run: Run, lives: dict[str, Life]) -> Iterator[str]:
    """Every boundary with an active job is a round, and says who is active and runs."""
    interval_s, horizon_s = run.engine["interval_s"], float(run.events[-1]["time_s"])
    wanted: dict[int, int] = {}
    for life in lives.values():
        job = run.jobs.get(life.name)
        if not life.submitted or job is None:  # came behind the last round
            continue
        begin_s = max(job.submission_s, float(run.events[0]["time_s"]))
        end_s = life.end_s(horizon_s)
        open_end = life.finish_s is None and life.cancelled_s is None
        boundary = max(1, math.ceil(begin_s / interval_s - 1e-9))
        while boundary * interval_s < end_s or (open_end and boundary * interval_s <= end_s):
            wanted[boundary] = wanted.get(boundary, 0) + 1
            boundary += 1
    held: dict[str, Parts] = {}
    found: dict[int, Event] = {}
    for event in run.events:
        match event["event"]:
            case "start":
                held[event["job"]] = parts_of(event["placement"])
            case "preempt" | "complete" | "cancel":
                held.pop(event["job"], None)
            case "round":
                boundary = round(event["time_s"] / interval_s)
                found[boundary] = event
                gpus = {(n, g) for parts in held.values() for n, gs in parts for g in gs}
                told = (event["index"], event["running"], event["gpus"])
                if told != (boundary - 1, len(held), len(gpus)):
                    yield f"round at {event['time_s']}: index, running, GPUs are {told}"
    stalled = run.events[-1]["reason"] == "stalled"
    for boundary in sorted(wanted.keys() | found.keys()):
        active = found[boundary]["active"] if boundary in found else None
        if active != wanted.get(boundary) and not (stalled and boundary == max(wanted)):
            yield f"boundary {boundary}: {wanted.get(boundary)} active jobs, the round has {active}"


def _holdings(run: Run) -> Iterator[str]:
    """GPUs exist; nothing starts on a node that is down, and a failure clears a node."""
    status = {node.name: "up" for node in run.nodes}
    for event in run.events:
        if event["event"] == "node":
            if event["node"] not in status:
                yield f"node {event['node']} is not in the cluster"
            status[event["node"]] = event["status"]
        if event["event"] != "start":
            continue
        for number, gpus in parts_of(event["placement"]):
            node = run.nodes[number] if number < len(run.nodes) else None
            if node is None or any(gpu >= node.gpus for gpu in gpus) or len(set(gpus)) < len(gpus):
                yield f"{event['job']} starts on GPUs that are not there: {number}, {gpus}"
            elif status[node.name] != "up" and event["kind"] != "held":
                yield f"{event['job']} starts on {node.name}, which is {status[node.name]}"


def over_capacity(run: Run) -> int:
    """Rounds in which a GPU was held twice but by two partners, was not there, or had failed."""
    held: dict[str, Parts] = {}
    partner: dict[str, str | None] = {}
    failed: set[int] = set()
    numbers = {node.name: number for number, node in enumerate(run.nodes)}
    count, known, over = 0, False, False
    for event in run.events:
        match event["event"]:
            case "round":
                if not known:
                    over = _is_over(run, held, partner, failed)
                    known = True
                count += over
                continue
            case "start":
                held[event["job"]] = parts_of(event["placement"])
                partner.pop(event["job"], None)
            case "share":
                partner[event["job"]] = event["partner"]
            case "preempt" | "complete" | "cancel":
                held.pop(event["job"], None)
                partner.pop(event["job"], None)
            case "node":
                failed.discard(numbers[event["node"]])
                if event["status"] == "failed":
                    failed.add(numbers[event["node"]])
            case _:
                continue
        known = False
    return count


def _is_over(
    run: Run, held: dict[str, Parts], partner: dict[str, str | None], failed: set[int]
) -> bool:
    users: dict[tuple[int, int], list[str]] = {}
    for job, parts in held.items():
        for number, gpus in parts:
            if number in failed or number >= len(run.nodes):
                return True
            for gpu in gpus:
                if gpu >= run.nodes[number].gpus:
                    return True
                users.setdefault((number, gpu), []).append(job)
    for jobs in users.values():
        if len(jobs) > 2:
            return True
        if len(jobs) == 2:
            a, b = jobs
            mutual = partner.get(a) == b and partner.get(b) == a
            if not mutual or held[a] != held[b]:
                return True
    return False


def _life(run: Run, life: Life) -> Iterator[str]:
    """From the submission to the end: when, and with which progress."""
    name, job = life.name, run.jobs.get(life.name)
    told = next((e for e in run.events if e["event"] == "submit" and e["job"] == name), None)
    if told is None:
        if life.segments or life.finish_s is not None:
            yield f"{name} runs and was never submitted"
        return
    if job is not None and told["time_s"] != job.submission_s:
        yield f"{name} is submitted at {told['time_s']}, its document has {job.submission_s}"
    done = 0.0 if life.before is None else float(life.before["iterations_done"])
    free_s, last = float(told["time_s"]), None
    for segment in life.segments:
        if segment.start_s < free_s - 1e-9:
            yield f"{name} starts at {segment.start_s} before it may"
        if not close(segment.done, done):
            yield f"{name} starts at {segment.start_s} with {segment.done} iterations, had {done}"
        yield from _start(run, life, last, segment)
        done = _kept(run, life, segment)
        free_s, last = segment.end_s, segment
    yield from _last(run, life, done)


def _last(run: Run, life: Life, done: float) -> Iterator[str]:
    """Whether the job was complete when it was said to be, and only then."""
    name, job = life.name, run.jobs.get(life.name)
    if job is not None and life.finish_s is not None and not close(done, job.iterations):
        yield f"{name} is complete with {done} of {job.iterations} iterations"
    if job is not None and life.finish_s is None and done > job.iterations * (1.0 + REL):
        yield f"{name} has done {done} of {job.iterations} iterations and is not complete"
    for event in run.events:
        mine = event["event"] == "cancel" and event["job"] == name
        if mine and not close(event["iterations_done"], done):
            yield f"{name} is cancelled with {event['iterations_done']}, had {done}"


def _kept(run: Run, life: Life, segment: Segment) -> float:
    """Progress after a segment; a change takes work as a stop does, and says nothing of it."""
    if segment.ended_by != "change":
        return segment.done_at(segment.end_s) - segment.lost
    return segment.done_at(segment.ready_s + _kept_s(run, life, segment))


def _kept_s(run: Run, life: Life, segment: Segment) -> float:
    """Seconds of progress of a segment that a stop or change at its end leaves."""
    engine, job = run.engine, run.jobs.get(life.name)
    progressed_s = max(0.0, segment.end_s - segment.ready_s)
    if segment.ended_by != "node-failure" and engine["at_stop"] == "keep":
        return progressed_s - min(engine["lost_work_s"], progressed_s)
    by_model = engine.get("checkpoint_s_by_model", {})
    step_s = by_model.get(job.model if job else None, engine["checkpoint_s"])
    return math.floor(progressed_s / step_s) * step_s if step_s > 0.0 else progressed_s


def _start(run: Run, life: Life, last: Segment | None, segment: Segment) -> Iterator[str]:
    """The kind of a start, and what it costs."""
    job, earlier = run.jobs.get(life.name), life.before is not None and life.before["starts"] > 0
    kind = "first"
    if last is not None or earlier:
        kind = "change" if last is not None and last.ended_by == "change" else "resume"
    kinds = (kind, "held") if last is None and life.before else (kind,)
    if segment.kind not in kinds:
        yield f"{life.name} starts at {segment.start_s} as {segment.kind}, it is {kind}"
    if job is None or segment.kind == "held" or (earlier and last is None):
        return
    wanted_s = _start_s(run, job.model, last, segment)
    if not close(segment.startup_s, wanted_s):
        yield f"{life.name} pays {segment.startup_s} s at {segment.start_s}, not {wanted_s}"


def _start_s(run: Run, model: str, last: Segment | None, now: Segment) -> float:
    """What a start costs, from what the job held last."""
    whole_s = run.restart_s(model)
    if last is None:
        return run.first_start_s(model)
    migrate_s = float(run.engine.get("migrate_s", whole_s))
    resume_s = float(run.engine.get("resume_s", min(migrate_s, whole_s)))
    if last.held_s < last.startup_s - 1e-9 or _failed_since(run, last, now):
        return whole_s
    if last.plan != now.plan or last.gpus != now.gpus:
        return whole_s
    counts = [{number: len(gpus) for number, gpus in one.parts} for one in (last, now)]
    return resume_s if counts[0] == counts[1] else migrate_s


def _failed_since(run: Run, last: Segment, now: Segment) -> bool:
    """Whether a node of the last placement failed while it was held or afterwards."""
    names = {run.nodes[number].name for number, _ in last.parts}
    return any(
        e["event"] == "node"
        and e["status"] == "failed"
        and e["node"] in names
        and last.start_s <= e["time_s"] <= now.start_s
        for e in run.events
    )


def _segment(run: Run, life: Life, segment: Segment) -> Iterator[str]:
    """What a stop takes away, and what it says of the progress."""
    if segment.ended_by not in ("policy", "node-failure"):
        return
    told = next(
        e
        for e in run.events
        if e["event"] == "preempt" and e["job"] == life.name and e["time_s"] == segment.end_s
    )
    kept = segment.done_at(segment.ready_s + _kept_s(run, life, segment))
    if not close(told["iterations_done"], kept):
        yield f"{life.name} keeps {told['iterations_done']} at {segment.end_s}, not {kept}"
    made = segment.done_at(segment.end_s)
    if not close(told["iterations_lost"], made - kept, least=1e-6 * max(1.0, made)):
        yield f"{life.name} loses {told['iterations_lost']} at {segment.end_s}, not {made - kept}"


def _speeds(
    run: Run, lives: dict[str, Life], life: Life, segment: Segment, places: Places
) -> Iterator[str]:
    """Whether a job ran at the speed that the documents have for its placement."""
    job = run.jobs.get(life.name)
    if job is None or segment.plan.startswith("est"):
        return
    # In a pair a start has the speed of the pair already; the mark of its partner follows at once.
    first, *later = segment.marks
    if later and later[0][0] == first[0] and not close(first[2], later[0][2], least=0.0):
        yield f"{life.name} starts at {first[2]} s, and shares at once at {later[0][2]} s"
    for from_s, until_s, partner, seconds in segment.stretches():
        if until_s <= from_s:
            continue
        wanted_s = places.iteration_s(job.model, segment.plan, segment.parts)
        if partner is not None:
            other = run.jobs[partner]
            plan = next(
                s.plan
                for s in lives[partner].segments
                if s.start_s <= from_s <= s.end_s and s.parts == segment.parts
            )
            wanted_s = places.paired_s(
                (job.model, other.model), (segment.plan, plan), segment.parts
            )
        if wanted_s is None or not close(seconds, wanted_s, rel=1e-9, least=0.0):
            yield f"{life.name} runs at {seconds} s from {from_s} on, the documents have {wanted_s}"


def _node_failures(run: Run, lives: dict[str, Life]) -> Iterator[str]:
    """What is on a node that fails stops at that instant."""
    fails = [e for e in run.events if e["event"] == "node" and e["status"] == "failed"]
    for event in fails:
        number = next(n for n, node in enumerate(run.nodes) if node.name == event["node"])
        for life in lives.values():
            for segment in life.segments:
                there = any(part == number for part, _ in segment.parts)
                if there and segment.start_s <= event["time_s"] < segment.end_s:
                    yield f"{life.name} goes on at {event['time_s']} on a node that fails"
    instants = {event["time_s"] for event in fails}
    for event in run.events:
        if event.get("cause") == "node-failure" and event["time_s"] not in instants:
            yield f"{event['job']} stops at {event['time_s']}, when no node fails"


def _node_events(run: Run) -> Iterator[str]:
    """The log has the node events of the run's file, up to the last boundary."""
    if run.node_events is None:
        return
    words = {"fail": "failed", "drain": "drained", "return": "up"}
    last_s = max(e["time_s"] for e in run.events if e["event"] == "round")
    wanted = [
        (float(row["time_s"]), row["node"], words[row["event"]])
        for row in run.node_events
        if float(row["time_s"]) <= last_s
    ]
    found = [(e["time_s"], e["node"], e["status"]) for e in run.events if e["event"] == "node"]
    if [event for event in found if event[0] <= last_s] != wanted:
        yield "the node events are not those of the file"
