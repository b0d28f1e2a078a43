"""Page on every log below a folder."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from benchmarks.traces.survey import main, survey_page
from morph_opt.core.domain import InputError
from tests.traces.logs.samples import SAMPLES, put


def test_a_survey_has_facts_and_no_rows(tmp_path: Path) -> None:
    for name in ("helios", "openb", "batsim"):
        put(tmp_path / "logs", name, SAMPLES[name].text(), f"{name}.csv")
    (tmp_path / "logs" / "other.csv").write_text("a,b\n1,2\n")
    out = tmp_path / "page.md"
    assert main([str(tmp_path / "logs"), "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    assert "| `helios.csv` | helios |  | 2 | 2 | 0 | 346,200 |" in text
    assert "other" not in text
    assert str(tmp_path) not in text
    (tmp_path / "logs" / "none").mkdir()
    with pytest.raises(InputError, match="has no log of a known format"):
        survey_page(tmp_path / "logs" / "none")
    with pytest.raises(InputError, match="must be a folder, it is a file"):
        survey_page(tmp_path / "logs" / "other.csv")


def test_survey_lists_unreadable_files(tmp_path: Path) -> None:
    whole = SAMPLES["kueue"].text()
    put(tmp_path, "kueue", whole.rstrip()[:-1], "cut.json")
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(whole.encode()))
    text = survey_page(tmp_path)
    assert "| `packed.json.gz` | kueue |" in text
    assert re.search(r"- cut\.json, line \d+: is not JSON: expecting '}'", text)
