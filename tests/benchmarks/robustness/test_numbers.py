"""No number of a file that `round` or `live` reads may be NaN or infinite; the field is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.checks.robustness.readers import READERS, Reader
from morph_opt.core.domain import InputError

READ = {
    *("rules TOML", "cluster TOML", "snapshot JSON", "speeds JSON"),
    *("squeue JSON", "Slurm nodes JSON", "Kueue workloads JSON", "Kubernetes objects JSON"),
    *("live.toml", "live jobs.json", "live report JSON", "live audit log"),
}
"""Names of the files of a round, of the schedulers' answers, and of a controller."""
NUMBER = re.compile(r"^(\w+) = [\d.]+$", re.MULTILINE)


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each number below a parsed value: the field that it is of, what it stands in, and where."""
    for key, one in list(value.items() if isinstance(value, dict) else enumerate(value)):
        field = key if isinstance(value, dict) else name
        if isinstance(one, dict | list):
            yield from _numbers(one, field)
        elif type(one) in (int, float):
            yield field, value, key


def _spoilt(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Fields, and the text with one number of each that is none."""
    if kind == "toml":
        for found in NUMBER.finditer(text):
            for word in ("nan", "-inf", "1e999"):
                yield found[1], f"{text[: found.end(1)]} = {word}{text[found.end() :]}"
        return
    lines = text.splitlines() if "\n{" in text else [text]
    seen = set()
    for i, line in enumerate(lines):
        document = json.loads(line)
        for field, place, key in _numbers(document):
            if field in seen:
                continue
            seen.add(field)
            was, place[key] = place[key], "HERE"
            for word in ("NaN", "-Infinity", "1e999"):
                own = json.dumps(document).replace('"HERE"', word)
                yield field, "\n".join([*lines[:i], own, *lines[i + 1 :]])
            place[key] = was


@pytest.mark.parametrize(
    "reader", [one for one in READERS if one.name in READ], ids=lambda one: one.name
)
def test_malformed_numbers_are_refused_by_file_and_field(reader: Reader, tmp_path: Path) -> None:
    path = reader.place(tmp_path)
    tried = 0
    for field, text in _spoilt(path.read_text(), reader.kind):
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            reader.read(path)
        said = str(caught.value)
        assert re.search(rf"{path.name}.*\b{field}\b.*: must be a finite number", said), text
        assert said.isprintable()
        tried += 1
    assert tried >= 3


def test_every_reader_of_numbers_is_fuzzed() -> None:
    assert {one.name for one in READERS} >= READ
