"""Files of the live controller: good ones, and what it does with them in a turn."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from morph_opt.core.domain import InputError
from morph_opt.live.history import write_run
from morph_opt.live.memory import SCHEMA, read_memory
from morph_opt.live.settings import Settings, read_settings
from morph_opt.live.stated import stated_of
from morph_opt.live.turn import OBSERVE, Mode
from tests.live import scene
from tests.live.fake import FakeJob, FakeSlurm

MODEL = "morph checkpoint model=net iterations=4000 plan=dp gpus=1-8"
SETTINGS = """\
partitions = ["gpu"]
powers = ["order", "placement", "shape", "stops"]
mark = "morph"
interval_s = 30.0
poll_s = 0.5
observe_turns = 0
stops_per_hour = 12
probe = true
speeds = "speeds.json"
reports = "reports"

[node_types.a800-x8]
memory_gib = 80.0
nvlink_gb_per_s = 400.0
"""


def _cluster() -> tuple[FakeSlurm, list[FakeJob]]:
    fake = FakeSlurm(1)
    jobs = [fake.submit(gpus, 400.0, MODEL) for gpus in (8, 4, 2)]
    fake.advance(5.0)
    return fake, jobs


def _speeds(folder: Path) -> None:
    rows = [
        {
            "model": "net",
            "node_type": "a800-x8",
            "shape": str(n),
            "plan": "dp",
            "iteration_s": 0.8 / n,
        }
        for n in (1, 2, 4, 8)
    ]
    text = json.dumps({"schema": "morph-opt/speeds/1", "rows": rows})
    (folder / "speeds.json").write_text(text)


def _turn(settings: Settings, folder: Path) -> None:
    """A turn of a controller that only looks, and believes what jobs report."""
    fake, _ = _cluster()
    try:
        own = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        own["partitions"] = ()
        one = scene.controller(folder, fake, Mode(OBSERVE, measured=True), **own)
        one.step()
        fake.advance(settings.interval_s + 1.0)
        one.step()
    finally:
        while scene.OPEN:
            scene.OPEN.pop().folder.close()


@cache
def _folder() -> dict[str, bytes]:
    """What a controller of some turns leaves."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _speeds(folder)
        (folder / "reports").mkdir()
        for number in (1, 2):
            (folder / f"reports/{number}.json").write_bytes(reports()[0])
        (folder / "live.toml").write_text(SETTINGS)
        _turn(read_settings(folder / "live.toml"), folder)
        return {one: (folder / one).read_bytes() for one in ("jobs.json", "audit.jsonl")}


def settings() -> list[bytes]:
    return [SETTINGS.encode()]


def memories() -> list[bytes]:
    measured = [
        {
            "model": "net",
            "node_type": "a800-x8",
            "shape": "8",
            "plan": "dp",
            "span": "NODE",
            "iteration_s": 0.2,
        }
    ]
    empty = {"schema": SCHEMA, "cluster": "fake", "measured": measured}
    return [_folder()["jobs.json"], json.dumps(empty).encode()]


def reports() -> list[bytes]:
    return [json.dumps({"iterations_left": 1200.5, "iteration_s": 0.25}).encode()]


def audits() -> list[bytes]:
    return [_folder()["audit.jsonl"]]


def beside() -> dict[str, bytes]:
    """The other files of a controller's folder, whichever of them is mutated."""
    with TemporaryDirectory() as name:
        _speeds(Path(name))
        return {"speeds.json": (Path(name) / "speeds.json").read_bytes()}


def take_settings(path: Path) -> object:
    """Read them; a turn is taken with some that name no other file."""
    found = read_settings(path)
    (path.parent / "reports").mkdir(exist_ok=True)
    return found


def take_memory(path: Path) -> object:
    """Read it and go on from there for two turns."""
    found = asdict(read_memory(path.parent))
    _turn(Settings(observe_turns=0, folder=path.parent, speeds="speeds.json"), path.parent)
    return found


def take_report(path: Path) -> object:
    """Believe it for two turns; what makes no sense is said and the job left rigid."""
    said, wrong = stated_of(MODEL, path)
    if wrong:
        raise InputError(wrong)
    place = path.parent / "reports"
    place.mkdir(exist_ok=True)
    for number in (1, 2, 3):
        shutil.copy(path, place / f"{number}.json")
    (path.parent / "jobs.json").unlink(missing_ok=True)
    own = Settings(folder=path.parent, speeds="speeds.json", reports="reports")
    _turn(own, path.parent)
    return said


def take_audit(path: Path) -> object:
    """Write its run folder."""
    out = path.parent / "run"
    shutil.rmtree(out, ignore_errors=True)
    write_run(path, out)
    return out
