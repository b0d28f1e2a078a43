"""Reader of EasyScale's published trace: jobs with a fixed number of workers on any GPU type.

The file comes without a licence: it is read where a user has it, and never offered. Names repeat;
as in the published code the last row of a name wins, at the place of the first. Work is epochs
times the length of the data set, of which the published code takes a hundredth.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from morph_opt.documents import Row, read_lines
from morph_opt.domain import InputError

DATASET = {
    "resnet50": 12800.0, "vgg19": 12800.0, "shufflenetv2": 12800.0, "swintransformer": 12800.0,
    "yolov3": 165.51, "bert": 886.41, "electra": 886.41, "ncf": 49708.45,
}  # fmt: skip
"""Samples of an epoch."""

COLUMNS = (
    "name", "time", "application", "max_parallelism", "batch_size", "epochs",
    "enable_heterogeneous_deterministic", "preferred_gpu",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ElasticRow:
    """A job of the trace.

    Parameters
    ----------
    name, model, submit_s
        Of the job.
    workers, batch
        Workers (``max_parallelism``), and samples of each per step.
    samples
        Work in all.
    mixed
        Whether its kernels are the same on all types, so that it may run on several at once.
    preferred
        Type that it was made for.
    """

    name: str
    model: str
    submit_s: float
    workers: int
    batch: int
    samples: float
    mixed: bool
    preferred: str


def read_elastic_rows(path: Path | str) -> list[ElasticRow]:
    """Rows of the trace, one per name.

    The header ends with a column without a name, and not every row has it: cells beyond those that
    are named are left alone.

    Raises
    ------
    InputError
        If the file or a value is not of the form; names file, line and field.
    """
    found: dict[str, ElasticRow] = {}
    for number, line in read_lines(path):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1:
            if tuple(cells[: len(COLUMNS)]) != COLUMNS:
                rule = f"must begin with the columns {', '.join(COLUMNS)}"
                raise InputError(rule, file=str(path), line=number)
            continue
        if len(cells) < len(COLUMNS):
            rule = f"must have at least {len(COLUMNS)} cells, got {len(cells)}"
            raise InputError(rule, file=str(path), line=number)
        named = dict(zip(COLUMNS, cells, strict=False))
        made = _row(Row(str(path), number, named))
        found[made.name] = made
    if not found:
        raise InputError("has no jobs", file=str(path))
    return list(found.values())


def _row(row: Row) -> ElasticRow:
    model = row.text("application")
    if model not in DATASET:
        known = ", ".join(sorted(DATASET))
        raise row.error("application", f"unknown model {model!r}; known are {known}")
    epochs = row.integer("epochs", at_least=1, at_most=10**6)
    return ElasticRow(
        row.text("name"),
        model,
        row.number("time", at_least=0.0),
        row.integer("max_parallelism", at_least=1, at_most=4096),
        row.integer("batch_size", at_least=1, at_most=10**9),
        epochs * DATASET[model],
        row.integer("enable_heterogeneous_deterministic", at_least=0) > 0,
        row.text("preferred_gpu"),
    )
