"""The container beside vLLM: uploads what it compiled, once it is healthy, and then does nothing.

It must not disturb the server: a container that ends or restarts makes its pod not ready. So every
failure is logged, an upload is tried again a bounded number of times, and the process stays.

Files go into a folder of their own, the manifest comes last and is written once: whoever dies
where, there is no manifest without all of its files.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftworth.records.artifact_manifest import (
    ArtifactManifest,
    manifest_key,
    upload_folder,
)
from draftworth.records.unproven_graphs import (
    Rejection,
    UnprovenManifest,
    rejected_key,
    unproven_key,
)
from pods.compiled_graphs.graph_bucket import (
    GraphBucket,
    inventory,
    last_written_unix_s,
)
from pods.compiled_graphs.handover import (
    StartRecord,
    is_proven,
    mark_whole,
    read_record,
    read_rejection,
)
from pods.compiled_graphs.health import HEALTH_PERIOD_SECONDS, is_healthy

# Half an hour in all: longer outages are rarer than the next start, which compiles again.
RETRY_DELAYS_SECONDS = (15, 30, 60, 120, 240, 480, 900)
_LOG = logging.getLogger("compiled-graphs")


class NothingToUploadError(Exception):
    """The server is healthy and left nothing where compiled graphs should be."""


class StartedAnewError(Exception):
    """The server was started anew; in the folder of its graphs it may compile others."""


@dataclass(frozen=True, kw_only=True)
class Uploader:
    """Uploads graphs of one pod. scratch: where the server writes down its starts."""

    bucket: GraphBucket
    scratch: Path

    def upload(self, record: StartRecord) -> str:
        """Upload, or find that it is done; one sentence about the outcome. Safe to repeat.

        Raises:
            NothingToUploadError: there are no graphs.
            StartedAnewError: they may be another start's, and not whole.
            UnfinishedError, OSError, and what boto3 raises: it may work the next time.
        """
        if settled := self._settle(record):
            return settled
        if record.origin == "unproven":
            return self._promote(record)
        manifest = _manifest_of(record)
        self.bucket.put_files(Path(record.graphs), manifest)
        # Last: a start that is still the newest one has been that all the while.
        if read_record(self.scratch) != record:
            raise StartedAnewError(f"{record.start_id}: the server was started anew since")
        self.bucket.put_once(manifest_key(manifest.key), manifest)
        return self._settle(record) or "the manifest was written and is gone again"

    def _promote(self, record: StartRecord) -> str:
        """Make what the compile Job uploaded the manifest of the key: nothing is copied."""
        unproven = self.bucket.read(UnprovenManifest, unproven_key(record.key))
        if unproven is None or unproven.graphs.folder != record.upload:
            return f"{record.upload} is proven, and was removed from the bucket meanwhile"
        self.bucket.put_once(manifest_key(record.key), unproven.graphs)
        return self._settle(record) or "the manifest was written and is gone again"

    def _settle(self, record: StartRecord) -> str | None:
        """What there is to say when the key has its manifest; None when it has none.

        Another pod's graphs are as good as ours: ours go.
        """
        manifest = self.bucket.read(ArtifactManifest, manifest_key(record.key))
        if manifest is None:
            return None
        own = record.upload or upload_folder(record.key, record.start_id)
        if manifest.folder == own:
            return f"{own} is in the bucket: {manifest.size_bytes} bytes"
        if record.upload:
            return f"{manifest.folder} was in the bucket first; {own} stays unproven"
        self.bucket.remove(own)
        return f"{manifest.folder} was in the bucket first; nothing of {own} is kept"


def _manifest_of(record: StartRecord) -> ArtifactManifest:
    folder = Path(record.graphs)
    files = tuple(inventory(folder))
    if not files:
        raise NothingToUploadError(f"the server is healthy, but {folder} holds no compiled graphs")
    return ArtifactManifest(
        key=record.key,
        inputs=record.inputs,
        checkpoints=record.checkpoints,
        folder=upload_folder(record.key, record.start_id),
        files=files,
        compile_seconds=max(0.0, last_written_unix_s(folder) - record.started_at_unix_s),
        uploaded_at_unix_s=time.time(),
    )


def wait_for_health(
    scratch: Path,
    url: str,
    stop: threading.Event,
    *,
    period_seconds: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> StartRecord | None:
    """The record of the start that is healthy; None when this process has to end first.

    With graphs that no device had loaded before, it must have answered too.
    """
    while not stop.is_set():
        meanwhile()
        before = read_record(scratch)
        # Read again after the answer: it may have been an older server's.
        is_same = before and is_healthy(url) and read_record(scratch) == before
        if before and is_same and (before.origin != "unproven" or is_proven(scratch, before)):
            return before
        stop.wait(period_seconds)
    return None


@dataclass(kw_only=True)
class Rejections:
    """Tells everybody what this pod has rejected; a failure is logged once and tried again."""

    scratch: Path
    bucket: Callable[[], GraphBucket]
    _told: Rejection | None = None
    _failed: bool = False

    def tell(self) -> None:
        """Put what is not in the bucket yet. What another pod has put stays."""
        rejection = read_rejection(self.scratch)
        if rejection is None or rejection == self._told:
            return
        try:
            self.bucket().put_once(rejected_key(rejection.key), rejection)
        except Exception as error:  # noqa: BLE001 (whatever it was, the server goes on)
            if not self._failed:
                _LOG.warning("not rejected for others: %s: %s", type(error).__name__, error)
            self._failed = True
        else:
            _LOG.info("%s is rejected: %s", rejection.folder, rejection.reason)
            self._told = rejection


def upload_with_retries(
    uploader: Uploader,
    record: StartRecord,
    stop: threading.Event,
    delays_seconds: Sequence[float] = RETRY_DELAYS_SECONDS,
) -> bool:
    """Upload; whether it is done. Gives up after the last delay, or when the pod ends."""
    for delay in (*delays_seconds, None):
        try:
            _LOG.info(uploader.upload(record))
        except (NothingToUploadError, StartedAnewError) as over:
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
    """Wait, upload, stay until SIGTERM. What is being uploaded then may still be finished."""
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
    rejections = Rejections(scratch=arguments.scratch, bucket=lambda: _bucket(arguments))
    while record := wait_for_health(
        arguments.scratch,
        arguments.health_url,
        stop,
        period_seconds=arguments.health_period_seconds,
        meanwhile=rejections.tell,
    ):
        if record.origin == "bucket":
            _LOG.info("%s was loaded from the bucket: nothing to upload", record.key)
            return
        if record.origin == "compiled":
            # From here on a restart of the server in this pod finds its graphs on the disk.
            mark_whole(arguments.scratch, record)
        rejections.tell()
        uploader = Uploader(bucket=_bucket(arguments), scratch=arguments.scratch)
        done = upload_with_retries(uploader, record, stop)
        if done or read_record(arguments.scratch) == record:
            return


def _bucket(arguments: argparse.Namespace) -> GraphBucket:
    # Not at the top: a container that lacks it must stay all the same.
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, retries={"mode": "standard", "max_attempts": 4})
    client = boto3.client("s3", config=config)
    return GraphBucket(client=client, name=arguments.bucket)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="upload", description=__doc__)
    parser.add_argument("--scratch", required=True, type=Path, help="the server's scratch folder")
    parser.add_argument("--bucket", required=True, help="the artifacts bucket")
    parser.add_argument("--health-url", required=True, help="answers 200 once the server serves")
    parser.add_argument(
        "--health-period-seconds",
        type=float,
        default=HEALTH_PERIOD_SECONDS,
        help="time between two looks (default: %(default)s)",
    )
    return parser
