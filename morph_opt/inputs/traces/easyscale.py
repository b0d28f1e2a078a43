"""Reader of EasyScale's published trace: jobs with a fixed number of workers on any GPU type.

The file comes without a licence: it is read where a user has it, and never offered. Names repeat;
as in the published code the last row of a name wins, at the place of the first. Work is epochs
times the length of the data set, of which the published code takes a hundredth. Beside it lies the
published measurement of mini-batches, with kernels fixed on a type and with kernels equal on all.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from morph_opt.core.documents import Row, read_lines, read_rows
from morph_opt.core.domain import ExecutionPlan, InputError, Job, Trace
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.traces.format import WORKERS, LoadedTrace, TraceFormat

TRACE, OVERHEAD = "workload-test.csv", "overhead.csv"
"""Files of the publication."""

HOME = "4x8:V100+2x8:P100+2x8:T4"
"""Cluster of the publication."""

STEPS = 1000
"""Iterations per mini-batch; work is no whole number of mini-batches."""

DATASET = {
    "resnet50": 12800.0, "vgg19": 12800.0, "shufflenetv2": 12800.0, "swintransformer": 12800.0,
    "yolov3": 165.51, "bert": 886.41, "electra": 886.41, "ncf": 49708.45,
}  # fmt: skip
"""Samples of an epoch by model."""

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
        Name, model and submission of the job.
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
    """Read the rows of the trace, one per name.

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


MEASURED_AS = {"shufflenetv2": "ShuffleNetv2", "resnet50": "ResNet50", "vgg19": "VGG19",
               "yolov3": "YOLOv3", "ncf": "NeuMF", "bert": "Bert", "electra": "Electra",
               "swintransformer": "SwinTransformer"}  # fmt: skip
"""Names of models in the measurement, by those in the trace."""

_KERNELS = {"d1": "ddp_determinism", "d2": "ddp_hetero"}


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured mini-batches of a model on a GPU type.

    Parameters
    ----------
    batch
        Samples of each.
    seconds
        By determinism level, as written.
    """

    batch: int
    seconds: dict[str, str]


def read_overhead(path: Path) -> dict[tuple[str, str], Measured]:
    """Read measured mini-batches by (model, GPU type), as they are named there.

    Raises
    ------
    InputError
        If the file or a value is not of the form; names file, line and field.
    """
    found: dict[tuple[str, str], Measured] = {}
    for row in read_rows(path, ("model", "bs", "gpu", *_KERNELS.values()), None):
        key = row.text("model"), row.text("gpu")
        if key in found:
            raise row.error("model", f"must be unique on {key[1]}, {key[0]!r} occurs twice")
        for column in _KERNELS.values():
            if not row.number(column, at_least=0.0) > 0.0:
                raise row.error(column, "must be above 0")
        times = {level: row.text(column) for level, column in _KERNELS.items()}
        found[key] = Measured(row.integer("bs", at_least=1, at_most=10**9), times)
    return found


def load(folder: Path | str) -> tuple[Trace, ElasticTable, str]:
    """Load the published trace with the published times of mini-batches.

    A larger mini-batch than the measured one takes proportionally longer, a smaller one
    as long. A job that may mix types has kernels that are equal on all of them.

    Parameters
    ----------
    folder
        Holds the files `TRACE` and `OVERHEAD`.

    Raises
    ------
    InputError
        If a file is missing or wrong, or knows no times of a model.
    """
    folder = Path(folder)
    rows = read_elastic_rows(folder / TRACE)
    measured = read_overhead(folder / OVERHEAD)
    seconds = {_model(row): _seconds(row, measured, folder / OVERHEAD) for row in rows}
    notice = f"easyscale: your copy of the trace, {len(rows)} jobs, with the times next to it"
    texts = {m: {kind: str(time) for kind, time in of.items()} for m, of in seconds.items()}
    trace = Trace.of("easyscale", [_job(row) for row in rows], notice)
    return trace, ElasticTable(texts), notice


def _level(row: ElasticRow) -> str:
    return "d2" if row.mixed else "d1"


def _model(row: ElasticRow) -> str:
    return f"{row.model}-b{row.batch}-{_level(row)}"


def _seconds(
    row: ElasticRow, measured: dict[tuple[str, str], Measured], file: Path
) -> dict[str, Fraction]:
    """Return seconds of an iteration of one worker by GPU type."""
    name = MEASURED_AS[row.model]
    found = {
        kind.upper(): Fraction(known.seconds[_level(row)])
        * max(Fraction(1), Fraction(row.batch, known.batch))
        / STEPS
        for (model, kind), known in measured.items()
        if model == name
    }
    if row.preferred.upper() not in found:
        rule = f"has no times of {name} on {row.preferred}, which job {row.name} asks for"
        raise InputError(rule, file=str(file))
    return found


def _job(row: ElasticRow) -> Job:
    plan = ExecutionPlan.ests(row.workers, _level(row), row.preferred.upper())
    iterations = max(1, round(STEPS * row.samples / (row.batch * row.workers)))
    return Job(row.name, _model(row), row.submit_s, iterations, row.workers, plan)


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


def _load(folder: str, *, seed: int) -> LoadedTrace:
    """Return the trace of a folder."""
    del seed  # an original is the same for every seed
    trace, truth, notice = load(folder)
    return LoadedTrace(trace, truth, "file", notice)


def _folder(path: str) -> tuple[str, ...]:
    """Return the path if it is a folder, else nothing: a single file is a log of gangs."""
    return (path,) if Path(path).is_dir() else ()


def _files(folder: str) -> tuple[str, ...]:
    """Return the files that are read in a folder."""
    return tuple(str(Path(folder) / name) for name in (TRACE, OVERHEAD))


FORMAT = TraceFormat(
    "easyscale", (), _load, WORKERS, HOME, "easyscale", paths=_folder, files=_files
)
"""Trace format of a user's folder with the publication's files, which may not be offered."""
