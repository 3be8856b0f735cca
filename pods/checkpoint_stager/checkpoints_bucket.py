"""Finds which files of a model the checkpoints bucket has, and uploads and reads single files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records import checkpoints
from draftworth.records.codec import RecordError, dump_record
from draftworth.untrusted import TooLargeError, one_line, read_at_most
from pods.checkpoint_stager.model_files import HubFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Names of the metadata of every uploaded object: the hash that the hub lists, and the SHA-256. With
# them, a later pod compares an object with the hub's file without a download.
CONTENT_ID = "hub-content-id"
SHA256 = "sha256"

PART_BYTES = 64 * 1024 * 1024
PARTS_AT_ONCE = 4
TRANSFER = TransferConfig(
    multipart_threshold=PART_BYTES,
    multipart_chunksize=PART_BYTES,
    max_concurrency=PARTS_AT_ONCE,
)
# The longest reason in `_FAILED.json`. It ends with what the user must do next, so it must not be
# cut off.
_REASON_CHARACTERS = 1000

M = TypeVar("M", checkpoints.ReadyModel, checkpoints.StagingPlan)


class StoreError(DraftworthError):
    """A request to S3 failed."""


class MissingError(StoreError):
    """S3 has no such object."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The folder of one model in the checkpoints bucket.

    The S3 client repeats failed requests; if S3 still fails, a method raises StoreError.
    transfer: boto3's settings for files that are sent in parts.
    """

    client: S3Client
    bucket: str
    model: str
    revision: str
    transfer: TransferConfig = TRANSFER

    @property
    def name(self) -> str:
        return f"{self.model} at {self.revision}"

    def address(self, path: str) -> str:
        return f"s3://{self.bucket}/{self._key(path)}"

    def ready(self) -> checkpoints.ReadyModel | None:
        try:
            return self._read(checkpoints.ReadyModel, checkpoints.READY_MARKER)
        except (RecordError, TooLargeError):
            return None

    def planned_commit(self) -> str | None:
        """Return the commit that an earlier pod began to copy; None if there was no such pod.

        It raises UserInputError if the file that names the commit is invalid.
        """
        try:
            plan = self._read(checkpoints.StagingPlan, checkpoints.PLAN_MARKER)
        except (RecordError, TooLargeError) as error:
            raise UserInputError(
                f"{self.address(checkpoints.PLAN_MARKER)}: {error}; this file says which commit is "
                "being staged; next: delete it and stage again"
            ) from error
        return plan.commit if plan else None

    def plan(self, commit: str) -> str:
        """Record which commit is copied, unless one is recorded; return the recorded commit."""
        plan = checkpoints.StagingPlan(model=self.model, revision=self.revision, commit=commit)
        try:
            self._put(checkpoints.PLAN_MARKER, plan, IfNoneMatch="*")
        except StoreError:
            # Another stager was first, or S3's response to our own request was lost.
            earlier = self.planned_commit()
            if earlier is None:
                raise
            return earlier
        return commit

    def staged(self, file: HubFile) -> checkpoints.StoredFile | None:
        """Return the bucket's copy of a file of the hub; None if it is missing or differs.

        The copy's size and hash must be those that the hub lists.
        """
        try:
            with self._failures_of("look for", file.path):
                head = self.client.head_object(Bucket=self.bucket, Key=self._key(file.path))
        except MissingError:
            return None
        metadata = head["Metadata"]
        if head["ContentLength"] != file.size_bytes or metadata.get(CONTENT_ID) != file.content_id:
            return None
        sha256 = metadata.get(SHA256)
        return _staged(file, sha256) if sha256 else None

    def upload(self, path: Path, file: HubFile, sha256: str) -> checkpoints.StoredFile:
        """Upload a file whose hash was checked, in parts if it is large; return the stored file.

        S3 checks each part's SHA-256. The object exists only after its last part was uploaded.
        """
        metadata = {CONTENT_ID: file.content_id, SHA256: sha256}
        with self._failures_of("write", file.path):
            self.client.upload_file(
                str(path),
                self.bucket,
                self._key(file.path),
                ExtraArgs={"ChecksumAlgorithm": "SHA256", "Metadata": metadata},
                Config=self.transfer,
            )
        return _staged(file, sha256)

    def download(self, path: str, target: Path) -> None:
        with self._failures_of("read", path):
            self.client.download_file(
                self.bucket, self._key(path), str(target), Config=self.transfer
            )

    def put_ready(self, ready: checkpoints.ReadyModel) -> None:
        """Write `_READY.json`, which says that the model is complete. Call this last."""
        self._put(checkpoints.READY_MARKER, ready, ContentType="application/json")

    def put_failed(self, reason: str) -> None:
        failed = checkpoints.FailedModel(
            model=self.model,
            revision=self.revision,
            reason=one_line(reason, characters=_REASON_CHARACTERS),
            failed_at_unix_s=time.time(),
        )
        self._put(checkpoints.FAILED_MARKER, failed, ContentType="application/json")

    def _put(self, path: str, record: object, **more: Any) -> None:
        with self._failures_of("write", path):
            self.client.put_object(
                Bucket=self.bucket,
                Key=self._key(path),
                Body=dump_record(record, indent=1),
                ChecksumAlgorithm="SHA256",
                **more,
            )

    def _key(self, path: str) -> str:
        return f"{checkpoints.checkpoint_prefix(self.model, self.revision)}/{path}"

    def _read(self, kind: type[M], path: str) -> M | None:
        """Load a marker file of the model, such as `_READY.json`; return None if it is missing.

        It raises RecordError or TooLargeError if the file is invalid.
        """
        try:
            with self._failures_of("read", path):
                answer = self.client.get_object(Bucket=self.bucket, Key=self._key(path))
                data = read_at_most(answer["Body"])
        except MissingError:
            return None
        return checkpoints.load_marker(kind, data, self.model, self.revision)

    @contextmanager
    def _failures_of(self, action: str, path: str) -> Iterator[None]:
        """Turn boto3's errors in the `with` block into StoreError, or its subclass MissingError.

        MissingError: the object does not exist. action: what the block does with the model's file
        `path`, for the error's text "cannot ACTION".
        """
        try:
            yield
        except (ClientError, BotoCoreError, Boto3Error) as error:
            code = _code(error)
            text = f"{self.address(path)}: cannot {action}: {error}"
            if code in ("404", "NoSuchKey", "NotFound"):
                raise MissingError(text) from error
            # Not a UserInputError, after which no pod tries again: AWS refuses a role for some
            # seconds after its creation, so another try may succeed.
            if code in ("403", "AccessDenied", "NoSuchBucket"):
                text += "; next: check the bucket's name and that the stager's role may write there"
            raise StoreError(text) from error


def _code(error: BaseException) -> str:
    wrapped = error if isinstance(error, ClientError) else error.__context__
    if not isinstance(wrapped, ClientError):
        return ""
    return str(wrapped.response.get("Error", {}).get("Code", ""))


def _staged(file: HubFile, sha256: str) -> checkpoints.StoredFile:
    return checkpoints.StoredFile(path=file.path, size_bytes=file.size_bytes, sha256=sha256)
