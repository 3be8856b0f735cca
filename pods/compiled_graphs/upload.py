"""The uploader container beside vLLM uploads compiled graphs as soon as vLLM is healthy.

It must not disturb the server: a container that ends or restarts makes its pod not ready. So every
failure is logged, a failed upload is repeated a limited number of times, and the process goes on
until SIGTERM.

The graphs of each start of vLLM get a folder of their own in the bucket. The manifest, which names
their files, is written last, and only if the bucket has none yet. So a manifest never names files
that are missing, at whatever point an upload fails.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from draftworth.records import graph_manifests
from draftworth.records.checkpoints import StoredFile, sha256_of
from draftworth.records.codec import dump_record, load_record
from draftworth.untrusted import one_line, read_at_most
from pods.compiled_graphs.scratch_records import (
    GRAPHS_FOLDER,
    RECORD_NAME,
    StartRecord,
    compiled_files,
    graphs_below,
    links_in,
    mark_whole,
    open_without_links,
    read_record,
)
from pods.compiled_graphs.server_process import HEALTH_PERIOD_SECONDS, is_healthy

if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig
    from mypy_boto3_s3 import S3Client

# The pauses between tries to upload: half an hour in total. If S3 fails for longer, which is rare,
# the graphs are not in the bucket, and the next pod compiles them again.
RETRY_DELAYS_SECONDS = (15, 30, 60, 120, 240, 480, 900)
_LOG = logging.getLogger("compiled-graphs")


class NothingToUploadError(Exception):
    """There are no graphs to upload, or the server was started again and may change its graphs."""


class UnfinishedError(Exception):
    """A file changed while it was uploaded, or S3 did not delete an object: try again."""


@dataclass(frozen=True, kw_only=True)
class Uploader:
    """Uploads the graphs of one pod into the artifacts bucket.

    scratch: the folder where the server records its starts.
    transfer: boto3's settings for uploads in parts; None: boto3's defaults.
    """

    client: S3Client
    bucket: str
    scratch: Path
    transfer: TransferConfig | None = None

    def upload(self, record: StartRecord) -> str:
        """Upload the graphs of a start unless the bucket has some with their artifact key.

        Return a sentence for the log that says whose graphs the bucket has now.
        The next call may succeed after any error except NothingToUploadError.
        """
        if settled := self._settle(record):
            return settled
        folder = graphs_below(self.scratch, record)
        if folder is None:
            raise NothingToUploadError(
                f"given {one_line(record.graphs)} in {RECORD_NAME}, allowed: a folder below "
                f"{self.scratch.resolve()}/{GRAPHS_FOLDER}"
            )
        if links := links_in(Path(record.graphs)):
            names = one_line(", ".join(links))
            _LOG.warning("links are not uploaded, as they may name any file: %s", names)
        manifest = _manifest_of(record)
        self._put_files(folder, manifest)
        # A start that began during the upload may have changed the files.
        if read_record(self.scratch) != record:
            raise NothingToUploadError(f"{record.start_id}: the server was started anew since")
        self._put_manifest(manifest)
        return self._settle(record) or "the manifest was written and is gone again"

    def _settle(self, record: StartRecord) -> str | None:
        # The manifest in the bucket names the folder whose graphs are used. If another pod wrote
        # its manifest first, the folder that this pod has uploaded is removed.
        key = graph_manifests.manifest_key(record.key)
        try:
            stored = self.client.get_object(Bucket=self.bucket, Key=key)
        except self.client.exceptions.NoSuchKey:
            return None
        manifest = load_record(graph_manifests.ArtifactManifest, read_at_most(stored["Body"]))
        start_folder = graph_manifests.upload_folder(record.key, record.start_id)
        if manifest.folder == start_folder:
            return f"{start_folder} is in the bucket: {manifest.size_bytes} bytes"
        self._remove(start_folder)
        return f"{manifest.folder} was in the bucket first; nothing of {start_folder} is kept"

    def _put_files(self, folder: PurePath, manifest: graph_manifests.ArtifactManifest) -> None:
        for file in manifest.files:
            # The engine may have put a link there since the files were listed.
            with open_without_links(self.scratch, folder / file.path) as content:
                self.client.upload_fileobj(
                    content,
                    self.bucket,
                    f"{manifest.folder}/{file.path}",
                    ExtraArgs={"ChecksumAlgorithm": "SHA256"},
                    Config=self.transfer,
                )
        if tuple(inventory(self.scratch / folder)) != manifest.files:
            raise UnfinishedError(f"{folder} changed while it was uploaded")

    def _put_manifest(self, manifest: graph_manifests.ArtifactManifest) -> None:
        # S3 refuses a second manifest. That is no error: another pod may have been first, or
        # botocore repeated a request whose response was lost. `_settle` finds out which.
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=graph_manifests.manifest_key(manifest.key),
                Body=dump_record(manifest, indent=1),
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                IfNoneMatch="*",
            )
        except self.client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "412"):
                raise

    def _remove(self, folder: str) -> None:
        pages = self.client.get_paginator("list_objects_v2")
        # A page of a listing has at most as many keys as one request may delete.
        for page in pages.paginate(Bucket=self.bucket, Prefix=f"{folder}/"):
            if not (objects := page.get("Contents")):
                continue
            answer = self.client.delete_objects(
                Bucket=self.bucket,
                Delete={"Objects": [{"Key": item["Key"]} for item in objects], "Quiet": True},
            )
            if errors := answer.get("Errors"):
                raise UnfinishedError(f"{errors[0].get('Key')}: {errors[0].get('Message')}")


def _manifest_of(record: StartRecord) -> graph_manifests.ArtifactManifest:
    folder = Path(record.graphs)
    files = tuple(inventory(folder))
    if not files:
        raise NothingToUploadError(f"the server is healthy, but {folder} holds no compiled graphs")
    last_written_unix_s = max(path.stat().st_mtime for _, path in compiled_files(folder))
    return graph_manifests.ArtifactManifest(
        key=record.key,
        inputs=record.inputs,
        checkpoints=record.checkpoints,
        folder=graph_manifests.upload_folder(record.key, record.start_id),
        files=files,
        compile_seconds=max(0.0, last_written_unix_s - record.started_at_unix_s),
        uploaded_at_unix_s=time.time(),
    )


def inventory(folder: Path) -> Iterator[StoredFile]:
    """Yield every compiled file of a folder with its size and hash, sorted by path."""
    for name, path in compiled_files(folder):
        yield StoredFile(path=name, size_bytes=path.stat().st_size, sha256=sha256_of(path))


def _healthy_start(arguments: argparse.Namespace, stop: threading.Event) -> StartRecord | None:
    while not stop.is_set():
        before = read_record(arguments.scratch)
        # The record is read before and after the health check. If it changed, the server of the
        # earlier start may have answered the check.
        if before and is_healthy(arguments.health_url) and read_record(arguments.scratch) == before:
            return before
        stop.wait(arguments.health_period_seconds)
    return None


def upload_with_retries(
    uploader: Uploader,
    record: StartRecord,
    stop: threading.Event,
    delays_seconds: Sequence[float] = RETRY_DELAYS_SECONDS,
) -> bool:
    """Try to upload until it succeeds, `stop` is set or no delay is left; True: it succeeded."""
    for delay in (*delays_seconds, None):
        try:
            _LOG.info(uploader.upload(record))
        except NothingToUploadError as over:
            _LOG.error(over)
            return False
        except Exception as error:  # noqa: BLE001 (whatever it was, the server goes on)
            _LOG.warning("upload failed: %s: %s", type(error).__name__, error)
        else:
            return True
        if delay is None or stop.wait(delay):
            break
    _LOG.error("given up: the next start of %s compiles again", record.key)
    return False


def main(argv: Sequence[str]) -> int:
    """Upload the graphs once vLLM is healthy; wait for SIGTERM, which interrupts no upload."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    arguments = _parser().parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        _work(arguments, stop)
    except Exception:  # noqa: BLE001 (whatever it was, the server goes on)
        _LOG.exception("nothing will be uploaded")
    stop.wait()
    return 0


def _work(arguments: argparse.Namespace, stop: threading.Event) -> None:
    while record := _healthy_start(arguments, stop):
        if record.origin == "bucket":
            _LOG.info("%s was loaded from the bucket: nothing to upload", record.key)
            return
        # Mark the graphs first: a server that restarts in this pod then uses them from the disk.
        mark_whole(arguments.scratch, record)
        done = upload_with_retries(_uploader(arguments), record, stop)
        if done or read_record(arguments.scratch) == record:
            return


def _uploader(arguments: argparse.Namespace) -> Uploader:
    # Imported here, because this container must go on even if its image has no boto3.
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, retries={"mode": "standard", "max_attempts": 4})
    client = boto3.client("s3", config=config)
    return Uploader(client=client, bucket=arguments.bucket, scratch=arguments.scratch)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="upload", description=__doc__)
    parser.add_argument("--scratch", required=True, type=Path, help="the server's scratch folder")
    parser.add_argument("--bucket", required=True, help="the artifacts bucket")
    parser.add_argument("--health-url", required=True, help="answers 200 once the server serves")
    parser.add_argument(
        "--health-period-seconds",
        type=float,
        default=HEALTH_PERIOD_SECONDS,
        help="time between two health checks (default: %(default)s)",
    )
    return parser
