"""Uploading: whatever fails where, no manifest without all of its files."""

import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from moto import mock_aws

from draftworth.records.artifacts import ArtifactManifest, manifest_key
from pods.compiled_graphs import upload
from pods.compiled_graphs.scratch import StartRecord, write_record
from pods.compiled_graphs.upload import (
    RETRY_DELAYS_SECONDS,
    GraphBucket,
    StartedAnewError,
    UnfinishedError,
    Uploader,
    inventory,
    upload_with_retries,
)
from tests.pods.compiled_graphs import pods

pytestmark = pytest.mark.emulator

MIB = 1024 * 1024
FILES = {"neuron_config.json": b"{}", "model.pt": b"g" * (5 * MIB + 1), "weights/tp0": b"w"}
# In this thread, so that a kill is one; a file above 5 MiB goes in two parts.
TRANSFER = TransferConfig(
    multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, use_threads=False
)


class Killed(BaseException):
    """The process ends here."""


class Faults:
    """Breaks the request with a number, before or after S3 has done what it asks."""

    def __init__(self, *, attempts: int = 1) -> None:
        config = Config(retries={"mode": "standard", "total_max_attempts": attempts})
        self.client: Any = boto3.client("s3", config=config)
        self.requests: list[str] = []
        self.at = -1
        self.raises: BaseException | None = None
        self.after = False
        # The emulator answers in a handler of this event, between the two.
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
        bucket = GraphBucket(client=self.client, name=pods.BUCKET, transfer=TRANSFER)
        return Uploader(bucket=bucket, scratch=scratch)


@pytest.fixture
def s3() -> Iterator[Any]:
    """In this process: uploads are many requests, and what is tested is not HTTP."""
    with mock_aws():
        client = boto3.client("s3")
        pods.make_buckets(client)
        yield client


@pytest.fixture
def compiled(tmp_path: Path) -> StartRecord:
    return a_compiled_graph(tmp_path / "one", "one")


def a_compiled_graph(scratch: Path, start_id: str) -> StartRecord:
    folder = scratch / "graphs"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    record = StartRecord(
        start_id=start_id,
        key=pods.KEY,
        inputs=pods.INPUTS,
        checkpoints={"target": "c" * 40},
        origin="compiled",
        graphs=str(folder),
        started_at_unix_s=time.time() - 100,
    )
    write_record(scratch, record)
    return record


# A look for the manifest, three files (one in two parts), the manifest, a look at it.
REQUESTS = 9


def test_an_upload_is_so_many_requests(s3: Any, compiled: StartRecord) -> None:
    """The number that the faults below are spread over."""
    faults = Faults()
    faults.uploader(compiled).upload(compiled)
    assert len(faults.requests) == REQUESTS
    manifest = pods.stored_manifest(s3)
    assert manifest is not None
    assert manifest.size_bytes == sum(map(len, FILES.values()))
    assert manifest.checkpoints == {"target": "c" * 40}
    assert 99 < manifest.compile_seconds < 130


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_kill_leaves_no_manifest_without_its_files_and_the_next_one_ends_the_work(
    s3: Any, compiled: StartRecord, number: int, *, after: bool
) -> None:
    faults = Faults()
    faults.at, faults.raises, faults.after = number, Killed(), after
    with pytest.raises(Killed):
        faults.uploader(compiled).upload(compiled)
    assert pods.what_is_not_whole(s3) == []

    Faults().uploader(compiled).upload(compiled)
    assert pods.stored_manifest(s3) is not None
    assert pods.what_is_not_whole(s3) == []


MANIFEST_REQUEST = REQUESTS - 2


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done, answer lost"])
@pytest.mark.parametrize(
    ("number", "attempts"),
    # boto3's own second try finds the manifest that its first one wrote.
    [*((number, 1) for number in range(REQUESTS)), (MANIFEST_REQUEST, 3)],
)
def test_a_request_that_fails_is_made_good(
    s3: Any,
    compiled: StartRecord,
    number: int,
    attempts: int,
    *,
    after: bool,
) -> None:
    faults = Faults(attempts=attempts)
    faults.at, faults.raises = number, ConnectionClosedError(endpoint_url="http://s3")
    faults.after = after
    assert upload_with_retries(faults.uploader(compiled), compiled, threading.Event(), [0])
    assert "_ARTIFACTS.json" in faults.requests[MANIFEST_REQUEST] or number < MANIFEST_REQUEST
    manifest = pods.stored_manifest(s3)
    assert manifest is not None
    assert manifest.folder == f"{pods.KEY}/one"
    assert pods.what_is_not_whole(s3) == []


@pytest.fixture
def late(tmp_path: Path) -> StartRecord:
    return a_compiled_graph(tmp_path / "late", "late")


def test_who_finds_a_manifest_uploads_nothing(
    s3: Any, compiled: StartRecord, late: StartRecord
) -> None:
    Faults().uploader(compiled).upload(compiled)
    faults = Faults()
    assert "nothing of" in faults.uploader(late).upload(late)
    assert [r for r in faults.requests if r.startswith("PUT")] == []


def test_who_is_second_to_write_the_manifest_removes_its_own_files_only(
    s3: Any, compiled: StartRecord, late: StartRecord
) -> None:
    """The other one ends between this one's first look and its manifest."""
    faults = Faults()
    uploader = faults.uploader(late)
    send = uploader.bucket.put_manifest

    def overtaken(manifest: ArtifactManifest) -> None:
        Faults().uploader(compiled).upload(compiled)
        send(manifest)

    object.__setattr__(uploader.bucket, "put_manifest", overtaken)
    assert f"{pods.KEY}/one was in the bucket first" in uploader.upload(late)
    assert {key for key in pods.keys(s3) if "/late/" in key} == set()
    assert pods.what_is_not_whole(s3) == []


def test_a_manifest_is_never_replaced(s3: Any, compiled: StartRecord, late: StartRecord) -> None:
    Faults().uploader(compiled).upload(compiled)
    before = s3.get_object(Bucket=pods.BUCKET, Key=manifest_key(pods.KEY))["Body"].read()
    Faults().uploader(late).upload(late)
    assert s3.get_object(Bucket=pods.BUCKET, Key=manifest_key(pods.KEY))["Body"].read() == before


def test_objects_carry_the_checksums_that_s3_compared(s3: Any, compiled: StartRecord) -> None:
    Faults().uploader(compiled).upload(compiled)
    for name in FILES:
        head = s3.head_object(
            Bucket=pods.BUCKET, Key=f"{pods.KEY}/one/{name}", ChecksumMode="ENABLED"
        )
        assert head["ChecksumSHA256"], name


def test_files_that_change_while_they_are_uploaded_get_no_manifest(
    s3: Any, compiled: StartRecord
) -> None:
    faults = Faults()
    put = faults.client.upload_file

    def changing(*args: Any, **kwargs: Any) -> None:
        put(*args, **kwargs)
        (Path(compiled.graphs) / "model.pt").write_bytes(b"other")

    faults.client.upload_file = changing
    with pytest.raises(UnfinishedError, match="changed while"):
        faults.uploader(compiled).upload(compiled)
    assert pods.stored_manifest(s3) is None


def test_graphs_of_a_server_that_was_started_anew_get_no_manifest(
    s3: Any, compiled: StartRecord
) -> None:
    """It may be compiling into the same folder, slowly: a file less, and none that changes."""
    graphs = Path(compiled.graphs)
    write_record(graphs.parent, replace(compiled, start_id="newer"))
    (graphs / "model.pt").unlink()
    with pytest.raises(StartedAnewError):
        Faults().uploader(compiled).upload(compiled)
    assert pods.stored_manifest(s3) is None


def test_an_answer_that_may_be_an_older_servers_says_nothing_of_a_newer_one(
    compiled: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Path(compiled.graphs).parent
    newer = replace(compiled, start_id="newer")
    asked: list[str] = []

    def healthy(url: str) -> bool:
        asked.append(url)
        write_record(scratch, newer)
        return True

    monkeypatch.setattr(upload, "is_healthy", healthy)
    found = upload.wait_for_health(scratch, "", threading.Event(), period_seconds=0)
    assert found == newer
    assert len(asked) == 2


def test_a_start_that_comes_while_another_one_is_uploaded_is_uploaded_after_it(
    compiled: StartRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Path(compiled.graphs).parent
    newer = replace(compiled, start_id="newer")
    tried: list[str] = []

    def upload_one(_: Uploader, record: StartRecord, stop: threading.Event) -> bool:
        tried.append(record.start_id)
        write_record(scratch, newer)
        return record == newer

    monkeypatch.setattr(upload, "is_healthy", lambda _: True)
    monkeypatch.setattr(upload, "upload_with_retries", upload_one)
    arguments = Namespace(
        scratch=scratch, bucket=pods.BUCKET, health_url="", health_period_seconds=0.01
    )
    upload._work(arguments, threading.Event())
    assert tried == ["one", "newer"]


def test_locks_are_not_uploaded(tmp_path: Path) -> None:
    graph = a_compiled_graph(tmp_path / "graph", "x")
    (tmp_path / "graph" / "graphs" / "0123.lock").touch()
    (tmp_path / "graph" / "graphs" / ".compilation_complete").touch()
    names = {file.path for file in inventory(Path(graph.graphs))}
    assert names == {*FILES, ".compilation_complete"}


class Uploads:
    """Stands in for an Uploader; each call does the next thing."""

    def __init__(self, *outcomes: BaseException | str) -> None:
        self._outcomes: Iterator[BaseException | str] = iter(outcomes)
        self.calls = 0

    def upload(self, _: StartRecord) -> str:
        self.calls += 1
        outcome = next(self._outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def tried(stop: threading.Event, compiled: StartRecord, *outcomes: BaseException | str) -> int:
    uploads: Any = Uploads(*outcomes)
    upload_with_retries(uploads, compiled, stop, [0, 0])
    return int(uploads.calls)


def test_tries_are_bounded_and_end_with_the_pod(compiled: StartRecord) -> None:
    stop = threading.Event()
    assert tried(stop, compiled, OSError("no"), "done") == 2
    assert tried(stop, compiled, OSError("no"), OSError("no"), OSError("no")) == 3
    stop.set()
    assert tried(stop, compiled, OSError("no")) == 1
    assert 1000 < sum(RETRY_DELAYS_SECONDS) < 3600


def test_a_server_that_left_no_graphs_is_not_tried_again(
    s3: Any, compiled: StartRecord, caplog: pytest.LogCaptureFixture
) -> None:
    for path in [p for p in Path(compiled.graphs).rglob("*") if p.is_file()]:
        path.unlink()
    stop: Callable[[], threading.Event] = threading.Event
    assert not upload_with_retries(Faults().uploader(compiled), compiled, stop(), [60])
    assert "holds no compiled graphs" in caplog.text
    assert pods.keys(s3) == set()
