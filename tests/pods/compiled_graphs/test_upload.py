"""Whatever fails in an upload, no manifest names files that are missing."""

import shutil
import threading
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from moto import mock_aws

from draftworth.records.graph_manifests import ArtifactManifest
from pods.compiled_graphs import upload
from pods.compiled_graphs.scratch_records import StartRecord, write_record
from pods.compiled_graphs.upload import (
    NothingToUploadError,
    UnfinishedError,
    Uploader,
    upload_with_retries,
)
from tests.pods.compiled_graphs import pods
from tests.pods.compiled_graphs.graphs import GRAPH_FILES, PART_BYTES, make_compiled_graph
from tests.support.emulator import small_parts

pytestmark = pytest.mark.emulator

# Uploads run in this thread, so that a kill ends them at once.
TRANSFER = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)
# An upload's requests: GET of the manifest, two files (one in two parts, which needs four
# requests), PUT of the manifest, GET of the manifest.
REQUESTS = 8
MANIFEST_REQUEST = REQUESTS - 2


class Killed(BaseException):
    """Stands for a process that dies: no code may catch this."""


@dataclass
class S3:
    """Empty buckets, and a client with a failure before or after the request of a number."""

    client: Any
    requests: list[str] = field(default_factory=list)
    at: int = -1
    raises: BaseException | None = None
    after: bool = False

    def __post_init__(self) -> None:
        pods.make_buckets(self.client)
        # moto answers in a handler of the same event, which runs between these two.
        self.client.meta.events.register_first("before-send.s3", self._before)
        self.client.meta.events.register_last("before-send.s3", self._after)

    def _before(self, request: Any, **_: Any) -> None:
        self.requests.append(f"{request.method} {request.url}")
        self._break(after=False)

    def _after(self, **_: Any) -> None:
        self._break(after=True)

    def _break(self, *, after: bool) -> None:
        if self.raises and (len(self.requests) - 1, after) == (self.at, self.after):
            raise self.raises

    def uploader(self, record: StartRecord) -> Uploader:
        scratch = Path(record.graphs).parent
        return Uploader(client=self.client, bucket=pods.BUCKET, scratch=scratch, transfer=TRANSFER)

    def stored(self) -> dict[str, bytes]:
        return pods.stored(self.client)


@pytest.fixture
def s3(request: pytest.FixtureRequest) -> Iterator[S3]:
    """Empty buckets in this process. Parameter: how often a request is tried."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": getattr(request, "param", 1)}
    )
    with mock_aws(), small_parts():
        yield S3(client=boto3.client("s3", config=config))


@pytest.fixture
def compiled(tmp_path: Path) -> StartRecord:
    return make_compiled_graph(tmp_path / "one", "one")


@pytest.fixture
def late(tmp_path: Path) -> StartRecord:
    return make_compiled_graph(tmp_path / "late", "late")


def test_an_upload_is_so_many_requests(s3: S3, compiled: StartRecord) -> None:
    """The tests below make each of these requests fail. S3 compared each file's checksum."""
    s3.uploader(compiled).upload(compiled)
    assert len(s3.requests) == REQUESTS
    assert "_ARTIFACTS.json" in s3.requests[MANIFEST_REQUEST]
    manifest = pods.manifest_in(s3.stored())
    assert manifest is not None
    assert {file.path for file in manifest.files} == {*GRAPH_FILES}
    assert manifest.checkpoints == {"target": "c" * 40}
    assert 99 < manifest.compile_seconds < 130
    for name in GRAPH_FILES:
        key = f"{pods.KEY}/one/{name}"
        head = s3.client.head_object(Bucket=pods.BUCKET, Key=key, ChecksumMode="ENABLED")
        assert head["ChecksumSHA256"], name


def test_links_are_named_and_not_uploaded(
    s3: S3, compiled: StartRecord, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine writes the folder, and could link to files that only the uploader may read."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "token").write_text("secret")
    graphs = Path(compiled.graphs)
    (graphs / "token").symlink_to(elsewhere / "token")
    (graphs / "more").symlink_to(elsewhere)
    s3.uploader(compiled).upload(compiled)
    manifest = pods.manifest_in(s3.stored())
    assert manifest is not None
    assert {file.path for file in manifest.files} == {*GRAPH_FILES}
    assert b"secret" not in s3.stored().values()
    assert "links are not uploaded, as they may name any file: more, token" in caplog.text


@pytest.mark.parametrize(
    "graphs", ["{secrets}", "{scratch}/graphs/../../secrets", "{scratch}/graphs"]
)
def test_a_record_names_no_folder_outside_the_graphs(
    s3: S3, compiled: StartRecord, tmp_path: Path, graphs: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine can write the record too. In the last row the folder of graphs is a link."""
    folder, scratch = tmp_path / "secrets", Path(compiled.graphs).parent
    folder.mkdir()
    (folder / "token").write_text("secret")
    if graphs.endswith("/graphs"):
        shutil.rmtree(compiled.graphs)
        Path(compiled.graphs).symlink_to(folder)
    record = replace(compiled, graphs=graphs.format(secrets=folder, scratch=scratch))
    write_record(scratch, record)
    uploader = Uploader(client=s3.client, bucket=pods.BUCKET, scratch=scratch)
    assert not upload_with_retries(uploader, record, threading.Event(), [60])
    assert f"allowed: a folder below {scratch.resolve()}/graphs" in caplog.text
    assert s3.stored() == {}


@pytest.mark.parametrize("name", ["weights/tp0", "weights"])
def test_a_link_made_after_the_listing_is_refused(
    s3: S3, compiled: StartRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tp0").write_bytes(b"secret")
    listed = upload._manifest_of

    def with_link_afterwards(record: StartRecord) -> ArtifactManifest:
        manifest = listed(record)
        linked = Path(record.graphs) / name
        linked.rename(tmp_path / "away")
        linked.symlink_to(elsewhere / "tp0" if linked.name == "tp0" else elsewhere)
        return manifest

    monkeypatch.setattr(upload, "_manifest_of", with_link_afterwards)
    with pytest.raises(OSError, match=r"link|directory"):
        s3.uploader(compiled).upload(compiled)
    assert b"secret" not in s3.stored().values()


@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_killed_upload_is_completed_by_the_next(
    s3: S3, compiled: StartRecord, number: int
) -> None:
    """The kills are before each request, which is the same as after the previous request."""
    s3.at, s3.raises = number, Killed()
    with pytest.raises(Killed):
        s3.uploader(compiled).upload(compiled)
    assert pods.what_is_not_whole(s3.stored()) == []

    s3.raises = None
    s3.uploader(compiled).upload(compiled)
    assert pods.manifest_in(s3.stored()) is not None
    assert pods.what_is_not_whole(s3.stored()) == []


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done, answer lost"])
@pytest.mark.parametrize(
    ("number", "s3"),
    # Each request fails once. In the last row boto3 itself tries three times, and its second try
    # finds the manifest that the first wrote.
    [*((number, 1) for number in range(REQUESTS)), (MANIFEST_REQUEST, 3)],
    indirect=["s3"],
)
def test_a_request_that_fails_is_made_good(
    s3: S3, compiled: StartRecord, number: int, *, after: bool
) -> None:
    s3.at, s3.after, s3.raises = number, after, ConnectionClosedError(endpoint_url="http://s3")
    assert upload_with_retries(s3.uploader(compiled), compiled, threading.Event(), [0])
    manifest = pods.manifest_in(s3.stored())
    assert manifest is not None
    assert manifest.folder == f"{pods.KEY}/one"
    assert pods.what_is_not_whole(s3.stored()) == []


def test_an_existing_manifest_ends_an_upload(
    s3: S3, compiled: StartRecord, late: StartRecord
) -> None:
    s3.uploader(compiled).upload(compiled)
    before, s3.requests = s3.stored(), []
    assert "nothing of" in s3.uploader(late).upload(late)
    assert [r for r in s3.requests if r.startswith("PUT")] == []
    assert s3.stored() == before


def test_the_second_uploader_removes_only_its_files(
    s3: S3, compiled: StartRecord, late: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other upload ends after this one looked for a manifest."""
    send = Uploader._put_manifest

    def overtaken(uploader: Uploader, manifest: ArtifactManifest) -> None:
        monkeypatch.setattr(Uploader, "_put_manifest", send)
        s3.uploader(compiled).upload(compiled)
        send(uploader, manifest)

    monkeypatch.setattr(Uploader, "_put_manifest", overtaken)
    assert f"{pods.KEY}/one was in the bucket first" in s3.uploader(late).upload(late)
    assert [key for key in s3.stored() if "/late/" in key] == []
    assert pods.what_is_not_whole(s3.stored()) == []


def test_files_that_change_during_upload_get_no_manifest(
    s3: S3, compiled: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = s3.client.upload_fileobj

    def changing(*args: Any, **kwargs: Any) -> None:
        put(*args, **kwargs)
        (Path(compiled.graphs) / "model.pt").write_bytes(b"other")

    monkeypatch.setattr(s3.client, "upload_fileobj", changing)
    with pytest.raises(UnfinishedError, match="changed while"):
        s3.uploader(compiled).upload(compiled)
    assert pods.manifest_in(s3.stored()) is None


def test_graphs_of_an_earlier_start_get_no_manifest(s3: S3, compiled: StartRecord) -> None:
    """The new start may be compiling into the same folder."""
    graphs = Path(compiled.graphs)
    write_record(graphs.parent, replace(compiled, start_id="newer"))
    (graphs / "model.pt").unlink()
    with pytest.raises(NothingToUploadError, match="started anew"):
        s3.uploader(compiled).upload(compiled)
    assert pods.manifest_in(s3.stored()) is None


def test_a_server_without_graphs_is_not_retried(
    s3: S3, compiled: StartRecord, caplog: pytest.LogCaptureFixture
) -> None:
    for name in GRAPH_FILES:
        (Path(compiled.graphs) / name).unlink()
    assert not upload_with_retries(s3.uploader(compiled), compiled, threading.Event(), [60])
    assert "holds no compiled graphs" in caplog.text
    assert s3.stored() == {}


def arguments_of(record: StartRecord) -> Namespace:
    scratch = Path(record.graphs).parent
    return Namespace(
        scratch=scratch, bucket=pods.BUCKET, health_url="", health_period_seconds=0.001
    )


def test_graphs_from_the_bucket_are_not_uploaded(
    compiled: StartRecord, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_record(Path(compiled.graphs).parent, replace(compiled, origin="bucket"))
    monkeypatch.setattr(upload, "is_healthy", lambda _: True)
    upload._work(arguments_of(compiled), threading.Event())
    assert "nothing to upload" in caplog.text


def test_an_older_servers_health_proves_no_newer_start(
    compiled: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = replace(compiled, start_id="newer")
    health_checks: list[str] = []

    def healthy(url: str) -> bool:
        health_checks.append(url)
        write_record(Path(compiled.graphs).parent, newer)
        return True

    monkeypatch.setattr(upload, "is_healthy", healthy)
    assert upload._healthy_start(arguments_of(compiled), threading.Event()) == newer
    assert len(health_checks) == 2


def test_a_start_during_an_upload_is_uploaded_next(
    compiled: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = replace(compiled, start_id="newer")
    tried: list[str] = []

    def upload_one(_: object, record: StartRecord, stop: threading.Event) -> bool:
        tried.append(record.start_id)
        write_record(Path(compiled.graphs).parent, newer)
        return record == newer

    monkeypatch.setattr(upload, "is_healthy", lambda _: True)
    monkeypatch.setattr(upload, "_uploader", lambda _: None)
    monkeypatch.setattr(upload, "upload_with_retries", upload_one)
    upload._work(arguments_of(compiled), threading.Event())
    assert tried == ["one", "newer"]


def test_locks_are_not_uploaded(compiled: StartRecord) -> None:
    for name in ("0123.lock", ".compilation_complete"):
        (Path(compiled.graphs) / name).touch()
    names = {file.path for file in upload.inventory(Path(compiled.graphs))}
    assert names == {*GRAPH_FILES, ".compilation_complete"}


def tried(stop: threading.Event, compiled: StartRecord, *outcomes: BaseException | str) -> int:
    """Upload with retries, where the tries have these outcomes; return how many tries were made."""
    uploader = Mock(upload=Mock(side_effect=outcomes))
    upload_with_retries(uploader, compiled, stop, [0, 0])
    return int(uploader.upload.call_count)


def test_tries_are_bounded_and_end_with_the_pod(compiled: StartRecord) -> None:
    stop = threading.Event()
    assert tried(stop, compiled, OSError("no"), "done") == 2
    assert tried(stop, compiled, OSError("no"), OSError("no"), OSError("no")) == 3
    stop.set()
    assert tried(stop, compiled, OSError("no")) == 1
    assert 1000 < sum(upload.RETRY_DELAYS_SECONDS) < 3600
