"""What the campaign of mutants copies; a broken copy is no killed mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.mutants import ROOT, Copy, left_out


def test_a_copy_lacks_run_folders_and_no_package() -> None:
    assert left_out(str(ROOT), ["runs", ".venv", "morph_opt"]) == {"runs", ".venv"}
    assert left_out(str(ROOT / "morph_opt"), ["runs", "__pycache__", "plan"]) == {"__pycache__"}


def test_tests_that_fail_without_a_mutant_judge_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.robustness.mutants.shutil.copytree", lambda *a, **k: None)
    copy = Copy(tmp_path)
    outcomes = {("good",): "survived", ("broken",): "killed"}
    monkeypatch.setattr(copy, "passes", lambda tests: outcomes[tests])
    copy.require_sound(("good",))
    with pytest.raises(SystemExit, match="without a mutant these tests fail in a copy: broken"):
        copy.require_sound(("broken",))
