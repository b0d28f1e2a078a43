"""An explanation as text for a terminal."""

from __future__ import annotations

from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.table import Table
from morph_opt.scheduling.explanation.report import (
    EXPLAIN,
    DuePrice,
    JobExplanation,
    Option,
    RoundExplanation,
)

_REASONS = {
    "best": "nothing is worth more",
    "tie": "another optimum grants it",
    "rule": "a rule is in the way",
    "placement": "no placement has room for it",
    "no_configuration": "cannot run on this cluster",
    "earlier_goal": "a goal that ranks higher excludes it",
    "gap": "the decision is within the gap, not optimal",
    "not_examined": "not examined (--explain-jobs)",
}


def explanation_text(found: RoundExplanation) -> str:
    """Return tables of prices and jobs, then displacements, blocked options and refused plans."""
    lines = [
        f"round {found.round} at {found.time_s:g} s: {found.objective} {_number(found.value)} "
        f"{found.unit}, optimum {_number(found.optimum)}, relaxation {_number(found.relaxation)}",
        *_of_prices(found),
        "",
        Table(
            ("nodes", "type", "leaf", "price per GPU", "per GPU-s", "one more gains", "at most"),
            [
                (
                    str(p.nodes),
                    p.node_type,
                    p.leaf,
                    *map(_number, (p.gpu_price, p.gpu_s_price, p.node_gain, p.node_bound)),
                )
                for p in found.prices
            ],
            "l",
        ).to_text(),
        "",
        Table(
            ("job", "gets", "value", "price", "best option", "value", "price", "reason"),
            [_job_row(job) for job in found.jobs],
            "l",
        ).to_text(),
    ]
    notes = [line for job in found.jobs for line in _notes(job)]
    served = [_of_due(one, found.unit) for one in found.due]
    refused = [
        f"{r.model} on {r.node_type}: {r.plan} on {r.shapes[0]}"
        + (f" and {len(r.shapes) - 1} more" if len(r.shapes) > 1 else "")
        + f" {r.reason}"
        for r in found.refusals
    ]
    for block in (notes, served, refused):
        lines += ["", *block] if block else []
    return "\n".join(line.rstrip() for line in lines) + "\n"


def job_text(found: RoundExplanation, job: str) -> str:
    """Explain one job in a few lines.

    Raises
    ------
    InputError
        If the round has no such job.
    """
    mine = next((one for one in found.jobs if one.job == job), None)
    if mine is None:
        names = [one.job for one in found.jobs]
        near = did_you_mean(job, names)
        rule = f"the round has no job {job!r}{near}; it has {', '.join(names[:8])}"
        raise InputError(rule, field="job")
    _, got, value, price, best, other, cost, reason = _job_row(mine)
    first = f"{job}: {got}"
    first += "" if mine.granted is None else f" (worth {value}, price {price})"
    second = "" if mine.best is None else f"; {best} would be worth {other}, price {cost}"
    served = [_of_due(one, found.unit) for one in found.due if one.job == job]
    return "\n".join((f"{first}{second}: {reason}", *_notes(mine), *served))


def _of_due(one: DuePrice, unit: str) -> str:
    """Return one line on the price of serving a due job."""
    what = "has to start" if one.row == "due" else "keeps running"
    price = "at a price that is not known" if one.price is None else f"for {_number(one.price)}"
    unit = "" if one.price is None else f" {unit}"
    return f"{one.job}: due since {one.since_s:g} s, {what} {price}{unit} of the others' value"


def _job_row(job: JobExplanation) -> tuple[str, ...]:
    got = "queue" if job.granted is None else f"{job.action} {_what(job.granted)}"
    return (
        job.job,
        got,
        *_worth(job.granted),
        "-" if job.best is None else _what(job.best),
        *_worth(job.best),
        _reason(job),
    )


def _reason(job: JobExplanation) -> str:
    """Return the reason; a solve with the option overrules prices."""
    if job.reason != "price":
        return _REASONS[job.reason]
    if job.displaces is not None:
        return "costs others more than it adds (solved with it)"
    return "costs others at least what it adds, at these prices"


def _of_prices(found: RoundExplanation) -> list[str]:
    """Return a caution if the relaxation is above the optimum."""
    if found.optimum is None:
        return ["the optimum is not known: prices and what follows from them are estimates"]
    above = found.relaxation - found.optimum
    if above <= EXPLAIN.change * max(abs(found.optimum), abs(found.relaxation)):
        return []
    share = f" ({above / abs(found.optimum):.1%})" if found.optimum else ""
    return [
        f"prices are of a relaxation that is {_number(above)}{share} above the optimum: "
        "estimates, but for what was solved"
    ]


def _what(option: Option) -> str:
    beside = f" beside {option.partner}" if option.partner else ""
    back = " where it was" if option.back else ""
    return f"{option.shape} {option.plan} on {option.node_type}{back}{beside}"


def _worth(option: Option | None) -> tuple[str, str]:
    return ("-", "-") if option is None else (_number(option.value), _number(option.price))


def _notes(job: JobExplanation) -> list[str]:
    lines = []
    best, moved = job.best, job.displaces
    if best is not None and best.paid_for:
        paid = ", ".join(f"{_number(amount)} for {word}" for word, amount in best.paid_for)
        lines.append(f"{job.job}: {_what(best)} would pay {paid}")
    if best is not None and moved is not None:
        lost = "; ".join(
            f"{loss.job} loses {_number(loss.loses)} ({loss.before} -> {loss.after})"
            for loss in moved.losses
        )
        line = f"{job.job}: forced into {_what(best)}, the round loses {_number(moved.cost)}"
        lines.append(f"{line}; {lost}" if lost else line)
    for words, takes in zip(job.blocked_by, job.takes, strict=True):
        lines += [f"{job.job}: blocked by {words}", f"{job.job}: {takes}"]
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value + 0.0:.4g}"
