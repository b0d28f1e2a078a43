"""A controller beside a pretended Kubernetes, killed, refused and raced, and what must hold.

``python -m tests.live.kube.scene 100 160`` runs the days of these seeds, and adds up.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.live.execution import release_all
from morph_opt.live.kube.cluster import Kubernetes
from morph_opt.live.scheduler import AwayError, Command
from morph_opt.live.settings import Settings
from morph_opt.live.turn import ACT, Controller, Mode
from tests.live.kube.fake import FakeKube
from tests.live.kube.kueue import QUEUE
from tests.live.kube.rules import GATE, HOST, Key, gates_of
from tests.live.scene import commands

POWERS = frozenset(("placement", "stops"))


class KilledError(Exception):
    """The controller is gone in the middle of what it did."""


def settings(fake: FakeKube, **more: Any) -> Settings:
    known = {"scheduler": "kubernetes", "server": fake.url, "partitions": ("ml",),
             "powers": POWERS, "observe_turns": 0, "minimum_run_s": 5.0, "restart_s": 5.0,
             "stops_per_hour": 1000, "stop_needs": "word", "settle_s": 1.0, "lease_s": 10.0,
             "launch_s": 15.0, "timeout_s": 2.0, "launches": 1000}  # fmt: skip
    return Settings(**{**known, **more})


def kubernetes(fake: FakeKube, **more: Any) -> Kubernetes:
    return Kubernetes(settings(fake, **more), fake.clock, fake.sleep)


@contextmanager
def controller(
    path: Path, fake: FakeKube, mode: Mode | None = None, **more: Any
) -> Iterator[Controller]:
    own = settings(fake, **more)
    one = Controller(Kubernetes(own, fake.clock, fake.sleep), own, mode or Mode(ACT), path)
    try:
        yield one
    finally:
        one.folder.close()


def steps(one: Controller, fake: FakeKube, seconds: float, every_s: float = 1.0) -> None:
    """Let the controller look again and again."""
    end_s = fake.now_s + seconds
    while fake.now_s < end_s:
        with suppress(AwayError):
            one.step()
        fake.sleep(every_s)


def over(fake: FakeKube) -> bool:
    """Whether all has ended that is to end."""
    return all(work.over_s or work.deleted or work.held for work in fake.work.values())


def finish(one: Controller, fake: FakeKube, limit_s: float = 3000.0) -> None:
    end_s = fake.now_s + limit_s
    while not over(fake) and fake.now_s < end_s:
        steps(one, fake, 5.0)


def ours(fake: FakeKube) -> list[str]:
    """What waits for us: gated pods, and Jobs that we suspended, be it by their Workloads."""
    gated = [key[2] for key, pod in fake.all("pods") if GATE in gates_of(pod["spec"])]
    stopped = [
        key[2]
        for key, one in (*fake.all("jobs"), *fake.all("workloads"))
        if "morph-opt.dev/state" in one["metadata"].get("annotations", {})
    ]
    return gated + stopped


def some_jobs(fake: FakeKube, count: int, seed: int) -> None:
    draw = random.Random(seed)
    for i in range(count):
        gpus, pods = draw.choice([(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (4, 2), (2, 3)])
        work_s = draw.uniform(10.0, 80.0)
        says = f"{'checkpoint ' if draw.random() < 0.7 else ''}seconds={work_s:.0f}"
        labels = {QUEUE: "a"} if fake.quota and draw.random() < 0.6 else {}
        fake.submit(
            f"j{seed}-{i}",
            gpus,
            work_s,
            says,
            pods=pods,
            labels=labels,
            work={"checkpoint": "checkpoint" in says},
        )


def foreign_jobs(fake: FakeKube) -> None:
    """Jobs that no controller of ours may write to."""
    mine = {"foreign": True}
    fake.submit("plain", 4, 60.0, None, gates=(), work=mine)
    fake.submit("elsewhere", 4, 60.0, namespace="other", gates=(), work=mine)
    fake.submit("gated-elsewhere", 4, 60.0, namespace="other", work=mine | {"deleted": True})
    fake.submit("other-gate", 4, 60.0, gates=(GATE, "site/quota"), work=mine | {"deleted": True})
    fake.submit("pinned", 2, 60.0, nodeSelector={HOST: "host-n1"}, work=mine | {"deleted": True})
    fake.submit("affine", 2, 60.0, affinity={"podAffinity": {}}, work=mine | {"deleted": True})
    fake.submit("suspended", 2, 60.0, suspend=True, work=mine)
    if fake.quota:
        fake.submit("queued", 2, 60.0, None, gates=(), labels={QUEUE: "a"}, work=mine)


class Chaos:
    """Faults by a seed; `run` is a whole day of them in a few seconds."""

    def __init__(self, fake: FakeKube, path: Path, seed: int) -> None:
        self.fake, self.path, self.draw = fake, path, random.Random(seed)
        self.kills = self.conflicts = 0
        self.left: list[str] = []

    def before_write(self, key: Key) -> None:
        """Somebody may change the object first."""
        if key in self.fake.store and key[0] != "leases" and self.draw.random() < 0.2:
            self.conflicts += 1
            self.fake.change(
                key,
                lambda one: (
                    one["metadata"]
                    .setdefault("annotations", {})
                    .update({"somebody": str(self.draw.random())})
                ),
            )

    def _mortal(self, one: Controller) -> None:
        """It dies before or behind some command, so that nothing is written down of it."""
        scheduler, do = one.scheduler, one.scheduler.do
        left, early = self.draw.randint(1, 4), self.draw.random() < 0.5

        def die(command: Command) -> None:
            nonlocal left
            left -= 1
            if not (early and left == 0):
                do(command)
            if left == 0:
                self.kills += 1
                raise KilledError

        scheduler.do = die  # type: ignore[method-assign]

    def run(self, limit_s: float = 4000.0) -> None:
        """Controllers one after the other, each until it is killed, until all jobs are over."""
        fake = self.fake
        fake.before_write = self.before_write
        end_s = fake.now_s + limit_s
        while not over(fake) and fake.now_s < end_s:
            try:
                with controller(self.path, fake) as one:
                    self._mortal(one)
                    while not over(fake) and fake.now_s < end_s:
                        steps(one, fake, 1.0)
                        self._happen()
            except KilledError:
                fake.sleep(self.draw.uniform(0.0, 5.0))
            except InputError as error:
                if not any(word in str(error) for word in ("has it for", "does not answer")):
                    raise
                fake.sleep(2.0)
        fake.before_write = None

    def _happen(self) -> None:
        fake, draw = self.fake, self.draw
        if draw.random() < 0.03:
            fake.away_until_s = fake.now_s + draw.uniform(1.0, 8.0)
        if fake.quota and draw.random() < 0.02:
            fake.kueue_away_until_s = fake.now_s + draw.uniform(1.0, 20.0)
        if draw.random() < 0.05:
            nodes = [key[2] for key, _ in fake.all("nodes") if key[2] not in fake.lost]
            fake.cordon(draw.choice(nodes), draw.random() < 0.4)
        waiting = [
            name
            for name, work in fake.work.items()
            if not (work.over_s or work.deleted or work.foreign) and fake.known(name)
        ]
        if waiting and draw.random() < 0.03:
            fake.suspend(draw.choice(waiting))
        for name in [n for n, w in fake.work.items() if w.held and not (w.foreign or w.deleted)]:
            if draw.random() < 0.1:
                fake.suspend(name, False)
        if waiting and draw.random() < 0.01:
            fake.delete(draw.choice(waiting))
        if draw.random() < 0.01 and len(fake.lost) < 1:
            fake.lose(draw.choice([key[2] for key, _ in fake.all("nodes")]))
        for name, since_s in list(fake.lost.items()):
            if ("nodes", "", name) in fake.store and fake.now_s > since_s + 40.0:
                fake.remove(name)
                fake.add_node(f"{name}x")

    def faults(self) -> dict[str, object]:
        """What must not be, with its cases; nothing else is in it."""
        fake = self.fake
        found = {
            "not over": [] if over(fake) else [n for n, w in fake.work.items() if not w.over_s],
            "ran again": [name for name, work in fake.work.items() if work.ran_again],
            "foreign touched": fake.touched,
            "GPUs twice": fake.twice,
            "holds ignored": fake.ignored,
            "left behind": self.left,
        }
        return {word: cases for word, cases in found.items() if cases}


def day(path: Path, seed: int) -> Chaos:
    """A day of faults, and the release of all that is left."""
    fake = FakeKube(3, seed=seed, refuse=0.1, page=7, quota=24 * (seed % 2))
    try:
        foreign_jobs(fake)
        some_jobs(fake, 8, seed)
        chaos = Chaos(fake, path, seed)
        chaos.run()
        touched = list(fake.touched)
        fake.refuse = 0.0
        fake.sleep(30.0)
        release_all(kubernetes(fake), path, None)
        fake.touched = touched  # this takes our gate from whomever it keeps
        chaos.left = ours(fake)
        return chaos
    finally:
        fake.close()


def main() -> None:
    """Run the days of some seeds."""
    sums: Counter[str] = Counter()
    for seed in range(*map(int, sys.argv[1:3])):
        with tempfile.TemporaryDirectory() as folder:
            chaos = day(Path(folder), seed)
            sums += Counter(
                {
                    "days": 1,
                    "kills": chaos.kills,
                    "holds not seen": chaos.fake.unseen,
                    "pods started": sum(work.started for work in chaos.fake.work.values()),
                    "stops": sum(r["kind"] == "stop" for r in commands(Path(folder))),
                    **{f"answers {code}": n for code, n in chaos.fake.codes.items()},
                    **{word: len(cases) for word, cases in chaos.faults().items()},
                }
            )
        print(seed, chaos.faults() or "nothing that must not be", flush=True)
    print(dict(sorted(sums.items())))


if __name__ == "__main__":
    main()
