"""The rules of the pretended API server, and the rights that the manual gives the controller."""

from __future__ import annotations

import json
import shlex
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from morph_opt.core.domain import InputError
from morph_opt.live.execution import release_all
from morph_opt.live.kube import api as kube_api
from morph_opt.live.kube.api import MERGE, Api, StatusError, path_of
from morph_opt.live.scheduler import AwayError
from morph_opt.live.turn import OBSERVE, Mode
from tests.live.kube.fake import FakeKube
from tests.live.kube.kueue import QUEUE
from tests.live.kube.rules import GATE, HOST, Rule
from tests.live.kube.scene import controller, finish, kubernetes, settings, steps
from tests.waiting import PATIENCE_S

OTHER = "site/quota"


def manifest() -> list[Rule]:
    """The rights of docs/security.md."""
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")
    text = page.partition("```yaml\n")[2].partition("```")[0]
    return [
        (verb, group, kind, role["metadata"].get("namespace", ""), name)
        for role in yaml.safe_load_all(text)
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for verb in rule["verbs"]
        for kind in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    ]


@pytest.fixture
def fake() -> Iterator[FakeKube]:
    found = FakeKube(2, rules=manifest())
    yield found
    found.close()


def test_rights_on_the_how_to_page_are_the_ones_used(tmp_path: Path, fake: FakeKube) -> None:
    fake.quota = 24
    says = "checkpoint seconds=9000"
    long = fake.submit("long", 8, 100.0, says)
    queued = fake.submit("queued", 8, 100.0, says, labels={QUEUE: "a"})
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        fake.submit("short", 8, 5.0, "seconds=5", pods=2)
        finish(one, fake)
        steps(one, fake, 10.0)
        one.close()
    assert (long.started, queued.started) == (2, 2)
    assert 403 not in fake.codes
    assert fake.verbs == {rule[:3] for rule in manifest()}
    release_all(kubernetes(fake), tmp_path, None)
    assert fake.verbs == {rule[:3] for rule in manifest()}


@pytest.mark.parametrize(
    ("verb", "kind", "rule"),
    [
        ("list", "pods", "API server: 403 pods. .* the account needs the rights of docs/security"),
        ("get", "namespaces", "API server: 403 namespaces"),
        ("create", "leases", "lease: 403 leases.* the account needs the rights"),
        ("patch", "pods", ""),
    ],
)
def test_a_right_that_is_missing_is_one_line(
    tmp_path: Path, fake: FakeKube, verb: str, kind: str, rule: str
) -> None:
    fake.rules = [one for one in manifest() if (one[0], one[2]) != (verb, kind)]
    fake.submit("a", 8, 10.0)
    if rule:
        with pytest.raises(InputError, match=rule), controller(tmp_path, fake) as one:
            one.run(1, False)
        return
    with controller(tmp_path, fake) as one:
        steps(one, fake, 5.0)
    entries = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    refused = [r for e in entries if "turn" in e for r in e["commands"]]
    assert {r["outcome"] for r in refused} == {"refused"}
    assert "cannot patch resource" in refused[0]["why"]


def patched(fake: FakeKube, kind: str, name: str, spec: Any, **meta: Any) -> int:
    """The status of a merge patch."""
    api = Api(settings(fake))
    try:
        api.call("PATCH", path_of(kind, "ml", name), {"metadata": meta, "spec": spec}, MERGE)
    except StatusError as error:
        return error.status
    return 200


def test_pods(fake: FakeKube) -> None:
    fake.submit("a", 8, 10.0, gates=(GATE, OTHER), nodeSelector={"kind": "x"})
    fake.advance(1.0)
    (key, pod), *_ = fake.pods_of("ml/a")
    name, version = key[2], pod["metadata"]["resourceVersion"]
    both = [{"name": GATE}, {"name": OTHER}]
    assert patched(fake, "pod", name, {}, resourceVersion="1") == 409
    assert patched(fake, "pod", name, {}, uid="another") == 409
    assert patched(fake, "pod", name, {"schedulingGates": [*both, {"name": "new"}]}) == 422
    assert patched(fake, "pod", name, {"nodeSelector": {"kind": "y"}}) == 422
    assert patched(fake, "pod", name, {"nodeSelector": None}) == 422
    assert patched(fake, "pod", name, {"containers": []}) == 422
    assert patched(fake, "pod", name, {}) == 200
    assert fake.store[key]["metadata"]["resourceVersion"] == version  # nothing differs
    last = {"nodeSelector": {HOST: "host-n1"}, "schedulingGates": None}
    assert patched(fake, "pod", name, last, resourceVersion=version) == 200
    assert patched(fake, "pod", name, last, resourceVersion=version) == 409
    assert patched(fake, "pod", name, {"nodeSelector": {"more": "z"}}) == 422  # no gate any more
    assert patched(fake, "pod", name, {"schedulingGates": both[:1]}) == 422
    assert patched(fake, "pod", "none", {}) == 404


def test_jobs(fake: FakeKube) -> None:
    fake.submit("a", 8, 10.0, gates=(), suspend=True, pods=2)
    free = {"template": {"spec": {"nodeSelector": {"a": "b"}}}}
    assert patched(fake, "job", "a", free) == 200
    assert patched(fake, "job", "a", {"template": {"spec": {"containers": []}}}) == 422
    assert patched(fake, "job", "a", {"completions": 1}) == 422
    assert patched(fake, "job", "a", {"completions": 1, "parallelism": 1}) == 200
    assert patched(fake, "job", "a", {"suspend": False}) == 200
    fake.advance(1.0)
    assert patched(fake, "job", "a", {"suspend": True}) == 200
    fake.advance(5.0)
    assert patched(fake, "job", "a", free | {"template": {"spec": {"nodeSelector": {}}}}) == 200
    assert patched(fake, "job", "a", {"template": {"spec": {"nodeSelector": None}}}) == 422


@pytest.mark.parametrize("clean", [False, True])
def test_exit_status_of_a_suspended_job_is_ignored(fake: FakeKube, clean: bool) -> None:
    work = fake.submit("a", 8, 10.0, gates=(), work={"exits_clean": clean})
    fake.advance(5.0)
    assert patched(fake, "job", "a", {"suspend": True}) == 200
    fake.advance(1.0)
    assert [pod["metadata"].get("deletionTimestamp") for _, pod in fake.pods_of("ml/a")] != [None]
    fake.advance(5.0)
    status = fake.store["jobs", "ml", "a"]["status"]
    assert (status.get("succeeded", 0), status.get("failed", 0)) == (0, 0)
    assert patched(fake, "job", "a", {"suspend": False}) == 200
    fake.advance(30.0)
    assert work.over_s
    assert patched(fake, "job", "a", {"suspend": True}) == 200
    assert patched(fake, "job", "a", {"suspend": False}) == 200
    fake.advance(30.0)
    assert work.started == 2  # a finished Job gets no pod


def test_lists_leases_and_admission(fake: FakeKube) -> None:
    api = Api(settings(fake))
    for i in range(7):
        fake.submit(f"a{i}", 1, 900.0, gates=())
    fake.advance(1.0)
    fake.page, fake.expire = 2, 2
    pods, _ = api.listed("/api/v1/pods", fieldSelector="status.phase!=Succeeded")
    assert len(pods) == len({pod["metadata"]["uid"] for pod in pods}) == 7
    fake.expire = 100
    with pytest.raises(AwayError, match="its pages are gone before they are read"):
        api.listed("/api/v1/pods")
    with pytest.raises(StatusError, match="400 field label not supported"):
        api.listed("/api/v1/pods", fieldSelector="spec.colour!=red")
    lease = {"metadata": {"name": "x", "namespace": "morph-opt"}, "spec": {}}
    path = path_of("lease", "morph-opt")
    made = api.call("POST", path, lease).value
    for verb, where, body, status in (
        ("POST", path, lease, 409),
        ("PUT", f"{path}/x", lease, 422),
        ("POST", path, merge(lease, {"name": "y", "resourceVersion": "1"}), 400),
        ("PUT", f"{path}/x", merge(lease, {"resourceVersion": "1", "uid": "2"}), 409),
        ("PUT", f"{path}/x", made | {"spec": {"leaseDurationSeconds": 0}}, 422),
    ):
        with pytest.raises(StatusError) as refused:
            api.call(verb, where, body)
        assert refused.value.status == status
    fake.refuse = 1.0
    name = fake.pods_of("ml/a0")[0][0][2]
    found = set()
    for _ in range(20):
        try:
            found.add(patched(fake, "pod", name, {}))
        except AwayError as error:
            found.add(str(error).split(": ")[1][:3])
    assert found == {403, "429", "500"}


def merge(value: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(value)
    found["metadata"] |= meta
    return found


def kubectl() -> str:
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl on this machine")
    return found


def test_the_commands_are_those_of_kubectl(tmp_path: Path, fake: FakeKube) -> None:
    """What the log says of each patch does the same when an operator types it."""
    program = kubectl()
    fake.rules = None
    fake.submit("gang", 8, 30.0, "seconds=30", pods=2)
    fake.advance(1.0)
    with controller(tmp_path, fake, Mode("advise"), powers=frozenset()) as one:
        one.step()
    lines = (tmp_path / "commands.txt").read_text().splitlines()
    assert len(lines) == 2
    home = {"HOME": str(tmp_path), "PATH": str(Path(program).parent)}
    for line, again in ((lines[0], 0), (lines[0], 1), (lines[1], 0)):
        words = [word for word in shlex.split(line) if word != "TZ=UTC"]
        done = subprocess.run(
            [program, "--server", fake.url, *words[1:]],
            env=home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert bool(done.returncode) is bool(again), done.stderr
        assert ("the object has been modified" in done.stderr) is bool(again)
    fake.advance(40.0)
    assert fake.work["ml/gang"].over_s


def test_connection_uses_tls_and_the_pod_token(
    tmp_path: Path, fake: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on this machine")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "ca.crt")]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key")
    fake.server.socket = context.wrap_socket(fake.server.socket, server_side=True)
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setattr(kube_api, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", fake.url.rpartition(":")[2])
    fake.token = "secret"
    with controller(tmp_path / "a", fake, Mode(OBSERVE), server="", powers=frozenset()) as one:
        fake.submit("a", 1, 1.0)
        fake.advance(1.0)
        assert one.step()
        fake.token = "another"
        with pytest.raises(AwayError, match="401"):
            one.step()
    monkeypatch.setattr(kube_api, "ACCOUNT", tmp_path / "none")
    with pytest.raises(InputError, match="ca: cannot be read"):
        Api(settings(fake, server=""))


def test_malformed_answers_are_refused(fake: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(settings(fake))
    fake.away_until_s = fake.now_s + 1.0
    with pytest.raises(AwayError, match="GET /api/v1/nodes"):
        api.listed("/api/v1/nodes")
    fake.away_until_s = 0.0
    monkeypatch.setattr(kube_api, "raised", lambda _: 100)
    with pytest.raises(AwayError, match="too long an answer"):
        api.listed("/api/v1/nodes")
