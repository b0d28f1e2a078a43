"""Turns beside a pretended Kubernetes: what must hold, whatever it refuses, hides or forgets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.live.cli import main
from morph_opt.live.execution import release_all
from morph_opt.live.history import write_run
from morph_opt.live.turn import ADVISE, OBSERVE, Mode
from morph_opt.simulation.runs.read import read_run
from tests.live.kube.fake import EPOCH_S, FakeKube
from tests.live.kube.kueue import QUEUE
from tests.live.kube.rules import GPU, HOST, gates_of
from tests.live.kube.scene import (
    controller,
    day,
    finish,
    foreign_jobs,
    kubernetes,
    ours,
    over,
    some_jobs,
    steps,
)
from tests.live.scene import audit, commands


@pytest.fixture
def fake() -> Iterator[FakeKube]:
    found = FakeKube(3)
    yield found
    found.close()


@pytest.mark.parametrize("seed", range(2))
def test_chaos(tmp_path: Path, seed: int) -> None:
    chaos = day(tmp_path, seed)
    assert chaos.kills
    assert chaos.conflicts
    assert chaos.fake.codes[409]
    assert chaos.faults() == {}


def test_release_all_frees_every_waiting_job(tmp_path: Path, fake: FakeKube) -> None:
    long = fake.submit("long", 8, 100.0, "checkpoint seconds=9000", pods=3)
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        some_jobs(fake, 6, 3)
        fake.submit("odd", 2, 10.0, affinity={"podAffinity": {}})
        while not any("state" in str(job["metadata"]) for _, job in fake.all("jobs")):
            steps(one, fake, 1.0)
    assert long.started == 3
    fake.suspend("ml/j3-5")
    assert release_all(kubernetes(fake), tmp_path, 10**6) == (0, [])
    done, refused = release_all(kubernetes(fake), tmp_path, None)
    assert refused == []
    assert done >= 6
    assert ours(fake) == []
    fake.advance(600.0)
    assert over(fake)
    assert fake.work["ml/j3-5"].held
    assert fake.ignored == []


def test_a_start_that_was_cut_short_is_completed(tmp_path: Path, fake: FakeKube) -> None:
    fake.submit("gang", 8, 30.0, "seconds=30", pods=3)
    fake.advance(1.0)
    with controller(tmp_path / "a", fake) as one:
        writes: list[Any] = []

        def away(key: tuple[str, str, str]) -> None:
            writes.append(key)
            if key[0] == "pods" and len([k for k in writes if k[0] == "pods"]) == 2:
                fake.away_until_s = fake.now_s + 1.0

        fake.before_write = away
        steps(one, fake, 1.0)
    fake.before_write = None
    assert sum(not gates_of(pod["spec"]) for _, pod in fake.all("pods")) == 2
    fake.sleep(12.0)
    with controller(tmp_path / "b", fake) as one:
        steps(one, fake, 3.0)
        assert [r["job"][-5:] for r in commands(tmp_path / "b")] == ["+rest"]
        finish(one, fake)
    assert over(fake)
    assert fake.twice == []


def test_job_without_a_node_returns_to_the_queue(tmp_path: Path, fake: FakeKube) -> None:
    """Somebody takes the node's memory between the look and the scheduler."""
    fake.submit("big", 8, 30.0, "seconds=30", needs={"memory": "400Gi"})
    fake.advance(1.0)

    def thief(key: tuple[str, str, str]) -> None:
        if key[0] != "pods":
            return
        fake.before_write = None
        for i in (1, 2, 3):
            fake.submit(
                f"thief{i}",
                0,
                60.0,
                None,
                gates=(),
                work={"foreign": True},
                nodeSelector={HOST: f"host-n{i}"},
            )
            limits = {"cpu": "1", "memory": "300Gi"}
            template = fake.store["jobs", "ml", f"thief{i}"]["spec"]["template"]["spec"]
            template["containers"][0]["resources"]["limits"] = limits
        fake._jobs()
        fake._schedule()

    fake.before_write = thief
    with controller(tmp_path, fake) as one:
        steps(one, fake, 30.0)
        record = next(r for r in commands(tmp_path) if r["kind"] == "stop")
        assert record["job"].startswith("ml/big@")
        assert next(iter(one.memory.jobs.values())).launches_failed >= 1
        finish(one, fake)
    assert over(fake)
    assert fake.touched == []


def test_room_beside_gpus_is_looked_at(tmp_path: Path, fake: FakeKube) -> None:
    """Two of 300 GiB do not fit on a node of 512, though its GPUs would do."""
    for i in range(4):
        fake.submit(f"wide{i}", 1, 30.0, "seconds=30", needs={"memory": "300Gi"})
    fake.submit("never", 1, 1.0, needs={"memory": "900Gi"}, work={"deleted": True})
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        assert sum(work.started for work in fake.work.values()) == 3
        assert not [r for r in commands(tmp_path) if "never" in r["job"]]
        finish(one, fake)
    assert over(fake)
    reasons = {r.get("why", "").partition(" has ")[2] for r in commands(tmp_path, "postponed")}
    assert reasons <= {"too little memory", ""}


def test_one_object_with_a_long_text_is_read_as_any(tmp_path: Path, fake: FakeKube) -> None:
    """An annotation of 256 KiB, and arguments of 1.5 MB, of whomever: nothing is away for it."""
    fake.submit("a", 1, 30.0, "seconds=30")
    fake.submit("b", 1, 30.0, "seconds=30", terminationMessagePath="y" * 1_500_000)
    fake.store["jobs", "ml", "a"]["metadata"]["annotations"]["note"] = "x" * 256 * 1024
    with controller(tmp_path, fake) as one:
        finish(one, fake)
        assert one.folder.counts["away"] == 0
    assert over(fake)


def test_nodes_that_sell_shares_of_gpus_are_closed(tmp_path: Path, fake: FakeKube) -> None:
    """Time slices count as GPUs there: nothing is started on them."""
    fake.add_node("sliced")
    fake.store["nodes", "", "sliced"]["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"
    fake.submit("a", 1, 30.0, "seconds=30")
    with controller(tmp_path, fake) as one:
        state = one.scheduler.observe({}).live.snapshot.state
        assert {state.cluster.nodes[at].name for at in state.unavailable} == {"sliced"}


def test_taints_and_selectors_are_kept(tmp_path: Path, fake: FakeKube) -> None:
    taint = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}
    fake.add_node("tainted", taints=[taint])
    for i in range(4):
        fake.submit(f"a{i}", 8, 20.0, "seconds=20")
    fake.submit("b", 8, 20.0, nodeSelector={"no": "such"}, work={"deleted": True})
    fake.submit("c", 8, 20.0, tolerations=[taint | {"operator": "Equal"}])
    with controller(tmp_path, fake) as one:
        steps(one, fake, 3.0)
        pinned = {
            pod["spec"]["nodeSelector"][HOST]
            for _, pod in fake.all("pods")
            if not gates_of(pod["spec"])
        }
        nodes = {
            n["node"]
            for e in audit(tmp_path)
            for h in e.get("happened", ())
            for n in h.get("nodes", ())
        }
    assert pinned == {"host-n1", "host-n2", "host-n3", "host-tainted"}
    assert nodes <= {"n1", "n2", "n3"}
    assert not gates_of(fake.pods_of("ml/c")[0][1]["spec"])


def test_jobs_of_kueue_without_workloads_are_never_stopped(tmp_path: Path, fake: FakeKube) -> None:
    long = fake.submit("long", 8, 900.0, "checkpoint seconds=900", pods=3, labels={QUEUE: "a"})
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        fake.submit("short", 8, 5.0, "seconds=5", work={"deleted": True})
        steps(one, fake, 30.0)
    assert long.started == 3
    assert not [r for r in commands(tmp_path) if r["kind"] == "stop"]


@pytest.mark.parametrize("word", [OBSERVE, ADVISE])
def test_looking_changes_nothing(tmp_path: Path, fake: FakeKube, word: str) -> None:
    some_jobs(fake, 5, 1)
    foreign_jobs(fake)
    fake.advance(2.0)
    before = fake.version
    with controller(tmp_path, fake, Mode(word), powers=frozenset(), partitions=()) as one:
        one.step()
    assert fake.version == before
    assert {verb for verb, _, _ in fake.verbs} == {"get", "list"}
    would = commands(tmp_path, "would")
    assert any(c.startswith("kubectl patch pod ") for r in would for c in r["commands"])
    assert (tmp_path / "commands.txt").exists() is (word == ADVISE)


def test_stops_need_their_power_and_a_job_that_checkpoints(tmp_path: Path, fake: FakeKube) -> None:
    for power, says, stops in (
        ("placement", "checkpoint ", 0),
        ("stops", "", 0),
        ("stops", "checkpoint ", 1),
    ):
        one_fake = FakeKube(1)
        try:
            long = one_fake.submit("long", 8, 100.0, f"{says}seconds=9000")
            folder = tmp_path / f"{power}{len(says)}"
            with controller(folder, one_fake, powers=frozenset(("placement", power))) as one:
                steps(one, one_fake, 20.0)
                one_fake.submit("short", 8, 5.0, "seconds=5")
                steps(one, one_fake, 60.0)
            assert bool(long.started > 1) is bool(stops), (power, says)
        finally:
            one_fake.close()


def test_nothing_is_stopped_on_a_node_that_does_not_respond(tmp_path: Path) -> None:
    fake = FakeKube(1)
    try:
        fake.submit("long", 8, 9000.0, "checkpoint seconds=9000")
        with controller(tmp_path, fake) as one:
            steps(one, fake, 20.0)
            fake.lose("n1")
            fake.submit("short", 8, 5.0, "seconds=5")
            steps(one, fake, 9.0)
        assert not [r for r in commands(tmp_path) if r["kind"] == "stop"]
    finally:
        fake.close()


def test_two_controllers(tmp_path: Path, fake: FakeKube) -> None:
    key = "leases", "morph-opt", "controller"
    with controller(tmp_path / "a", fake) as one:
        has = r"lease: another controller .* has it for \d+ s more"
        with pytest.raises(InputError, match=has), controller(tmp_path / "b", fake):
            pass
        some_jobs(fake, 3, 1)
        fake.change(key, lambda lease: lease["spec"].update(holderIdentity="elsewhere"))
        fake.sleep(4.0)
        steps(one, fake, 3.0)
        assert not commands(tmp_path / "a")
        whys = {r["why"] for r in commands(tmp_path / "a", "postponed")}
        assert whys
        assert all("lease: another controller (elsewhere) has it" in why for why in whys)
        fake.sleep(20.0)
        with controller(tmp_path / "b", fake) as other:  # it has expired
            steps(other, fake, 3.0)
            assert commands(tmp_path / "b")
            assert one.step() in (True, False)
            assert not commands(tmp_path / "a")
            other.close()
        assert fake.store[key]["spec"]["holderIdentity"] == ""
    fake.before_write = lambda found: (
        found == key
        and fake.change(
            key, lambda lease: lease["spec"].update(holderIdentity="faster", renewTime=None)
        )
    )
    took = "lease: another controller took it"
    with pytest.raises(InputError, match=took), controller(tmp_path / "c", fake):
        pass


def test_clocks_apart_do_nothing(tmp_path: Path, fake: FakeKube) -> None:
    some_jobs(fake, 3, 1)
    fake.skew_s = 60.0
    with controller(tmp_path, fake) as one:
        steps(one, fake, 5.0)
    assert not commands(tmp_path)
    assert "clocks are" in commands(tmp_path, "postponed")[0]["why"]


def test_recorded_history_is_a_valid_run(tmp_path: Path, fake: FakeKube) -> None:
    some_jobs(fake, 8, 5)
    with controller(tmp_path, fake) as one:
        finish(one, fake)
        steps(one, fake, 5.0)
    write_run(tmp_path / "audit.jsonl", tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.summary.completed == 8
    assert run.summary.rounds_over_capacity == 0
    mean_s = sum(work.over_s - EPOCH_S for work in fake.work.values()) / 8
    assert run.summary.avg_jct_s == pytest.approx(mean_s, abs=3.0)


def test_the_command_line(
    tmp_path: Path, fake: FakeKube, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    some_jobs(fake, 3, 1)
    fake.advance(1.0)
    text = f'scheduler = "kubernetes"\nserver = "{fake.url}"\npartitions = ["ml"]\n'
    config = tmp_path / "live.toml"
    config.write_text(text)
    words = ["--config", str(config), "--folder", str(tmp_path / "out"), "--turns", "1"]
    assert main(["observe", *words, "--objective", "jct"]) == 0
    turn = json.loads((tmp_path / "out/audit.jsonl").read_text().splitlines()[-1])
    assert turn["waits"] == 3
    assert main(["release-all", *words[:4], "--yes"]) == 0
    assert "3 jobs given back" in capsys.readouterr().out
    for more, rule in (
        (text.replace('["ml"]', '["mlx"]'), 'partitions: 404 namespaces "mlx" not found'),
        (text + 'powers = ["order"]', "'order' is not possible: Kubernetes changes neither"),
        (text + "park_s = 60", "park_s: has an effect with slurm only"),
        ('lease = "a/b"', "lease: has an effect with kubernetes only"),
        ('scheduler = "kubernetes"', "server: must be given: this is no pod"),
        (text.replace("127.0.0.1", "10.0.0.1"), "server: must be https://HOST:PORT"),
        (text + 'lease = "a"', "lease: must be NAMESPACE/NAME"),
        (text.replace("http:", "ftp:"), "server: must be https://HOST:PORT"),
        (text.replace(fake.url, "https://127.0.0.1:1") + 'ca = "none"', "ca: cannot be read"),
        (text.replace(fake.url, "http://127.0.0.1:1"), "API server: does not answer"),
    ):
        config.write_text(more)
        assert main(["observe", *words]) == 2, more
        said = capsys.readouterr().err
        assert rule in said
        assert said.count("\n") == 1


def test_gpus_are_those_that_pods_were_given(tmp_path: Path, fake: FakeKube) -> None:
    """A job that ends does not change what others are taken to hold: the log would say so."""
    for i in range(4):
        fake.submit(f"a{i}", 2, 20.0 + 30.0 * i, "seconds=20")
    with controller(tmp_path, fake) as one:
        finish(one, fake)
    notes = {pod["metadata"]["annotations"]["morph-opt.dev/gpus"] for _, pod in fake.all("pods")}
    assert all(len(word.split(",")) == 2 for word in notes)
    assert GPU == "nvidia.com/gpu"
