"""A bounded part of the fuzzing: the first files of every reader's campaign."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.checks.robustness.fuzz import Campaign, bad_line, judged
from benchmarks.checks.robustness.readers import READERS, Reader
from morph_opt.core.domain import InputError

FILES = 30
"""Per reader; `make fuzz` tries thousands."""
OPENS = {"read_bytes", "read_json", "read_lines", "read_rows", "read_text", "read_toml"}
"""Functions of `morph_opt.core.documents` that open a file."""
NO_FORMAT = {
    "morph_opt/core/documents": "the readers under all others",
    "morph_opt/inputs/traces/cluster_twins": "shipped with the package",
    "morph_opt/inputs/traces/twins/gavel.py": "shipped with the package",
    "morph_opt/inputs/data/store.py": "compares checksums",
    "morph_opt/replay/cli.py": "summary.json of a finished run, see run folder summary.json",
    "morph_opt/explain/why.py": "config.toml of a run folder, of which it takes a table alone",
    "morph_opt/audit/recorded.py": "config.toml of a run folder, of which it takes the cluster",
    "morph_opt/replay/scenario.py": "config.toml, behind `read_scenario`",
    "morph_opt/replay/prepare.py": "digest of a file that another reader has read",
    "morph_opt/round/live/": "documents of schedulers, behind `read_live`",
    "morph_opt/round/watch.py": "its own growing file of explanations",
    "morph_opt/live/turn.py": "its own status",
    "morph_opt/plan/evaluate.py": "bounds.json, its own; tests/plan",
    "morph_opt/plan/site.py": "hindcast.json, its own; tests/plan",
    "morph_opt/replay/initial.py": "digest of a state, which is read as a snapshot",
    "morph_opt/simulation/runs/write.py": "Recorded",
    "morph_opt/sweep/cell.py": "digests of files that other readers read",
    "morph_opt/sweep/driver.py": "sends files along that other readers read",
    "morph_opt/sweep/executors.py": "a scheduler file, which Dask reads; tests/sweep",
    "morph_opt/sweep/store.py": "cell.json, its own; tests/sweep",
    "morph_opt/hindcast/recorded.py": "rows of a log, by its reader",
    "morph_opt/inputs/traces/logs/jobs.py": "rows of a log, by its reader",
    "morph_opt/report/tabular.py": "digests of files of a run folder",
    "morph_opt/simulation/runs/views/view.py": "config.toml, versions.json; tests/documents",
    "morph_opt/simulation/runs/views/explanations.py": "explain.jsonl; tests/documents",
}
"""Modules that open files and are no format of their own, with the reason."""


def name_of(reader: Reader) -> str:
    return reader.name


@pytest.mark.parametrize("reader", READERS, ids=name_of)
def test_good_files_are_read(reader: Reader, tmp_path: Path) -> None:
    path = reader.place(tmp_path)
    for content in reader.seeds():
        path.write_bytes(content)
        reader.read(path)


@pytest.mark.parametrize("reader", READERS, ids=name_of)
def test_mutated_files_are_read_or_refused_in_one_line(reader: Reader, tmp_path: Path) -> None:
    campaign = Campaign(reader, 0, tmp_path / "files", bombs=False)
    for index in range(FILES):
        campaign.try_index(index)
    assert campaign.findings == []  # each with the number of its file
    assert campaign.tally.refused


def test_every_reader_is_registered() -> None:
    """A module that opens files is behind a reader of the campaign, or says why it need not be."""
    root = Path(__file__).resolve().parents[3]
    covered = {r.read.__module__ for r in READERS} | {"morph_opt.inputs.perf.cli"}
    here = root / "benchmarks" / "checks" / "robustness"
    text = "".join((here / name).read_text("utf-8") for name in ("readers.py", "live.py"))
    missing = []
    for path in sorted((root / "morph_opt").rglob("*.py")):
        place = path.relative_to(root).as_posix()
        module = place.removesuffix(".py").replace("/", ".")
        names = {n.id for n in ast.walk(ast.parse(path.read_text("utf-8"))) if type(n) is ast.Name}
        known = module in covered or module in text or f"{module.rpartition('.')[0]} import" in text
        if names & OPENS and not known and not place.startswith(tuple(NO_FORMAT)):
            missing.append(place)
    assert missing == []


class Raw(InputError):
    """Says what it is told, unescaped."""

    def __str__(self) -> str:
        return self.rule


def refuse(text: str) -> None:
    raise Raw(text)


def test_the_judge_can_fail() -> None:
    assert judged(lambda: 1)[0] == "accepted"
    assert judged(lambda: refuse("must be good"))[0] == "refused"
    assert judged(lambda: refuse("two\nlines"))[0] == "messages"
    assert judged(lambda: dict[str, str]()["a"])[0] == "exceptions"
    assert judged(lambda: float("no"))[0] == "exceptions"
    assert bad_line("x" * 5000) == "5000 characters"
    assert bad_line("\x1b[2J") == "control characters"
    assert bad_line("a line\n") is None
