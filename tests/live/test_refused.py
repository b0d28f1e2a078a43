"""Bad input beside a pretended Slurm: one line each, and nothing is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.live.settings import read_settings
from morph_opt.live.stated import Stated, stated_of
from morph_opt.live.turn import OBSERVE, Mode
from tests.live.fake import FakeSlurm
from tests.live.scene import controller


def test_bad_inputs_are_one_line_and_nothing_is_done(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    fake.away(1e6)
    with pytest.raises(InputError, match="slurmctld: does not answer: Unable to contact"):
        controller(tmp_path / "a", fake)
    with pytest.raises(InputError, match="slurmctld: does not answer"):
        controller(tmp_path / "a", fake, Mode(OBSERVE)).run(1, False)
    fake = FakeSlurm(1)
    fake.rights = False
    with pytest.raises(InputError, match=r"lease: Access/permission denied.*run as root"):
        controller(tmp_path / "b", fake)
    assert [job.state for job in fake.jobs.values()] == ["CANCELLED"], "no lease is left behind"
    fake = FakeSlurm(1)
    with pytest.raises(InputError, match="partitions: no node is in partition 'cpu'; there are"):
        controller(tmp_path / "c", fake, Mode(OBSERVE), partitions=("cpu",)).run(1, False)
    with pytest.raises(InputError, match="powers: must name powers and partitions"):
        controller(tmp_path / "d", fake, powers=frozenset())
    with pytest.raises(InputError, match="0 of 20 turns were observed: run live observe first"):
        controller(tmp_path / "e", fake, observe_turns=20)
    (tmp_path / "jobs.json").write_text('{"schema": "another/1"}')
    with pytest.raises(InputError, match=r"jobs\.json, schema: must be 'morph-opt/live-jobs/1'"):
        controller(tmp_path, fake)
    one = controller(tmp_path / "f", fake, Mode(OBSERVE))
    one.memory.cluster = "other"
    with pytest.raises(InputError, match="is of cluster 'other', this is 'fake'"):
        one.run(1, False)
    assert len(fake.jobs) == 0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('powers = ["place"]', "unknown power 'place'"),
        ('powers = ["stops"]', "must name placement too"),
        ("pol_s = 3", "unknown field"),
        ("poll_s = 0", "poll_s: must be"),
        ("[node_types.a]\nmemory = 3", "unknown field"),
    ],
)
def test_settings_are_refused_in_one_line(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "live.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rule):
        read_settings(path)


@pytest.mark.parametrize(
    "words",
    ["seconds=-3", "seconds=1h", "seconds=nan", "left=inf", "weight=1e999", "plan=warp", "gpus=2-"],
)
def test_comments_that_make_no_sense_leave_a_job_rigid(words: str) -> None:
    said, wrong = stated_of(f"morph checkpoint {words}")
    assert said == Stated()
    assert wrong.startswith(words.partition("=")[0])


def test_foreign_words_of_a_comment_are_kept() -> None:
    said, wrong = stated_of("morph checkpoint gpus=2-8 model=a iterations=5 what=ever")
    assert said.malleable
    assert wrong == ""
