"""The data set registry and its checksummed fetch, against a server on this machine."""

from __future__ import annotations

import hashlib
import io
import logging
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from morph_opt.core.domain import InputError
from morph_opt.inputs.data import DATASETS, Dataset, cache_folder, dataset, fetch, find, locate
from morph_opt.inputs.data.cli import main
from morph_opt.inputs.traces.registry import load_trace

FILES = {"LICENSE": b"free\n", "simulator/workloads/naive.csv": b"name\n"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Address and folder of a server with the files of the data set ``tiny``."""
    folder = tmp_path / "mirror"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of two files, an empty cache, and no data folder."""
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()}
    known = Dataset("tiny", "A test", "MIT", "owner/name", "0" * 40, digests)
    monkeypatch.setitem(DATASETS, "tiny", known)
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)


def test_fetch_verifies_and_is_found_afterwards(mirror: tuple[str, Path]) -> None:
    assert find("tiny") is None
    root = fetch("tiny", base_url=mirror[0])
    assert {path: (root / path).read_bytes() for path in FILES} == FILES
    assert find("tiny") == locate("tiny") == root
    assert root.is_relative_to(cache_folder())


def test_second_fetch_needs_no_network(mirror: tuple[str, Path]) -> None:
    root = fetch("tiny", base_url=mirror[0])
    assert fetch("tiny", base_url="http://127.0.0.1:9") == root


def test_pooch_prints_nothing(mirror: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    log, logger = io.StringIO(), pooch.get_logger()
    logger.setLevel(logging.NOTSET)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(log)])
    fetch("tiny", base_url=mirror[0])
    assert log.getvalue() == ""


def test_damaged_cache_is_not_found_and_mended_by_fetch(mirror: tuple[str, Path]) -> None:
    root = fetch("tiny", base_url=mirror[0])
    (root / "LICENSE").write_bytes(b"changed\n")
    assert find("tiny") is None
    fetch("tiny", base_url=mirror[0])
    assert find("tiny") == root


def test_checksum_mismatch(
    mirror: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = mirror
    (folder / "LICENSE").write_bytes(b"something else\n")
    assert main(["fetch", "tiny", "--base-url", address]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"error: {address}/LICENSE: differs from its SHA-256 and was not kept; the address "
        "serves other content than the pinned commit\n"
    )
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "gopher://127.0.0.1"])
def test_unreachable_server_gives_one_line_with_a_remedy(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "tiny", "--base-url", address]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {address}/LICENSE: ")
    assert error.count("\n") == 1


def test_offline_names_the_ways_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "tiny", "--base-url", "http://127.0.0.1:9"]) == 2
    error = capsys.readouterr().err
    for way in ("check the network", "--base-url", "MORPH_OPT_DATA"):
        assert way in error


def test_file_missing_upstream(
    mirror: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = mirror
    (folder / "LICENSE").unlink()
    assert main(["fetch", "tiny", "--base-url", address]) == 2
    assert "cannot be fetched" in capsys.readouterr().err


def test_unwritable_cache(
    mirror: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path / "file"))
    assert main(["fetch", "tiny", "--base-url", mirror[0]]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_data_folder_comes_before_the_cache(
    mirror: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fetch("tiny", base_url=mirror[0])
    own = tmp_path / "own"
    (own / "tiny").mkdir(parents=True)
    monkeypatch.setenv("MORPH_OPT_DATA", str(own))
    assert main(["path", "tiny"]) == 0
    assert capsys.readouterr().out == f"{own / 'tiny'}\n"


@pytest.mark.parametrize("own", [None, "elsewhere"])
def test_absent_data_set_tells_both_ways(
    own: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if own is not None:
        monkeypatch.setenv("MORPH_OPT_DATA", own)
    assert main(["path", "tiny"]) == 2
    error = capsys.readouterr().err
    assert "set MORPH_OPT_DATA to a folder that contains tiny/" in error
    assert "python -m morph_opt.data fetch tiny" in error
    assert ("it is not set" in error) == (own is None)


def test_unknown_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("fetch", "path"):
        assert main([command, "nope"]) == 2
        assert "unknown data set 'nope'; known are morphling" in capsys.readouterr().err
    with pytest.raises(InputError):
        dataset("nope")


LOG = b"job_id\n71\n"
PACKED = Dataset(
    "packed",
    "A test",
    "CC-BY-4.0",
    "owner/name",
    "1" * 40,
    {},
    blobs={"data.zip": "", "plain.csv": hashlib.sha1(b"blob 10\0" + LOG).hexdigest()},
    members={"data.zip": {"data/Venus/log.csv": "Venus/log.csv"}},
    citation="Somebody, Somewhere 2020",
)


def packed(monkeypatch: pytest.MonkeyPatch, folder: Path, archive: bytes) -> Dataset:
    """A data set of an archive and a file, both known by their git blob ids."""
    (folder / "data.zip").write_bytes(archive)
    (folder / "plain.csv").write_bytes(LOG)
    name = hashlib.sha1(b"blob %d\0" % len(archive) + archive).hexdigest()
    known = replace(PACKED, blobs=PACKED.blobs | {"data.zip": name})
    monkeypatch.setitem(DATASETS, "packed", known)
    return known


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, LOG)
    return content.getvalue()


def test_git_blob_ids_verify_and_members_are_taken_out(
    mirror: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = mirror
    packed(monkeypatch, folder, zipped("x/Venus/log.csv", "x/Earth/log.csv", "Venus/", "../../log"))
    assert main(["fetch", "packed", "--base-url", address]) == 0
    said = capsys.readouterr()
    root = Path(said.out.strip())
    assert said.err == (
        "licence  CC-BY-4.0\ncite     Somebody, Somewhere 2020\nverified by git blob id\n"
    )
    assert (root / "data/Venus/log.csv").read_bytes() == LOG
    assert not (root / "data.zip").exists()
    assert find("packed") == root
    assert fetch("packed", base_url="http://127.0.0.1:9") == root  # no network needed
    (root / "data/Venus/log.csv").write_bytes(b"other")
    assert find("packed") is None
    fetch("packed", base_url=address)
    (root / "plain.csv").write_bytes(b"other")
    assert find("packed") is None
    fetch("packed", base_url=address)
    assert find("packed") == root


def test_a_wrong_git_blob_is_refused_and_not_kept(
    mirror: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, folder = mirror
    packed(monkeypatch, folder, zipped("Venus/log.csv"))
    (folder / "data.zip").write_bytes(zipped("Venus/log.csv", "more"))
    assert main(["fetch", "packed", "--base-url", address]) == 2
    assert "data.zip: differs from its git blob id and was not kept" in capsys.readouterr().err
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("archive", "rule"),
    [
        (zipped("Earth/log.csv"), "must have one member that ends in Venus/log.csv, it has 0"),
        (zipped("a/Venus/log.csv", "b/Venus/log.csv"), "it has 2"),
        (zipped("Venus/log.csv").replace(LOG, b"job_id\n72\n"), "is damaged"),
        (b"no archive", "is damaged"),
    ],
)
def test_archive_with_another_checksum_is_refused(
    mirror: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, archive: bytes, rule: str
) -> None:
    packed(monkeypatch, mirror[1], archive)
    with pytest.raises(InputError, match=rule):
        fetch("packed", base_url=mirror[0])


@pytest.mark.parametrize("name", ["spot", "sia", "easyscale", "philly-table"])
def test_data_without_a_licence_are_not_offered(name: str) -> None:
    with pytest.raises(InputError, match="is not offered"):
        fetch(name)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "morphling: " in output
    assert "here     no" in output


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "tiny"])
def test_base_url_is_pinned_to_the_commit(name: str) -> None:
    known = dataset(name)
    assert known.files
    assert known.licence in ("Apache-2.0", "MIT", "CC-BY-4.0")
    assert all(len(name) == 40 for name in known.blobs.values())
    assert set(known.members) <= set(known.files)
    assert known.commit in known.base_url
    assert len(known.commit) == 40
    assert all(len(digest) == 64 for digest in known.sha256.values())


def local_copy(root: Path, path: str) -> Path:
    """A file of the publisher's in a folder that may hold the inner folder's content alone."""
    inner = path.removeprefix("scheduler/").removeprefix("simulator/")
    inner = inner.replace("msr/seed=0", "msr_seed0")
    return root / path if (root / path).is_file() else root / inner


@pytest.mark.parametrize("name", ["morphling", "gavel", "tiresias"])
def test_checksums_are_those_of_the_originals(name: str, public_data: Path) -> None:
    root = public_data / name
    for path, digest in dataset(name).sha256.items():
        copy = local_copy(root, path)
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == digest, path


@pytest.mark.parametrize(
    ("name", "trace", "jobs"),
    [
        ("gavel", "gavel/max_min_fairness", 96),
        ("gavel", "gavel/msr_seed0/795a4c", 3),
        ("tiresias", "tiresias/60x10", 60),
    ],
)
def test_a_fetched_copy_is_replayed_like_a_folder(
    name: str,
    trace: str,
    jobs: int,
    public_data: Path,
    mirror: tuple[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The publisher's layout from a server here, fetched, verified, found and read."""
    address, folder = mirror
    for path in dataset(name).sha256:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(local_copy(public_data / name, path).read_bytes())
    with pytest.raises(InputError, match=f"python -m morph_opt.data fetch {name}"):
        load_trace(trace)
    assert main(["fetch", name, "--base-url", address]) == 0
    assert capsys.readouterr().out == f"{locate(name)}\n"
    assert len(load_trace(trace).trace.jobs) == jobs
