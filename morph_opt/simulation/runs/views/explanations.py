"""Content of ``explain.jsonl``: prices by round, and why jobs were queued.

A replay with ``--explain`` writes it; both are empty without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.core.documents import Fields, exists, parse_json, read_lines
from morph_opt.core.domain import InputError
from morph_opt.simulation.runs.views.view import RunView
from morph_opt.simulation.runs.write import EXPLAIN


@dataclass(frozen=True, slots=True)
class Price:
    """Value of a GPU of a node class in a round.

    Parameters
    ----------
    round, time_s
        Number and instant of the round.
    node_type, gpu_type, leaf, nodes
        Node class, and its number of nodes.
    per_gpu
        In the objective's unit, for the round.
    per_gpu_s
        The same over the length of the round.
    unit
        Unit of the objective.
    """

    round: int
    time_s: float
    node_type: str
    gpu_type: str
    leaf: str
    nodes: int
    per_gpu: float
    per_gpu_s: float
    unit: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Consecutive rounds in which a job was queued for the same reason.

    Parameters
    ----------
    job
        Name.
    from_s, until_s
        First and last of the rounds.
    rounds
        Number of these rounds.
    why
        Reason in one sentence, as in the first of them.
    """

    job: str
    from_s: float
    until_s: float
    rounds: int
    why: str


def is_explained(view: RunView) -> bool:
    """Return whether the run has explanations."""
    return view.run.folder is not None and exists(view.run.folder / EXPLAIN)


def read_prices(view: RunView) -> tuple[Price, ...]:
    """Return the prices of all explained rounds.

    Raises
    ------
    InputError
        If a line is not one of explanations.
    """
    return tuple(price for fields in _rounds(view) for price in _prices(fields))


def read_waits(view: RunView) -> Mapping[str, tuple[Wait, ...]]:
    """Return the reasons for which each job was queued, by name, joined over rounds.

    Raises
    ------
    InputError
        If a line is not one of explanations.
    """
    found: dict[str, list[Wait]] = {}
    open_: dict[str, tuple[int, tuple[Any, ...]]] = {}
    for number, fields in enumerate(_rounds(view)):
        time_s = fields.number("time_s")
        for job in fields.objects("jobs", None, ()):
            if job.text("action") != "queue":
                continue
            name = job.text("job")
            kind, why = _reason(job)
            mine = found.setdefault(name, [])
            if open_.get(name) == (number - 1, kind):
                last = mine[-1]
                mine[-1] = replace(last, until_s=time_s, rounds=last.rounds + 1)
            else:
                mine.append(Wait(name, time_s, time_s, 1, why))
            open_[name] = (number, kind)
    return {name: tuple(waits) for name, waits in found.items()}


def _rounds(view: RunView) -> Iterator[Fields]:
    if not is_explained(view):
        return
    path = str(view.file(EXPLAIN))
    for number, text in read_lines(path):
        try:
            yield Fields(parse_json(text, path, first_line=number), "", path, None)
        except InputError as error:
            raise error.located(file=path, line=number) from error


def _prices(fields: Fields) -> Iterator[Price]:
    for price in fields.objects("prices", None, ()):
        yield price.make(
            Price,
            round=fields.whole("round"),
            time_s=fields.number("time_s"),
            per_gpu=price.number("gpu_price"),
            per_gpu_s=price.number("gpu_s_price"),
            unit=fields.text("unit"),
        )


_SENTENCES = {
    "tie": "another decision of the same worth would have started it",
    "placement": "no node had room for it",
    "no_configuration": "it cannot run on this cluster",
    "earlier_goal": "a goal that ranks higher came first",
    "gap": "the round was decided to a gap, and better was left",
    "not_examined": "was not examined (python -m morph_opt.explain RUN JOB does)",
    "best": "no way to run it was worth more than waiting",
}


def _reason(job: Fields) -> tuple[tuple[Any, ...], str]:
    """Return the reason of a queued job: a key for joining rounds, and a sentence."""
    reason = job.text("reason")
    best = job.object("best", None) if job.has("best") else None
    what = "" if best is None else _option(best)
    kind = (reason, what)
    if reason == "rule":
        words = (job.value(field, tuple[str, ...], ()) for field in ("blocked_by", "takes"))
        rules = "; ".join(sentence for some in words for sentence in some)
        return (*kind, rules), f"a rule is in the way{': ' + rules if rules else ''}"
    if reason == "price" and best is not None:
        value, price = best.number("value"), best.number("price")
        times = price / value if value > 0.0 else 0.0
        much = f"{times:.3g} times what they add" if times > 1.0005 else "as much as they add"
        return kind, f"{what} would cost others {much}"
    sentence = _SENTENCES.get(reason, reason)
    return kind, f"{sentence} ({what})" if what else sentence


def _option(option: Fields) -> str:
    gpus = option.whole("gpus")
    number = f"{gpus} GPU{'s' if gpus != 1 else ''}"
    return f"{number} as {option.text('plan')} on {option.text('node_type')}"
